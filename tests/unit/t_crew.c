/* Specification of ctl/crew: what workers are started with and what the dispatcher is told of them.
 * The test is the dispatcher; the interpreter is a script that prints what it got and sleeps. */
#include "ctl/crew.h"

#include "ctl/exit_code.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

struct world {
    struct as_loop *loop;
    struct as_console console;
    struct as_log log;
    struct as_app app;
    struct as_crew *crew;
    struct as_channel *channel;
    int control; /* the dispatcher's end */
    struct peer *peer;
    struct as_rand rand;
    uint64_t oom_seen;
    char python[32];
    int null;
    /* what was heard */
    struct as_buf said; /* "TYPE replica state;" of each message */
    char token[5][64];  /* the newest of echo-0, echo-1 … */
    uint32_t pid[5];
    const char *until; /* the loop stops when this was said */
    int fatal;
    uint32_t ready, stopped;
};

struct peer { /* the dispatcher; a killed one closes after its successor was opened */
    struct as_sock watch;
    struct world *world;
};

static void on_fatal(void *ctx, int code, const char *replica AS_UNUSED,
                     struct as_str reason AS_UNUSED)
{
    struct world *w = ctx;

    w->fatal = code;
    as_crew_stop(w->crew, SIGKILL, 0);
}

static void on_ready(void *ctx)
{
    struct world *w = ctx;

    w->ready++;
    as_loop_stop(w->loop);
}

static void on_stopped(void *ctx)
{
    struct world *w = ctx;

    w->stopped++;
    as_loop_stop(w->loop);
}

static void on_message(void *ctx, const struct as_ctl_message *m)
{
    as_crew_message(((struct world *)ctx)->crew, m);
}

static void on_channel_end(void *ctx)
{
    (void)ctx;
}

static void on_control(struct as_sock *s, int events AS_UNUSED)
{
    struct world *w = AS_CONTAINER(s, struct peer, watch)->world;
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message m;

    while (as_ctl_receive(s->fd, buf, &m) == 0) {
        as_buf_printf(&w->said, "%s %.*s %s;", as_ctl_type_name(m.type), AS_STR_FMT(m.replica),
                      as_ctl_state_name(m.state));
        if (m.type == AS_CTL_TOKEN || m.type == AS_CTL_REPLICA) {
            size_t i = (size_t)(m.replica.p[m.replica.n - 1] - '0');

            if (m.type == AS_CTL_TOKEN)
                snprintf(w->token[i], sizeof(w->token[i]), "%.*s", AS_STR_FMT(m.token));
            else if (m.pid)
                w->pid[i] = m.pid;
        }
    }
    as_buf_add(&w->said, "", 1);
    w->said.n--;
    if (w->until && strstr((char *)w->said.p, w->until))
        as_loop_stop(w->loop);
}

static void run_until(struct world *w, const char *said)
{
    w->until = said;
    as_loop_run(w->loop);
    w->until = NULL;
}

static void open_control(struct world *w)
{
    static const struct as_channel_ops ops = {on_message, on_channel_end};

    w->peer = as_xalloc(sizeof(*w->peer));
    w->peer->world = w;
    assert_int_equal(as_channel_open(&w->channel, w->loop, &ops, w, &w->control), 0);
    assert_int_equal(as_sock_open(&w->peer->watch, w->loop, w->control, on_control), 0);
}

static void on_peer_closed(struct as_sock *s)
{
    free(AS_CONTAINER(s, struct peer, watch));
}

static void close_control(struct world *w)
{
    as_channel_close(w->channel);
    as_sock_close(&w->peer->watch, on_peer_closed);
}

static void write_python(struct world *w, const char *script)
{
    int fd;

    snprintf(w->python, sizeof(w->python), "/tmp/as_crew_XXXXXX");
    fd = mkstemp(w->python);
    dprintf(fd, "#!/bin/sh\n%s\n", script);
    fchmod(fd, 0700);
    close(fd);
}

static struct world *open_line(const char *script, const char *app, uint32_t workers,
                               uint32_t max_starting)
{
    static const struct as_crew_ops ops = {on_fatal, on_ready, on_stopped};
    struct world *w = as_xalloc(sizeof(*w));
    struct as_buf err = {0};
    struct as_crew_conf conf = {.app = &w->app,
                                .python = w->python,
                                .target = "app.py",
                                .link = "/run/link.sock",
                                .workers = workers,
                                .max_starting = max_starting,
                                .stream_inputs = 3,
                                .stream_input_bytes = 4000,
                                .debug_errors = true};

    write_python(w, script);
    w->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    as_console_init(&w->console, w->loop, w->null);
    w->log = as_console_log(&w->console, AS_LOG_DEBUG);
    assert_int_equal(as_app_parse(&w->app, as_str_of(app), NULL, NULL, &err), 0);
    conf.child = (struct as_child_conf){
        .restart = {.base = AS_MS, .max = AS_MS, .healthy = AS_SEC, .give_up = 2},
        .start_timeout = 60 * AS_SEC,
        .rand = &w->rand,
        .oom_seen = &w->oom_seen};
    as_crew_new(&w->crew, w->loop, &conf, &ops, w, &w->console, &w->log);
    open_control(w);
    return w;
}

static struct world *open_world(const char *script)
{
    return open_line(script, "echo\techo:1\n", 2, 2);
}

static void close_world(struct world *w)
{
    if (!w->stopped) {
        as_crew_stop(w->crew, SIGKILL, 0);
        as_loop_run(w->loop);
    }
    as_crew_close(w->crew);
    close_control(w);
    as_console_close(&w->console);
    as_loop_free(w->loop);
    as_crew_free(w->crew);
    as_app_fini(&w->app);
    as_buf_fini(&w->said);
    close(w->null);
    unlink(w->python);
    free(w);
}

static void say(struct world *w, enum as_ctl_type type, const char *token)
{
    struct as_ctl_message m = {.type = type, .token = as_str_of(token), .text = AS_STR("why")};

    assert_int_equal(as_ctl_send(w->control, &m), 0);
}

/* Both workers run and are READY. */
static void become_ready(struct world *w)
{
    as_crew_set_channel(w->crew, w->channel);
    as_crew_serving(w->crew);
    as_crew_start(w->crew);
    run_until(w, "TOKEN echo-1 waiting;REPLICA echo-1 starting;");
    say(w, AS_CTL_READY, w->token[0]);
    say(w, AS_CTL_READY, w->token[1]);
    as_loop_run(w->loop); /* on_ready ends it */
    assert_int_equal(w->ready, 1);
}

static void a_worker_gets_its_place_token_and_name(void **state AS_UNUSED)
{
    struct world *w = open_world("echo \"$@\" $ANYSERVE_LINK $ANYSERVE_REPLICA $PYTHONUNBUFFERED "
                                 "${#ANYSERVE_TOKEN} > $0.out; exec sleep 1000");
    char path[64], got[256] = "", want[256];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "%s.out", w->python);
    assert_int_equal(mkfifo(path, 0600), 0); /* opening it waits for the writer */
    as_crew_start(w->crew);
    fd = open(path, O_RDONLY);
    n = read(fd, got, sizeof(got) - 1);
    assert_true(n > 0);
    got[strcspn(got, "\n")] = 0; /* the first of the two */
    snprintf(want, sizeof(want),
             "-m anyserve.worker app.py --deployment=echo --stream-inputs=3 "
             "--stream-input-bytes=4000 --debug-errors /run/link.sock %s 1 32",
             strstr(got, "echo-1") ? "echo-1" : "echo-0");
    assert_string_equal(got, want);
    close(fd);
    unlink(path);
    close_world(w);
}

static void the_dispatcher_hears_of_everything_in_order(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    become_ready(w);
    assert_string_equal((char *)w->said.p,
                        "REPLICA echo-0 waiting;REPLICA echo-1 waiting;TOLD  starting;"
                        "TOKEN echo-0 waiting;REPLICA echo-0 starting;"
                        "TOKEN echo-1 waiting;REPLICA echo-1 starting;");
    assert_string_not_equal(w->token[0], w->token[1]);
    assert_true(as_crew_has(w->crew, (pid_t)w->pid[0]));
    assert_int_equal(as_crew_ready(w->crew), 2);
    close_world(w);
}

static void a_killed_worker_comes_back_under_a_new_token(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");
    char old[64];

    become_ready(w);
    as_buf_drop(&w->said, w->said.n);
    memcpy(old, w->token[0], sizeof(old));
    kill((pid_t)w->pid[0], SIGKILL);
    run_until(w, "REPLICA echo-0 starting;");
    assert_non_null(strstr((char *)w->said.p, "FORGET echo-0 ready;REPLICA echo-0 waiting;"
                                              "TOKEN echo-0 waiting;REPLICA echo-0 starting;"));
    assert_string_not_equal(w->token[0], old);
    say(w, AS_CTL_READY, old); /* a late word about the dead one means nothing */
    say(w, AS_CTL_KILL, old);
    say(w, AS_CTL_READY, w->token[0]);
    run_until(w, "REPLICA echo-0 ready;");
    assert_int_equal(as_crew_ready(w->crew), 2);
    assert_int_equal(w->ready, 1); /* told once */
    close_world(w);
}

static void a_new_dispatcher_hears_of_all_and_then_told(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    become_ready(w);
    as_crew_set_channel(w->crew, NULL);
    assert_int_equal(as_crew_ready(w->crew), 0);
    close_control(w);
    open_control(w);
    as_buf_drop(&w->said, w->said.n);
    as_crew_set_channel(w->crew, w->channel);
    run_until(w, "TOLD");
    assert_string_equal((char *)w->said.p, "TOKEN echo-0 lost;REPLICA echo-0 lost;"
                                           "TOKEN echo-1 lost;REPLICA echo-1 lost;TOLD  starting;");
    as_crew_serving(w->crew);
    say(w, AS_CTL_READY, w->token[0]); /* the same processes under the same tokens */
    say(w, AS_CTL_READY, w->token[1]);
    run_until(w, "REPLICA echo-1 ready;");
    assert_int_equal(as_crew_ready(w->crew), 2);
    close_world(w);
}

static void a_worker_that_is_judged_is_killed(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    become_ready(w);
    say(w, AS_CTL_GONE, w->token[1]);
    run_until(w, "REPLICA echo-1 lost;");
    as_buf_drop(&w->said, w->said.n);
    say(w, AS_CTL_KILL, w->token[1]);
    run_until(w, "REPLICA echo-1 starting;");
    assert_non_null(strstr((char *)w->said.p, "FORGET echo-1"));
    close_world(w);
}

static void a_worker_that_cannot_start_ends_the_server(void **state AS_UNUSED)
{
    struct world *w = open_world("exit 70");

    as_crew_start(w->crew);
    as_loop_run(w->loop);
    assert_int_equal(w->fatal, AS_CODE_RAISED);
    assert_int_equal(w->stopped, 1);
    close_world(w);
    w = open_world("exit 1");
    as_crew_start(w->crew);
    as_loop_run(w->loop);
    assert_int_equal(w->fatal, AS_CODE_FAILED); /* after max-start-failures */
    close_world(w);
}

static void a_deployment_without_replicas_is_down_until_one_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    become_ready(w);
    assert_int_equal(chmod(w->python, 0600), 0); /* it cannot be executed any more */
    kill((pid_t)w->pid[0], SIGKILL);
    run_until(w, "REPLICA echo-0 down;");
    assert_null(strstr((char *)w->said.p, "DOWN"));
    kill((pid_t)w->pid[1], SIGKILL);
    run_until(w, "DOWN echo-1 down;");
    assert_int_equal(w->fatal, 0); /* it has been ready: the server stays */
    assert_int_equal(chmod(w->python, 0700), 0);
    as_buf_drop(&w->said, w->said.n);
    run_until(w, "REPLICA echo-1 starting;"); /* after its rest */
    assert_null(strstr((char *)w->said.p, "UP "));
    say(w, AS_CTL_READY, w->token[1]);
    run_until(w, "UP echo-1 ready;");
    close_world(w);
}

static uint32_t starting(const struct world *w)
{
    uint32_t n = 0;

    for (size_t i = 0; i < AS_COUNT(w->pid); i++)
        n += w->pid[i] != 0;
    return n;
}

static void only_so_many_start_at_once(void **state AS_UNUSED)
{
    struct world *w = open_line("exec sleep 1000", "echo\techo:1\n", 3, 2);
    char token[64];

    as_crew_set_channel(w->crew, w->channel);
    as_crew_serving(w->crew);
    as_crew_start(w->crew);
    run_until(w, "TOKEN echo-2 waiting;REPLICA echo-2 waiting;"); /* its token is known already */
    assert_int_equal(starting(w), 2);
    memcpy(token, w->token[2], sizeof(token));
    as_buf_drop(&w->said, w->said.n);
    say(w, AS_CTL_READY, w->token[1]);
    run_until(w, "REPLICA echo-2 starting;");
    assert_string_equal((char *)w->said.p, "REPLICA echo-1 ready;REPLICA echo-2 starting;");
    assert_string_equal(token, w->token[2]);
    close_world(w);
    w = open_line("exec sleep 1000", "echo\techo:1\n", 3, 3);
    as_crew_set_channel(w->crew, w->channel);
    as_crew_start(w->crew);
    run_until(w, "REPLICA echo-2 starting;");
    assert_int_equal(starting(w), 3);
    close_world(w);
}

static void a_death_makes_room_for_the_next_in_line(void **state AS_UNUSED)
{
    struct world *w = open_line("exec sleep 1000", "echo\techo:1\n", 2, 1);
    const char *next;

    as_crew_set_channel(w->crew, w->channel);
    as_crew_start(w->crew);
    run_until(w, "TOKEN echo-1 waiting;REPLICA echo-1 waiting;");
    as_buf_drop(&w->said, w->said.n);
    kill((pid_t)w->pid[0], SIGKILL);
    run_until(w, "TOKEN echo-0 waiting;");
    next = strstr((char *)w->said.p, "REPLICA echo-1 starting;");
    assert_true(next && next < strstr((char *)w->said.p, "TOKEN echo-0 waiting;"));
    close_world(w); /* one stands in line still */
}

static void a_new_dispatcher_hears_of_the_line_too(void **state AS_UNUSED)
{
    struct world *w = open_line("exec sleep 1000", "echo\techo:1\n", 2, 1);

    as_crew_start(w->crew);
    as_crew_set_channel(w->crew, w->channel);
    run_until(w, "TOLD");
    assert_string_equal((char *)w->said.p, "TOKEN echo-0 starting;REPLICA echo-0 starting;"
                                           "TOKEN echo-1 waiting;REPLICA echo-1 waiting;"
                                           "TOLD  starting;");
    close_world(w);
}

static void each_deployment_gets_its_first_one_first(void **state AS_UNUSED)
{
    struct world *w = open_line("exec sleep 1000", "a\ta:1\nb\tb:1\n", 2, 2);

    as_crew_set_channel(w->crew, w->channel);
    as_crew_start(w->crew);
    run_until(w, "TOKEN b-1 waiting;");
    assert_non_null(strstr((char *)w->said.p, "TOKEN a-0 waiting;REPLICA a-0 starting;"
                                              "TOKEN b-0 waiting;REPLICA b-0 starting;"
                                              "TOKEN a-1 waiting;"));
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_gets_its_place_token_and_name),
        cmocka_unit_test(the_dispatcher_hears_of_everything_in_order),
        cmocka_unit_test(a_killed_worker_comes_back_under_a_new_token),
        cmocka_unit_test(a_new_dispatcher_hears_of_all_and_then_told),
        cmocka_unit_test(a_worker_that_is_judged_is_killed),
        cmocka_unit_test(a_worker_that_cannot_start_ends_the_server),
        cmocka_unit_test(only_so_many_start_at_once),
        cmocka_unit_test(a_death_makes_room_for_the_next_in_line),
        cmocka_unit_test(a_new_dispatcher_hears_of_the_line_too),
        cmocka_unit_test(each_deployment_gets_its_first_one_first),
        cmocka_unit_test(a_deployment_without_replicas_is_down_until_one_is_ready),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
