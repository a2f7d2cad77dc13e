/* tests/unit/support/call_pair.h — a worker that serves and opens calls, and a fake dispatcher that
 * plays callee and caller. */
#ifndef AS_TESTS_CALL_PAIR_H
#define AS_TESTS_CALL_PAIR_H

#include "wire/frame/body.h"
#include "wire/frame/frame_call.h"
#include "worker_pair.h"

#include <sys/ioctl.h>

#define CALLEE 10 /* target of the model of calls */
#define TENSOR 11 /* of a model of tensors */

struct calls {
    struct fake d;
    struct as_worker *w;
    uint32_t target; /* B of the application a */
    uint32_t flags;  /* of the worker */
    uint32_t slots;
};

static inline void calls_make(struct calls *c)
{
    struct as_worker_conf conf = {.size = sizeof(conf),
                                  .path = c->d.path,
                                  .token = "secret",
                                  .slots = c->slots ? c->slots : 2,
                                  .flags = c->flags,
                                  .max_message = 16u << 20};
    struct as_worker_model call = {.size = sizeof(call), .name = "A", .opaque = true, .http = true};
    struct as_worker_model tensor = {.size = sizeof(tensor), .name = "T"};

    assert_int_equal(as_worker_new(&c->w, &conf), 0);
    if (!(c->flags & AS_WORKER_DRIVER)) {
        assert_int_equal(as_worker_add(c->w, &call), 0);
        assert_int_equal(as_worker_add(c->w, &tensor), 0);
    }
    assert_int_equal(as_worker_target(c->w, "a", "B", &c->target), 0);
}

static inline void calls_expect_target(struct calls *c)
{
    struct as_frame_target t;

    fake_expect(&c->d, AS_FRAME_TARGET);
    assert_int_equal(as_frame_get_target(&c->d.f, &t), 0);
    assert_int_equal(t.number, c->target);
    assert_true(as_str_eq(t.application, AS_STR("a")) && as_str_eq(t.deployment, AS_STR("B")));
}

static inline void calls_grant(struct calls *c, uint32_t messages, uint64_t bytes)
{
    struct as_frame_credit k = {.messages = messages, .bytes = bytes};

    as_frame_put_credit(&c->d.out, 0, &k);
    fake_send(&c->d);
}

/* Everything that was sent to the worker has been handled. */
static inline void calls_sync(struct calls *c)
{
    int unread;

    fake_send(&c->d);
    do {
        (void)as_worker_poll(c->w);
        assert_int_equal(ioctl(c->d.fd, TIOCOUTQ, &unread), 0);
    } while (unread);
}

static inline int calls_setup_with(struct calls *c, void **state)
{
    fake_init(&c->d);
    c->d.more = AS_CAP_CALLS;
    calls_make(c);
    assert_int_equal(fake_connect(&c->d, c->w), 0);
    calls_expect_target(c);
    *state = c;
    return 0;
}

static inline int calls_setup(void **state)
{
    struct calls *c = as_xalloc(sizeof(*c));

    (void)calls_setup_with(c, state);
    calls_grant(c, 2, 1 << 20);
    calls_sync(c);
    return 0;
}

static inline int calls_teardown(void **state)
{
    struct calls *c = *state;

    as_worker_free(c->w);
    fake_fini(&c->d);
    free(c);
    return 0;
}

/* --- bodies --- */

static inline struct as_body body_of(const char *data)
{
    return (struct as_body){.codec = AS_BODY_BYTES, .data = as_str_of(data)};
}

static inline bool body_is(const struct as_body *b, const char *data)
{
    return b && b->codec == AS_BODY_BYTES && as_str_eq(b->data, as_str_of(data));
}

/* --- the dispatcher as a caller --- */

static inline void fake_call(struct fake *d, uint64_t stream, const struct as_body *body,
                             uint32_t flags, as_ns timeout)
{
    struct as_meta meta = {AS_STR("traceparent"), AS_STR("00-1")};
    struct as_frame_call k = {.target = CALLEE,
                              .flags = flags,
                              .timeout = timeout,
                              .id = AS_STR("id"),
                              .meta = &meta,
                              .n_meta = 1};

    assert_int_equal(as_frame_put_call(&d->out, AS_FRAME_OPEN, stream, &k, body, NULL), 0);
    fake_send(d);
}

/* The next frames are a message of this stream, with these bytes. */
static inline void fake_expect_body(struct fake *d, uint64_t stream, const struct as_body *want,
                                    bool last)
{
    size_t n = (size_t)as_body_len(want), got = 0;
    uint8_t *bytes = malloc(n), *all = malloc(n);
    struct as_frame_call k;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    as_body_write(want, bytes);
    fake_expect(d, AS_FRAME_DATA);
    assert_int_equal(d->f.stream, stream);
    assert_int_equal(as_frame_kind_of(&d->f), AS_FRAME_CALL);
    assert_int_equal(as_frame_get_call(&d->f, &a, &k, &why), 0);
    assert_int_equal(k.body_len, n);
    if (k.body) {
        memcpy(all, k.body, n);
        got = n;
    }
    while (got < n) {
        assert_false(d->f.flags & AS_FRAME_F_END);
        fake_expect(d, AS_FRAME_DATA);
        assert_int_equal(d->f.stream, stream);
        assert_true(d->f.n <= n - got);
        memcpy(all + got, d->f.p, d->f.n);
        got += d->f.n;
    }
    assert_int_equal((d->f.flags & AS_FRAME_F_END) != 0, last);
    assert_memory_equal(all, bytes, n);
    free(bytes);
    free(all);
    as_arena_fini(&a);
}

/* --- the dispatcher as a callee --- */

/* The next frame opens a call; returns what it says, without slices. */
static inline struct as_frame_call fake_expect_call(struct fake *d, uint64_t stream)
{
    struct as_frame_call k;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    fake_expect(d, AS_FRAME_OPEN);
    assert_int_equal(d->f.stream, stream);
    assert_int_equal(as_frame_get_call(&d->f, &a, &k, &why), 0);
    as_arena_fini(&a);
    k.meta = NULL;
    return k;
}

static inline void fake_answer(struct fake *d, uint64_t stream, const struct as_body *body,
                               bool more)
{
    struct as_frame_call k = {.more = more};

    assert_int_equal(as_frame_put_call(&d->out, AS_FRAME_DATA, stream, &k, body, NULL), 0);
    fake_send(d);
}

static inline void fake_fail(struct fake *d, uint64_t stream, uint32_t code, uint32_t flags,
                             const char *text)
{
    struct as_frame_error e = {.code = code, .flags = flags, .message = as_str_of(text)};

    as_frame_put_error(&d->out, stream, &e);
    fake_send(d);
}

/* --- the worker as a caller --- */

static inline struct as_worker_out *calls_open_of(struct calls *c, struct as_worker_req *parent,
                                                  const struct as_body *body, bool stream,
                                                  uint32_t window)
{
    struct as_worker_open o = {.size = sizeof(o),
                               .target = c->target,
                               .parent = parent,
                               .body = body,
                               .stream = stream,
                               .window = window,
                               .data = c};
    struct as_worker_out *out;

    assert_int_equal(as_worker_open(c->w, &o, &out), 0);
    return out;
}

static inline struct as_worker_out *calls_open(struct calls *c, struct as_worker_req *parent,
                                               const char *text)
{
    struct as_body body = body_of(text);

    return calls_open_of(c, parent, &body, false, 0);
}

/* A started call of this stream. */
static inline struct as_worker_req *calls_start(struct calls *c, uint64_t stream, uint32_t flags)
{
    struct as_body body = body_of("ask");
    struct as_worker_req *q;

    fake_call(&c->d, stream, &body, flags, 0);
    while (!(q = as_worker_next(c->w)))
        assert_int_equal(as_worker_wait(c->w), 0);
    return q;
}

static inline void calls_answer(struct calls *c, struct as_worker_req *q)
{
    struct as_body body = body_of("answer");

    assert_int_equal(as_worker_answer_body(c->w, q, &body), 0);
    as_worker_flush(c->w);
}

/* The call has failed with this status. */
static inline struct as_worker_out_msg calls_expect_failure(struct as_worker_out *o,
                                                            uint32_t status)
{
    struct as_worker_out_msg m;

    assert_int_equal(as_worker_out_wait(o, 20 * AS_SEC), 0);
    assert_int_equal(as_worker_out_read(o, &m), AS_EHANDLER);
    assert_int_equal(m.status, status);
    return m;
}

#endif
