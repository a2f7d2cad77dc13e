/* Specification of ctl/supervise/workers: processes, and the messages to dispatcher and controller.
 * The test is the dispatcher and the controller; /bin/sh is the worker. */
#include "ctl/supervise/workers.h"

#include "workers_world.h"

#include <sched.h>

static void a_worker_is_started_watched_and_reported(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    assert_string_equal(received(w->dispatcher),
                        "TOKEN echo-0 waiting ;REPLICA echo-0 starting ;NOTE echo-0 starting ;");
    assert_true(as_workers_owns_pid(w->workers, (pid_t)w->pid));
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", "echo:1"));
    run_until(w, "REPLICA echo-0 ready");
    send_message(w->dispatcher, message_about(AS_CTL_GONE, "echo-0", "t1", "end"));
    run_until(w, "REPLICA echo-0 lost");
    clear_received(w);
    kill((pid_t)w->pid, SIGKILL);
    run_until(w, "EXITED");
    assert_string_equal(received(w->controller), "EXITED echo-0 waiting signal 9 (SIGKILL)\n;");
    assert_int_equal(w->kind, AS_EXIT_KILLED);
    assert_int_equal(w->number, SIGKILL);
    assert_string_equal(received(w->dispatcher),
                        "FORGET echo-0 lost ;REPLICA echo-0 waiting signal 9 (SIGKILL)\n;");
    assert_false(as_workers_owns_pid(w->workers, (pid_t)w->pid));
    close_world(w);
}

static void a_failed_start_is_an_end(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_ctl_message m = message_about(AS_CTL_SPAWN, "echo-0", "t1", "no text of ours");

    send_message(w->controller, m);
    run_until(w, "EXITED echo-0 waiting its SPAWN message cannot be read\n;");
    clear_received(w);
    m.text = AS_STR("\x0a\x10/no/such/program"); /* one argument */
    send_message(w->controller, m);
    run_until(w,
              "EXITED echo-0 waiting cannot start /no/such/program: No such file or directory\n;");
    assert_int_equal(w->number, 127 << 8);
    assert_int_equal(w->kind, AS_EXIT_CODE);
    close_world(w);
}

static void spawn_bounded(struct world *w, const char *script, const char *dir, const char *cpus,
                          uint64_t memory)
{
    struct as_ctl_message m = message_about(AS_CTL_SPAWN, "echo-0", "t1", "");
    struct as_buf text;

    as_buf_init(&text);
    as_spawn_put(&text, AS_SPAWN_ARG, "/bin/sh");
    as_spawn_put(&text, AS_SPAWN_ARG, "-c");
    as_spawn_put(&text, AS_SPAWN_ARG, "%s", script);
    if (dir)
        as_spawn_put(&text, AS_SPAWN_DIR, "%s", dir);
    if (cpus)
        as_spawn_put(&text, AS_SPAWN_CPUS, "%s", cpus);
    if (memory)
        as_spawn_put_number(&text, AS_SPAWN_MEMORY, memory);
    m.text = as_buf_slice(&text);
    send_message(w->controller, m);
    as_buf_fini(&text);
    run_until(w, "EXITED");
    as_buf_drop(&w->dispatcher->received, w->dispatcher->received.n);
}

static void a_worker_starts_in_its_folder_on_its_cpus(void **state AS_UNUSED)
{
    struct world *w = open_world();
    char script[200], list[16];
    unsigned cpu = 0;
    cpu_set_t ours;

    assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
    while (!CPU_ISSET(cpu, &ours))
        cpu++;
    snprintf(list, sizeof(list), "%u", cpu);
    snprintf(
        script, sizeof(script),
        "[ $(pwd) = /proc ] && grep -q 'Cpus_allowed_list:[[:space:]]*%u$' self/status && exit 7",
        cpu);
    spawn_bounded(w, script, "/proc", list, 0);
    assert_int_equal(w->number, 7 << 8);
    clear_received(w);
    spawn_bounded(w, "exit 0", "/no/such", NULL, 0);
    assert_non_null(
        strstr(received(w->controller), "cannot start in /no/such: No such file or directory\n"));
    clear_received(w);
    spawn_bounded(w, "exit 0", NULL, "1023", 0);
    assert_non_null(strstr(received(w->controller), "cannot run on the CPUs 1023: "));
    close_world(w);
}

/* Killed by its control group if one can be made; else RLIMIT_DATA makes the allocation fail. */
static void a_worker_has_a_memory_limit(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_cgroup probe;
    int e;
    bool grouped = as_cgroup_open(&probe, "", "probe", 32 << 20, &e) == 0;

    if (grouped)
        as_cgroup_close(&probe);
    for (int i = 0; i < 2;
         i++) { /* the same replica twice: the control group was removed with the process */
        clear_received(w);
        spawn_bounded(w, "exec dd bs=200M count=1 if=/dev/zero of=/dev/null", NULL, NULL, 32 << 20);
        if (grouped) {
            assert_int_equal(w->kind, AS_EXIT_OOM);
            assert_non_null(strstr(received(w->controller),
                                   "signal 9 (SIGKILL): it exceeded its memory limit\n"));
        } else {
            assert_int_equal(w->number, 1 << 8);
        }
    }
    close_world(w);
}

static void the_dispatchers_kill_needs_no_controller(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    as_workers_set_controller(w->workers, NULL);
    send_message(w->dispatcher, message_about(AS_CTL_KILL, "echo-0", "t0", "of an earlier life"));
    send_message(w->dispatcher, message_about(AS_CTL_KILL, "echo-0", "t1", "it hangs"));
    run_until(w, "REPLICA echo-0 waiting signal 9 (SIGKILL): it hangs\n;");
    close_world(w);
}

static void a_new_controller_gets_the_whole_state(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    send_message(w->controller, message_about(AS_CTL_NOTE, "echo-0", "", "rank 0"));
    spawn(w, "echo-1", "t2", "exit 3");
    run_until(w, "EXITED echo-1");
    send_message(w->controller, message_about(AS_CTL_NOTE, "echo-1", "", "rank 1"));
    send_message(w->controller, message_about(AS_CTL_PLACE, "echo-2", "", "others are starting"));
    run_until(w, "REPLICA echo-2 waiting others are starting");
    as_workers_set_controller(w->workers, NULL);
    close_peer(w->controller);
    w->controller = open_peer(w);
    as_workers_set_controller(w->workers, w->controller->channel);
    run_until(w, "RUNS echo-2");
    assert_string_equal(received(w->controller),
                        "RUNS echo-0 starting rank 0;RUNS echo-1 waiting rank 1;"
                        "EXITED echo-1 waiting exit code 3\n;RUNS echo-2 waiting ;");
    assert_int_equal(w->number, 3 << 8);
    close_world(w);
}

static void a_second_start_of_a_replica_is_ignored(void **state AS_UNUSED)
{
    struct world *w = open_world();
    uint32_t first;

    run_one(w);
    first = w->pid;
    clear_received(w);
    spawn(w, "echo-0", "t2", "exec sleep 1000");
    send_message(w->controller, message_about(AS_CTL_REMOVE, "echo-0", "", ""));
    send_message(w->controller, message_about(AS_CTL_PLACE, "echo-0", "", "none"));
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    assert_string_equal(received(w->dispatcher), "REPLICA echo-0 ready ;");
    assert_int_equal(w->pid, first);
    close_world(w);
}

static void a_new_dispatcher_gets_the_whole_state_then_told(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    send_message(w->controller, message_about(AS_CTL_NOTE, "echo-0", "", "rank 0"));
    send_message(w->controller, message_about(AS_CTL_STATUS, "", "", "UNHEALTHY - why"));
    send_message(w->controller, message_about(AS_CTL_DOWN, "", "", "broken"));
    run_until(w, "DOWN  starting broken");
    as_workers_controller_ready(w->workers); /* TOLD is sent now, since the controller is ready */
    run_until(w, "TOLD");
    clear_received(w);
    as_workers_set_dispatcher(w->workers, NULL);
    close_peer(w->dispatcher);
    w->dispatcher = open_peer(w);
    as_workers_set_dispatcher(w->workers, w->dispatcher->channel);
    run_until(w, "TOLD");
    assert_string_equal(received(w->dispatcher),
                        "TOKEN echo-0 lost ;REPLICA echo-0 lost ;"
                        "NOTE echo-0 lost rank 0;DOWN  starting broken;"
                        "STATUS  starting UNHEALTHY - why;TOLD  starting ;");
    send_message(w->controller, message_about(AS_CTL_UP, "", "", ""));
    run_until(w, "UP ");
    /* the same process */
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    close_world(w);
}

static void a_worker_that_is_asked_to_end_is_stopped(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_ctl_message m = message_about(AS_CTL_SIGNAL, "", "t1", "");

    run_one(w);
    m.number = SIGTERM;
    m.ns = 60 * AS_SEC;
    send_message(w->controller, m);
    run_until(w, "REPLICA echo-0 stopping");
    run_until(w, "EXITED");
    assert_int_equal(w->kind, AS_EXIT_STOPPED);
    clear_received(w);
    send_message(w->controller, message_about(AS_CTL_REMOVE, "echo-0", "", ""));
    spawn(w, "echo-1", "t2", "exec sleep 1000");
    run_until(w, "SPAWNED echo-1");
    as_workers_set_controller(w->workers, NULL);
    clear_received(w);
    as_workers_set_controller(w->workers, w->controller->channel);
    run_until(w, "RUNS");
    assert_string_equal(received(w->controller), "RUNS echo-1 starting ;");
    close_world(w);
}

/* The controller may have been dead when the dispatcher said so. */
static void a_new_controller_is_told_who_leaves(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_ctl_message m = message_about(AS_CTL_LEAVES, "echo-0", "t1", "");

    run_one(w);
    for (int i = 0; i < 2; i++) {
        if (i == 1) /* during an upgrade the former dispatcher may be the one that knows */
            assert_true(as_workers_handle_former(w->workers, &m));
        as_workers_set_controller(w->workers, NULL);
        clear_received(w);
        as_workers_set_controller(w->workers, w->controller->channel);
        run_until(w, "RUNS echo-0");
        assert_int_equal(w->leaves, i);
    }
    kill((pid_t)w->pid, SIGKILL); /* the next process does not */
    run_until(w, "EXITED echo-0");
    spawn(w, "echo-0", "t2", "exec sleep 1000");
    run_until(w, "SPAWNED echo-0");
    as_workers_set_controller(w->workers, NULL);
    clear_received(w);
    as_workers_set_controller(w->workers, w->controller->channel);
    run_until(w, "RUNS echo-0");
    assert_int_equal(w->leaves, 0);
    close_world(w);
}

static void nothing_is_started_after_stop(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    as_workers_stop(w->workers, SIGTERM, 60 * AS_SEC);
    spawn(w, "echo-1", "t2", "exec sleep 1000");
    as_loop_run(w->loop);
    assert_int_equal(w->stopped, 1);
    assert_null(strstr(received(w->controller), "SPAWNED echo-1"));
    close_world(w);
}

static struct as_ctl_message qualify(const struct world *w, struct as_ctl_message said)
{
    static struct as_workers_names names;

    return as_workers_qualify(w->workers, &said, &names);
}

/* Their names were unique in a server. */
static void a_message_of_an_earlier_version_gets_ids(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_ctl_message m;

    as_workers_handle(w->workers, &(struct as_ctl_message){.type = AS_CTL_PLACE,
                                                           .state = AS_CTL_DOWN_STATE,
                                                           .replica = AS_STR("shop#main-0"),
                                                           .deployment = AS_STR("shop#main")});
    m = qualify(w, (struct as_ctl_message){.type = AS_CTL_REMOVE, .replica = AS_STR("main-0")});
    assert_true(as_str_eq(m.replica, AS_STR("shop#main-0")));
    assert_int_equal(m.deployment.n, 0);
    m = qualify(w, (struct as_ctl_message){.type = AS_CTL_MODEL,
                                           .deployment = AS_STR("main"),
                                           .replica = AS_STR("m:1")});
    assert_true(as_str_eq(m.deployment, AS_STR("shop#main")));
    assert_true(as_str_eq(m.replica, AS_STR("m:1")));
    m = qualify(w, (struct as_ctl_message){.type = AS_CTL_STATUS,
                                           .deployment = AS_STR("new"),
                                           .replica = AS_STR("extra")});
    assert_true(as_str_eq(m.deployment, AS_STR("extra#new")));
    assert_true(as_str_eq(m.replica, AS_STR("extra")));
    m = qualify(w, (struct as_ctl_message){.type = AS_CTL_SPAWN,
                                           .deployment = AS_STR("main"),
                                           .replica = AS_STR("main-1"),
                                           .token = AS_STR("t")});
    assert_true(as_str_eq(m.deployment, AS_STR("shop#main")));
    assert_true(as_str_eq(m.replica, AS_STR("shop#main-1")));
    m = qualify(w, (struct as_ctl_message){.type = AS_CTL_UP, .deployment = AS_STR("unheard")});
    assert_true(as_str_eq(m.deployment, AS_STR("default#unheard")));
    m = qualify(w, (struct as_ctl_message){.type = AS_CTL_FEWER, .replica = AS_STR("worker")});
    assert_true(as_str_eq(m.replica, AS_STR("worker")));
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_is_started_watched_and_reported),
        cmocka_unit_test(a_failed_start_is_an_end),
        cmocka_unit_test(a_worker_starts_in_its_folder_on_its_cpus),
        cmocka_unit_test(a_worker_has_a_memory_limit),
        cmocka_unit_test(the_dispatchers_kill_needs_no_controller),
        cmocka_unit_test(a_new_controller_gets_the_whole_state),
        cmocka_unit_test(a_second_start_of_a_replica_is_ignored),
        cmocka_unit_test(a_new_dispatcher_gets_the_whole_state_then_told),
        cmocka_unit_test(a_worker_that_is_asked_to_end_is_stopped),
        cmocka_unit_test(a_new_controller_is_told_who_leaves),
        cmocka_unit_test(nothing_is_started_after_stop),
        cmocka_unit_test(a_message_of_an_earlier_version_gets_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
