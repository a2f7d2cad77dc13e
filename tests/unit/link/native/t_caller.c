/* Calls that workers and drivers make over the link: from the caller's OPEN to the callee and back.
 */
#include "call_world.h"

static struct hand *caller, *callee;

static void begin_pair(struct as_fleet_conf conf)
{
    begin_calls(conf);
    caller = serve(0, "c", "Caller");
    callee = serve(1, "d", "Callee");
    say_target(caller, 0, "Callee");
}

static void the_limits_come_with_hello(void **state AS_UNUSED)
{
    struct as_frame_credit c;

    begin_calls(calls_conf());
    caller = greet_as(0, "c", CALL_CAPS);
    expect(caller, AS_FRAME_CREDIT);
    assert_int_equal(caller->f.stream, 0);
    assert_int_equal(as_frame_get_credit(&caller->f, &c), 0);
    assert_int_equal(c.messages, 4);
    assert_int_equal(c.bytes, 1 << 20);
    assert_int_equal(c.slots | c.prefetch, 0);
    end();
}

static void a_call_and_its_answer(void **state AS_UNUSED)
{
    struct as_frame_call c;
    struct as_arena a;
    const char *why;

    begin_pair(calls_conf());
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_registry_count(w.client.registry), 0); /* clients do not see it */
    say_open(caller, 2, 0, "question");
    expect(callee, AS_FRAME_OPEN);
    assert_int_equal(as_frame_get_call(&callee->f, &a, &c, &why), 0);
    assert_int_equal(c.target, 0);
    assert_int_equal(c.parent, 0);
    assert_int_equal(c.flags, 0);
    assert_true(as_str_eq(as_body_method(c.body), AS_STR("f")));
    assert_text(callee, false, "question");
    say_answer(callee, callee->f.stream, "answer", false);
    expect(caller, AS_FRAME_DATA);
    assert_int_equal(caller->f.stream, 2);
    assert_int_equal(caller->f.flags, AS_FRAME_F_MSG | AS_FRAME_F_END);
    assert_text(caller, true, "answer");
    assert_int_equal(as_caller_open_calls(link_of("c")), 0);
    as_arena_fini(&a);
    end();
}

/* The bytes of the body of a message whose first frame is h->f. */
static struct bytes receive_body(struct hand *h, uint64_t stream)
{
    struct as_frame_call c;
    struct as_arena a;
    struct bytes b;
    const char *why;
    size_t n = 0;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_call(&h->f, &a, &c, &why), 0);
    b = bytes_new((size_t)c.body_len);
    if (c.body) {
        memcpy(b.p, c.body, b.n);
        n = b.n;
    }
    while (n < b.n) {
        expect(h, AS_FRAME_DATA);
        assert_int_equal(h->f.stream, stream);
        memcpy(b.p + n, h->f.p, h->f.n);
        n += h->f.n;
        assert_int_equal(h->f.flags, n == b.n ? AS_FRAME_F_END : 0);
    }
    as_arena_fini(&a);
    return b;
}

/* Around every limit where a body changes its way: copied, in a blob, in DATA frames. */
static void bodies_of_all_sizes_both_ways(void **state AS_UNUSED)
{
    static const size_t sizes[] = {
        0, AS_COPY_MAX - 100, AS_COPY_MAX, AS_FRAME_INLINE - 24, 65600, 150000, 900000};

    begin_pair(calls_conf());
    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        uint8_t *data = malloc(sizes[i] + 1);
        struct as_body body = bytes_body(data, sizes[i]);
        uint64_t stream = 2 * (i + 1), odd;
        struct bytes want, got;

        for (size_t k = 0; k < sizes[i]; k++)
            data[k] = (uint8_t)(k * 31 >> 4);
        want = bytes_new((size_t)as_body_len(&body));
        as_body_write(&body, want.p);
        say_open_of(caller, stream, &(struct as_frame_call){.priority = 1}, &body);
        expect(callee, AS_FRAME_OPEN);
        odd = callee->f.stream;
        got = receive_body(callee, odd);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.p, want.p, want.n);
        free(got.p);
        assert_int_equal(as_frame_put_call(&callee->out, AS_FRAME_DATA, odd,
                                           &(struct as_frame_call){0}, &body, NULL),
                         0);
        expect(caller, AS_FRAME_DATA);
        got = receive_body(caller, stream);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.p, want.p, want.n);
        free(got.p);
        free(want.p);
        free(data);
    }
    end();
}

/* What a caller grants is granted to the callee, no more; the messages come as they are sent. */
static void a_stream_of_answers(void **state AS_UNUSED)
{
    struct as_frame_credit credit = {.messages = 2, .bytes = 1000};
    struct as_frame_call open = {.flags = AS_CALL_F_STREAM, .priority = 1};
    struct as_body body = bytes_body("s", 1);
    uint64_t odd;

    begin_pair(calls_conf());
    say_open_of(caller, 2, &open, &body);
    as_frame_put_credit(&caller->out, 2, &credit);
    expect(callee, AS_FRAME_OPEN);
    odd = callee->f.stream;
    assert_int_equal(callee->f.p[60 - 16], AS_CALL_F_STREAM);
    expect(callee, AS_FRAME_CREDIT);
    assert_int_equal(callee->f.stream, odd);
    assert_int_equal(as_frame_get_credit(&callee->f, &credit), 0);
    assert_int_equal(credit.messages, 2);
    assert_int_equal(credit.bytes, 1000);
    say_answer(callee, odd, "one", true);
    say_answer(callee, odd, "two", true);
    expect(caller, AS_FRAME_DATA);
    assert_int_equal(caller->f.flags, AS_FRAME_F_MSG);
    assert_text(caller, true, "one");
    expect(caller, AS_FRAME_DATA);
    assert_text(caller, true, "two");
    as_frame_put_credit(&caller->out, 2, &(struct as_frame_credit){.messages = 1, .bytes = 7});
    expect(callee, AS_FRAME_CREDIT);
    assert_int_equal(as_frame_get_credit(&callee->f, &credit), 0);
    assert_int_equal(credit.messages, 1);
    assert_int_equal(credit.bytes, 7);
    say_answer(callee, odd, "three", true);
    expect(caller, AS_FRAME_DATA);
    as_frame_put_end(&callee->out, odd, 0);
    expect(caller, AS_FRAME_END);
    assert_int_equal(caller->f.stream, 2);
    assert_int_equal(as_caller_open_calls(link_of("c")), 0);
    end();
}

/* A message beyond what the caller has granted breaks the rules of the callee's link. */
static void a_callee_may_not_exceed_the_callers_credit(void **state AS_UNUSED)
{
    struct as_frame_call open = {.flags = AS_CALL_F_STREAM, .priority = 1};
    struct as_body body = bytes_body("s", 1);

    begin_pair(calls_conf());
    say_open_of(caller, 2, &open, &body);
    as_frame_put_credit(&caller->out, 2, &(struct as_frame_credit){.messages = 1, .bytes = 1000});
    expect(callee, AS_FRAME_OPEN);
    as_page_start(&callee->page, callee->f.stream, as_loop_now(w.loop));
    expect(callee, AS_FRAME_CREDIT);
    say_answer(callee, callee->f.stream, "one", true);
    expect(caller, AS_FRAME_DATA);
    say_answer(callee, callee->f.stream, "two", true);
    UNTIL(w.killed);
    assert_string_equal(w.why, "a message beyond its stream's credit");
    assert_int_equal(expect_error(caller, 2, AS_STATUS_UNAVAILABLE).flags, AS_ERROR_F_STARTED);
    end();
}

/* The replica dies before it has started the call: another one gets it, with the same credit. */
static void a_call_moves_to_another_replica(void **state AS_UNUSED)
{
    struct as_frame_call open = {.flags = AS_CALL_F_STREAM, .priority = 1};
    struct as_body body = bytes_body("s", 1);
    struct as_frame_credit credit;

    begin_pair(calls_conf());
    say_open_of(caller, 2, &open, &body);
    as_frame_put_credit(&caller->out, 2, &(struct as_frame_credit){.messages = 1, .bytes = 10});
    as_frame_put_credit(&caller->out, 2, &(struct as_frame_credit){.messages = 2, .bytes = 20});
    expect(callee, AS_FRAME_OPEN);
    expect(callee, AS_FRAME_CREDIT);
    expect(callee, AS_FRAME_CREDIT);
    die(1, "d");
    callee = serve(1, "e", "Callee");
    expect(callee, AS_FRAME_OPEN);
    assert_text(callee, false, "s");
    expect(callee, AS_FRAME_CREDIT);
    assert_int_equal(as_frame_get_credit(&callee->f, &credit), 0);
    assert_int_equal(credit.messages, 3);
    assert_int_equal(credit.bytes, 30);
    as_frame_put_end(&callee->out, callee->f.stream, 0);
    expect(caller, AS_FRAME_END);
    end();
}

static void errors_of_the_callee(void **state AS_UNUSED)
{
    struct as_frame_error e = {
        .code = AS_STATUS_INTERNAL, .flags = AS_ERROR_F_STARTED, .message = AS_STR("no luck")};

    begin_pair(calls_conf());
    say_open(caller, 2, 0, "q");
    expect(callee, AS_FRAME_OPEN);
    as_page_start(&callee->page, callee->f.stream, as_loop_now(w.loop));
    as_frame_put_error(&callee->out, callee->f.stream, &e);
    e = expect_error(caller, 2, AS_STATUS_INTERNAL);
    assert_true(as_str_eq(e.message, AS_STR("no luck")));
    assert_int_equal(e.flags, AS_ERROR_F_STARTED);
    say_open(caller, 4, 0, "q");
    expect(callee, AS_FRAME_OPEN);
    as_page_start(&callee->page, callee->f.stream, as_loop_now(w.loop));
    die(1, "d");
    e = expect_error(caller, 4, AS_STATUS_UNAVAILABLE);
    assert_int_equal(e.flags, AS_ERROR_F_STARTED);
    end();
}

static void deployments_that_are_not_there(void **state AS_UNUSED)
{
    struct as_frame_error e;

    begin_pair(calls_conf());
    say_target(caller, 1, "Nobody");
    say_open_of(caller, 2, &(struct as_frame_call){.target = 1, .priority = 1},
                &(struct as_body){.codec = AS_BODY_BYTES});
    e = expect_error(caller, 2, AS_STATUS_NOT_FOUND);
    assert_true(as_str_eq(e.message, AS_STR("Deployment(name='Nobody', app='a') does not exist.")));
    assert_int_equal(e.flags, 0);
    /* announced, and its replicas have not registered yet */
    as_fleet_add_process(w.fleet, AS_STR("n"), AS_STR("a#Nobody-0"), AS_STR("a#Nobody"));
    say_open_of(caller, 4, &(struct as_frame_call){.target = 1, .priority = 1},
                &(struct as_body){.codec = AS_BODY_BYTES});
    e = expect_error(caller, 4, AS_STATUS_UNAVAILABLE);
    assert_non_null(strstr(e.message.p, "starting"));
    as_fleet_set_down(w.fleet, AS_STR("a#Nobody"), true);
    say_open_of(caller, 6, &(struct as_frame_call){.target = 1, .priority = 1},
                &(struct as_body){.codec = AS_BODY_BYTES});
    e = expect_error(caller, 6, AS_STATUS_UNAVAILABLE);
    assert_true(as_str_eq(e.message, AS_STR("Deployment(name='Nobody', app='a') is unavailable "
                                            "because it failed to deploy.")));
    /* a number stays with its names when the deployment is gone */
    as_fleet_delete_deployment(w.fleet, AS_STR("a#Callee"), false);
    say_open(caller, 8, 0, "q");
    expect_error(caller, 8, AS_STATUS_NOT_FOUND);
    say_target(caller, 0, "Caller"); /* and may be given to others */
    say_open(caller, 10, 0, "to itself");
    expect(caller, AS_FRAME_OPEN);
    assert_text(caller, false, "to itself");
    end();
}

/* What code declares is known before a worker exists: calls wait for one. */
static void a_declared_target_is_queued_for(void **state AS_UNUSED)
{
    struct as_frame_register r = {.name = AS_STR("Callee"),
                                  .version = AS_STR("1"),
                                  .platform = AS_STR("test"),
                                  .max_ongoing = 2,
                                  .budget = 2,
                                  .opaque = true};
    struct as_fleet_record record = {
        .deployment = AS_STR("a#Callee"), .model = AS_STR("Callee:1"), .declared = true};
    struct as_outq q;
    struct bytes b;
    const char *why;

    begin_calls(calls_conf());
    as_outq_init(&q);
    assert_int_equal(as_frame_put_register(&q, &r), 0);
    b = bytes_of(&q);
    as_outq_fini(&q);
    record.frames = (struct as_str){(char *)b.p, b.n};
    assert_int_equal(as_fleet_restore(w.fleet, &record, &why), 0);
    caller = drive(0);
    say_target(caller, 0, "Callee");
    say_open(caller, 2, 0, "early");
    UNTIL(as_fleet_unanswered(w.fleet) == 1);
    callee = serve(1, "d", "Callee");
    expect(callee, AS_FRAME_OPEN);
    assert_text(callee, false, "early");
    say_answer(callee, callee->f.stream, "late", false);
    expect(caller, AS_FRAME_DATA);
    /* the owner of the fleet keeps it for the next dispatcher */
    assert_non_null(strstr(as_buf_cstr(&w.recorded), "Callee:1 REGISTER;"));
    free(b.p);
    end();
}

static void cancels(void **state AS_UNUSED)
{
    uint64_t odd[3];

    begin_pair(calls_conf());
    for (uint64_t i = 0; i < 3; i++) {
        say_open(caller, 2 * (i + 1), 0, "q");
        if (i < 2) {
            expect(callee, AS_FRAME_OPEN);
            odd[i] = callee->f.stream;
            as_page_start(&callee->page, odd[i], as_loop_now(w.loop));
        }
    }
    as_frame_put_cancel(&caller->out, 2, AS_STATUS_CANCELLED); /* it executes */
    expect_error(caller, 2, AS_STATUS_CANCELLED);
    expect(callee, AS_FRAME_CANCEL);
    assert_int_equal(callee->f.stream, odd[0]);
    as_frame_put_cancel(&caller->out, 2, AS_STATUS_CANCELLED); /* crossed: no error */
    as_frame_put_credit(&caller->out, 2, &(struct as_frame_credit){.messages = 1});
    as_frame_put_cancel(&caller->out, 6, AS_STATUS_CANCELLED); /* it may wait in the worker */
    expect_error(caller, 6, AS_STATUS_CANCELLED);
    say_answer(callee, odd[0], "too late", false);
    say_answer(callee, odd[1], "in time", false);
    expect(caller, AS_FRAME_DATA);
    assert_int_equal(caller->f.stream, 4);
    assert_int_equal(as_caller_open_calls(link_of("c")), 0);
    end();
}

/* The link of a caller ends: what it has called is cancelled, wherever it is. */
static void the_calls_of_a_dead_link_are_cancelled(void **state AS_UNUSED)
{
    struct as_frame_call large = {.priority = 1};
    uint8_t *data = calloc(1, 100000);
    struct as_body body = bytes_body(data, 100000);

    begin_pair(calls_conf());
    say_open(caller, 2, 0, "executes");
    expect(callee, AS_FRAME_OPEN);
    as_page_start(&callee->page, callee->f.stream, as_loop_now(w.loop));
    say_open_of(caller, 4, &large, &body);
    flush(caller); /* the rest of this one never comes */
    say_open_of(caller, 6, &large, &body);
    {
        struct iovec v;

        assert_int_equal(as_outq_iov(&caller->out, &v, 1), 1);
        assert_true(write(caller->fd, v.iov_base, 64 + 640) == 64 + 640);
        as_outq_fini(&caller->out);
        as_outq_init(&caller->out);
    }
    UNTIL(as_caller_open_calls(link_of("c")) == 3);
    die(0, "c");
    expect(callee, AS_FRAME_CANCEL);
    say_answer(callee, callee->streams[0], "nobody reads it", false);
    UNTIL(as_fleet_unanswered(w.fleet) <= 1); /* the second one, which the callee has, too */
    free(data);
    end();
}

/* --- what a call has of its parent --- */

static uint64_t parent_with(struct hand *h, as_ns timeout, struct as_str trace)
{
    struct as_meta meta[] = {{AS_STR("traceparent"), trace},
                             {AS_STR("x"), AS_STR("y")},
                             {AS_STR("anyserve-tenant"), AS_STR("acme")}};
    struct as_frame_call c = {.id = AS_STR("root-id"),
                              .meta = meta,
                              .n_meta = 3,
                              .priority = 2,
                              .timeout = timeout,
                              .target = 0};
    struct hand *d = drive(2);
    struct as_body body = bytes_body("root", 4);

    say_target(d, 0, "Caller");
    say_open_of(d, 2, &c, &body);
    expect(h, AS_FRAME_OPEN);
    as_page_start(&h->page, h->f.stream, as_loop_now(w.loop));
    return h->f.stream;
}

static uint64_t parent_at(struct hand *h, as_ns timeout)
{
    return parent_with(h, timeout, AS_STR("00-ab"));
}

static void a_child_inherits(void **state AS_UNUSED)
{
    struct as_frame_call c;
    struct as_arena a;
    const char *why;
    uint64_t parent;

    begin_pair(calls_conf());
    as_arena_init(&a, NULL, 0);
    parent = parent_at(caller, 20 * AS_SEC);
    say_open_of(caller, 2,
                &(struct as_frame_call){.parent = parent, .priority = 0, .timeout = 60 * AS_SEC},
                &(struct as_body){.codec = AS_BODY_BYTES});
    expect(callee, AS_FRAME_OPEN);
    assert_int_equal(as_frame_get_call(&callee->f, &a, &c, &why), 0);
    assert_true(c.timeout && c.timeout <= 20 * AS_SEC); /* the earlier deadline */
    assert_int_equal(c.priority, 2);
    assert_int_equal(c.parent, 0);
    assert_true(as_str_eq(c.id, AS_STR("root-id")));
    assert_int_equal(c.n_meta, 1);
    assert_true(as_str_eq(c.meta[0].key, AS_STR("traceparent")));
    assert_true(as_str_eq(c.meta[0].value, AS_STR("00-ab")));
    {
        const struct as_call *child = as_link_find_call(link_of("d"), callee->f.stream);
        const struct as_call *root = as_link_find_call(link_of("c"), parent);

        assert_int_equal(child->depth, 1);
        assert_int_equal(root->depth, 0);
        assert_true(child->core.root == root->core.root && child->core.root);
        assert_int_equal(child->caller, link_of("c")->up.deploy->number);
        assert_int_equal(root->caller, AS_CALL_NO_CALLER);
        assert_true(root->core.tenant == as_fleet_tenant_key(w.fleet, AS_STR("acme")));
        assert_true(root->core.tenant && child->core.tenant == root->core.tenant);
    }
    /* its own deadline is earlier; its own id and trace stay */
    {
        struct as_meta own = {AS_STR("traceparent"), AS_STR("00-cd")};

        say_open_of(caller, 4,
                    &(struct as_frame_call){.parent = parent,
                                            .timeout = 5 * AS_SEC,
                                            .id = AS_STR("own"),
                                            .meta = &own,
                                            .n_meta = 1},
                    &(struct as_body){.codec = AS_BODY_BYTES});
    }
    expect(callee, AS_FRAME_OPEN);
    assert_int_equal(as_frame_get_call(&callee->f, &a, &c, &why), 0);
    assert_true(c.timeout && c.timeout <= 5 * AS_SEC);
    assert_true(as_str_eq(c.id, AS_STR("own")));
    assert_int_equal(c.n_meta, 1);
    assert_true(as_str_eq(c.meta[0].value, AS_STR("00-cd")));
    as_arena_fini(&a);
    end();
}

/* What a handle says of a call counts more than what its parent has; nonsense does not count. */
static void a_child_may_have_a_place_of_its_own(void **state AS_UNUSED)
{
    static const struct {
        const char *priority;
        uint8_t want;
    } cases[] = {{"1", 0}, {"3", 2}, {"0", 2}, {"4", 2}, {"", 2}, {"11", 2}, {"x", 2}};

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        struct as_meta own[] = {{AS_STR("anyserve-priority"), as_str_of(cases[i].priority)},
                                {AS_STR("anyserve-tenant"), AS_STR("other")}};
        const struct as_call *child;

        uint64_t parent;

        begin_pair(calls_conf());
        parent = parent_at(caller, 20 * AS_SEC);
        say_open_of(caller, 2, &(struct as_frame_call){.parent = parent, .meta = own, .n_meta = 2},
                    &(struct as_body){.codec = AS_BODY_BYTES});
        expect(callee, AS_FRAME_OPEN);
        child = as_link_find_call(link_of("d"), callee->f.stream);
        assert_int_equal(child->core.priority, cases[i].want);
        assert_true(child->core.tenant == as_fleet_tenant_key(w.fleet, AS_STR("other")));
        end();
    }
}

/* Headers of the parent beside which those of the call fit no frame. */
static void a_child_inherits_what_fits(void **state AS_UNUSED)
{
    static char large[300 << 10];
    struct as_meta own = {AS_STR("mine"), {large, sizeof(large)}};
    struct as_frame_call c;
    struct as_arena a;
    const char *why;

    memset(large, 'x', sizeof(large));
    begin_pair(calls_conf());
    as_arena_init(&a, NULL, 0);
    c = (struct as_frame_call){
        .parent = parent_with(caller, 0, own.value), .meta = &own, .n_meta = 1};
    say_open_of(caller, 2, &c, &(struct as_body){.codec = AS_BODY_BYTES});
    expect(callee, AS_FRAME_OPEN);
    assert_int_equal(as_frame_get_call(&callee->f, &a, &c, &why), 0);
    assert_int_equal(c.n_meta, 1);
    assert_true(as_str_eq(c.meta[0].key, AS_STR("mine")));
    as_arena_fini(&a);
    end();
}

/* A child that nobody awaits goes on when its parent has ended; it counts as one without a parent.
 */
static void a_child_outlives_its_parent(void **state AS_UNUSED)
{
    uint64_t parent;

    begin_pair(calls_conf());
    parent = parent_at(caller, 0);
    say_open(caller, 2, parent, "child");
    expect(callee, AS_FRAME_OPEN);
    say_answer(caller, parent, "done", false);
    UNTIL(!as_link_find_call(link_of("c"), parent));
    say_open(caller, 4, parent, "crossed"); /* it was sent before the end was known */
    expect(callee, AS_FRAME_OPEN);
    assert_int_equal(link_of("c")->caller->n_windows, 0);
    assert_int_equal(link_of("c")->caller->none.n, 2);
    say_answer(callee, callee->streams[0], "1", false);
    say_answer(callee, callee->streams[1], "2", false);
    expect(caller, AS_FRAME_DATA);
    expect(caller, AS_FRAME_DATA);
    assert_int_equal(link_of("c")->caller->none.n, 0);
    assert_int_equal(link_of("c")->caller->none.bytes, 0);
    end();
}

/* A stream that stays open for long does not make the table of requests larger. */
static void many_calls_beside_one_that_stays(void **state AS_UNUSED)
{
    struct as_link *l;
    uint64_t first;

    begin_pair(calls_conf());
    l = link_of("d");
    say_open(caller, 2, 0, "stays");
    expect(callee, AS_FRAME_OPEN);
    first = callee->f.stream;
    for (uint64_t i = 0; i < 700; i++) {
        callee->n = 0;
        say_open(caller, 4 + 2 * i, 0, "q");
        expect(callee, AS_FRAME_OPEN);
        assert_ptr_equal(as_link_find_call(l, first)->core.replica, l->up.replica);
        assert_int_equal(as_link_find_call(l, callee->f.stream)->core.stream, callee->f.stream);
        if (i)
            assert_null(as_link_find_call(l, callee->f.stream - 2));
        say_answer(callee, callee->f.stream, "a", false);
        expect(caller, AS_FRAME_DATA);
    }
    assert_int_equal(l->cap_calls, 256);
    assert_int_equal(l->n_calls, 1);
    say_answer(callee, first, "at last", false);
    expect(caller, AS_FRAME_DATA);
    assert_int_equal(caller->f.stream, 2);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limits_come_with_hello),
        cmocka_unit_test(a_call_and_its_answer),
        cmocka_unit_test(bodies_of_all_sizes_both_ways),
        cmocka_unit_test(a_stream_of_answers),
        cmocka_unit_test(a_callee_may_not_exceed_the_callers_credit),
        cmocka_unit_test(a_call_moves_to_another_replica),
        cmocka_unit_test(errors_of_the_callee),
        cmocka_unit_test(deployments_that_are_not_there),
        cmocka_unit_test(a_declared_target_is_queued_for),
        cmocka_unit_test(cancels),
        cmocka_unit_test(the_calls_of_a_dead_link_are_cancelled),
        cmocka_unit_test(a_child_inherits),
        cmocka_unit_test(a_child_may_have_a_place_of_its_own),
        cmocka_unit_test(a_child_inherits_what_fits),
        cmocka_unit_test(a_child_outlives_its_parent),
        cmocka_unit_test(many_calls_beside_one_that_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
