/* Specification of ctl/worker/describe: asking the worker program, and its failures. */
#include "ctl/worker/describe.h"

#include "conf/option/exit_code.h"
#include "ctl/supervise/supervisor.h"
#include "ctl/worker/banner.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH "/tmp/as_describe_XXXXXX"

/* `script` is run as the interpreter, with -m anyserve.worker TARGET … */
static void make_interpreter(char path[sizeof(PATH)], const char *script)
{
    int fd;

    memcpy(path, PATH, sizeof(PATH));
    fd = mkstemp(path);
    dprintf(fd, "#!/bin/sh\n%s\n", script);
    fchmod(fd, 0700);
    close(fd);
}

static int describe_within(as_ns timeout, struct as_declared *app, const char *script,
                           int signal_fd, const char *want)
{
    char path[sizeof(PATH)];
    struct as_buf err = {0};
    int rc;

    make_interpreter(path, script);
    rc = as_describe_run(
        app, &(struct as_describe_source){.python = path, .target = "app.py", .timeout = timeout},
        signal_fd, &err);
    unlink(path);
    as_buf_add(&err, "", 1);
    assert_non_null(strstr((char *)err.p, want));
    as_buf_fini(&err);
    return rc;
}

static int describe(struct as_declared *app, const char *script, int signal_fd, const char *want)
{
    return describe_within(0, app, script, signal_fd, want);
}

/* Beside a loop. */
struct outcome {
    struct as_loop *loop;
    uint32_t n;
    char models[32], why[4096];
};

static void on_described(void *ctx, const struct as_describe_end *end)
{
    struct outcome *o = ctx;

    o->n++;
    snprintf(o->why, sizeof(o->why), "%.*s", AS_STR_FMT(end->why));
    o->models[0] = 0;
    if (end->app) {
        snprintf(o->models, sizeof(o->models), "%s", end->app->deployments[0].models[0].name);
        as_declared_fini(end->app);
    }
    as_loop_stop(o->loop);
}

static void start_beside(struct outcome *o, const char *script, as_ns timeout, bool stop)
{
    struct as_describe_job *d;
    struct as_buf err = {0};
    char path[sizeof(PATH)];

    make_interpreter(path, script);
    assert_int_equal(as_loop_new(&o->loop, 0), 0);
    assert_int_equal(as_describe_start(&d, o->loop,
                                       &(struct as_describe_source){
                                           .python = path, .target = "app.py", .timeout = timeout},
                                       on_described, o, &err),
                     0);
    if (stop)
        as_describe_stop(d);
    else
        as_loop_run(o->loop);
    as_loop_free(o->loop);
    unlink(path);
    as_buf_fini(&err);
}

static void the_result_comes_beside_a_loop(void **state AS_UNUSED)
{
    struct outcome o = {.n = 0};

    start_beside(&o, "printf 'd\\tm:1\\n'", 0, false);
    assert_string_equal(o.models, "m:1");
    start_beside(&o, "echo Traceback >&2; exit 70", 0, false);
    assert_non_null(strstr(o.why, "-m anyserve.worker: exit code 70\nTraceback\n"));
    start_beside(&o, "cat /dev/zero", 0, false);
    assert_non_null(strstr(o.why, "its description has more than"));
    start_beside(&o, "echo loading >&2; exec sleep 1000", 200 * AS_MS, false);
    assert_non_null(strstr(o.why, "did not load in time"));
    assert_non_null(strstr(o.why, "\nloading\n"));
    assert_int_equal(o.n, 4);
    start_beside(&o, "exec sleep 1000", 0, true);
    assert_int_equal(o.n, 4);
}

static void a_program_that_takes_too_long_is_aborted(void **state AS_UNUSED)
{
    struct as_declared app;
    int fd = as_supervisor_signals();

    assert_int_equal(describe_within(200 * AS_MS, &app, "exec sleep 1000", fd,
                                     "within 0.2 s (--start-timeout); the stacks"),
                     AS_EXIT_CODE_RAISED);
    assert_int_equal(describe_within(200 * AS_MS, &app, "trap '' ABRT; while :; do sleep 9; done",
                                     fd, "within 0.2 s (--start-timeout)"),
                     AS_EXIT_CODE_RAISED);
    close(fd);
}

static void the_exit_code_of_the_program_is_returned(void **state AS_UNUSED)
{
    struct as_declared app;
    int fd = as_supervisor_signals();

    assert_int_equal(describe(&app, "printf '%s\\t%s:1\\n' $4 $3", fd, ""), 0);
    assert_string_equal(app.deployments[0].name, "--describe=lines");
    assert_string_equal(app.deployments[0].models[0].name, "app.py:1");
    as_declared_fini(&app);
    assert_int_equal(describe(&app, "exit 66", fd, ""), AS_EXIT_CODE_NOT_FOUND);
    assert_int_equal(describe(&app, "exit 70", fd, ""), AS_EXIT_CODE_RAISED);
    assert_int_equal(describe(&app, "exit 1", fd, "could not run the worker program (exit code 1)"),
                     AS_EXIT_CODE_INTERPRETER);
    assert_int_equal(describe(&app, "kill -9 $$", fd, "signal 9 (SIGKILL)"),
                     AS_EXIT_CODE_INTERPRETER);
    assert_int_equal(describe(&app, "exit 0", fd, "described no model"), AS_EXIT_CODE_INTERPRETER);
    assert_int_equal(describe(&app, "cat /dev/zero", fd, "SIGKILL"), AS_EXIT_CODE_INTERPRETER);
    assert_int_equal(describe(&app, "kill -INT $PPID; exec sleep 1000", fd, ""),
                     AS_EXIT_CODE_SIGNAL + SIGINT);
    close(fd);
}

static void signals_that_do_not_end_a_server_stay_pending(void **state AS_UNUSED)
{
    struct signalfd_siginfo si;
    struct as_declared app;
    int all = as_supervisor_signals(), fd = as_supervisor_end_signals();

    assert_int_equal(
        describe(&app, "kill -USR1 $PPID; kill -USR2 $PPID; printf 'd\\tm:1\\n'", fd, ""), 0);
    as_declared_fini(&app);
    for (bool usr1 = false, usr2 = false; !usr1 || !usr2;) {
        assert_int_equal(read(all, &si, sizeof(si)), sizeof(si));
        usr1 = usr1 || si.ssi_signo == SIGUSR1;
        usr2 = usr2 || si.ssi_signo == SIGUSR2;
    }
    assert_int_equal(describe(&app, "kill -TERM $PPID; exec sleep 1000", fd, ""),
                     AS_EXIT_CODE_SIGNAL + SIGTERM);
    close(fd);
    close(all);
}

/* As nohup does: the end of the terminal does not end the server. */
static void an_ignored_hangup_stays_ignored(void **state AS_UNUSED)
{
    struct as_declared app;
    sigset_t hup;
    int all, fd;

    sigemptyset(&hup);
    sigaddset(&hup, SIGHUP);
    sigprocmask(SIG_UNBLOCK, &hup, NULL);
    signal(SIGHUP, SIG_IGN);
    all = as_supervisor_signals();
    fd = as_supervisor_end_signals();
    assert_int_equal(describe(&app, "kill -HUP $PPID; printf 'd\\tm:1\\n'", fd, ""), 0);
    as_declared_fini(&app);
    close(fd);
    close(all);
    signal(SIGHUP, SIG_DFL);
    all = as_supervisor_signals();
    fd = as_supervisor_end_signals();
    assert_int_equal(describe(&app, "kill -HUP $PPID; exec sleep 1000", fd, ""),
                     AS_EXIT_CODE_SIGNAL + SIGHUP);
    close(fd);
    close(all);
}

static void a_missing_interpreter_is_an_error(void **state AS_UNUSED)
{
    struct as_buf err = {0};
    struct as_declared app;
    int fd = as_supervisor_signals();

    assert_int_equal(as_describe_run(&app,
                                     &(struct as_describe_source){.python = "/nonexistent/python",
                                                                  .target = "x"},
                                     fd, &err),
                     AS_EXIT_CODE_INTERPRETER);
    as_buf_add(&err, "", 1);
    assert_non_null(strstr((char *)err.p, "/nonexistent/python: No such file"));
    as_buf_fini(&err);
    close(fd);
}

static void the_banner_has_models_and_addresses(void **state AS_UNUSED)
{
    struct as_buf b = {0}, err = {0};
    struct as_banner v = {.version = "1.2",
                          .target = "app.py",
                          .workers = 2,
                          .host = "::",
                          .status_host = "127.0.0.1",
                          .port = 8000,
                          .grpc_port = 8001,
                          .python = "/p",
                          .python_why = "--python"};
    struct as_declared app;

    assert_int_equal(
        as_declared_parse(&app,
                          AS_STR("@call\tanyserve infer echo --input x=1,2\nd\techo:1\tadd:7\n"),
                          NULL, NULL, &err),
        0);
    v.app = &app;
    as_banner_write(&b, &v);
    as_buf_add(&b, "", 1);
    assert_non_null(strstr((char *)b.p, "AnyServe 1.2 serves app.py\n"));
    assert_non_null(
        strstr((char *)b.p, "deployment  d, 2 replicas\n  models      echo:1  add:7\n"));
    assert_non_null(strstr((char *)b.p, "[::]:8000"));
    assert_non_null(strstr((char *)b.p, "[::]:8001"));
    assert_null(strstr((char *)b.p, "/status"));
    assert_null(strstr((char *)b.p, "  route  "));
    assert_non_null(strstr((char *)b.p, "/p (--python)"));
    assert_non_null(
        strstr((char *)b.p, "    anyserve infer echo --input x=1,2 --url 127.0.0.1:8000\n"));
    v.route = "/shop";
    b.n = 0;
    as_banner_write(&b, &v);
    as_buf_add(&b, "", 1);
    assert_non_null(strstr((char *)b.p, "[::]:8001  the same\n  route       "
                                        "http://127.0.0.1:8000/shop  HTTP requests to the "
                                        "application\n"));
    as_declared_fini(&app);
    as_buf_fini(&b);
}

static void a_banner_without_a_call_asks_for_the_metadata(void **state AS_UNUSED)
{
    struct as_buf b = {0}, err = {0};
    struct as_declared app;
    struct as_banner v = {.version = "1.2",
                          .target = "app.py",
                          .workers = 1,
                          .host = "::1",
                          .status_host = "127.0.0.1",
                          .port = 81,
                          .python = "/p",
                          .python_why = "--python",
                          .app = &app};

    assert_int_equal(as_declared_parse(&app, AS_STR("d\tteam/echo:v7\n"), NULL, NULL, &err), 0);
    as_banner_write(&b, &v);
    as_buf_add(&b, "", 1);
    assert_non_null(
        strstr((char *)b.p, "    curl 'http://[::1]:81/v2/models/team/echo/versions/v7'\n"));
    as_declared_fini(&app);
    as_buf_fini(&b);
}

/* Of all deployments together; further ones are only counted. */
static void check_named(unsigned deployments, unsigned models, const char *want,
                        const char *unwanted)
{
    struct as_buf b = {0}, err = {0}, text = {0};
    struct as_declared app;
    struct as_banner v = {.version = "1.2",
                          .target = "app.py",
                          .workers = 1,
                          .host = "::1",
                          .port = 81,
                          .python = "/p",
                          .python_why = "--python",
                          .app = &app};

    for (unsigned d = 0; d < deployments; d++) {
        as_buf_printf(&text, "d%u", d);
        for (unsigned m = 0; m < models; m++)
            as_buf_printf(&text, "\tm%u.%u:1", d, m);
        as_buf_str(&text, "\n");
    }
    assert_int_equal(as_declared_parse(&app, as_buf_slice(&text), NULL, NULL, &err), 0);
    as_banner_write(&b, &v);
    as_buf_add(&b, "", 1);
    assert_non_null(strstr((char *)b.p, want));
    assert_null(strstr((char *)b.p, unwanted));
    as_declared_fini(&app);
    as_buf_fini(&b);
    as_buf_fini(&text);
}

static void the_banner_names_ten_models(void **state AS_UNUSED)
{
    check_named(1, 10, "m0.9:1\n", "more");
    check_named(1, 11, "m0.9:1  and 1 more\n", "m0.10");
    check_named(1, 1000, "m0.9:1  and 990 more\n", "m0.10");
    check_named(2, 6, "m1.3:1  and 2 more\n", "m1.4");
    check_named(10, 1, "m9.0:1\n", "more");
    check_named(12, 1, "  and 2 more deployments with 2 models\n", "d10");
    check_named(11, 2, "  and 6 more deployments with 12 models\n", "d5");
}

/* The command line, its words joined by spaces, without those that begin with a path that differs.
 */
static void command_is(const struct as_describe_source *source, const char *expected)
{
    struct as_describe_command c;
    struct as_buf line = {0};

    as_describe_command_init(&c, source);
    for (const char **a = c.argv; *a; a++) {
        if (strncmp(*a, "--working-dir=", 14) != 0 && strncmp(*a, "--source=", 9) != 0)
            as_buf_printf(&line, "%s%s", a == c.argv ? "" : " ", *a);
    }
    assert_string_equal(as_buf_cstr(&line), expected);
    as_describe_command_fini(&c);
    as_buf_fini(&line);
}

static void the_command_names_code_and_application(void **state AS_UNUSED)
{
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define RUN "py -m anyserve.worker "
    struct as_describe_code copy = {.store = "/s/code", .copy = "sha256:" HEX},
                            pickle = {.store = "/s/code", .pickle = "pickle:" HEX},
                            fresh = {.store = "/s/code", .max_bytes = 7, .max_files = 8};
    struct as_describe_source s = {.python = "py", .target = "m:app"};

    command_is(&s, RUN "m:app --describe=lines");
    s.application = "default"; /* which every worker program takes it for */
    command_is(&s, RUN "m:app --describe=lines");
    s.application = "shop";
    command_is(&s, RUN "m:app --describe=lines --application=shop");
    s.code = &copy;
    command_is(&s, RUN "m:app --describe=lines --application=shop");
    s.code = &pickle; /* it has the name of its application */
    command_is(&s, RUN "pickle:/s/pickles/" HEX " --describe=lines");
    s.code = &fresh;
    command_is(&s, "py -m anyserve.code.pin --store=/s/code --max-bytes=7 --max-files=8 --known= "
                   "--application=shop m:app");
    s.application = NULL;
    command_is(
        &s, "py -m anyserve.code.pin --store=/s/code --max-bytes=7 --max-files=8 --known= m:app");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exit_code_of_the_program_is_returned),
        cmocka_unit_test(the_result_comes_beside_a_loop),
        cmocka_unit_test(a_program_that_takes_too_long_is_aborted),
        cmocka_unit_test(signals_that_do_not_end_a_server_stay_pending),
        cmocka_unit_test(an_ignored_hangup_stays_ignored),
        cmocka_unit_test(a_missing_interpreter_is_an_error),
        cmocka_unit_test(the_banner_has_models_and_addresses),
        cmocka_unit_test(a_banner_without_a_call_asks_for_the_metadata),
        cmocka_unit_test(the_banner_names_ten_models),
        cmocka_unit_test(the_command_names_code_and_application),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
