/* Specification of what a fleet returns to the system: memory that nobody uses any more, whatever
 * the interval of the pings is. */
#include "base/memory/pages.h"
#include "base/memory/slab.h"

#include "link_world.h"

#define BLOCK ((size_t)64 << 10)

static void unused_memory_is_returned_between_two_pings(void **state AS_UNUSED)
{
    size_t n;
    void *run, *block;

    begin(usual());
    run = as_pages_get(AS_PAGES_MIN, &n);
    block = as_slab_get(BLOCK); /* the last of its run */
    assert_non_null(run);
    assert_non_null(block);
    as_pages_put(run, n);
    as_slab_put(block);
    assert_true(as_pages_cached() >= n);
    UNTIL(!as_pages_cached());
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unused_memory_is_returned_between_two_pings),
    };

    return cmocka_run_group_tests_name("fleet_memory", tests, NULL, NULL);
}
