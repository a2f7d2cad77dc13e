/* Finding what is open on a link by its stream. */
#include "link/worker/worker_table.h"
#include "unit.h"

#define N 1000u

static void it_finds_what_was_added_and_not_removed(void **state AS_UNUSED)
{
    static struct as_worker_entry e[N];
    struct as_worker_table t = {0};

    assert_null(as_worker_table_find(&t, 1));
    for (uint32_t i = 0; i < N; i++)
        as_worker_table_add(&t, &e[i], 2u * i + 1);
    for (uint32_t i = 0; i < N; i += 2)
        as_worker_table_remove(&t, &e[i]);
    assert_int_equal(t.n, N / 2);
    for (uint32_t i = 0; i < N; i++)
        assert_ptr_equal(as_worker_table_find(&t, 2u * i + 1), i % 2 ? &e[i] : NULL);
    assert_null(as_worker_table_find(&t, 2u * N + 1));
    as_worker_table_fini(&t);
}

/* Streams that share a bucket: those that stayed open while many others came and went. */
static void streams_far_apart(void **state AS_UNUSED)
{
    struct as_worker_entry e[3];
    struct as_worker_table t = {0};
    const uint64_t streams[3] = {1, 1 + 2 * 64, (uint64_t)1 + 2 * 64 * 1000};

    for (uint32_t i = 0; i < 3; i++)
        as_worker_table_add(&t, &e[i], streams[i]);
    as_worker_table_remove(&t, &e[1]);
    assert_ptr_equal(as_worker_table_find(&t, streams[0]), &e[0]);
    assert_null(as_worker_table_find(&t, streams[1]));
    assert_ptr_equal(as_worker_table_find(&t, streams[2]), &e[2]);
    as_worker_table_fini(&t);
}

static void all_are_popped_once_or_forgotten(void **state AS_UNUSED)
{
    static struct as_worker_entry e[N];
    struct as_worker_table t = {0};
    struct as_worker_entry *p;
    uint32_t at = 0, n = 0;

    for (uint32_t i = 0; i < N; i++)
        as_worker_table_add(&t, &e[i], 2u * i + 2);
    while ((p = as_worker_table_pop(&t, &at))) {
        assert_null(as_worker_table_find(&t, p->stream));
        n++;
    }
    assert_int_equal(n, N);
    assert_int_equal(t.n, 0);
    as_worker_table_add(&t, &e[0], 7);
    as_worker_table_clear(&t);
    assert_null(as_worker_table_find(&t, 7));
    as_worker_table_add(&t, &e[0], 7);
    assert_ptr_equal(as_worker_table_find(&t, 7), &e[0]);
    as_worker_table_fini(&t);
    as_worker_table_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_finds_what_was_added_and_not_removed),
        cmocka_unit_test(streams_far_apart),
        cmocka_unit_test(all_are_popped_once_or_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
