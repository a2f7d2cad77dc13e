/* Specification of wire/triton/repository: index, load and unload. */
#include "wire/triton/repository.h"

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

static void an_index_request_is_parsed(void **state AS_UNUSED)
{
    struct as_buf b = {0};
    bool ready = true;

    assert_int_equal(as_repository_parse_index(b.p, b.n, &ready), 0);
    assert_false(ready);
    pb_text(&b, 1, "any");
    pb_number(&b, 2, 1);
    assert_int_equal(as_repository_parse_index(b.p, b.n, &ready), 0);
    assert_true(ready);
    assert_int_equal(as_repository_parse_index(b.p, b.n - 1, &ready), AS_EPROTO);
    as_buf_fini(&b);
}

/* Adds an entry to the parameters: a key and a bool. */
static void parameter(struct as_buf *b, const char *key, bool v)
{
    struct as_buf entry = {0}, value = {0};

    pb_number(&value, 1, v);
    pb_text(&entry, 1, key);
    pb_nest(&entry, 2, value);
    pb_nest(b, 3, entry);
}

static void a_load_request_is_parsed(void **state AS_UNUSED)
{
    struct as_buf b = {0};
    struct as_repository_change c;

    pb_text(&b, 2, "m");
    assert_int_equal(as_repository_parse_change(b.p, b.n, &arena, &c), 0);
    assert_true(as_str_eq(c.model, AS_STR("m")) && !c.n_parameters && !c.dependents);
    parameter(&b, "unload_dependents", true);
    parameter(&b, "config", false);
    assert_int_equal(as_repository_parse_change(b.p, b.n, &arena, &c), 0);
    assert_int_equal(c.n_parameters, 2);
    assert_true(c.dependents);
    assert_true(as_str_eq(c.parameters[1], AS_STR("config")));
    as_buf_fini(&b);
}

static void a_malformed_load_request_is_refused(void **state AS_UNUSED)
{
    struct as_repository_change c = {.n_parameters = 77};

    assert_int_equal(as_repository_parse_change((const uint8_t *)"\x12\x05m", 3, &arena, &c),
                     AS_EPROTO);
    assert_int_equal(as_repository_parse_change((const uint8_t *)"\x12\x01\xff", 3, &arena, &c),
                     AS_EPROTO);
    assert_int_equal(c.n_parameters, 77);
}

static void an_index_is_written(void **state AS_UNUSED)
{
    const struct as_repository_row rows[] = {
        {AS_STR("m"), AS_STR("1"), "READY", ""},
        {AS_STR("n"), AS_STR("2"), "UNAVAILABLE", "unloaded"},
    };
    struct as_buf want = {0}, row = {0}, out = {0};

    pb_text(&row, 1, "m");
    pb_text(&row, 2, "1");
    pb_text(&row, 3, "READY");
    pb_nest(&want, 1, row);
    row = (struct as_buf){0};
    pb_text(&row, 1, "n");
    pb_text(&row, 2, "2");
    pb_text(&row, 3, "UNAVAILABLE");
    pb_text(&row, 4, "unloaded");
    pb_nest(&want, 1, row);
    assert_int_equal(as_repository_put_index(rows, 2, &arena, false, &out), 0);
    assert_int_equal(out.n, want.n);
    assert_memory_equal(out.p, want.p, out.n);
    out.n = 0;
    assert_int_equal(as_repository_put_index(rows, 1, &arena, true, &out), 0);
    assert_true(as_str_eq(
        as_buf_slice(&out),
        AS_STR("[{\"name\":\"m\",\"version\":\"1\",\"state\":\"READY\",\"reason\":\"\"}]")));
    as_buf_fini(&out);
    as_buf_fini(&want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_index_request_is_parsed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_load_request_is_parsed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_malformed_load_request_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_index_is_written, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("repository", tests, NULL, NULL);
}
