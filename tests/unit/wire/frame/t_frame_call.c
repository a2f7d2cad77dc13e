/* The frames of calls: OPEN and DATA of kind 3, TARGET, REPORT. */
#include "wire/frame/frame_call.h"

#include "frames.h"
#include "wire/frame/body.h"

#include <string.h>

static struct as_meta headers[] = {{STATIC_STR("traceparent"), STATIC_STR("00-1")},
                                   {STATIC_STR("y"), STATIC_STR("")}};
static const struct as_body args = {
    .codec = AS_BODY_PICKLE, .method = STATIC_STR("f"), .data = STATIC_STR("some data")};
static const struct as_frame_call request = {.priority = 3,
                                             .target = 9,
                                             .timeout = 1234567,
                                             .parent = 41,
                                             .flags = AS_CALL_F_STREAM,
                                             .id = STATIC_STR("req-1"),
                                             .meta = headers,
                                             .n_meta = 2,
                                             .service = 55,
                                             .ended = 77};

static struct bytes encode(enum as_frame_type type, const struct as_frame_call *c,
                           const struct as_body *body, struct as_blob *owner)
{
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_call(&q, type, 42, c, body, owner), 0);
    assert_int_equal(q.bytes % 64, 0);
    b = bytes_of(&q);
    as_outq_fini(&q);
    return b;
}

static int decode(const struct as_frame *f)
{
    struct as_frame_call c;
    struct as_arena a;
    const char *why;
    int err;

    as_arena_init(&a, NULL, 0);
    err = as_frame_get_call(f, &a, &c, &why);
    assert_true(!err == !*why);
    as_arena_fini(&a);
    return err;
}

static void an_open_round_trip(void **state AS_UNUSED)
{
    struct bytes b = encode(AS_FRAME_OPEN, &request, &args, NULL);
    struct as_frame f = only_frame(b);
    struct as_frame_msg m;
    struct as_frame_call c;
    struct as_body body;
    struct as_msg msg;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(f.type, AS_FRAME_OPEN);
    assert_int_equal(f.flags, AS_FRAME_F_END);
    assert_int_equal(as_frame_kind_of(&f), AS_FRAME_CALL);
    assert_int_equal(as_frame_get_call(&f, &a, &c, &why), 0);
    assert_int_equal(c.priority, 3);
    assert_int_equal(c.target, 9);
    assert_int_equal(c.timeout, 1234567);
    assert_int_equal(c.parent, 41);
    assert_int_equal(c.flags, AS_CALL_F_STREAM);
    assert_int_equal(c.service, 0);
    assert_true(as_str_eq(c.id, request.id));
    assert_int_equal(c.n_meta, 2);
    assert_true(as_str_eq(c.meta[0].key, headers[0].key));
    assert_true(as_str_eq(c.meta[0].value, headers[0].value));
    assert_true(as_str_eq(c.meta[1].key, headers[1].key));
    assert_int_equal(c.meta[1].value.n, 0);
    assert_int_equal((size_t)(c.body - b.p) % 64, 0);
    assert_int_equal(as_body_get(c.body, c.body_len, false, &a, &body, &why), 0);
    assert_true(as_str_eq(body.data, args.data));
    assert_int_equal(c.cost, as_frame_call_cost(&request, &args));
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), AS_EPROTO); /* no tensors */
    as_arena_fini(&a);
    free(b.p);
}

static void an_answer_has_no_fields_of_a_request(void **state AS_UNUSED)
{
    struct as_body result = {.codec = AS_BODY_BYTES, .data = AS_STR("r")};
    struct as_frame_call plain = request;
    struct bytes b = (plain.n_meta = 0, encode(AS_FRAME_DATA, &plain, &result, NULL));
    struct as_frame f = only_frame(b);
    struct as_frame_call c;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(f.flags, AS_FRAME_F_END | AS_FRAME_F_MSG);
    assert_int_equal(as_frame_get_call(&f, &a, &c, &why), 0);
    assert_int_equal(c.service, 55);
    assert_int_equal(c.ended, 77);
    assert_int_equal(c.timeout | c.parent | c.target | c.flags | c.n_meta | c.id.n, 0);
    static const size_t fields[] = {17, 18, 19, 41, 49, 52, 57, 60};
    for (size_t i = 0; i < AS_COUNT(fields); i++) {
        b.p[fields[i]] = 1;
        assert_int_equal(decode(&f), AS_EPROTO);
        b.p[fields[i]] = 0;
    }
    assert_int_equal(decode(&f), 0);
    f.flags = AS_FRAME_F_END; /* without MSG it is no message */
    assert_int_equal(decode(&f), AS_EPROTO);
    as_arena_fini(&a);
    free(b.p);
}

/* One of the answers to a call of every replica says whose it is. */
static void an_answer_may_have_headers(void **state AS_UNUSED)
{
    struct as_body result = {.codec = AS_BODY_BYTES, .data = AS_STR("r")};
    struct bytes b = encode(AS_FRAME_DATA, &request, &result, NULL);
    struct as_frame f = only_frame(b);
    struct as_frame_call c;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_call(&f, &a, &c, &why), 0);
    assert_int_equal(c.n_meta, 2);
    assert_true(as_str_eq(c.meta[0].value, headers[0].value));
    assert_int_equal(c.id.n, 0);
    assert_true(c.cost > c.body_len);
    as_arena_fini(&a);
    free(b.p);
}

static void a_body_that_is_laid_out_is_sent_as_it_is(void **state AS_UNUSED)
{
    struct as_frame_call raw = request;
    uint8_t body[64];
    struct bytes one, two;

    raw.body = body;
    raw.body_len = as_body_len(&args);
    as_body_write(&args, body);
    one = encode(AS_FRAME_OPEN, &request, &args, NULL);
    two = encode(AS_FRAME_OPEN, &raw, NULL, NULL);
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.p, two.p, one.n);
    free(one.p);
    free(two.p);
}

/* The bytes of all DATA frames behind the first frame. */
static struct bytes follow(struct bytes b, size_t len, bool ends)
{
    struct bytes out = bytes_new(len);
    struct as_frame f;
    size_t at = (size_t)as_frame_next(b.p, b.n, &f), n = 0;

    while (at < b.n) {
        int64_t used = as_frame_next(b.p + at, b.n - at, &f);

        assert_true(used > 0);
        assert_int_equal(f.type, AS_FRAME_DATA);
        assert_int_equal(f.stream, 42);
        at += (size_t)used;
        assert_int_equal(f.flags, at == b.n && ends ? AS_FRAME_F_END : 0);
        assert_true(n + f.n <= len);
        memcpy(out.p + n, f.p, f.n);
        n += f.n;
    }
    assert_int_equal(n, len);
    return out;
}

/* Bodies around the limit of inline ones and over several frames, copied and by reference: what
 * arrives is the same. */
static void large_bodies_follow_in_data_frames(void **state AS_UNUSED)
{
    static const size_t sizes[] = {AS_COPY_MAX, 65500, 70000, (2u << 20) + 77};

    for (size_t i = 0; i < AS_COUNT(sizes); i++) {
        struct as_blob *blob = as_blob_new(sizes[i]);
        struct as_str parts[] = {{(char *)blob->data, sizes[i] - 10}, {(char *)blob->data, 9}};
        struct as_body body = {.codec = AS_BODY_PICKLE,
                               .data = {(char *)blob->data, 11},
                               .n_buffers = 2,
                               .buffers = parts};
        size_t len = (size_t)as_body_len(&body);
        struct bytes want = bytes_new(len);

        for (size_t k = 0; k < sizes[i]; k++)
            blob->data[k] = (uint8_t)(k * 13 >> 3);
        as_body_write(&body, want.p);
        for (int referenced = 0; referenced < 4; referenced++) {
            struct as_frame_call c = request, got;
            struct as_arena a;
            struct bytes b, tail;
            struct as_frame f;
            const char *why;

            c.more = referenced & 2;
            as_arena_init(&a, NULL, 0);
            b = encode(AS_FRAME_OPEN, &c, &body, referenced & 1 ? blob : NULL);
            assert_true(as_frame_next(b.p, b.n, &f) > 0);
            assert_int_equal(as_frame_get_call(&f, &a, &got, &why), 0);
            assert_int_equal(got.body_len, len);
            if (len <= AS_FRAME_INLINE) {
                assert_memory_equal(got.body, want.p, len);
                assert_int_equal(f.flags, c.more ? 0 : AS_FRAME_F_END);
            } else {
                assert_null(got.body);
                assert_int_equal(f.flags, 0);
                tail = follow(b, len, !c.more);
                assert_memory_equal(tail.p, want.p, len);
                free(tail.p);
            }
            as_arena_fini(&a);
            free(b.p);
        }
        free(want.p);
        as_blob_unref(blob);
    }
}

static void malformed_opens_are_refused(void **state AS_UNUSED)
{
    struct bytes b = encode(AS_FRAME_OPEN, &request, &args, NULL);
    struct as_frame f = only_frame(b);
    static const struct {
        size_t at;
        uint8_t value;
    } bad[] = {
        {16, 1},  {16, 2},  {16, 4},    {18, 1},    {19, 1},   {32, 23}, {32, 99},    {39, 0x80},
        {40, 40}, {48, 3},  {48, 1},    {49, 5},    {52, 200}, {52, 9},  {56, 1},     {56, 8},
        {58, 9},  {60, 64}, {63, 0x80}, {64, 0xff}, {68, 9},   {70, 1},  {104, 0xff},
    };

    assert_int_equal(decode(&f), 0);
    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        uint8_t was = b.p[bad[i].at];

        b.p[bad[i].at] = bad[i].value;
        if (decode(&f) != AS_EPROTO)
            fail_msg("accepted: %d at %zu", bad[i].value, bad[i].at);
        b.p[bad[i].at] = was;
    }
    for (uint32_t n = f.n; f.n--; n--) /* the frame is whole */
        assert_int_equal(decode(&f), AS_EPROTO);
    free(b.p);
}

static void limits_of_a_call(void **state AS_UNUSED)
{
    static char text[AS_FRAME_TABLE + 8];
    struct as_meta *many = calloc(AS_FRAME_PARAMS + 1, sizeof(*many));
    struct as_frame_call c = {.meta = many, .n_meta = AS_FRAME_PARAMS};
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    b = encode(AS_FRAME_OPEN, &c, &args, NULL);
    free(b.p);
    c.n_meta++;
    assert_int_equal(as_frame_put_call(&q, AS_FRAME_OPEN, 2, &c, &args, NULL), AS_ETOOBIG);
    assert_true(as_frame_call_cost(&c, &args) == UINT64_MAX);
    memset(text, 'i', sizeof(text));
    c = (struct as_frame_call){.id = {text, AS_FRAME_TABLE}};
    b = encode(AS_FRAME_OPEN, &c, &args, NULL);
    free(b.p);
    c.id.n++;
    assert_int_equal(as_frame_put_call(&q, AS_FRAME_OPEN, 2, &c, &args, NULL), AS_ETOOBIG);
    c = (struct as_frame_call){.body = (const uint8_t *)text, .body_len = AS_BODY_FIXED - 1};
    assert_int_equal(as_frame_put_call(&q, AS_FRAME_OPEN, 2, &c, NULL, NULL), AS_ETOOBIG);
    assert_int_equal(q.bytes, 0);
    as_outq_fini(&q);
    free(many);
}

static int target_with(uint32_t number, struct as_str application, struct as_str deployment)
{
    struct as_frame_target in = {number, application, deployment}, out;
    struct bytes b = bytes_new(8 + application.n + deployment.n), frame;
    struct as_outq q;
    struct as_frame f;
    int err, put;

    set32(b.p, number);
    set32(b.p + 4, (uint32_t)application.n | (uint32_t)deployment.n << 16);
    memcpy(b.p + 8, application.p, application.n);
    memcpy(b.p + 8 + application.n, deployment.p, deployment.n);
    frame = raw_frame(AS_FRAME_TARGET, 0, 0, b.p, b.n);
    f = only_frame(frame);
    assert_int_equal(as_frame_handling_of(&f), AS_FRAME_KNOWN);
    err = as_frame_get_target(&f, &out);
    as_outq_init(&q);
    put = as_frame_put_target(&q, &in);
    assert_true(!err == !put); /* what is refused is not sent either */
    if (!err) {
        struct bytes again = bytes_of(&q);

        assert_int_equal(again.n, frame.n);
        assert_memory_equal(again.p, frame.p, frame.n);
        assert_int_equal(out.number, number);
        assert_true(as_str_eq(out.application, application));
        assert_true(as_str_eq(out.deployment, deployment));
        free(again.p);
        for (f.n = 0; f.n < b.n; f.n++)
            assert_int_equal(as_frame_get_target(&f, &out), AS_EPROTO);
    }
    assert_int_equal(q.bytes, 0);
    as_outq_fini(&q);
    free(frame.p);
    free(b.p);
    return err;
}

static void targets_have_bounds(void **state AS_UNUSED)
{
    char name[AS_FRAME_NAME];

    memset(name, 'n', sizeof(name));
    assert_int_equal(target_with(0, AS_STR("default"), AS_STR("Model")), 0);
    assert_int_equal(target_with(AS_FRAME_TARGET_MAX, AS_STR("a"), AS_STR("b")), 0);
    assert_int_equal(target_with(AS_FRAME_TARGET_MAX + 1, AS_STR("a"), AS_STR("b")), AS_EPROTO);
    assert_int_equal(target_with(0, AS_STR(""), AS_STR("b")), AS_EPROTO);
    assert_int_equal(target_with(0, AS_STR("a"), AS_STR("")), AS_EPROTO);
    assert_int_equal(target_with(0, AS_STR("a#"), AS_STR("b")), AS_EPROTO);
    assert_int_equal(target_with(0, AS_STR("a"), AS_STR("#b")), AS_EPROTO);
    assert_int_equal(target_with(0, AS_STR("a\n"), AS_STR("b")), AS_EPROTO);
    assert_int_equal(target_with(0, AS_STR("a"), AS_STR("\xff")), AS_EPROTO);
    assert_int_equal(target_with(0, (struct as_str){name, 100}, (struct as_str){name, 155}), 0);
    assert_int_equal(target_with(0, (struct as_str){name, 100}, (struct as_str){name, 156}),
                     AS_EPROTO);
    assert_int_equal(target_with(0, (struct as_str){name, 256}, AS_STR("b")), AS_EPROTO);
}

static void reports_round_trip(void **state AS_UNUSED)
{
    static char text[AS_FRAME_REPORT_MAX + 1];
    struct as_frame_report in = {AS_REPORT_MODEL_IDS, {text, AS_FRAME_REPORT_MAX}}, out;
    struct as_outq q;
    struct as_frame f;
    struct bytes b;

    memset(text, '[', sizeof(text));
    as_outq_init(&q);
    as_frame_put_report(&q, &in);
    b = bytes_of(&q);
    f = only_frame(b);
    assert_int_equal(f.type, AS_FRAME_REPORT);
    assert_int_equal(f.flags, AS_FRAME_F_OPTIONAL);
    assert_int_equal(as_frame_handling_of(&f), AS_FRAME_KNOWN);
    assert_int_equal(as_frame_get_report(&f, &out), 0);
    assert_int_equal(out.kind, AS_REPORT_MODEL_IDS);
    assert_true(as_str_eq(in.text, out.text));
    f.n++; /* one byte over the limit; the padding is there to be read */
    assert_int_equal(as_frame_get_report(&f, &out), AS_EPROTO);
    f.n = 7;
    assert_int_equal(as_frame_get_report(&f, &out), AS_EPROTO);
    f.n = 8;
    assert_int_equal(as_frame_get_report(&f, &out), 0);
    assert_int_equal(out.text.n, 0);
    b.p[20] = 1;
    assert_int_equal(as_frame_get_report(&f, &out), AS_EPROTO);
    b.p[20] = 0;
    b.p[16] = 0; /* no kind */
    assert_int_equal(as_frame_get_report(&f, &out), AS_EPROTO);
    free(b.p);
    as_outq_fini(&q);
}

static void tensors_and_calls_are_told_apart(void **state AS_UNUSED)
{
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR};
    struct as_msg empty = {0};
    struct as_outq q;
    struct as_frame f;
    struct bytes b;

    for (int i = 0; i < 2; i++) {
        as_outq_init(&q);
        assert_int_equal(
            as_frame_put_msg(&q, i ? AS_FRAME_DATA : AS_FRAME_OPEN, 1, &fixed, &empty, NULL), 0);
        b = bytes_of(&q);
        f = only_frame(b);
        assert_int_equal(as_frame_kind_of(&f), AS_FRAME_TENSOR);
        assert_int_equal(decode(&f), AS_EPROTO);
        f.n = 0;
        assert_int_equal(as_frame_kind_of(&f), 0);
        free(b.p);
        as_outq_fini(&q);
    }
}

static void reserved_round_trips(void **state AS_UNUSED)
{
    char longest[AS_FRAME_NAME + 1];
    struct as_str names[] = {AS_STR("r"), {longest, AS_FRAME_NAME}}, got;
    struct as_outq q;
    struct bytes b;
    struct as_frame f;

    memset(longest, 'x', sizeof(longest));
    for (size_t i = 0; i < AS_COUNT(names); i++) {
        as_outq_init(&q);
        as_frame_put_reserved(&q, 6, names[i]);
        b = bytes_of(&q);
        assert_int_equal(as_frame_next(b.p, b.n, &f), (int64_t)b.n);
        assert_int_equal(f.type, AS_FRAME_RESERVED);
        assert_int_equal(f.stream, 6);
        assert_int_equal(as_frame_get_reserved(&f, &got), 0);
        assert_true(as_str_eq(got, names[i]));
        f.n = 0;
        assert_int_equal(as_frame_get_reserved(&f, &got), AS_EPROTO);
        as_outq_fini(&q);
        free(b.p);
    }
    f = (struct as_frame){.p = (const uint8_t *)longest, .n = AS_FRAME_NAME + 1};
    assert_int_equal(as_frame_get_reserved(&f, &got), AS_EPROTO);
    f = (struct as_frame){.p = (const uint8_t *)"a\nb", .n = 3};
    assert_int_equal(as_frame_get_reserved(&f, &got), AS_EPROTO);
}

static void an_open_says_whether_it_uses_a_slot(void **state AS_UNUSED)
{
    static const uint32_t flags[] = {0, AS_CALL_F_RESERVE, AS_CALL_F_USE,
                                     AS_CALL_F_USE | AS_CALL_F_STREAM};

    for (size_t i = 0; i < AS_COUNT(flags); i++) {
        struct as_frame_call c = {.flags = flags[i]};
        struct bytes b = encode(AS_FRAME_OPEN, &c, &args, NULL);
        struct as_frame f = only_frame(b);

        assert_int_equal(as_frame_call_uses_slot(&f), (flags[i] & AS_CALL_F_USE) != 0);
        f.n = AS_FRAME_FIXED - 1;
        assert_false(as_frame_call_uses_slot(&f));
        free(b.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserved_round_trips),
        cmocka_unit_test(an_open_says_whether_it_uses_a_slot),
        cmocka_unit_test(an_open_round_trip),
        cmocka_unit_test(an_answer_has_no_fields_of_a_request),
        cmocka_unit_test(an_answer_may_have_headers),
        cmocka_unit_test(a_body_that_is_laid_out_is_sent_as_it_is),
        cmocka_unit_test(large_bodies_follow_in_data_frames),
        cmocka_unit_test(malformed_opens_are_refused),
        cmocka_unit_test(limits_of_a_call),
        cmocka_unit_test(targets_have_bounds),
        cmocka_unit_test(reports_round_trip),
        cmocka_unit_test(tensors_and_calls_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
