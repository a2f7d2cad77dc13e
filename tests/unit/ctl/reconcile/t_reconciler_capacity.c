/* Specification of target_capacity in ctl/reconcile: how many replicas deployments have of those
 * that are asked for, and how a change of it becomes theirs. */
#include "reconciler_world.h"

static struct as_spec *part(const char *keys, const char *capacity)
{
    char text[600];

    snprintf(text, sizeof(text),
             "%s\napplications: [{import_path: app.py, deployments: [{name: echo, %s}]}]", capacity,
             keys);
    return spec_of(text);
}

static struct world *open_part(const char *keys, const char *capacity)
{
    struct world *w = open_world(NULL, 0, 0);

    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler_of(w, part(keys, capacity), 8);
    return w;
}

static void set(struct world *w, uint64_t generation, const char *keys, const char *capacity)
{
    as_reconciler_set_target(w->reconciler, generation, part(keys, capacity));
    turn(w);
}

/* Its target and what the file says, in that order, then its generation. */
static void is_shown(struct world *w, const char *want)
{
    struct as_buf json = {0};

    as_reconciler_put_json(w->reconciler, NULL, NULL, &json);
    if (!strstr(as_buf_cstr(&json), want))
        fail_msg("%s is not in %s", want, as_buf_cstr(&json));
    as_buf_fini(&json);
}

static void a_part_of_the_replicas_is_started(void **state AS_UNUSED)
{
    struct world *w = open_part("num_replicas: 3", "target_capacity: 50");

    send_told(w, false);
    assert_non_null(strstr(messages(w), "SPAWN echo-1;"));
    assert_null(strstr(messages(w), "SPAWN echo-2;"));
    is_shown(w, "\"target_num_replicas\":2,\"num_replicas\":3");
    assert_non_null(strstr(w->status, "target_capacity: 50% of 3 replicas"));
    close_world(w);
}

static void a_change_starts_and_ends_only_the_difference(void **state AS_UNUSED)
{
    struct world *w = open_part("num_replicas: 4", "target_capacity: 50");

    send_told(w, false);
    send_ready(w, 0);
    send_ready(w, 1);
    clear_messages(w);
    set(w, 2, "num_replicas: 4", "target_capacity: 75");
    assert_non_null(strstr(messages(w), "SPAWN echo-2;"));
    assert_null(strstr(messages(w), "RETIRE"));
    is_shown(w, "\"target_num_replicas\":3,\"num_replicas\":4");
    is_shown(w, "\"generation\":2");
    send_ready(w, 2);
    clear_messages(w);
    set(w, 3, "num_replicas: 4", "target_capacity: 25");
    assert_non_null(strstr(messages(w), "RETIRE echo-1;"));
    assert_non_null(strstr(messages(w), "RETIRE echo-2;"));
    assert_null(strstr(messages(w), "echo-0;"));
    set(w, 4, "num_replicas: 4", "target_capacity: 0");
    is_shown(w, "\"target_num_replicas\":0,\"num_replicas\":4");
    assert_non_null(strstr(w->status, "target_capacity: 0% of 4 replicas"));
    set(w, 5, "num_replicas: 4", "target_capacity: null");
    is_shown(w, "\"target_num_replicas\":4,\"num_replicas\":4");
    assert_null(strstr(w->status, "target_capacity"));
    close_world(w);
}

/* A client that waits for its change waits for its generation. */
static void a_change_that_changes_no_number_is_one_too(void **state AS_UNUSED)
{
    struct world *w = open_part("num_replicas: 1", "target_capacity: 50");

    send_told(w, false);
    send_ready(w, 0);
    clear_messages(w);
    set(w, 2, "num_replicas: 1", "target_capacity: 60");
    assert_string_equal(messages(w), "");
    is_shown(w, "\"generation\":2");
    assert_non_null(strstr(w->status, "target_capacity: 60% of 1 replicas"));
    close_world(w);
}

static void it_is_a_part_of_a_scaled_number_too(void **state AS_UNUSED)
{
    struct world *w = open_part("num_replicas: 1", "target_capacity: 50");

    w->scaled_since = 2;
    w->scaled = 4;
    send_told(w, false);
    set(w, 2, "num_replicas: 1", "target_capacity: 50");
    is_shown(w, "\"target_num_replicas\":2,\"num_replicas\":1");
    assert_non_null(strstr(w->status, "scaled to 4; num_replicas is 1\n"
                                      "target_capacity: 50% of 4 replicas"));
    /* what a failed update keeps */
    assert_int_equal(as_reconciler_replicas(w->reconciler, id_of("echo")), 4);
    close_world(w);
}

#define FOLLOWS                                                                                    \
    "autoscaling_config: {min_replicas: 1, initial_replicas: 4, max_replicas: 8, "                 \
    "upscale_delay_s: 0, downscale_delay_s: 0, target_ongoing_requests: 1}"

static void send_load(struct world *w, uint32_t queued)
{
    handle(w, (struct as_ctl_message){
                  .type = AS_CTL_LOAD, .deployment = id_of("echo"), .number = queued});
    turn(w);
}

static void the_bounds_of_one_that_follows_its_load(void **state AS_UNUSED)
{
    struct world *w = open_part(FOLLOWS, "target_capacity: 50\ntarget_capacity_direction: down");

    send_told(w, false);
    is_shown(w, "\"target_num_replicas\":2,"); /* initial_replicas */
    send_ready(w, 0);
    send_ready(w, 1);
    send_load(w, 100);
    is_shown(w, "\"target_num_replicas\":4,");
    assert_non_null(strstr(w->status, "target_capacity: 50% of its minimum and maximum"));
    set(w, 2, FOLLOWS, "target_capacity: 0\ntarget_capacity_direction: down");
    is_shown(w, "\"target_num_replicas\":0,"); /* whatever waits */
    set(w, 3, FOLLOWS, "");
    send_load(w, 0);
    is_shown(w, "\"target_num_replicas\":1,");
    close_world(w);
}

static void on_the_way_up_it_does_not_go_below_initial_replicas(void **state AS_UNUSED)
{
    struct world *w = open_part(FOLLOWS, "target_capacity: 50\ntarget_capacity_direction: up");

    send_told(w, false);
    send_ready(w, 0);
    send_ready(w, 1);
    send_load(w, 0);
    is_shown(w, "\"target_num_replicas\":2,");
    set(w, 2, FOLLOWS, "target_capacity: 100\ntarget_capacity_direction: up");
    is_shown(w, "\"target_num_replicas\":4,");
    set(w, 3, FOLLOWS, "");
    for (uint32_t i = 2; i < 4; i++)
        send_ready(w, i);
    send_load(w, 0);
    is_shown(w, "\"target_num_replicas\":1,");
    close_world(w);
}

static void the_controller_before_has_decided_between_its_bounds(void **state AS_UNUSED)
{
    struct world *w = open_part(FOLLOWS, "target_capacity: 50\ntarget_capacity_direction: down");

    handle(w, (struct as_ctl_message){
                  .type = AS_CTL_TARGET, .deployment = id_of("echo"), .number = 3});
    send_told(w, true);
    is_shown(w, "\"target_num_replicas\":3,");
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_the_replicas_is_started),
        cmocka_unit_test(a_change_starts_and_ends_only_the_difference),
        cmocka_unit_test(a_change_that_changes_no_number_is_one_too),
        cmocka_unit_test(it_is_a_part_of_a_scaled_number_too),
        cmocka_unit_test(the_bounds_of_one_that_follows_its_load),
        cmocka_unit_test(on_the_way_up_it_does_not_go_below_initial_replicas),
        cmocka_unit_test(the_controller_before_has_decided_between_its_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
