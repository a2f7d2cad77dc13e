/* Specification of ctl/message/spawn: the text of SPAWN. */
#include "ctl/message/spawn.h"

#include "unit.h"

static struct as_str sample(struct as_buf *b)
{
    as_buf_init(b);
    as_spawn_put(b, AS_SPAWN_ARG, "/usr/bin/python3");
    as_spawn_put(b, AS_SPAWN_ARG, "%s", "");
    as_spawn_put(b, AS_SPAWN_ENV, "A=1");
    as_spawn_put(b, AS_SPAWN_ARG, "--deployment=-odd name");
    as_spawn_put(b, AS_SPAWN_ENV, "B=");
    as_spawn_put_number(b, AS_SPAWN_BATCH, 1);
    as_spawn_put(b, AS_SPAWN_DIR, "/srv/a b");
    as_spawn_put(b, AS_SPAWN_CPUS, "0-3,8");
    as_spawn_put_number(b, AS_SPAWN_MEMORY, UINT64_MAX);
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

static int parse_error(const char *text, size_t n)
{
    struct as_spawn s;

    return as_spawn_parse(&s, (struct as_str){text, n});
}

static void invalid_texts_are_refused(void **state AS_UNUSED)
{
    static const char no_message[] = "\x0a\x04pro", no_name[] = "\x0a\x04prog\x12\x01"
                                                                "A";
    struct as_buf b = {0};

    assert_int_equal(parse_error("", 0), AS_EPROTO);
    as_spawn_put(&b, AS_SPAWN_ENV, "A=1"); /* no program */
    assert_int_equal(parse_error((const char *)b.p, b.n), AS_EPROTO);
    assert_int_equal(parse_error(no_message, sizeof(no_message) - 1), AS_EPROTO);
    assert_int_equal(parse_error(no_name, sizeof(no_name) - 1), AS_EPROTO);
    as_buf_fini(&b);
}

/* Whatever is cut off: refused, or read with what is left (ASan watches). */
static void a_cut_text_does_no_harm(void **state AS_UNUSED)
{
    struct as_buf b;
    struct as_str text = sample(&b);
    size_t n_refused = 0;

    for (size_t n = 0; n < text.n; n++) {
        char *copy = as_str_dup((struct as_str){text.p, n});
        struct as_spawn s;

        if (as_spawn_parse(&s, (struct as_str){copy, n}) == 0)
            as_spawn_fini(&s);
        else
            n_refused++;
        free(copy);
    }
    assert_true(n_refused > text.n / 2);
    as_buf_fini(&b);
}

/* Skipped where it is not known; a spare that has it is not one without it. */
static void an_item_of_a_later_version_is_kept(void **state AS_UNUSED)
{
    static const char later[] = "\xa2\x06\x05later"; /* 100 */
    struct as_buf b, shared = {0}, own = {0};
    struct as_spawn s;
    size_t n;

    n = sample(&b).n;
    as_buf_add(&b, later, sizeof(later) - 1);
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&b)), 0);
    assert_string_equal(s.argv[0], "/usr/bin/python3");
    assert_true(s.batch);
    as_spawn_fini(&s);
    as_spawn_split(as_buf_slice(&b), &shared, &own);
    assert_int_equal(shared.n, n + sizeof(later) - 1);
    assert_int_equal(own.n, 0);
    as_buf_fini(&shared);
    as_buf_fini(&own);
    as_buf_fini(&b);
}

static void own_items_are_split_off(void **state AS_UNUSED)
{
    static const char cut[] = {0x0a, 0x7f, 'p'};
    struct as_buf b, shared, own;
    struct as_spawn s;

    sample(&b);
    as_spawn_put(&b, AS_SPAWN_OWN_ENV, "TOKEN=x");
    as_spawn_put_number(&b, AS_SPAWN_SPARES, 2);
    as_spawn_put(&b, AS_SPAWN_OWN_ENV, "RANK=");
    assert_int_equal(as_spawn_spares(as_buf_slice(&b)), 2);
    /* a process that is no spare gets it in its environment */
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&b)), 0);
    assert_string_equal(s.env[0], "TOKEN=x");
    assert_string_equal(s.env[1], "RANK=");
    assert_string_equal(s.env[2], "A=1");
    assert_string_equal(s.env[3], "B=");
    assert_null(s.env[4]);
    as_spawn_fini(&s);

    as_buf_init(&shared);
    as_buf_init(&own);
    as_spawn_split(as_buf_slice(&b), &shared, &own);
    assert_int_equal(own.n, sizeof("TOKEN=x\0RANK="));
    assert_memory_equal(own.p, "TOKEN=x\0RANK=", own.n);
    assert_int_equal(shared.n, b.n - own.n - 2); /* a tag and a length for a NUL each */
    assert_int_equal(as_spawn_spares(as_buf_slice(&shared)), 2);
    assert_int_equal(as_spawn_parse(&s, as_buf_slice(&shared)), 0);
    assert_null(s.env[2]);
    as_spawn_fini(&s);

    /* nothing comes of a text that is no message */
    as_buf_drop(&shared, shared.n);
    as_buf_drop(&own, own.n);
    as_spawn_split((struct as_str){cut, sizeof(cut)}, &shared, &own);
    assert_int_equal(shared.n + own.n, 0);
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
        cmocka_unit_test(a_cut_text_does_no_harm),
        cmocka_unit_test(an_item_of_a_later_version_is_kept),
        cmocka_unit_test(own_items_are_split_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
