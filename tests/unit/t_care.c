/* What the dispatcher does to keep workers well: health checks, handlers that do not end, questions
 * of the controller's, and replicas that retire. The test speaks for the workers, frame by frame.
 */
#include "link/fleet.h"

#include "base/err.h"
#include "frames.h"
#include "link/page.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/link.h"

#define HANDS    2
#define CALLS    8
#define PATIENCE (20 * AS_SEC)
#define RX_CAP   (256u << 10)

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
    struct as_arena arena;
    struct as_tensor t;
    bool answered, released;
    uint32_t parts;
};

static struct {
    struct as_loop *loop;
    struct as_fleet *fleet;
    struct as_client client;
    struct as_timer watch, pulse;
    struct hand hand[HANDS];
    struct request q[CALLS];
    uint32_t n;
    uint32_t ready, gone, killed, retired, answers;
    char why[256];  /* of the last kill, or answer */
    char token[16]; /* of the last kill, retirement or answer */
    uint64_t id;    /* of the last answer … */
    int err;
} w;

/* --- what the owner hears --- */

static void keep(char *to, size_t n, struct as_str s)
{
    snprintf(to, n, "%.*s", AS_STR_FMT(s));
}

static void on_ready(void *ctx AS_UNUSED, struct as_str a AS_UNUSED, struct as_str b AS_UNUSED,
                     struct as_str c AS_UNUSED)
{
    w.ready++;
}

static void on_gone(void *ctx AS_UNUSED, struct as_str a AS_UNUSED, struct as_str b AS_UNUSED,
                    struct as_str c AS_UNUSED)
{
    w.gone++;
}

static void on_kill(void *ctx AS_UNUSED, struct as_str replica AS_UNUSED, struct as_str token,
                    struct as_str reason)
{
    w.killed++;
    keep(w.token, sizeof(w.token), token);
    keep(w.why, sizeof(w.why), reason);
}

static void on_retired(void *ctx AS_UNUSED, struct as_str replica AS_UNUSED, struct as_str token)
{
    w.retired++;
    keep(w.token, sizeof(w.token), token);
}

static void on_answered(void *ctx AS_UNUSED, struct as_str replica AS_UNUSED, struct as_str token,
                        uint64_t id, int err, struct as_str text)
{
    w.answers++;
    w.id = id;
    w.err = err;
    keep(w.token, sizeof(w.token), token);
    keep(w.why, sizeof(w.why), text);
}

static void on_watch(struct as_timer *t AS_UNUSED)
{
    fail_msg("the test hangs");
}

/* So that the loop never sleeps for long: what the worker's side does is seen soon. */
static void on_pulse(struct as_timer *t)
{
    as_timer_set(t, as_loop_now(w.loop) + AS_MS);
}

/* --- the world --- */

static struct as_fleet_conf usual(void)
{
    return (struct as_fleet_conf){.max_queued = 100,
                                  .max_prefetch = 8,
                                  .prefetch_work = AS_MS,
                                  .ping_interval = 3600 * AS_SEC,
                                  .ping_timeout = 3600 * AS_SEC,
                                  .handshake_timeout = 60 * AS_SEC,
                                  .health_timeout = 3600 * AS_SEC,
                                  .health_failures = 3,
                                  .grace = 60 * AS_SEC,
                                  .max_message = 1 << 20,
                                  .max_body = 1 << 20,
                                  .parts = {4, 100000},
                                  .seed = 7};
}

static void begin(struct as_fleet_conf conf)
{
    static const struct as_fleet_ops ops = {.on_ready = on_ready,
                                            .on_gone = on_gone,
                                            .on_kill = on_kill,
                                            .on_retired = on_retired,
                                            .on_answer = on_answered};

    memset(&w, 0, sizeof(w));
    for (int i = 0; i < HANDS; i++)
        w.hand[i].fd = -1;
    assert_int_equal(as_loop_new(&w.loop, 0), 0);
    assert_int_equal(as_fleet_new(&w.fleet, w.loop, &conf, &ops, NULL, NULL), 0);
    assert_int_equal(as_client_open(&w.client, w.fleet, w.loop), 0);
    as_fleet_token(w.fleet, AS_STR("t0"), AS_STR("app-0"), AS_STR("app"));
    as_fleet_token(w.fleet, AS_STR("t1"), AS_STR("app-1"), AS_STR("app"));
    as_fleet_join_token(w.fleet, AS_STR("join"));
    as_timer_init(&w.watch, w.loop, on_watch);
    as_timer_init(&w.pulse, w.loop, on_pulse);
    as_timer_set(&w.pulse, as_loop_now(w.loop));
}

static void hand_close(struct hand *h)
{
    if (h->fd < 0)
        return;
    close(h->fd);
    as_outq_fini(&h->out);
    as_page_close(&h->page);
    free(h->rx);
    h->fd = -1;
}

static void end(void)
{
    as_fleet_stop(w.fleet);
    for (int i = 0; i < HANDS; i++)
        hand_close(&w.hand[i]);
    for (uint32_t i = 0; i < w.n; i++) { /* what is queued still */
        if (!w.q[i].released)
            as_client_cancel(&w.client, &w.q[i].call);
        assert_true(w.q[i].released);
        as_arena_fini(&w.q[i].arena);
    }
    assert_int_equal(as_fleet_unanswered(w.fleet), 0);
    as_client_close(&w.client);
    as_fleet_free(w.fleet);
    as_timer_close(&w.watch, NULL);
    as_timer_close(&w.pulse, NULL);
    as_loop_free(w.loop);
}

static void flush(struct hand *h)
{
    struct iovec iov[16];

    while (h->fd >= 0 && h->out.bytes) {
        ssize_t k = writev(h->fd, iov, as_outq_iov(&h->out, iov, 16));

        assert_true(k > 0);
        as_outq_drop(&h->out, (size_t)k);
    }
}

static void turn(void)
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
static bool hand_reads(struct hand *h)
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

/* Passes over what is not of that type; OPENs are kept in mind. */
static void expect(struct hand *h, enum as_frame_type type)
{
    do {
        UNTIL(hand_reads(h));
        if (h->f.type == AS_FRAME_OPEN)
            h->streams[h->n++] = h->f.stream;
    } while (h->f.type != type);
}

/* The status page travels with HELLO. */
static void send_page(struct hand *h)
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

static struct as_frame_register model(bool idempotent)
{
    return (struct as_frame_register){.name = AS_STR("m"),
                                      .version = AS_STR("1"),
                                      .platform = AS_STR("test"),
                                      .max_ongoing = 4,
                                      .idempotent = idempotent,
                                      .decoupled = true,
                                      .budget = 4};
}

static struct as_frame_options no_options;

/* A worker that says it is READY; until the dispatcher has heard it. */
static struct hand *join(int i, const char *token, bool idempotent,
                         const struct as_frame_options *o)
{
    struct as_frame_hello hello = {.lo = 1,
                                   .hi = 1,
                                   .capabilities = AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL,
                                   .max_message = 1 << 20,
                                   .token = as_str_of(token),
                                   .replica = AS_STR("guest"),
                                   .deployment = AS_STR("app")};
    struct as_frame_register r = model(idempotent);
    struct hand *h = &w.hand[i];
    uint32_t ready = w.ready;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *h = (struct hand){.fd = fds[1], .rx = aligned_alloc(64, RX_CAP)};
    as_outq_init(&h->out);
    assert_int_equal(as_page_open(&h->page), 0);
    as_link_accept(w.fleet, fds[0]);
    as_frame_put_hello(&h->out, &hello);
    send_page(h);
    if (o->has)
        as_frame_put_options(&h->out, o);
    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    expect(h, AS_FRAME_REGISTERED);
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 2, .prefetch = 8});
    UNTIL(w.ready > ready);
    return h;
}

static struct as_frame_options one_option(enum as_frame_option key, uint64_t v)
{
    struct as_frame_options o = {.has = 1u << key};

    o.value[key] = v;
    return o;
}

/* --- requests --- */

static void on_answer(struct as_call *c)
{
    struct request *q = AS_CONTAINER(c, struct request, call);

    assert_false(q->answered);
    q->answered = true;
    as_blob_unref(c->result_blob);
    c->result_blob = NULL;
}

static void on_release(struct as_call *c)
{
    AS_CONTAINER(c, struct request, call)->released = true;
}

static void on_part(struct as_call *c, struct as_part *p)
{
    AS_CONTAINER(c, struct request, call)->parts++;
    as_client_credit(&w.client, c, 1, p->cost);
}

static struct request *submit(void)
{
    static const int64_t shape[] = {4};
    static const uint8_t values[4];
    struct request *q = &w.q[w.n++];

    q->t = (struct as_tensor){.name = AS_STR("x"),
                              .dtype = AS_DT_UINT8,
                              .ndim = 1,
                              .shape = shape,
                              .data = values,
                              .nbytes = sizeof(values)};
    as_arena_init(&q->arena, NULL, 0);
    as_request_init(&q->call.core);
    q->call.core.model = as_registry_at(w.client.registry, 0)->index;
    q->call.core.idempotent = as_registry_at(w.client.registry, 0)->idempotent;
    q->call.deployment = as_registry_at(w.client.registry, 0)->deployment;
    q->call.msg = (struct as_msg){.tensors = &q->t, .n_tensors = 1};
    q->call.arena = &q->arena;
    q->call.on_answer = on_answer;
    q->call.on_release = on_release;
    q->call.on_part = on_part;
    as_client_submit(&w.client, &q->call);
    return q;
}

/* The n-th OPEN of h has come, and its handler runs. */
static void start(struct hand *h, uint32_t n)
{
    while (h->n < n)
        expect(h, AS_FRAME_OPEN);
    as_page_start(&h->page, h->streams[n - 1], as_loop_now(w.loop));
}

static void say_part(struct hand *h, uint64_t stream)
{
    struct request *q = &w.q[0];
    struct as_frame_msg fixed = {.more = true};
    struct as_msg msg = {.tensors = &q->t, .n_tensors = 1};

    assert_int_equal(as_frame_put_msg(&h->out, AS_FRAME_DATA, stream, &fixed, &msg, NULL), 0);
}

/* The process of that token has died, as the supervisor says. */
static void die(int i, const char *token)
{
    as_fleet_forget(w.fleet, as_str_of(token), AS_LOSS_KILLED);
    hand_close(&w.hand[i]);
}

/* --- health --- */

static uint64_t next_check(struct hand *h)
{
    struct as_frame_control c;

    expect(h, AS_FRAME_CONTROL);
    assert_int_equal(as_frame_get_control(&h->f, &c), 0);
    assert_false(c.reply);
    assert_int_equal(c.op, AS_CONTROL_HEALTH);
    return h->f.stream;
}

static void reply(struct hand *h, uint64_t stream, uint16_t op, uint32_t code, const char *text)
{
    struct as_frame_control c = {.op = op, .reply = true, .code = code, .text = as_str_of(text)};

    as_frame_put_control(&h->out, stream, &c);
}

static uint32_t ready_replicas(void)
{
    return as_deploy_ready(w.fleet->deploys[0]->core);
}

static struct as_frame_options checks(as_ns period)
{
    return one_option(AS_FRAME_OPT_HEALTH_PERIOD, period);
}

static void a_sick_worker_gets_nothing_until_it_is_well(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(5 * AS_MS);
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &o);
    reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    UNTIL(ready_replicas() == 0);
    submit();
    reply(h, next_check(h), AS_CONTROL_HEALTH, 0, "");
    expect(h, AS_FRAME_OPEN);
    assert_int_equal(ready_replicas(), 1);
    assert_int_equal(w.killed, 0);
    end();
}

static void failures_in_a_row_end_a_process_of_ours(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(5 * AS_MS);
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &o);
    reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    reply(h, next_check(h), AS_CONTROL_HEALTH, 0, ""); /* begins anew */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(w.killed, 0);
        reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    }
    UNTIL(w.killed == 1);
    assert_string_equal(w.token, "t0");
    assert_string_equal(w.why, "3 health checks failed in a row, the last one: no GPU");
    assert_int_equal(w.gone, 0); /* its death is waited for */
    die(0, "t0");
    assert_int_equal(w.gone, 1);
    end();
}

/* It would only come again; and it may get well. */
static void a_worker_that_came_by_itself_is_not_ended_by_its_word(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(3 * AS_MS);
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &o);
    for (int i = 0; i < 5; i++)
        reply(h, next_check(h), AS_CONTROL_HEALTH, 14, "no GPU");
    reply(h, next_check(h), AS_CONTROL_HEALTH, 0, "");
    UNTIL(ready_replicas() == 1);
    assert_int_equal(w.killed + w.gone, 0);
    end();
}

static void a_check_without_an_answer_fails(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(5 * AS_MS);
    uint64_t late;
    struct hand *h;

    begin(usual());
    o.has |= 1u << AS_FRAME_OPT_HEALTH_TIMEOUT;
    o.value[AS_FRAME_OPT_HEALTH_TIMEOUT] = 20 * AS_MS;
    h = join(0, "t0", false, &o);
    late = next_check(h);
    UNTIL(ready_replicas() == 0);
    assert_true(next_check(h) > late);
    reply(h, late, AS_CONTROL_HEALTH, 0, ""); /* of the one that has failed: not heard */
    UNTIL(w.killed == 1);
    assert_string_equal(w.why,
                        "3 health checks failed in a row, the last one: no answer within 0.02 s");
    die(0, "t0");
    end();
}

/* Its one thread is inside a handler, for however long: that is the execution timeout's business.
 */
static void the_time_in_a_handler_is_not_the_checks(void **state AS_UNUSED)
{
    struct as_frame_options o = checks(2 * AS_MS);
    uint64_t check;
    struct hand *h;
    as_ns since;

    begin(usual());
    o.has |= 1u << AS_FRAME_OPT_HEALTH_TIMEOUT;
    o.value[AS_FRAME_OPT_HEALTH_TIMEOUT] = 10 * AS_MS;
    h = join(0, "t0", false, &o);
    as_page_hold(&h->page, 1);
    check = next_check(h);
    since = as_loop_now(w.loop);
    UNTIL(as_loop_now(w.loop) - since > 60 * AS_MS);
    assert_int_equal(ready_replicas(), 1);
    as_page_hold(&h->page, 0); /* it is back, and answers */
    reply(h, check, AS_CONTROL_HEALTH, 0, "");
    assert_true(next_check(h) > check);
    UNTIL(ready_replicas() == 0); /* now it is free, and does not */
    end();
}

static void no_period_no_checks(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct as_frame_options o = checks(0);
    struct hand *h;

    conf.health_period = AS_MS; /* the worker has the last word */
    conf.ping_interval = 4 * AS_MS;
    begin(conf);
    h = join(0, "t0", false, &o);
    for (int i = 0; i < 5; i++) { /* pings go on */
        UNTIL(hand_reads(h));
        assert_int_equal(h->f.type, AS_FRAME_PING);
        as_frame_put_ping(&h->out, AS_FRAME_PONG, u64_at(h->f.p));
    }
    end();
}

/* --- handlers that do not end --- */

static struct as_frame_options execution(as_ns time)
{
    return one_option(AS_FRAME_OPT_EXECUTION_TIMEOUT, time);
}

/* Both workers; what is hung is answered before its process is dead, the rest goes on elsewhere. */
static void a_hung_handler_is_answered_and_its_worker_killed(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(200 * AS_MS);
    struct request *hung, *waits;
    struct hand *h, *other;
    as_ns since;

    begin(usual());
    h = join(0, "t0", true, &o);
    hung = submit();
    waits = submit();
    start(h, 1);
    since = as_loop_now(w.loop);
    expect(h, AS_FRAME_OPEN); /* it does not start */
    UNTIL(hung->answered);
    assert_int_equal(hung->call.err, AS_EHUNG); /* idempotent or not */
    assert_true(as_loop_now(w.loop) - since >= 200 * AS_MS);
    assert_int_equal(w.killed, 1);
    assert_string_equal(w.token, "t0");
    assert_string_equal(w.why,
                        "the handler of model m has run for longer than execution_timeout_s (0.2)");
    assert_false(waits->answered);
    other = join(1, "t1", true, &no_options);
    assert_int_equal(other->n, 0); /* not while it could still be started over there */
    die(0, "t0");
    expect(other, AS_FRAME_OPEN);
    assert_true(hung->released);
    assert_false(waits->answered);
    end();
}

static void others_that_had_started_go_by_the_table(void **state AS_UNUSED)
{
    for (int idempotent = 0; idempotent < 2; idempotent++) {
        struct as_frame_options o = execution(400 * AS_MS);
        struct request *hung, *young;
        struct hand *h;

        begin(usual());
        h = join(0, "t0", idempotent, &o);
        hung = submit();
        start(h, 1);
        UNTIL(hung->call.begun >= hung->call.core.sent && hung->call.started);
        young = submit();
        start(h, 2);
        UNTIL(hung->answered);
        assert_false(young->answered); /* it may end before the process does */
        die(0, "t0");
        if (idempotent) {
            assert_false(young->answered);
            expect(join(1, "t1", true, &no_options), AS_FRAME_OPEN);
        } else {
            assert_true(young->answered);
            assert_int_equal(young->call.err, AS_EMAYHAVERUN);
        }
        end();
    }
}

/* A process that was stopped starts nothing: the verdict is the same, and nothing of it has run. */
static void a_request_that_is_not_started_is_replayed(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(30 * AS_MS);
    struct request *q;

    begin(usual());
    join(0, "t0", false, &o);
    q = submit();
    UNTIL(w.killed == 1);
    assert_string_equal(w.why,
                        "a request of model m was not started within execution_timeout_s (0.03)");
    assert_false(q->answered);
    die(0, "t0");
    assert_false(q->answered);
    expect(join(1, "t1", false, &no_options), AS_FRAME_OPEN);
    end();
}

static void a_handler_that_gives_parts_does_not_hang(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(400 * AS_MS);
    struct request *q;
    struct hand *h;
    as_ns since;

    begin(usual());
    h = join(0, "t0", false, &o);
    q = submit();
    start(h, 1);
    since = as_loop_now(w.loop);
    for (uint32_t i = 1; as_loop_now(w.loop) - since < 600 * AS_MS; i++) {
        as_ns last = as_loop_now(w.loop);

        say_part(h, h->streams[0]);
        UNTIL(q->parts == i);
        UNTIL(as_loop_now(w.loop) - last >= 10 * AS_MS);
    }
    assert_int_equal(w.killed, 0);
    UNTIL(w.killed == 1); /* and when it stops giving them, it does */
    end();
}

/* The supervisor has not ended it: half a second later its requests are given up. */
static void a_process_that_does_not_die_loses_its_link(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(10 * AS_MS);
    struct request *q;

    begin(usual());
    join(0, "t0", false, &o);
    q = submit();
    UNTIL(w.killed == 1);
    UNTIL(w.gone == 1);
    assert_true(q->answered);
    assert_int_equal(q->call.err, AS_EMAYHAVERUN); /* it lives, and could run it yet */
    end();
}

static void a_worker_that_came_by_itself_loses_its_link_at_once(void **state AS_UNUSED)
{
    struct as_frame_options o = execution(200 * AS_MS);
    struct request *q;
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &o);
    q = submit();
    start(h, 1);
    UNTIL(w.gone == 1);
    assert_int_equal(w.killed, 0);
    assert_true(q->answered);
    assert_int_equal(q->call.err, AS_EHUNG);
    end();
}

/* --- requests without a deadline --- */

static void the_deployment_has_a_deadline_for_them(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_REQUEST_TIMEOUT, 20 * AS_MS);
    struct request *q;
    struct hand *h;
    as_ns since;

    begin(usual());
    h = join(0, "t0", false, &o);
    since = as_loop_now(w.loop);
    q = submit();
    assert_true(q->call.core.deadline >= since + 20 * AS_MS);
    expect(h, AS_FRAME_CANCEL);
    assert_true(q->answered);
    assert_int_equal(q->call.err, AS_EDEADLINE);
    end();
}

static void options_that_make_no_sense_end_the_link(void **state AS_UNUSED)
{
    struct as_frame_options o = one_option(AS_FRAME_OPT_REQUEST_TIMEOUT, AS_FRAME_OPTION_MAX + 1);
    struct hand *h;

    begin(usual());
    h = join(0, "join", false, &no_options);
    as_frame_put_options(&h->out, &o);
    UNTIL(w.gone == 1);
    end();
}

/* --- questions of the controller's --- */

static uint64_t expect_ask(struct hand *h, const char *text)
{
    struct as_frame_control c;

    expect(h, AS_FRAME_CONTROL);
    assert_int_equal(as_frame_get_control(&h->f, &c), 0);
    assert_int_equal(c.op, AS_CONTROL_RECONFIGURE);
    assert_str(c.text, text);
    return h->f.stream;
}

static void ask(const char *token, uint64_t id, const char *text)
{
    as_fleet_ask(w.fleet, as_str_of(token), id, AS_CONTROL_RECONFIGURE, as_str_of(text));
}

static void a_question_is_answered_under_its_id(void **state AS_UNUSED)
{
    uint64_t stream;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    ask("t0", 41, "{\"rank\":1}");
    stream = expect_ask(h, "{\"rank\":1}");
    assert_int_equal(ready_replicas(), 0); /* what comes now is for the new configuration */
    submit();
    ask("t0", 42, "{}"); /* one at a time */
    assert_int_equal(w.answers, 1);
    assert_int_equal(w.id, 42);
    assert_int_equal(w.err, AS_EFULL);
    reply(h, stream + 7, AS_CONTROL_RECONFIGURE, 0, ""); /* to nothing */
    reply(h, stream, AS_CONTROL_RECONFIGURE, 0, "done");
    UNTIL(w.answers == 2);
    assert_int_equal(w.id, 41);
    assert_int_equal(w.err, 0);
    assert_string_equal(w.why, "done");
    assert_string_equal(w.token, "t0");
    expect(h, AS_FRAME_OPEN);
    ask("t0", 43, "{}");
    reply(h, expect_ask(h, "{}"), AS_CONTROL_RECONFIGURE, 3, "Traceback");
    UNTIL(w.answers == 3);
    assert_int_equal(w.err, AS_EHANDLER);
    assert_string_equal(w.why, "Traceback");
    assert_int_equal(ready_replicas(), 1);
    end();
}

static void every_question_has_an_answer(void **state AS_UNUSED)
{
    char *large = calloc(1, AS_FRAME_ASK + 2);
    struct hand *h;

    begin(usual());
    ask("t0", 1, "{}"); /* nobody there */
    assert_int_equal(w.err, AS_EUNAVAILABLE);
    ask("unknown", 2, "{}");
    assert_int_equal(w.err, AS_EUNAVAILABLE);
    assert_int_equal(w.id, 2);
    h = join(0, "t0", false, &no_options);
    memset(large, 'x', AS_FRAME_ASK + 1);
    ask("t0", 3, large);
    assert_int_equal(w.err, AS_ETOOBIG);
    large[AS_FRAME_ASK] = 0;
    ask("t0", 4, large);
    assert_int_equal(w.answers, 3);
    expect_ask(h, large);
    die(0, "t0"); /* without a word */
    assert_int_equal(w.answers, 4);
    assert_int_equal(w.id, 4);
    assert_int_equal(w.err, AS_EUNAVAILABLE);
    free(large);
    end();
}

/* --- retiring --- */

static void an_idle_replica_retires_at_once(void **state AS_UNUSED)
{
    begin(usual());
    as_fleet_retire(w.fleet, AS_STR("t0")); /* it has no link yet, and holds nothing */
    assert_int_equal(w.retired, 1);
    assert_string_equal(w.token, "t0");
    join(0, "t0", false, &no_options); /* nor does it get anything later */
    assert_int_equal(ready_replicas(), 0);
    as_fleet_retire(w.fleet, AS_STR("t0"));
    assert_int_equal(w.retired, 2);
    as_fleet_retire(w.fleet, AS_STR("unknown"));
    assert_int_equal(w.retired, 3);
    assert_string_equal(w.token, "unknown");
    end();
}

static void a_busy_replica_retires_with_its_last_answer(void **state AS_UNUSED)
{
    struct request *a, *b, *c;
    struct hand *h;

    begin(usual());
    h = join(0, "t0", false, &no_options);
    a = submit();
    b = submit();
    start(h, 2);
    as_fleet_retire(w.fleet, AS_STR("t0"));
    c = submit(); /* waits for another */
    assert_int_equal(w.retired, 0);
    as_frame_put_end(&h->out, h->streams[0], 0);
    UNTIL(a->answered);
    assert_int_equal(w.retired, 0);
    as_client_cancel(&w.client, &b->call); /* it runs until its worker says so */
    assert_int_equal(w.retired, 0);
    as_frame_put_error(&h->out, h->streams[1],
                       &(struct as_frame_error){.code = 1, .flags = AS_ERROR_F_STARTED});
    UNTIL(w.retired == 1);
    assert_true(b->released);
    assert_false(c->answered);
    assert_int_equal(h->n, 2);
    expect(join(1, "t1", false, &no_options), AS_FRAME_OPEN);
    end();
}

static void a_retiring_replica_that_dies_has_retired(void **state AS_UNUSED)
{
    struct request *a;

    begin(usual());
    join(0, "t0", false, &no_options);
    a = submit();
    as_fleet_retire(w.fleet, AS_STR("t0"));
    assert_int_equal(w.retired, 0);
    die(0, "t0");
    assert_int_equal(w.retired, 1);
    assert_false(a->answered); /* it had not started, and waits for another */
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sick_worker_gets_nothing_until_it_is_well),
        cmocka_unit_test(failures_in_a_row_end_a_process_of_ours),
        cmocka_unit_test(a_worker_that_came_by_itself_is_not_ended_by_its_word),
        cmocka_unit_test(a_check_without_an_answer_fails),
        cmocka_unit_test(the_time_in_a_handler_is_not_the_checks),
        cmocka_unit_test(no_period_no_checks),
        cmocka_unit_test(a_hung_handler_is_answered_and_its_worker_killed),
        cmocka_unit_test(others_that_had_started_go_by_the_table),
        cmocka_unit_test(a_request_that_is_not_started_is_replayed),
        cmocka_unit_test(a_handler_that_gives_parts_does_not_hang),
        cmocka_unit_test(a_process_that_does_not_die_loses_its_link),
        cmocka_unit_test(a_worker_that_came_by_itself_loses_its_link_at_once),
        cmocka_unit_test(the_deployment_has_a_deadline_for_them),
        cmocka_unit_test(options_that_make_no_sense_end_the_link),
        cmocka_unit_test(a_question_is_answered_under_its_id),
        cmocka_unit_test(every_question_has_an_answer),
        cmocka_unit_test(an_idle_replica_retires_at_once),
        cmocka_unit_test(a_busy_replica_retires_with_its_last_answer),
        cmocka_unit_test(a_retiring_replica_that_dies_has_retired),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
