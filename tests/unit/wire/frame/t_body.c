/* The payload body of a call: what is laid out is read back, and each rule of the layout holds. */
#include "wire/frame/body.h"

#include "frames.h"

#include <string.h>

static uint8_t big[200];
static const struct as_str buffers[] = {
    {(const char *)big, 200}, STATIC_STR(""), STATIC_STR("third")};

static struct bytes lay(const struct as_body *b)
{
    uint64_t n = as_body_len(b);
    struct bytes out;

    assert_true(n != UINT64_MAX);
    out = bytes_new((size_t)n);
    memset(out.p, 0xee, out.n); /* each byte is written */
    as_body_write(b, out.p);
    return out;
}

/* The answer "x" with this many bytes of data. */
static struct bytes small_answer(size_t data)
{
    struct as_body b = {.codec = AS_BODY_BYTES, .data = {(const char *)big, data}};

    return lay(&b);
}

static const char *refusal(struct bytes b, bool answer)
{
    const char *why = NULL;

    if (as_body_check(b.p, b.n, answer, &why) == 0)
        return NULL;
    assert_non_null(why);
    assert_true(*why);
    return why;
}

static void a_body_round_trip(void **state AS_UNUSED)
{
    struct bytes part = small_answer(7), b;
    struct as_str parts[] = {{(const char *)part.p, part.n}, {(const char *)part.p, part.n}};
    struct as_body in = {AS_BODY_PICKLE, 0,    AS_STR("generate"), AS_STR("the pickle"), 3, 2,
                         buffers,        parts},
                   out;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    b = lay(&in);
    assert_int_equal(as_body_get(b.p, b.n, false, &a, &out, &why), 0);
    assert_int_equal(out.codec, AS_BODY_PICKLE);
    assert_int_equal(out.flags, 0);
    assert_true(as_str_eq(out.method, in.method));
    assert_true(as_str_eq(as_body_method(b.p), in.method));
    assert_true(as_str_eq(out.data, in.data));
    assert_int_equal(out.n_buffers, 3);
    assert_int_equal(out.n_parts, 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(as_str_eq(out.buffers[i], buffers[i]));
        assert_int_equal((size_t)(out.buffers[i].p - (char *)b.p) % 64, 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(as_str_eq(out.parts[i], parts[i]));
        assert_int_equal(as_body_check((const uint8_t *)out.parts[i].p, out.parts[i].n, true, &why),
                         0);
    }
    for (size_t n = 0; n < b.n; n++) /* cut anywhere, it is no body */
        assert_int_equal(as_body_check(b.p, n, false, &why), AS_EPROTO);
    as_arena_fini(&a);
    free(part.p);
    free(b.p);
}

/* The layout that docs/protocol/link.md prints, byte by byte. */
static void layout_of_a_body(void **state AS_UNUSED)
{
    struct as_str one = AS_STR("xyz");
    struct as_body in = {.codec = AS_BODY_PICKLE,
                         .method = AS_STR("f"),
                         .data = AS_STR("abc"),
                         .n_buffers = 1,
                         .buffers = &one};
    struct bytes b = lay(&in);

    assert_int_equal(b.n, 67);
    assert_int_equal(b.p[0], 1); /* codec */
    assert_int_equal(b.p[1], 0); /* flags */
    assert_int_equal(b.p[2], 1); /* method */
    assert_int_equal(b.p[3], 0);
    assert_int_equal(u32_at(b.p + 4), 1);  /* buffers */
    assert_int_equal(u64_at(b.p + 8), 3);  /* data */
    assert_int_equal(u32_at(b.p + 16), 0); /* parts */
    assert_int_equal(u32_at(b.p + 20), 0);
    assert_int_equal(u64_at(b.p + 24), 3); /* the buffer */
    assert_memory_equal(b.p + 32, "f\0\0\0\0\0\0\0abc", 11);
    for (size_t i = 43; i < 64; i++)
        assert_int_equal(b.p[i], 0);
    assert_memory_equal(b.p + 64, "xyz", 3);
    free(b.p);
}

static void the_smallest_body_has_24_bytes(void **state AS_UNUSED)
{
    struct bytes b = small_answer(0);

    assert_int_equal(b.n, AS_BODY_FIXED);
    assert_null(refusal(b, true));
    assert_null(refusal(b, false));
    free(b.p);
}

static void fields_have_bounds(void **state AS_UNUSED)
{
    struct as_body in = {.codec = AS_BODY_BYTES, .method = AS_STR("m"), .data = AS_STR("abcdefgh")};
    struct bytes b = lay(&in);

    assert_null(refusal(b, false));
    assert_non_null(refusal(b, true)); /* an answer has no method */
    b.p[0] = 0;
    assert_non_null(refusal(b, false));
    b.p[0] = 3;
    assert_non_null(refusal(b, false));
    b.p[0] = 2;
    b.p[1] = AS_BODY_F_EXCEPTION; /* only in an answer */
    assert_non_null(refusal(b, false));
    b.p[1] = 0;
    b.p[20] = 1; /* reserved */
    assert_non_null(refusal(b, false));
    b.p[20] = 0;
    b.p[25] = 'x'; /* the method's padding */
    assert_non_null(refusal(b, false));
    b.p[25] = 0;
    b.p[24] = '\n';
    assert_non_null(refusal(b, false));
    b.p[24] = 0xff;
    assert_non_null(refusal(b, false));
    b.p[24] = 'm';
    set64(b.p + 8, 9); /* more data than there is */
    assert_non_null(refusal(b, false));
    set64(b.p + 8, UINT64_MAX);
    assert_non_null(refusal(b, false));
    set64(b.p + 8, 7); /* one byte behind the end */
    assert_non_null(refusal(b, false));
    set64(b.p + 8, 8);
    assert_null(refusal(b, false));
    free(b.p);
}

static void exceptions_are_answers(void **state AS_UNUSED)
{
    struct bytes b = small_answer(3), with;
    struct as_str part = {(const char *)b.p, b.n};
    struct as_body in = {.codec = AS_BODY_PICKLE, .n_parts = 1, .parts = &part};

    b.p[1] = AS_BODY_F_EXCEPTION;
    assert_null(refusal(b, true));
    with = lay(&in); /* but no part: a failed answer is not passed on */
    assert_string_equal(refusal(with, false), "body: a part is an exception");
    b.p[1] = 2;
    assert_non_null(refusal(b, true));
    free(with.p);
    free(b.p);
}

/* Lengths of buffers and parts that do not fit, and gaps that are not zero. */
static void slices_lie_in_the_body(void **state AS_UNUSED)
{
    struct as_str two[] = {{(const char *)big, 70}, {(const char *)big, 5}};
    struct as_body in = {
        .codec = AS_BODY_PICKLE, .data = AS_STR("d"), .n_buffers = 2, .buffers = two};
    struct bytes b = lay(&in);

    assert_int_equal(b.n, 64 + 128 + 5);
    assert_null(refusal(b, false));
    set64(b.p + 32, 6);
    assert_non_null(refusal(b, false));
    set64(b.p + 32, 4);
    assert_non_null(refusal(b, false));
    set64(b.p + 32, UINT64_MAX);
    assert_non_null(refusal(b, false));
    set64(b.p + 32, 5);
    set64(b.p + 24, UINT64_MAX - 3);
    assert_non_null(refusal(b, false));
    set64(b.p + 24, 70);
    b.p[64 + 70] = 1;
    assert_string_equal(refusal(b, false), "body: a gap is not filled with zeros");
    b.p[64 + 70] = 0;
    b.p[63] = 1;
    assert_non_null(refusal(b, false));
    free(b.p);
}

static void counts_have_limits(void **state AS_UNUSED)
{
    struct as_str *many = calloc(AS_BODY_BUFFERS + 1, sizeof(*many));
    struct as_body in = {.codec = AS_BODY_PICKLE, .n_buffers = AS_BODY_BUFFERS, .buffers = many};
    struct bytes b = lay(&in), part = small_answer(0);
    char name[AS_BODY_METHOD + 1];

    assert_null(refusal(b, false));
    set32(b.p + 4, AS_BODY_BUFFERS + 1);
    assert_non_null(refusal(b, false));
    free(b.p);
    in.n_buffers++;
    assert_true(as_body_len(&in) == UINT64_MAX);
    for (uint32_t i = 0; i <= AS_BODY_PARTS; i++)
        many[i] = (struct as_str){(const char *)part.p, part.n};
    in = (struct as_body){.codec = AS_BODY_PICKLE, .n_parts = AS_BODY_PARTS, .parts = many};
    b = lay(&in);
    assert_null(refusal(b, false));
    set32(b.p + 16, AS_BODY_PARTS + 1);
    assert_non_null(refusal(b, false));
    free(b.p);
    in.n_parts++;
    assert_true(as_body_len(&in) == UINT64_MAX);
    memset(name, 'm', sizeof(name));
    in = (struct as_body){.codec = AS_BODY_BYTES, .method = {name, AS_BODY_METHOD}};
    b = lay(&in);
    assert_null(refusal(b, false));
    b.p[2]++; /* the byte behind is missing; the limit comes first */
    assert_string_equal(refusal(b, false), "body: a count is over its limit");
    in.method.n++;
    assert_true(as_body_len(&in) == UINT64_MAX);
    free(b.p);
    free(part.p);
    free(many);
}

static void parts_nest_to_a_depth(void **state AS_UNUSED)
{
    struct bytes b = small_answer(1), outer;

    for (uint32_t depth = 1; depth <= AS_BODY_DEPTH; depth++) {
        struct as_str part = {(const char *)b.p, b.n};
        struct as_body in = {.codec = AS_BODY_PICKLE, .n_parts = 1, .parts = &part};

        assert_null(refusal(b, true)); /* b has `depth` levels */
        outer = lay(&in);
        free(b.p);
        b = outer;
    }
    assert_string_equal(refusal(b, true), "body: its parts are nested too deep");
    free(b.p);
}

static void a_size_that_overflows_is_refused(void **state AS_UNUSED)
{
    struct as_str huge = {(const char *)big, (size_t)INT64_MAX - 64};
    struct as_body in = {.codec = AS_BODY_BYTES, .n_buffers = 1, .buffers = &huge};

    assert_true(as_body_len(&in) == UINT64_MAX);
    in = (struct as_body){.codec = AS_BODY_BYTES, .data = {(const char *)big, SIZE_MAX}};
    assert_true(as_body_len(&in) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_round_trip),
        cmocka_unit_test(layout_of_a_body),
        cmocka_unit_test(the_smallest_body_has_24_bytes),
        cmocka_unit_test(fields_have_bounds),
        cmocka_unit_test(exceptions_are_answers),
        cmocka_unit_test(slices_lie_in_the_body),
        cmocka_unit_test(counts_have_limits),
        cmocka_unit_test(parts_nest_to_a_depth),
        cmocka_unit_test(a_size_that_overflows_is_refused),
    };

    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)(i * 7 + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
