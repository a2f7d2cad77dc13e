/* Specification of ctl/reconcile/reconciler: deployments that change while they are served. */
#include "reconciler_world.h"
#include "ctl/message/spawn.h"

#include <signal.h>

#define SHOP(more)                                                                                 \
    "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"          \
    " env: {A: '1'}, deployments: [{name: echo, num_replicas: 2, " more "}]}]"

static struct world *open_spec(const char *text)
{
    struct world *w = as_xalloc(sizeof(*w));

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    as_task_init(&w->turn, on_turn);
    new_crew_of(w, spec_of(text), 4);
    told(w, false);
    ready(w, 0);
    ready(w, 1);
    assert_string_equal(w->status, "HEALTHY CONFIG_UPDATE_COMPLETED ");
    forget_said(w);
    return w;
}

static void want(struct world *w, uint64_t generation, const char *text)
{
    as_reconciler_set_target(w->crew, generation, spec_of(text));
    turn(w);
}

static bool has(const char **list, const char *text)
{
    for (; *list; list++) {
        if (strcmp(*list, text) == 0)
            return true;
    }
    return false;
}

static void a_process_is_what_its_generation_says(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one, memory: 64M"));
    struct as_spawn s;

    assert_int_equal(w->settled, 1);
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&w->spawn)), 0);
    assert_string_equal(s.argv[0], "/bin/echo-worker");
    assert_string_equal(s.argv[1], "--fast");
    assert_null(s.argv[2]);
    assert_string_equal(s.dir, "/srv");
    assert_int_equal(s.memory, 64 << 20);
    assert_true(has(s.env, "A=1"));
    as_spawn_fini(&s);
    want(w, 2, SHOP("version: two, env: {B: '2'}, num_gpus: 2"));
    assert_string_equal(said(w), "SPAWN echo-2;");
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&w->spawn)), 0);
    assert_true(has(s.env, "B=2"));
    assert_true(has(s.env, "CUDA_VISIBLE_DEVICES=0,1"));
    assert_int_equal(s.memory, 0);
    as_spawn_fini(&s);
    /* one of the old ones dies: it is started again as it was */
    forget_said(w);
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&w->spawn)), 0);
    assert_false(has(s.env, "B=2"));
    assert_int_equal(s.memory, 64 << 20);
    as_spawn_fini(&s);
    close_world(w);
}

static void what_does_not_differ_goes_on(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    want(w, 2, SHOP("version: one"));
    want(w, 3,
         "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"
         " env: {A: '1'}, deployments: [{name: echo, num_replicas: 2, version: one}]},"
         " {name: other, command: [x], deployments: [{name: b, num_replicas: 0}]}]");
    assert_string_equal(said(w), "");
    assert_string_equal(w->application, "RUNNING  ");
    close_world(w);
}

static void collect(void *arg, const struct as_reconciler_row *r)
{
    if (r->replica.n)
        return;
    as_buf_printf(arg, "%.*s%s%.*s=%.*s ", AS_STR_FMT(r->application), r->deployment.n ? "/" : "",
                  AS_STR_FMT(r->deployment), AS_STR_FMT(r->status));
}

static void check_each(const struct world *w, const char *wanted)
{
    struct as_buf b = {0};

    as_reconciler_each(w->crew, collect, &b);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, wanted);
    as_buf_fini(&b);
}

/* Whenever they came, and wherever they were before. */
static void what_one_application_has_is_told_together(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

#define ONE "{name: echo, num_replicas: 2, version: one}"
#define TWO(shop, other)                                                                           \
    "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"          \
    " env: {A: '1'}, deployments: [" shop "]}, {name: other, command: [x], deployments: [" other   \
    "]}]"
    want(w, 2, TWO(ONE, "{name: b, num_replicas: 0}, {name: c, num_replicas: 0}"));
    check_each(w, "shop=RUNNING shop/echo=HEALTHY other=RUNNING other/b=HEALTHY other/c=HEALTHY ");
    want(w, 3,
         TWO(ONE ", {name: d, num_replicas: 0}",
             "{name: b, num_replicas: 0}, {name: c, num_replicas: 0}"));
    check_each(w, "shop=RUNNING shop/echo=HEALTHY shop/d=HEALTHY "
                  "other=RUNNING other/b=HEALTHY other/c=HEALTHY ");
    want(w, 4,
         TWO(ONE ", {name: d, num_replicas: 0}, {name: b, num_replicas: 0}",
             "{name: c, num_replicas: 0}"));
    check_each(w, "shop=RUNNING shop/echo=HEALTHY shop/d=HEALTHY shop/b=HEALTHY "
                  "other=RUNNING other/c=HEALTHY ");
    close_world(w);
}

static void an_update_that_fails_is_told_and_stays_taken_back(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    want(w, 2, SHOP("version: two"));
    assert_string_equal(said(w), "SPAWN echo-2;");
    exited(w, 2, 1 << 8, AS_EXIT_CODE);
    forget_said(w);
    run_until(w, "SPAWN echo-2;");
    exited(w, 2, 1 << 8, AS_EXIT_CODE);
    turn(w);
    assert_int_equal(w->rolled_back, 2);
    assert_int_equal(w->back_to, 1);
    assert_non_null(strstr(w->status, "DEPLOY_FAILED REPLICA_STARTUP_FAILED how it ended"));
    /* what the owner makes of it: a generation that is as the first one */
    forget_said(w);
    want(w, 3, SHOP("version: one"));
    assert_string_equal(said(w), "");
    assert_non_null(strstr(w->status, "DEPLOY_FAILED"));
    assert_int_equal(as_reconciler_clear_failures(w->crew), 1);
    want(w, 4, SHOP("version: one")); /* somebody deploys what is served */
    assert_string_equal(said(w), "");
    assert_string_equal(w->status, "HEALTHY CONFIG_UPDATE_COMPLETED ");
    assert_int_equal(as_reconciler_clear_failures(w->crew), 0);
    close_world(w);
}

static void what_is_removed_drains_and_is_forgotten(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));
    struct as_buf err = {0};

    want(w, 2, "applications: []");
    assert_string_equal(said(w), "DELETE ;RETIRE echo-1;RETIRE echo-0;");
    assert_string_equal(w->application, "DELETING  ");
    assert_int_equal(as_reconciler_restart(w->crew, AS_STR("echo"), &err), AS_ENOTFOUND);
    as_buf_fini(&err);
    hear(w, of(w, AS_CTL_RETIRED, 0));
    hear(w, of(w, AS_CTL_RETIRED, 1));
    exited(w, 0, SIGTERM, AS_EXIT_STOPPED);
    forget_said(w);
    exited(w, 1, SIGTERM, AS_EXIT_STOPPED);
    turn(w);
    assert_string_equal(said(w), "REMOVE echo-1;DELETE ;");
    assert_int_equal(w->number, 1);
    assert_string_equal(w->application, "");
    assert_int_equal(as_reconciler_check_name(w->crew, AS_STR("shop"), AS_STR("echo"), &err),
                     AS_ENOTFOUND);
    as_buf_fini(&err);
    close_world(w);
}

static void what_a_new_controller_does_not_want_drains(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));
    struct as_ctl_message m;

    as_reconciler_close(w->crew);
    turn(w);
    as_reconciler_free(w->crew);
    new_crew_of(w, spec_of("applications: []"), 4);
    forget_said(w);
    for (uint32_t i = 0; i < 2; i++) {
        m = of(w, AS_CTL_RUNS, i);
        m.pid = 1000 + i;
        m.text = as_str_of(w->note[i]);
        hear(w, m);
    }
    told(w, true);
    /* once more each, now that their links are known */
    assert_string_equal(said(w), "RETIRE echo-1;RETIRE echo-0;RETIRE echo-1;RETIRE echo-0;"
                                 "DELETE ;SERVING ;");
    close_world(w);
}

static void devices_that_the_machine_has_not_are_a_failed_start(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("num_gpus: 2"));

    want(w, 2, SHOP("num_gpus: 5, version: two"));
    run_until(w, "REMOVE echo-2;");
    assert_non_null(strstr(w->status, "fewer of the 4 are free"));
    assert_int_equal(w->rolled_back, 2);
    close_world(w);
}

/* Of four devices all are used: one old replica ends before a new one starts. */
static void devices_that_are_used_are_waited_for(void **state AS_UNUSED)
{
    static const char lack[] = "it needs 2 GPUs for itself, but fewer of the 4 are free";
    struct world *w = open_spec(SHOP("num_gpus: 2"));

    assert_non_null(strstr(w->note[0], " gpus=2000/0,1"));
    assert_non_null(strstr(w->note[1], " gpus=2000/2,3"));
    want(w, 2, SHOP("num_gpus: 2, version: two"));
    assert_string_equal(said(w), "RETIRE echo-1;PLACE echo-2;");
    assert_string_equal(w->reason[2], lack);
    assert_int_equal(w->state[2], AS_CTL_WAITING_STATE);
    assert_non_null(strstr(w->status, "UPDATING CONFIG_UPDATE_STARTED echo-2 waits: it needs"));
    forget_said(w);
    exited(w, 1, SIGTERM, AS_EXIT_STOPPED);
    turn(w);
    assert_string_equal(said(w), "REMOVE echo-1;SPAWN echo-2;");
    assert_non_null(strstr(w->note[2], " gpus=2000/2,3"));
    assert_int_equal(w->starts[2], 1);
    assert_string_equal(w->status, "UPDATING CONFIG_UPDATE_STARTED ");
    assert_int_equal(w->rolled_back, 0);
    close_world(w);
}

/* It waits to be started again with what it had; somebody else who came first does not get it. */
static void a_replica_that_died_keeps_its_devices(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("num_gpus: 2"));

    want(w, 2,
         "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"
         " env: {A: '1'}, deployments: [{name: echo, num_replicas: 2, num_gpus: 2}]},"
         " {name: more, command: [/bin/other], deployments: [{name: more, num_gpus: 1}]}]");
    assert_non_null(strstr(said(w), "PLACE more-0;"));
    forget_said(w);
    exited(w, 0, 3 << 8, AS_EXIT_CODE);
    run_until(w, "SPAWN ");
    assert_null(strstr(said(w), "SPAWN more"));
    assert_non_null(strstr(said(w), "SPAWN echo-0;"));
    assert_non_null(strstr(w->note[0], " gpus=2000/0,1"));
    close_world(w);
}

/* What somebody has set takes the place of num_replicas. */
static void a_number_that_was_set_counts(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    w->scaled_since = 2;
    w->scaled = 3;
    want(w, 2, SHOP("version: one"));
    assert_string_equal(said(w), "SPAWN echo-2;ASK echo-0;ASK echo-1;");
    assert_non_null(strstr(w->status, "scaled to 3; num_replicas is 2"));
    w->scaled = 1;
    want(w, 3, SHOP("version: one"));
    assert_non_null(strstr(w->status, "scaled to 1; num_replicas is 2"));
    assert_int_equal(as_reconciler_replicas(w->crew, AS_STR("echo")), 1);
    w->scaled = -1;
    want(w, 4, SHOP("version: one"));
    assert_null(strstr(w->status, "scaled"));
    assert_int_equal(as_reconciler_replicas(w->crew, AS_STR("echo")), 2);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_what_its_generation_says),
        cmocka_unit_test(what_does_not_differ_goes_on),
        cmocka_unit_test(what_one_application_has_is_told_together),
        cmocka_unit_test(an_update_that_fails_is_told_and_stays_taken_back),
        cmocka_unit_test(what_is_removed_drains_and_is_forgotten),
        cmocka_unit_test(what_a_new_controller_does_not_want_drains),
        cmocka_unit_test(devices_that_the_machine_has_not_are_a_failed_start),
        cmocka_unit_test(devices_that_are_used_are_waited_for),
        cmocka_unit_test(a_replica_that_died_keeps_its_devices),
        cmocka_unit_test(a_number_that_was_set_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
