/* tests/unit/support/oip_case.h — builds requests by hand and parses them. */
#ifndef AS_TESTS_OIP_CASE_H
#define AS_TESTS_OIP_CASE_H

#include "protobuf.h"
#include "wire/oip/oip.h"

enum { MODEL = 1, VERSION = 2, ID = 3, PARAMS = 4, INPUTS = 5, OUTPUTS = 6, RAW = 7 };

static struct {
    struct as_arena arena;
    struct as_oip_infer r;
    uint8_t *bytes;
    char why[256];
} got;

/* Parses and frees the message; the copy that the result points to is valid until the next call. */
AS_UNUSED static int parse(struct as_buf *b)
{
    int err;

    as_arena_fini(&got.arena);
    free(got.bytes);
    got.bytes = malloc(b->n ? b->n : 1);
    if (b->n)
        memcpy(got.bytes, b->p, b->n);
    as_arena_init(&got.arena, NULL, 0);
    strcpy(got.why, "");
    err = as_oip_parse_infer(got.bytes, b->n, &got.arena, &got.r, got.why, sizeof(got.why));
    as_buf_fini(b);
    return err;
}

static int clean(void **state AS_UNUSED)
{
    as_arena_fini(&got.arena);
    free(got.bytes);
    memset(&got, 0, sizeof(got));
    return 0;
}

#define REFUSED(message, err, text)                                                                \
    do {                                                                                           \
        assert_int_equal(parse(message), err);                                                     \
        assert_string_equal(got.why, text);                                                        \
    } while (0)

AS_UNUSED static struct as_buf input(const char *name, const char *datatype, const int64_t *shape,
                                     size_t ndim)
{
    struct as_buf b = {0};

    pb_text(&b, 1, name);
    pb_text(&b, 2, datatype);
    if (ndim)
        pb_packed(&b, 3, shape, ndim);
    return b;
}

AS_UNUSED static struct as_buf request(void)
{
    struct as_buf b = {0};

    pb_text(&b, MODEL, "m");
    return b;
}

/* One input with raw data. */
AS_UNUSED static struct as_buf raw(const char *datatype, const int64_t *shape, size_t ndim,
                                   const void *p, size_t n)
{
    struct as_buf b = request();

    pb_nest(&b, INPUTS, input("a", datatype, shape, ndim));
    pb_bytes(&b, RAW, p, n);
    return b;
}

/* One input with typed contents; frees the buffer of the contents. */
AS_UNUSED static struct as_buf typed(const char *datatype, const int64_t *shape, size_t ndim,
                                     struct as_buf contents)
{
    struct as_buf b = request(), in = input("a", datatype, shape, ndim);

    pb_nest(&in, 5, contents);
    pb_nest(&b, INPUTS, in);
    return b;
}

AS_UNUSED static const int64_t by_two[] = {2, 2}, one[] = {1}, two[] = {2}, three[] = {3},
                               zero[] = {0};
AS_UNUSED static const uint8_t data[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

AS_UNUSED static void assert_text(struct as_str s, const char *want)
{
    assert_int_equal(s.n, strlen(want));
    assert_memory_equal(s.p, want, s.n);
}

/* Contents with one packed field of varints. */
AS_UNUSED static struct as_buf numbers(unsigned field, const int64_t *v, size_t n)
{
    struct as_buf b = {0};

    pb_packed(&b, field, v, n);
    return b;
}

#endif
