/* Specification of core/keys/key_table and core/keys/key_cache: keys are found by digest and by
 * text; a later table shares what has not changed. */
#include "core/keys/key_cache.h"

#include "unit.h"

static void text_of(uint32_t i, char text[AS_KEY_TEXT + 1])
{
    uint8_t bytes[AS_KEY_BYTES] = {(uint8_t)i, (uint8_t)(i >> 8), (uint8_t)(i >> 16)};

    as_key_text(bytes, text);
}

static int add(struct as_key_table *t, uint32_t i, const char *name, uint32_t in_flight,
               const struct as_key_table *former)
{
    char text[AS_KEY_TEXT + 1], own[16];
    struct as_key_line l = {
        .models = AS_STR("*"), .applications = AS_STR("*"), .in_flight = in_flight};
    struct as_buf err = {0};
    int rc;

    snprintf(own, sizeof(own), "k%u", i);
    l.name = as_str_of(name ? name : own);
    text_of(i, text);
    as_sha256(as_str_of(text), l.digest);
    rc = as_key_table_add(t, &l, former, &err);
    assert_int_equal(err.n > 0, rc != 0);
    as_buf_fini(&err);
    return rc;
}

static struct as_key *find(struct as_key_cache *c, uint32_t i)
{
    char text[AS_KEY_TEXT + 1];

    text_of(i, text);
    return as_key_cache_find(c, as_str_of(text));
}

static void found_by_text(void **state AS_UNUSED)
{
    static const uint8_t secret[AS_SIPHASH_SECRET] = {3};
    struct as_key_cache c = {0};
    struct as_key_table *t = as_key_table_new(10000);
    char name[16];

    as_key_cache_init(&c, secret);
    assert_null(find(&c, 0)); /* no table */
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(add(t, i, NULL, 0, NULL), 0);
    assert_int_equal(add(t, 10000, NULL, 0, NULL), AS_EFULL);
    as_key_table_seal(t);
    assert_int_equal(as_key_table_count(t), 10000);
    as_key_cache_set_table(&c, t);
    as_key_table_unref(t);
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < 10000; i++) {
            struct as_key *k = find(&c, i);

            assert_non_null(k);
            snprintf(name, sizeof(name), "k%u", i);
            assert_true(as_str_eq(as_key_name(k), as_str_of(name)));
        }
        for (uint32_t i = 10000; i < 11000; i++)
            assert_null(find(&c, i));
    }
    assert_null(as_key_cache_find(&c, AS_STR("")));
    assert_null(as_key_cache_find(&c, AS_STR("as_short")));
    as_key_cache_fini(&c);
    assert_null(find(&c, 0));
}

static void a_new_table_is_used_at_once(void **state AS_UNUSED)
{
    static const uint8_t secret[AS_SIPHASH_SECRET] = {3};
    struct as_key_cache c = {0};
    struct as_key_table *t = as_key_table_new(10), *next = as_key_table_new(10);

    as_key_cache_init(&c, secret);
    assert_int_equal(add(t, 1, NULL, 0, NULL), 0);
    as_key_cache_set_table(&c, t);
    assert_non_null(find(&c, 1));
    assert_int_equal(add(next, 2, NULL, 0, t), 0);
    as_key_cache_set_table(&c, next);
    assert_null(find(&c, 1));
    assert_non_null(find(&c, 2));
    as_key_table_unref(t);
    as_key_table_unref(next); /* the cache has the only reference … */
    as_key_cache_set_table(&c, next);
    assert_int_equal(as_key_table_count(next), 1); /* … and gets the table once more */
    assert_non_null(find(&c, 2));
    as_key_cache_fini(&c);
}

static void names_and_digests_are_unique(void **state AS_UNUSED)
{
    struct as_key_table *t = as_key_table_new(10);

    assert_int_equal(add(t, 1, "a", 0, NULL), 0);
    assert_int_equal(add(t, 2, "a", 0, NULL), AS_EINVALID);
    assert_int_equal(add(t, 1, "b", 0, NULL), AS_EINVALID);
    assert_int_equal(add(t, 2, "b", 0, NULL), 0);
    as_key_table_unref(t);
    as_key_table_unref(NULL);
}

static const struct as_key *key_of(const struct as_key_table *t, uint32_t i)
{
    uint8_t digest[AS_SHA256_BYTES];
    char text[AS_KEY_TEXT + 1];

    text_of(i, text);
    as_sha256(as_str_of(text), digest);
    return as_key_table_find(t, digest);
}

static void a_later_table_shares_keys(void **state AS_UNUSED)
{
    struct as_key_table *t = as_key_table_new(10), *next = as_key_table_new(10);
    const struct as_key *same, *changed, *renamed, *gone;

    for (uint32_t i = 1; i <= 4; i++)
        assert_int_equal(add(t, i, NULL, 5, NULL), 0);
    same = key_of(t, 1);
    changed = key_of(t, 2);
    renamed = key_of(t, 3);
    gone = key_of(t, 4);
    assert_int_equal(add(next, 1, NULL, 5, t), 0);
    assert_int_equal(add(next, 2, NULL, 6, t), 0);
    assert_int_equal(add(next, 3, "other", 5, t), 0);
    as_key_table_retire(t, next);
    assert_ptr_equal(key_of(next, 1), same);
    assert_false(same->retired);
    assert_ptr_equal(key_of(next, 2)->usage, changed->usage);
    assert_true(changed->retired);
    assert_ptr_not_equal(key_of(next, 3)->usage, renamed->usage);
    assert_true(renamed->retired);
    assert_true(gone->retired);
    as_key_table_unref(t);
    assert_int_equal(key_of(next, 1)->refs, 1);
    as_key_table_unref(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_by_text),
        cmocka_unit_test(a_new_table_is_used_at_once),
        cmocka_unit_test(names_and_digests_are_unique),
        cmocka_unit_test(a_later_table_shares_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
