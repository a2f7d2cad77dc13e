/* Specification of ctl/reconcile/reconciler: what the controller says to what it hears. Of several
 * generations: t_reconciler_generations.c. */
#include "conf/exit_code.h"
#include "ctl/message/spawn.h"
#include "reconciler_world.h"

#include <signal.h>

static void a_worker_gets_its_place_token_and_name(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);
    char token[96];
    struct as_spawn s;

    told(w, false);
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&w->spawn)), 0);
    assert_string_equal(s.argv[0], "/usr/bin/python3");
    assert_string_equal(s.argv[1], "-m");
    assert_string_equal(s.argv[2], "anyserve.worker");
    assert_string_equal(s.argv[3], "app.py");
    assert_string_equal(s.argv[4], "--deployment=echo");
    assert_string_equal(s.argv[5], "--stream-inputs=3");
    assert_string_equal(s.argv[6], "--stream-input-bytes=4000");
    assert_string_equal(s.argv[7], "--debug-errors");
    assert_null(s.argv[8]);
    assert_string_equal(s.env[0], "ANYSERVE_LINK=/run/link.sock");
    snprintf(token, sizeof(token), "ANYSERVE_TOKEN=%s", w->token[0]);
    assert_string_equal(s.env[1], token);
    assert_int_equal(strlen(w->token[0]), 32);
    assert_string_equal(s.env[2], "ANYSERVE_REPLICA=echo-0");
    assert_string_equal(s.env[4], "PYTHONUNBUFFERED=1");
    assert_string_equal(s.env[3],
                        "ANYSERVE_CONTEXT={\"replica\":\"echo-0\",\"deployment\":\"echo\","
                        "\"application\":\"default\",\"rank\":0,\"world_size\":1,"
                        "\"local_rank\":0,\"node_rank\":0,\"options\":{}}");
    assert_false(s.batch);
    as_spawn_fini(&s);
    close_world(w);
}

static void it_begins_when_all_was_told_and_tells_once_that_all_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 2, 2);

    turn(w);
    assert_string_equal(said(w), ""); /* it knows nothing yet */
    told(w, false);
    assert_string_equal(said(w), "SPAWN echo-0;SPAWN echo-1;SERVING ;");
    assert_string_not_equal(w->token[0], w->token[1]);
    ready(w, 0);
    assert_null(strstr(said(w), "COMPLETE"));
    ready(w, 1);
    assert_non_null(strstr(said(w), "COMPLETE"));
    assert_int_equal(w->number, 2);
    forget_said(w);
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    ready(w, 0);
    assert_null(strstr(said(w), "COMPLETE"));
    close_world(w);
}

static void a_server_without_workers_is_complete_with_its_dispatcher(void **state AS_UNUSED)
{
    struct world *w = open_world(NULL, 1, 1);

    hear(w, (struct as_ctl_message){.type = AS_CTL_TOLD});
    turn(w);
    assert_string_equal(said(w), "SERVING ;");
    dispatcher(w, AS_CTL_READY_STATE);
    turn(w);
    assert_string_equal(said(w), "SERVING ;COMPLETE ;");
    close_world(w);
}

static void a_killed_worker_comes_back_under_a_new_token(void **state AS_UNUSED)
{
    struct world *w = open_ready();
    char old[64];

    memcpy(old, w->token[0], sizeof(old));
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    assert_string_equal(said(w), "PLACE echo-0;SPAWN echo-0;");
    assert_string_not_equal(w->token[0], old);
    assert_int_equal(w->starts[0], 2);
    /* a late word about the dead one means nothing */
    memcpy(w->token[4], w->token[0], sizeof(old));
    memcpy(w->token[0], old, sizeof(old));
    forget_said(w);
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    turn(w);
    assert_string_equal(said(w), "");
    close_world(w);
}

static void a_start_has_a_deadline_while_there_is_a_dispatcher(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    start_timeout = 20 * AS_MS;
    as_reconciler_close(w->crew);
    turn(w);
    as_reconciler_free(w->crew);
    new_crew(w, 1, 1);
    start_timeout = 60 * AS_SEC;
    hear(w, (struct as_ctl_message){.type = AS_CTL_TOLD});
    run_until(w, "SERVING");
    forget_said(w);
    dispatcher(w, AS_CTL_READY_STATE);
    run_until(w, "KILL echo-0;");
    close_world(w);
}

static void an_application_that_cannot_start_is_told(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    told(w, false);
    exited(w, 0, AS_EXIT_CODE_RAISED << 8, AS_EXIT_CODE);
    assert_non_null(strstr(said(w), "FATAL echo-0"));
    assert_int_equal(w->number, AS_EXIT_CODE_RAISED);
    close_world(w);
    w = open_world("echo\techo:1\n", 1, 1);
    told(w, false);
    exited(w, 0, 1 << 8, AS_EXIT_CODE);
    assert_null(strstr(said(w), "FATAL"));
    forget_said(w);
    run_until(w, "SPAWN echo-0;");
    exited(w, 0, 1 << 8, AS_EXIT_CODE); /* the second one in a row */
    assert_int_equal(w->number, AS_EXIT_CODE_FAILED);
    close_world(w);
    w = open_ready(); /* once it has served it stays */
    exited(w, 0, AS_EXIT_CODE_RAISED << 8, AS_EXIT_CODE);
    assert_null(strstr(said(w), "FATAL"));
    close_world(w);
}

static void what_people_are_told_of_it(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 2, 2);

    told(w, false);
    assert_string_equal(w->status, "UPDATING CONFIG_UPDATE_STARTED ");
    assert_string_equal(w->application, "DEPLOYING  ");
    ready(w, 0);
    ready(w, 1);
    assert_string_equal(w->status, "HEALTHY CONFIG_UPDATE_COMPLETED ");
    assert_string_equal(w->application, "RUNNING  ");
    exited(w, 0, 11, AS_EXIT_CRASH);
    assert_non_null(strstr(w->status, "UNHEALTHY HEALTH_CHECK_FAILED how it ended"));
    assert_string_equal(w->application, "UNHEALTHY  ");
    w->status[0] = 0;
    new_controller(w, 2, 2, true); /* echo-0 is not there yet */
    assert_non_null(strstr(w->status, "UNHEALTHY"));
    ready(w, 0);
    assert_non_null(strstr(w->status, "HEALTHY "));
    close_world(w);
}

static void give_up(struct world *w, uint32_t i)
{
    exited(w, i, 1 << 8, AS_EXIT_CODE);
    while (w->state[i] != AS_CTL_DOWN_STATE) {
        forget_said(w);
        run_until(w, "SPAWN ");
        exited(w, i, 1 << 8, AS_EXIT_CODE);
    }
}

static void a_deployment_without_replicas_is_down_until_one_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    give_up(w, 0);
    assert_null(strstr(said(w), "DOWN"));
    give_up(w, 1);
    assert_non_null(strstr(said(w), "DOWN ;"));
    forget_said(w);
    run_until(w, "SPAWN echo-1;"); /* after its rest */
    assert_null(strstr(said(w), "UP"));
    ready(w, 1);
    assert_non_null(strstr(said(w), "UP ;"));
    close_world(w);
}

static void one_that_rests_is_revived(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    give_up(w, 0);
    forget_said(w);
    hear(w, (struct as_ctl_message){.type = AS_CTL_REVIVE});
    turn(w);
    assert_string_equal(said(w), "SPAWN echo-0;");
    close_world(w);
}

static void only_so_many_start_at_once(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 3, 2);

    told(w, false);
    assert_string_equal(said(w), "SPAWN echo-0;SPAWN echo-1;PLACE echo-2;SERVING ;");
    assert_string_equal(w->reason[2], "others are starting (--max-starting)");
    forget_said(w);
    ready(w, 1);
    assert_string_equal(said(w), "SPAWN echo-2;");
    close_world(w);
    w = open_world("echo\techo:1\n", 2, 1);
    told(w, false);
    forget_said(w);
    exited(w, 0, 1 << 8, AS_EXIT_CODE); /* a death makes room for the next in line */
    run_until(w, "SPAWN echo-1;");
    forget_said(w);
    run_until(w, "PLACE echo-0;"); /* it stands behind it */
    assert_string_equal(w->reason[0], "others are starting (--max-starting)");
    assert_null(strstr(said(w), "SPAWN echo-0;"));
    close_world(w);
}

static void each_deployment_gets_its_first_one_first(void **state AS_UNUSED)
{
    struct world *w = open_world("a\ta:1\nb\tb:1\n", 2, 4);

    told(w, false);
    assert_string_equal(said(w), "SPAWN a-0;SPAWN b-0;SPAWN a-1;SPAWN b-1;SERVING ;");
    close_world(w);
}

static void a_new_controller_starts_nothing_that_runs(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    new_controller(w, 2, 2, true);
    assert_string_equal(said(w), "SERVING ;");
    exited(w, 1, SIGKILL, AS_EXIT_KILLED); /* it had been READY, as the one before had seen */
    run_until(w, "SPAWN echo-1;");
    assert_int_equal(w->starts[1], 2);
    close_world(w);
}

static void a_new_controller_completes_what_was_not(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 3, 2);

    told(w, false);
    ready(w, 0);
    w->state[2] = AS_CTL_WAITING_STATE;
    w->starts[2] = 0;
    new_controller(w, 3, 2, false);
    assert_string_equal(said(w), "REMOVE echo-2;SPAWN echo-2;SERVING ;");
    ready(w, 1);
    ready(w, 2);
    assert_non_null(strstr(said(w), "COMPLETE"));
    close_world(w);
}

/* What the supervisor tells of one without a process; undecided: an EXITED follows. */
static void runs_dead(struct world *w, uint32_t i, bool undecided)
{
    struct as_ctl_message m = of(w, AS_CTL_RUNS, i);

    m.number = undecided;
    m.text = as_str_of(w->note[i]);
    hear(w, m);
}

static void an_end_that_nobody_saw_is_decided_about_now(void **state AS_UNUSED)
{
    struct world *w = open_ready();
    struct as_ctl_message m;

    w->state[0] = AS_CTL_WAITING_STATE;
    as_reconciler_close(w->crew);
    turn(w);
    as_reconciler_free(w->crew);
    new_crew(w, 2, 2);
    forget_said(w);
    runs_dead(w, 0, true);
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    m = of(w, AS_CTL_RUNS, 1);
    m.pid = 1001;
    m.text = as_str_of(w->note[1]);
    hear(w, m);
    told(w, true);
    run_until(w, "SPAWN echo-0;");
    assert_null(strstr(said(w), "echo-1"));
    assert_int_equal(w->starts[0], 2); /* the same place: its second process */
    close_world(w);
}

static void
what_was_given_up_is_tried_again_and_stays_down_until_it_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    told(w, false);
    ready(w, 0);
    give_up(w, 0);
    as_reconciler_close(w->crew);
    turn(w);
    as_reconciler_free(w->crew);
    new_crew(w, 1, 1);
    forget_said(w);
    runs_dead(w, 0, false);
    hear(w, (struct as_ctl_message){.type = AS_CTL_STAYS, .deployment = AS_STR("echo")});
    told(w, true);
    assert_string_equal(said(w), "REMOVE echo-0;SPAWN echo-0;SERVING ;");
    ready(w, 0);
    assert_non_null(strstr(said(w), "UP ;"));
    close_world(w);
}

static void ranks_are_those_of_the_processes_that_run(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    /* the note of echo-1 is lost: what it is cannot be known, and it has no place */
    w->note[1][0] = 0;
    new_controller(w, 2, 2, true);
    assert_string_equal(said(w), "KILL echo-1;SPAWN echo-1;SERVING ;");
    assert_non_null(strstr(w->note[0], " rank=0 "));
    assert_non_null(strstr(w->note[1], " rank=1 "));
    close_world(w);
}

static void what_has_no_place_is_ended(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);
    struct as_ctl_message m = {.type = AS_CTL_RUNS,
                               .state = AS_CTL_READY_STATE,
                               .pid = 7,
                               .replica = AS_STR("other-0"),
                               .token = AS_STR("t")};

    hear(w, m);
    assert_string_equal(said(w), "KILL other-0;");
    m.type = AS_CTL_EXITED;
    hear(w, m);
    assert_string_equal(said(w), "KILL other-0;REMOVE other-0;");
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_gets_its_place_token_and_name),
        cmocka_unit_test(it_begins_when_all_was_told_and_tells_once_that_all_is_ready),
        cmocka_unit_test(a_server_without_workers_is_complete_with_its_dispatcher),
        cmocka_unit_test(a_killed_worker_comes_back_under_a_new_token),
        cmocka_unit_test(a_start_has_a_deadline_while_there_is_a_dispatcher),
        cmocka_unit_test(an_application_that_cannot_start_is_told),
        cmocka_unit_test(a_deployment_without_replicas_is_down_until_one_is_ready),
        cmocka_unit_test(what_people_are_told_of_it),
        cmocka_unit_test(one_that_rests_is_revived),
        cmocka_unit_test(only_so_many_start_at_once),
        cmocka_unit_test(each_deployment_gets_its_first_one_first),
        cmocka_unit_test(a_new_controller_starts_nothing_that_runs),
        cmocka_unit_test(a_new_controller_completes_what_was_not),
        cmocka_unit_test(an_end_that_nobody_saw_is_decided_about_now),
        cmocka_unit_test(what_was_given_up_is_tried_again_and_stays_down_until_it_is_ready),
        cmocka_unit_test(ranks_are_those_of_the_processes_that_run),
        cmocka_unit_test(what_has_no_place_is_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
