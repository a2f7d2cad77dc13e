/* The worker library: local calls are checked as the server checks requests, start at once, report
 * their end, and never reach the link. */
#include "worker_pair.h"

#include <string.h>

enum { ADD, MANY, PARTS, TALK };

static const int64_t any[] = {-1}, rows[] = {-1, 2};
static const struct as_tensor_spec one = {
    .name = AS_STR_INIT("x"), .dtype = AS_DT_UINT8, .ndim = 1, .shape = any};
static const struct as_tensor_spec row = {
    .name = AS_STR_INIT("x"), .dtype = AS_DT_UINT8, .ndim = 2, .shape = rows};

static struct as_worker *make(struct fake *d)
{
    const struct as_worker_model models[] = {
        {.size = sizeof(struct as_worker_model),
         .name = "add",
         .has_inputs = true,
         .has_outputs = true,
         .n_inputs = 1,
         .n_outputs = 1,
         .inputs = &one,
         .outputs = &one},
        {.size = sizeof(struct as_worker_model),
         .name = "many",
         .has_inputs = true,
         .n_inputs = 1,
         .inputs = &row,
         .max_batch = 4},
        {.size = sizeof(struct as_worker_model),
         .name = "parts",
         .has_outputs = true,
         .n_outputs = 1,
         .outputs = &one,
         .decoupled = true},
        {.size = sizeof(struct as_worker_model),
         .name = "talk",
         .decoupled = true,
         .streams_inputs = true},
    };
    struct as_worker_conf conf = {
        .size = sizeof(conf), .path = d->path, .token = "secret", .slots = 1};
    struct as_worker *w;

    assert_int_equal(as_worker_new(&w, &conf), 0);
    for (size_t i = 0; i < AS_COUNT(models); i++)
        assert_int_equal(as_worker_add(w, &models[i]), 0);
    return w;
}

static int setup(void **state)
{
    struct pair *p = as_xalloc(sizeof(*p));

    fake_init(&p->d);
    p->w = make(&p->d);
    *state = p;
    return 0;
}

/* How the last one ended. */
static struct {
    uint32_t n, status;
    char text[1024];
} end;

static void on_done(void *ctx, uint32_t status, struct as_str text)
{
    assert_ptr_equal(ctx, &end);
    end.n++;
    end.status = status;
    snprintf(end.text, sizeof(end.text), "%.*s", AS_STR_FMT(text));
}

static int64_t shape[2] = {4, 2};
static uint8_t bytes[8] = {1, 2, 3, 4};

static struct as_tensor tensor(const char *name, uint32_t ndim, int64_t n)
{
    shape[0] = n;
    return (struct as_tensor){as_str_of(name), AS_DT_UINT8, ndim,
                              shape,           bytes,       (size_t)n * (ndim > 1 ? 2 : 1)};
}

static int rehearse(struct pair *p, uint32_t model, const struct as_tensor *t,
                    struct as_worker_req **ret_q)
{
    struct as_param param = {.name = AS_STR("k"), .type = AS_PARAM_STRING, .str = AS_STR("v")};
    struct as_msg msg = {
        .id = AS_STR("7"), .tensors = t, .n_tensors = t ? 1 : 0, .params = &param, .n_params = 1};

    end.n = 0;
    return as_worker_rehearse(p->w, model, &msg, on_done, &end, ret_q);
}

static void a_request_is_a_copy_of_what_was_said(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("x", 1, 4);
    const struct as_msg *msg;
    struct as_worker_req *q;
    void *hold;

    assert_int_equal(rehearse(p, ADD, &t, &q), 0);
    msg = as_worker_req_msg(q);
    assert_str(msg->id, "7");
    assert_str(msg->params[0].name, "k");
    assert_str(msg->params[0].str, "v");
    assert_int_equal(msg->n_meta, 0);
    assert_str(msg->tensors[0].name, "x");
    assert_ptr_not_equal(msg->tensors[0].shape, shape);
    assert_int_equal(msg->tensors[0].shape[0], 4);
    assert_int_equal((uintptr_t)msg->tensors[0].data % 64, 0);
    assert_memory_equal(msg->tensors[0].data, bytes, 4);
    assert_int_equal(as_worker_req_model(q), ADD);
    assert_true(as_worker_req_deadline(q) == AS_NEVER);
    assert_false(as_worker_req_cancelled(q));
    assert_null(as_worker_next_member(p->w, q));
    t.data = msg->tensors[0].data;
    hold = as_worker_req_hold(q);
    assert_int_equal(as_worker_answer(p->w, q, msg), 0);
    assert_int_equal(end.n, 1);
    assert_int_equal(end.status, 0);
    assert_memory_equal(t.data, bytes, 4); /* while it is held */
    as_worker_release_hold(hold);
    assert_null(as_worker_next(p->w)); /* it was never in the line */
}

static void what_does_not_fit_is_refused(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("y", 1, 4);
    struct as_worker_req *q;

    assert_int_equal(rehearse(p, ADD, &t, &q), AS_EINVALID);
    assert_string_equal(as_worker_error(p->w), "model 'add' has no input 'y' (inputs: x)");
    assert_int_equal(rehearse(p, ADD, NULL, &q), AS_EINVALID);
    assert_string_equal(as_worker_error(p->w), "input 'x' of model 'add' is missing");
    t = tensor("x", 1, 4);
    for (t.nbytes = 3; t.nbytes <= 5; t.nbytes += 2) {
        assert_int_equal(rehearse(p, ADD, &t, &q), AS_EINVALID);
        assert_string_equal(as_worker_error(p->w),
                            "input 'x': its bytes are not of this datatype and shape");
    }
    t = tensor("x", 2, 4); /* as many as the batch takes, and one more */
    assert_int_equal(rehearse(p, MANY, &t, &q), 0);
    as_worker_fail(p->w, q, AS_STATUS_INTERNAL, AS_STR(""));
    t = tensor("x", 2, 5);
    assert_int_equal(rehearse(p, MANY, &t, &q), AS_EINVALID);
    assert_string_equal(as_worker_error(p->w),
                        "input 'x': 5 items, model 'many' takes 1 to 4 (max_batch_size)");
    assert_int_equal(rehearse(p, TALK + 1, NULL, &q), AS_EINVALID);
    assert_int_equal(end.n, 0); /* of what was refused nobody hears again */
}

static void its_maker_hears_what_failed(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("x", 1, 4), wrong = tensor("z", 1, 4);
    struct as_msg answer = {.tensors = &wrong, .n_tensors = 1};
    struct as_worker_req *q;

    assert_int_equal(rehearse(p, ADD, &t, &q), 0);
    as_worker_fail(p->w, q, AS_STATUS_UNAVAILABLE, AS_STR("no GPU"));
    assert_int_equal(end.n, 1);
    assert_int_equal(end.status, AS_STATUS_UNAVAILABLE);
    assert_string_equal(end.text, "no GPU");
    assert_int_equal(rehearse(p, ADD, &t, &q), 0);
    assert_int_equal(as_worker_answer(p->w, q, &answer), 0); /* the server would refuse it */
    assert_int_equal(end.status, AS_STATUS_INTERNAL);
    assert_string_equal(end.text, "model 'add' has no output 'z' (outputs: x)");
}

static void a_long_text_is_cut_between_two_characters(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("x", 1, 4);
    struct as_worker_req *q;
    char text[601];
    size_t n;

    for (size_t i = 0; i < 600; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    for (size_t shift = 0; shift < 2; shift++) { /* one of them has a character where it is cut */
        assert_int_equal(rehearse(p, ADD, &t, &q), 0);
        text[0] = shift ? 'e' : '\xc3';
        text[1] = shift ? 'e' : '\xa9';
        as_worker_fail(p->w, q, AS_STATUS_INTERNAL, (struct as_str){text + shift, 600 - shift});
        n = strlen(end.text);
        assert_in_range(n, 509, 511);
        assert_int_equal((uint8_t)end.text[n - 1], 0xa9);
        assert_memory_equal(end.text, text + shift, n);
    }
}

static void a_stream_is_heard_to_its_end(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("x", 1, 4), wrong = tensor("z", 1, 4);
    struct as_msg part = {.tensors = &t, .n_tensors = 1};
    struct as_worker_req *q;

    assert_int_equal(rehearse(p, PARTS, NULL, &q), 0);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(as_worker_room(p->w, q), 0);
        assert_int_equal(as_worker_await_room(p->w, q), 0);
        assert_true(as_worker_want(p->w, q, AS_WANT_ROOM));
        assert_int_equal(as_worker_part(p->w, q, &part), 0);
    }
    assert_int_equal(end.n, 0);
    as_worker_finish(p->w, q);
    assert_int_equal(end.n, 1);
    assert_int_equal(end.status, 0);
    assert_int_equal(rehearse(p, PARTS, NULL, &q), 0);
    part.tensors = &wrong;
    assert_int_equal(as_worker_part(p->w, q, &part), AS_ECANCELLED);
    assert_true(as_worker_req_cancelled(q));
    as_worker_fail(p->w, q, AS_STATUS_CANCELLED, AS_STR("cancelled"));
    assert_int_equal(end.status, AS_STATUS_INTERNAL); /* what was wrong, and not what followed */
}

static void a_stream_of_inputs_has_one(void **state)
{
    struct pair *p = *state;
    struct as_worker_req *q, *in;

    assert_int_equal(rehearse(p, TALK, NULL, &q), 0);
    assert_true(as_worker_want(p->w, q, AS_WANT_INPUT));
    as_worker_await_input(p->w, q);
    assert_int_equal(as_worker_next_input(p->w, q, &in), AS_EOF);
    as_worker_finish(p->w, q);
    assert_int_equal(end.status, 0);
}

/* One that is under way when the link comes has nothing to do with it. */
static void nothing_of_it_reaches_the_link(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("x", 1, 4);
    struct as_worker_req *q, *other;

    assert_int_equal(rehearse(p, ADD, &t, &q), 0);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    assert_int_equal(rehearse(p, ADD, &t, &other), AS_EINVALID); /* connected */
    other = pair_start(p, 1, 4);                                 /* it takes no slot */
    assert_int_equal(as_worker_answer(p->w, q, as_worker_req_msg(q)), 0);
    assert_int_equal(end.n, 1);
    pair_sync(p);
    pair_echo(p, other);
    assert_null(as_worker_next(p->w));
    fake_expect(&p->d, AS_FRAME_DATA); /* the first thing that the link hears */
    assert_int_equal(p->d.f.stream, 1);
}

/* --- with a caller in this process, who gets the answers --- */

static struct {
    uint32_t parts, took;
    uint8_t last;
} got;

static void on_part(void *ctx, const struct as_msg *msg)
{
    assert_ptr_equal(ctx, &end);
    got.parts++;
    got.last = msg->n_tensors && msg->tensors[0].nbytes ? msg->tensors[0].data[0] : 0;
}

static void on_took(void *ctx AS_UNUSED)
{
    got.took++;
}

static int local(struct pair *p, uint32_t model, const struct as_tensor *t, bool more,
                 uint32_t room, struct as_worker_req **ret_q)
{
    struct as_meta meta = {AS_STR("k"), AS_STR("v")};
    struct as_msg msg = {.tensors = t, .n_tensors = t ? 1 : 0, .meta = &meta, .n_meta = 1};
    struct as_worker_local conf = {.size = sizeof(conf),
                                   .msg = &msg,
                                   .more = more,
                                   .room = room,
                                   .part = on_part,
                                   .took = on_took,
                                   .done = on_done,
                                   .ctx = &end};

    memset(&got, 0, sizeof(got));
    end.n = 0;
    return as_worker_local(p->w, model, &conf, ret_q);
}

static void its_maker_gets_the_answer(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("x", 1, 4), wrong = tensor("z", 1, 4);
    struct as_msg answer = {.tensors = &wrong, .n_tensors = 1};
    struct as_worker_req *q;

    assert_int_equal(local(p, ADD, &t, false, 0, &q), 0);
    assert_str(as_worker_req_msg(q)->meta[0].key, "k");
    assert_str(as_worker_req_msg(q)->meta[0].value, "v");
    assert_int_equal(as_worker_answer(p->w, q, as_worker_req_msg(q)), 0);
    assert_int_equal(got.parts, 1);
    assert_int_equal(got.last, 1);
    assert_int_equal(end.n, 1);
    assert_int_equal(local(p, ADD, &t, false, 0, &q), 0);
    assert_int_equal(as_worker_answer(p->w, q, &answer), 0);
    assert_int_equal(got.parts, 0); /* what the server would refuse is no answer */
    assert_int_equal(end.status, AS_STATUS_INTERNAL);
    assert_int_equal(local(p, ADD, &t, true, 0, &q), AS_EINVALID); /* it takes one message */
}

static void parts_come_where_there_is_room(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("x", 1, 4);
    struct as_msg part = {.tensors = &t, .n_tensors = 1};
    struct as_worker_req *q;

    assert_int_equal(local(p, PARTS, NULL, false, 2, &q), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(as_worker_room(p->w, q), 0);
        assert_int_equal(as_worker_part(p->w, q, &part), 0);
    }
    assert_int_equal(as_worker_room(p->w, q), AS_EAGAIN);
    assert_int_equal(as_worker_part(p->w, q, &part), AS_EAGAIN);
    assert_int_equal(got.parts, 2);
    assert_false(as_worker_want(p->w, q, AS_WANT_ROOM));
    assert_true(as_worker_local_room(p->w, q, 1)); /* the event loop is told once */
    assert_false(as_worker_local_room(p->w, q, UINT32_MAX));
    assert_int_equal(as_worker_part(p->w, q, &part), 0);
    as_worker_local_cancel(p->w, q);
    assert_true(as_worker_req_cancelled(q));
    assert_int_equal(as_worker_await_room(p->w, q), AS_ECANCELLED);
    assert_int_equal(as_worker_part(p->w, q, &part), AS_ECANCELLED);
    assert_int_equal(got.parts, 3);
    as_worker_fail(p->w, q, AS_STATUS_CANCELLED, AS_STR("cancelled"));
    assert_int_equal(end.status, AS_STATUS_CANCELLED);
}

static void further_inputs_are_checked_and_taken(void **state)
{
    struct pair *p = *state;
    struct as_tensor t = tensor("x", 1, 4);
    struct as_msg msg = {.tensors = &t, .n_tensors = 1};
    struct as_worker_req *q, *in;
    bool wanted;

    assert_int_equal(local(p, TALK, &t, true, 1, &q), 0);
    assert_int_equal(as_worker_next_input(p->w, q, &in), AS_EAGAIN);
    assert_false(as_worker_want(p->w, q, AS_WANT_INPUT));
    bytes[0] = 9;
    assert_int_equal(as_worker_local_input(p->w, q, &msg, NULL, 0, &wanted), 0);
    assert_true(wanted);
    bytes[0] = 1;
    t.nbytes--;
    assert_int_equal(as_worker_local_input(p->w, q, &msg, NULL, 0, &wanted), AS_EINVALID);
    t.nbytes++;
    assert_int_equal(as_worker_local_input(p->w, q, &msg, NULL, 0, &wanted), 0);
    assert_false(wanted);
    assert_int_equal(as_worker_next_input(p->w, q, &in), 0);
    assert_int_equal(as_worker_req_msg(in)->tensors[0].data[0], 9); /* a copy */
    assert_int_equal(got.took, 0);
    as_worker_drop_input(p->w, q, in);
    assert_int_equal(got.took, 1);
    assert_int_equal(as_worker_local_input(p->w, q, NULL, NULL, 0, &wanted), 0);
    assert_int_equal(as_worker_local_input(p->w, q, &msg, NULL, 0, &wanted), AS_EINVALID);
    as_worker_finish(p->w, q); /* with one that nobody took */
    assert_int_equal(end.n, 1);
    assert_int_equal(end.status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_a_copy_of_what_was_said, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(its_maker_hears_what_failed, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(a_long_text_is_cut_between_two_characters, setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(a_stream_is_heard_to_its_end, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(a_stream_of_inputs_has_one, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(nothing_of_it_reaches_the_link, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(its_maker_gets_the_answer, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(parts_come_where_there_is_room, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(further_inputs_are_checked_and_taken, setup, pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
