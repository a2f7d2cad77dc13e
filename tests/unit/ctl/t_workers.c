/* Specification of ctl/supervise/workers: processes, and the messages to dispatcher and controller.
 * The test is the dispatcher and the controller; /bin/sh is the worker. */
#include "ctl/supervise/workers.h"

#include "ctl/message/spawn.h"
#include "unit.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

struct peer { /* the other end of a channel; that of a killed process closes after the next one was
                 opened */
    struct as_sock watch;
    struct world *world;
    struct as_channel *channel;
    struct as_buf received; /* "TYPE replica state text;" of each message */
};

struct world {
    struct as_loop *loop;
    struct as_console console;
    struct as_log log;
    struct as_workers *workers;
    struct peer *dispatcher, *controller;
    uint64_t oom_seen;
    int null;
    uint32_t pid; /* of the last message */
    uint32_t kind, number;
    const char *until; /* the loop stops when a peer has received this */
    uint32_t stopped;
};

static void on_message(void *ctx, const struct as_ctl_message *m)
{
    as_workers_handle(((struct world *)ctx)->workers, m);
}

static void on_channel_end(void *ctx)
{
    (void)ctx;
}

static const char *received(struct peer *p)
{
    as_buf_add(&p->received, "", 1);
    p->received.n--;
    return (char *)p->received.p;
}

static void on_readable(struct as_sock *s, int events AS_UNUSED)
{
    struct peer *p = AS_CONTAINER(s, struct peer, watch);
    struct world *w = p->world;
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message m;

    while (as_ctl_receive(s->fd, buf, &m) == 0) {
        as_buf_printf(&p->received, "%s %.*s %s %.*s;", as_ctl_type_name(m.type),
                      AS_STR_FMT(m.replica), as_ctl_state_name(m.state), AS_STR_FMT(m.text));
        if (m.pid)
            w->pid = m.pid;
        if (m.type == AS_CTL_KNOWN)
            w->number = m.number;
        if (m.type == AS_CTL_EXITED) {
            w->kind = m.kind;
            w->number = m.number;
        }
    }
    if (w->until && strstr(received(p), w->until))
        as_loop_stop(w->loop);
}

static void run_until(struct world *w, const char *said)
{
    w->until = said;
    if (!strstr(received(w->dispatcher), said) && !strstr(received(w->controller), said))
        as_loop_run(w->loop);
    w->until = NULL;
}

static struct peer *open_peer(struct world *w)
{
    static const struct as_channel_ops ops = {on_message, on_channel_end};
    struct peer *p = as_xalloc(sizeof(*p));
    int fd;

    p->world = w;
    assert_int_equal(as_channel_open(&p->channel, w->loop, &ops, w, &fd), 0);
    assert_int_equal(as_sock_open(&p->watch, w->loop, fd, on_readable), 0);
    return p;
}

static void on_peer_closed(struct as_sock *s)
{
    struct peer *p = AS_CONTAINER(s, struct peer, watch);

    as_buf_fini(&p->received);
    free(p);
}

static void close_peer(struct peer *p)
{
    as_channel_close(p->channel);
    as_sock_close(&p->watch, on_peer_closed);
}

static void on_stopped(void *ctx)
{
    struct world *w = ctx;

    w->stopped++;
    as_loop_stop(w->loop);
}

static struct world *open_world(void)
{
    struct world *w = as_xalloc(sizeof(*w));
    struct as_workers_conf conf = {.oom_seen = &w->oom_seen, .on_stopped = on_stopped, .ctx = w};

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    w->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    as_console_init(&w->console, w->loop, w->null);
    w->log = as_console_log(&w->console, AS_LOG_ERROR);
    assert_int_equal(as_workers_new(&w->workers, w->loop, &conf, &w->console, &w->log), 0);
    w->dispatcher = open_peer(w);
    w->controller = open_peer(w);
    as_workers_set_dispatcher(w->workers, w->dispatcher->channel);
    as_workers_set_controller(w->workers, w->controller->channel);
    return w;
}

static void close_world(struct world *w)
{
    as_workers_stop(w->workers, SIGKILL, 0);
    while (!w->stopped)
        as_loop_run(w->loop);
    as_workers_close(w->workers);
    close_peer(w->dispatcher);
    close_peer(w->controller);
    as_console_close(&w->console);
    as_loop_free(w->loop);
    as_workers_free(w->workers);
    close(w->null);
    free(w);
}

static void clear_received(struct world *w)
{
    as_buf_drop(&w->dispatcher->received, w->dispatcher->received.n);
    as_buf_drop(&w->controller->received, w->controller->received.n);
}

/* Through the socket, as dispatcher and controller do. */
static void send_message(struct peer *p, struct as_ctl_message m)
{
    assert_int_equal(as_ctl_send(p->watch.fd, &m), 0);
}

static struct as_ctl_message message_about(enum as_ctl_type type, const char *replica,
                                           const char *token, const char *text)
{
    return (struct as_ctl_message){.type = type,
                                   .state = AS_CTL_WAITING_STATE,
                                   .replica = as_str_of(replica),
                                   .deployment = AS_STR("echo"),
                                   .token = as_str_of(token),
                                   .text = as_str_of(text)};
}

static void spawn(struct world *w, const char *replica, const char *token, const char *script)
{
    struct as_ctl_message m = message_about(AS_CTL_SPAWN, replica, token, "");
    struct as_buf text;

    as_buf_init(&text);
    as_spawn_put(&text, AS_SPAWN_ARG, "/bin/sh");
    as_spawn_put(&text, AS_SPAWN_ARG, "-c");
    as_spawn_put(&text, AS_SPAWN_ARG, "%s", script);
    m.text = as_buf_slice(&text);
    send_message(w->controller, m);
    as_buf_fini(&text);
}

static void run_one(struct world *w)
{
    spawn(w, "echo-0", "t1", "exec sleep 1000");
    run_until(w, "SPAWNED echo-0");
    run_until(w, "NOTE echo-0 starting");
}

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

static void begin_another_dispatcher(struct world *w)
{
    as_workers_set_dispatcher(w->workers, NULL);
    close_peer(w->dispatcher);
    w->dispatcher = open_peer(w);
    as_workers_set_dispatcher(w->workers, w->dispatcher->channel);
    run_until(w, "TOLD");
}

static void model(struct world *w, const char *name, const char *text, bool whole)
{
    struct as_ctl_message m = message_about(AS_CTL_MODEL, name, "", text);

    m.number = whole;
    send_message(w->dispatcher, m);
}

static void a_new_dispatcher_knows_the_models(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    as_workers_controller_ready(w->workers);
    model(w, "old:1", "REGISTER", false);
    model(w, "echo:1", "REGISTER", false);
    model(w, "", "OPTIONS", true);
    model(w, "old:1", "", false);
    model(w, "echo:2", "REGISTER 2", false);
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    as_workers_set_controller(w->workers, NULL); /* it is not asked */
    for (int i = 0; i < 2; i++) {
        begin_another_dispatcher(w);
        assert_string_equal(received(w->dispatcher),
                            "TOKEN echo-0 lost ;REPLICA echo-0 lost ;NOTE echo-0 lost ;"
                            "KNOWN echo:1 starting REGISTER;KNOWN echo:2 starting REGISTER 2;"
                            "KNOWN  starting OPTIONS;TOLD  starting ;");
        assert_int_equal(w->number, 1);
    }
    close_world(w);
}

static void models_go_with_their_deployment(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    as_workers_controller_ready(w->workers);
    model(w, "echo:1", "REGISTER", false);
    send_message(w->dispatcher, message_about(AS_CTL_READY, "echo-0", "t1", ""));
    run_until(w, "REPLICA echo-0 ready");
    send_message(w->controller, message_about(AS_CTL_DELETE, "", "", ""));
    run_until(w, "DELETE");
    begin_another_dispatcher(w);
    assert_null(strstr(received(w->dispatcher), "KNOWN"));
    kill((pid_t)w->pid, SIGKILL);
    run_until(w, "EXITED");
    model(w, "echo:1", "REGISTER", false); /* it was on its way when the process ended */
    send_message(w->dispatcher, message_about(AS_CTL_KILL, "echo-0", "t1", ""));
    send_message(w->controller, message_about(AS_CTL_PLACE, "echo-0", "", "behind it"));
    run_until(w, "behind it");
    begin_another_dispatcher(w);
    assert_null(strstr(received(w->dispatcher), "KNOWN"));
    close_world(w);
}

/* Until its last replica has ended: else its name would count as one that a replica may bring. */
static void a_new_dispatcher_knows_what_is_being_removed(void **state AS_UNUSED)
{
    struct world *w = open_world();

    run_one(w);
    as_workers_controller_ready(w->workers);
    send_message(w->controller, message_about(AS_CTL_DELETE, "", "", ""));
    send_message(w->controller, message_about(AS_CTL_STATUS, "shop", "", "UPDATING DELETING "));
    run_until(w, "STATUS");
    begin_another_dispatcher(w);
    assert_string_equal(received(w->dispatcher),
                        "TOKEN echo-0 starting ;REPLICA echo-0 starting ;NOTE echo-0 starting ;"
                        "DELETE  starting ;STATUS shop starting UPDATING DELETING ;"
                        "TOLD  starting ;");
    send_message(w->controller, message_about(AS_CTL_STATUS, "shop", "", /* it is served again */
                                              "UPDATING CONFIG_UPDATE_STARTED "));
    run_until(w, "STARTED");
    begin_another_dispatcher(w);
    assert_null(strstr(received(w->dispatcher), "DELETE"));
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
        cmocka_unit_test(a_new_dispatcher_knows_the_models),
        cmocka_unit_test(models_go_with_their_deployment),
        cmocka_unit_test(a_new_dispatcher_knows_what_is_being_removed),
        cmocka_unit_test(a_worker_that_is_asked_to_end_is_stopped),
        cmocka_unit_test(nothing_is_started_after_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
