/* Specification of ctl/supervise/spares: who waits, who takes a place, who is ended. /bin/sh is the
 * spare: it reads what it becomes, and says it. */
#include "ctl/supervise/spares.h"

#include "unit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Says what it was told when nothing more comes, and what it was started with. */
#define TELLS "tr '\\0' ';'; echo; echo spare=$ANYSERVE_SPARE token=$TOKEN size=$SIZE"

struct world {
    struct as_loop *loop;
    struct as_console console;
    struct as_log log;
    struct as_launcher launcher;
    struct as_spares *spares;
    struct as_buf logged;
    uint64_t oom_seen;
    int screen; /* what the console shows */
    uint32_t gone;

    /* of the one that was taken */
    struct as_buf said; /* each line with '|' */
    enum as_exit_kind kind;
    uint32_t ended;
};

static void on_log(void *ctx, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    as_buf_add(&((struct world *)ctx)->logged, line, n);
}

static void on_gone(void *ctx)
{
    ((struct world *)ctx)->gone++;
}

static struct world *open_world(void)
{
    struct world *w = as_xalloc(sizeof(*w));

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    w->screen = memfd_create("screen", MFD_CLOEXEC);
    as_console_init(&w->console, w->loop, w->screen);
    w->log = (struct as_log){.level = AS_LOG_DEBUG, .sink = on_log, .ctx = w};
    w->launcher = (struct as_launcher){.loop = w->loop, .log = &w->log, .oom_seen = &w->oom_seen};
    as_spares_new(&w->spares, &w->launcher, &w->console, on_gone, w);
    return w;
}

static void turn(struct world *w)
{
    uv_run(&w->loop->uv, UV_RUN_ONCE);
}

static void close_world(struct world *w)
{
    as_spares_stop(w->spares);
    while (as_spares_any(w->spares))
        turn(w);
    as_spares_free(w->spares);
    as_console_close(&w->console);
    as_loop_free(w->loop);
    close(w->screen);
    as_buf_fini(&w->logged);
    as_buf_fini(&w->said);
    free(w);
}

static const char *text_of(struct as_buf *b)
{
    as_buf_add(b, "", 1);
    b->n--;
    return (char *)b->p;
}

/* A SPAWN whose own items are these; `wants` spares. */
static struct as_buf recipe(const char *script, uint32_t wants, const char *token)
{
    struct as_buf text;

    as_buf_init(&text);
    as_spawn_put_arg(&text, "/bin/sh");
    as_spawn_put_arg(&text, "-c");
    as_spawn_put_arg(&text, script);
    as_spawn_put_env(&text, "SIZE=large");
    as_spawn_put_own_env(&text, token);
    as_spawn_put_own_env(&text, "REPLICA=echo-0");
    if (wants)
        as_spawn_put_spares(&text, wants);
    return text;
}

static void fill(struct world *w, const char *script, uint32_t wants)
{
    struct as_buf text = recipe(script, wants, "TOKEN=t1");

    as_spares_refill(w->spares, AS_STR("echo"), as_buf_slice(&text));
    as_buf_fini(&text);
}

static void on_line(void *ctx, struct as_str line)
{
    as_buf_printf(&((struct world *)ctx)->said, "%.*s|", AS_STR_FMT(line));
}

static void on_end(void *ctx, const struct as_process_end *e)
{
    struct world *w = ctx;

    w->kind = e->kind;
    w->ended++;
}

static struct as_process *take(struct world *w, const char *deployment, const char *script,
                               uint32_t wants)
{
    static const struct as_process_ops ops = {on_line, on_end};
    struct as_buf text = recipe(script, wants, "TOKEN=t2");
    struct as_process *p =
        as_spares_acquire(w->spares, as_str_of(deployment), as_buf_slice(&text), &ops, w);

    as_buf_fini(&text);
    return p;
}

static void run_to_end(struct world *w)
{
    while (!w->ended)
        turn(w);
}

/* --- */

static void one_that_takes_a_place_is_told_what_it_becomes(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_process *p;

    fill(w, TELLS, 1);
    assert_true(as_spares_any(w->spares));
    p = take(w, "echo", TELLS, 1);
    assert_non_null(p);
    assert_false(as_spares_any(w->spares)); /* it is the taker's */
    assert_false(as_spares_owns_pid(w->spares, as_process_pid(p)));
    run_to_end(w);
    /* started without what is one replica's own, and then told it, of the replica that it becomes
     */
    assert_string_equal(text_of(&w->said), "TOKEN=t2;REPLICA=echo-0;|spare=1 token= size=large|");
    assert_int_equal(w->kind, AS_EXIT_CODE);
    assert_int_equal(w->gone, 0);
    close_world(w);
}

static void there_are_as_many_as_are_wanted_and_no_more(void **state AS_UNUSED)
{
    struct world *w = open_world();

    fill(w, TELLS, 0);
    assert_false(as_spares_any(w->spares));
    fill(w, TELLS, 2);
    fill(w, TELLS, 2);
    assert_non_null(take(w, "echo", TELLS, 2));
    assert_non_null(take(w, "echo", TELLS, 2));
    assert_null(take(w, "echo", TELLS, 2));
    while (w->ended < 2)
        turn(w);
    close_world(w);
}

static void one_is_for_its_recipe_only(void **state AS_UNUSED)
{
    struct world *w = open_world();

    fill(w, TELLS, 1);
    assert_null(take(w, "other", TELLS, 1));
    assert_null(take(w, "echo", "exec cat", 1)); /* another process would be started */
    assert_null(take(w, "echo", TELLS, 2));      /* the wish is a part of the recipe */
    assert_non_null(take(w, "echo", TELLS, 1));
    run_to_end(w);
    close_world(w);
}

static pid_t pid_on_screen(struct world *w, unsigned nth)
{
    char text[4096];

    for (;;) {
        ssize_t n = pread(w->screen, text, sizeof(text) - 1, 0);
        const char *at = text;

        text[n > 0 ? n : 0] = 0;
        for (unsigned i = 0; at && i <= nth; i++)
            at = strstr(at + (i ? 1 : 0), "[echo-spare] pid=");
        if (at && strchr(at, '\n'))
            return (pid_t)strtol(at + strlen("[echo-spare] pid="), NULL, 10);
        turn(w);
    }
}

/* Dead, and nobody has looked yet. */
static void kill_and_wait(pid_t pid)
{
    siginfo_t info;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void a_dead_one_is_passed_over(void **state AS_UNUSED)
{
    static const char script[] = "echo pid=$$; exec cat";
    struct world *w = open_world();
    struct as_process *p;
    pid_t first, second;

    fill(w, script, 2);
    first = pid_on_screen(w, 0);
    second = pid_on_screen(w, 1);
    assert_true(as_spares_owns_pid(w->spares, first) && as_spares_owns_pid(w->spares, second));
    assert_false(as_spares_owns_pid(w->spares, getpid()));
    kill_and_wait(first);
    p = take(w, "echo", script, 2);
    assert_non_null(p);
    assert_int_equal(as_process_pid(p), second);
    assert_null(take(w, "echo", script, 2));
    run_to_end(w);
    while (!w->gone)
        turn(w);
    assert_false(as_spares_any(w->spares));
    close_world(w);
}

static void one_that_ends_by_itself_is_told_of(void **state AS_UNUSED)
{
    struct world *w = open_world();

    fill(w, "echo 'no weights'; exit 3", 1);
    while (!w->gone)
        turn(w);
    assert_non_null(strstr(text_of(&w->logged), "level=warn event=spare_gone deployment=echo "
                                                "reason=\"exit code 3\" last=\"no weights\""));
    assert_false(as_spares_any(w->spares));
    close_world(w);
}

static void one_that_cannot_be_started_is_told_of_once(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_buf text;
    const char *at;

    as_buf_init(&text);
    as_spawn_put_arg(&text, "/no/such/program");
    as_spawn_put_spares(&text, 3);
    as_spares_refill(w->spares, AS_STR("echo"), as_buf_slice(&text));
    as_buf_fini(&text);
    assert_false(as_spares_any(w->spares));
    at = strstr(text_of(&w->logged), "event=spare_failed deployment=echo reason=\"cannot start "
                                     "/no/such/program: No such file or directory\"");
    assert_non_null(at);
    assert_null(strstr(at + strlen("event=spare_failed"), "spare_failed"));
    close_world(w);
}

static bool wants_side(void *ctx, struct as_str deployment, struct as_str text)
{
    uint32_t *asked = ctx;

    ++*asked;
    assert_true(text.n > 0);
    return as_str_eq(deployment, AS_STR("side"));
}

static void those_that_nobody_wants_are_ended(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_buf side = recipe(TELLS, 1, "TOKEN=t1");
    uint32_t asked = 0;

    fill(w, TELLS, 1);
    as_spares_refill(w->spares, AS_STR("side"), as_buf_slice(&side));
    as_buf_fini(&side);
    as_spares_sweep(w->spares, wants_side, &asked);
    assert_int_equal(asked, 2);
    assert_null(take(w, "echo", TELLS, 1)); /* it ends, so it takes no place */
    while (!w->gone)
        turn(w);
    assert_non_null(take(w, "side", TELLS, 1));
    run_to_end(w);
    assert_string_equal(text_of(&w->logged), ""); /* that was no accident */
    close_world(w);
}

static void at_the_end_none_is_started(void **state AS_UNUSED)
{
    struct world *w = open_world();

    fill(w, "exec sleep 1000", 2);
    as_spares_stop(w->spares);
    assert_null(take(w, "echo", "exec sleep 1000", 2));
    while (as_spares_any(w->spares))
        turn(w);
    assert_int_equal(w->gone, 2);
    fill(w, "exec sleep 1000", 2);
    assert_false(as_spares_any(w->spares));
    assert_string_equal(text_of(&w->logged), "");
    close_world(w);
}

/* Read by the same version: what is written is what is asked for, in that order, to the end. */
static void what_is_handed_on_is_read(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_spares *next;
    struct as_reexec_reader in;
    struct as_reexec_writer c;
    struct as_buf err = {0};
    int file;

    fill(w, "exec sleep 1000", 2);
    as_reexec_writer_init(&c);
    as_spares_save(w->spares, &c);
    as_reexec_put(&c, "after", AS_STR("it"));
    file = as_reexec_make_memfd(&c);
    assert_int_equal(as_reexec_reader_load(&in, file, true, &err), 0);
    as_spares_new(&next, &w->launcher, &w->console, on_gone, w);
    as_spares_restore(next, &in);
    assert_true(as_str_eq(as_reexec_get(&in, "after"), AS_STR("it")));
    assert_false(in.failed || in.rest.n);
    assert_false(as_spares_any(next)); /* a dry read takes nothing over */
    as_spares_free(next);
    as_reexec_reader_fini(&in);
    as_reexec_writer_fini(&c);
    close(file);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_takes_a_place_is_told_what_it_becomes),
        cmocka_unit_test(there_are_as_many_as_are_wanted_and_no_more),
        cmocka_unit_test(one_is_for_its_recipe_only),
        cmocka_unit_test(a_dead_one_is_passed_over),
        cmocka_unit_test(one_that_ends_by_itself_is_told_of),
        cmocka_unit_test(one_that_cannot_be_started_is_told_of_once),
        cmocka_unit_test(those_that_nobody_wants_are_ended),
        cmocka_unit_test(at_the_end_none_is_started),
        cmocka_unit_test(what_is_handed_on_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
