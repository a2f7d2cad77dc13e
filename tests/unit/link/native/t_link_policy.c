/* link/fleet/policy/policy: questions to a policy process, and what it may answer. */
#include "policy_world.h"

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

/* Opens so many questions more, of requests that there are not. */
static void fill_open(uint32_t n)
{
    static struct as_call other;

    for (uint32_t i = 0; i < AS_POLICY_OPEN && n; i++) {
        if (!app()->policy->open[i]) {
            app()->policy->open[i] = &other;
            app()->policy->n_open++;
            n--;
        }
    }
    assert_int_equal(n, 0);
}

static void empty_open(const struct as_call *keep)
{
    for (uint32_t i = 0; i < AS_POLICY_OPEN; i++) {
        struct as_call **c = &app()->policy->open[i];

        if (*c && *c != keep) {
            *c = NULL;
            app()->policy->n_open--;
        }
    }
}

/* The last question that fits takes whatever place is free; beyond it the server decides at once.
 */
static void open_questions_are_bounded(void **state AS_UNUSED)
{
    struct told t = {0};
    struct request *q;
    struct hand *h, *p;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    fill_open(AS_POLICY_OPEN - 1);
    q = submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_BUSY), 0);
    assert_int_equal(app()->policy->n_open, AS_POLICY_OPEN);
    submit();
    start(h, 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_BUSY), 1);
    empty_open(&q->call);
    choose(p, t.ids[0], t.numbers[0]);
    start(h, 2);
    assert_int_equal(count(AS_POLICY_OUTCOME_CHOSEN), 1);
    end();
}

/* A question that is open for long keeps no other one from being put, however many there were
 * since.
 */
static void an_old_question_is_in_nobodys_way(void **state AS_UNUSED)
{
    struct told t = {0};
    struct hand *h, *p;

    begin_with_question(&h, &p, &t);
    app()->policy->next_id =
        t.ids[0] + AS_POLICY_OPEN; /* so many questions were put and answered */
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 2);
    assert_int_equal(t.ids[1], t.ids[0] + AS_POLICY_OPEN + 1);
    choose(p, t.ids[1], t.numbers[0]);
    start(h, 1);
    choose(p, t.ids[0], t.numbers[0]);
    start(h, 2);
    assert_int_equal(count(AS_POLICY_OUTCOME_CHOSEN), 2);
    assert_int_equal(count(AS_POLICY_OUTCOME_BUSY), 0);
    end();
}

/* At the bound there is a question more; above it there is none until the process has read. */
static void unread_bytes_are_bounded(void **state AS_UNUSED)
{
    struct told t = {0};
    struct as_upstream *up;
    struct hand *h, *p;

    begin_with_policy();
    h = join(0, "t0", true, &no_options);
    p = join_policy(2, "p0", 0);
    UNTIL_TOLD(p, &t, t.n == 1);
    up = app()->policy->up;
    up->policy_sent = up->policy_read + AS_POLICY_WINDOW;
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 1);
    up->policy_sent = up->policy_read + AS_POLICY_WINDOW + 1;
    submit();
    start(h, 1);
    assert_int_equal(count(AS_POLICY_OUTCOME_BUSY), 1);
    send_event(p, AS_POLICY_READ, up->policy_read + 1);
    choose(p, t.ids[0], t.numbers[0]); /* it comes after the READ */
    start(h, 2);
    assert_int_equal(count(AS_POLICY_OUTCOME_CHOSEN), 1);
    submit();
    UNTIL_TOLD(p, &t, t.n_ids == 2);
    assert_int_equal(count(AS_POLICY_OUTCOME_BUSY), 1);
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

    begin_with_question(&h, &p, &t);
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

    begin_with_question(&h, &p, &t);
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
        cmocka_unit_test(open_questions_are_bounded),
        cmocka_unit_test(an_old_question_is_in_nobodys_way),
        cmocka_unit_test(unread_bytes_are_bounded),
        cmocka_unit_test(a_client_that_leaves_withdraws_its_question),
        cmocka_unit_test(the_end_of_the_process_answers_its_questions),
        cmocka_unit_test(a_process_takes_over_from_another),
        cmocka_unit_test(a_process_that_is_asked_again_goes_on_counting),
        cmocka_unit_test(a_question_has_the_ids_of_the_request),
        cmocka_unit_test(replicas_that_end_are_gone),
        cmocka_unit_test(the_process_is_first),
        cmocka_unit_test(a_deployment_that_loses_its_router_asks_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
