/* Specification of wire/triton/settings: log and trace settings are read and written. */
#include "wire/triton/settings.h"

#include "base/err.h"
#include "protobuf.h"

static struct as_arena arena;

static int set_up(void **state AS_UNUSED)
{
    as_arena_init(&arena, NULL, 0);
    return 0;
}

static int tear_down(void **state AS_UNUSED)
{
    as_arena_fini(&arena);
    return 0;
}

/* Adds an entry to the map; frees the value's buffer. */
static void setting(struct as_buf *b, const char *name, struct as_buf value)
{
    struct as_buf entry = {0};

    pb_text(&entry, 1, name);
    pb_nest(&entry, 2, value);
    pb_nest(b, 1, entry);
}

static struct as_buf number(unsigned field, uint64_t v)
{
    struct as_buf b = {0};

    pb_number(&b, field, v);
    return b;
}

static struct as_buf text(unsigned field, const char *z)
{
    struct as_buf b = {0};

    pb_text(&b, field, z);
    return b;
}

static void log_settings_have_types(void **state AS_UNUSED)
{
    const struct as_setting *s;
    struct as_buf b = {0};
    uint32_t n;

    setting(&b, "flag", number(1, 1));
    setting(&b, "level", number(2, 7));
    setting(&b, "file", text(3, "x"));
    setting(&b, "asked", (struct as_buf){0});
    assert_int_equal(as_settings_parse_log(b.p, b.n, &arena, &s, &n), 0);
    assert_int_equal(n, 4);
    assert_true(as_str_eq(s[0].name, AS_STR("flag")) && s[0].type == AS_SETTING_BOOL && s[0].b);
    assert_true(s[1].type == AS_SETTING_NUMBER && s[1].number == 7);
    assert_true(s[2].type == AS_SETTING_TEXT && as_str_eq(s[2].text, AS_STR("x")));
    assert_int_equal(s[3].type, AS_SETTING_NONE);
    assert_int_equal(as_settings_parse_log(b.p, b.n - 1, &arena, &s, &n), AS_EPROTO);
    as_buf_fini(&b);
}

static void of_duplicates_the_last_counts(void **state AS_UNUSED)
{
    const struct as_setting *s;
    struct as_buf b = {0};
    uint32_t n;

    setting(&b, "a", number(1, 1));
    setting(&b, "a", number(1, 0));
    assert_int_equal(as_settings_parse_log(b.p, b.n, &arena, &s, &n), 0);
    assert_true(n == 1 && !s[0].b);
    as_buf_fini(&b);
}

static void too_many_settings_are_refused(void **state AS_UNUSED)
{
    const struct as_setting *s;
    struct as_buf b = {0};
    struct as_str model;
    uint32_t n;

    for (uint32_t i = 0; i < AS_SETTINGS_MAX; i++)
        setting(&b, "a", (struct as_buf){0});
    assert_int_equal(as_settings_parse_log(b.p, b.n, &arena, &s, &n), 0);
    assert_int_equal(as_settings_parse_trace(b.p, b.n, &arena, &s, &n, &model), 0);
    setting(&b, "a", (struct as_buf){0});
    assert_int_equal(as_settings_parse_log(b.p, b.n, &arena, &s, &n), AS_EFULL);
    assert_int_equal(as_settings_parse_trace(b.p, b.n, &arena, &s, &n, &model), AS_EFULL);
    as_buf_fini(&b);
}

static void trace_settings_are_lists(void **state AS_UNUSED)
{
    const struct as_setting *s;
    struct as_buf b = {0}, two = {0};
    struct as_str model;
    uint32_t n;

    pb_text(&two, 1, "TIMESTAMPS");
    pb_text(&two, 1, "TENSORS");
    setting(&b, "trace_level", two);
    setting(&b, "trace_rate", (struct as_buf){0});
    pb_text(&b, 2, "m");
    assert_int_equal(as_settings_parse_trace(b.p, b.n, &arena, &s, &n, &model), 0);
    assert_true(n == 2 && as_str_eq(model, AS_STR("m")));
    assert_true(s[0].type == AS_SETTING_TEXT && as_str_eq(s[0].text, AS_STR("TIMESTAMPS")));
    assert_int_equal(s[1].type, AS_SETTING_NONE);
    as_buf_fini(&b);
}

static void assert_same(struct as_buf *got, struct as_buf *want)
{
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->p, want->p, got->n);
    as_buf_fini(got);
    as_buf_fini(want);
}

static void settings_are_written(void **state AS_UNUSED)
{
    const struct as_setting s[] = {
        {.name = AS_STR("flag"), .type = AS_SETTING_BOOL, .b = false},
        {.name = AS_STR("level"), .type = AS_SETTING_NUMBER, .number = 3},
        {.name = AS_STR("file"), .type = AS_SETTING_TEXT},
    };
    struct as_buf want = {0}, out = {0};

    setting(&want, "flag", number(1, 0)); /* a member of a oneof is written even if it is false */
    setting(&want, "level", number(2, 3));
    setting(&want, "file", text(3, ""));
    assert_int_equal(as_settings_put_log(s, 3, &arena, &out), 0);
    assert_same(&out, &want);
    setting(&want, "file", text(1, ""));
    assert_int_equal(as_settings_put_trace(s + 2, 1, &arena, &out), 0);
    assert_same(&out, &want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(log_settings_have_types, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_duplicates_the_last_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_settings_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(trace_settings_are_lists, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_are_written, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
