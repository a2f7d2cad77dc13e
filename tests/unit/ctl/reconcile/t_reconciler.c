/* Specification of ctl/reconcile/reconciler: the messages that the controller sends after those
 * that it gets. Of several generations: t_reconciler_generations.c. */
#include "conf/option/exit_code.h"
#include "ctl/message/spawn.h"
#include "reconciler_world.h"

#include <signal.h>

static void a_worker_gets_slot_token_and_name(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);
    char token[96];
    struct as_spawn s;

    send_told(w, false);
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
    assert_string_equal(s.env[3], "ANYSERVE_LINK=/run/link.sock");
    snprintf(token, sizeof(token), "ANYSERVE_TOKEN=%s", w->token[0]);
    assert_string_equal(s.env[0], token);
    assert_int_equal(strlen(w->token[0]), 32);
    assert_string_equal(s.env[1], "ANYSERVE_REPLICA=echo-0");
    assert_string_equal(s.env[4], "PYTHONUNBUFFERED=1");
    assert_string_equal(s.env[2],
                        "ANYSERVE_CONTEXT={\"replica\":\"echo-0\",\"deployment\":\"echo\","
                        "\"application\":\"default\",\"rank\":0,\"world_size\":1,"
                        "\"local_rank\":0,\"node_rank\":0,\"options\":{}}");
    assert_false(s.batch);
    as_spawn_fini(&s);
    close_world(w);
}

static void it_starts_after_told_and_sends_complete_once(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 2, 2);

    turn(w);
    assert_string_equal(messages(w), ""); /* nothing before TOLD */
    send_told(w, false);
    assert_string_equal(messages(w), "SPAWN echo-0;SPAWN echo-1;SERVING ;");
    assert_string_not_equal(w->token[0], w->token[1]);
    send_ready(w, 0);
    assert_null(strstr(messages(w), "COMPLETE"));
    send_ready(w, 1);
    assert_non_null(strstr(messages(w), "COMPLETE"));
    assert_int_equal(w->number, 2);
    clear_messages(w);
    send_exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    send_ready(w, 0);
    assert_null(strstr(messages(w), "COMPLETE"));
    close_world(w);
}

static void a_server_without_workers_is_complete_with_its_dispatcher(void **state AS_UNUSED)
{
    struct world *w = open_world(NULL, 1, 1);

    handle(w, (struct as_ctl_message){.type = AS_CTL_TOLD});
    turn(w);
    assert_string_equal(messages(w), "SERVING ;");
    send_dispatcher(w, AS_CTL_READY_STATE);
    turn(w);
    assert_string_equal(messages(w), "SERVING ;COMPLETE ;");
    close_world(w);
}

static void a_killed_worker_comes_back_under_a_new_token(void **state AS_UNUSED)
{
    struct world *w = open_ready();
    char old[64];

    memcpy(old, w->token[0], sizeof(old));
    send_exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    assert_string_equal(messages(w), "PLACE echo-0;SPAWN echo-0;");
    assert_string_not_equal(w->token[0], old);
    assert_int_equal(w->starts[0], 2);
    /* a late message about the dead process is ignored */
    memcpy(w->token[4], w->token[0], sizeof(old));
    memcpy(w->token[0], old, sizeof(old));
    clear_messages(w);
    send_exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    turn(w);
    assert_string_equal(messages(w), "");
    close_world(w);
}

static void a_start_has_a_deadline_while_there_is_a_dispatcher(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    start_timeout = 20 * AS_MS;
    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler(w, 1, 1);
    start_timeout = 60 * AS_SEC;
    handle(w, (struct as_ctl_message){.type = AS_CTL_TOLD});
    run_until(w, "SERVING");
    clear_messages(w);
    send_dispatcher(w, AS_CTL_READY_STATE);
    run_until(w, "KILL echo-0;");
    close_world(w);
}

static void an_application_that_cannot_start_is_fatal(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    send_told(w, false);
    send_exited(w, 0, AS_EXIT_CODE_RAISED << 8, AS_EXIT_CODE);
    assert_non_null(strstr(messages(w), "FATAL echo-0"));
    assert_int_equal(w->number, AS_EXIT_CODE_RAISED);
    close_world(w);
    w = open_world("echo\techo:1\n", 1, 1);
    send_told(w, false);
    send_exited(w, 0, 1 << 8, AS_EXIT_CODE);
    assert_null(strstr(messages(w), "FATAL"));
    clear_messages(w);
    run_until(w, "SPAWN echo-0;");
    send_exited(w, 0, 1 << 8, AS_EXIT_CODE); /* the second one in a row */
    assert_int_equal(w->number, AS_EXIT_CODE_FAILED);
    close_world(w);
    w = open_ready(); /* once complete, the server does not end */
    send_exited(w, 0, AS_EXIT_CODE_RAISED << 8, AS_EXIT_CODE);
    assert_null(strstr(messages(w), "FATAL"));
    close_world(w);
}

static void status_as_json_and_rows(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 2, 2);

    send_told(w, false);
    assert_string_equal(w->status, "UPDATING CONFIG_UPDATE_STARTED ");
    assert_string_equal(w->application, "DEPLOYING  ");
    send_ready(w, 0);
    send_ready(w, 1);
    assert_string_equal(w->status, "HEALTHY CONFIG_UPDATE_COMPLETED ");
    assert_string_equal(w->application, "RUNNING  ");
    send_exited(w, 0, 11, AS_EXIT_CRASH);
    assert_non_null(strstr(w->status, "UNHEALTHY HEALTH_CHECK_FAILED how it ended"));
    assert_string_equal(w->application, "UNHEALTHY  ");
    w->status[0] = 0;
    new_controller(w, 2, 2, true); /* echo-0 is not READY */
    assert_non_null(strstr(w->status, "UNHEALTHY"));
    send_ready(w, 0);
    assert_non_null(strstr(w->status, "HEALTHY "));
    close_world(w);
}

static void give_up(struct world *w, uint32_t i)
{
    send_exited(w, i, 1 << 8, AS_EXIT_CODE);
    while (w->state[i] != AS_CTL_DOWN_STATE) {
        clear_messages(w);
        run_until(w, "SPAWN ");
        send_exited(w, i, 1 << 8, AS_EXIT_CODE);
    }
}

static void a_deployment_without_replicas_is_down_until_one_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    give_up(w, 0);
    assert_null(strstr(messages(w), "DOWN"));
    give_up(w, 1);
    assert_non_null(strstr(messages(w), "DOWN ;"));
    clear_messages(w);
    run_until(w, "SPAWN echo-1;"); /* after its time of rest */
    assert_null(strstr(messages(w), "UP"));
    send_ready(w, 1);
    assert_non_null(strstr(messages(w), "UP ;"));
    close_world(w);
}

static void a_given_up_replica_is_revived(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    give_up(w, 0);
    clear_messages(w);
    handle(w, (struct as_ctl_message){.type = AS_CTL_REVIVE});
    turn(w);
    assert_string_equal(messages(w), "SPAWN echo-0;");
    close_world(w);
}

static void max_starting_bounds_the_starts(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 3, 2);

    send_told(w, false);
    assert_string_equal(messages(w), "SPAWN echo-0;SPAWN echo-1;PLACE echo-2;SERVING ;");
    assert_string_equal(w->reason[2], "others are starting (--max-starting)");
    clear_messages(w);
    send_ready(w, 1);
    assert_string_equal(messages(w), "SPAWN echo-2;");
    close_world(w);
    w = open_world("echo\techo:1\n", 2, 1);
    send_told(w, false);
    clear_messages(w);
    send_exited(w, 0, 1 << 8, AS_EXIT_CODE); /* a death lets the next one in the queue start */
    run_until(w, "SPAWN echo-1;");
    clear_messages(w);
    run_until(w, "PLACE echo-0;"); /* it is queued behind that one */
    assert_string_equal(w->reason[0], "others are starting (--max-starting)");
    assert_null(strstr(messages(w), "SPAWN echo-0;"));
    close_world(w);
}

static void the_first_replica_of_each_deployment_comes_first(void **state AS_UNUSED)
{
    struct world *w = open_world("a\ta:1\nb\tb:1\n", 2, 4);

    send_told(w, false);
    assert_string_equal(messages(w), "SPAWN a-0;SPAWN b-0;SPAWN a-1;SPAWN b-1;SERVING ;");
    close_world(w);
}

static void a_new_controller_starts_nothing_that_runs(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    new_controller(w, 2, 2, true);
    assert_string_equal(messages(w), "SERVING ;");
    send_exited(w, 1, SIGKILL, AS_EXIT_KILLED); /* it had been READY under the controller before */
    run_until(w, "SPAWN echo-1;");
    assert_int_equal(w->starts[1], 2);
    close_world(w);
}

static void a_new_controller_starts_what_is_missing(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 3, 2);

    send_told(w, false);
    send_ready(w, 0);
    w->state[2] = AS_CTL_WAITING_STATE;
    w->starts[2] = 0;
    new_controller(w, 3, 2, false);
    assert_string_equal(messages(w), "REMOVE echo-2;SPAWN echo-2;SERVING ;");
    send_ready(w, 1);
    send_ready(w, 2);
    assert_non_null(strstr(messages(w), "COMPLETE"));
    close_world(w);
}

/* The signal that it got from somebody else is enough: its next one might end it too early. */
static void a_worker_that_leaves_gets_a_successor_and_no_signal(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    handle(w, message_about(w, AS_CTL_LEAVES, 0));
    turn(w);
    assert_string_equal(messages(w), "RETIRE echo-0;SPAWN echo-2;");
    send_ready(w, 2);
    clear_messages(w);
    w->number = 1;
    handle(w, message_about(w, AS_CTL_RETIRED, 0));
    turn(w);
    assert_string_equal(messages(w), "SIGNAL echo-0;");
    assert_int_equal(w->number, 0);
    send_exited(w, 0, 0, AS_EXIT_STOPPED);
    assert_non_null(strstr(messages(w), "REMOVE echo-0;"));
    close_world(w);
}

/* LEAVES came while there was no controller: RUNS says it. */
static void the_next_controller_knows_who_leaves(void **state AS_UNUSED)
{
    struct world *w = open_ready();
    struct as_ctl_message m;

    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler(w, 2, 2);
    clear_messages(w);
    for (uint32_t i = 0; i < 2; i++) {
        m = message_about(w, AS_CTL_RUNS, i);
        m.pid = 1000 + i;
        m.id = i == 1;
        m.text = as_str_of(w->note[i]);
        handle(w, m);
    }
    send_told(w, true);
    assert_non_null(strstr(messages(w), "RETIRE echo-1;SPAWN echo-2;"));
    assert_null(strstr(messages(w), "echo-0"));
    close_world(w);
}

/* RUNS of a replica without a process; undecided: EXITED follows. */
static void send_dead(struct world *w, uint32_t i, bool undecided)
{
    struct as_ctl_message m = message_about(w, AS_CTL_RUNS, i);

    m.number = undecided;
    m.text = as_str_of(w->note[i]);
    handle(w, m);
}

static void an_undecided_end_is_decided_by_the_next_controller(void **state AS_UNUSED)
{
    struct world *w = open_ready();
    struct as_ctl_message m;

    w->state[0] = AS_CTL_WAITING_STATE;
    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler(w, 2, 2);
    clear_messages(w);
    send_dead(w, 0, true);
    send_exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    m = message_about(w, AS_CTL_RUNS, 1);
    m.pid = 1001;
    m.text = as_str_of(w->note[1]);
    handle(w, m);
    send_told(w, true);
    run_until(w, "SPAWN echo-0;");
    assert_null(strstr(messages(w), "echo-1"));
    assert_int_equal(w->starts[0], 2); /* the second process of the same slot */
    close_world(w);
}

static void
what_was_given_up_is_tried_again_and_stays_down_until_it_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    send_told(w, false);
    send_ready(w, 0);
    give_up(w, 0);
    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler(w, 1, 1);
    clear_messages(w);
    send_dead(w, 0, false);
    handle(w, (struct as_ctl_message){.type = AS_CTL_STAYS, .deployment = id_of("echo")});
    send_told(w, true);
    assert_string_equal(messages(w), "REMOVE echo-0;SPAWN echo-0;SERVING ;");
    send_ready(w, 0);
    assert_non_null(strstr(messages(w), "UP ;"));
    close_world(w);
}

static void ranks_are_those_of_the_processes_that_run(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    /* without its note the facts of echo-1 are unknown: it gets no slot */
    w->note[1][0] = 0;
    new_controller(w, 2, 2, true);
    assert_string_equal(messages(w), "KILL echo-1;SPAWN echo-1;SERVING ;");
    assert_non_null(strstr(w->note[0], " rank=0 "));
    assert_non_null(strstr(w->note[1], " rank=1 "));
    close_world(w);
}

static void a_process_without_a_slot_is_killed(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);
    struct as_ctl_message m = {.type = AS_CTL_RUNS,
                               .state = AS_CTL_READY_STATE,
                               .pid = 7,
                               .replica = AS_STR("default#other-0"),
                               .token = AS_STR("t")};

    handle(w, m);
    assert_string_equal(messages(w), "KILL other-0;");
    m.type = AS_CTL_EXITED;
    handle(w, m);
    assert_string_equal(messages(w), "KILL other-0;REMOVE other-0;");
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_gets_slot_token_and_name),
        cmocka_unit_test(it_starts_after_told_and_sends_complete_once),
        cmocka_unit_test(a_server_without_workers_is_complete_with_its_dispatcher),
        cmocka_unit_test(a_killed_worker_comes_back_under_a_new_token),
        cmocka_unit_test(a_start_has_a_deadline_while_there_is_a_dispatcher),
        cmocka_unit_test(an_application_that_cannot_start_is_fatal),
        cmocka_unit_test(a_deployment_without_replicas_is_down_until_one_is_ready),
        cmocka_unit_test(status_as_json_and_rows),
        cmocka_unit_test(a_given_up_replica_is_revived),
        cmocka_unit_test(max_starting_bounds_the_starts),
        cmocka_unit_test(the_first_replica_of_each_deployment_comes_first),
        cmocka_unit_test(a_new_controller_starts_nothing_that_runs),
        cmocka_unit_test(a_new_controller_starts_what_is_missing),
        cmocka_unit_test(a_worker_that_leaves_gets_a_successor_and_no_signal),
        cmocka_unit_test(the_next_controller_knows_who_leaves),
        cmocka_unit_test(an_undecided_end_is_decided_by_the_next_controller),
        cmocka_unit_test(what_was_given_up_is_tried_again_and_stays_down_until_it_is_ready),
        cmocka_unit_test(ranks_are_those_of_the_processes_that_run),
        cmocka_unit_test(a_process_without_a_slot_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
