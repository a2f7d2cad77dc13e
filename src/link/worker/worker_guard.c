/* Who serves the socket: the runner while it waits, the guard thread while the runner is late.
 *
 * The runner stores the time of each step (`runner_seen`), and sets the guard's timer if it is not
 * set: at most one system call per millisecond. When the timer fires, the guard
 *   - sleeps without a timer if the runner is parked, since the runner reads when it wakes,
 *   - sets the timer again if the runner made a step within the last millisecond,
 *   - else takes over: writes the output, and waits for the socket.
 * An event loop that waits in its own poll looks late too. Then the guard only watches the socket:
 * when something arrives, the loop gets AS_WORKER_GRACE before the guard reads in its place.
 *
 * After as_worker_stop whichever of the two is first says DRAIN: the runner's handler may take
 * long, and what replaces this worker should start at once.
 */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void send_link(struct as_worker *w, struct as_worker_link *l)
{
    int err = as_transport_is_open(l->transport)
                  ? l->transport->ops->flush(l->transport, &l->out, -1)
                  : 0;

    if (err)
        as_worker_close_link(w, l,
                             err == AS_ENOMEM ? "out of memory for what is to be sent"
                                              : "the dispatcher closed the link");
}

void as_worker_send(struct as_worker *w)
{
    AS_WORKER_LINKS(w, l) send_link(w, l);
    if (!as_worker_has_out(w))
        return;
    if (w->parked)
        as_worker_wake(w); /* so that it also waits for room in the socket */
    else
        as_worker_arm_guard(w);
}

void as_worker_flush(struct as_worker *w)
{
    pthread_mutex_lock(&w->mu);
    as_worker_send(w);
    pthread_mutex_unlock(&w->mu);
}

/* --- waking the runner --- */

void as_worker_wake(struct as_worker *w)
{
    uint64_t one = 1;

    if (!atomic_exchange(&w->woken, true))
        (void)!write(w->wake_fd, &one, sizeof(one));
}

void as_worker_wake_guard(struct as_worker *w)
{
    uint64_t one = 1;

    (void)!write(w->guard_fd, &one, sizeof(one));
}

/* Called before the state is checked: as_worker_wake skips the write while `woken` is set, so later
 * changes must be able to set it again. */
static void clear_wake(struct as_worker *w)
{
    uint64_t n;

    (void)!read(w->wake_fd, &n, sizeof(n));
    w->stat.others += 2; /* the read, and the write that woke us */
    atomic_store(&w->woken, false);
}

/* --- the runner --- */

static bool is_flushed(const struct as_worker_link *l)
{
    return !as_transport_is_open(l->transport) || (!l->wait_pong && !l->out.bytes);
}

/* The result of as_worker_wait and as_worker_poll. AS_EAGAIN: nothing to do. */
static int runner_status(struct as_worker *w)
{
    bool held = as_worker_waiting(w) || w->n_running || w->n_calls;

    if (w->draining && !held && is_flushed(&w->links[0]) && is_flushed(&w->links[1]))
        return AS_ECANCELLED;
    if (w->link_lost && !(w->draining && held))
        return AS_EOF;
    if (as_worker_has_startable(w) || atomic_load_explicit(&w->n_asks, memory_order_relaxed) ||
        atomic_load_explicit(&w->handover_requested, memory_order_relaxed) ||
        atomic_load_explicit(&w->policy.n, memory_order_relaxed) ||
        (w->takes_news && atomic_load_explicit(&w->n_news, memory_order_relaxed)))
        return 0;
    return AS_EAGAIN;
}

/* Replies, as to PING, are sent at once: they do not wait for a handler. */
void as_worker_read_and_send(struct as_worker *w)
{
    as_worker_read(w);
    if (as_worker_has_out(w))
        as_worker_send(w);
}

/* Fills in the sockets of both links; poll ignores a missing one (-1). room: also waits for room,
 * if there is output. */
static void fill_pollfds(const struct as_worker *w, struct pollfd p[2], bool room)
{
    for (int i = 0; i < 2; i++) {
        const struct as_worker_link *l = &w->links[i];

        p[i] = (struct pollfd){.fd = l->transport->fd, .events = POLLIN};
        if (room && l->out.bytes)
            p[i].events |= POLLOUT;
    }
}

bool as_worker_sleep(struct as_worker *w, as_ns until)
{
    struct pollfd p[3] = {{.fd = w->wake_fd, .events = POLLIN}};
    as_ns now = until == AS_NEVER ? 0 : as_clock_now();
    as_ns left = until > now ? until - now : 0;
    struct timespec t = {.tv_sec = (time_t)(left / AS_SEC), .tv_nsec = (long)(left % AS_SEC)};
    int n;

    fill_pollfds(w, p + 1, true);
    w->parked = true;
    pthread_mutex_unlock(&w->mu);
    n = ppoll(p, 3, until == AS_NEVER ? NULL : &t, NULL);
    pthread_mutex_lock(&w->mu);
    w->parked = false;
    w->stat.waits++;
    w->stat.wakes++;
    if (n > 0 && p[0].revents)
        clear_wake(w);
    return n < 0;
}

static bool is_drained(const struct as_worker_link *l)
{
    return !as_transport_is_open(l->transport) || (l->rx.drained && !l->n_waiting);
}

/* A driver has no requests, so it does not call as_worker_next, which does this for others. */
static void move_driver(struct as_worker *w)
{
    if (as_worker_is_driver(w) &&
        atomic_load_explicit(&w->handover_requested, memory_order_relaxed))
        as_worker_handover_start(w);
}

int as_worker_wait(struct as_worker *w)
{
    int r;

    pthread_mutex_lock(&w->mu);
    move_driver(w);
    w->recent_clock = 0;
    as_worker_set_held(w, 0);
    if (is_drained(&w->links[0]) && is_drained(&w->links[1]))
        as_worker_send(w); /* the last read emptied the sockets */
    else
        as_worker_read_and_send(w);
    r = runner_status(w);
    if (r == AS_EAGAIN) {
        (void)as_worker_sleep(w, AS_NEVER);
        as_worker_read_and_send(w);
        r = runner_status(w);
        if (r == AS_EAGAIN)
            r = 0; /* so that the caller can handle signals */
    }
    w->runner_seen = as_clock_now();
    as_worker_arm_guard(w); /* the next step of the caller may take long */
    pthread_mutex_unlock(&w->mu);
    return r;
}

int as_worker_fd(const struct as_worker *w)
{
    return w->ep_fd;
}

int as_worker_poll(struct as_worker *w)
{
    int r;

    pthread_mutex_lock(&w->mu);
    w->event_loop = true;
    w->stat.wakes++; /* of the event loop itself */
    w->recent_clock = 0;
    w->runner_seen = as_clock_now();
    if (atomic_load(&w->woken))
        clear_wake(w);
    move_driver(w);
    as_worker_read_and_send(w);
    r = runner_status(w);
    pthread_mutex_unlock(&w->mu);
    return r;
}

/* --- the guard --- */

static void set_timer(struct as_worker *w, as_ns in)
{
    struct itimerspec at = {.it_value = {.tv_nsec = (long)in}};

    w->armed = true;
    w->stat.others++;
    (void)timerfd_settime(w->timer_fd, 0, &at, NULL);
}

void as_worker_arm_guard(struct as_worker *w)
{
    if (!w->armed)
        set_timer(w, AS_WORKER_RUNNER_LATE);
}

/* The guard's state between two rounds. */
struct guard_state {
    bool watch;  /* it waits for the sockets to be readable … */
    bool graced; /* it has given the event loop AS_WORKER_GRACE … */
    as_ns grace; /* … when runner_seen was this */
    bool room;   /* … or to have room */
};

/* Serves the sockets in the runner's place. Requests that can start wait for the runner; an event
 * loop must be woken for them. */
static void take_over(struct as_worker *w, struct guard_state *k)
{
    as_worker_read(w);
    as_worker_send(w);
    if (w->event_loop && runner_status(w) != AS_EAGAIN)
        as_worker_wake(w);
    k->watch = true;
    k->room = true;
}

static bool is_live(const struct as_worker *w)
{
    return w->links[0].state == AS_WORKER_LIVE || w->links[1].state == AS_WORKER_LIVE;
}

/* A link that is not live yet is left to the runner, which connects. */
static void drain_if_stopped(struct as_worker *w)
{
    if (atomic_load(&w->stop_requested) && !w->draining && is_live(w))
        as_worker_drain_locked(w);
}

static void check_runner(struct as_worker *w, struct guard_state *k, bool readable)
{
    as_ns now = as_clock_now();
    bool graced = k->graced && k->grace == w->runner_seen;

    k->graced = false;
    if (!is_live(w) || w->parked) {
        k->watch = false;
        if (as_worker_has_out(w))
            as_worker_send(w);
        return;
    }
    if (now - w->runner_seen < AS_WORKER_RUNNER_LATE) {
        k->watch = false;
        if (as_worker_has_out(w)) /* parts of a streaming handler */
            as_worker_send(w);
        as_worker_arm_guard(w);
        return;
    }
    if (w->event_loop && readable && !graced) {
        k->graced = true;
        k->grace = w->runner_seen;
        k->watch = false;
        set_timer(w, AS_WORKER_GRACE);
        return;
    }
    if (w->event_loop && !readable && !graced && !as_worker_has_out(w)) {
        k->watch = true;
        k->room = false;
        return;
    }
    take_over(w, k);
}

static void clear_event(struct as_worker *w, int fd)
{
    uint64_t n;

    w->stat.others++;
    (void)!read(fd, &n, sizeof(n));
}

static void *guard_main(void *arg)
{
    struct as_worker *w = arg;
    struct guard_state k = {0};

    for (;;) {
        struct pollfd p[4] = {{.fd = w->guard_fd, .events = POLLIN},
                              {.fd = w->timer_fd, .events = POLLIN},
                              {.fd = -1},
                              {.fd = -1}};

        pthread_mutex_lock(&w->mu);
        if (k.watch)
            fill_pollfds(w, p + 2, k.room);
        pthread_mutex_unlock(&w->mu);
        if (poll(p, 4, -1) < 0)
            continue;
        pthread_mutex_lock(&w->mu);
        if (w->guard_over)
            break;
        w->stat.waits++;
        w->stat.wakes++;
        if (p[0].revents) {
            clear_event(w, w->guard_fd);
            drain_if_stopped(w);
        }
        if (p[1].revents) {
            clear_event(w, w->timer_fd);
            w->armed = false;
        }
        check_runner(w, &k, p[2].revents || p[3].revents);
        as_worker_count_memory(w);
        as_worker_publish_stat(w);
        pthread_mutex_unlock(&w->mu);
    }
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

int as_worker_start_thread(pthread_t *t, void *(*run)(void *), void *arg)
{
    sigset_t all, old;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(t, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err ? AS_EIO : 0;
}

int as_worker_guard_start(struct as_worker *w)
{
    w->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    w->guard_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->timer_fd < 0 || w->guard_fd < 0)
        return AS_EIO;
    return as_worker_start_thread(&w->guard, guard_main, w);
}

void as_worker_guard_stop(struct as_worker *w)
{
    pthread_mutex_lock(&w->mu);
    w->guard_over = true;
    pthread_mutex_unlock(&w->mu);
    as_worker_wake_guard(w);
    pthread_join(w->guard, NULL);
}
