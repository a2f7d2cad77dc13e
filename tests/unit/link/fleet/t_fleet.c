/* A real fleet, real workers in threads, and client loops of their own: the whole link in one
 * process. Also the stress test that runs under ThreadSanitizer. */
#include "link/fleet/fleet.h"

#include "base/err.h"
#include <anyserve/worker.h>
#include "unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WORKERS 2

/* --- workers: answer with what they got --- */

struct hand {
    pthread_t thread;
    struct as_worker *w;
    const char *path;
    char name[16];
    bool refuse;  /* answers with an error of its own */
    bool streams; /* answers with many messages … */
    bool inputs;  /* … and takes many */
};

static void echo(struct hand *h, struct as_worker_req *q)
{
    struct as_msg msg = *as_worker_req_msg(q);

    if (h->refuse) {
        as_worker_fail(h->w, q, 9, AS_STR("not today"));
        return;
    }
    msg.n_meta = 0;
    assert_int_equal(as_worker_answer(h->w, q, &msg), 0);
}

/* A stream: what came, once for each message of the request, then PARTS numbers; or the first
 * message PARTS times where the model takes one only. */
#define PARTS 50

static bool repeat(struct hand *h, struct as_worker_req *q, const struct as_msg *msg, int n)
{
    struct as_msg part = {.tensors = msg->tensors, .n_tensors = msg->n_tensors};

    while (n) {
        int err = as_worker_await_room(h->w, q);

        if (!err)
            err = as_worker_part(h->w, q, &part);
        if (err == AS_ECANCELLED)
            return false;
        assert_int_equal(err, 0);
        n--;
    }
    return true;
}

static void stream(struct hand *h, struct as_worker_req *q)
{
    if (repeat(h, q, as_worker_req_msg(q), PARTS))
        as_worker_finish(h->w, q);
    else
        as_worker_fail(h->w, q, 1, AS_STR("cancelled"));
}

/* Reads its input to the end, and gives each message back once. */
static void converse(struct hand *h, struct as_worker_req *q)
{
    struct as_worker_req *in;
    bool wanted = repeat(h, q, as_worker_req_msg(q), 1);
    int err = 0;

    while (wanted && (err = as_worker_next_input(h->w, q, &in)) != AS_EOF) {
        if (err == AS_EAGAIN) {
            assert_int_equal(as_worker_wait(h->w), 0);
            continue;
        }
        if (err)
            break;
        wanted = repeat(h, q, as_worker_req_msg(in), 1);
        as_worker_drop_input(h->w, q, in);
    }
    if (wanted && err == AS_EOF)
        as_worker_finish(h->w, q);
    else
        as_worker_fail(h->w, q, 1, AS_STR("cancelled"));
}

static void serve(struct hand *h, struct as_worker_req *q)
{
    if (h->streams && h->inputs)
        converse(h, q);
    else if (h->streams)
        stream(h, q);
    else
        echo(h, q);
}

static void *work(void *arg)
{
    struct hand *h = arg;
    struct as_worker_model model = {.size = sizeof(model),
                                    .name = "echo",
                                    .max_ongoing = 4,
                                    .idempotent = true,
                                    .decoupled = h->streams,
                                    .streams_inputs = h->inputs};
    struct as_worker_conf conf = {.size = sizeof(conf),
                                  .path = h->path,
                                  .token = h->name,
                                  .replica = h->name,
                                  .deployment = "app",
                                  .slots = 4,
                                  .max_prefetch = 32,
                                  .max_queued = -1};
    int err;

    assert_int_equal(as_worker_new(&h->w, &conf), 0);
    assert_int_equal(as_worker_add(h->w, &model), 0);
    assert_int_equal(as_worker_connect(h->w, 30 * AS_SEC), 0);
    while ((err = as_worker_wait(h->w)) == 0) {
        struct as_worker_req *q;

        while ((q = as_worker_next(h->w)))
            serve(h, q);
    }
    as_worker_free(h->w);
    return NULL;
}

/* --- the dispatcher's side --- */

struct world {
    struct as_loop *loop;
    struct as_fleet *fleet;
    struct as_fleet_client local;
    struct hand hands[WORKERS];
    struct as_blob *bytes;
    struct as_timer watch; /* a test that hangs fails */
    char dir[32], path[64];
    int fd, ready;
    uint32_t lanes_left; /* client loops that still have requests */
};

static void on_ready(void *ctx, struct as_str replica AS_UNUSED, struct as_str token AS_UNUSED,
                     struct as_str models)
{
    struct world *w = ctx;

    assert_memory_equal(models.p, "echo:1", models.n);
    if (++w->ready == WORKERS)
        as_loop_stop(w->loop);
}

static void on_gone(void *ctx AS_UNUSED, struct as_str a AS_UNUSED, struct as_str b AS_UNUSED,
                    struct as_str c AS_UNUSED)
{
}

static void on_watch(struct as_timer *t AS_UNUSED)
{
    fail_msg("the test hangs");
}

static void set_up_as(struct world *w, bool refuse, bool streams, bool inputs)
{
    static const struct as_fleet_ops ops = {
        .on_ready = on_ready, .on_gone = on_gone, .on_kill = on_gone};
    struct as_fleet_conf conf = {.deployment.max_queued = -1,
                                 .max_prefetch = 32,
                                 .deployment.router = AS_ROUTER_CONF_DEFAULT,
                                 .deployment.prefetch_work = 100 * AS_US,
                                 .ping_interval = 20 * AS_MS,
                                 .ping_timeout = 60 * AS_SEC,
                                 .handshake_timeout = 60 * AS_SEC,
                                 .max_message = 1 << 30,
                                 .max_body = 1 << 30,
                                 .parts = {8, 100000},
                                 .call_credit = 8,
                                 .call_credit_bytes = 1 << 20};
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    *w = (struct world){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    strcpy(w->dir, "/tmp/as-fleet-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    snprintf(w->path, sizeof(w->path), "%s/link", w->dir);
    memcpy(a.sun_path, w->path, strlen(w->path) + 1);
    assert_int_equal(bind(w->fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(w->fd, 16), 0);
    w->bytes = as_blob_new(1 << 20);
    for (size_t i = 0; i < w->bytes->n; i++)
        w->bytes->data[i] = (uint8_t)(i * 7 + i / 251);
    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    assert_int_equal(as_fleet_new(&w->fleet, w->loop, &conf, &ops, w, NULL), 0);
    assert_int_equal(as_fleet_client_open(&w->local, w->fleet, w->loop), 0);
    assert_false(as_fleet_ready(w->fleet)); /* nobody is let in */
    for (int i = 0; i < WORKERS; i++) {
        snprintf(w->hands[i].name, sizeof(w->hands[i].name), "hand-%d", i);
        as_fleet_add_process(w->fleet, as_str_of(w->hands[i].name), as_str_of(w->hands[i].name),
                             AS_STR("app"));
    }
    assert_int_equal(as_fleet_listen(w->fleet, w->fd), 0);
    as_timer_init(&w->watch, w->loop, on_watch);
    as_timer_set(&w->watch, as_loop_now(w->loop) + 100 * AS_SEC);
    for (int i = 0; i < WORKERS; i++) {
        struct hand *h = &w->hands[i];

        h->path = w->path;
        h->refuse = refuse;
        h->streams = streams;
        h->inputs = inputs;
        pthread_create(&h->thread, NULL, work, h);
    }
    assert_false(as_fleet_ready(w->fleet)); /* they were known before anybody was let in */
    as_loop_run(w->loop);                   /* until both are ready */
    assert_true(as_fleet_ready(w->fleet));
}

static void set_up_with(struct world *w, bool refuse)
{
    set_up_as(w, refuse, false, false);
}

static void tear_down(struct world *w)
{
    assert_int_equal(as_fleet_unanswered(w->fleet), 0);
    as_fleet_drain(w->fleet);
    uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(w->hands[i].thread, NULL);
    as_fleet_stop(w->fleet);
    as_fleet_client_close(&w->local);
    as_fleet_free(w->fleet);
    as_timer_close(&w->watch, NULL);
    as_loop_free(w->loop);
    as_blob_unref(w->bytes);
    close(w->fd);
    unlink(w->path);
    rmdir(w->dir);
}

/* --- client loops --- */

struct lane {
    struct world *w;
    struct as_fleet_client *client;
    struct as_loop *loop;
    struct as_rand rand;
    uint32_t to_send, open, answered, cancelled, refused;
    bool cancels, streams, inputs;
    struct as_letter done, begin;
    pthread_t thread;
    struct as_fleet_job errand;
    struct as_model_stat stat; /* as the errand found it */
    bool back;
};

struct call {
    struct as_call call;
    struct as_arena arena;
    struct as_tensor tensor;
    int64_t shape;
    struct lane *lane;
    bool answered, cancelled;
    /* streams */
    struct as_call_stream stream;
    struct as_input input; /* the one under way */
    uint32_t parts, inputs_left, inputs_sent;
    bool input_held;
};

static void submit(struct lane *l);

static void open_done(struct as_letter *letter, void *to AS_UNUSED)
{
    struct lane *l = AS_CONTAINER(letter, struct lane, done);

    if (--l->w->lanes_left == 0)
        as_loop_stop(l->w->loop);
}

static void on_answer(struct as_call *call)
{
    struct call *c = AS_CONTAINER(call, struct call, call);

    assert_false(c->answered);
    assert_false(c->cancelled);
    c->answered = true;
    if (call->outcome.err) {
        assert_int_equal(call->outcome.status, 9);
        assert_memory_equal(call->outcome.message.p, "not today", call->outcome.message.n);
        c->lane->refused++;
    } else if (call->stream) {
        assert_int_equal(call->outcome.result.msg.n_tensors, 0);
        assert_int_equal(c->parts, c->lane->inputs ? 1 + c->inputs_sent : PARTS);
    } else {
        assert_int_equal(call->outcome.result.msg.n_tensors, 1);
        assert_int_equal(call->outcome.result.msg.tensors[0].nbytes, c->tensor.nbytes);
        assert_memory_equal(call->outcome.result.msg.tensors[0].data, c->tensor.data,
                            c->tensor.nbytes);
    }
    as_blob_unref(call->outcome.result.blob);
    call->outcome.result.blob = NULL;
    c->lane->answered++;
}

static void on_release(struct as_call *call)
{
    struct call *c = AS_CONTAINER(call, struct call, call);
    struct lane *l = c->lane;

    assert_true(c->answered || c->cancelled);
    assert_false(c->input_held);
    as_arena_fini(&c->arena);
    free(c);
    l->open--;
    submit(l);
    if (!l->open && !l->to_send) {
        l->done.open = open_done;
        as_mbox_post(&l->w->local.box, &l->done);
    }
}

static void on_part(struct as_call *call, struct as_part *part)
{
    struct call *c = AS_CONTAINER(call, struct call, call);

    assert_false(c->answered || c->cancelled);
    assert_int_equal(part->payload.msg.n_tensors, 1);
    assert_int_equal(part->payload.msg.tensors[0].nbytes, c->tensor.nbytes);
    assert_memory_equal(part->payload.msg.tensors[0].data, c->tensor.data, c->tensor.nbytes);
    c->parts++;
    as_fleet_client_credit(c->lane->client, call, 1, part->cost);
}

static void next_input(struct call *c);

static void on_input_release(struct as_input *input)
{
    struct call *c = AS_CONTAINER(input, struct call, input);

    c->input_held = false;
    if (!c->cancelled && !c->answered)
        next_input(c);
}

static void next_input(struct call *c)
{
    if (c->inputs_left-- == 0) {
        as_fleet_client_input_end(c->lane->client, &c->call);
        return;
    }
    c->inputs_sent++;
    c->input_held = true;
    c->input.payload = c->call.payload;
    c->input.on_release = on_input_release;
    as_fleet_client_input(c->lane->client, &c->call, &c->input);
}

static size_t some_size(struct lane *l)
{
    static const size_t sizes[] = {0, 1, 128, 4000, 9000, 70000, 900000};

    return sizes[as_rand_below(&l->rand, as_rand_below(&l->rand, 8) ? 4 : AS_COUNT(sizes))];
}

static void submit(struct lane *l)
{
    struct call *c;
    size_t n = some_size(l);

    if (!l->to_send)
        return;
    l->to_send--;
    l->open++;
    c = as_xalloc(sizeof(*c));
    c->lane = l;
    c->shape = (int64_t)n;
    c->tensor = (struct as_tensor){.name = AS_STR("x"),
                                   .dtype = AS_DT_UINT8,
                                   .ndim = 1,
                                   .shape = &c->shape,
                                   .nbytes = n,
                                   .data = l->w->bytes->data + as_rand_below(&l->rand, 1000)};
    as_arena_init(&c->arena, NULL, 0);
    as_request_init(&c->call.core);
    c->call.caller = AS_CALL_NO_CALLER;
    c->call.core.deadline = AS_NEVER;
    c->call.core.priority = 1;
    c->call.core.idempotent = true;
    c->call.payload.msg = (struct as_msg){.tensors = &c->tensor, .n_tensors = 1};
    c->call.payload.blob = l->w->bytes;
    c->call.arena = &c->arena;
    c->call.on_answer = on_answer;
    c->call.on_release = on_release;
    c->stream = (struct as_call_stream){.on_part = on_part, .takes_inputs = l->inputs};
    c->call.stream = l->streams ? &c->stream : NULL;
    c->inputs_left = l->inputs ? (uint32_t)as_rand_below(&l->rand, 30) : 0;
    as_fleet_client_submit(l->client, &c->call);
    if (l->inputs)
        next_input(c);
    /* local requests that were answered at once are gone: only loops of their own cancel */
    if (l->cancels && as_rand_below(&l->rand, 4) == 0) {
        c->cancelled = true;
        l->cancelled++;
        as_fleet_client_cancel(l->client, &c->call);
    }
}

/* --- errands --- */

static void run_errand(struct as_fleet_job *e, struct as_fleet *f)
{
    struct lane *l = AS_CONTAINER(e, struct lane, errand);

    assert_ptr_equal(f, l->w->fleet);
    l->stat = *as_fleet_model_stat(f, 0, 0);
    l->stat.calls = NULL; /* the fleet's own */
}

static void errand_done(struct as_fleet_job *e)
{
    AS_CONTAINER(e, struct lane, errand)->back = true;
}

static void send_errand(struct lane *l)
{
    l->errand = (struct as_fleet_job){.run = run_errand, .done = errand_done};
    as_fleet_client_run(l->client, &l->errand);
}

static void begin(struct lane *l)
{
    send_errand(l);
    for (int i = 0; i < 40 && l->to_send; i++)
        submit(l);
}

static void local_requests_of_all_sizes_come_back(void **state AS_UNUSED)
{
    struct world w;
    struct lane l = {.w = &w, .client = &w.local, .rand = {7}, .to_send = 3000};

    set_up_with(&w, false);
    w.lanes_left = 1;
    begin(&l);
    as_loop_run(w.loop);
    assert_int_equal(l.answered, 3000);
    assert_int_equal(l.refused, 0);
    send_errand(&l);
    assert_true(l.back); /* on the fleet's own loop it is at once */
    assert_true(l.stat.success == 3000 && l.stat.executions == 3000 && !l.stat.fail && l.stat.last);
    assert_true(l.stat.success_ns ==
                l.stat.queue_ns + l.stat.input_ns + l.stat.service_ns + l.stat.output_ns);
    tear_down(&w);
}

static void a_workers_error_reaches_the_client(void **state AS_UNUSED)
{
    struct world w;
    struct lane l = {.w = &w, .client = &w.local, .rand = {7}, .to_send = 50};

    set_up_with(&w, true);
    w.lanes_left = 1;
    begin(&l);
    as_loop_run(w.loop);
    assert_int_equal(l.refused, 50);
    send_errand(&l);
    assert_true(l.stat.fail == 50 && l.stat.fail_ns && !l.stat.success);
    tear_down(&w);
}

#define LANES 3

static void open_begin(struct as_letter *letter, void *to AS_UNUSED)
{
    begin(AS_CONTAINER(letter, struct lane, begin));
}

static void *run_lane(void *arg)
{
    as_loop_run(((struct lane *)arg)->loop);
    return NULL;
}

static void open_stop(struct as_letter *letter, void *to AS_UNUSED)
{
    as_loop_stop(AS_CONTAINER(letter, struct lane, begin)->loop);
}

static void run_lanes(bool streams, bool inputs, uint32_t n)
{
    struct world w;
    struct lane lanes[LANES] = {0};
    struct as_fleet_client clients[LANES];

    set_up_as(&w, false, streams, inputs);
    w.lanes_left = LANES;
    for (int i = 0; i < LANES; i++) {
        struct lane *l = &lanes[i];

        assert_int_equal(as_loop_new(&l->loop, (uint32_t)i + 1), 0);
        assert_int_equal(as_fleet_client_open(&clients[i], w.fleet, l->loop), 0);
        l->w = &w;
        l->client = &clients[i];
        l->rand.s = (uint64_t)i;
        l->to_send = n;
        l->cancels = true;
        l->streams = streams;
        l->inputs = inputs;
        l->begin.open = open_begin;
        as_mbox_post(&clients[i].box, &l->begin);
        pthread_create(&l->thread, NULL, run_lane, l);
    }
    as_loop_run(w.loop);
    for (int i = 0; i < LANES; i++) {
        lanes[i].begin.open = open_stop;
        as_mbox_post(&clients[i].box, &lanes[i].begin);
        pthread_join(lanes[i].thread, NULL);
        assert_true(lanes[i].cancelled > n / 20);
        assert_true(lanes[i].back);
        assert_true(lanes[i].answered + lanes[i].cancelled == n);
        as_fleet_client_close(&clients[i]);
        as_loop_free(lanes[i].loop);
    }
    tear_down(&w);
}

static void loops_of_their_own_submit_and_cancel(void **state AS_UNUSED)
{
    run_lanes(false, false, 2000);
}

/* Parts, credit and cancels cross between the loops. */
static void streams_cross_loops(void **state AS_UNUSED)
{
    run_lanes(true, false, 300);
}

static void streams_of_inputs_cross_loops(void **state AS_UNUSED)
{
    run_lanes(true, true, 300);
}

static void local_streams_come_back(void **state AS_UNUSED)
{
    for (int inputs = 0; inputs < 2; inputs++) {
        struct world w;
        struct lane l = {.w = &w, .client = &w.local, .rand = {7}, .to_send = 300, .streams = true};

        l.inputs = inputs;
        set_up_as(&w, false, true, inputs);
        w.lanes_left = 1;
        begin(&l);
        as_loop_run(w.loop);
        assert_int_equal(l.answered, 300);
        assert_int_equal(l.refused, 0);
        tear_down(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(local_requests_of_all_sizes_come_back),
        cmocka_unit_test(a_workers_error_reaches_the_client),
        cmocka_unit_test(loops_of_their_own_submit_and_cancel),
        cmocka_unit_test(local_streams_come_back),
        cmocka_unit_test(streams_cross_loops),
        cmocka_unit_test(streams_of_inputs_cross_loops),
    };

    return cmocka_run_group_tests_name("fleet", tests, NULL, NULL);
}
