/* Specification of ctl/reconcile/reconciler: deployments that change while they are served. */
#include "ctl/message/spawn.h"
#include "reconciler_world.h"

#include <signal.h>

#define SHOP(more)                                                                                 \
    "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"          \
    " env: {A: '1'}, deployments: [{name: echo, num_replicas: 2, " more "}]}]"

static struct world *open_spec(const char *text)
{
    struct world *w = as_xalloc(sizeof(*w));

    owner = "shop";
    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    as_task_init(&w->turn, on_turn);
    new_reconciler_of(w, spec_of(text), 4);
    send_told(w, false);
    send_ready(w, 0);
    send_ready(w, 1);
    assert_string_equal(w->status, "HEALTHY CONFIG_UPDATE_COMPLETED ");
    clear_messages(w);
    return w;
}

static void set_target(struct world *w, uint64_t generation, const char *text)
{
    as_reconciler_set_target(w->reconciler, generation, spec_of(text));
    turn(w);
}

static bool list_has(const char **list, const char *text)
{
    for (; *list; list++) {
        if (strcmp(*list, text) == 0)
            return true;
    }
    return false;
}

static void a_process_starts_as_its_generation_says(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one, memory: 64M"));
    struct as_spawn s;

    assert_int_equal(w->stable, 1);
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&w->spawn)), 0);
    assert_string_equal(s.argv[0], "/bin/echo-worker");
    assert_string_equal(s.argv[1], "--fast");
    assert_null(s.argv[2]);
    assert_string_equal(s.dir, "/srv");
    assert_int_equal(s.memory, 64 << 20);
    assert_true(list_has(s.env, "A=1"));
    as_spawn_fini(&s);
    set_target(w, 2, SHOP("version: two, env: {B: '2'}, num_gpus: 2"));
    assert_string_equal(messages(w), "SPAWN echo-2;");
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&w->spawn)), 0);
    assert_true(list_has(s.env, "B=2"));
    assert_true(list_has(s.env, "CUDA_VISIBLE_DEVICES=0,1"));
    assert_int_equal(s.memory, 0);
    as_spawn_fini(&s);
    /* a replica of the old generation dies: it is started again in that generation */
    clear_messages(w);
    send_exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&w->spawn)), 0);
    assert_false(list_has(s.env, "B=2"));
    assert_int_equal(s.memory, 64 << 20);
    as_spawn_fini(&s);
    close_world(w);
}

static void an_unchanged_deployment_goes_on(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    set_target(w, 2, SHOP("version: one"));
    set_target(w, 3,
               "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"
               " env: {A: '1'}, deployments: [{name: echo, num_replicas: 2, version: one}]},"
               " {name: other, command: [x], deployments: [{name: b, num_replicas: 0}]}]");
    assert_string_equal(messages(w), "");
    assert_string_equal(w->application, "RUNNING  ");
    close_world(w);
}

static void collect(void *arg, const struct as_served *r)
{
    if (r->replica.n)
        return;
    as_buf_printf(arg, "%.*s%s%.*s=%.*s ", AS_STR_FMT(r->application), r->deployment.n ? "/" : "",
                  AS_STR_FMT(r->deployment), AS_STR_FMT(r->status));
}

static void check_each(const struct world *w, const char *wanted)
{
    struct as_buf b = {0};

    as_reconciler_each(w->reconciler, collect, &b);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, wanted);
    as_buf_fini(&b);
}

/* Also a deployment that comes later, or moves from another application. */
static void deployments_of_an_application_are_listed_together(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

#define ONE "{name: echo, num_replicas: 2, version: one}"
#define TWO(shop, other)                                                                           \
    "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"          \
    " env: {A: '1'}, deployments: [" shop "]}, {name: other, command: [x], deployments: [" other   \
    "]}]"
    set_target(w, 2, TWO(ONE, "{name: b, num_replicas: 0}, {name: c, num_replicas: 0}"));
    check_each(w, "shop=RUNNING shop/echo=HEALTHY other=RUNNING other/b=HEALTHY other/c=HEALTHY ");
    set_target(w, 3,
               TWO(ONE ", {name: d, num_replicas: 0}",
                   "{name: b, num_replicas: 0}, {name: c, num_replicas: 0}"));
    check_each(w, "shop=RUNNING shop/echo=HEALTHY shop/d=HEALTHY "
                  "other=RUNNING other/b=HEALTHY other/c=HEALTHY ");
    set_target(w, 4,
               TWO(ONE ", {name: d, num_replicas: 0}, {name: b, num_replicas: 0}",
                   "{name: c, num_replicas: 0}"));
    check_each(w, "shop=RUNNING shop/echo=HEALTHY shop/d=HEALTHY shop/b=HEALTHY "
                  "other=RUNNING other/c=HEALTHY ");
    close_world(w);
}

/* Each has its plan, its replicas and its target. */
static void two_applications_may_have_deployments_of_one_name(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    set_target(w, 2, TWO(ONE, "{name: echo, num_replicas: 1}"));
    assert_string_equal(messages(w), "SPAWN echo-0;");
    check_each(w, "shop=RUNNING shop/echo=HEALTHY other=DEPLOYING other/echo=UPDATING ");
    assert_int_equal(as_reconciler_replicas(w->reconciler, AS_STR("shop#echo")), 2);
    assert_int_equal(as_reconciler_replicas(w->reconciler, AS_STR("other#echo")), 1);
    clear_messages(w);
    set_target(w, 3,
               TWO("{name: echo, num_replicas: 2, version: two}", "{name: b, num_replicas: 0}"));
    assert_string_equal(messages(w), "SPAWN echo-2;DELETE ;RETIRE echo-0;");
    close_world(w);
}

static void a_failed_update_is_rolled_back_and_reported(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    set_target(w, 2, SHOP("version: two"));
    assert_string_equal(messages(w), "SPAWN echo-2;");
    send_exited(w, 2, 1 << 8, AS_EXIT_CODE);
    clear_messages(w);
    run_until(w, "SPAWN echo-2;");
    send_exited(w, 2, 1 << 8, AS_EXIT_CODE);
    turn(w);
    assert_int_equal(w->rolled_back, 2);
    assert_int_equal(w->back_to, 1);
    assert_non_null(strstr(w->status, "DEPLOY_FAILED REPLICA_STARTUP_FAILED how it ended"));
    /* the owner stores a generation with the content of the first one */
    clear_messages(w);
    set_target(w, 3, SHOP("version: one"));
    assert_string_equal(messages(w), "");
    assert_non_null(strstr(w->status, "DEPLOY_FAILED"));
    assert_int_equal(as_reconciler_clear_failures(w->reconciler, AS_STR("shop")), 1);
    set_target(w, 4, SHOP("version: one")); /* a deploy of what is served already */
    assert_string_equal(messages(w), "");
    assert_string_equal(w->status, "HEALTHY CONFIG_UPDATE_COMPLETED ");
    assert_int_equal(as_reconciler_clear_failures(w->reconciler, AS_STR("shop")), 0);
    close_world(w);
}

static void a_removed_deployment_drains(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));
    struct as_buf err = {0};

    set_target(w, 2, "applications: []");
    assert_string_equal(messages(w), "DELETE ;RETIRE echo-1;RETIRE echo-0;");
    assert_string_equal(w->application, "DELETING  ");
    assert_int_equal(as_reconciler_restart(w->reconciler, id_of("echo"), &err), AS_ENOTFOUND);
    as_buf_fini(&err);
    handle(w, message_about(w, AS_CTL_RETIRED, 0));
    handle(w, message_about(w, AS_CTL_RETIRED, 1));
    send_exited(w, 0, SIGTERM, AS_EXIT_STOPPED);
    clear_messages(w);
    send_exited(w, 1, SIGTERM, AS_EXIT_STOPPED);
    turn(w);
    assert_string_equal(messages(w), "REMOVE echo-1;DELETE ;");
    assert_int_equal(w->number, 1);
    assert_string_equal(w->application, "");
    assert_int_equal(as_reconciler_check_name(w->reconciler, AS_STR("shop"), AS_STR("echo"), &err),
                     AS_ENOTFOUND);
    as_buf_fini(&err);
    close_world(w);
}

static void a_deployment_outside_the_target_drains(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));
    struct as_ctl_message m;

    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler_of(w, spec_of("applications: []"), 4);
    clear_messages(w);
    for (uint32_t i = 0; i < 2; i++) {
        m = message_about(w, AS_CTL_RUNS, i);
        m.pid = 1000 + i;
        m.text = as_str_of(w->note[i]);
        handle(w, m);
    }
    send_told(w, true);
    /* again each, now that their links are known */
    assert_string_equal(messages(w), "RETIRE echo-1;RETIRE echo-0;RETIRE echo-1;RETIRE echo-0;"
                                     "DELETE ;SERVING ;");
    close_world(w);
}

static void too_many_devices_are_a_failed_start(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("num_gpus: 2"));

    set_target(w, 2, SHOP("num_gpus: 5, version: two"));
    run_until(w, "REMOVE echo-2;");
    assert_non_null(strstr(w->status, "fewer of the 4 are free"));
    assert_int_equal(w->rolled_back, 2);
    close_world(w);
}

/* All four devices are used: an old replica ends before a new one starts. */
static void a_start_waits_for_used_devices(void **state AS_UNUSED)
{
    static const char lack[] = "it needs 2 GPUs for itself, but fewer of the 4 are free";
    struct world *w = open_spec(SHOP("num_gpus: 2"));

    assert_non_null(strstr(w->note[0], " gpus=2000/0,1"));
    assert_non_null(strstr(w->note[1], " gpus=2000/2,3"));
    set_target(w, 2, SHOP("num_gpus: 2, version: two"));
    assert_string_equal(messages(w), "RETIRE echo-1;PLACE echo-2;");
    assert_string_equal(w->reason[2], lack);
    assert_int_equal(w->state[2], AS_CTL_WAITING_STATE);
    assert_non_null(strstr(w->status, "UPDATING CONFIG_UPDATE_STARTED echo-2 waits: it needs"));
    clear_messages(w);
    send_exited(w, 1, SIGTERM, AS_EXIT_STOPPED);
    turn(w);
    assert_string_equal(messages(w), "REMOVE echo-1;SPAWN echo-2;");
    assert_non_null(strstr(w->note[2], " gpus=2000/2,3"));
    assert_int_equal(w->starts[2], 1);
    assert_string_equal(w->status, "UPDATING CONFIG_UPDATE_STARTED ");
    assert_int_equal(w->rolled_back, 0);
    close_world(w);
}

/* While it waits to be started again its devices are reserved, though another deployment waited for
 * some first. */
static void a_replica_that_died_keeps_its_devices(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("num_gpus: 2"));

    set_target(w, 2,
               "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"
               " env: {A: '1'}, deployments: [{name: echo, num_replicas: 2, num_gpus: 2}]},"
               " {name: more, command: [/bin/other], deployments: [{name: more, num_gpus: 1}]}]");
    assert_non_null(strstr(messages(w), "PLACE more-0;"));
    clear_messages(w);
    send_exited(w, 0, 3 << 8, AS_EXIT_CODE);
    run_until(w, "SPAWN ");
    assert_null(strstr(messages(w), "SPAWN more"));
    assert_non_null(strstr(messages(w), "SPAWN echo-0;"));
    assert_non_null(strstr(w->note[0], " gpus=2000/0,1"));
    close_world(w);
}

/* A number that was set by hand overrides num_replicas. */
static void a_scaled_number_overrides_num_replicas(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    w->scaled_since = 2;
    w->scaled = 3;
    set_target(w, 2, SHOP("version: one"));
    assert_string_equal(messages(w), "SPAWN echo-2;ASK echo-0;ASK echo-1;");
    assert_non_null(strstr(w->status, "scaled to 3; num_replicas is 2"));
    w->scaled = 1;
    set_target(w, 3, SHOP("version: one"));
    assert_non_null(strstr(w->status, "scaled to 1; num_replicas is 2"));
    assert_int_equal(as_reconciler_replicas(w->reconciler, id_of("echo")), 1);
    w->scaled = -1;
    set_target(w, 4, SHOP("version: one"));
    assert_null(strstr(w->status, "scaled"));
    assert_int_equal(as_reconciler_replicas(w->reconciler, id_of("echo")), 2);
    close_world(w);
}

static void models_are_declared_as_far_as_there_is_room(void **state AS_UNUSED)
{
    static char frame[AS_CTL_TEXT_MAX + 1] = "frame";
    struct world *w = open_spec(SHOP("version: one"));

    for (uint32_t missing = 0; missing <= 1; missing++) {
        size_t room = 2 * (AS_CTL_DECLARED_ROW + 3 + 5) + 7 - missing;
        struct as_declared models = {0};

        as_declared_add_model(&models, id_of("echo"), AS_STR("m:0"), AS_STR("frame"));
        as_declared_add_model(&models, id_of("echo"), AS_STR("m:1"), AS_STR("frame"));
        w->number = 9;
        clear_messages(w);
        as_reconciler_declare(w->reconciler, &models.deployments[0], AS_STR("options"), &room);
        assert_string_equal(messages(w), missing ? "DECLARE m:0;DECLARE ;"
                                                 : "DECLARE m:0;DECLARE m:1;DECLARE ;");
        assert_int_equal(w->number, missing ? 9 : 1); /* 1: these are all */
        as_declared_fini(&models);
    }
    for (uint32_t more = 0; more <= 1; more++) {
        size_t room = AS_CTL_DECLARED_MAX;
        struct as_declared models = {0};

        as_declared_add_model(&models, id_of("echo"), AS_STR("m:0"),
                              (struct as_str){frame, AS_CTL_TEXT_MAX + more});
        clear_messages(w);
        as_reconciler_declare(w->reconciler, &models.deployments[0], AS_STR("options"), &room);
        assert_string_equal(messages(w), more ? "DECLARE ;" : "DECLARE m:0;DECLARE ;");
        as_declared_fini(&models);
    }
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_starts_as_its_generation_says),
        cmocka_unit_test(an_unchanged_deployment_goes_on),
        cmocka_unit_test(deployments_of_an_application_are_listed_together),
        cmocka_unit_test(two_applications_may_have_deployments_of_one_name),
        cmocka_unit_test(a_failed_update_is_rolled_back_and_reported),
        cmocka_unit_test(a_removed_deployment_drains),
        cmocka_unit_test(a_deployment_outside_the_target_drains),
        cmocka_unit_test(too_many_devices_are_a_failed_start),
        cmocka_unit_test(a_start_waits_for_used_devices),
        cmocka_unit_test(a_replica_that_died_keeps_its_devices),
        cmocka_unit_test(a_scaled_number_overrides_num_replicas),
        cmocka_unit_test(models_are_declared_as_far_as_there_is_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
