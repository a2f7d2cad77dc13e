/* tests/unit/support/simple_world.h — a real fleet, and simple workers whose sockets the test
 * holds.
 *
 * One thread: the loop runs until something has happened, and in between the test plays the worker.
 */
#ifndef AS_TESTS_SIMPLE_WORLD_H
#define AS_TESTS_SIMPLE_WORLD_H

#include "base/memory/live.h"
#include "link/simple/simple.h"
#include "unit.h"
#include "wire/oip/simple_frame.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE (10 * AS_SEC)
#define CONNS    8

/* --- the world --- */

static struct world {
    struct as_loop *loop;
    struct as_fleet *fleet;
    struct as_fleet_client client;
    struct as_timer watch, pulse;
    char dir[32];
    char log[65536];
    size_t n_log;
    uint32_t snapshots; /* snapshots that the client has got */
} w;

AS_UNUSED static void on_log(void *ctx AS_UNUSED, enum as_log_level level AS_UNUSED,
                             const char *line, size_t n)
{
    n = AS_MIN(n, sizeof(w.log) - 1 - w.n_log);
    memcpy(w.log + w.n_log, line, n);
    w.n_log += n;
    w.log[w.n_log] = 0;
}

static const struct as_log log_of = {.level = AS_LOG_DEBUG, .sink = on_log};

AS_UNUSED static bool logged(const char *text)
{
    return strstr(w.log, text) != NULL;
}

AS_UNUSED static void on_none(void *ctx AS_UNUSED, struct as_str a AS_UNUSED,
                              struct as_str b AS_UNUSED, struct as_str c AS_UNUSED)
{
}

AS_UNUSED static void on_watch(struct as_timer *t AS_UNUSED)
{
    fail_msg("it does not happen; log:\n%s", w.log);
}

/* Wakes the loop often, so that it soon sees what the worker's side does. */
AS_UNUSED static void on_pulse(struct as_timer *t)
{
    as_timer_set(t, as_loop_now(w.loop) + AS_MS);
}

AS_UNUSED static void turn(void)
{
    uv_run(&w.loop->uv, UV_RUN_ONCE);
}

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        as_timer_set(&w.watch, as_loop_now(w.loop) + PATIENCE);                                    \
        while (!(condition))                                                                       \
            turn();                                                                                \
        as_timer_set(&w.watch, AS_NEVER);                                                          \
    } while (0)

AS_UNUSED static void on_registry(struct as_fleet_client *c AS_UNUSED)
{
    w.snapshots++;
}

static struct as_fleet_conf usual(void)
{
    return (struct as_fleet_conf){.deployment.max_queued = 100,
                                  .deployment.router = AS_ROUTER_CONF_DEFAULT,
                                  .ping_interval = 40 * AS_MS,
                                  .ping_timeout = 60 * AS_SEC,
                                  .handshake_timeout = 60 * AS_SEC,
                                  .grace = 60 * AS_SEC,
                                  .heartbeat_timeout = 60 * AS_SEC,
                                  .simple_connect = AS_SEC,
                                  .max_message = 1 << 20,
                                  .max_body = 1 << 20,
                                  .deployment.retry = {.attempts = 3, .percent = 10, .least = 3},
                                  .deployment.quarantine = {2 * AS_SEC, 30 * AS_SEC},
                                  .worker_dir = w.dir};
}

AS_UNUSED static void begin_with(struct as_fleet_conf conf)
{
    static const struct as_fleet_ops ops = {
        .on_ready = on_none, .on_gone = on_none, .on_kill = on_none};

    assert_int_equal(as_loop_new(&w.loop, 0), 0);
    assert_int_equal(as_fleet_new(&w.fleet, w.loop, &conf, &ops, NULL, &log_of), 0);
    assert_int_equal(as_fleet_client_open(&w.client, w.fleet, w.loop), 0);
    w.client.on_registry = on_registry;
    as_timer_init(&w.watch, w.loop, on_watch);
    as_timer_init(&w.pulse, w.loop, on_pulse);
    as_timer_set(&w.pulse, as_loop_now(w.loop));
}

AS_UNUSED static int set_up(void **state AS_UNUSED)
{
    memset(&w, 0, sizeof(w));
    strcpy(w.dir, "/tmp/as-simple-XXXXXX");
    return mkdtemp(w.dir) ? 0 : -1;
}

AS_UNUSED static void end(void)
{
    as_fleet_stop(w.fleet);
    assert_int_equal(as_fleet_unanswered(w.fleet), 0);
    as_fleet_client_close(&w.client);
    as_fleet_free(w.fleet);
    as_timer_close(&w.watch, NULL);
    as_timer_close(&w.pulse, NULL);
    as_loop_free(w.loop);
}

AS_UNUSED static int tear_down(void **state AS_UNUSED)
{
    char cmd[64];

    snprintf(cmd, sizeof(cmd), "rm -rf %s", w.dir);
    return system(cmd);
}

/* --- a worker --- */

struct hand {
    char path[96], address[112], id[16];
    int listener;
    int conn[CONNS]; /* -1: none */
    uint32_t slots;
    uint64_t epoch;
};

AS_UNUSED static void hand_listen(struct hand *h, int backlog)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    h->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    strcpy(a.sun_path, h->path);
    unlink(h->path);
    assert_int_equal(bind(h->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(h->listener, backlog), 0);
}

AS_UNUSED static void hand_open(struct hand *h, const char *id)
{
    *h = (struct hand){.listener = -1, .slots = 1};
    for (int i = 0; i < CONNS; i++)
        h->conn[i] = -1;
    snprintf(h->id, sizeof(h->id), "%s", id);
    snprintf(h->path, sizeof(h->path), "%s/%s.sock", w.dir, id);
    snprintf(h->address, sizeof(h->address), "unix://%s", h->path);
    hand_listen(h, 16);
}

static char why[512];

AS_UNUSED static struct as_simple_registration offer_of(const struct hand *h, bool idempotent)
{
    return (struct as_simple_registration){.worker = as_str_of(h->id),
                                           .address = as_str_of(h->address),
                                           .model = {.name = AS_STR("m"),
                                                     .version = AS_STR("1"),
                                                     .idempotent = idempotent,
                                                     .budget = h->slots}};
}

AS_UNUSED static int hand_offer(struct hand *h, const struct as_simple_registration *o)
{
    why[0] = 0;
    return as_simple_join(w.fleet, o, &h->epoch, why, sizeof(why));
}

AS_UNUSED static void hand_join(struct hand *h, bool idempotent)
{
    struct as_simple_registration o = offer_of(h, idempotent);

    assert_int_equal(hand_offer(h, &o), 0);
}

AS_UNUSED static bool ended(int fd)
{
    uint8_t b;

    return recv(fd, &b, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

AS_UNUSED static int take_conn(struct hand *h, int i)
{
    int fd = accept4(h->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0)
        h->conn[i] = fd;
    return fd;
}

/* Skips connections that were closed again: they were only probes. */
AS_UNUSED static int take_live_conn(struct hand *h, int i)
{
    while (take_conn(h, i) >= 0 && ended(h->conn[i])) {
        close(h->conn[i]);
        h->conn[i] = -1;
    }
    return h->conn[i];
}

/* The next connection, as the i-th. */
AS_UNUSED static void hand_accept(struct hand *h, int i)
{
    UNTIL(take_conn(h, i) >= 0);
}

AS_UNUSED static void hand_accept_live(struct hand *h, int i)
{
    UNTIL(take_live_conn(h, i) >= 0);
}

AS_UNUSED static bool peek(int fd, size_t n)
{
    static uint8_t p[1 << 20];

    return recv(fd, p, n, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)n;
}

struct taken {
    uint8_t bytes[4096];
    struct as_arena arena;
    struct as_oip_infer r;
};

/* Reads a complete request from the i-th connection. */
AS_UNUSED static void hand_take(struct hand *h, int i, struct taken *t)
{
    uint8_t head[4];
    size_t n, at = 0;
    ssize_t k;

    UNTIL(peek(h->conn[i], 4));
    assert_int_equal(recv(h->conn[i], head, 4, 0), 4);
    n = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
    assert_true(n <= sizeof(t->bytes));
    while (at < n) {
        k = recv(h->conn[i], t->bytes + at, n - at, 0);
        if (k > 0)
            at += (size_t)k;
        else
            turn();
    }
    as_arena_init(&t->arena, NULL, 0);
    assert_int_equal(as_oip_parse_infer(t->bytes, n, &t->arena, &t->r, why, sizeof(why)), 0);
}

AS_UNUSED static void drop(struct taken *t)
{
    as_arena_fini(&t->arena);
}

/* Answers with the negated input, with this id. */
AS_UNUSED static size_t answer_bytes(const struct taken *t, struct as_str id, uint8_t *to)
{
    int64_t one = 1;
    uint8_t v = (uint8_t)~t->r.inputs[0].data[0];
    struct as_tensor y = {.name = AS_STR("y"),
                          .dtype = AS_DT_UINT8,
                          .ndim = 1,
                          .shape = &one,
                          .data = &v,
                          .nbytes = 1};
    struct as_oip_response r = {.model = t->r.model, .id = id, .outputs = &y, .n_outputs = 1};
    size_t n = (size_t)as_oip_response_len(&r);

    to[0] = to[1] = 0;
    to[2] = (uint8_t)(n >> 8);
    to[3] = (uint8_t)n;
    as_oip_put_response(to + 4, &r);
    return n + 4;
}

AS_UNUSED static void hand_write(struct hand *h, int i, const void *p, size_t n)
{
    assert_int_equal(send(h->conn[i], p, n, MSG_NOSIGNAL), n);
}

AS_UNUSED static void hand_answer(struct hand *h, int i, const struct taken *t)
{
    uint8_t out[512];

    hand_write(h, i, out, answer_bytes(t, t->r.id, out));
}

AS_UNUSED static void hand_serve(struct hand *h, int i)
{
    struct taken t;

    hand_take(h, i, &t);
    hand_answer(h, i, &t);
    drop(&t);
}

AS_UNUSED static void hand_hang_up(struct hand *h, int i)
{
    close(h->conn[i]);
    h->conn[i] = -1;
}

AS_UNUSED static void hand_close(struct hand *h)
{
    for (int i = 0; i < CONNS; i++) {
        if (h->conn[i] >= 0)
            close(h->conn[i]);
    }
    if (h->listener >= 0)
        close(h->listener);
    h->listener = -1;
}

static struct as_fleet_replica shown;
static uint32_t n_shown;

AS_UNUSED static void show(void *arg AS_UNUSED, const struct as_fleet_replica *r)
{
    shown = *r;
    n_shown++;
}

AS_UNUSED static uint32_t replicas(void)
{
    n_shown = 0;
    as_fleet_each_replica(w.fleet, show, NULL);
    return n_shown;
}

AS_UNUSED static bool state_is(const char *name)
{
    return replicas() == 1 && as_str_eq(shown.state, as_str_of(name));
}

/* --- a client --- */

struct call {
    struct as_call call;
    struct as_arena arena;
    struct as_tensor x;
    int64_t shape;
    uint8_t byte[1];
    char id[16];
    int answers, releases, err;
    uint32_t status;
    uint8_t result;
    size_t n_result;
    char message[300];
};

AS_UNUSED static void on_answer(struct as_call *call)
{
    struct call *c = AS_CONTAINER(call, struct call, call);

    c->answers++;
    c->err = call->outcome.err;
    c->status = call->outcome.status;
    snprintf(c->message, sizeof(c->message), "%.*s", AS_STR_FMT(call->outcome.message));
    if (!call->outcome.err && call->outcome.result.msg.n_tensors) {
        c->n_result = call->outcome.result.msg.tensors[0].nbytes;
        c->result = c->n_result ? call->outcome.result.msg.tensors[0].data[c->n_result - 1] : 0;
    }
    as_blob_unref(call->outcome.result.blob);
    call->outcome.result.blob = NULL;
}

AS_UNUSED static void on_release(struct as_call *call)
{
    struct call *c = AS_CONTAINER(call, struct call, call);

    c->releases++;
    as_arena_fini(&c->arena);
}

static const struct as_model *model(void)
{
    return as_registry_find(w.client.registry, AS_STR("m"), AS_STR("1"), NULL);
}

AS_UNUSED static void submit_as(struct call *c, uint8_t v, const char *id, as_ns timeout)
{
    const struct as_model *m = model();

    assert_non_null(m);
    *c = (struct call){.shape = 1, .byte = {v}};
    snprintf(c->id, sizeof(c->id), "%s", id);
    c->x = (struct as_tensor){.name = AS_STR("x"),
                              .dtype = AS_DT_UINT8,
                              .ndim = 1,
                              .shape = &c->shape,
                              .data = c->byte,
                              .nbytes = 1};
    as_arena_init(&c->arena, NULL, 0);
    as_request_init(&c->call.core);
    c->call.caller = AS_CALL_NO_CALLER;
    c->call.core.deadline = timeout ? as_loop_now(w.loop) + timeout : AS_NEVER;
    c->call.core.model = m->index;
    c->call.core.idempotent = m->idempotent;
    c->call.deployment = m->deployment;
    c->call.payload.msg = (struct as_msg){.id = as_str_of(c->id), .tensors = &c->x, .n_tensors = 1};
    c->call.arena = &c->arena;
    c->call.on_answer = on_answer;
    c->call.on_release = on_release;
    as_fleet_client_submit(&w.client, &c->call);
}

AS_UNUSED static void submit(struct call *c, uint8_t v)
{
    submit_as(c, v, "", 0);
}

AS_UNUSED static void check_good(struct call *c)
{
    UNTIL(c->releases);
    assert_int_equal(c->err, 0);
    assert_int_equal(c->answers, 1);
    assert_int_equal(c->result, (uint8_t)~c->byte[0]);
}

AS_UNUSED static void check_failed(struct call *c, int err)
{
    UNTIL(c->releases);
    assert_int_equal(c->err, err);
    assert_int_equal(c->answers, 1);
}

/* One request from end to end over the i-th connection. */
AS_UNUSED static void exchange(struct hand *h, int i)
{
    struct call c;

    submit(&c, (uint8_t)(40 + i));
    hand_serve(h, i);
    check_good(&c);
}

/* The same over a new connection, which becomes the i-th. */
AS_UNUSED static void exchange_anew(struct hand *h, int i)
{
    struct call c;

    submit(&c, (uint8_t)(50 + i));
    hand_accept(h, i);
    hand_serve(h, i);
    check_good(&c);
}

/* --- most tests --- */

/* A world with one worker, "a", that has one slot, and its first connection. */
AS_UNUSED static void begin_alone_with(struct as_fleet_conf conf, struct hand *h, bool idempotent)
{
    begin_with(conf);
    hand_open(h, "a");
    hand_join(h, idempotent);
    hand_accept(h, 0);
}

AS_UNUSED static void begin_alone(struct hand *h, bool idempotent)
{
    begin_alone_with(usual(), h, idempotent);
}

AS_UNUSED static void end_with(struct hand *h)
{
    end();
    hand_close(h);
}

#endif
