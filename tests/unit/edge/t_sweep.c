/* Specification of an edge's sweep: memory of connections and requests is returned to the system
 * without a search through the heap, whose time grows with its size. */
#include "base/memory/pages.h"
#include "base/memory/slab.h"
#include "edge/exchange/exchange.h"

#include "control_world.h"

#include <malloc.h>

#define CONNECTIONS 16  /* at once */
#define TIMES       100 /* enough memory in sum for a search of the heap */

#define BURST     2048 /* requests at once … */
#define RUN_SHARE 32   /* … of which so many are in one run of the slab, or more */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PAGED false /* blocks come from the heap; memory has a shadow that stays resident */
#else
#define PAGED true
#endif

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

/* --- requests --- */

static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t all = 0, here = 0;

    for (int i = 0; i < 4; i++) {
        as_slab_trim();
        as_pages_trim();
    }
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &all, &here), 2);
    fclose(f);
    return here * 4096;
}

static void trim_twice(struct world *w) /* what is not used in between is freed */
{
    as_exchange_pool_trim(w->edge);
    as_exchange_pool_trim(w->edge);
}

/* Begins BURST requests, and ends all but each RUN_SHARE'th. The first that end, and so stay in the
 * pool, are in as many runs as there are. */
static void begin_burst(struct world *w, const struct as_exchange *of, struct as_exchange **all)
{
    for (size_t i = 0; i < BURST; i++) {
        all[i] = as_exchange_shadow((struct as_exchange *)(uintptr_t)of);
        assert_non_null(all[i]);
    }
    for (size_t k = 1; k < RUN_SHARE; k++) {
        for (size_t i = k; i < BURST; i += RUN_SHARE)
            as_exchange_free_child(all[i]);
    }
    assert_int_equal(w->edge->stat.exchanges, BURST / RUN_SHARE);
}

static void end_burst(struct as_exchange **all)
{
    for (size_t i = 0; i < BURST; i += RUN_SHARE)
        as_exchange_free_child(all[i]);
}

/* Requests that were in use while others were freed, and those that are kept for the next ones,
 * would each keep a run of 256 KiB. */
static void a_burst_leaves_little_memory(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_exchange *all[BURST], of = {.edge = w->edge};
    size_t before;

    of.budget.requests = as_account_new(&w->budgets.requests);
    of.budget.answers = as_account_new(&w->budgets.answers);
    w->edge->conf.max_requests = BURST;
    before = resident();
    begin_burst(w, &of, all);
    trim_twice(w);
    assert_int_equal(w->edge->stat.pooled, AS_EXCHANGE_POOL_MIN);
    end_burst(all);
    assert_int_equal(w->edge->stat.exchanges, 0);
    assert_int_equal(w->edge->stat.pooled, AS_EXCHANGE_POOL_MIN);
    trim_twice(w);
    assert_int_equal(w->edge->stat.pooled, AS_EXCHANGE_POOL_MIN);
    if (PAGED)
        assert_in_range(resident(), 0, before + ((size_t)1 << 20));
    as_account_unref(of.budget.requests);
    as_account_unref(of.budget.answers);
    close_world(w);
}

/* A pool that has the requests of one moment is not allocated anew for the next one. */
static void a_steady_load_keeps_its_requests(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct as_exchange *x, *again, of = {.edge = w->edge};

    of.budget.requests = as_account_new(&w->budgets.requests);
    of.budget.answers = as_account_new(&w->budgets.answers);
    x = as_exchange_shadow(&of);
    as_exchange_free_child(x);
    trim_twice(w);
    again = as_exchange_shadow(&of);
    assert_ptr_equal(again, x);
    as_exchange_free_child(again);
    assert_int_equal(w->edge->stat.pooled, 1);
    as_account_unref(of.budget.requests);
    as_account_unref(of.budget.answers);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_leaves_little_memory),
        cmocka_unit_test(a_steady_load_keeps_its_requests),
        cmocka_unit_test(no_turn_searches_the_heap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
