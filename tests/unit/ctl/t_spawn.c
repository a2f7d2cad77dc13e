/* Specification of ctl/message/spawn: the text of SPAWN. */
#include "ctl/message/spawn.h"

#include "unit.h"

static struct as_str sample(struct as_buf *b)
{
    as_buf_init(b);
    as_spawn_put_arg(b, "/usr/bin/python3");
    as_spawn_put_arg(b, "");
    as_spawn_put_env(b, "A=1");
    as_spawn_put_arg(b, "--deployment=-odd name");
    as_spawn_put_env(b, "B=");
    as_spawn_put_batch(b);
    as_spawn_put_dir(b, "/srv/a b");
    as_spawn_put_cpus(b, "0-3,8");
    as_spawn_put_memory(b, UINT64_MAX);
    return as_buf_slice(b);
}

static void it_comes_back_as_it_was_put(void **state AS_UNUSED)
{
    struct as_buf b;
    struct as_spawn s;

    assert_int_equal(as_spawn_parse(&s, sample(&b)), 0);
    assert_string_equal(s.argv[0], "/usr/bin/python3");
    assert_string_equal(s.argv[1], "");
    assert_string_equal(s.argv[2], "--deployment=-odd name");
    assert_null(s.argv[3]);
    assert_string_equal(s.env[0], "A=1");
    assert_string_equal(s.env[1], "B=");
    assert_null(s.env[2]);
    assert_true(s.batch);
    assert_string_equal(s.dir, "/srv/a b");
    assert_string_equal(s.cpus, "0-3,8");
    assert_true(s.memory == UINT64_MAX);
    as_spawn_fini(&s);
    as_buf_fini(&b);
}

static void invalid_texts_are_refused(void **state AS_UNUSED)
{
    static const char no_program[] = "eA=1", no_name[] = "aprog\0e=\0eA", unknown[] = "aprog\0z",
                      no_number[] = "aprog\0m5M";
    struct as_buf b;
    struct as_str text = sample(&b);
    struct as_spawn s;

    assert_int_equal(as_spawn_parse(&s, AS_STR("")), AS_EPROTO);
    for (size_t n = 1; n < text.n; n++) {
        if (text.p[n - 1] != 0)
            assert_int_equal(as_spawn_parse(&s, (struct as_str){text.p, n}), AS_EPROTO);
    }
    assert_int_equal(as_spawn_parse(&s, (struct as_str){no_program, sizeof(no_program)}),
                     AS_EPROTO);
    assert_int_equal(as_spawn_parse(&s, (struct as_str){no_name, sizeof(no_name)}), AS_EPROTO);
    assert_int_equal(as_spawn_parse(&s, (struct as_str){unknown, sizeof(unknown)}), AS_EPROTO);
    assert_int_equal(as_spawn_parse(&s, (struct as_str){no_number, sizeof(no_number)}), AS_EPROTO);
    as_buf_fini(&b);
}

static void own_items_are_split_off(void **state AS_UNUSED)
{
    static const char cut[] = {'a', 'p', 0, 'o', 'T', '=', '1', 0, 'e', 'A'};
    struct as_buf b, shared, own;
    struct as_spawn s;

    sample(&b);
    as_spawn_put_own_env(&b, "TOKEN=x");
    as_spawn_put_spares(&b, 2);
    as_spawn_put_own_env(&b, "RANK=");
    assert_int_equal(as_spawn_spares(as_buf_slice(&b)), 2);
    /* a process that is no spare gets it in its environment */
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&b)), 0);
    assert_string_equal(s.env[2], "TOKEN=x");
    assert_string_equal(s.env[3], "RANK=");
    assert_null(s.env[4]);
    as_spawn_fini(&s);

    as_buf_init(&shared);
    as_buf_init(&own);
    as_spawn_split(as_buf_slice(&b), &shared, &own);
    assert_int_equal(own.n, sizeof("TOKEN=x\0RANK="));
    assert_memory_equal(own.p, "TOKEN=x\0RANK=", own.n);
    assert_int_equal(shared.n, b.n - own.n - 2);
    assert_int_equal(as_spawn_spares(as_buf_slice(&shared)), 2);
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&shared)), 0);
    assert_null(s.env[2]);
    as_spawn_fini(&s);

    /* bytes behind the last NUL are ignored */
    as_buf_drop(&shared, shared.n);
    as_buf_drop(&own, own.n);
    as_spawn_split((struct as_str){cut, sizeof(cut)}, &shared, &own);
    assert_int_equal(shared.n, 3);
    assert_int_equal(own.n, 4);
    assert_int_equal(as_spawn_spares((struct as_str){cut, sizeof(cut)}), 0);
    as_buf_fini(&shared);
    as_buf_fini(&own);
    as_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_as_it_was_put),
        cmocka_unit_test(invalid_texts_are_refused),
        cmocka_unit_test(own_items_are_split_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
