/* Specification of conf/option/option: parsing, bounds, messages, command lines of child processes,
 * help texts. */
#include "conf/option/option.h"

#include "conf/option/option_row.h"
#include "unit.h"

/* Parses one command line of `run`; returns the result, its error is in `err`. */
static int parse(struct as_option_set *o, struct as_buf *err, const char *const *argv)
{
    int argc = 0, rc;

    while (argv[argc])
        argc++;
    as_option_init(o, AS_SCOPE_RUN);
    as_buf_init(err);
    rc = as_option_parse(o, argc, (char *const *)(uintptr_t)argv, err);
    as_buf_add(err, "", 1);
    return rc;
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void check_ok(struct as_option_set *o, const char *const *argv)
{
    struct as_buf err;
    int rc = parse(o, &err, argv);

    assert_string_equal((char *)err.p, "");
    assert_int_equal(rc, 0);
    as_buf_fini(&err);
}

static void check_refused(const char *const *argv, const char *want)
{
    struct as_option_set o;
    struct as_buf err;
    int rc = parse(&o, &err, argv);

    assert_string_equal((char *)err.p, want);
    assert_int_equal(rc, AS_EINVALID);
    as_buf_fini(&err);
}

static void defaults_are_as_documented(void **state AS_UNUSED)
{
    struct as_option_set o;

    as_option_init(&o, AS_SCOPE_RUN);
    assert_string_equal(as_option_str(&o, AS_OPT_HOST), "127.0.0.1");
    assert_int_equal(as_option_u64(&o, AS_OPT_PORT), 8000);
    assert_int_equal(as_option_u64(&o, AS_OPT_GRPC_PORT), 0);
    assert_int_equal(as_option_u64(&o, AS_OPT_STATUS_PORT), 8002);
    assert_int_equal(as_option_i64(&o, AS_OPT_MAX_QUEUED_REQUESTS), 1024);
    assert_int_equal(as_option_u64(&o, AS_OPT_MAX_MESSAGE_BYTES), INT32_MAX);
    assert_int_equal(as_option_u64(&o, AS_OPT_STREAM_WINDOW), 1 << 20);
    assert_int_equal(as_option_ns(&o, AS_OPT_PREFETCH_WORK), 100 * AS_US);
    assert_int_equal(as_option_ns(&o, AS_OPT_DRAIN_TIMEOUT), 30 * AS_SEC);
    assert_int_equal(as_option_ns(&o, AS_OPT_MIN_PING_INTERVAL), 300 * AS_SEC); /* as in gRPC */
    assert_int_equal(as_option_ns(&o, AS_OPT_MIN_IDLE_PING_INTERVAL), 7200 * AS_SEC);
    assert_int_equal(as_option_u64(&o, AS_OPT_MAX_PING_STRIKES), 2);
    /* a client may cancel all of its streams at once */
    assert_true(as_option_u64(&o, AS_OPT_RESET_BURST) >= as_option_u64(&o, AS_OPT_MAX_STREAMS));
    assert_string_equal(as_option_str(&o, AS_OPT_ROUTER), "late_binding");
    assert_false(as_option_bool(&o, AS_OPT_DEBUG_ERRORS));
    assert_false(o.v[AS_OPT_PORT].given);
}

static void a_value_follows_or_is_behind_an_equals_sign(void **state AS_UNUSED)
{
    struct as_option_set o;

    check_ok(&o, ARGS("app.py", "--port", "1", "--host=::", "--router=pow_2", "more"));
    assert_int_equal(as_option_u64(&o, AS_OPT_PORT), 1);
    assert_true(o.v[AS_OPT_PORT].given);
    assert_string_equal(as_option_str(&o, AS_OPT_HOST), "::");
    assert_string_equal(as_option_str(&o, AS_OPT_ROUTER), "pow_2");
    assert_int_equal(as_option_u64(&o, AS_OPT_ROUTER), 2);
    assert_int_equal(o.n_args, 2);
    assert_string_equal(o.args[0], "app.py");
    assert_string_equal(o.args[1], "more");
    check_ok(&o, ARGS("--port=1", "--port=2"));
    assert_int_equal(as_option_u64(&o, AS_OPT_PORT), 2);
    check_refused(ARGS("--port"), "--port needs a value");
}

static void switches(void **state AS_UNUSED)
{
    struct as_option_set o;

    check_ok(&o, ARGS("--debug-errors", "x"));
    assert_true(as_option_bool(&o, AS_OPT_DEBUG_ERRORS));
    assert_int_equal(o.n_args, 1);
    check_ok(&o, ARGS("--debug-errors", "--no-debug-errors"));
    assert_false(as_option_bool(&o, AS_OPT_DEBUG_ERRORS));
    check_ok(&o, ARGS("--debug-errors=yes"));
    assert_true(as_option_bool(&o, AS_OPT_DEBUG_ERRORS));
    check_refused(ARGS("--debug-errors=maybe"), "--debug-errors=maybe: 'maybe' is not on or off");
    check_refused(ARGS("--no-port"), "unknown option --no-port; did you mean --port?");
}

static void two_dashes_end_the_options(void **state AS_UNUSED)
{
    struct as_option_set o;

    check_ok(&o, ARGS("--", "--port", "-x"));
    assert_int_equal(o.n_args, 2);
    assert_string_equal(o.args[0], "--port");
    check_ok(&o, ARGS("-"));
    assert_int_equal(o.n_args, 1);
    check_refused(ARGS("-q"), "unknown option -q; options begin with --");
    check_refused(ARGS("-p"), "--port needs a value");
}

static void help_is_not_checked_further(void **state AS_UNUSED)
{
    struct as_option_set o;

    check_ok(&o, ARGS("--help", "--restart-backoff=1h", "--restart-backoff-max=1s"));
    assert_true(o.help);
    assert_false(o.help_all);
    check_ok(&o, ARGS("--help-all"));
    assert_true(o.help && o.help_all);
}

static void an_unknown_option_suggests_a_similar_one(void **state AS_UNUSED)
{
    check_refused(ARGS("--prot=1"), "unknown option --prot; did you mean --port?");
    check_refused(ARGS("--grcp-port"), "unknown option --grcp-port; did you mean --grpc-port?");
    check_refused(ARGS("--worker", "2"), "unknown option --worker; did you mean --workers?");
    check_refused(ARGS("--max-queued", "2"),
                  "unknown option --max-queued; did you mean --max-queued-requests?");
    check_refused(ARGS("--frobnicate"), "unknown option --frobnicate");
    check_refused(ARGS("--"
                       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
                  "unknown option --"
                  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    check_refused(ARGS("--fds=grpc:3"), "unknown option --fds"); /* hidden */
    check_refused(ARGS("--json"), "unknown option --json");      /* an option of another command */
}

static void sizes_and_times_have_units(void **state AS_UNUSED)
{
    static const struct {
        const char *text;
        int64_t want;
    } sizes[] = {{"16K", 16384}, {"2048", 2048}, {"1M", 1 << 20}},
      times[] = {{"1", (int64_t)AS_SEC},           {"1s", (int64_t)AS_SEC},
                 {"250ms", 250 * (int64_t)AS_MS},  {"2m", 120 * (int64_t)AS_SEC},
                 {"1h", 3600 * (int64_t)AS_SEC},   {"2000000us", 2 * (int64_t)AS_SEC},
                 {"5000000ns", 5 * (int64_t)AS_MS}};
    struct as_option_value v;
    struct as_buf err = {0};

    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        assert_int_equal(
            as_option_read(&as_option_rows[AS_OPT_MAX_HEADER_BYTES], sizes[i].text, &v, &err), 0);
        assert_int_equal(v.i, sizes[i].want);
    }
    for (size_t i = 0; i < AS_COUNT(times); i++) {
        assert_int_equal(
            as_option_read(&as_option_rows[AS_OPT_RESTART_BACKOFF], times[i].text, &v, &err), 0);
        assert_int_equal(v.i, times[i].want);
    }
    assert_int_equal(err.n, 0);
    check_refused(ARGS("--max-header-bytes=16 K"),
                  "--max-header-bytes=16 K: '16 K' is not a size (bytes, or with K, M, G, T)");
    check_refused(
        ARGS("--drain-timeout=1.5"),
        "--drain-timeout=1.5: '1.5' is not a time (seconds, or with ns, us, ms, s, m, h)");
    check_refused(ARGS("--port=0x10"), "--port=0x10: '0x10' is not a whole number");
    check_refused(ARGS("--port="), "--port=: '' is not a whole number");
    check_refused(ARGS("--port=-"), "--port=-: '-' is not a whole number");
    check_refused(ARGS("--port=off"), "--port=off: 'off' is not a whole number");
}

static void every_number_is_accepted_at_its_bounds_and_refused_beyond(void **state AS_UNUSED)
{
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        const struct as_option_row *row = &as_option_rows[i];
        struct as_option_value v = {.s = ""};
        struct as_buf err = {0};
        char text[32];

        if (row->type != AS_OPTION_INT && row->type != AS_OPTION_SIZE &&
            row->type != AS_OPTION_DURATION)
            continue;
        for (int64_t d = -1; d <= 1; d++) {
            const char *unit = row->type == AS_OPTION_DURATION ? "ns" : "";

            snprintf(text, sizeof(text), "%lld%s", (long long)(row->min + d), unit);
            assert_int_equal(as_option_read(row, text, &v, &err), d < 0 ? AS_EINVALID : 0);
            snprintf(text, sizeof(text), "%lld%s", (long long)(row->max + d), unit);
            assert_int_equal(as_option_read(row, text, &v, &err), d > 0 ? AS_EINVALID : 0);
        }
        as_buf_fini(&err);
    }
    check_refused(ARGS("--port=65536"), "--port=65536: '65536' is above the maximum 65535");
    check_refused(ARGS("--workers=0"), "--workers=0: '0' is below the minimum 1");
    check_refused(ARGS("--max-queued-requests=-2"),
                  "--max-queued-requests=-2: '-2' is below the minimum -1");
    check_refused(ARGS("--stream-window=2G"),
                  "--stream-window=2G: '2G' is above the maximum 2147483647");
    check_refused(ARGS("--ping-interval=9ms"),
                  "--ping-interval=9ms: '9ms' is below the minimum 10ms");
    check_refused(ARGS("--port=99999999999999999999999999"),
                  "--port=99999999999999999999999999: '99999999999999999999999999' is above the "
                  "maximum 65535");
    check_refused(ARGS("--max-inflight-bytes=9999999999999T"),
                  "--max-inflight-bytes=9999999999999T: '9999999999999T' is above the maximum "
                  "1024T");
}

static void strings_are_accepted_at_their_bounds(void **state AS_UNUSED)
{
    const struct as_option_row *row = &as_option_rows[AS_OPT_RUNTIME_DIR];
    struct as_option_value v;
    struct as_buf err = {0};
    char text[82];

    memset(text, 'x', sizeof(text));
    text[80] = 0;
    assert_int_equal(as_option_read(row, text, &v, &err), 0);
    assert_ptr_equal(v.s, text);
    text[80] = 'x';
    text[81] = 0;
    assert_int_equal(as_option_read(row, text, &v, &err), AS_EINVALID);
    as_buf_fini(&err);
    check_refused(ARGS("--host="), "--host=: '' must have 1 to 255 bytes");
    check_refused(ARGS("--router=random"),
                  "--router=random: 'random' is not one of late_binding, least_ongoing, pow_2, "
                  "round_robin, consistent_hash, session");
}

static void off_is_zero_where_the_table_says_so(void **state AS_UNUSED)
{
    struct as_option_set o;

    check_ok(&o, ARGS("--status-port=off", "--idle-timeout=off", "--grpc-port=0"));
    assert_int_equal(as_option_u64(&o, AS_OPT_STATUS_PORT), 0);
    assert_int_equal(as_option_ns(&o, AS_OPT_IDLE_TIMEOUT), 0);
}

static void options_are_checked_against_each_other(void **state AS_UNUSED)
{
    static const char *const roots[] = {"/", "shop", "/shop/", "/a%2Fb", "/a b", "/a?b", "/a#b"};
    struct as_option_set o;

    check_ok(&o, ARGS("--restart-backoff=30s"));
    check_ok(&o, ARGS("--root-path="));
    check_ok(&o, ARGS("--root-path=/a"));
    check_ok(&o, ARGS("--root-path=/shop/v2"));
    for (size_t i = 0; i < AS_COUNT(roots); i++) {
        char text[200], arg[40];

        snprintf(arg, sizeof(arg), "--root-path=%s", roots[i]);
        snprintf(text, sizeof(text),
                 "--root-path: '%s' is not like /shop: it begins with a slash, ends without one, "
                 "and has no escapes",
                 roots[i]);
        check_refused(ARGS(arg), text);
    }
    check_ok(&o, ARGS("--tenant-header=x-tenant", "--cost-header=x_cost.2"));
    check_refused(
        ARGS("--cost-header=Host"),
        "--cost-header: 'Host' is not a name like x-tenant: it has lower-case letters, "
        "digits, '-', '_' and '.', and is none of the fields that the server reads itself");
    check_refused(
        ARGS("--tenant-header=grpc-timeout"),
        "--tenant-header: 'grpc-timeout' is not a name like x-tenant: it has lower-case "
        "letters, digits, '-', '_' and '.', and is none of the fields that the server reads "
        "itself");
    check_refused(ARGS("--restart-backoff=30001ms"),
                  "--restart-backoff is above --restart-backoff-max");
    check_refused(ARGS("--stream-window=2M", "--connection-window=1M"),
                  "--stream-window is above --connection-window");
    check_ok(&o, ARGS("--worker-heartbeat=15s"));
    check_refused(ARGS("--worker-heartbeat=15001ms"),
                  "--worker-heartbeat is above --worker-heartbeat-timeout");
    check_ok(&o, ARGS("--worker-heartbeat=1h", "--worker-heartbeat-timeout=off"));
}

static void arguments_are_bounded(void **state AS_UNUSED)
{
    const char *argv[AS_OPTION_ARGS_MAX + 2];
    struct as_option_set o;

    for (size_t i = 0; i <= AS_OPTION_ARGS_MAX; i++)
        argv[i] = "x";
    argv[AS_OPTION_ARGS_MAX + 1] = NULL;
    check_refused(argv, "more than 16 arguments");
    check_ok(&o, argv + 1);
}

static void a_list_option_can_be_repeated(void **state AS_UNUSED)
{
    char *argv[AS_OPTION_ITEMS_MAX + 2], item[] = "--input=a=1", other[] = "--output=y";
    struct as_option_set o;
    struct as_buf err = {0};

    for (size_t i = 0; i < AS_COUNT(argv); i++)
        argv[i] = item;
    argv[1] = other;
    as_option_init(&o, AS_SCOPE_INFER);
    assert_null(as_option_item(&o, AS_OPT_INPUT, 0));
    assert_int_equal(as_option_parse(&o, AS_OPTION_ITEMS_MAX, argv, &err), 0);
    assert_string_equal(as_option_item(&o, AS_OPT_INPUT, AS_OPTION_ITEMS_MAX - 2), "a=1");
    assert_null(as_option_item(&o, AS_OPT_INPUT, AS_OPTION_ITEMS_MAX - 1));
    assert_string_equal(as_option_item(&o, AS_OPT_OUTPUT, 0), "y");
    assert_null(as_option_item(&o, AS_OPT_OUTPUT, 1));
    as_option_init(&o, AS_SCOPE_INFER);
    assert_int_equal(as_option_parse(&o, AS_OPTION_ITEMS_MAX + 1, argv, &err), AS_EINVALID);
    as_buf_add(&err, "", 1);
    assert_string_equal(err.p, "--input=a=1: more than 256 values of repeatable options");
    as_buf_fini(&err);
}

static void some_options_have_a_letter(void **state AS_UNUSED)
{
    char letter[] = "-o", file[] = "x.yaml", joined[] = "-oz.yaml", other[] = "-xo";
    struct as_option_set o;
    struct as_buf err = {0};

    as_option_init(&o, AS_SCOPE_BUILD);
    assert_int_equal(as_option_parse(&o, 2, (char *const[]){letter, file}, &err), 0);
    assert_string_equal(as_option_str(&o, AS_OPT_OUTPUT_FILE), "x.yaml");
    assert_int_equal(o.n_args, 0);
    assert_int_equal(as_option_parse(&o, 1, (char *const[]){letter}, &err), AS_EINVALID);
    assert_int_equal(as_option_parse(&o, 1, (char *const[]){other}, &err), AS_EINVALID);
    as_buf_add(&err, "", 1);
    assert_string_equal(err.p,
                        "--output-file needs a valueunknown option -xo; options begin with --");
    as_buf_fini(&err);
    assert_int_equal(as_option_parse(&o, 1, (char *const[]){joined}, &err), 0);
    assert_string_equal(as_option_str(&o, AS_OPT_OUTPUT_FILE), "z.yaml");
    check_ok(&o, ARGS("-p", "7", "-p8"));
    assert_int_equal(as_option_u64(&o, AS_OPT_PORT), 8);
    check_refused(ARGS("-o", "x"),
                  "unknown option -o; options begin with --"); /* not an option of `run` */
}

/* Arguments behind the first `more_from` become values of the option `more`. */
static void arguments_can_be_values_of_an_option(void **state AS_UNUSED)
{
    char model[] = "m", a[] = "a=1", b[] = "b=2", given[] = "--input=c=3";
    struct as_option_set o;
    struct as_buf err = {0};

    as_option_init(&o, AS_SCOPE_INFER);
    o.more = "input";
    o.more_from = 1;
    assert_int_equal(as_option_parse(&o, 4, (char *const[]){model, a, given, b}, &err), 0);
    assert_int_equal(o.n_args, 1);
    assert_int_equal(o.n_more, 2);
    assert_string_equal(as_option_item(&o, AS_OPT_INPUT, 0),
                        "a=1"); /* in the order of the command line */
    assert_string_equal(as_option_item(&o, AS_OPT_INPUT, 1), "c=3");
    assert_string_equal(as_option_item(&o, AS_OPT_INPUT, 2), "b=2");
    assert_null(as_option_item(&o, AS_OPT_INPUT, 3));
    as_buf_fini(&err);
}

static void a_child_gets_its_limits(void **state AS_UNUSED)
{
    struct as_option_set o, child;
    struct as_buf err = {0};
    char **argv;
    int n = 0;

    check_ok(&o, ARGS("--port=0", "--workers=3", "--prefetch-work=1500us", "--stream-window=1M",
                      "--debug-errors", "--status-port=off", "--router=pow_2"));
    as_option_set_i64(&o, AS_OPT_PORT, 12345);
    as_option_set_str(&o, AS_OPT_RUNTIME_DIR, "/run/x y");
    argv = as_option_argv(&o, AS_SCOPE_DISPATCHER);
    while (argv[n])
        n++;
    assert_int_equal(n, 7); /* --workers is not an option of the dispatcher */
    as_option_init(&child, AS_SCOPE_DISPATCHER);
    assert_int_equal(as_option_parse(&child, n, argv, &err), 0);
    assert_int_equal(as_option_u64(&child, AS_OPT_PORT), 12345);
    assert_int_equal(as_option_ns(&child, AS_OPT_PREFETCH_WORK), 1500 * AS_US);
    assert_int_equal(as_option_u64(&child, AS_OPT_STATUS_PORT), 0);
    assert_string_equal(as_option_str(&child, AS_OPT_ROUTER), "pow_2");
    assert_string_equal(as_option_str(&child, AS_OPT_RUNTIME_DIR), "/run/x y");
    assert_true(as_option_bool(&child, AS_OPT_DEBUG_ERRORS));
    as_option_argv_free(argv);
}

/* A value that is written and read again is the same: for defaults and both bounds. */
static void written_values_are_read_back(void **state AS_UNUSED)
{
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        const struct as_option_row *row = &as_option_rows[i];
        struct as_option_value v = {.s = ""}, back = {.s = ""};
        struct as_buf text = {0}, err = {0};
        int64_t numbers[3];

        assert_int_equal(as_option_read(row, row->def, &v, &err), 0);
        numbers[0] = v.i;
        numbers[1] = row->min;
        numbers[2] = row->max;
        for (size_t k = 0; k < (row->type <= AS_OPTION_DURATION ? 3 : 1); k++) {
            v.i = numbers[k];
            as_buf_drop(&text, text.n);
            as_option_write(row, &v, &text);
            as_buf_add(&text, "", 1);
            assert_int_equal(as_option_read(row, (char *)text.p, &back, &err), 0);
            assert_int_equal(back.i, v.i);
        }
        as_buf_fini(&text);
        as_buf_fini(&err);
    }
}

static void help_fits_one_screen_and_names_every_option(void **state AS_UNUSED)
{
    struct as_buf basic = {0}, all = {0}, page = {0};
    uint32_t lines = 0;

    as_option_help(&basic, AS_SCOPE_RUN, false);
    as_option_help(&all, AS_SCOPE_RUN, true);
    as_option_markdown(&page);
    as_buf_add(&all, "", 1);
    as_buf_add(&page, "", 1);
    for (size_t i = 0, from = 0; i < basic.n; i++) {
        if (basic.p[i] != '\n')
            continue;
        assert_true(i - from <= 110);
        from = i + 1;
        lines++;
    }
    assert_true(lines <= 32);
    for (size_t i = 0; i < AS_OPT_COUNT; i++) {
        uint32_t scope = as_option_rows[i].scope;
        char key[80];

        snprintf(key, sizeof(key), "  --%s ", as_option_rows[i].key);
        assert_int_equal(strstr((char *)all.p, key) != NULL, (scope & AS_SCOPE_RUN) != 0);
        snprintf(key, sizeof(key), "`--%s`", as_option_rows[i].key);
        assert_int_equal(strstr((char *)page.p, key) != NULL, !(scope & AS_SCOPE_HIDDEN));
    }
    as_buf_fini(&basic);
    as_buf_fini(&all);
    as_buf_fini(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_as_documented),
        cmocka_unit_test(a_value_follows_or_is_behind_an_equals_sign),
        cmocka_unit_test(switches),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(help_is_not_checked_further),
        cmocka_unit_test(an_unknown_option_suggests_a_similar_one),
        cmocka_unit_test(sizes_and_times_have_units),
        cmocka_unit_test(every_number_is_accepted_at_its_bounds_and_refused_beyond),
        cmocka_unit_test(strings_are_accepted_at_their_bounds),
        cmocka_unit_test(off_is_zero_where_the_table_says_so),
        cmocka_unit_test(options_are_checked_against_each_other),
        cmocka_unit_test(arguments_are_bounded),
        cmocka_unit_test(a_list_option_can_be_repeated),
        cmocka_unit_test(some_options_have_a_letter),
        cmocka_unit_test(arguments_can_be_values_of_an_option),
        cmocka_unit_test(a_child_gets_its_limits),
        cmocka_unit_test(written_values_are_read_back),
        cmocka_unit_test(help_fits_one_screen_and_names_every_option),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
