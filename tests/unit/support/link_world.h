/* tests/unit/support/link_world.h — a real fleet, and workers that the test plays, frame by frame.
 *
 * Each program has one world at a time: begin, end. The callbacks of the fleet's owner are counted.
 */
#ifndef AS_TESTS_CARE_WORLD_H
#define AS_TESTS_CARE_WORLD_H

#include "link/fleet/fleet.h"

#include "base/err.h"
#include "frames.h"
#include "link/page.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/native/link.h"

#define HANDS    3
#define CALLS    8
#define PATIENCE (20 * AS_SEC)
#define RX_CAP   (2u << 20) /* any frame */

struct hand {
    int fd;
    struct as_page_writer page;
    struct as_outq out;
    uint8_t *rx;
    size_t at, end;
    struct as_frame f;    /* the last frame read */
    uint64_t streams[16]; /* OPENs, in the order they came */
    uint32_t n;
};

struct request {
    struct as_call call;
    struct as_call_stream stream;
    struct as_arena arena;
    struct as_tensor t;
    uint8_t values[4];
    bool answered, released;
    uint32_t parts;
};

static struct {
    struct as_loop *loop;
    struct as_fleet *fleet;
    struct as_fleet_client client;
    struct as_timer watch, pulse;
    struct hand hand[HANDS];
    struct request q[CALLS];
    uint32_t n;
    const struct as_meta *meta; /* of requests that are submitted */
    uint32_t n_meta;
    uint32_t ready, gone, killed, retired, answers, left;
    const struct as_frame_traffic *traffic; /* sent by workers that join; or NULL */
    char why[256];                          /* of the last kill, or answer */
    char token[16]; /* of the last kill, retirement, answer or one that left */
    uint64_t id;    /* of the last answer … */
    int err;
    uint32_t records;
    bool declared;          /* what is restored is from code … */
    const char *deployment; /* … and of this one; NULL: "app" */
    bool refuse_records;    /* as an owner that cannot keep them */
    struct as_buf recorded; /* "MODEL type … ;" of each record, with the types of its frames */
    struct as_buf frames;   /* of the last record */
    uint32_t loads, queued, ongoing; /* how often on_load was called, and what it said last */
    bool refuse_loads, refuse_stats;
    uint32_t n_stats; /* statistics of replicas that were told, and … */
    char stats[100];  /* … the last ones */
} w;

/* --- callbacks of the fleet's owner --- */

AS_UNUSED static void keep(char *to, size_t n, struct as_str s)
{
    snprintf(to, n, "%.*s", AS_STR_FMT(s));
}

AS_UNUSED static void on_ready(void *ctx AS_UNUSED, struct as_str a AS_UNUSED,
                               struct as_str b AS_UNUSED, struct as_str c AS_UNUSED)
{
    w.ready++;
}

AS_UNUSED static void on_gone(void *ctx AS_UNUSED, struct as_str a AS_UNUSED,
                              struct as_str b AS_UNUSED, struct as_str c AS_UNUSED)
{
    w.gone++;
}

AS_UNUSED static void on_kill(void *ctx AS_UNUSED, struct as_str replica AS_UNUSED,
                              struct as_str token, struct as_str reason)
{
    w.killed++;
    keep(w.token, sizeof(w.token), token);
    keep(w.why, sizeof(w.why), reason);
}

AS_UNUSED static void on_retired(void *ctx AS_UNUSED, struct as_str replica AS_UNUSED,
                                 struct as_str token)
{
    w.retired++;
    keep(w.token, sizeof(w.token), token);
}

AS_UNUSED static void on_leaves(void *ctx AS_UNUSED, struct as_str replica AS_UNUSED,
                                struct as_str token)
{
    w.left++;
    keep(w.token, sizeof(w.token), token);
}

AS_UNUSED static void on_answered(void *ctx AS_UNUSED, struct as_str replica AS_UNUSED,
                                  struct as_str token, uint64_t id, int err, struct as_str text)
{
    w.answers++;
    w.id = id;
    w.err = err;
    keep(w.token, sizeof(w.token), token);
    keep(w.why, sizeof(w.why), text);
}

AS_UNUSED static bool on_record(void *ctx AS_UNUSED, const struct as_fleet_record *r)
{
    struct as_frame f;
    size_t at = 0;

    w.records++;
    as_buf_drop(&w.frames, w.frames.n);
    as_buf_add(&w.frames, r->frames.p, r->frames.n);
    as_buf_printf(&w.recorded, "%.*s%s", AS_STR_FMT(r->model), r->whole ? "whole" : "");
    while (at < w.frames.n) {
        at += (size_t)as_frame_next(w.frames.p + at, w.frames.n - at, &f);
        as_buf_printf(&w.recorded, " %s", as_frame_type_name(f.type));
    }
    as_buf_str(&w.recorded, ";");
    return !w.refuse_records;
}

AS_UNUSED static bool on_stats(void *arg AS_UNUSED, const struct as_fleet_stats *s)
{
    if (w.refuse_stats)
        return false;
    w.n_stats++;
    keep(w.stats, sizeof(w.stats), s->text);
    return true;
}

AS_UNUSED static bool on_load(void *ctx AS_UNUSED, const struct as_fleet_load *l)
{
    w.loads++;
    w.queued = l->queued;
    w.ongoing = l->ongoing;
    return !w.refuse_loads && as_fleet_each_stats(w.fleet, l->deployment, on_stats, NULL);
}

AS_UNUSED static void on_watch(struct as_timer *t AS_UNUSED)
{
    fail_msg("the test hangs");
}

/* Wakes the loop often, so that it soon sees what the worker's side does. */
AS_UNUSED static void on_pulse(struct as_timer *t)
{
    as_timer_set(t, as_loop_now(w.loop) + AS_MS);
}

/* --- the world --- */

AS_UNUSED static struct as_fleet_conf usual(void)
{
    return (struct as_fleet_conf){.deployment.max_queued = 100,
                                  .max_prefetch = 8,
                                  .deployment.router = AS_ROUTER_CONF_DEFAULT,
                                  .deployment.prefetch_work = AS_MS,
                                  .ping_interval = 3600 * AS_SEC,
                                  .ping_timeout = 3600 * AS_SEC,
                                  .handshake_timeout = 60 * AS_SEC,
                                  .health_timeout = 3600 * AS_SEC,
                                  .health_failures = 3,
                                  .grace = 60 * AS_SEC,
                                  .max_message = 1 << 20,
                                  .max_body = 1 << 20,
                                  .max_report = 1000,
                                  .max_models = 3,
                                  .max_stats = 4,
                                  .max_stats_bytes = 100,
                                  .parts = {4, 100000},
                                  .deployment.quarantine = {2 * AS_SEC, 30 * AS_SEC},
                                  .deployment.retry = {.attempts = 3, .percent = 10, .least = 3},
                                  .deployment.seed = 7};
}

AS_UNUSED static void begin(struct as_fleet_conf conf)
{
    static const struct as_fleet_ops ops = {.on_ready = on_ready,
                                            .on_gone = on_gone,
                                            .on_kill = on_kill,
                                            .on_retired = on_retired,
                                            .on_answer = on_answered,
                                            .on_record = on_record,
                                            .on_leaves = on_leaves,
                                            .on_load = on_load};

    memset(&w, 0, sizeof(w));
    for (int i = 0; i < HANDS; i++)
        w.hand[i].fd = -1;
    assert_int_equal(as_loop_new(&w.loop, 0), 0);
    assert_int_equal(as_fleet_new(&w.fleet, w.loop, &conf, &ops, NULL, NULL), 0);
    assert_int_equal(as_fleet_client_open(&w.client, w.fleet, w.loop), 0);
    as_fleet_add_process(w.fleet, AS_STR("t0"), AS_STR("default#app-0"), AS_STR("default#app"));
    as_fleet_add_process(w.fleet, AS_STR("t1"), AS_STR("default#app-1"), AS_STR("default#app"));
    as_fleet_set_join_token(w.fleet, AS_STR("join"));
    as_timer_init(&w.watch, w.loop, on_watch);
    as_timer_init(&w.pulse, w.loop, on_pulse);
    as_timer_set(&w.pulse, as_loop_now(w.loop));
}

AS_UNUSED static void hand_close(struct hand *h)
{
    if (h->fd < 0)
        return;
    close(h->fd);
    as_outq_fini(&h->out);
    as_page_close(&h->page);
    free(h->rx);
    h->fd = -1;
}

AS_UNUSED static void end(void)
{
    as_fleet_stop(w.fleet);
    for (int i = 0; i < HANDS; i++)
        hand_close(&w.hand[i]);
    for (uint32_t i = 0; i < w.n; i++) { /* requests that are still queued */
        if (!w.q[i].released)
            as_fleet_client_cancel(&w.client, &w.q[i].call);
        assert_true(w.q[i].released);
        as_arena_fini(&w.q[i].arena);
    }
    assert_int_equal(as_fleet_unanswered(w.fleet), 0);
    as_fleet_client_close(&w.client);
    as_fleet_free(w.fleet);
    as_timer_close(&w.watch, NULL);
    as_timer_close(&w.pulse, NULL);
    as_loop_free(w.loop);
    as_buf_fini(&w.recorded);
    as_buf_fini(&w.frames);
}

AS_UNUSED static void flush(struct hand *h)
{
    struct iovec iov[16];

    while (h->fd >= 0 && h->out.bytes) {
        ssize_t k = writev(h->fd, iov, as_outq_iov(&h->out, iov, 16));

        if (k < 0 && errno == EAGAIN) /* the dispatcher reads first */
            return;
        assert_true(k > 0);
        as_outq_drop(&h->out, (size_t)k);
    }
}

AS_UNUSED static void turn(void)
{
    for (int i = 0; i < HANDS; i++)
        flush(&w.hand[i]);
    uv_run(&w.loop->uv, UV_RUN_ONCE);
}

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        as_timer_set(&w.watch, as_loop_now(w.loop) + PATIENCE);                                    \
        while (!(condition))                                                                       \
            turn();                                                                                \
        as_timer_set(&w.watch, AS_NEVER);                                                          \
    } while (0)

/* The next whole frame is in h->f. */
AS_UNUSED static bool hand_reads(struct hand *h)
{
    int64_t k = as_frame_next(h->rx + h->at, h->end - h->at, &h->f);
    ssize_t n;

    assert_true(k >= 0);
    h->at += (size_t)k;
    if (k)
        return true;
    memmove(h->rx, h->rx + h->at, h->end - h->at);
    h->end -= h->at;
    h->at = 0;
    n = recv(h->fd, h->rx + h->end, RX_CAP - h->end, MSG_DONTWAIT);
    if (n > 0)
        h->end += (size_t)n;
    k = as_frame_next(h->rx, h->end, &h->f);
    h->at += (size_t)AS_MAX(k, (int64_t)0);
    return k > 0;
}

/* Skips frames of other types, but stores the streams of OPENs. */
AS_UNUSED static void expect(struct hand *h, enum as_frame_type type)
{
    do {
        UNTIL(hand_reads(h));
        if (h->f.type == AS_FRAME_OPEN)
            h->streams[h->n++] = h->f.stream;
    } while (h->f.type != type);
}

/* The status page travels with HELLO. */
AS_UNUSED static void send_page(struct hand *h)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov;
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &h->page.fd, sizeof(int));
    assert_int_equal(as_outq_iov(&h->out, &iov, 1), 1);
    assert_int_equal(sendmsg(h->fd, &m, 0), (ssize_t)iov.iov_len);
    as_outq_drop(&h->out, iov.iov_len);
}

AS_UNUSED static struct as_frame_register model(bool idempotent)
{
    return (struct as_frame_register){.name = AS_STR("m"),
                                      .version = AS_STR("1"),
                                      .platform = AS_STR("test"),
                                      .max_ongoing = 4,
                                      .idempotent = idempotent,
                                      .decoupled = true,
                                      .budget = 4};
}

AS_UNUSED static struct as_frame_options no_options;

/* A connection of a worker that has sent nothing yet. */
AS_UNUSED static struct hand *connect_hand(int i)
{
    struct hand *h = &w.hand[i];
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *h = (struct hand){.fd = fds[1], .rx = aligned_alloc(64, RX_CAP)};
    as_outq_init(&h->out);
    assert_int_equal(as_page_open(&h->page), 0);
    as_upstream_native.accept(w.fleet, fds[0]);
    return h;
}

AS_UNUSED static void say_hello(struct hand *h, const char *token)
{
    struct as_frame_hello hello = {.lo = 1,
                                   .hi = 1,
                                   .capabilities = AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL,
                                   .max_message = 1 << 20,
                                   .token = as_str_of(token),
                                   .replica = AS_STR("guest"),
                                   .deployment = AS_STR("app")};

    as_frame_put_hello(&h->out, &hello);
    send_page(h);
}

AS_UNUSED static struct hand *greet(int i, const char *token)
{
    struct hand *h = connect_hand(i);

    say_hello(h, token);
    return h;
}

/* A worker that becomes READY; returns when the dispatcher knows. */
AS_UNUSED static struct hand *join(int i, const char *token, bool idempotent,
                                   const struct as_frame_options *o)
{
    struct as_frame_register r = model(idempotent);
    struct hand *h = greet(i, token);
    uint32_t ready = w.ready;

    if (o->has)
        as_frame_put_options(&h->out, o);
    if (w.traffic)
        as_frame_put_traffic(&h->out, w.traffic);
    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    expect(h, AS_FRAME_REGISTERED);
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 2, .prefetch = 8});
    UNTIL(w.ready > ready);
    return h;
}

AS_UNUSED static struct as_frame_options one_option(enum as_frame_option key, uint64_t v)
{
    struct as_frame_options o = {.has = 1u << key};

    o.value[key] = v;
    return o;
}

/* --- requests --- */

AS_UNUSED static void on_answer(struct as_call *c)
{
    struct request *q = AS_CONTAINER(c, struct request, call);

    assert_false(q->answered);
    q->answered = true;
    as_blob_unref(c->outcome.result.blob);
    c->outcome.result.blob = NULL;
}

AS_UNUSED static void on_release(struct as_call *c)
{
    AS_CONTAINER(c, struct request, call)->released = true;
}

AS_UNUSED static void on_part(struct as_call *c, struct as_part *p)
{
    AS_CONTAINER(c, struct request, call)->parts++;
    as_fleet_client_credit(&w.client, c, 1, p->cost);
}

/* With one input of bytes; both stay until it is answered. */
AS_UNUSED static struct request *submit_bytes(const uint8_t *values, const int64_t shape[1])
{
    struct request *q = &w.q[w.n++];

    q->t = (struct as_tensor){.name = AS_STR("x"),
                              .dtype = AS_DT_UINT8,
                              .ndim = 1,
                              .shape = shape,
                              .data = values,
                              .nbytes = (size_t)shape[0]};
    as_arena_init(&q->arena, NULL, 0);
    as_request_init(&q->call.core);
    q->call.caller = AS_CALL_NO_CALLER;
    q->call.core.model = as_registry_at(w.client.registry, 0)->index;
    q->call.core.idempotent = as_registry_at(w.client.registry, 0)->idempotent;
    q->call.deployment = as_registry_at(w.client.registry, 0)->deployment;
    q->call.payload.msg =
        (struct as_msg){.tensors = &q->t, .n_tensors = 1, .meta = w.meta, .n_meta = w.n_meta};
    q->call.arena = &q->arena;
    q->call.on_answer = on_answer;
    q->call.on_release = on_release;
    q->stream.on_part = on_part;
    q->call.stream = &q->stream;
    q->call.executing_since = AS_NEVER / 2; /* as if the memory was used before */
    as_fleet_client_submit(&w.client, &q->call);
    return q;
}

/* Requests with the same value are equal. */
AS_UNUSED static struct request *submit_of(uint8_t value)
{
    static const int64_t shape[] = {4};
    uint8_t *values = w.q[w.n].values;

    values[0] = value;
    return submit_bytes(values, shape);
}

AS_UNUSED static struct request *submit(void)
{
    return submit_of(0);
}

/* The n-th OPEN of h has come, and its handler runs. */
AS_UNUSED static void start(struct hand *h, uint32_t n)
{
    while (h->n < n)
        expect(h, AS_FRAME_OPEN);
    as_page_start(&h->page, h->streams[n - 1], as_loop_now(w.loop));
}

AS_UNUSED static void say_part(struct hand *h, uint64_t stream)
{
    struct request *q = &w.q[0];
    struct as_frame_msg fixed = {.more = true};
    struct as_msg msg = {.tensors = &q->t, .n_tensors = 1};

    assert_int_equal(as_frame_put_msg(&h->out, AS_FRAME_DATA, stream, &fixed, &msg, NULL), 0);
}

/* The supervisor reports that the process of that token has died. */
AS_UNUSED static void die(int i, const char *token)
{
    as_fleet_remove_process(w.fleet, as_str_of(token), AS_LOSS_KILLED);
    hand_close(&w.hand[i]);
}

AS_UNUSED static void reply(struct hand *h, uint64_t stream, uint16_t op, uint32_t code,
                            const char *text)
{
    struct as_frame_control c = {.op = op, .reply = true, .code = code, .text = as_str_of(text)};

    as_frame_put_control(&h->out, stream, &c);
}

AS_UNUSED static uint32_t ready_replicas(void)
{
    return as_deployment_ready(w.fleet->deploys[0]->core);
}

#endif
