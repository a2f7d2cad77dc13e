/* Specification of ctl/supervise/model_cache: what it stores within its room. What it sends is in
 * t_workers.c. */
#include "ctl/supervise/model_cache.h"

#include "unit.h"

#define ROOM 2000u

static void set(struct as_model_cache *c, const char *name, size_t n)
{
    static const char bytes[4096];

    as_model_cache_set(
        c,
        &(struct as_ctl_message){
            .type = AS_CTL_MODEL, .replica = as_str_of(name), .number = 1, .text = {bytes, n}},
        ROOM);
}

static void a_model_is_stored_once(void **state AS_UNUSED)
{
    struct as_model_cache c;
    size_t one;

    as_model_cache_init(&c);
    set(&c, "a:1", 100);
    one = as_model_cache_bytes(&c);
    assert_true(one > 100);
    set(&c, "a:1", 100);
    assert_int_equal(as_model_cache_bytes(&c), one);
    set(&c, "b:1", 100);
    assert_int_equal(as_model_cache_bytes(&c), 2 * one);
    set(&c, "a:1", 0);
    set(&c, "a:1", 0);
    assert_int_equal(as_model_cache_bytes(&c), one);
    set(&c, "b:1", 0);
    assert_int_equal(as_model_cache_bytes(&c), 0);
    as_model_cache_fini(&c);
}

static void what_has_no_room_is_not_stored(void **state AS_UNUSED)
{
    struct as_model_cache c;
    size_t before;

    as_model_cache_init(&c);
    set(&c, "a:1", 1000);
    set(&c, "", 50);
    assert_true(c.whole && !c.full);
    before = as_model_cache_bytes(&c);
    set(&c, "b:1", 1000);
    assert_true(c.full);
    assert_int_equal(as_model_cache_bytes(&c), before);
    set(&c, "", 1500);
    assert_true(as_model_cache_bytes(&c) <= ROOM);
    set(&c, "a:1", 0);
    set(&c, "b:1", 1000); /* that of a smaller one is there again */
    assert_true(as_model_cache_bytes(&c) > 1000);
    as_model_cache_fini(&c);
}

static void it_comes_over_an_exec(void **state AS_UNUSED)
{
    struct as_model_cache c, next;
    As__Supervisor *s = as_reexec_new(&as__supervisor__descriptor);
    As__Deployment *d = as_reexec_new(&as__deployment__descriptor);

    as_model_cache_init(&c);
    as_model_cache_init(&next);
    set(&c, "a:1", 100);
    set(&c, "b:1", 200);
    set(&c, "", 50);
    as_model_cache_save(&c, d);
    AS_REEXEC_APPEND(s, deployments, d);
    assert_int_equal(d->n_models, 2);
    as_model_cache_restore(&next, d, ROOM);
    assert_int_equal(as_model_cache_bytes(&next), as_model_cache_bytes(&c));
    assert_true(next.whole && !next.full);
    as_model_cache_fini(&next);
    as_model_cache_init(&next); /* of a version that keeps less */
    as_model_cache_restore(&next, d, 300);
    assert_true(next.full);
    as_reexec_free(s);
    as_model_cache_fini(&c);
    as_model_cache_fini(&next);
}

static void it_moves(void **state AS_UNUSED)
{
    struct as_model_cache c, from;
    size_t bytes;

    as_model_cache_init(&c);
    as_model_cache_init(&from);
    set(&c, "old:1", 100);
    set(&from, "a:1", 100);
    set(&from, "b:1", 100);
    set(&from, "", 50);
    bytes = as_model_cache_bytes(&from);
    as_model_cache_move(&c, &from);
    assert_int_equal(as_model_cache_bytes(&c), bytes);
    assert_true(as_model_cache_has_models(&c) && c.whole);
    assert_int_equal(as_model_cache_bytes(&from), 0);
    assert_false(as_model_cache_has_models(&from) || from.whole);
    set(&c, "a:1", 0);
    set(&c, "b:1", 0);
    assert_false(as_model_cache_has_models(&c));
    as_model_cache_fini(&from);
    as_model_cache_fini(&c);
}

/* As a version leaves it that did not have this. */
static void without_a_state_nothing_is_whole(void **state AS_UNUSED)
{
    As__Deployment *none = as_reexec_new(&as__deployment__descriptor);
    struct as_model_cache c;

    as_model_cache_init(&c);
    as_model_cache_restore(&c, none, ROOM);
    free(none);
    assert_int_equal(as_model_cache_bytes(&c), 0);
    assert_false(c.whole);
    as_model_cache_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_stored_once),
        cmocka_unit_test(what_has_no_room_is_not_stored),
        cmocka_unit_test(it_comes_over_an_exec),
        cmocka_unit_test(it_moves),
        cmocka_unit_test(without_a_state_nothing_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
