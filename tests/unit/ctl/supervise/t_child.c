/* Specification of ctl/supervise/child: a child that is started again; its processes are /bin/sh.
 */
#include "ctl/supervise/child.h"

#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

struct world {
    struct as_child child;
    struct as_loop *loop;
    const char *script;
    enum as_ctl_state until; /* the loop stops there */
    uint32_t deaths;
    struct as_child_death last;
    uint64_t oom_seen;
    struct as_rand rand;
    bool stop_on_death;
    bool talks; /* its output is a pipe */
    char lines[128];
};

static struct world *world_of(struct as_child *c)
{
    return AS_CONTAINER(c, struct world, child);
}

static int spawn(struct as_child *c, const struct as_process_ops *ops, struct as_process **ret_p,
                 struct as_buf *err)
{
    struct world *w = world_of(c);
    const char *argv[] = {"sh", "-c", w->script, NULL};
    struct as_proc_spec spec = {
        .path = "/bin/sh", .argv = argv, .in = -1, .out = -1, .err = -1, .group = true};
    int e;

    if (!w->script) {
        as_buf_str(err, "no script");
        return AS_ENOTFOUND;
    }
    return as_process_start(ret_p, w->loop, &spec, w->talks, &w->oom_seen, ops, c, &e);
}

static void on_line(struct as_child *c, struct as_str line)
{
    struct world *w = world_of(c);
    size_t n = strlen(w->lines);

    snprintf(w->lines + n, sizeof(w->lines) - n, "%.*s|", AS_STR_FMT(line));
}

static void on_died(struct as_child *c, const struct as_child_death *d)
{
    struct world *w = world_of(c);

    w->last = *d;
    w->deaths++;
    if (w->stop_on_death)
        as_child_stop(c, SIGTERM, 0);
}

static void on_moved(struct as_child *c, enum as_ctl_state from AS_UNUSED)
{
    if (c->state == world_of(c)->until)
        as_loop_stop(c->loop);
}

static struct world *open_world(const char *script)
{
    static const struct as_child_ops ops = {
        .spawn = spawn, .on_line = on_line, .on_died = on_died, .on_state_changed = on_moved};
    struct world *w = as_xalloc(sizeof(*w));
    struct as_child_conf conf = {
        .restart = {.base = AS_MS, .max = 4 * AS_MS, .healthy = AS_SEC, .give_up = 3},
        .start_timeout = 60 * AS_SEC,
        .rand = &w->rand,
        .oom_seen = &w->oom_seen};

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    w->script = script;
    w->until = AS_CTL_STATES; /* none */
    as_child_init(&w->child, "x", w->loop, &conf, &ops);
    return w;
}

static void run_until(struct world *w, enum as_ctl_state state)
{
    w->until = state;
    if (w->child.state != state)
        as_loop_run(w->loop);
    assert_int_equal(w->child.state, state);
    w->until = AS_CTL_STATES;
}

static void close_world(struct world *w)
{
    as_child_stop(&w->child, SIGKILL, 0);
    run_until(w, AS_CTL_DOWN_STATE);
    as_child_fini(&w->child);
    as_loop_free(w->loop);
    free(w);
}

static const char *reason(struct world *w)
{
    as_buf_add(&w->child.reason, "", 1);
    w->child.reason.n--;
    return (char *)w->child.reason.p;
}

static void an_outside_kill_after_ready_starts_it_again_at_once(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");
    pid_t first;

    as_child_start(&w->child);
    assert_int_equal(w->child.state, AS_CTL_STARTING_STATE);
    as_child_ready(&w->child);
    assert_int_equal(w->child.state, AS_CTL_READY_STATE);
    first = w->child.pid;
    kill(first, SIGKILL);
    run_until(w, AS_CTL_STARTING_STATE);
    assert_int_equal(w->deaths, 1);
    assert_int_equal(w->last.kind, AS_EXIT_KILLED);
    assert_int_equal(w->last.delay, 0);
    assert_int_not_equal(w->child.pid, first);
    assert_int_equal(w->child.starts, 2);
    assert_string_equal(reason(w), "signal 9 (SIGKILL)\n");
    close_world(w);
}

static void failures_before_ready_back_off_and_end(void **state AS_UNUSED)
{
    struct world *w = open_world("exit 3");

    as_child_start(&w->child);
    run_until(w, AS_CTL_WAITING_STATE);
    assert_int_equal(w->last.status, 3 << 8);
    assert_false(w->last.gave_up);
    assert_true(w->last.delay > 0);
    run_until(w, AS_CTL_DOWN_STATE);
    assert_int_equal(w->deaths, 3);
    assert_true(w->last.gave_up);
    assert_string_equal(reason(w), "exit code 3\n");
    close_world(w);
}

static void a_failed_start_counts_as_a_failure(void **state AS_UNUSED)
{
    struct world *w = open_world(NULL);

    as_child_start(&w->child);
    run_until(w, AS_CTL_DOWN_STATE);
    assert_int_equal(w->deaths, 3);
    assert_true(w->last.gave_up);
    assert_string_equal(reason(w), "no script\n");
    close_world(w);
}

static void a_crash_after_ready_backs_off(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    as_child_start(&w->child);
    as_child_ready(&w->child);
    kill(w->child.pid, SIGSEGV);
    run_until(w, AS_CTL_WAITING_STATE);
    assert_int_equal(w->last.kind, AS_EXIT_CRASH);
    assert_true(w->last.delay > 0);
    close_world(w);
}

static void our_own_kill_counts_as_a_crash_with_a_reason(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    as_child_start(&w->child);
    as_child_ready(&w->child);
    as_child_kill(&w->child, "it hangs");
    as_child_kill(&w->child, "the first reason counts");
    run_until(w, AS_CTL_WAITING_STATE);
    assert_int_equal(w->last.kind, AS_EXIT_CRASH);
    assert_true(w->last.delay > 0);
    assert_string_equal(reason(w), "signal 9 (SIGKILL): it hangs\n");
    as_child_kill(&w->child, "it is dead already");
    close_world(w);
}

static void a_start_has_a_deadline(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    w->child.conf.start_timeout = AS_MS;
    as_child_start(&w->child);
    assert_int_not_equal(w->child.timer.at, AS_NEVER);
    run_until(w, AS_CTL_WAITING_STATE);
    assert_string_equal(reason(w),
                        "signal 9 (SIGKILL): not ready within 0.001 s (--start-timeout)\n");
    close_world(w);
}

static void a_lost_child_has_the_deadline_of_a_start(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    as_child_start(&w->child);
    as_child_lost(&w->child); /* not READY yet: ignored */
    assert_int_equal(w->child.state, AS_CTL_STARTING_STATE);
    as_child_ready(&w->child);
    assert_int_equal(w->child.timer.at, AS_NEVER);
    as_child_lost(&w->child);
    assert_int_equal(w->child.state, AS_CTL_LOST_STATE);
    assert_int_not_equal(w->child.timer.at, AS_NEVER);
    as_child_ready(&w->child);
    assert_int_equal(w->child.state, AS_CTL_READY_STATE);
    assert_int_equal(w->child.timer.at, AS_NEVER);
    close_world(w);
}

static void a_stopped_child_is_not_started_again(void **state AS_UNUSED)
{
    struct world *w = open_world("exec sleep 1000");

    as_child_start(&w->child);
    as_child_stop(&w->child, 0, 60 * AS_SEC); /* no signal: a message asks it to end */
    assert_int_equal(w->child.state, AS_CTL_STOPPING_STATE);
    as_child_stop(&w->child, SIGTERM, 60 * AS_SEC); /* again, with a signal */
    run_until(w, AS_CTL_DOWN_STATE);
    assert_int_equal(w->last.kind, AS_EXIT_STOPPED);
    assert_false(w->last.gave_up);
    close_world(w);
}

static void stopping_a_waiting_child_ends_the_wait(void **state AS_UNUSED)
{
    struct world *w = open_world("exit 1");

    as_child_start(&w->child);
    run_until(w, AS_CTL_WAITING_STATE);
    as_child_stop(&w->child, SIGTERM, AS_SEC);
    assert_int_equal(w->child.state, AS_CTL_DOWN_STATE);
    assert_int_equal(w->child.timer.at, AS_NEVER);
    close_world(w);
}

static void output_is_passed_on(void **state AS_UNUSED)
{
    struct world *w = open_world("echo one; echo two >&2; printf three; exit 3");

    w->talks = w->stop_on_death = true;
    as_child_start(&w->child);
    run_until(w, AS_CTL_DOWN_STATE);
    assert_string_equal(w->lines, "one|two|three|");
    assert_string_equal(reason(w), "exit code 3\none\ntwo\nthree\n");
    close_world(w);
}

static void the_owner_may_stop_it_in_the_died_callback(void **state AS_UNUSED)
{
    struct world *w = open_world("exit 1");

    w->stop_on_death = true;
    as_child_start(&w->child);
    run_until(w, AS_CTL_DOWN_STATE);
    assert_int_equal(w->deaths, 1);
    close_world(w);
    w = open_world(NULL);
    w->stop_on_death = true;
    as_child_start(&w->child);
    assert_int_equal(w->child.state, AS_CTL_DOWN_STATE);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outside_kill_after_ready_starts_it_again_at_once),
        cmocka_unit_test(failures_before_ready_back_off_and_end),
        cmocka_unit_test(a_failed_start_counts_as_a_failure),
        cmocka_unit_test(a_crash_after_ready_backs_off),
        cmocka_unit_test(our_own_kill_counts_as_a_crash_with_a_reason),
        cmocka_unit_test(a_start_has_a_deadline),
        cmocka_unit_test(a_lost_child_has_the_deadline_of_a_start),
        cmocka_unit_test(a_stopped_child_is_not_started_again),
        cmocka_unit_test(stopping_a_waiting_child_ends_the_wait),
        cmocka_unit_test(output_is_passed_on),
        cmocka_unit_test(the_owner_may_stop_it_in_the_died_callback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
