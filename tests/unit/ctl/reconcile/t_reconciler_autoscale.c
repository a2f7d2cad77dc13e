/* Specification of ctl/reconcile/reconciler_autoscale: what the dispatcher is asked to count, and
 * what becomes of its counts. The decisions themselves: t_autoscaler.c. */
#include "reconciler_world.h"

#define ZERO_TO(max)                                                                               \
    "autoscaling_config: {min_replicas: 0, max_replicas: " #max                                    \
    ", target_ongoing_requests: 1, upscale_delay_s: 0, downscale_delay_s: 0}"

static struct as_spec *scaled(const char *keys)
{
    char text[600];

    snprintf(text, sizeof(text),
             "applications: [{import_path: app.py, deployments: [{name: echo, %s}]}]", keys);
    return spec_of(text);
}

static struct world *open_scaled(const char *keys)
{
    struct world *w = open_world(NULL, 0, 0);

    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler_of(w, scaled(keys), 8);
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

static uint32_t target(const struct world *w)
{
    return as_reconciler_replicas(w->reconciler, id_of("echo"));
}

static void the_dispatcher_is_asked_to_count(void **state AS_UNUSED)
{
    struct world *w = open_scaled(ZERO_TO(3));

    turn(w);
    assert_string_equal(messages(w), "");
    send_told(w, false);
    assert_non_null(strstr(messages(w), "COUNT ;"));
    clear_messages(w);
    send_dispatcher(w, AS_CTL_LOST_STATE);
    turn(w);
    assert_null(strstr(messages(w), "COUNT"));
    send_dispatcher(w, AS_CTL_READY_STATE); /* another one, which does not count yet */
    turn(w);
    assert_non_null(strstr(messages(w), "COUNT ;"));
    close_world(w);
}

static void a_deployment_that_is_not_scaled_is_not_counted(void **state AS_UNUSED)
{
    struct world *w = open_scaled("num_replicas: 1");

    send_told(w, false);
    assert_null(strstr(messages(w), "COUNT"));
    send_load(w, 100, 0, ""); /* from a dispatcher that does it all the same */
    assert_int_equal(target(w), 1);
    clear_messages(w);
    as_reconciler_set_target(w->reconciler, 2, scaled(ZERO_TO(3)));
    turn(w);
    assert_non_null(strstr(messages(w), "COUNT ;"));
    assert_int_equal(target(w), 1); /* the number that there was */
    clear_messages(w);
    as_reconciler_set_target(w->reconciler, 3, scaled("num_replicas: 2"));
    turn(w);
    assert_non_null(strstr(messages(w), "COUNT ;")); /* no more */
    assert_int_equal(target(w), 2);
    close_world(w);
}

static void requests_start_replicas_and_replicas_end(void **state AS_UNUSED)
{
    struct world *w = open_scaled(ZERO_TO(3));

    send_told(w, false);
    assert_int_equal(target(w), 0);
    assert_null(strstr(messages(w), "SPAWN"));
    send_load(w, 2, 0, "slots=0");
    assert_int_equal(target(w), 1); /* the first one, at once */
    assert_non_null(strstr(messages(w), "SPAWN echo-0;"));
    send_ready(w, 0);
    turn(w);
    assert_int_equal(target(w), 2);
    assert_non_null(strstr(w->status, "AUTOSCALING"));
    send_load(w, 0, 0, "slots=1 0:0");
    assert_int_equal(target(w), 0); /* by way of 1, for which there is no delay, either */
    assert_non_null(strstr(messages(w), "RETIRE echo-0;"));
    close_world(w);
}

static void the_number_of_the_controller_before_counts(void **state AS_UNUSED)
{
    struct world *w = open_scaled("autoscaling_config: {initial_replicas: 1, max_replicas: 3}");

    handle(w, (struct as_ctl_message){
                  .type = AS_CTL_TARGET, .deployment = id_of("echo"), .number = 3});
    send_told(w, false);
    assert_int_equal(target(w), 3);
    handle(w, (struct as_ctl_message){
                  .type = AS_CTL_TARGET, .deployment = id_of("echo"), .number = 2});
    assert_int_equal(target(w), 3); /* too late */
    handle(w, (struct as_ctl_message){
                  .type = AS_CTL_TARGET, .deployment = id_of("other"), .number = 2});
    close_world(w);
    w = open_scaled("autoscaling_config: {max_replicas: 3}");
    handle(w, (struct as_ctl_message){
                  .type = AS_CTL_TARGET, .deployment = id_of("echo"), .number = 900});
    send_told(w, false);
    assert_int_equal(target(w), 3);
    close_world(w);
}

/* A GPU each, of which the machine has four. */
static void what_the_machine_lacks_is_not_asked_for(void **state AS_UNUSED)
{
    struct world *w = open_scaled("num_gpus: 1, autoscaling_config: {initial_replicas: 1, "
                                  "max_replicas: 10, upscale_delay_s: 0}");

    send_told(w, false);
    send_ready(w, 0);
    send_load(w, 100, 0, "");
    assert_int_equal(target(w), 4);
    assert_non_null(
        strstr(w->status, "4 can start: it needs 1 GPUs for itself, but fewer of the 4 are free"));
    close_world(w);
}

/* Their limits must fit into a GiB. */
static void memory_that_is_taken_is_not_asked_for(void **state AS_UNUSED)
{
    struct world *w = open_scaled("memory: 300M, autoscaling_config: {initial_replicas: 1, "
                                  "max_replicas: 10, upscale_delay_s: 0}");

    send_told(w, false);
    send_ready(w, 0);
    send_load(w, 100, 0, "");
    assert_int_equal(target(w), 3);
    assert_non_null(strstr(w->status, "3 can start: it needs 300 MiB of memory, but 300 of 1024 "
                                      "MiB are taken by replicas"));
    close_world(w);
}

static void the_emptiest_replica_is_retired(void **state AS_UNUSED)
{
    struct world *w = open_scaled("autoscaling_config: {initial_replicas: 3, max_replicas: 3, "
                                  "target_ongoing_requests: 1, downscale_delay_s: 0}");

    send_told(w, false);
    for (uint32_t i = 0; i < 3; i++)
        send_ready(w, i);
    send_load(w, 0, 3, "slots=3 0:1 1:1 2:1");
    clear_messages(w);
    send_load(w, 0, 2, "slots=3 0:1 1:0 2:1 7:5");
    assert_int_equal(target(w), 2);
    assert_non_null(strstr(messages(w), "RETIRE echo-1;"));
    close_world(w);
}

static void the_detail_has_the_numbers_and_the_decisions(void **state AS_UNUSED)
{
    struct world *w = open_scaled(ZERO_TO(3));
    struct as_buf json = {0};

    send_told(w, false);
    send_load(w, 2, 0, "");
    as_reconciler_put_json(w->reconciler, NULL, NULL, &json);
    as_buf_cstr(&json);
    assert_non_null(
        strstr((char *)json.p, "\"autoscaling_detail\":{\"scaling_status\":\"STABLE\""));
    assert_non_null(strstr((char *)json.p, "\"metrics_health\":\"healthy\""));
    assert_non_null(strstr((char *)json.p, "\"queued_requests\":2,\"ongoing_requests\":0"));
    assert_non_null(strstr((char *)json.p, "\"prev_num_replicas\":0,\"current_num_replicas\":1,"));
    assert_non_null(strstr((char *)json.p, "no replica runs: 1 wanted at once; from 0 to 1"));
    as_buf_fini(&json);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dispatcher_is_asked_to_count),
        cmocka_unit_test(a_deployment_that_is_not_scaled_is_not_counted),
        cmocka_unit_test(requests_start_replicas_and_replicas_end),
        cmocka_unit_test(the_number_of_the_controller_before_counts),
        cmocka_unit_test(what_the_machine_lacks_is_not_asked_for),
        cmocka_unit_test(memory_that_is_taken_is_not_asked_for),
        cmocka_unit_test(the_emptiest_replica_is_retired),
        cmocka_unit_test(the_detail_has_the_numbers_and_the_decisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
