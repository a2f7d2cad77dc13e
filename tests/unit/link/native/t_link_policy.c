/* link/fleet/policy/policy: questions to a policy process, and what it may answer. */
#include "link/fleet/policy/policy_internal.h"

#include "link_world.h"

static struct as_fleet_conf asking(void)
{
    struct as_fleet_conf c = usual();

    c.deployment.router = (struct as_router_conf)AS_ROUTER_CONF_DEFAULT;
    c.deployment.router.ask_timeout = 60 * AS_SEC;
    c.max_report = AS_FRAME_REPORT_MAX;
    return c;
}

/* A policy process of "app" that is ready. */
static struct hand *join_policy(int i, const char *token, uint32_t wants)
{
    struct as_frame_hello hello = {.lo = 1,
                                   .hi = 1,
                                   .capabilities = AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL,
                                   .max_message = 1 << 20,
                                   .token = as_str_of(token),
                                   .deployment = AS_STR("app.policy")};
    struct as_frame_register r = model(false);
    struct hand *h = connect_hand(i);
    struct as_buf b = {0};
    uint32_t ready = w.ready;

    as_frame_put_hello(&h->out, &hello);
    send_page(h);
    r.name = AS_STR("p");
    assert_int_equal(as_frame_put_register(&h->out, &r), 0);
    expect(h, AS_FRAME_REGISTERED);
    as_frame_put_credit(&h->out, 0, &(struct as_frame_credit){.slots = 2});
    as_policy_put_ready(&b, &(struct as_policy_ready){wants});
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    as_buf_fini(&b);
    UNTIL(w.ready > ready);
    return h;
}

static void begin_with_policy(void)
{
    begin(asking());
    as_fleet_add_process(w.fleet, AS_STR("p0"), AS_STR("default#app.policy-0"),
                         AS_STR("default#app.policy"));
    as_fleet_add_process(w.fleet, AS_STR("p1"), AS_STR("default#app.policy-1"),
                         AS_STR("default#app.policy"));
}

/* What a process has been told. */
struct told {
    uint32_t numbers[8], n; /* replicas, in the order in which they came */
    uint64_t ids[8];        /* questions */
    uint64_t before;        /* the one before the last question about its request */
    uint32_t n_ids, gone, died, routed, completed, withdrawn, routed_to;
    uint32_t bodies, body_bytes;
    char model[32], session[32]; /* of the last question */
    uint64_t bytes;              /* of records, as READ counts them */
};

static void take(struct told *t, const struct as_frame *f)
{
    struct as_str rest = {(const char *)f->p, f->n};
    struct as_policy_replica replica;
    struct as_policy_route route;
    struct as_policy_record r;
    struct as_policy_event e;
    struct as_policy_body body;

    t->bytes += f->n;
    while (as_policy_next(&rest, &r) > 0) {
        if (r.kind == AS_POLICY_REPLICA) {
            assert_int_equal(as_policy_get_replica(r.body, &replica), 0);
            if (t->n < AS_COUNT(t->numbers))
                t->numbers[t->n] = replica.number;
            t->n++;
            assert_int_equal(replica.max_ongoing, 2);
        } else if (r.kind == AS_POLICY_ROUTE) {
            assert_int_equal(as_policy_get_route(r.body, &route), 0);
            t->ids[t->n_ids++] = route.id;
            t->before = route.before;
            snprintf(t->model, sizeof(t->model), "%.*s", AS_STR_FMT(route.model_id));
            snprintf(t->session, sizeof(t->session), "%.*s", AS_STR_FMT(route.session_id));
        } else if (r.kind == AS_POLICY_BODY) {
            assert_int_equal(as_policy_get_body(r.body, &body), 0);
            t->bodies++;
            t->body_bytes += (uint32_t)body.bytes.n;
        } else if (r.kind != AS_POLICY_ONGOING) {
            assert_int_equal(as_policy_get_event(r.body, &e), 0);
            t->gone += r.kind == AS_POLICY_GONE;
            t->died += r.kind == AS_POLICY_GONE && e.id;
            t->routed += r.kind == AS_POLICY_ROUTED;
            t->completed += r.kind == AS_POLICY_COMPLETED;
            t->withdrawn += r.kind == AS_POLICY_WITHDRAWN;
            t->routed_to = r.kind == AS_POLICY_ROUTED ? e.number : t->routed_to;
        }
    }
}

#define UNTIL_TOLD(h, t, condition)                                                                \
    do {                                                                                           \
        while (!(condition)) {                                                                     \
            expect(h, AS_FRAME_POLICY);                                                            \
            take(t, &(h)->f);                                                                      \
        }                                                                                          \
    } while (0)

static void choose(struct hand *h, uint64_t id, uint32_t number)
{
    struct as_policy_choice c = {.id = id, .n = 1, .at = {{number, 0}}};
    struct as_buf b = {0};

    as_policy_put_choice(&b, &c);
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    as_buf_fini(&b);
}

static void decline(struct hand *h, uint64_t id, enum as_policy_reason reason)
{
    struct as_policy_choice c = {.id = id, .reason = reason};
    struct as_buf b = {0};

    as_policy_put_choice(&b, &c);
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    as_buf_fini(&b);
}

/* MORE or READ. */
static void send_event(struct hand *h, enum as_policy_kind kind, uint64_t id)
{
    struct as_buf b = {0};

    as_policy_put_event(&b, kind, &(struct as_policy_event){id, 0});
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    as_buf_fini(&b);
}

static struct as_fleet_deployment *app(void)
{
    return as_fleet_find_deployment(w.fleet, AS_STR("default#app"));
}

static uint64_t count(enum as_policy_outcome o)
{
    return app()->router_outcomes[o];
}

static void a_chosen_replica_gets_the_request(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;

    begin_with_policy();
    join(0, "t0", true, &no_options);
    h = join(1, "t1", true, &no_options);
    p = join_policy(2, "p0", AS_POLICY_WANTS_ROUTED | AS_POLICY_WANTS_COMPLETED);
    UNTIL_TOLD(p, &t, t.n == 2);
    submit();
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 2); /* in one frame, or in two */
    choose(p, t.ids[0], t.numbers[1]);
    choose(p, t.ids[1], t.numbers[1]);
    start(h, 2);
    UNTIL_TOLD(p, &t, t.routed == 2);
    assert_int_equal(t.routed_to, t.numbers[1]);
    as_frame_put_end(&h->out, h->streams[0], 1);
    UNTIL_TOLD(p, &t, t.completed == 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_CHOSEN), 2);
    end();
}

static void a_request_that_waits_is_asked_again(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *other, *busy, *p;

    begin_with_policy();
    other = join(0, "t0", true, &no_options);
    busy = join(1, "t1", true, &no_options);
    p = join_policy(2, "p0", AS_POLICY_WANTS_ROUTED);
    UNTIL_TOLD(p, &t, t.n == 2);
    for (uint32_t i = 0; i < 3; i++) {
        submit();
        UNTIL_TOLD(p, &t, t.n_ids == i + 1);
        assert_int_equal(t.before, 0);
        choose(p, t.ids[i], t.numbers[1]);
    }
    start(busy, 2);
    UNTIL_TOLD(p, &t, t.n_ids == 4);
    assert_int_equal(t.before, t.ids[2]);
    choose(p, t.ids[3], t.numbers[0]);
    start(other, 1);
    UNTIL_TOLD(p, &t, t.routed == 3);
    assert_int_equal(t.routed_to, t.numbers[0]);
    end();
}

static void without_a_choice_the_server_decides(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    for (int i = 0; i < 3; i++)
        submit();
    UNTIL_TOLD(p, &t, t.n_ids == 3);
    decline(p, t.ids[0], AS_POLICY_RAISED);
    decline(p, t.ids[1], AS_POLICY_NONE);
    choose(p, t.ids[2], 999); /* a replica that there is not */
    start(h, 2);
    as_frame_put_end(&h->out, h->streams[0], 1); /* it has two slots */
    start(h, 3);
    choose(p, t.ids[2], t.numbers[0]); /* no question is open */
    choose(p, 12345, t.numbers[0]);
    UNTIL(count(AS_POLICY_OUTCOME_UNKNOWN) == 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_RAISED), 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_NONE), 1);
    end();
}

static void a_late_answer_is_ignored(void **state AS_UNUSED)
{
    struct as_fleet_conf c = asking();
    struct told t = {0};
    struct hand *h, *p;

    c.deployment.router.ask_timeout = AS_MS;
    begin(c);
    as_fleet_add_process(w.fleet, AS_STR("p0"), AS_STR("default#app.policy-0"),
                         AS_STR("default#app.policy"));
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    submit();
    start(h, 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_LATE), 1);
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    choose(p, t.ids[0], t.numbers[0]);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 2);
    assert_int_equal(count(AS_POLICY_OUTCOME_CHOSEN), 0);
    end();
}

static void a_client_that_leaves_withdraws_its_question(void **state AS_UNUSED)
{
    struct told t = {0};
    struct request *q;
    struct hand *p;

    begin_with_policy();
    join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    q = submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    as_fleet_client_cancel(&w.client, &q->call);
    UNTIL_TOLD(p, &t, t.withdrawn == 1);
    assert_true(q->released);
    choose(p, t.ids[0], t.numbers[0]);
    UNTIL(count(AS_POLICY_OUTCOME_LEFT) == 1);
    end();
}

static void the_end_of_the_process_answers_its_questions(void **state AS_UNUSED)
{
    struct told t = {0}, second = {0};
    struct hand *h, *p;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    die(2, "p0");
    start(h, 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_LOST), 1);
    submit();
    start(h, 2);
    assert_int_equal(count(AS_POLICY_OUTCOME_ABSENT), 1);
    p = join_policy(2, "p1", 0); /* is told all that there is */
    UNTIL_TOLD(p, &second, second.n == 1);
    assert_true(second.numbers[0] > t.numbers[0]);
    end();
}

static void a_process_takes_over_from_another(void **state AS_UNUSED)
{
    struct told t = {0}, second = {0};
    struct hand *h, *p, *next;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(1, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    next = join_policy(2, "p1", 0);
    start(h, 1);
    choose(p, t.ids[0], t.numbers[0]); /* of the former one: ignored */
    UNTIL_TOLD(next, &second, second.n == 1);
    submit();
    UNTIL_TOLD(next, &second, second.n_ids == 1);
    assert_true(second.ids[0] > t.ids[0]); /* ids are not used again */
    choose(next, second.ids[0], second.numbers[0]);
    start(h, 2);
    assert_int_equal(count(AS_POLICY_OUTCOME_CHOSEN), 1);
    as_frame_put_end(&h->out, h->streams[0], 1); /* it has two slots */
    die(2, "p1");                                /* the former one is still there */
    submit();
    t = (struct told){0};
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    choose(p, t.ids[0], t.numbers[0]);
    start(h, 3);
    end();
}

/* READ counts from the beginning of a link, whoever was asked meanwhile. */
static void a_process_that_is_asked_again_goes_on_counting(void **state AS_UNUSED)
{
    struct told t = {0}, second = {0};
    struct hand *h, *p, *next;
    uint32_t first;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(1, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    first = t.numbers[0];
    next = join_policy(2, "p1", 0);
    UNTIL_TOLD(next, &second, second.n == 1);
    UNTIL_TOLD(p, &t, t.gone == 1); /* it need not keep what it knows */
    die(2, "p1");
    submit();
    UNTIL_TOLD(p, &t, t.n == 2 && t.n_ids == 1);
    assert_true(t.numbers[1] > first);
    send_event(p, AS_POLICY_READ, t.bytes);
    choose(p, t.ids[0], t.numbers[1]);
    start(h, 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_CHOSEN), 1);
    assert_int_equal(w.killed, 0);
    end();
}

static uint32_t reports(void)
{
    uint32_t n = 0;

    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &w.fleet->upstreams) {
        n += u->n_reports;
    }
    return n;
}

/* Models and statistics of h, as large as they may be. */
static void report_much(struct hand *h)
{
    static char text[AS_FRAME_REPORT_MAX];
    struct as_frame_report r = {AS_REPORT_MODEL_IDS, {text, sizeof(text)}};
    uint32_t had = reports();

    memset(text, 'x', sizeof(text));
    memcpy(text, "[\"", 2);
    memcpy(text + sizeof(text) - 2, "\"]", 2);
    as_frame_put_report(&h->out, &r);
    memcpy(text, "{\"a\":\"", 6);
    memcpy(text + sizeof(text) - 2, "\"}", 2);
    r.kind = AS_REPORT_ROUTING;
    as_frame_put_report(&h->out, &r);
    UNTIL(reports() == had + 2);
}

/* What replicas report is told when the process has read what it was sent before. */
static void news_of_replicas_wait_for_the_window(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h[2], *p;

    begin_with_policy();
    h[0] = join(0, "t0", true, &no_options);
    h[1] = join(1, "t1", true, &no_options);
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &w.fleet->upstreams) {
        AS_CONTAINER(u, struct as_link, up)->capabilities |= AS_CAP_CALLS; /* and so REPORT */
    }
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 2);
    report_much(h[0]);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    for (uint32_t i = 2; i <= 4; i++) {
        report_much(h[0]);
        report_much(h[1]);
        submit();
        UNTIL_TOLD(p, &t, t.n_ids == i);
    }
    assert_int_equal(t.n, 2 + 7);
    report_much(h[0]);
    report_much(h[1]);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 5);
    assert_int_equal(t.n, 2 + 8); /* 4 MiB are unread with that */
    send_event(p, AS_POLICY_READ, t.bytes);
    UNTIL(app()->policy->up->policy_read == t.bytes);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 6);
    assert_int_equal(t.n, 2 + 9);
    end();
}

/* A router sees the ids by which the built-in policies go. */
static void a_question_has_the_ids_of_the_request(void **state AS_UNUSED)
{
    const struct as_meta meta[] = {{.key = AS_STR("multiplexed-model-id"), .value = AS_STR("m1")},
                                   {.key = AS_STR("x-user"), .value = AS_STR("ann")}};
    struct as_frame_router r = {.session_header = "x-user"};
    struct told t = {0};
    struct hand *p;

    begin_with_policy();
    join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    as_fleet_set_router(app(), &r);
    w.meta = meta;
    w.n_meta = AS_COUNT(meta);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    assert_string_equal(t.model, "m1");
    assert_string_equal(t.session, "ann");
    end();
}

/* ROUTE had all of the body. */
static void more_of_a_body_that_is_whole_is_nothing(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    send_event(p, AS_POLICY_MORE, t.ids[0]);
    UNTIL_TOLD(p, &t, t.bodies == 1);
    assert_int_equal(t.body_bytes, 0);
    choose(p, t.ids[0], t.numbers[0]);
    start(h, 1);
    end();
}

static void replicas_that_end_are_gone(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *p;

    begin_with_policy();
    join(0, "t0", true, &no_options);
    join(1, "t1", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 2);
    die(1, "t1");
    UNTIL_TOLD(p, &t, t.gone == 1);
    assert_int_equal(t.died, 1);
    assert_int_equal(app()->policy != NULL, true);
    end();
}

/* A process that reads nothing is asked no more, and costs no memory. */
static void unread_bytes_are_bounded(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;
    struct as_buf b = {0};

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    /* the bytes are not sent here: the process says that it has read less than it was sent */
    as_policy_put_event(&b, AS_POLICY_READ, &(struct as_policy_event){1ull << 40, 0});
    as_frame_put_policy(&p->out, as_buf_slice(&b));
    UNTIL(w.killed == 1);
    assert_non_null(strstr(w.why, "READ of bytes that were not sent"));
    submit();
    start(h, 1);
    as_buf_fini(&b);
    end();
}

static void hostile_records_end_the_process(void **state AS_UNUSED)
{
    static const char *const wrong[] = {"malformed CHOICE", "second READY", "malformed POLICY",
                                        "malformed record"};

    for (size_t i = 0; i < AS_COUNT(wrong); i++) {
        struct told t = {0};
        struct as_buf b = {0};
        struct hand *p;

        begin_with_policy();
        join(0, "t0", true, &no_options);
        p = join_policy(2, "p0", 0);
        UNTIL_TOLD(p, &t, t.n == 1);
        if (i == 0) {
            as_policy_put_event(&b, AS_POLICY_CHOICE, &(struct as_policy_event){1, 77});
        } else if (i == 1) {
            as_policy_put_ready(&b, &(struct as_policy_ready){0});
        } else if (i == 2) {
            as_policy_put_ready(&b, &(struct as_policy_ready){0});
            b.n -= 8;
            b.p[0] = 99; /* a kind of a later version, cut */
        } else {
            as_policy_put_choice(&b, &(struct as_policy_choice){.reason = AS_POLICY_NONE});
            b.p[0] = AS_POLICY_MORE;
            b.p[4] = 8;
            b.n -= 8;
        }
        as_frame_put_policy(&p->out, as_buf_slice(&b));
        UNTIL(w.killed == 1);
        assert_non_null(strstr(w.why, wrong[i]));
        as_buf_fini(&b);
        end();
    }
}

static void only_a_policy_process_may(void **state AS_UNUSED)
{
    struct as_buf b = {0};
    struct hand *h;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    as_policy_put_ready(&b, &(struct as_policy_ready){0});
    as_frame_put_policy(&h->out, as_buf_slice(&b));
    UNTIL(w.killed == 1);
    assert_non_null(strstr(w.why, "no policy process"));
    as_buf_fini(&b);
    end();
}

/* The process is ready before a replica has come. */
static void the_process_is_first(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;

    begin_with_policy();
    p = join_policy(2, "p0", 0);
    h = join(0, "t0", true, &no_options);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    assert_int_equal(t.n, 1);
    choose(p, t.ids[0], t.numbers[0]);
    start(h, 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_CHOSEN), 1);
    end();
}

static void a_deployment_that_loses_its_router_asks_no_more(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    as_fleet_delete_deployment(w.fleet, AS_STR("default#app.policy"), false);
    start(h, 1);
    assert_null(app()->policy);
    submit();
    start(h, 2);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chosen_replica_gets_the_request),
        cmocka_unit_test(a_request_that_waits_is_asked_again),
        cmocka_unit_test(without_a_choice_the_server_decides),
        cmocka_unit_test(a_late_answer_is_ignored),
        cmocka_unit_test(a_client_that_leaves_withdraws_its_question),
        cmocka_unit_test(the_end_of_the_process_answers_its_questions),
        cmocka_unit_test(a_process_takes_over_from_another),
        cmocka_unit_test(a_process_that_is_asked_again_goes_on_counting),
        cmocka_unit_test(more_of_a_body_that_is_whole_is_nothing),
        cmocka_unit_test(news_of_replicas_wait_for_the_window),
        cmocka_unit_test(a_question_has_the_ids_of_the_request),
        cmocka_unit_test(replicas_that_end_are_gone),
        cmocka_unit_test(unread_bytes_are_bounded),
        cmocka_unit_test(hostile_records_end_the_process),
        cmocka_unit_test(only_a_policy_process_may),
        cmocka_unit_test(the_process_is_first),
        cmocka_unit_test(a_deployment_that_loses_its_router_asks_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
