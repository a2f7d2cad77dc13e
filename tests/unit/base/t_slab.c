/* Specification of base/memory/slab: blocks do not overlap, an empty run is freed, and any thread
 * may free a block of another one. */
#include "base/memory/pages.h"
#include "base/memory/slab.h"
#include "base/rand.h"

#include "unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PAGED false /* blocks come from the heap; memory has a shadow that stays resident */
#else
#define PAGED true
#endif

static void settle(void)
{
    for (int i = 0; i < 4; i++) {
        as_slab_trim();
        as_pages_trim();
    }
}

static size_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t all = 0, here = 0;

    assert_int_equal(fscanf(f, "%zu %zu", &all, &here), 2);
    fclose(f);
    return here * 4096;
}

static void every_size_is_usable(void **state AS_UNUSED)
{
    const size_t large[] = {AS_SLAB_MAX - 1, AS_SLAB_MAX, AS_SLAB_MAX + 1, (size_t)3 << 20};
    uint8_t *p, *q;

    for (size_t n = 0; n < 20000; n += 61) {
        p = as_slab_get(n);
        q = as_slab_get(n);
        assert_int_equal((uintptr_t)p % AS_SLAB_ALIGN, 0);
        memset(p, 1, n);
        memset(q, 2, n);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 1);
        as_slab_put(p);
        as_slab_put(q);
    }
    for (size_t i = 0; i < AS_COUNT(large); i++) {
        p = as_slab_get(large[i]);
        assert_int_equal((uintptr_t)p % AS_SLAB_ALIGN, 0);
        memset(p, 1, large[i]);
        as_slab_put(p);
    }
    as_slab_put(NULL);
    assert_null(as_slab_get(SIZE_MAX));
    if (PAGED) /* AddressSanitizer ends a program that allocates so much */
        assert_null(as_slab_get(SIZE_MAX / 2));
}

/* Each of many blocks keeps its content while others are allocated and freed. */
static void blocks_do_not_overlap(void **state AS_UNUSED)
{
    struct {
        uint8_t *p;
        size_t n;
        uint8_t mark;
    } all[300] = {{0}};
    struct as_rand r = {7};

    for (int step = 0; step < 20000; step++) {
        size_t i = as_rand_below(&r, AS_COUNT(all));

        if (all[i].p) {
            assert_int_equal(all[i].p[0], all[i].mark);
            assert_int_equal(all[i].p[all[i].n - 1], all[i].mark);
            assert_int_equal(all[i].p[all[i].n / 2], all[i].mark);
            as_slab_put(all[i].p);
            all[i].p = NULL;
            continue;
        }
        all[i].n = 1 + as_rand_below(&r, step % 50 ? 3000 : 200000);
        all[i].mark = (uint8_t)step;
        all[i].p = as_slab_get(all[i].n);
        memset(all[i].p, all[i].mark, all[i].n);
    }
    for (size_t i = 0; i < AS_COUNT(all); i++)
        as_slab_put(all[i].p);
}

/* Of 64 MiB only the last few blocks stay allocated: the trims that run every few seconds return
 * the rest to the system. */
static void freed_memory_returns_to_the_system(void **state AS_UNUSED)
{
    static void *p[8192], *small[8192];
    size_t before;

    if (!PAGED)
        return;
    settle();
    before = resident();
    for (size_t i = 0; i < AS_COUNT(p); i++) {
        p[i] = as_slab_get(8000);
        memset(p[i], 1, 8000);
        small[i] = malloc(100); /* small blocks of the heap between them */
    }
    assert_true(resident() - before > (size_t)60 << 20);
    for (size_t i = 0; i < AS_COUNT(p) - 64; i++)
        as_slab_put(p[i]);
    settle();
    assert_true(resident() - before < (size_t)5 << 20);
    for (size_t i = 0; i < AS_COUNT(p); i++) {
        free(small[i]);
        if (i >= AS_COUNT(p) - 64)
            as_slab_put(p[i]);
    }
}

/* A run with few free blocks is filled before one that may soon be empty. */
static void few_runs_stay_in_use(void **state AS_UNUSED)
{
    static void *p[4096];
    size_t before;

    if (!PAGED)
        return;
    settle();
    before = resident();
    for (size_t i = 0; i < AS_COUNT(p); i++) {
        p[i] = as_slab_get(8000);
        memset(p[i], 1, 8000);
    }
    /* frees all but one in eight, then allocates one block for each that is freed */
    for (size_t i = 0; i < AS_COUNT(p); i++) {
        if (i % 8) {
            as_slab_put(p[i]);
            p[i] = NULL;
        }
    }
    for (int turn = 0; turn < 8; turn++) {
        for (size_t i = 0; i < AS_COUNT(p); i++) {
            if (p[i]) {
                void *other = as_slab_get(8000);

                as_slab_put(p[i]);
                p[i] = other;
                memset(p[i], 1, 8000);
            }
        }
    }
    settle();
    assert_true(resident() - before < (size_t)12 << 20); /* 4 MiB are in use */
    for (size_t i = 0; i < AS_COUNT(p); i++)
        as_slab_put(p[i]);
}

static void one_empty_run_is_kept_while_in_use(void **state AS_UNUSED)
{
    void *p;

    if (!PAGED)
        return;
    settle();
    as_slab_put(as_slab_get(3000));
    assert_int_equal(as_pages_cached(), 0); /* the slab still keeps the run */
    as_slab_trim();
    p = as_slab_get(3000);
    as_slab_put(p);
    as_slab_trim();
    assert_int_equal(as_pages_cached(), 0);
    as_slab_trim();
    assert_int_equal(as_pages_cached(), AS_SLAB_RUN);
    settle();
    assert_int_equal(as_pages_cached(), 0);
}

/* --- threads --- */

#define HANDS 64

static _Atomic(void *) hands[HANDS];

static void *swap(void *arg)
{
    struct as_rand r = {(uintptr_t)arg};

    for (int i = 0; i < 50000; i++) {
        size_t n = 1 + as_rand_below(&r, 5000);
        uint8_t *p = as_slab_get(n);

        memset(p, 1, n);
        as_slab_put(atomic_exchange(&hands[as_rand_below(&r, HANDS)], p));
        if (i % 1000 == 0)
            as_slab_trim();
    }
    return NULL;
}

static void any_thread_can_free(void **state AS_UNUSED)
{
    pthread_t t[3];

    for (uintptr_t i = 0; i < AS_COUNT(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, swap, (void *)(i + 1)), 0);
    for (size_t i = 0; i < AS_COUNT(t); i++)
        pthread_join(t[i], NULL);
    for (size_t i = 0; i < HANDS; i++)
        as_slab_put(atomic_exchange(&hands[i], NULL));
}

/* A worker may fork while another thread is in the allocator. */
static void a_child_of_fork_can_free(void **state AS_UNUSED)
{
    void *p = as_slab_get(1000);
    pthread_t t;

#ifdef __SANITIZE_THREAD__
    return; /* it does not support fork with threads */
#endif
    assert_int_equal(pthread_create(&t, NULL, swap, (void *)(uintptr_t)9), 0);
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        int how;

        if (pid == 0) {
            alarm(20);
            as_slab_put(p);
            as_slab_put(as_slab_get(2000));
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &how, 0), pid);
        assert_int_equal(how, 0);
    }
    pthread_join(t, NULL);
    as_slab_put(p);
    for (size_t i = 0; i < HANDS; i++)
        as_slab_put(atomic_exchange(&hands[i], NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_usable),
        cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(freed_memory_returns_to_the_system),
        cmocka_unit_test(few_runs_stay_in_use),
        cmocka_unit_test(one_empty_run_is_kept_while_in_use),
        cmocka_unit_test(any_thread_can_free),
        cmocka_unit_test(a_child_of_fork_can_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
