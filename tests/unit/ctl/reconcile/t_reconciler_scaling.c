/* Specification of ctl/reconcile/reconciler_scaling: when the policy process is asked, with what,
 * and what becomes of its answers. Whether a delay has passed, and the bounds: t_autoscaler.c. */
#include "conf/spec/keys/spec_policy.h"
#include "reconciler_world.h"

static struct as_spec *with_policy(const char *scaling)
{
    char text[800];

    snprintf(text, sizeof(text),
             "applications: [{import_path: app.py, deployments: [{name: echo, autoscaling_config: "
             "{min_replicas: 0, max_replicas: 4, upscale_delay_s: 0, downscale_delay_s: 0%s}}, "
             "{name: echo.policy}]}]",
             scaling);
    return spec_of(text);
}

#define OWN ", policy: {policy_function: \"m:f\"}"

static struct as_ctl_message from_process(const struct world *w, enum as_ctl_type type)
{
    return (struct as_ctl_message){.type = type,
                                   .replica = AS_STR("default#echo.policy-0"),
                                   .deployment = AS_STR("default#echo.policy"),
                                   .token = as_str_of(w->token[POLICY])};
}

static void send_process_ready(struct world *w)
{
    handle(w, from_process(w, AS_CTL_READY));
    turn(w);
}

/* A server whose process was started, and echo has no replica. */
static struct world *open_asked(const char *scaling)
{
    struct world *w = open_world(NULL, 0, 0);

    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler_of(w, with_policy(scaling), 8);
    send_told(w, false);
    return w;
}

static void send_load(struct world *w, uint32_t queued, uint32_t ongoing, const char *text)
{
    handle(w, (struct as_ctl_message){.type = AS_CTL_LOAD,
                                      .deployment = id_of("echo"),
                                      .number = queued,
                                      .id = ongoing,
                                      .text = as_str_of(text)});
    turn(w);
}

static void answer_with(struct world *w, uint32_t err, const char *text)
{
    struct as_ctl_message m = from_process(w, AS_CTL_ANSWER);

    m.id = w->ask_id;
    m.number = err;
    m.text = as_str_of(text);
    handle(w, m);
    turn(w);
}

static void next_question(struct world *w)
{
    clear_messages(w);
    run_until(w, "ASK echo.policy-0;");
}

static uint32_t target(const struct world *w)
{
    return as_reconciler_replicas(w->reconciler, id_of("echo"));
}

static void assert_detail(struct world *w, const char *text)
{
    struct as_buf json = {0};

    as_reconciler_put_json(w->reconciler, NULL, NULL, &json);
    if (!strstr(as_buf_cstr(&json), text))
        fail_msg("%s is not in %s", text, as_buf_cstr(&json));
    as_buf_fini(&json);
}

static void an_answer_is_the_number(void **state AS_UNUSED)
{
    struct world *w = open_asked(OWN);

    assert_null(strstr(messages(w), "ASK"));
    assert_detail(w, "no answer of the policy: the process echo.policy does not run");
    send_process_ready(w);
    assert_non_null(strstr(messages(w), "ASK echo.policy-0;"));
    answer_with(w, 0, "{\"replicas\": 3}");
    assert_int_equal(target(w), 3);
    assert_detail(w, "\"errors\":[]");
    next_question(w); /* although nothing has changed */
    answer_with(w, 0, "{\"replicas\": 900}");
    assert_int_equal(target(w), 4); /* the bounds hold */
    next_question(w);
    answer_with(w, 0, "{\"replicas\": 0}");
    next_question(w);
    answer_with(w, 0, "{\"replicas\": 0}");
    assert_int_equal(target(w), 0);
    close_world(w);
}

static void what_the_question_says(void **state AS_UNUSED)
{
    struct world *w = open_asked(OWN ", initial_replicas: 1, downscaling_factor: 0.5");
    const char *text;

    send_ready(w, 0);
    send_load(w, 3, 2, "slots=2 0:2");
    send_process_ready(w);
    text = as_buf_cstr(&w->ask);
    assert_ptr_equal(strstr(text, "scaling {\"limit_s\":1.0,\"context\":{\"deployment\":\"echo\","),
                     text);
    assert_non_null(strstr(text, "\"application\":\"default\",\"current_num_replicas\":1,"
                                 "\"target_num_replicas\":1,\"total_num_requests\":5.0,"
                                 "\"total_queued_requests\":3,"
                                 "\"capacity_adjusted_min_replicas\":0,"
                                 "\"capacity_adjusted_max_replicas\":4,\"current_time\":"));
    assert_non_null(strstr(text, "\"config\":{\"min_replicas\":0,\"initial_replicas\":1,"));
    assert_non_null(strstr(text, "\"downscaling_factor\":0.5"));
    assert_non_null(strstr(text, "\"aggregation_function\":\"mean\"},\"running_replicas\":["
                                 "\"echo-0\"],\"aggregated_metrics\":{\"running_requests\":{"
                                 "\"echo-0\":2}},\"stats\":{}}}"));
    assert_null(strstr(text, "last_scale_up_time"));
    answer_with(w, 0, "{\"replicas\": 2}");
    next_question(w);
    assert_non_null(strstr(as_buf_cstr(&w->ask), "\"last_scale_up_time\":"));
    assert_null(strstr(as_buf_cstr(&w->ask), "last_scale_down_time"));
    close_world(w);
}

/* In any order; numbers without a replica are skipped, and of two about one the last counts. */
static void the_requests_of_each_replica(void **state AS_UNUSED)
{
    struct world *w = open_asked(OWN ", initial_replicas: 3");

    for (uint32_t i = 0; i < 3; i++)
        send_ready(w, i);
    send_load(w, 0, 5, "slots=6 2:5 99:7 0:1 3:8 1:0 4294967295:1 2:4");
    send_process_ready(w);
    assert_non_null(strstr(as_buf_cstr(&w->ask),
                           "\"running_requests\":{\"echo-0\":1,\"echo-1\":0,\"echo-2\":4}"));
    send_load(w, 0, 2, "slots=6 1:2"); /* what is not said stays */
    answer_with(w, 0, "{\"replicas\": 3}");
    next_question(w);
    assert_non_null(strstr(as_buf_cstr(&w->ask),
                           "\"running_requests\":{\"echo-0\":1,\"echo-1\":2,\"echo-2\":4}"));
    close_world(w);
}

static void send_stats(struct world *w, const char *text, as_ns at)
{
    handle(w, (struct as_ctl_message){.type = AS_CTL_STATS,
                                      .replica = AS_STR("default#echo-0"),
                                      .token = as_str_of(w->token[0]),
                                      .ns = at,
                                      .text = as_str_of(text)});
    turn(w);
}

static void assert_asked_stats(struct world *w, const char *text)
{
    const char *found = strstr(as_buf_cstr(&w->ask), "\"stats\":");

    assert_non_null(found);
    if (strncmp(found + 8, text, strlen(text)) != 0)
        fail_msg("not %s but %s", text, found);
}

/* What replicas have recorded is in the next question, and only there; after a failed one again. */
static void statistics_are_told_once(void **state AS_UNUSED)
{
    struct world *w = open_asked(OWN ", initial_replicas: 1");

    send_ready(w, 0);
    send_stats(w, "{\"depth\": 3}", 5 * AS_SEC);
    send_process_ready(w);
    assert_asked_stats(w, "{\"echo-0\":[5.0,{\"depth\": 3}]}");
    answer_with(w, 0, "{\"replicas\": 1}");
    next_question(w);
    assert_asked_stats(w, "{}");
    answer_with(w, 1, "the policy has raised");
    next_question(w);
    assert_asked_stats(w, "{\"echo-0\":[5.0,{\"depth\": 3}]}");
    answer_with(w, 0, "{\"replicas\": 1}");
    send_stats(w, "{\"depth\": NaN}", 6 * AS_SEC); /* the one before stays */
    send_stats(w, "[3]", 6 * AS_SEC);
    next_question(w);
    assert_asked_stats(w, "{}");
    answer_with(w, 0, "{\"replicas\": 1}");
    send_stats(w, "{\"depth\": 4}", 7 * AS_SEC);
    next_question(w);
    assert_asked_stats(w, "{\"echo-0\":[7.0,{\"depth\": 4}]}");
    close_world(w);
}

static void without_an_answer_the_number_stays(void **state AS_UNUSED)
{
    static const struct {
        uint32_t err;
        const char *text, *why;
    } cases[] = {
        {1, "the policy has raised ValueError: no\nand more",
         "the policy has raised ValueError: no"},
        {1, "", "the process has given no reason"},
        {0, "{\"replicas\": -1}", "what it has answered is no number of replicas"},
        {0, "{\"replicas\": 1e9}", "what it has answered is no number of replicas"},
        {0, "{\"replicas\": NaN}", "what it has answered is no number of replicas"},
        {0, "{\"replicas\": \"2\"}", "what it has answered is no number of replicas"},
        {0, "[2]", "what it has answered is no number of replicas"},
        {0, "", "what it has answered is no number of replicas"},
    };
    struct world *w = open_asked(OWN);

    send_process_ready(w);
    answer_with(w, 0, "{\"replicas\": 2}");
    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        char text[300];

        next_question(w);
        answer_with(w, cases[i].err, cases[i].text);
        assert_int_equal(target(w), 2);
        snprintf(text, sizeof(text), "\"errors\":[\"%s\"]", cases[i].why);
        assert_detail(w, text);
    }
    next_question(w);
    answer_with(w, 0, "{\"replicas\": 3}");
    assert_int_equal(target(w), 3);
    assert_detail(w, "\"errors\":[]");
    close_world(w);
}

static void an_answer_that_is_late_does_not_count(void **state AS_UNUSED)
{
    struct world *w;
    uint64_t late;

    scaling_timeout = AS_MS;
    w = open_asked(OWN);
    scaling_timeout = AS_SEC;
    send_process_ready(w);
    late = w->ask_id;
    next_question(w);
    assert_true(w->ask_id != late);
    assert_detail(w, "no answer of the policy: it has not answered within 0.001 s");
    w->ask_id = late;
    answer_with(w, 0, "{\"replicas\": 3}");
    assert_int_equal(target(w), 0);
    close_world(w);
}

static void a_process_that_ends_is_asked_no_more(void **state AS_UNUSED)
{
    struct world *w = open_asked(OWN);
    struct as_ctl_message exited = from_process(w, AS_CTL_EXITED);

    send_process_ready(w);
    answer_with(w, 0, "{\"replicas\": 2}");
    exited.number = 1 << 8;
    exited.kind = AS_EXIT_CODE;
    exited.text = AS_STR("it died");
    handle(w, exited);
    turn(w);
    assert_detail(w, "the process echo.policy does not run");
    assert_int_equal(target(w), 2);
    send_load(w, 9, 0, "");
    assert_int_equal(target(w), 2);
    close_world(w);
}

static void the_built_in_policy_is_not_asked_for(void **state AS_UNUSED)
{
    struct world *w = open_asked("");

    send_process_ready(w);
    send_load(w, 3, 0, "");
    assert_null(strstr(messages(w), "ASK"));
    assert_int_equal(target(w), 1);
    assert_detail(w, "no replica runs: 1 wanted at once");
    as_reconciler_set_target(w->reconciler, 2, with_policy(OWN));
    turn(w);
    assert_non_null(strstr(messages(w), "ASK echo.policy-0;"));
    clear_messages(w);
    as_reconciler_set_target(w->reconciler, 3, with_policy(""));
    turn(w);
    answer_with(w, 0, "{\"replicas\": 4}");
    assert_int_equal(target(w), 1);
    close_world(w);
}

/* --- the policy of an application --- */

/* `echo` is the first by name, whose process runs it; `fixed` has nothing to decide. */
static struct as_spec *together(void)
{
    return spec_of("applications: [{import_path: app.py, autoscaling_policy: {policy_function: "
                   "'m:f'}, deployments: [{name: zeta, autoscaling_config: {min_replicas: 0, "
                   "max_replicas: 3, upscale_delay_s: 0, downscale_delay_s: 0}}, {name: echo, "
                   "autoscaling_config: {min_replicas: 0, max_replicas: 4, upscale_delay_s: 0, "
                   "downscale_delay_s: 0, policy: {policy_function: 'm:g'}}}, {name: fixed, "
                   "num_replicas: 0}, {name: echo.policy}]}]");
}

static struct world *open_together(void)
{
    struct world *w = open_world(NULL, 0, 0);

    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler_of(w, together(), 8);
    send_told(w, false);
    return w;
}

static uint32_t target_of(const struct world *w, const char *name)
{
    return as_reconciler_replicas(w->reconciler, id_of(name));
}

static uint32_t count(const char *text, const char *what)
{
    uint32_t n = 0;

    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        n++;
    }
    return n;
}

static void one_question_for_all_deployments(void **state AS_UNUSED)
{
    struct world *w = open_together();
    const char *text;

    assert_detail(w, "no answer of the policy: the process echo.policy does not run");
    send_process_ready(w);
    assert_int_equal(count(messages(w), "ASK"), 1);
    text = as_buf_cstr(&w->ask);
    assert_ptr_equal(strstr(text, "scaling {\"limit_s\":1.0,\"contexts\":[{\"deployment\":"), text);
    assert_int_equal(count(text, "\"deployment\":"), 2);
    assert_non_null(strstr(text, "{\"deployment\":\"zeta\",\"application\":\"default\","));
    assert_non_null(strstr(text, "{\"deployment\":\"echo\",\"application\":\"default\","));
    answer_with(w, 0, "{\"replicas\": {\"echo\": 2, \"zeta\": 9}}");
    assert_int_equal(target_of(w, "echo"), 2);
    assert_int_equal(target_of(w, "zeta"), 3); /* the bounds hold */
    next_question(w);
    answer_with(w, 0, "{\"replicas\": {\"zeta\": 1}}"); /* echo keeps its number */
    assert_int_equal(target_of(w, "echo"), 2);
    assert_int_equal(target_of(w, "zeta"), 1);
    assert_int_equal(target_of(w, "fixed"), 0);
    close_world(w);
}

static void without_an_answer_all_numbers_stay(void **state AS_UNUSED)
{
    static const struct {
        uint32_t err;
        const char *text;
    } cases[] = {
        {1, "what it has answered is no number of replicas"}, /* the process gives this reason */
        {0, "{\"replicas\": {\"zeta\": 2, \"echo\": -1}}"},
        {0, "{\"replicas\": {\"zeta\": 2, \"echo\": 1e9}}"},
        {0, "{\"replicas\": {\"zeta\": 2, \"echo\": NaN}}"},
        {0, "{\"replicas\": {\"zeta\": 2, \"echo\": null}}"},
        {0, "{\"replicas\": 2}"},
        {0, "{}"},
    };
    struct world *w = open_together();

    send_process_ready(w);
    answer_with(w, 0, "{\"replicas\": {\"echo\": 3, \"zeta\": 1}}");
    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        struct as_buf json = {0};

        next_question(w);
        answer_with(w, cases[i].err, cases[i].text);
        assert_int_equal(target_of(w, "echo"), 3);
        assert_int_equal(target_of(w, "zeta"), 1);
        as_reconciler_put_json(w->reconciler, NULL, NULL, &json);
        assert_int_equal(count(as_buf_cstr(&json), "\"errors\":[\"what it has answered is no "
                                                   "number of replicas\"]"),
                         2);
        as_buf_fini(&json);
    }
    next_question(w);
    answer_with(w, 0, "{\"replicas\": {\"echo\": 4, \"zeta\": 2, \"unknown\": 7}}");
    assert_int_equal(target_of(w, "echo"), 4);
    assert_int_equal(target_of(w, "zeta"), 2);
    close_world(w);
}

static void its_late_answer_does_not_count(void **state AS_UNUSED)
{
    struct world *w;
    uint64_t late;

    scaling_timeout = AS_MS;
    w = open_together();
    scaling_timeout = AS_SEC;
    send_process_ready(w);
    late = w->ask_id;
    next_question(w);
    assert_true(w->ask_id != late);
    w->ask_id = late;
    answer_with(w, 0, "{\"replicas\": {\"echo\": 4, \"zeta\": 2}}");
    assert_int_equal(target_of(w, "echo") + target_of(w, "zeta"), 0);
    assert_detail(w, "no answer of the policy: it has not answered within 0.001 s");
    close_world(w);
}

/* Each deployment decides again as its own keys say when the application has no policy any more. */
static void a_policy_that_is_taken_away(void **state AS_UNUSED)
{
    struct world *w = open_together();

    send_process_ready(w);
    as_reconciler_set_target(w->reconciler, 2, with_policy(OWN));
    turn(w);
    next_question(w);
    assert_non_null(strstr(as_buf_cstr(&w->ask), "\"context\":{\"deployment\":\"echo\""));
    answer_with(w, 0, "{\"replicas\": 2}");
    assert_int_equal(target_of(w, "echo"), 2);
    as_reconciler_set_target(w->reconciler, 3, together());
    turn(w);
    next_question(w);
    assert_non_null(strstr(as_buf_cstr(&w->ask), "\"contexts\":["));
    close_world(w);
}

/* The most deployments, with the longest names, fit into a question. */
static void the_largest_question(void **state AS_UNUSED)
{
    struct world *w = open_world(NULL, 0, 0);
    struct as_spec_limits many = limits;
    struct as_buf text = {0}, err = {0};
    struct as_spec *s;

    many.deployments = AS_SPEC_SCALED_TOGETHER_MAX + 1;
    as_buf_str(&text,
               "applications: [{import_path: app.py, autoscaling_policy: {policy_function: "
               "'m:f'}, deployments: [{name: echo.policy}, {name: echo, num_replicas: auto}");
    for (uint32_t i = 1; i < AS_SPEC_SCALED_TOGETHER_MAX; i++) {
        as_buf_printf(&text, ", {name: f%02u", i);
        for (uint32_t k = 3; k < AS_SPEC_NAME_MAX; k++)
            as_buf_str(&text, "x");
        as_buf_str(&text, ", autoscaling_config: {target_ongoing_requests: 1.2345678901234567, "
                          "upscaling_factor: 1.2345678901234567}}");
    }
    as_buf_str(&text, "]}]");
    assert_int_equal(as_spec_parse(&s, &many, "test", as_buf_slice(&text), &err), 0);
    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler_of(w, s, 8);
    send_told(w, false);
    run_until(w, "SPAWN echo.policy-0;");
    send_process_ready(w);
    run_until(w, "ASK echo.policy-0;");
    assert_int_equal(count(as_buf_cstr(&w->ask), "\"deployment\":"), AS_SPEC_SCALED_TOGETHER_MAX);
    as_buf_fini(&text);
    as_buf_fini(&err);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_the_number),
        cmocka_unit_test(what_the_question_says),
        cmocka_unit_test(the_requests_of_each_replica),
        cmocka_unit_test(statistics_are_told_once),
        cmocka_unit_test(without_an_answer_the_number_stays),
        cmocka_unit_test(an_answer_that_is_late_does_not_count),
        cmocka_unit_test(a_process_that_ends_is_asked_no_more),
        cmocka_unit_test(the_built_in_policy_is_not_asked_for),
        cmocka_unit_test(one_question_for_all_deployments),
        cmocka_unit_test(without_an_answer_all_numbers_stay),
        cmocka_unit_test(its_late_answer_does_not_count),
        cmocka_unit_test(a_policy_that_is_taken_away),
        cmocka_unit_test(the_largest_question),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
