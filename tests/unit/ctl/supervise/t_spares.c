/* Specification of ctl/supervise/spares: which spares are started, used and ended. A spare is
 * /bin/sh, which reads its identity and prints it. */
#include "ctl/supervise/spares.h"

#include "unit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints its identity when its input ends, and the environment that it was started with. */
#define ECHOES "tr '\\0' ';'; echo; echo spare=$ANYSERVE_SPARE token=$TOKEN size=$SIZE"

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

    /* of the spare that was acquired */
    struct as_buf printed; /* each line with '|' */
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
    as_buf_fini(&w->printed);
    free(w);
}

static const char *text_of(struct as_buf *b)
{
    as_buf_add(b, "", 1);
    b->n--;
    return (char *)b->p;
}

/* A SPAWN text with `token` as its own item; the deployment wants `wants` spares. */
static struct as_buf spawn_text(const char *script, uint32_t wants, const char *token)
{
    struct as_buf text;

    as_buf_init(&text);
    as_spawn_put(&text, AS_SPAWN_ARG, "/bin/sh");
    as_spawn_put(&text, AS_SPAWN_ARG, "-c");
    as_spawn_put(&text, AS_SPAWN_ARG, "%s", script);
    as_spawn_put(&text, AS_SPAWN_ENV, "SIZE=large");
    as_spawn_put(&text, AS_SPAWN_OWN_ENV, "%s", token);
    as_spawn_put(&text, AS_SPAWN_OWN_ENV, "REPLICA=echo-0");
    if (wants)
        as_spawn_put_number(&text, AS_SPAWN_SPARES, wants);
    return text;
}

static void refill(struct world *w, const char *script, uint32_t wants)
{
    struct as_buf text = spawn_text(script, wants, "TOKEN=t1");

    as_spares_refill(w->spares, AS_STR("echo"), as_buf_slice(&text));
    as_buf_fini(&text);
}

static void on_line(void *ctx, struct as_str line)
{
    as_buf_printf(&((struct world *)ctx)->printed, "%.*s|", AS_STR_FMT(line));
}

static void on_end(void *ctx, const struct as_process_end *e)
{
    struct world *w = ctx;

    w->kind = e->kind;
    w->ended++;
}

static struct as_process *acquire(struct world *w, const char *deployment, const char *script,
                                  uint32_t wants)
{
    static const struct as_process_ops ops = {on_line, on_end};
    struct as_buf text = spawn_text(script, wants, "TOKEN=t2");
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

static void a_spare_gets_the_identity_of_its_replica(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_process *p;

    refill(w, ECHOES, 1);
    assert_true(as_spares_any(w->spares));
    p = acquire(w, "echo", ECHOES, 1);
    assert_non_null(p);
    assert_false(as_spares_any(w->spares)); /* it is the caller's now */
    assert_false(as_spares_owns_pid(w->spares, as_process_pid(p)));
    run_to_end(w);
    /* started without what is one replica's own, and then told it, of the replica that it becomes
     */
    assert_string_equal(text_of(&w->printed),
                        "TOKEN=t2;REPLICA=echo-0;|spare=1 token= size=large|");
    assert_int_equal(w->kind, AS_EXIT_CODE);
    assert_int_equal(w->gone, 0);
    close_world(w);
}

static void there_are_as_many_spares_as_wanted(void **state AS_UNUSED)
{
    struct world *w = open_world();

    refill(w, ECHOES, 0);
    assert_false(as_spares_any(w->spares));
    refill(w, ECHOES, 2);
    refill(w, ECHOES, 2);
    assert_non_null(acquire(w, "echo", ECHOES, 2));
    assert_non_null(acquire(w, "echo", ECHOES, 2));
    assert_null(acquire(w, "echo", ECHOES, 2));
    while (w->ended < 2)
        turn(w);
    close_world(w);
}

static void a_spare_fits_its_spec_only(void **state AS_UNUSED)
{
    struct world *w = open_world();

    refill(w, ECHOES, 1);
    assert_null(acquire(w, "other", ECHOES, 1));
    assert_null(acquire(w, "echo", "exec cat", 1)); /* it would be another process */
    assert_null(acquire(w, "echo", ECHOES, 2));     /* the number of spares is a shared item, too */
    assert_non_null(acquire(w, "echo", ECHOES, 1));
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

/* The process is dead, and that was not noticed yet. */
static void kill_and_wait(pid_t pid)
{
    siginfo_t info;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

static void a_dead_spare_is_not_used(void **state AS_UNUSED)
{
    static const char script[] = "echo pid=$$; exec cat";
    struct world *w = open_world();
    struct as_process *p;
    pid_t first, second;

    refill(w, script, 2);
    first = pid_on_screen(w, 0);
    second = pid_on_screen(w, 1);
    assert_true(as_spares_owns_pid(w->spares, first) && as_spares_owns_pid(w->spares, second));
    assert_false(as_spares_owns_pid(w->spares, getpid()));
    kill_and_wait(first);
    p = acquire(w, "echo", script, 2);
    assert_non_null(p);
    assert_int_equal(as_process_pid(p), second);
    assert_null(acquire(w, "echo", script, 2));
    run_to_end(w);
    while (!w->gone)
        turn(w);
    assert_false(as_spares_any(w->spares));
    close_world(w);
}

static void a_spare_that_ends_by_itself_is_logged(void **state AS_UNUSED)
{
    struct world *w = open_world();

    refill(w, "echo 'no weights'; exit 3", 1);
    while (!w->gone)
        turn(w);
    assert_non_null(strstr(text_of(&w->logged), "level=warn event=spare_gone deployment=echo "
                                                "reason=\"exit code 3\" last=\"no weights\""));
    assert_false(as_spares_any(w->spares));
    close_world(w);
}

static void a_failed_start_is_logged_once(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_buf text;
    const char *at;

    as_buf_init(&text);
    as_spawn_put(&text, AS_SPAWN_ARG, "/no/such/program");
    as_spawn_put_number(&text, AS_SPAWN_SPARES, 3);
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

static void unwanted_spares_are_ended(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_buf side = spawn_text(ECHOES, 1, "TOKEN=t1");
    uint32_t asked = 0;

    refill(w, ECHOES, 1);
    as_spares_refill(w->spares, AS_STR("side"), as_buf_slice(&side));
    as_buf_fini(&side);
    as_spares_sweep(w->spares, wants_side, &asked);
    assert_int_equal(asked, 2);
    assert_null(acquire(w, "echo", ECHOES, 1)); /* it is being ended */
    while (!w->gone)
        turn(w);
    assert_non_null(acquire(w, "side", ECHOES, 1));
    run_to_end(w);
    assert_string_equal(text_of(&w->logged), ""); /* an intended end is not logged */
    close_world(w);
}

static void no_spare_starts_after_stop(void **state AS_UNUSED)
{
    struct world *w = open_world();

    refill(w, "exec sleep 1000", 2);
    as_spares_stop(w->spares);
    assert_null(acquire(w, "echo", "exec sleep 1000", 2));
    while (as_spares_any(w->spares))
        turn(w);
    assert_int_equal(w->gone, 2);
    refill(w, "exec sleep 1000", 2);
    assert_false(as_spares_any(w->spares));
    assert_string_equal(text_of(&w->logged), "");
    close_world(w);
}

static void saved_spares_are_restored(void **state AS_UNUSED)
{
    struct world *w = open_world();
    As__Supervisor *saved = as_reexec_new(&as__supervisor__descriptor);
    struct as_reexec_reader in;
    struct as_spares *next;
    struct as_buf err = {0};
    int file;

    refill(w, "exec sleep 1000", 2);
    as_spares_save(w->spares, saved);
    file = as_reexec_make_memfd(saved);
    assert_int_equal(as_reexec_reader_load(&in, file, true, &err), 0);
    assert_int_equal(in.state->n_spares, 2);
    as_spares_new(&next, &w->launcher, &w->console, on_gone, w);
    as_spares_restore(next, &in);
    assert_false(in.failed);
    assert_int_equal(in.state->n_fds, 0); /* every descriptor was taken */
    assert_false(as_spares_any(next));    /* a dry read takes over nothing */
    as_spares_free(next);
    as_reexec_reader_fini(&in);
    as_reexec_free(saved);
    close(file);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spare_gets_the_identity_of_its_replica),
        cmocka_unit_test(there_are_as_many_spares_as_wanted),
        cmocka_unit_test(a_spare_fits_its_spec_only),
        cmocka_unit_test(a_dead_spare_is_not_used),
        cmocka_unit_test(a_spare_that_ends_by_itself_is_logged),
        cmocka_unit_test(a_failed_start_is_logged_once),
        cmocka_unit_test(unwanted_spares_are_ended),
        cmocka_unit_test(no_spare_starts_after_stop),
        cmocka_unit_test(saved_spares_are_restored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
