/* as_worker_run and calls: handlers run in this thread or in others, and what they put, fail, send
 * and receive reaches the dispatcher. */
#include "fake_dispatcher.h"

#define PLAIN 10 /* targets */
#define BATCH 11
#define COUNT 12
#define TOTAL 13

struct world {
    struct fake d;
    struct as_worker *w;
    pthread_t thread;
    int result;
};

/* --- the handlers --- */

static const int64_t one[] = {1};

static const struct as_param k1 = {.name = {"k", 1}, .type = AS_PARAM_INT64, .i64 = 1};

/* Parameters of outputs: 250 names no output, 251 gives the server's own, 252 as many as may be,
 * 253 one more, 254 those that came, of an output that was put before the last one too. */
static int says(struct as_worker_call *call, uint8_t what)
{
    struct as_param own = {.name = AS_STR("classification"), .type = AS_PARAM_INT64};
    const struct as_tensor_param *p;
    int err = 0;
    uint32_t n;

    if (what == 250)
        return as_worker_call_tensor_param(call, "z", &k1);
    if (what == 251)
        return as_worker_call_tensor_param(call, "y", &own);
    for (uint32_t i = 0; what < 254 && !err && i < AS_WORKER_PARAMS + what - 252u; i++)
        err =
            i == 5 ? as_worker_call_param(call, &k1) : as_worker_call_tensor_param(call, "y", &k1);
    if (what < 254)
        return err;
    p = as_worker_call_tensor_params(call, &n);
    assert_int_equal(n, 1);
    assert_int_equal(p->tensor, 0);
    assert_non_null(as_worker_call_output(call, "z", AS_DT_UINT8, 1, one));
    assert_int_equal(as_worker_call_tensor_param(call, "z", &p->param), 0);
    return as_worker_call_tensor_param(call, "y", &k1);
}

/* The first byte decides: 0 fails with a text, 1 with a code, 2 makes a bad output, 250 and more
 * say parameters; else plus one. */
static int plain(struct as_worker_call *call, void *ctx)
{
    const struct as_tensor *x = as_worker_call_input(call, "x");
    uint8_t *y;

    assert_ptr_equal(ctx, &one);
    assert_null(as_worker_call_input(call, "y"));
    assert_int_equal(as_worker_call_count(call), 1);
    if (x->data[0] == 0)
        return as_worker_call_fail(call, AS_STATUS_NOT_FOUND, "no such thing");
    if (x->data[0] == 1)
        return AS_EUNIMPLEMENTED;
    if (x->data[0] == 2)
        return as_worker_call_output(call, "y", AS_DT_BYTES, 1, one) ? 0 : AS_EINVALID;
    y = as_worker_call_output(call, "y", AS_DT_UINT8, x->ndim, x->shape);
    if (x->data[0] >= 250)
        return says(call, x->data[0]);
    for (size_t i = 0; i < x->nbytes; i++)
        y[i] = (uint8_t)(x->data[i] + 1);
    return 0;
}

/* Each gets the number of its batch; one whose first byte is 0 fails alone. */
static int batch(struct as_worker_call *call, void *ctx AS_UNUSED)
{
    for (uint32_t i = 0; i < as_worker_call_count(call); i++) {
        struct as_worker_call *c = as_worker_call_member(call, i);
        uint8_t *y = as_worker_call_output(c, "y", AS_DT_UINT8, 1, one);

        *y = (uint8_t)as_worker_call_count(call);
        if (as_worker_call_input(c, "x")->data[0] == 0)
            (void)as_worker_call_fail(c, AS_STATUS_OUT_OF_RANGE, "not this one");
    }
    assert_null(as_worker_call_member(call, as_worker_call_count(call)));
    return 0;
}

static int count(struct as_worker_call *call, void *ctx AS_UNUSED)
{
    uint8_t n = as_worker_call_input(call, "x")->data[0];

    for (uint8_t i = 0; i < n; i++) {
        uint8_t *y = as_worker_call_output(call, "y", AS_DT_UINT8, 1, one);

        *y = i;
        if (i + 1 < n && as_worker_call_send(call))
            return AS_ECANCELLED;
    }
    return 0;
}

static int total(struct as_worker_call *call, void *ctx AS_UNUSED)
{
    uint8_t sum = 0;
    int err;

    do {
        sum = (uint8_t)(sum + as_worker_call_input(call, "x")->data[0]);
    } while (!(err = as_worker_call_receive(call)));
    if (err != AS_EOF)
        return err;
    *(uint8_t *)as_worker_call_output(call, "y", AS_DT_UINT8, 1, one) = sum;
    return 0;
}

/* --- questions to the replica --- */

static uint32_t check_health(void *ctx, char text[AS_WORKER_REASON])
{
    snprintf(text, AS_WORKER_REASON, "%s", ctx == &one ? "too warm" : "the wrong context");
    return AS_STATUS_UNAVAILABLE;
}

static uint32_t reconfigure(void *ctx AS_UNUSED, struct as_str config, char text[AS_WORKER_REASON])
{
    if (as_str_eq(config, AS_STR("{\"rank\":1}")))
        return AS_STATUS_OK;
    snprintf(text, AS_WORKER_REASON, "%.*s is no configuration", AS_STR_FMT(config));
    return AS_STATUS_INVALID_ARGUMENT;
}

/* --- the world --- */

static void *run(void *arg)
{
    struct world *e = arg;

    e->result = as_worker_run(e->w);
    as_worker_free(e->w);
    return NULL;
}

static void begin_with(struct world *e, uint32_t threads, uint64_t capabilities)
{
    static const struct as_worker_model models[] = {
        {.size = sizeof(models[0]),
         .name = "plain",
         .handler = plain,
         .ctx = (void *)(uintptr_t)&one},
        {.size = sizeof(models[0]), .name = "batch", .handler = batch, .max_batch = 8},
        {.size = sizeof(models[0]), .name = "count", .handler = count, .decoupled = true},
        {.size = sizeof(models[0]),
         .name = "total",
         .handler = total,
         .decoupled = true,
         .streams_inputs = true},
    };
    struct as_worker_conf conf = {.size = sizeof(conf),
                                  .threads = threads,
                                  .flags = AS_WORKER_NO_SIGNALS,
                                  .ctx = (void *)(uintptr_t)&one,
                                  .check_health = check_health,
                                  .reconfigure = reconfigure};

    fake_init(&e->d);
    e->d.more = capabilities;
    conf.path = e->d.path;
    assert_int_equal(as_worker_new(&e->w, &conf), 0);
    for (size_t i = 0; i < AS_COUNT(models); i++)
        assert_int_equal(as_worker_add(e->w, &models[i]), 0);
    fake_greet_begin(&e->d);
    assert_int_equal(pthread_create(&e->thread, NULL, run, e), 0);
    fake_greet_end(&e->d);
    assert_int_equal(e->d.n_registered, 4);
    assert_int_equal(e->d.credit.slots, threads);
}

static void begin(struct world *e, uint32_t threads)
{
    begin_with(e, threads, 0);
}

/* Stopped: it says DRAIN and PING, and ends when the PONG has come. */
static void end(struct world *e)
{
    uint64_t opaque;

    as_worker_stop(e->w);
    fake_expect(&e->d, AS_FRAME_DRAIN);
    fake_expect(&e->d, AS_FRAME_PING);
    assert_int_equal(as_frame_get_ping(&e->d.f, &opaque), 0);
    as_frame_put_ping(&e->d.out, AS_FRAME_PONG, opaque);
    fake_send(&e->d);
    fake_expect(&e->d, AS_FRAME_GOODBYE);
    pthread_join(e->thread, NULL);
    assert_int_equal(e->result, 0);
    fake_fini(&e->d);
}

static void ask(struct world *e, uint64_t stream, uint32_t target, uint8_t first, bool more)
{
    struct as_blob *b = as_blob_new(1);
    struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, one, b->data, 1};
    struct as_msg msg = {.id = AS_STR("id"), .tensors = &t, .n_tensors = 1};
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR, .target = target, .more = more};
    const struct as_tensor_param own = {
        {.name = AS_STR("own"), .type = AS_PARAM_STRING, .str = AS_STR("text")}, 0};

    if (first >= 250)
        fixed.tensor_params = (struct as_tensor_params){&own, 1};
    b->data[0] = first;
    assert_int_equal(as_frame_put_msg(&e->d.out, AS_FRAME_OPEN, stream, &fixed, &msg, b), 0);
    as_blob_unref(b);
}

static void grant(struct world *e, uint64_t stream, uint32_t messages)
{
    as_frame_put_credit(&e->d.out, stream,
                        &(struct as_frame_credit){.messages = messages, .bytes = 1 << 20});
    fake_send(&e->d);
}

/* The next frame is a message of that stream with one byte "y". */
static void expect_y(struct world *e, uint64_t stream, uint8_t want)
{
    struct as_frame_msg m;
    struct as_arena a;
    struct as_msg msg;
    const char *why;

    fake_expect(&e->d, AS_FRAME_DATA);
    assert_int_equal(e->d.f.stream, stream);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_msg(&e->d.f, &a, &m, &msg, &why), 0);
    assert_int_equal(msg.n_tensors, 1);
    assert_str(msg.tensors[0].name, "y");
    assert_int_equal(msg.tensors[0].data[0], want);
    as_arena_fini(&a);
}

static void expect_failure(struct world *e, uint64_t stream, uint32_t code, const char *text)
{
    struct as_frame_error err = fake_expect_error(&e->d, stream);

    assert_int_equal(err.code, code);
    assert_true(as_str_eq(err.message, as_str_of(text)));
}

/* --- the specification --- */

static void outputs_are_the_answer_and_failures_say_why(void **state AS_UNUSED)
{
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        struct world e;

        begin(&e, threads);
        ask(&e, 1, PLAIN, 7, false);
        fake_send(&e.d);
        expect_y(&e, 1, 8);
        ask(&e, 3, PLAIN, 0, false);
        fake_send(&e.d);
        expect_failure(&e, 3, AS_STATUS_NOT_FOUND, "no such thing");
        ask(&e, 5, PLAIN, 1, false);
        fake_send(&e.d);
        expect_failure(&e, 5, AS_STATUS_UNIMPLEMENTED, "not implemented");
        ask(&e, 7, PLAIN, 2, false);
        fake_send(&e.d);
        expect_failure(&e, 7, AS_STATUS_INTERNAL,
                       "the handler made an output without name, datatype or shape");
        end(&e);
    }
}

/* The next answer, and how many parameters of tensors it has. */
static void expect_params(struct world *e, struct as_arena *a, uint32_t n,
                          struct as_frame_msg *ret_m)
{
    struct as_msg msg;
    const char *why;

    fake_expect(&e->d, AS_FRAME_DATA);
    as_arena_init(a, NULL, 0);
    assert_int_equal(as_frame_get_msg(&e->d.f, a, ret_m, &msg, &why), 0);
    assert_int_equal(ret_m->tensor_params.n, n);
}

static void single_tensors_have_parameters(void **state AS_UNUSED)
{
    static const char *const refused[] = {
        "the handler gave a parameter to an output that is not there",
        "the handler gave an output a parameter whose name is the server's own", NULL,
        "the handler made a parameter without name or type, or too many"};
    struct as_frame_msg m;
    struct as_arena a;
    struct world e;

    begin_with(&e, 1, AS_CAP_TENSOR_PARAMS);
    for (uint8_t i = 0; i < AS_COUNT(refused); i++) {
        ask(&e, 1 + 2u * i, PLAIN, (uint8_t)(250 + i), false);
        fake_send(&e.d);
        if (refused[i]) {
            expect_failure(&e, 1 + 2u * i, AS_STATUS_INTERNAL, refused[i]);
            continue;
        }
        expect_params(&e, &a, AS_WORKER_PARAMS - 1, &m);
        as_arena_fini(&a);
    }
    ask(&e, 9, PLAIN, 254, false);
    fake_send(&e.d);
    expect_params(&e, &a, 2, &m);
    assert_int_equal(m.tensor_params.at[0].tensor, 0);
    assert_str(m.tensor_params.at[0].param.name, "k");
    assert_int_equal(m.tensor_params.at[1].tensor, 1);
    assert_str(m.tensor_params.at[1].param.str, "text");
    as_arena_fini(&a);
    end(&e);
    begin(&e, 1); /* a server that knows none */
    ask(&e, 1, PLAIN, 254, false);
    fake_send(&e.d);
    expect_params(&e, &a, 0, &m);
    as_arena_fini(&a);
    end(&e);
}

static void members_of_a_batch_are_answered_one_by_one(void **state AS_UNUSED)
{
    struct world e;

    begin(&e, 1);
    as_frame_put_batch(&e.d.out, &(struct as_frame_batch){1, 3});
    ask(&e, 1, BATCH, 9, false);
    ask(&e, 3, BATCH, 0, false);
    ask(&e, 5, BATCH, 9, false);
    fake_send(&e.d);
    expect_y(&e, 1, 3);
    expect_failure(&e, 3, AS_STATUS_OUT_OF_RANGE, "not this one");
    expect_y(&e, 5, 3);
    end(&e);
}

static void a_handler_waits_for_room(void **state AS_UNUSED)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct world e;

        begin(&e, threads);
        ask(&e, 1, COUNT, 3, false);
        grant(&e, 1, 2);
        expect_y(&e, 1, 0);
        expect_y(&e, 1, 1);
        grant(&e, 1, 1);
        expect_y(&e, 1, 2);
        fake_expect(&e.d, AS_FRAME_END);
        ask(&e, 3, COUNT, 0, false); /* no response at all */
        fake_send(&e.d);
        fake_expect(&e.d, AS_FRAME_END);
        end(&e);
    }
}

static void a_cancel_ends_the_wait(void **state AS_UNUSED)
{
    struct world e;

    begin(&e, 1);
    ask(&e, 1, COUNT, 3, false);
    grant(&e, 1, 1);
    expect_y(&e, 1, 0);
    as_frame_put_cancel(&e.d.out, 1, AS_STATUS_CANCELLED);
    fake_send(&e.d);
    expect_failure(&e, 1, AS_STATUS_CANCELLED, "cancelled");
    end(&e);
}

static void a_handler_receives_to_the_end(void **state AS_UNUSED)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct as_frame_msg fixed = {.more = true, .input = true};
        struct as_blob *b = as_blob_new(1);
        struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, one, b->data, 1};
        struct as_msg msg = {.id = AS_STR("id"), .tensors = &t, .n_tensors = 1};
        struct world e;

        begin(&e, threads);
        ask(&e, 1, TOTAL, 5, true);
        grant(&e, 1, 4);
        fake_expect(&e.d, AS_FRAME_CREDIT);
        b->data[0] = 6;
        for (int i = 0; i < 2; i++) {
            assert_int_equal(as_frame_put_msg(&e.d.out, AS_FRAME_DATA, 1, &fixed, &msg, b), 0);
            fake_send(&e.d);
        }
        as_frame_put_end(&e.d.out, 1, 0);
        fake_send(&e.d);
        expect_y(&e, 1, 17);
        fake_expect(&e.d, AS_FRAME_END);
        as_blob_unref(b);
        end(&e);
    }
}

static void expect_reply(struct world *e, uint16_t op, const char *ask, uint32_t code,
                         const char *text)
{
    struct as_frame_control c = {.op = op, .text = as_str_of(ask)};

    as_frame_put_control(&e->d.out, 9, &c);
    fake_send(&e->d);
    fake_expect(&e->d, AS_FRAME_CONTROL);
    assert_int_equal(e->d.f.stream, 9);
    assert_int_equal(as_frame_get_control(&e->d.f, &c), 0);
    assert_true(c.reply);
    assert_int_equal(c.op, op);
    assert_int_equal(c.code, code);
    assert_str(c.text, text);
}

static void controls_go_to_the_callbacks(void **state AS_UNUSED)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct world e;

        begin(&e, threads);
        expect_reply(&e, AS_CONTROL_HEALTH, "", AS_STATUS_UNAVAILABLE, "too warm");
        expect_reply(&e, AS_CONTROL_RECONFIGURE, "{\"rank\":1}", AS_STATUS_OK, "");
        expect_reply(&e, AS_CONTROL_RECONFIGURE, "[]", AS_STATUS_INVALID_ARGUMENT,
                     "[] is no configuration");
        expect_reply(&e, AS_CONTROL_STATS, "", AS_STATUS_UNIMPLEMENTED, "");
        end(&e);
    }
}

static void a_refused_worker_ends_with_the_reason(void **state AS_UNUSED)
{
    struct as_worker_conf conf = {.size = sizeof(conf), .flags = AS_WORKER_NO_SIGNALS};
    struct as_worker_model model = {.size = sizeof(model), .name = "plain", .handler = plain};
    struct as_worker *w;
    struct fake d;

    fake_init(&d);
    d.goodbye = "wrong token";
    conf.path = d.path;
    assert_int_equal(as_worker_new(&w, &conf), 0);
    assert_int_equal(as_worker_add(w, &model), 0);
    fake_greet_begin(&d);
    assert_int_equal(as_worker_run(w), AS_EDENIED);
    fake_greet_end(&d);
    assert_non_null(strstr(as_worker_error(w), "wrong token"));
    as_worker_free(w);
    fake_fini(&d);
}

static void a_stop_ends_the_search_for_a_server(void **state AS_UNUSED)
{
    struct as_worker_conf conf = {
        .size = sizeof(conf), .path = "/nowhere/link.sock", .flags = AS_WORKER_NO_SIGNALS};
    struct as_worker *w;

    assert_int_equal(as_worker_new(&w, &conf), 0);
    as_worker_stop(w);
    assert_int_equal(as_worker_run(w), 0);
    as_worker_free(w);
}

static void declarations_are_checked(void **state AS_UNUSED)
{
    struct as_worker_conf conf = {.size = sizeof(conf), .path = "/x"};
    struct as_worker_model m = {.size = sizeof(m), .name = "m"};
    struct {
        struct as_worker_conf conf;
        uint64_t newer;
    } future = {.conf = {.size = sizeof(future), .path = "/x"}};
    struct as_worker *w;

    conf.size = 0;
    assert_int_equal(as_worker_new(&w, &conf), AS_EINVALID);
    conf.size = sizeof(conf);
    conf.slots = AS_WORKER_SLOTS + 1;
    assert_int_equal(as_worker_new(&w, &conf), AS_EINVALID);
    future.newer = 1; /* a member that this library does not know */
    assert_int_equal(as_worker_new(&w, &future.conf), AS_EINVALID);
    future.newer = 0;
    assert_int_equal(as_worker_new(&w, &future.conf), 0);
    m.streams_inputs = true;
    assert_int_equal(as_worker_add(w, &m), AS_EINVALID);
    assert_string_equal(as_worker_error(w), "streams_inputs needs decoupled");
    m.streams_inputs = false;
    m.name = "";
    assert_int_equal(as_worker_add(w, &m), AS_EINVALID);
    m.name = "m";
    m.n_preferred = AS_WORKER_PREFERRED + 1;
    assert_int_equal(as_worker_add(w, &m), AS_EINVALID);
    m.n_preferred = AS_WORKER_PREFERRED;
    assert_int_equal(as_worker_add(w, &m), AS_EINVALID); /* of what? there is no max_batch */
    m.max_batch = 2;
    assert_int_equal(as_worker_add(w, &m), 0);
    as_worker_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_the_answer_and_failures_say_why),
        cmocka_unit_test(members_of_a_batch_are_answered_one_by_one),
        cmocka_unit_test(a_handler_waits_for_room),
        cmocka_unit_test(a_cancel_ends_the_wait),
        cmocka_unit_test(a_handler_receives_to_the_end),
        cmocka_unit_test(controls_go_to_the_callbacks),
        cmocka_unit_test(a_refused_worker_ends_with_the_reason),
        cmocka_unit_test(a_stop_ends_the_search_for_a_server),
        cmocka_unit_test(declarations_are_checked),
        cmocka_unit_test(single_tensors_have_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
