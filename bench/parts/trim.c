/* What it costs to give memory back: malloc_trim() on a large heap, and slabs (base/memory/slab).
 *
 *     trim [GIB]
 *
 * GIB (default 4) of blocks of 8,000 bytes are taken, a small one between each two; then some are
 * freed, and the rest of the process has the memory again. Prints rows of a table of Markdown:
 * what of the process stood still meanwhile is the time of malloc_trim(), which holds the heap's
 * lock, and of the slowest as_slab_put(); the sum is of all. Last, what a block costs when nothing
 * of that happens. */
#include "base/memory/pages.h"
#include "base/memory/slab.h"
#include "io/loop/clock.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK     8000U
#define SMALL     100U
#define PAIRS     2000000U
#define LOOKS     4 /* of the trims that happen every few seconds: the last one gives all back */
#define PAGE_SIZE 4096.0
#define MIB       (1024.0 * 1024)

struct kind {
    const char *name;
    void *(*get)(size_t n);
    void (*put)(void *p);
    void (*trim)(void);
};

static double now(void)
{
    return (double)as_clock_read(CLOCK_MONOTONIC) * 1e-9;
}

static double resident_mib(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t all = 0, here = 0;

    if (!f || fscanf(f, "%zu %zu", &all, &here) != 2) {
        fputs("trim: /proc/self/statm cannot be read\n", stderr);
        exit(1);
    }
    fclose(f);
    return (double)here * PAGE_SIZE / MIB;
}

static void heap_trim(void)
{
    (void)malloc_trim(0);
}

static void slab_trim(void)
{
    as_slab_trim();
    as_pages_trim();
}

static void *filled(const struct kind *k, size_t n)
{
    void *p = k->get(n);

    if (!p) {
        fputs("trim: memory is out\n", stderr);
        exit(1);
    }
    memset(p, 1, n);
    return p;
}

/* `stay`: one block in so many stays. */
static void measure(const struct kind *k, size_t n, size_t stay)
{
    void **block = calloc(n, sizeof(*block)), **small = calloc(n, sizeof(*small));
    double before, full, freeing, slowest = 0, trimming, slowest_trim = 0, t, took, left;

    if (!block || !small)
        exit(1);
    before = resident_mib();
    for (size_t i = 0; i < n; i++) {
        block[i] = filled(k, BLOCK);
        small[i] = malloc(SMALL);
        memset(small[i], 1, SMALL);
    }
    full = resident_mib() - before;
    freeing = now();
    for (size_t i = 0; i < n; i++) {
        if (i % stay == 0)
            continue;
        t = now();
        k->put(block[i]);
        took = now() - t;
        slowest = took > slowest ? took : slowest;
    }
    freeing = now() - freeing;
    trimming = now();
    for (int i = 0; i < LOOKS; i++) {
        t = now();
        k->trim();
        took = now() - t;
        slowest_trim = took > slowest_trim ? took : slowest_trim;
    }
    trimming = now() - trimming;
    left = resident_mib() - before;
    printf("| %s, all but one in %zu freed | %.0f | %.0f | %.3f | %.0f | %.3f | %.0f |\n", k->name,
           stay, full, freeing * 1e3, slowest * 1e3, trimming * 1e3, slowest_trim * 1e3, left);
    for (size_t i = 0; i < n; i++) {
        if (i % stay == 0)
            k->put(block[i]);
        free(small[i]);
    }
    free(block);
    free(small);
    (void)malloc_trim(0); /* the next one begins with as little */
    slab_trim();
}

/* One block is taken and given back again and again, while a hundred others stay. */
static void pairs(const struct kind *k, size_t size)
{
    void *others[100];
    double t;

    for (size_t i = 0; i < AS_COUNT(others); i++)
        others[i] = k->get(size);
    t = now();
    for (size_t i = 0; i < PAIRS; i++) {
        char *volatile p = k->get(size);

        p[0] = 1;
        k->put(p);
    }
    t = now() - t;
    printf("| %s, %zu bytes | %.0f |\n", k->name, size, t / PAIRS * 1e9);
    for (size_t i = 0; i < AS_COUNT(others); i++)
        k->put(others[i]);
}

static void *aligned(size_t n)
{
    return aligned_alloc(AS_SLAB_ALIGN, AS_ALIGN(n, AS_SLAB_ALIGN));
}

int main(int argc, char **argv)
{
    const struct kind kinds[] = {
        {"malloc", malloc, free, heap_trim},
        {"slab", as_slab_get, as_slab_put, slab_trim},
    };
    const struct kind heap_aligned = {"aligned_alloc", aligned, free, heap_trim};
    const size_t sizes[] = {1000, 8000, 65536};
    double gib = argc > 1 ? strtod(argv[1], NULL) : 4;
    size_t n = (size_t)(gib * 1024 * MIB / BLOCK);

    if (!(gib >= 0.01 && gib <= 1024)) {
        fputs("usage: trim [GIB]\n", stderr);
        return 2;
    }
    puts("| blocks | MiB held | freeing, ms | slowest, ms | trims, ms | slowest, ms | MiB left |");
    puts("|---|---|---|---|---|---|---|");
    for (size_t i = 0; i < AS_COUNT(kinds); i++) {
        measure(&kinds[i], n, 2);
        measure(&kinds[i], n, 1000);
    }
    puts("\n| one taken and given back | ns |\n|---|---|");
    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        pairs(&kinds[0], sizes[i]);
        pairs(&heap_aligned, sizes[i]);
        pairs(&kinds[1], sizes[i]);
    }
    return 0;
}
