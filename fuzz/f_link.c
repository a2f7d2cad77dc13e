/* fuzz/f_link.c — plays a hostile worker against a real link, with requests in flight.
 *
 * The input is a script: well-formed frames in any order with fuzzed numbers, calls to itself and
 * to nobody, raw frames, raw bytes, requests that are submitted and cancelled in between. Whatever
 * it does, the dispatcher must neither crash nor leak, answer each request at most once and release
 * each exactly once.
 */
#include "base/err.h"
#include "link/fleet/fleet.h"
#include "link/native/link.h"
#include "wire/frame/body.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* more than max_queued and what one worker may hold: the queue is full and refuses at times */
#define CALLS 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the edge would know of a request. `gone`: its client has left, so no answer may come any
 * more. */
struct request {
    struct as_call call;
    struct as_call_stream stream;
    struct as_input input; /* one more message of it, while the fleet holds it */
    struct as_arena arena;
    bool open, answered, gone;
    bool input_held, inputs_over;
    struct world *w;
};

/* One dispatch loop with its fleet, one link, one client on the same loop: no letters, so that
 * every step is over when the turn is. */
struct world {
    struct as_loop *loop;
    struct as_fleet *fleet;
    struct as_fleet_client client;
    struct as_blob *big;
    struct request r[CALLS];
    uint32_t n;
    int peer;
    struct as_outq out;       /* to the dispatcher */
    uint64_t asked, answered; /* questions, each of which has one answer */
    uint64_t even;            /* the next stream of a call */
};

/* The input. When it is used up every further byte reads as 0: any cut of an input is an input. */
struct script {
    const uint8_t *p;
    size_t n;
};

static uint8_t byte(struct script *s)
{
    if (!s->n)
        return 0;
    s->n--;
    return *s->p++;
}

/* Odd ids are ours to give; an even one, rarely, is a lie of its own. Few, so that ids that exist,
 * that are over, and that never were all come up. */
static uint64_t stream_id(struct script *s)
{
    return (uint64_t)(byte(s) % 48) * 2 + 1 - (byte(s) == 255);
}

/* At most once, not after a cancel, and with bytes that may all be read. */
static void on_answer(struct as_call *c)
{
    struct request *r = AS_CONTAINER(c, struct request, call);
    volatile uint8_t sum = 0;

    AS_ASSERT(r->open && !r->answered && !r->gone);
    r->answered = true;
    if (!c->outcome.err) {
        for (uint32_t i = 0; i < c->outcome.result.msg.n_tensors; i++) {
            const struct as_tensor *t = &c->outcome.result.msg.tensors[i];

            for (size_t k = 0; k < t->nbytes; k++)
                sum = (uint8_t)(sum + t->data[k]);
        }
    }
    as_blob_unref(c->outcome.result.blob);
    c->outcome.result.blob = NULL;
}

/* Exactly once, and after it the memory is ours: the arena goes, as the exchange's does. */
static void on_release(struct as_call *c)
{
    struct request *r = AS_CONTAINER(c, struct request, call);

    AS_ASSERT(r->open && !r->input_held && (r->answered || r->gone));
    r->open = false;
    as_arena_fini(&r->arena);
}

/* Before the answer, not after a cancel; half of the parts are taken at once. */
static void on_part(struct as_call *c, struct as_part *p)
{
    struct request *r = AS_CONTAINER(c, struct request, call);
    volatile uint8_t sum = 0;

    AS_ASSERT(r->open && !r->answered && !r->gone);
    for (uint32_t i = 0; i < p->payload.msg.n_tensors; i++) {
        const struct as_tensor *t = &p->payload.msg.tensors[i];

        for (size_t k = 0; k < t->nbytes; k++)
            sum = (uint8_t)(sum + t->data[k]);
    }
    if (p->cost & 1)
        as_fleet_client_credit(&r->w->client, c, 1, p->cost);
}

static void on_input_release(struct as_input *input)
{
    struct request *r = AS_CONTAINER(input, struct request, input);

    AS_ASSERT(r->open && r->input_held);
    r->input_held = false;
}

/* One more input, or the end of them, whatever the state of the request. */
static void say_more(struct world *w, struct script *s)
{
    struct request *r = &w->r[byte(s) % CALLS];
    bool over = byte(s) & 1;

    if (!r->open || r->gone || !r->call.stream || !r->stream.takes_inputs || r->input_held ||
        r->inputs_over)
        return;
    if (over) {
        r->inputs_over = true;
        as_fleet_client_input_end(&w->client, &r->call);
        return;
    }
    r->input_held = true;
    r->input.payload = r->call.payload;
    r->input.on_release = on_input_release;
    as_fleet_client_input(&w->client, &r->call, &r->input);
}

static void submit(struct world *w, struct script *s)
{
    static const int64_t shape[] = {4};
    static const int64_t big_shape[] = {300000};
    static const float values[4];
    struct request *r;
    const struct as_batch_conf *batching;
    struct as_tensor *t;
    uint8_t how = byte(s);

    /* as the edge: without a model in the registry nothing can be submitted */
    if (w->n == CALLS || !as_registry_count(w->client.registry))
        return;
    r = &w->r[w->n++];
    *r = (struct request){.open = true, .w = w};
    as_arena_init(&r->arena, NULL, 0);
    t = as_arena_alloc(&r->arena, sizeof(*t), 8);
    *t = (struct as_tensor){.name = AS_STR("x"),
                            .dtype = AS_DT_FP32,
                            .ndim = 1,
                            .shape = shape,
                            .data = (const uint8_t *)values,
                            .nbytes = sizeof(values)};
    /* above AS_COPY_MAX: sent by reference, in frames of its own, and may be cancelled half way */
    if (how & 4) {
        *t = (struct as_tensor){.name = AS_STR("x"),
                                .dtype = AS_DT_INT8,
                                .ndim = 1,
                                .shape = big_shape,
                                .data = w->big->data,
                                .nbytes = 300000};
        r->call.payload.blob = w->big;
    }
    as_request_init(&r->call.core);
    r->call.core.priority = how % 3;
    r->call.core.idempotent = how & 8;
    /* some microseconds: it passes between this turn and one of the next, or is never reached */
    r->call.core.deadline = how & 16 ? as_loop_now(w->loop) + AS_US * how : AS_NEVER;
    r->call.core.model = as_registry_at(w->client.registry, 0)->index;
    batching = &as_registry_at(w->client.registry, 0)->batching;
    if (batching->max_size) { /* as the edge: one item, or as many as there may be */
        r->call.payload.batching = batching->ragged ? AS_PAYLOAD_RAGGED : AS_PAYLOAD_SAME_SHAPE;
        r->call.core.items = how & 32 ? batching->max_size : 1;
    }
    r->call.deployment = as_registry_at(w->client.registry, 0)->deployment;
    r->call.payload.msg = (struct as_msg){.tensors = t, .n_tensors = 1, .id = AS_STR("id")};
    r->call.arena = &r->arena;
    r->call.on_answer = on_answer;
    r->call.on_release = on_release;
    r->stream = (struct as_call_stream){.on_part = on_part, .takes_inputs = how & 64};
    r->call.stream = how & 32 ? &r->stream : NULL;
    as_fleet_client_submit(&w->client, &r->call);
}

/* Any time, also before the OPEN has left us. */
static void cancel(struct world *w, struct script *s)
{
    struct request *r = &w->r[byte(s) % CALLS];

    if (!r->open || r->gone)
        return;
    r->gone = true;
    as_fleet_client_cancel(&w->client, &r->call);
}

/* --- what the worker says --- */

/* Each bit is one thing that is wrong, so that a valid greeting and every refusal are one byte
 * apart. The limit of 1 byte: a worker that takes no request at all. */
static void say_hello(struct world *w, struct script *s)
{
    uint8_t how = byte(s);
    struct as_frame_hello h = {.max_message = how & 128 ? 1 : 2 << 20,
                               .lo = (uint16_t)(how & 1 ? 1 : how % 3),
                               .hi = 1,
                               .capabilities = how & 2 ? 0 : how,
                               .token = how & 4 ? AS_STR("wrong") : AS_STR("secret"),
                               .replica = AS_STR("r-0"),
                               .deployment = how & 8 ? AS_STR("other") : AS_STR("app")};

    as_frame_put_hello(&w->out, &h);
}

/* Likewise. The same model twice, the same with another signature, a budget of 0: all are in reach.
 */
static void say_register(struct world *w, struct script *s)
{
    static const int64_t shape[] = {-1};
    uint8_t how = byte(s);
    uint8_t many = how & 128 ? byte(s) : 0;
    static const struct as_str labels[] = {{"a", 1}, {"b\n", 2}};
    struct as_tensor_spec spec = {.name = AS_STR("x"),
                                  .dtype = AS_DT_FP32,
                                  .ndim = how & 1 ? AS_ANY_RANK : 1,
                                  .shape = shape};
    struct as_tensor_spec labelled = {.name = AS_STR("y"),
                                      .dtype = AS_DT_FP32,
                                      .ndim = AS_ANY_RANK,
                                      .labels = labels,
                                      .n_labels = many >> 6};
    struct as_frame_register r = {.model = how,
                                  .name = how & 2 ? AS_STR("bad//name") : AS_STR("m"),
                                  .version = how & 4 ? AS_STR("2") : AS_STR("1"),
                                  .max_ongoing = how & 8 ? 3 : 1,
                                  .idempotent = how & 16,
                                  .has_inputs = how & 32,
                                  .decoupled = how & 128,
                                  .max_queued = 8,
                                  .budget = how & 64 ? 0 : 4};

    if (how & 128) /* some of them wrong: a preferred size of 5 */
        r.batching = (struct as_frame_batching){.max_size = many % 8,
                                                .max_wait = many & 8 ? 5 * AS_US : 0,
                                                .ragged = many & 16,
                                                .n_preferred = many & 32 ? 1 : 0,
                                                .preferred = {many & 64 ? 5 : 1}};
    if (r.has_inputs) {
        r.inputs = &spec;
        r.n_inputs = 1;
    }
    if (many >>
        6) { /* two of them: the second is none; three: what is behind them is not touched */
        labelled.n_labels = AS_MIN(labelled.n_labels, 2u);
        r.has_outputs = true;
        r.outputs = &labelled;
        r.n_outputs = 1;
    }
    as_frame_put_register(&w->out, &r);
}

/* Well-formed, to a stream that may not exist, be another's or be over. Above 64 KiB it is received
 * into a blob of its own. */
static void say_answer(struct world *w, struct script *s)
{
    uint8_t how = byte(s);
    int64_t shape[] = {how & 1 ? 300000 : how};
    struct as_tensor t = {.name = AS_STR("y"),
                          .dtype = AS_DT_INT8,
                          .ndim = 1,
                          .shape = shape,
                          .data = w->big->data,
                          .nbytes = (size_t)shape[0]};
    struct as_frame_msg fixed = {.service = (uint64_t)how * 100, .more = how & 2};
    struct as_msg msg = {.tensors = &t, .n_tensors = 1};

    as_frame_put_msg(&w->out, AS_FRAME_DATA, stream_id(s), &fixed, &msg, NULL);
}

/* Everything is read from the script before the choice, so that a change of one byte changes one
 * thing. */
static void say_small(struct world *w, struct script *s)
{
    struct as_frame_credit credit = {.slots = byte(s), .prefetch = byte(s)};
    struct as_frame_error error = {
        .code = byte(s) % 18, .flags = byte(s) & 3, .message = AS_STR("no")};
    struct as_frame_control control = {
        .op = byte(s) % 6, .reply = byte(s) & 1, .code = byte(s) & 1};
    uint64_t ids[3] = {stream_id(s), stream_id(s), stream_id(s)};

    switch (byte(s) % 10) {
    case 0:
        as_frame_put_error(&w->out, stream_id(s), &error);
        break;
    case 1:
        as_frame_put_ids(&w->out, AS_FRAME_RETURNED, ids, byte(s) % 4);
        break;
    case 2:
        as_frame_put_control(&w->out, 0, &control);
        break;
    case 3:
        as_frame_put_ping(&w->out, byte(s) & 1 ? AS_FRAME_PING : AS_FRAME_PONG, byte(s));
        break;
    case 4:
        as_frame_put_text(&w->out, byte(s) & 1 ? AS_FRAME_DRAIN : AS_FRAME_GOODBYE, AS_STR(""));
        break;
    case 5: /* for inputs; with slots it is a lie */
        credit.messages = byte(s);
        credit.bytes = (uint64_t)byte(s) << 12;
        credit.slots = credit.prefetch = byte(s) == 255;
        as_frame_put_credit(&w->out, stream_id(s), &credit);
        break;
    case 6:
        as_frame_put_end(&w->out, stream_id(s), byte(s));
        break;
    default:
        as_frame_put_credit(&w->out, 0, &credit);
    }
}

#include "link_calls.h" /* it uses the world, the script and stream_id */

/* Who gets copies, canaries and what it cannot serve: also itself, and one that is not there. */
static void say_traffic(struct world *w, uint32_t how)
{
    static const char *const others[] = {"other", "", "app", "m:1"};
    bool canary = how & 4;
    struct as_frame_traffic t = {.flags = canary ? AS_FRAME_CANARY : 0,
                                 .canary = canary ? AS_FRAME_SHARE / 2 : 0,
                                 .mirror = how == 7 ? AS_FRAME_SHARE : how,
                                 .fallback = as_str_of(others[how % 4])};

    as_frame_put_traffic(&w->out, &t);
}

/* Options and replies of the worker's, questions and retirement of the controller's. The times are
 * 0, an hour, or too long: none of them passes while we look. */
static void care(struct world *w, struct script *s)
{
    static const uint64_t times[] = {0, 3600 * AS_SEC, AS_FRAME_OPTION_MAX + 1};
    struct as_frame_options o = {.has = byte(s)};
    struct as_frame_control c = {
        .op = byte(s) % 4, .reply = true, .code = byte(s) & 1, .text = AS_STR("so")};
    uint64_t time = times[byte(s) % 3], stream = byte(s) % 8;

    for (uint32_t key = 1; key < AS_FRAME_OPTION_END; key++)
        o.value[key] = key == AS_FRAME_OPT_MAX_QUEUED   ? time % 8
                       : key == AS_FRAME_OPT_IDEMPOTENT ? time & 1
                                                        : time;
    o.has &= (1u << AS_FRAME_OPTION_END) - 1;
    switch (byte(s) % 5) {
    case 0:
        as_frame_put_options(&w->out, &o);
        break;
    case 4:
        say_traffic(w, (uint32_t)stream);
        break;
    case 1:
        as_frame_put_control(&w->out, stream, &c);
        break;
    case 2:
        w->asked++;
        as_fleet_send_control(w->fleet, AS_STR("secret"), w->asked, AS_CONTROL_RECONFIGURE,
                              AS_STR("{}"));
        break;
    default:
        as_fleet_retire_process(w->fleet, AS_STR("secret"));
    }
}

/* Framed: a right length and any payload under any type, to get past the framing. Else bytes as
 * they are. */
static void say_raw(struct world *w, struct script *s, bool framed)
{
    size_t n = AS_MIN(s->n, (size_t)byte(s)), total = AS_ALIGN(16 + n, 64);
    uint8_t *p;

    if (!framed) {
        n = AS_MIN(n, s->n);
        as_outq_copy(&w->out, s->p, n);
        s->p += n;
        s->n -= n;
        return;
    }
    p = as_outq_alloc(&w->out, total);
    memset(p, 0, total);
    p[0] = (uint8_t)n;
    p[4] = byte(s) % 28;
    p[5] = byte(s) & 0x83;
    p[8] = (uint8_t)stream_id(s);
    n = AS_MIN(n, s->n);
    memcpy(p + 16, s->p, n);
    s->p += n;
    s->n -= n;
}

/* --- the world around it --- */

/* Writes, runs the loop and reads a few times over, so that what was said has been heard and
 * answered before the next step. What the link says is not checked here: t_fleet does that. */
static void turn(struct world *w)
{
    uint8_t sink[65536];
    struct iovec iov[16];

    for (int i = 0; i < 4; i++) {
        while (w->out.bytes) {
            ssize_t k = writev(w->peer, iov, as_outq_iov(&w->out, iov, 16));

            if (k <= 0)
                break;
            as_outq_drop(&w->out, (size_t)k);
        }
        uv_run(&w->loop->uv, UV_RUN_NOWAIT);
        while (recv(w->peer, sink, sizeof(sink), MSG_DONTWAIT) > 0)
            ;
    }
}

static void quiet(void *ctx AS_UNUSED, struct as_str a AS_UNUSED, struct as_str b AS_UNUSED,
                  struct as_str c AS_UNUSED)
{
}

static void on_retired(void *ctx AS_UNUSED, struct as_str a AS_UNUSED, struct as_str b AS_UNUSED)
{
}

static void on_asked(void *ctx, struct as_str a AS_UNUSED, struct as_str b AS_UNUSED, uint64_t id,
                     int err AS_UNUSED, struct as_str text AS_UNUSED)
{
    struct world *w = ctx;

    AS_ASSERT(id && id <= w->asked);
    w->answered++;
}

static void begin(struct world *w)
{
    static const struct as_fleet_ops ops = {.on_ready = quiet,
                                            .on_gone = quiet,
                                            .on_kill = quiet,
                                            .on_retired = on_retired,
                                            .on_answer = on_asked,
                                            .on_leaves = on_retired};
    struct as_fleet_conf conf = {.deployment.max_queued = 8,
                                 .max_prefetch = 16,
                                 .deployment.router = AS_ROUTER_CONF_DEFAULT,
                                 .deployment.prefetch_work = AS_MS,
                                 /* no timer of the link's fires by itself: a run depends on its
                                  * input alone */
                                 .ping_interval = 3600 * AS_SEC,
                                 .ping_timeout = AS_SEC,
                                 .handshake_timeout = 3600 * AS_SEC,
                                 .max_message = 1 << 20,
                                 .max_body = 2 << 20,
                                 .parts = {4, 100000},
                                 .call_credit = 6,
                                 .call_credit_bytes = 200000,
                                 .max_report = 100,
                                 .max_models = 5};
    int fds[2], err;

    signal(SIGPIPE, SIG_IGN); /* the dispatcher hangs up in the middle of our script */
    err = as_loop_new(&w->loop, 0);
    AS_ASSERT(!err);
    as_fleet_new(&w->fleet, w->loop, &conf, &ops, w, NULL);
    as_fleet_client_open(&w->client, w->fleet, w->loop);
    as_fleet_add_process(w->fleet, AS_STR("secret"), AS_STR("r-0"), AS_STR("a#app"));
    as_fleet_set_driver_token(w->fleet, AS_STR("drive"));
    as_fleet_set_join_token(w->fleet, AS_STR("join"));
    w->even = 2;
    err = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds);
    AS_ASSERT(!err);
    w->peer = fds[1];
    as_outq_init(&w->out);
    w->big = as_blob_new(300000);
    memset(w->big->data, 1, 300000);
    as_upstream_native.accept(w->fleet, fds[0]);
}

static void end(struct world *w)
{
    close(w->peer);
    uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    as_fleet_stop(w->fleet);
    for (uint32_t i = 0; i < w->n; i++) { /* what is still queued: its client leaves */
        if (w->r[i].open && !w->r[i].gone) {
            w->r[i].gone = true;
            as_fleet_client_cancel(&w->client, &w->r[i].call);
        }
    }
    for (uint32_t i = 0; i < w->n; i++)
        /* nothing is forgotten, whatever the worker did */
        AS_ASSERT(!w->r[i].open);
    AS_ASSERT(as_fleet_unanswered(w->fleet) == 0);
    AS_ASSERT(w->answered == w->asked);
    as_fleet_client_close(&w->client);
    as_fleet_free(w->fleet);
    as_loop_free(w->loop);
    as_outq_fini(&w->out);
    as_blob_unref(w->big);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* static: the same memory for every input */
    static struct world w;
    struct script s = {data, size};

    w = (struct world){0};
    begin(&w);
    while (s.n) {
        uint8_t b = byte(&s), op = b % 12;

        if (b >= 250)
            care(&w, &s);
        else if (b >= 240)
            say_call(&w, &s);
        else if (op == 0)
            say_hello(&w, &s);
        else if (op == 1)
            say_register(&w, &s);
        else if (op <= 3)
            say_small(&w, &s);
        else if (op <= 5)
            say_answer(&w, &s);
        else if (op <= 7)
            submit(&w, &s);
        else if (op == 8)
            cancel(&w, &s);
        else if (op <= 10)
            say_raw(&w, &s, op == 9);
        else
            say_more(&w, &s);
        turn(&w);
    }
    end(&w);
    return 0;
}
