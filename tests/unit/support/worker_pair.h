/* tests/unit/support/worker_pair.h — a worker with three models, connected to a fake dispatcher. */
#ifndef AS_TESTS_WORKER_PAIR_H
#define AS_TESTS_WORKER_PAIR_H

#include "fake_dispatcher.h"

struct pair {
    struct fake d;
    struct as_worker *w;
};

#define PAIR_SLOTS    4
#define PAIR_PREFETCH 512

static inline struct as_worker *pair_worker(struct fake *d, uint32_t slots)
{
    static const struct as_worker_model models[] = {
        {.size = sizeof(struct as_worker_model),
         .name = "echo",
         .version = "1",
         .platform = "test",
         .max_ongoing = 100},
        {.size = sizeof(struct as_worker_model),
         .name = "narrow",
         .version = "1",
         .platform = "test",
         .max_ongoing = 1},
        {.size = sizeof(struct as_worker_model),
         .name = "many",
         .version = "1",
         .platform = "test",
         .max_ongoing = 100,
         .max_batch = 4},
    };
    struct as_worker_conf conf = {.size = sizeof(conf),
                                  .path = d->path,
                                  .token = "secret",
                                  .replica = "echo#0",
                                  .deployment = "echo",
                                  .peer = "test",
                                  .slots = slots,
                                  .max_queued = -1,
                                  .max_prefetch = PAIR_PREFETCH,
                                  .max_message = 16u << 20};
    struct as_worker *w;

    assert_int_equal(as_worker_new(&w, &conf), 0);
    for (size_t i = 0; i < AS_COUNT(models); i++)
        assert_int_equal(as_worker_add(w, &models[i]), 0);
    return w;
}

static inline int pair_setup(void **state)
{
    struct pair *p = as_xalloc(sizeof(*p));

    fake_init(&p->d);
    p->w = pair_worker(&p->d, PAIR_SLOTS);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    *state = p;
    return 0;
}

static inline int pair_teardown(void **state)
{
    struct pair *p = *state;

    as_worker_free(p->w);
    fake_fini(&p->d);
    free(p);
    return 0;
}

/* Waits until a request can start, and starts it. */
static inline struct as_worker_req *pair_next(struct pair *p)
{
    struct as_worker_req *q;

    while (!(q = as_worker_next(p->w)))
        assert_int_equal(as_worker_wait(p->w), 0);
    return q;
}

static inline void pair_take(void *ctx, struct as_worker_req *q)
{
    *(struct as_worker_req **)ctx = q;
}

/* Only the test answers requests, so a started one stays. */
static inline struct as_worker_req *pair_cancelled(struct pair *p)
{
    struct as_worker_req *q = NULL;

    return as_worker_cancelled(p->w, pair_take, &q) ? q : NULL;
}

static inline struct as_worker_req *pair_ready(struct pair *p, unsigned *ret_what)
{
    struct as_worker_req *q = NULL;

    return as_worker_ready(p->w, ret_what, pair_take, &q) ? q : NULL;
}

static inline void pair_echo(struct pair *p, struct as_worker_req *q)
{
    assert_int_equal(as_worker_answer(p->w, q, as_worker_req_msg(q)), 0);
}

/* Asks, and waits until the worker has read it (it is started at once). */
static inline struct as_worker_req *pair_start(struct pair *p, uint64_t stream, size_t n)
{
    fake_ask(&p->d, stream, n);
    fake_send(&p->d);
    return pair_next(p);
}

/* A PING that was answered: everything sent before has been handled. Drives the worker. */
static inline void pair_sync(struct pair *p)
{
    uint64_t opaque;

    as_frame_put_ping(&p->d.out, AS_FRAME_PING, 99);
    fake_send(&p->d);
    while (fake_is_quiet(&p->d))
        (void)as_worker_poll(p->w);
    fake_expect(&p->d, AS_FRAME_PONG);
    assert_int_equal(as_frame_get_ping(&p->d.f, &opaque), 0);
    assert_int_equal(opaque, 99);
}

#endif
