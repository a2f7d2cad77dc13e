/* What calls have answered: reading it, waiting for it, news for event loops. */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- waiting threads --- */

/* 0, or the errno of the wait. */
static int futex_wait(_Atomic uint32_t *at, as_ns until)
{
    struct timespec t = {.tv_sec = (time_t)(until / AS_SEC), .tv_nsec = (long)(until % AS_SEC)};
    long r = syscall(SYS_futex, at, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0,
                     until == AS_NEVER ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY);

    return r < 0 ? errno : 0;
}

static void wake_waiters(struct as_worker_out *o)
{
    for (struct as_worker_waiter *t = o->waiters; t; t = t->next) {
        atomic_store(&t->woken, 1);
        (void)syscall(SYS_futex, &t->woken, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
    }
}

static void remove_waiter(struct as_worker_out *o, const struct as_worker_waiter *t)
{
    struct as_worker_waiter **at = &o->waiters;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
}

/* --- news --- */

void as_worker_forget_news(struct as_worker *w, struct as_worker_out *o)
{
    if (!o->owns_news)
        return;
    o->owns_news = false;
    as_list_remove(&o->news);
    atomic_fetch_sub_explicit(&w->n_news, 1, memory_order_relaxed);
}

void as_worker_out_notify(struct as_worker *w, struct as_worker_out *o)
{
    if (!o->held)
        return;
    if (o->waiters) {
        wake_waiters(o);
        return;
    }
    if (o->owns_news)
        return;
    o->owns_news = true;
    as_list_push(&w->news, &o->news);
    atomic_fetch_add_explicit(&w->n_news, 1, memory_order_relaxed);
    if (w->takes_news && (w->event_loop || w->parked) && !pthread_equal(pthread_self(), w->runner))
        as_worker_wake(w);
}

struct as_worker_out *as_worker_next_news(struct as_worker *w)
{
    struct as_worker_out *o = NULL;

    if (w->takes_news && !atomic_load_explicit(&w->n_news, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&w->mu);
    w->takes_news = true;
    if (!as_list_empty(&w->news)) {
        o = AS_LIST_ENTRY(w->news.next, struct as_worker_out, news);
        as_worker_forget_news(w, o);
    }
    pthread_mutex_unlock(&w->mu);
    return o;
}

/* --- messages --- */

void as_worker_out_drop_partial(struct as_worker *w, struct as_worker_out *o)
{
    if (!o->partial)
        return;
    if (o->link->rx.into == o->partial)
        o->partial->orphan = true; /* the receiver refers to it until the frame is complete */
    else
        as_worker_req_put(w, o->partial);
    o->partial = NULL;
}

void as_worker_out_drop_messages(struct as_worker *w, struct as_worker_out *o)
{
    struct as_list *n;

    while ((n = as_list_pop(&o->messages)))
        as_worker_req_put(w, AS_LIST_ENTRY(n, struct as_worker_req, node));
    as_worker_out_drop_partial(w, o);
}

static void grant(struct as_worker *w, struct as_worker_out *o, struct as_frame_window g)
{
    struct as_frame_credit c = {.messages = (uint32_t)g.messages, .bytes = (uint64_t)g.bytes};

    o->credit.messages += g.messages;
    o->credit.bytes += g.bytes;
    as_frame_put_credit(&o->link->out, o->stream, &c);
    as_worker_arm_guard(w);
}

static bool takes_credit(const struct as_worker_out *o)
{
    return (o->flags & AS_CALL_F_STREAM) && o->sent && !o->over;
}

/* A message of o was read, and is not needed any more. */
static void consume(struct as_worker *w, struct as_worker_out *o, struct as_worker_req *in)
{
    struct as_frame_window *owed = &o->owed;

    owed->messages += o->window != 0; /* without a window the program grants messages */
    owed->bytes += (int64_t)in->cost;
    as_worker_req_put(w, in);
    if (!takes_credit(o) || ((!o->window || 2 * owed->messages < (int64_t)o->window) &&
                             2 * owed->bytes < w->inputs.bytes))
        return;
    grant(w, o, *owed);
    *owed = (struct as_frame_window){0};
}

void as_worker_out_detached(struct as_worker *w, struct as_worker_out *o)
{
    struct as_list *n;

    o->window = AS_MAX(o->window, 16u); /* nobody else grants */
    if (o->current)
        consume(w, o, o->current);
    o->current = NULL;
    while ((n = as_list_pop(&o->messages)))
        consume(w, o, AS_LIST_ENTRY(n, struct as_worker_req, node));
    if (takes_credit(o) && !as_frame_window_is_open(&o->credit))
        grant(w, o, (struct as_frame_window){o->window, w->inputs.bytes});
}

void as_worker_out_deliver(struct as_worker *w, struct as_worker_out *o, struct as_worker_req *in,
                           bool last)
{
    o->partial = NULL;
    if (last)
        o->over = true;
    if (o->held)
        as_list_push(&o->messages, &in->node);
    else
        consume(w, o, in);
    as_worker_out_notify(w, o);
    if (last)
        as_worker_out_closed(w, o);
}

void as_worker_out_grant(struct as_worker_out *o, uint32_t messages)
{
    struct as_worker *w = o->w;
    int64_t n = AS_MIN(messages, AS_WORKER_OUT_MESSAGES);

    pthread_mutex_lock(&w->mu);
    if (!(o->flags & AS_CALL_F_STREAM) || o->over) {
        pthread_mutex_unlock(&w->mu);
        return;
    }
    if (!o->sent) {
        o->first_grant = (uint32_t)AS_MIN(o->first_grant + n, (int64_t)AS_WORKER_OUT_MESSAGES);
    } else {
        n = AS_MIN(n, (int64_t)AS_WORKER_OUT_MESSAGES - AS_MAX(o->credit.messages, (int64_t)0));
        grant(w, o,
              (struct as_frame_window){n, AS_MAX(w->inputs.bytes - o->credit.bytes, (int64_t)0)});
        o->owed.bytes = 0;
        as_worker_out_send(w);
    }
    pthread_mutex_unlock(&w->mu);
}

static bool has_something(const struct as_worker_out *o)
{
    return o->over || o->slot_news || !as_list_empty(&o->messages);
}

static int read_locked(struct as_worker *w, struct as_worker_out *o,
                       struct as_worker_out_msg *ret_m)
{
    struct as_list *n;

    if (o->current) {
        consume(w, o, o->current);
        as_worker_out_send(w);
    }
    n = as_list_pop(&o->messages);
    o->current = n ? AS_LIST_ENTRY(n, struct as_worker_req, node) : NULL;
    if (n) {
        *ret_m = (struct as_worker_out_msg){.body = &o->current->call_body,
                                            .meta = o->current->msg.meta,
                                            .n_meta = o->current->msg.n_meta,
                                            .last = o->over && !o->status &&
                                                    as_list_empty(&o->messages)};
        return 0;
    }
    if (!o->over && !o->slot_news)
        return AS_EAGAIN;
    if (!o->over) {
        o->slot_news = false;
        *ret_m = (struct as_worker_out_msg){.meta = &o->place, .n_meta = 1};
        return 0;
    }
    if (!o->status)
        return AS_EOF;
    *ret_m =
        (struct as_worker_out_msg){.status = o->status, .flags = o->error_flags, .text = o->why};
    return AS_EHANDLER;
}

int as_worker_out_read(struct as_worker_out *o, struct as_worker_out_msg *ret_m)
{
    struct as_worker *w = o->w;
    int r;

    pthread_mutex_lock(&w->mu);
    r = read_locked(w, o, ret_m);
    pthread_mutex_unlock(&w->mu);
    return r;
}

void *as_worker_out_hold(struct as_worker_out *o)
{
    return o->current ? as_worker_req_hold(o->current) : NULL;
}

/* --- waiting --- */

/* Ends o if its deadline has passed before it was sent. True: it did. */
static bool expire(struct as_worker *w, struct as_worker_out *o)
{
    if (!o->kept || o->deadline > as_clock_now())
        return false;
    as_worker_out_end(w, o, AS_STATUS_DEADLINE_EXCEEDED, 0,
                      AS_STR("the deadline has passed before the call was sent"), false);
    return true;
}

/* Until when a thread may sleep: a call that waits to be sent has a deadline of its own. */
static as_ns wait_until(const struct as_worker_out *o, as_ns until)
{
    return o->kept ? AS_MIN(until, o->deadline) : until;
}

/* Executes a request beyond the slots on this stack. False: there is none. */
static bool run_nested(struct as_worker *w)
{
    bool ran;

    if (!w->run_nested || !(w->links[0].n_beyond || w->links[1].n_beyond))
        return false;
    pthread_mutex_unlock(&w->mu);
    ran = w->run_nested(w, w->nested_ctx);
    pthread_mutex_lock(&w->mu);
    if (ran)
        as_worker_send(w);
    return ran;
}

/* In the runner: nobody else reads the socket now, and nobody else connects. */
static int wait_in_runner(struct as_worker *w, struct as_worker_out *o, as_ns until)
{
    int r = 0;

    if (!has_something(o))
        as_worker_read_and_send(w);
    while (!has_something(o)) {
        if (!as_worker_connected(w)) {
            as_worker_fail_unsent(w, "there is no link to the server");
            continue;
        }
        if (run_nested(w))
            continue;
        if (expire(w, o))
            break;
        if (until != AS_NEVER && as_clock_now() >= until) {
            r = AS_EDEADLINE;
            break;
        }
        if (as_worker_sleep(w, wait_until(o, until))) {
            r = AS_EAGAIN;
            break;
        }
        as_worker_read_and_send(w);
        if (atomic_load_explicit(&w->handover_requested, memory_order_relaxed))
            as_worker_handover_start(w);
    }
    w->runner_seen = as_clock_now();
    as_worker_arm_guard(w);
    if (w->event_loop)
        as_worker_wake(w); /* other things that arrived are handled in its next turn */
    return r;
}

static int wait_in_thread(struct as_worker *w, struct as_worker_out *o, as_ns until)
{
    while (!has_something(o)) {
        struct as_worker_waiter t = {.next = o->waiters};
        as_ns at = wait_until(o, until);
        int err;

        o->waiters = &t;
        as_worker_forget_news(w, o);
        pthread_mutex_unlock(&w->mu);
        err = futex_wait(&t.woken, at);
        pthread_mutex_lock(&w->mu);
        remove_waiter(o, &t);
        if (has_something(o))
            break;
        if (err == EINTR)
            return AS_EAGAIN;
        if (err == ETIMEDOUT && !expire(w, o) && as_clock_now() >= until)
            return AS_EDEADLINE;
    }
    return 0;
}

int as_worker_out_wait(struct as_worker_out *o, as_ns timeout)
{
    struct as_worker *w = o->w;
    as_ns now = timeout == AS_NEVER ? 0 : as_clock_now();
    as_ns until = timeout < AS_NEVER - now ? now + timeout : AS_NEVER;
    int r = 0;

    pthread_mutex_lock(&w->mu);
    if (!has_something(o) && as_worker_has_out(w))
        as_worker_send(w);
    if (!has_something(o))
        r = pthread_equal(pthread_self(), w->runner) ? wait_in_runner(w, o, until)
                                                     : wait_in_thread(w, o, until);
    pthread_mutex_unlock(&w->mu);
    return r;
}
