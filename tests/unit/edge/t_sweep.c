/* Specification of an edge's sweep: what many connections and requests held is the system's again,
 * without a search through the heap, which takes the longer the more others hold. */
#include "base/memory/pages.h"

#include "control_world.h"

#include <malloc.h>

#define CONNECTIONS 16  /* at once */
#define TIMES       100 /* what they hold in sum is worth a search */

static unsigned searches;

/* In place of the C library's. */
int malloc_trim(size_t pad AS_UNUSED)
{
    searches++;
    return 1;
}

static void come_and_go(struct world *w)
{
    struct client *c[CONNECTIONS];

    for (size_t i = 0; i < AS_COUNT(c); i++) {
        c[i] = connected(w);
        say(c[i], "GET", "/v1/version", NULL);
    }
    for (size_t i = 0; i < AS_COUNT(c); i++) {
        UNTIL(w, c[i], heard(c[i], "\r\n\r\n"));
        leave(c[i]);
    }
    UNTIL(w, NULL, w->edge->n_conns == 0);
}

static void no_turn_searches_the_heap(void **state AS_UNUSED)
{
    struct world *w = open_world();

    for (int i = 0; i < TIMES; i++)
        come_and_go(w);
    as_timer_set(&w->edge->sweep, as_loop_now(w->loop));
    UNTIL(w, NULL, w->edge->sweep.at == AS_NEVER);
    assert_int_equal(searches, 0);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_turn_searches_the_heap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
