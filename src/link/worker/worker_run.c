/* The main loop of a worker (as_worker_run): connects, runs handlers, reconnects, drains.
 *
 * Handlers run here or in a pool of threads. With threads the runner starts requests and queues
 * them for the pool; the slots bound that queue. Threads answer and send by themselves.
 */
#include "link/worker/worker_internal.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#define CONNECT_TIMEOUT (10 * AS_SEC)
#define BEYOND_FIRST    4u
#define PAUSE_FIRST     (10 * AS_MS) /* doubles with each attempt, to AS_WORKER_RETRY_MAX */

/* --- stopping --- */

/* For the signal handler, which has no argument. One worker per process. */
static struct as_worker *volatile on_signal;

static void stop_on_signal(int signum AS_UNUSED)
{
    if (on_signal)
        as_worker_stop(on_signal);
}

void as_worker_stop(struct as_worker *w)
{
    atomic_store(&w->stop_requested, true);
    as_worker_wake(w);
    as_worker_wake_guard(w);
}

struct signals {
    struct sigaction term, intr;
};

static void install_signals(struct as_worker *w, struct signals *old)
{
    struct sigaction sa = {.sa_handler = stop_on_signal};

    if (w->conf.flags & AS_WORKER_NO_SIGNALS)
        return;
    on_signal = w;
    sigaction(SIGTERM, &sa, &old->term);
    sigaction(SIGINT, &sa, &old->intr);
}

static void restore_signals(struct as_worker *w, const struct signals *old)
{
    if (w->conf.flags & AS_WORKER_NO_SIGNALS)
        return;
    sigaction(SIGTERM, &old->term, NULL);
    sigaction(SIGINT, &old->intr, NULL);
    on_signal = NULL;
}

/* --- threads that run handlers --- */

/* Requests that wait for a thread. */
struct thread_queue {
    struct thread_pool *pool;
    pthread_cond_t work;
    struct as_worker_req **ring;
    uint32_t cap, first, n;
    pthread_t *threads;
    uint32_t n_threads, n_idle;
};

struct thread_pool {
    struct as_worker *w;
    pthread_mutex_t mu;
    bool over;
    struct thread_queue slots;  /* its ring has as many places as there are slots, or ever were */
    struct thread_queue beyond; /* each request beyond the slots has a thread at once */
};

static void *thread_main(void *arg)
{
    struct thread_queue *s = arg;
    struct thread_pool *c = s->pool;
    struct as_worker_executor *h = as_worker_executor_new(c->w);

    pthread_mutex_lock(&c->mu);
    for (;;) {
        struct as_worker_req *q;

        s->n_idle++;
        while (!s->n && !c->over)
            pthread_cond_wait(&s->work, &c->mu);
        s->n_idle--;
        if (!s->n)
            break;
        q = s->ring[s->first];
        s->first = (s->first + 1) % s->cap;
        s->n--;
        pthread_mutex_unlock(&c->mu);
        as_worker_execute(h, q);
        as_worker_flush(c->w); /* the runner may sleep, so nobody else would send the answer */
        pthread_mutex_lock(&c->mu);
    }
    pthread_mutex_unlock(&c->mu);
    as_worker_executor_free(h);
    return NULL;
}

/* Slots were added since the ring was made, or more requests are beyond them. */
static void grow_ring(struct thread_queue *s)
{
    struct as_worker_req **ring = as_xalloc(2 * (size_t)s->cap * sizeof(struct as_worker_req *));

    for (uint32_t i = 0; i < s->n; i++)
        ring[i] = s->ring[(s->first + i) % s->cap];
    free(s->ring);
    s->ring = ring;
    s->first = 0;
    s->cap *= 2;
}

static int add_thread(struct thread_queue *s)
{
    s->threads = as_xrealloc(s->threads, (s->n_threads + 1) * sizeof(*s->threads));
    if (as_worker_start_thread(&s->threads[s->n_threads], thread_main, s))
        return AS_EIO;
    s->n_threads++;
    return 0;
}

static void enqueue_request(struct thread_pool *c, struct as_worker_req *q)
{
    struct thread_queue *s = as_worker_req_beyond(q) ? &c->beyond : &c->slots;
    int err = 0;

    pthread_mutex_lock(&c->mu);
    if (s == &c->beyond && s->n_idle <= s->n)
        err = add_thread(s);
    if (!err) {
        AS_ASSERT(s->cap);
        if (s->n == s->cap)
            grow_ring(s);
        s->ring[(s->first + s->n++) % s->cap] = q;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&c->mu);
    if (err)
        as_worker_fail(c->w, q, AS_STATUS_RESOURCE_EXHAUSTED,
                       AS_STR("the worker cannot start a thread for a call beyond its slots"));
}

static void queue_init(struct thread_queue *s, struct thread_pool *c, uint32_t cap)
{
    *s = (struct thread_queue){.pool = c, .cap = cap};
    s->ring = as_xalloc(cap * sizeof(struct as_worker_req *));
    pthread_cond_init(&s->work, NULL);
}

static void queue_fini(struct thread_queue *s)
{
    for (uint32_t i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    pthread_cond_destroy(&s->work);
    free(s->threads);
    free(s->ring);
}

/* Queued requests are still answered. */
static void thread_pool_free(struct thread_pool *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->mu);
    c->over = true;
    pthread_cond_broadcast(&c->slots.work);
    pthread_cond_broadcast(&c->beyond.work);
    pthread_mutex_unlock(&c->mu);
    queue_fini(&c->slots);
    queue_fini(&c->beyond);
    pthread_mutex_destroy(&c->mu);
    free(c);
}

static struct thread_pool *thread_pool_new(struct as_worker *w)
{
    struct thread_pool *c = as_xalloc(sizeof(*c));
    int err = 0;

    c->w = w;
    pthread_mutex_init(&c->mu, NULL);
    queue_init(&c->slots, c, w->conf.slots);
    queue_init(&c->beyond, c, BEYOND_FIRST);
    while (!err && c->slots.n_threads < w->conf.threads)
        err = add_thread(&c->slots);
    if (!err)
        return c;
    thread_pool_free(c);
    return NULL;
}

/* --- the runner --- */

static void log_line(struct as_worker *w, const char *what)
{
    if (w->conf.log)
        w->conf.log(w->conf.ctx, what);
}

static void log_error(struct as_worker *w, const char *what)
{
    char text[600];

    snprintf(text, sizeof(text), "%s: %s", what, as_worker_error(w));
    log_line(w, text);
}

/* Waits for a wake, or until the time is over. Does not read wake_fd: as_worker_wait needs it. */
static void pause_for(struct as_worker *w, as_ns time)
{
    struct pollfd p = {.fd = w->wake_fd, .events = POLLIN};

    if (atomic_load(&w->stop_requested))
        return;
    if (poll(&p, 1, (int)(time / AS_MS)) > 0 && !atomic_load(&w->stop_requested))
        (void)poll(NULL, 0,
                   (int)(time / AS_MS)); /* the wake was for the lost link, not for a stop */
}

/* Retries until it is connected or asked to stop (0), or refused. */
static int connect_again(struct as_worker *w)
{
    as_ns pause = PAUSE_FIRST;
    bool told = false;

    while (!atomic_load(&w->stop_requested)) {
        int err = as_worker_connect(w, CONNECT_TIMEOUT);

        if (!err) {
            log_line(w, "connected");
            return 0;
        }
        if (err == AS_EDENIED || err == AS_EEXISTS || err == AS_EINVALID) {
            log_error(w, "refused");
            return err;
        }
        if (!told)
            log_error(w, "cannot connect, trying again");
        told = true;
        pause_for(w, pause);
        pause = AS_MIN(2 * pause, AS_WORKER_RETRY_MAX);
    }
    return 0;
}

/* CONTROLs are answered before requests, which may depend on a new configuration. */
static void answer_asks(struct as_worker *w, char text[AS_WORKER_REASON])
{
    const struct as_worker_conf *c = &w->conf;
    struct as_worker_ask *a;

    while ((a = as_worker_next_ask(w))) {
        uint32_t status = AS_STATUS_OK;

        text[0] = 0;
        if (as_worker_ask_op(a) == AS_WORKER_RECONFIGURE)
            status = c->reconfigure ? c->reconfigure(c->ctx, as_worker_ask_text(a), text)
                                    : AS_STATUS_UNIMPLEMENTED;
        else if (as_worker_ask_op(a) != AS_WORKER_HEALTH)
            status = AS_STATUS_UNIMPLEMENTED;
        else if (c->check_health)
            status = c->check_health(c->ctx, text);
        as_worker_reply(w, a, status, as_str_of(text));
    }
}

/* Runs handlers until the link is lost (AS_EOF) or drained (AS_ECANCELLED). After a stop, requests
 * that are here already still run, unless the dispatcher recalls them. */
static int serve_until_lost(struct as_worker *w, struct as_worker_executor *h,
                            struct thread_pool *c)
{
    char text[AS_WORKER_REASON];
    bool draining = false;
    int err;

    do {
        struct as_worker_req *q;

        for (;;) {
            if (!draining && atomic_load_explicit(&w->stop_requested, memory_order_relaxed)) {
                draining = true;
                as_worker_drain(w);
            }
            answer_asks(w, text);
            q = as_worker_next(w);
            if (!q)
                break;
            if (c)
                enqueue_request(c, q);
            else
                as_worker_execute(h, q);
        }
    } while ((err = as_worker_wait(w)) == 0);
    return err;
}

static int connect_and_serve(struct as_worker *w, struct as_worker_executor *h,
                             struct thread_pool *c)
{
    for (;;) {
        int err = connect_again(w);

        if (err || atomic_load(&w->stop_requested))
            return err;
        err = serve_until_lost(w, h, c);
        if (err == AS_ECANCELLED || atomic_load(&w->stop_requested)) {
            log_line(w, "drained");
            return 0;
        }
        log_error(w, "the link is lost, connecting again");
    }
}

/* Handlers that wait for calls are entered again on the same stack; each level has an executor of
 * its own. */
struct nested {
    struct as_worker_executor **levels;
    uint32_t n, depth;
};

static bool run_nested(struct as_worker *w, void *ctx)
{
    struct nested *d = ctx;
    struct as_worker_req *q = as_worker_next_beyond(w);

    if (!q)
        return false;
    if (d->depth == d->n) {
        d->levels = as_xrealloc(d->levels, (d->n + 1) * sizeof(struct as_worker_executor *));
        d->levels[d->n++] = as_worker_executor_new(w);
    }
    as_worker_execute(d->levels[d->depth++], q);
    d->depth--;
    return true;
}

static void nested_fini(struct nested *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        as_worker_executor_free(d->levels[i]);
    free(d->levels);
}

int as_worker_run(struct as_worker *w)
{
    struct nested nested = {0};
    bool threads = w->conf.threads > 1;
    struct as_worker_executor *h;
    struct signals old;
    struct thread_pool *c;
    int err;

    c = threads ? thread_pool_new(w) : NULL;
    if (threads && !c) {
        as_worker_set_error(w, AS_STR("cannot start the threads"));
        return AS_EIO;
    }
    h = as_worker_executor_new(w);
    if (!c) {
        w->nested_ctx = &nested;
        w->run_nested = run_nested;
    }
    install_signals(w, &old);
    err = connect_and_serve(w, h, c);
    thread_pool_free(c); /* returns when every request is answered */
    restore_signals(w, &old);
    w->run_nested = NULL;
    nested_fini(&nested);
    as_worker_executor_free(h);
    return err;
}
