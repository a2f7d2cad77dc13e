/* Specification of an edge's sweep: memory of connections and requests is returned to the system
 * without a search through the heap, whose time grows with its size. */
#include "base/memory/pages.h"

#include "control_world.h"

#include <malloc.h>

#define CONNECTIONS 16  /* at once */
#define TIMES       100 /* enough memory in sum for a search of the heap */

static unsigned searches;

/* Replaces the function of the C library. */
int malloc_trim(size_t pad AS_UNUSED)
{
    searches++;
    return 1;
}

static void open_and_close_connections(struct world *w)
{
    struct client *c[CONNECTIONS];

    for (size_t i = 0; i < AS_COUNT(c); i++) {
        c[i] = connect_client(w);
        send_request(c[i], "GET", "/v1/version", NULL);
    }
    for (size_t i = 0; i < AS_COUNT(c); i++) {
        UNTIL(w, c[i], has_received(c[i], "\r\n\r\n"));
        free_client(c[i]);
    }
    UNTIL(w, NULL, w->edge->n_conns == 0);
}

static void no_turn_searches_the_heap(void **state AS_UNUSED)
{
    struct world *w = open_world();

    for (int i = 0; i < TIMES; i++)
        open_and_close_connections(w);
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
