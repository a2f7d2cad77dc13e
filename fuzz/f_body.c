/* fuzz/f_body.c — a hostile caller or worker: any bytes as the payload body of a call.
 *
 * The first byte says whether the rest is checked as an answer. A body that is accepted is read
 * whole, with its parts, and laid out again: it must come out the same, so that no second encoding
 * can bypass a check that is made on the first.
 */
#include "base/err.h"
#include "wire/frame/body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Volatile, so that the reads are not optimised away: they are what a sanitizer watches. */
static volatile unsigned sink;

static void touch(struct as_str s)
{
    unsigned sum = 0;

    for (size_t i = 0; i < s.n; i++)
        sum += (uint8_t)s.p[i];
    sink = sum;
}

static void read_body(const uint8_t *p, size_t n, bool answer, bool part)
{
    struct as_arena a;
    struct as_body b;
    const char *why;
    uint8_t *again;

    as_arena_init(&a, NULL, 0);
    if (as_body_get(p, n, answer, &a, &b, &why) < 0) {
        AS_ASSERT(why && *why && !part); /* the parts were checked with the whole */
        as_arena_fini(&a);
        return;
    }
    AS_ASSERT(as_str_eq(b.method, as_body_method(p)));
    touch(b.method);
    touch(b.data);
    for (uint32_t i = 0; i < b.n_buffers; i++) {
        AS_ASSERT((size_t)((const uint8_t *)b.buffers[i].p - p) % AS_BODY_ALIGN == 0);
        touch(b.buffers[i]);
    }
    for (uint32_t i = 0; i < b.n_parts; i++)
        read_body((const uint8_t *)b.parts[i].p, b.parts[i].n, true, true);
    AS_ASSERT(as_body_len(&b) == n);
    again = malloc(n);
    AS_ASSERT(again);
    as_body_write(&b, again);
    AS_ASSERT(memcmp(again, p, n) == 0);
    free(again);
    as_arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy;

    if (!size)
        return 0;
    /* Exactly as large as the input, so that a sanitizer sees one byte too far. */
    copy = malloc(size > 1 ? size - 1 : 1);
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    read_body(copy, size - 1, data[0] & 1, false);
    free(copy);
    return 0;
}
