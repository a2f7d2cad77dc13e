/* tests/unit/worker_pair.h — a worker with three models, connected to a fake dispatcher. */
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
    static const struct as_frame_register models[] = {
        {.model = 0,
         .name = STATIC_STR("echo"),
         .version = STATIC_STR("1"),
         .platform = STATIC_STR("test"),
         .max_ongoing = 100,
         .max_queued = -1,
         .budget = PAIR_SLOTS},
        {.model = 1,
         .name = STATIC_STR("narrow"),
         .version = STATIC_STR("1"),
         .platform = STATIC_STR("test"),
         .max_ongoing = 1,
         .max_queued = -1,
         .budget = PAIR_SLOTS},
        {.model = 2,
         .name = STATIC_STR("many"),
         .version = STATIC_STR("1"),
         .platform = STATIC_STR("test"),
         .max_ongoing = 100,
         .max_queued = -1,
         .budget = PAIR_SLOTS,
         .batching = {.max_size = 4}},
    };
    struct as_worker_conf conf = {.path = d->path,
                                  .token = AS_STR("secret"),
                                  .replica = AS_STR("echo#0"),
                                  .deployment = AS_STR("echo"),
                                  .peer = AS_STR("test"),
                                  .slots = slots,
                                  .max_prefetch = PAIR_PREFETCH,
                                  .max_message = 16u << 20,
                                  .models = models,
                                  .n_models = 3};
    struct as_worker *w;

    assert_int_equal(as_worker_new(&w, &conf), 0);
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

/* Waits until one may start, and starts it. */
static inline struct as_worker_req *pair_next(struct pair *p)
{
    struct as_worker_req *q;

    while (!(q = as_worker_next(p->w)))
        assert_int_equal(as_worker_wait(p->w), 0);
    return q;
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
