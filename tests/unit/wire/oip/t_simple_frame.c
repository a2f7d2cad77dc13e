/* Specification of wire/oip/simple_frame: requests after their length, answers as their bytes come,
 * and which answers of a worker are refused.
 */
#include "protobuf.h"
#include "wire/oip/simple_frame.h"

#define MAX 100000u

static const int64_t two[] = {2};
static struct as_arena arena;
static char why[256];

static int set_up(void **state AS_UNUSED)
{
    as_arena_init(&arena, NULL, 0);
    return 0;
}

static int tear_down(void **state AS_UNUSED)
{
    as_arena_fini(&arena);
    return 0;
}

/* --- requests --- */

static size_t drain(struct as_outq *q, uint8_t *to, size_t cap)
{
    struct iovec iov[64];
    size_t n = 0;

    while (q->bytes) {
        int k = as_outq_iov(q, iov, 64);
        size_t sum = 0;

        for (int i = 0; i < k; i++) {
            assert_true(n + iov[i].iov_len <= cap);
            memcpy(to + n, iov[i].iov_base, iov[i].iov_len);
            n += iov[i].iov_len;
            sum += iov[i].iov_len;
        }
        as_outq_drop(q, sum);
    }
    return n;
}

static void check_request(size_t nbytes, struct as_blob *owner)
{
    struct as_blob *b = owner ? owner : as_blob_new(nbytes);
    int64_t shape[] = {(int64_t)nbytes};
    struct as_tensor t[] = {
        {.name = AS_STR("x"),
         .dtype = AS_DT_UINT8,
         .ndim = 1,
         .shape = shape,
         .data = b->data,
         .nbytes = nbytes},
        {.name = AS_STR("s"),
         .dtype = AS_DT_BYTES,
         .data = (const uint8_t *)"\1\0\0\0a",
         .nbytes = 5},
    };
    struct as_param p = {.name = AS_STR("k"), .type = AS_PARAM_INT64, .i64 = 3};
    struct as_oip_request r = {.head = {.model = AS_STR("m"),
                                        .version = AS_STR("2"),
                                        .id = AS_STR("id"),
                                        .outputs = t,
                                        .n_outputs = 2,
                                        .params = &p,
                                        .n_params = 1}};
    size_t cap = nbytes + 1000, n;
    uint8_t *out = malloc(cap);
    struct as_oip_infer got;
    struct as_outq q;

    for (size_t i = 0; i < nbytes; i++)
        b->data[i] = (uint8_t)(i * 7);
    as_outq_init(&q);
    assert_int_equal(as_simple_frame_put(&q, &r, owner), 0);
    n = drain(&q, out, cap);
    assert_int_equal(n - 4, (uint32_t)out[0] << 24 | (uint32_t)out[1] << 16 |
                                (uint32_t)out[2] << 8 | out[3]);
    assert_int_equal(as_oip_parse_infer(out + 4, n - 4, &arena, &got, why, sizeof(why)), 0);
    assert_true(as_str_eq(got.model, AS_STR("m")) && as_str_eq(got.version, AS_STR("2")));
    assert_true(as_str_eq(got.id, AS_STR("id")));
    assert_int_equal(got.n_inputs, 2);
    assert_int_equal(got.inputs[0].nbytes, nbytes);
    assert_memory_equal(got.inputs[0].data, b->data, nbytes);
    assert_memory_equal(got.inputs[1].data, "\1\0\0\0a", 5);
    assert_int_equal(got.n_params, 1);
    assert_int_equal(got.params[0].i64, 3);
    as_outq_fini(&q);
    as_blob_unref(b);
    free(out);
}

static void a_request_after_its_length(void **state AS_UNUSED)
{
    static const size_t sizes[] = {1, AS_COPY_MAX, AS_COPY_MAX + 1, 1000000};

    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        check_request(sizes[i], NULL);
        check_request(sizes[i], as_blob_new(sizes[i])); /* large ones are referenced, not copied */
    }
}

static void a_request_that_is_too_large(void **state AS_UNUSED)
{
    struct as_tensor t = {.name = AS_STR("x"), .dtype = AS_DT_UINT8, .nbytes = INT32_MAX};
    struct as_oip_request r = {.head = {.model = AS_STR("m"), .outputs = &t, .n_outputs = 1}};
    struct as_outq q;

    as_outq_init(&q);
    assert_int_equal(as_simple_frame_put(&q, &r, NULL), AS_ETOOBIG);
    assert_int_equal(q.bytes, 0);
    as_outq_fini(&q);
}

/* --- answers as bytes --- */

static struct as_buf framed(const void *p, size_t n, size_t say)
{
    struct as_buf b;
    uint8_t head[] = {(uint8_t)(say >> 24), (uint8_t)(say >> 16), (uint8_t)(say >> 8),
                      (uint8_t)say};

    as_buf_init(&b);
    as_buf_add(&b, head, 4);
    as_buf_add(&b, p, n);
    return b;
}

static void an_answer_in_one_piece_is_not_copied(void **state AS_UNUSED)
{
    struct as_buf b = framed("hello!", 6, 5);
    struct as_simple_frame_rx rx = {0};
    struct as_str m;
    size_t rest;

    assert_false(as_simple_frame_begun(&rx));
    assert_int_equal(as_simple_frame_receive(&rx, b.p, b.n, MAX, &m, &rest), 1);
    assert_ptr_equal(m.p, b.p + 4);
    assert_int_equal(m.n, 5);
    assert_int_equal(rest, 1); /* it was not requested */
    assert_null(rx.blob);
    as_simple_frame_reset(&rx);
    as_buf_fini(&b);
}

static void an_answer_in_any_pieces(void **state AS_UNUSED)
{
    struct as_buf b = framed("0123456789", 10, 10);

    for (size_t step = 1; step <= b.n; step++) {
        struct as_simple_frame_rx rx = {0};
        struct as_str m = {0};
        size_t rest = 0;
        int r = 0;

        for (size_t at = 0; at < b.n; at += step) {
            assert_int_equal(r, 0);
            r = as_simple_frame_receive(&rx, b.p + at, AS_MIN(step, b.n - at), MAX, &m, &rest);
            assert_true(as_simple_frame_begun(&rx));
        }
        assert_int_equal(r, 1);
        assert_true(as_str_eq(m, AS_STR("0123456789")));
        assert_int_equal(rest, 0);
        as_simple_frame_reset(&rx);
        assert_false(as_simple_frame_begun(&rx));
    }
    as_buf_fini(&b);
}

static void a_large_answer_is_read_into_its_buffer(void **state AS_UNUSED)
{
    struct as_buf b = framed("abc", 3, 6);
    struct as_simple_frame_rx rx = {0};
    struct as_str m;
    size_t rest, room;
    uint8_t *p;

    assert_null(as_simple_frame_buffer(&rx, &room));
    assert_int_equal(as_simple_frame_receive(&rx, b.p, b.n, MAX, &m, &rest), 0);
    p = as_simple_frame_buffer(&rx, &room);
    assert_int_equal(room, 3);
    memcpy(p, "de", 2);
    assert_int_equal(as_simple_frame_received(&rx, 2, &m), 0);
    p = as_simple_frame_buffer(&rx, &room);
    assert_int_equal(room, 1);
    *p = 'f';
    assert_int_equal(as_simple_frame_received(&rx, 1, &m), 1);
    assert_true(as_str_eq(m, AS_STR("abcdef")));
    assert_int_equal((uintptr_t)m.p % AS_BLOB_ALIGN, 0);
    as_simple_frame_reset(&rx);
    as_buf_fini(&b);
}

static void invalid_lengths(void **state AS_UNUSED)
{
    static const struct {
        size_t say;
        int err;
    } rows[] = {{0, AS_EPROTO}, {MAX + 1, AS_ETOOBIG}, {UINT32_MAX, AS_ETOOBIG}, {MAX, 0}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_buf b = framed("x", 1, rows[i].say);
        struct as_simple_frame_rx rx = {0};
        struct as_str m;
        size_t rest;

        assert_int_equal(as_simple_frame_receive(&rx, b.p, b.n, MAX, &m, &rest), rows[i].err);
        as_simple_frame_reset(&rx);
        as_buf_fini(&b);
    }
}

/* --- what they say --- */

static struct as_simple_answer answer;

static int read_as(struct as_buf *b, const char *id)
{
    int err;

    why[0] = 0;
    err = as_simple_frame_parse(as_buf_slice(b), as_str_of(id), &arena, &answer, why, sizeof(why));
    return err;
}

static struct as_buf response(const char *id, const struct as_param *params, uint32_t n_params,
                              bool output)
{
    struct as_tensor t = {.name = AS_STR("y"),
                          .dtype = AS_DT_FP32,
                          .ndim = 1,
                          .shape = two,
                          .data = (const uint8_t *)"\0\0\x80\x3f\0\0\0\x40",
                          .nbytes = 8};
    struct as_oip_response r = {.model = AS_STR("m"),
                                .id = as_str_of(id),
                                .outputs = &t,
                                .n_outputs = output,
                                .params = params,
                                .n_params = n_params};
    struct as_buf b;

    as_buf_init(&b);
    as_oip_put_response(as_buf_reserve(&b, (size_t)as_oip_response_len(&r)), &r);
    b.n = (size_t)as_oip_response_len(&r);
    return b;
}

static void outputs_and_parameters(void **state AS_UNUSED)
{
    struct as_param p = {.name = AS_STR("took"), .type = AS_PARAM_DOUBLE, .f64 = 0.5};
    struct as_buf b = response("7", &p, 1, true);

    assert_int_equal(read_as(&b, "7"), 0);
    assert_int_equal(answer.status, 0);
    assert_true(answer.has_id);
    assert_int_equal(answer.r.n_outputs, 1);
    assert_memory_equal(answer.r.outputs[0].data, "\0\0\x80\x3f\0\0\0\x40", 8);
    assert_int_equal(answer.r.n_params, 1);
    as_buf_fini(&b);
}

static void ids_of_answers(void **state AS_UNUSED)
{
    struct as_buf named = response("7", NULL, 0, true), unnamed = response("", NULL, 0, true);

    assert_int_equal(read_as(&named, "8"), AS_EPROTO);
    assert_string_equal(why, "the id is that of another request");
    assert_int_equal(read_as(&named, "77"), AS_EPROTO);
    assert_int_equal(read_as(&unnamed, "7"), 0);
    assert_false(answer.has_id);
    as_buf_fini(&named);
    as_buf_fini(&unnamed);
}

static struct as_buf error(const char *status, const char *text, bool output)
{
    struct as_param p[] = {
        {.name = AS_STR("anyserve_error"), .type = AS_PARAM_STRING, .str = as_str_of(status)},
        {.name = AS_STR("anyserve_error_message"),
         .type = AS_PARAM_STRING,
         .str = as_str_of(text)}};

    return response("7", p, text ? 2 : 1, output);
}

static void errors(void **state AS_UNUSED)
{
    struct as_buf b = error("NOT_FOUND", "no such thing", false);

    assert_int_equal(read_as(&b, "7"), 0);
    assert_int_equal(answer.status, 5);
    assert_true(as_str_eq(answer.message, AS_STR("no such thing")));
    as_buf_fini(&b);
    b = error("UNAUTHENTICATED", NULL, false);
    assert_int_equal(read_as(&b, "7"), 0);
    assert_int_equal(answer.status, 16);
    assert_int_equal(answer.message.n, 0);
    as_buf_fini(&b);
}

static void invalid_errors(void **state AS_UNUSED)
{
    static const char *const names[] = {"",        "OK", "not_found",
                                        "NO_SUCH", "5",  "A_NAME_THAT_IS_LONGER_THAN_ANY_STATUS"};
    struct as_param number = {.name = AS_STR("anyserve_error"), .type = AS_PARAM_INT64, .i64 = 5};
    struct as_buf b;

    for (size_t i = 0; i < AS_COUNT(names); i++) {
        b = error(names[i], "text", false);
        assert_int_equal(read_as(&b, "7"), AS_EPROTO);
        assert_non_null(strstr(why, names[i]));
        as_buf_fini(&b);
    }
    b = error("INTERNAL", "text", true);
    assert_int_equal(read_as(&b, "7"), AS_EPROTO);
    assert_non_null(strstr(why, "has outputs"));
    as_buf_fini(&b);
    b = response("7", &number, 1, false);
    assert_int_equal(read_as(&b, "7"), AS_EPROTO);
    as_buf_fini(&b);
}

static void garbage(void **state AS_UNUSED)
{
    struct as_buf b = response("7", NULL, 0, true);

    b.p[0] = 0xff;
    assert_int_equal(read_as(&b, "7"), AS_EPROTO);
    assert_true(why[0]);
    as_buf_fini(&b);
}

/* An output claims that its bytes are in shared memory, which workers do not have. */
static void an_output_without_its_bytes(void **state AS_UNUSED)
{
    struct as_tensor t = {
        .name = AS_STR("y"), .dtype = AS_DT_FP32, .ndim = 1, .shape = two, .nbytes = 0};
    struct as_oip_shm_range range = {.region = AS_STR("r"), .size = 8};
    struct as_oip_response r = {.outputs = &t, .n_outputs = 1, .ranges = &range};
    struct as_buf b;

    as_buf_init(&b);
    as_oip_put_response_head(as_buf_reserve(&b, as_oip_response_head_len(&r)), &r);
    b.n = as_oip_response_head_len(&r);
    assert_int_equal(read_as(&b, "7"), AS_EPROTO);
    as_buf_fini(&b);
}

/* --- two answers run into one --- */

/* An answer with one tensor of n bytes, after its length; with the model's name if `named` is set.
 */
static void put_answer(struct as_buf *out, bool named, const char *id, size_t n)
{
    static uint8_t bytes[90000];
    int64_t shape = (int64_t)n;
    struct as_tensor t = {.name = AS_STR("x"),
                          .dtype = AS_DT_UINT8,
                          .ndim = 1,
                          .shape = &shape,
                          .data = bytes,
                          .nbytes = n};
    struct as_oip_response r = {.id = as_str_of(id), .outputs = &t, .n_outputs = 1};
    uint32_t len;
    uint8_t *p;

    if (named) {
        r.model = AS_STR("flaky");
        r.version = AS_STR("1");
    }
    len = (uint32_t)as_oip_response_len(&r);
    p = as_buf_reserve(out, 4 + len);
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(len >> (24 - 8 * i));
    as_oip_put_response(p + 4, &r);
    out->n += 4 + len;
}

/* The first `cut` bytes of an answer that is no longer needed, then the answer to "id". */
static void check_mixed(const struct as_buf *old, size_t cut, const struct as_buf *next, size_t n)
{
    struct as_simple_frame_rx rx = {0};
    struct as_str m = {0};
    size_t rest = 0;
    int r;

    r = as_simple_frame_receive(&rx, old->p, cut, MAX, &m, &rest);
    assert_true(r == 0 || cut == old->n);
    if (r == 0)
        r = as_simple_frame_receive(&rx, next->p, next->n, MAX, &m, &rest);
    if (r == 1) {
        struct as_buf b = {.p = (uint8_t *)(uintptr_t)m.p, .n = m.n};

        if (read_as(&b, "7-1234567") == 0) {
            assert_int_equal(answer.status, 0);
            assert_int_equal(answer.r.n_outputs, 1);
            assert_int_equal(answer.r.outputs[0].nbytes, n);
        }
    }
    as_simple_frame_reset(&rx);
}

/* A worker sends a part of an earlier answer again, and then the right answer. Whatever the part
 * is, both together are refused as one message: it may have the right id and end without a tensor.
 * (If an answer has no id, its connection is not used again: link/simple/simple.) */
static void the_rest_of_another_answer_is_refused(void **state AS_UNUSED)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 120, 300, 81310};
    static const char *const ids[] = {"7-1", "7-12", "7-123", "7-1234", "7-12345", "7-123456"};

    for (size_t i = 0; i < 2 * 40 * AS_COUNT(ids) * AS_COUNT(sizes); i++) {
        size_t n = sizes[i % AS_COUNT(sizes)], k = i / AS_COUNT(sizes);
        const char *id = ids[k % AS_COUNT(ids)];
        struct as_buf old, next;

        as_buf_init(&old);
        as_buf_init(&next);
        k /= AS_COUNT(ids);
        put_answer(&old, k / 40, id, k % 40);
        put_answer(&next, k / 40, "7-1234567", n);
        for (size_t cut = 1; cut <= old.n; cut++)
            check_mixed(&old, cut, &next, n);
        as_buf_fini(&old);
        as_buf_fini(&next);
    }
}

static void a_text_that_is_given_twice(void **state AS_UNUSED)
{
    static const char *const doubles[] = {"\x0a\1m\x0a\1m\x1a\1i", "\x12\0011\x1a\1i\x12\0011",
                                          "\x1a\1j\x1a\1i", "\x1a\1i\x1a\1i"};

    for (size_t i = 0; i < AS_COUNT(doubles); i++) {
        struct as_buf b = {.p = (uint8_t *)(uintptr_t)doubles[i], .n = strlen(doubles[i])};

        assert_int_equal(read_as(&b, "i"), AS_EPROTO);
        assert_non_null(strstr(why, "given twice"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_after_its_length),
        cmocka_unit_test(a_request_that_is_too_large),
        cmocka_unit_test(an_answer_in_one_piece_is_not_copied),
        cmocka_unit_test(an_answer_in_any_pieces),
        cmocka_unit_test(a_large_answer_is_read_into_its_buffer),
        cmocka_unit_test(invalid_lengths),
        cmocka_unit_test(outputs_and_parameters),
        cmocka_unit_test(ids_of_answers),
        cmocka_unit_test(errors),
        cmocka_unit_test(invalid_errors),
        cmocka_unit_test(garbage),
        cmocka_unit_test(an_output_without_its_bytes),
        cmocka_unit_test(the_rest_of_another_answer_is_refused),
        cmocka_unit_test(a_text_that_is_given_twice),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
