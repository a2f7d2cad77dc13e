/* Specification of ctl/supervise/process: one process, /bin/sh, to its end. */
#include "ctl/supervise/process.h"

#include "ctl/supervise/memory_limit.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct world {
    struct as_loop *loop;
    struct as_process *process;
    struct as_process_end end; /* without its texts, which were valid in the callback only */
    struct as_buf printed;     /* lines, each with ';' */
    char reason[512], last[64];
    uint64_t oom_seen;
    bool stop_on_line;
};

static void on_line(void *ctx, struct as_str line)
{
    struct world *w = ctx;

    as_buf_printf(&w->printed, "%.*s;", AS_STR_FMT(line));
    if (w->stop_on_line)
        as_loop_stop(w->loop);
}

static void on_end(void *ctx, const struct as_process_end *end)
{
    struct world *w = ctx;

    w->end = *end;
    snprintf(w->reason, sizeof(w->reason), "%.*s", AS_STR_FMT(end->reason));
    snprintf(w->last, sizeof(w->last), "%.*s", AS_STR_FMT(end->last));
    w->process = NULL;
    as_loop_stop(w->loop);
}

static struct world *open_world(const char *script)
{
    static const struct as_process_ops ops = {on_line, on_end};
    const char *argv[] = {"sh", "-c", script, NULL};
    struct as_proc_spec spec = {.path = "/bin/sh", .argv = argv, .in = -1, .group = true};
    struct world *w = as_xalloc(sizeof(*w));
    int e;

    w->oom_seen = as_memory_limit_oom_kills("");
    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    assert_int_equal(as_process_start(&w->process, w->loop, &spec, true, &w->oom_seen, &ops, w, &e),
                     0);
    assert_true(as_process_pid(w->process) > 0);
    return w;
}

static void run_until_line(struct world *w)
{
    w->stop_on_line = true;
    as_loop_run(w->loop);
    w->stop_on_line = false;
}

static void run_to_end(struct world *w)
{
    if (w->process)
        as_loop_run(w->loop);
    assert_null(w->process);
    as_buf_add(&w->printed, "", 1);
}

static void close_world(struct world *w)
{
    as_loop_free(w->loop);
    as_buf_fini(&w->printed);
    free(w);
}

static void lines_and_end_are_reported(void **state AS_UNUSED)
{
    struct world *w = open_world("echo on its way; echo 'no weights' >&2; echo; exit 3");

    run_to_end(w);
    assert_string_equal((char *)w->printed.p, "on its way;no weights;;");
    assert_int_equal(w->end.status, 3 << 8);
    assert_int_equal(w->end.kind, AS_EXIT_CODE);
    assert_string_equal(w->reason, "exit code 3\non its way\nno weights\n\n");
    assert_string_equal(w->last, "no weights");
    close_world(w);
}

static void a_kill_from_outside_and_a_crash_are_told_apart(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    kill(as_process_pid(w->process), SIGKILL);
    run_to_end(w);
    assert_int_equal(w->end.kind, AS_EXIT_KILLED);
    assert_string_equal(w->reason, "signal 9 (SIGKILL)\n");
    close_world(w);
    w = open_world("kill -SEGV $$");
    run_to_end(w);
    assert_int_equal(w->end.kind, AS_EXIT_CRASH);
    close_world(w);
}

/* The kernel killed two before the first end was seen; the third was killed by somebody else. */
static void each_kill_of_the_kernel_explains_one_end(void **state AS_UNUSED)
{
    const enum as_exit_kind wanted[] = {AS_EXIT_OOM, AS_EXIT_OOM, AS_EXIT_KILLED};
    uint64_t seen = as_memory_limit_oom_kills("") - 2;

    for (size_t i = 0; i < AS_COUNT(wanted); i++) {
        struct world *w = open_world("exec sleep 1000");

        w->oom_seen = seen;
        kill(as_process_pid(w->process), SIGKILL);
        run_to_end(w);
        assert_int_equal(w->end.kind, wanted[i]);
        seen = w->oom_seen;
        close_world(w);
    }
}

static void our_kill_is_a_crash_with_the_first_reason(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    as_process_kill(w->process, AS_STR("it hangs"));
    as_process_kill(w->process, AS_STR("it hangs still"));
    run_to_end(w);
    assert_int_equal(w->end.kind, AS_EXIT_CRASH);
    assert_string_equal(w->reason, "signal 9 (SIGKILL): it hangs\n");
    close_world(w);
}

/* SIGKILL goes to the group, SIGABRT to the process alone. */
static void one_that_hangs_is_aborted_then_killed(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    as_process_abort(w->process, AS_STR("it hangs"));
    as_process_abort(w->process, AS_STR("it hangs still"));
    run_to_end(w);
    assert_int_equal(w->end.kind, AS_EXIT_CRASH);
    assert_string_equal(w->reason, "signal 6 (SIGABRT): it hangs\n");
    close_world(w);
    /* a process that ignores SIGABRT, and is asked to stop later */
    w = open_world("trap '' ABRT; echo up; while :; do sleep 0.01; done");
    run_until_line(w);
    as_process_abort(w->process, AS_STR("it hangs"));
    as_process_stop(w->process, 0, 1000 * AS_SEC);
    run_to_end(w);
    assert_int_equal(w->end.status, SIGKILL);
    close_world(w);
}

static void stopping_asks_first_and_kills_after_the_timeout(void **state AS_UNUSED)
{
    struct world *w = open_world("trap 'echo asked' TERM; echo up; while :; do sleep 0.01; done");

    run_until_line(w);
    as_process_stop(w->process, SIGTERM, 60 * AS_SEC);
    run_until_line(w);
    as_process_stop(w->process, 0, 0); /* again, with a shorter timeout */
    run_to_end(w);
    assert_string_equal((char *)w->printed.p, "up;asked;");
    assert_int_equal(w->end.kind, AS_EXIT_STOPPED);
    assert_int_equal(WTERMSIG(w->end.status), SIGKILL);
    close_world(w);
}

static void a_process_that_was_asked_to_end_has_stopped(void **state AS_UNUSED)
{
    struct world *w = open_world("trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done");

    run_until_line(w);
    as_process_stop(w->process, SIGTERM, 60 * AS_SEC);
    run_to_end(w);
    assert_int_equal(w->end.kind, AS_EXIT_STOPPED);
    assert_int_equal(WEXITSTATUS(w->end.status), 7);
    close_world(w);
}

static void its_group_ends_with_it(void **state AS_UNUSED)
{
    struct world *w = open_world("sleep 1000 & echo $!; exit 0");
    pid_t member;

    run_to_end(w);
    member = (pid_t)strtol((char *)w->printed.p, NULL, 10);
    /* dead, but perhaps not reaped by its new parent yet */
    while (kill(member, 0) == 0) {
        char path[64], state_of[16] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)member);
        f = fopen(path, "re");
        if (!f)
            break;
        assert_int_equal(fscanf(f, "%*d %*s %15s", state_of), 1);
        fclose(f);
        if (state_of[0] == 'Z' || state_of[0] == 'X')
            break;
    }
    close_world(w);
}

static void an_open_pipe_does_not_hide_a_death(void **state AS_UNUSED)
{
    struct world *w = open_world("setsid sleep 1000 & echo $!; exit 1");
    pid_t escaped;

    run_to_end(w);
    assert_int_equal(w->end.status, 1 << 8);
    escaped = (pid_t)strtol((char *)w->printed.p, NULL, 10);
    assert_int_equal(kill(escaped, SIGKILL), 0); /* it lives, and holds the pipe open */
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_end_are_reported),
        cmocka_unit_test(a_kill_from_outside_and_a_crash_are_told_apart),
        cmocka_unit_test(each_kill_of_the_kernel_explains_one_end),
        cmocka_unit_test(our_kill_is_a_crash_with_the_first_reason),
        cmocka_unit_test(one_that_hangs_is_aborted_then_killed),
        cmocka_unit_test(stopping_asks_first_and_kills_after_the_timeout),
        cmocka_unit_test(a_process_that_was_asked_to_end_has_stopped),
        cmocka_unit_test(its_group_ends_with_it),
        cmocka_unit_test(an_open_pipe_does_not_hide_a_death),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
