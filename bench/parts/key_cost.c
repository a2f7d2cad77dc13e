/* What an API key costs a request: its text is found, its rights are checked, its quotas counted.
 *
 *     key_cost [KEYS [FILE]]
 *
 * Prints ns of CPU time a request, best of five, for KEYS keys (10,000) that are drawn at random:
 * of the whole way as edge/exchange/key_access takes it, of the same with texts that no cache has
 * seen, and with texts that are no keys. Then the time and memory of a table, which are those of
 * reading a file without the disk. With FILE it only writes a file of so many keys. */
#include "base/rand.h"
#include "core/keys/key_cache.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REQUESTS 2000000u
#define WRONG    1000u

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * AS_SEC + (uint64_t)t.tv_nsec;
}

static void make_text(uint32_t i, char text[AS_KEY_TEXT + 1])
{
    struct as_rand r = {i + 1};
    uint8_t bytes[AS_KEY_BYTES];

    for (size_t k = 0; k < sizeof(bytes); k += 8) {
        uint64_t v = as_rand_next(&r);

        memcpy(bytes + k, &v, 8);
    }
    as_key_text(bytes, text);
}

static struct as_key_line line_of(uint32_t i, char name[16])
{
    char text[AS_KEY_TEXT + 1];
    struct as_key_line l = {.models = AS_STR("iris,llm-*"),
                            .applications = AS_STR("*"),
                            .rate = 1000000,
                            .rate_period = 1,
                            .burst = 1000000,
                            .in_flight = 1000};

    snprintf(name, 16, "key-%u", i);
    l.name = as_str_of(name);
    make_text(i, text);
    as_sha256(as_str_of(text), l.digest);
    return l;
}

static int write_file(const char *path, uint32_t n)
{
    FILE *f = fopen(path, "w");

    for (uint32_t i = 0; f && i < n; i++) {
        char name[16];
        struct as_key_line l = line_of(i, name);
        struct as_buf b = {0};

        as_key_line_put(&l, &b);
        fwrite(b.p, 1, b.n, f);
        as_buf_fini(&b);
    }
    return !f || fclose(f);
}

/* The sum keeps the compiler from leaving the work out. */
static uint64_t ask(struct as_key_cache *c, char (*texts)[AS_KEY_TEXT + 2], uint32_t n, bool forget)
{
    struct as_rand r = {7};
    uint64_t sum = 0;

    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct as_key *k;
        as_ns wait;

        if (forget)
            c->secret[0]++;
        k = as_key_cache_find(c, (struct as_str){texts[as_rand_below(&r, n)], AS_KEY_TEXT});
        if (!k)
            continue;
        as_key_ref(k);
        sum += as_key_take(k, true, i * AS_US, &wait);
        sum += as_key_may_use_model(k, AS_STR("llm-7b"));
        as_key_release(k);
        as_key_unref(k);
    }
    return sum;
}

static void measure(const char *what, struct as_key_cache *c, char (*texts)[AS_KEY_TEXT + 2],
                    uint32_t n, bool forget)
{
    uint64_t best = UINT64_MAX, sum = 0;

    for (int turn = 0; turn < 5; turn++) {
        uint64_t from = cpu_ns();

        sum += ask(c, texts, n, forget);
        best = AS_MIN(best, cpu_ns() - from);
    }
    printf("%-10s %6.1f ns (%lu)\n", what, (double)best / REQUESTS, (unsigned long)sum);
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000;
    char(*texts)[AS_KEY_TEXT + 2] = malloc((n + WRONG) * sizeof(*texts));
    struct as_key_cache c = {0};
    struct as_key_table *t;
    struct as_buf err = {0};
    size_t before;
    uint64_t from;

    if (argc > 2)
        return write_file(argv[2], n);
    for (uint32_t i = 0; i < n + WRONG; i++)
        make_text(i, texts[i]);
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    from = cpu_ns();
    t = as_key_table_new(n);
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        struct as_key_line l = line_of(i, name);

        if (as_key_table_add(t, &l, NULL, &err))
            return 1;
    }
    as_key_table_seal(t);
    printf("%u keys: %.1f ms, %.1f MB\n", n, (double)(cpu_ns() - from) / 1e6,
           (double)(mallinfo2().uordblks + mallinfo2().hblkhd - before) / 1e6);
    as_key_cache_init(&c, (const uint8_t[AS_SIPHASH_SECRET]){1, 2, 3});
    as_key_cache_set_table(&c, t);
    measure("seen", &c, texts, n, false);
    measure("unseen", &c, texts, n, true);
    measure("wrong", &c, texts + n, WRONG, false);
    as_key_cache_fini(&c);
    as_key_table_unref(t);
    free(texts);
    return 0;
}
