/* Specification of ctl/message/replica_facts: the text of NOTE. */
#include "ctl/message/replica_facts.h"

#include "unit.h"

static const struct as_replica_slot_facts sample = {.number = 3,
                                                    .generation = 0xfedcba9876543210,
                                                    .version = 5,
                                                    .config = 6,
                                                    .rank = 1,
                                                    .rank_next = AS_RANK_NONE,
                                                    .world = 8,
                                                    .starts = 9,
                                                    .ready = true,
                                                    .proved = true,
                                                    .unsure = false,
                                                    .stale = true,
                                                    .retiring = true};

static void it_comes_back_as_it_was_written(void **state AS_UNUSED)
{
    struct as_replica_slot_facts back = {0};
    char note[AS_REPLICA_FACTS_MAX];

    assert_int_equal(as_replica_facts_parse(&back, as_replica_facts_write(&sample, note)), 0);
    assert_int_equal(back.number, 3);
    assert_true(back.generation == sample.generation);
    assert_int_equal(back.version, 5);
    assert_int_equal(back.config, 6);
    assert_int_equal(back.rank, 1);
    assert_int_equal(back.rank_next, AS_RANK_NONE);
    assert_int_equal(back.world, 8);
    assert_int_equal(back.starts, 9);
    assert_true(back.ready && back.proved && !back.unsure && back.stale && back.retiring);
}

static void all_ones_fit(void **state AS_UNUSED)
{
    struct as_replica_slot_facts f, back;
    char note[AS_REPLICA_FACTS_MAX];

    memset(&f, 0xff, sizeof(f));
    f.ready = f.proved = f.unsure = f.stale = f.retiring = f.early = f.leaves = true;
    assert_int_equal(as_replica_facts_parse(&back, as_replica_facts_write(&f, note)), 0);
    assert_int_equal(back.starts, UINT32_MAX);
}

static void a_newer_field_is_skipped_a_missing_one_refused(void **state AS_UNUSED)
{
    struct as_replica_slot_facts back = {.number = 42};
    char note[AS_REPLICA_FACTS_MAX + 16] = "colour=blue ";
    struct as_str text = as_replica_facts_write(&sample, note + 12);

    text = (struct as_str){note, text.n + 12};
    assert_int_equal(as_replica_facts_parse(&back, text), 0);
    assert_int_equal(back.number, 3);
    back.number = 42;
    text.n -=
        strlen(" early=1 leaves=1"); /* what an older release writes ends here: "retiring=1" */
    for (size_t n = 0; n + 1 < text.n; n++)
        assert_int_equal(as_replica_facts_parse(&back, (struct as_str){note, n}), AS_EINVALID);
    assert_int_equal(back.number, 42);
    assert_int_equal(as_replica_facts_parse(&back, text), 0);
    assert_true(back.retiring && !back.early && !back.leaves);
    back.number = 42;
    note[12 + 7] = 'x'; /* number=x */
    assert_int_equal(as_replica_facts_parse(&back, text), AS_EINVALID);
    assert_int_equal(back.number, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_as_it_was_written),
        cmocka_unit_test(all_ones_fit),
        cmocka_unit_test(a_newer_field_is_skipped_a_missing_one_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
