/* Messages of the link: as_frame_get_msg reads what as_frame_put_msg writes. What it refuses is in
 * t_frame_msg_hostile.c.
 */
#include "msg_case.h"

static void assert_same_tensors(const struct as_msg *a, const struct as_msg *b)
{
    assert_int_equal(a->n_tensors, b->n_tensors);
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const struct as_tensor *x = &a->tensors[i], *y = &b->tensors[i];

        assert_true(as_str_eq(x->name, y->name));
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->ndim, y->ndim);
        assert_int_equal(x->nbytes, y->nbytes);
        for (uint32_t d = 0; d < x->ndim; d++)
            assert_int_equal(x->shape[d], y->shape[d]);
        if (x->nbytes)
            assert_memory_equal(x->data, y->data, x->nbytes);
    }
}

static void an_open_round_trip(void **state AS_UNUSED)
{
    struct bytes b = encode(AS_FRAME_OPEN, &whole, NULL);
    struct as_frame f = only_frame(b);
    struct as_frame_msg m;
    struct as_arena a;
    struct as_msg msg;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(f.type, AS_FRAME_OPEN);
    assert_int_equal(f.flags, AS_FRAME_F_END);
    assert_int_equal(f.stream, 41);
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), 0);
    assert_int_equal(m.kind, AS_FRAME_TENSOR);
    assert_int_equal(m.priority, 3);
    assert_int_equal(m.target, 9);
    assert_int_equal(m.timeout, 1234567);
    assert_int_equal(m.service, 0);
    assert_str(m.id, "req-1");
    assert_str(msg.id, "req-1");
    assert_same_tensors(&whole, &msg);
    for (uint32_t i = 0; i < msg.n_tensors; i++)
        assert_int_equal((uintptr_t)msg.tensors[i].data % 64, 0);
    assert_int_equal(msg.n_params, 5);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(as_str_eq(msg.params[i].name, params[i].name));
        assert_int_equal(msg.params[i].type, params[i].type);
    }
    assert_true(msg.params[0].b);
    assert_true(msg.params[1].i64 == -5);
    assert_str(msg.params[2].str, "v\xc3\xa9lo");
    assert_true(msg.params[3].f64 == 0.5);
    assert_true(msg.params[4].u64 == UINT64_MAX);
    assert_int_equal(msg.n_meta, 2);
    assert_str(msg.meta[0].key, "x-key");
    assert_str(msg.meta[0].value, "value");
    assert_str(msg.meta[1].key, "y");
    assert_str(msg.meta[1].value, "");
    as_arena_fini(&a);
    free(b.p);
}

static void a_response_carries_service_time_and_no_id(void **state AS_UNUSED)
{
    struct bytes b = encode(AS_FRAME_DATA, &whole, NULL);
    struct as_frame f = only_frame(b);
    struct as_frame_msg m;
    struct as_arena a;
    struct as_msg msg;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(f.flags, AS_FRAME_F_END | AS_FRAME_F_MSG);
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), 0);
    assert_int_equal(m.service, 55);
    assert_int_equal(m.ended, 0x80000001u);
    assert_int_equal(m.timeout, 0);
    assert_int_equal(m.target, 0);
    assert_int_equal(msg.id.n, 0);
    assert_same_tensors(&whole, &msg);
    as_arena_fini(&a);
    free(b.p);
}

static void moments_have_32_bits(void **state AS_UNUSED)
{
    uint64_t now = ((uint64_t)7 << 42) + 5; /* the low 32 bits wrap around */

    assert_int_equal(as_frame_moment(0), 1); /* 0 is "not measured" */
    assert_true(as_frame_since(as_frame_moment(now - (3 << 20)), now) == (3 << 20) - 1024);
    assert_true(as_frame_since(as_frame_moment(now), now + (4 << 20)) == (4 << 20) - 1024);
    assert_true(as_frame_since(0, now) == 0);
    assert_true(as_frame_since(as_frame_moment(now + 4096), now) == 0); /* ahead of the reader */
}

static void a_message_may_be_empty(void **state AS_UNUSED)
{
    struct as_msg nothing = {0}, msg;
    struct bytes b = encode(AS_FRAME_OPEN, &nothing, NULL);
    struct as_frame f = only_frame(b);
    struct as_frame_msg m;
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(b.n, 64);
    assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), 0);
    assert_int_equal(msg.n_tensors, 0);
    assert_int_equal(m.body_len, 0);
    assert_null(m.body);
    as_arena_fini(&a);
    free(b.p);
}

/* The layout that docs/protocol/link.md prints, byte by byte. */
static void layout_of_one_small_request(void **state AS_UNUSED)
{
    static const int64_t shape[] = {4};
    static const uint8_t data[4] = {0xaa, 0xbb, 0xcc, 0xdd};
    struct as_tensor t = {AS_STR("in"), AS_DT_UINT8, 1, shape, data, 4};
    struct as_msg msg = {.id = AS_STR("i"), .tensors = &t, .n_tensors = 1};
    struct bytes b = encode(AS_FRAME_OPEN, &msg, NULL);
    static const uint8_t record[32] = {2, 0, 2, 1, [24] = 4};

    assert_int_equal(b.n, 192);
    assert_int_equal(u32_at(b.p), 128 + 4 - 16); /* payload: up to the last byte of the body */
    assert_int_equal(b.p[16], 1);                /* kind */
    assert_int_equal(b.p[17], 3);                /* priority */
    assert_int_equal(u32_at(b.p + 20), 9);       /* target */
    assert_int_equal(u64_at(b.p + 24), 1234567); /* timeout */
    assert_int_equal(u64_at(b.p + 32), 4);       /* body */
    assert_int_equal(u32_at(b.p + 40), 1);       /* tensors */
    assert_int_equal(u32_at(b.p + 44), 0);       /* parameters */
    assert_int_equal(u32_at(b.p + 48), 0);       /* metadata */
    assert_int_equal(u32_at(b.p + 52), 1);       /* bytes of the id */
    assert_int_equal(u32_at(b.p + 56), 56);      /* bytes of the table */
    assert_int_equal(u32_at(b.p + 60), 0);
    assert_memory_equal(b.p + 64, record, 32);
    assert_int_equal(u64_at(b.p + 96), 4);                               /* shape */
    assert_memory_equal(b.p + 104, "in\0\0\0\0\0\0i\0\0\0\0\0\0\0", 16); /* name, id */
    assert_memory_equal(b.p + 128, data, 4);
    for (size_t i = 132; i < 192; i++)
        assert_int_equal(b.p[i], 0);
    free(b.p);
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7);
}

/* Assembles a message from all its frames; returns how many there were. */
static unsigned reassemble(struct bytes b, struct as_arena *a, struct as_msg *ret_msg,
                           struct bytes *ret_body)
{
    struct as_frame_msg m;
    struct as_frame f;
    const char *why;
    unsigned frames = 1;
    size_t at, got = 0;

    at = (size_t)as_frame_next(b.p, b.n, &f);
    assert_int_equal(as_frame_get_msg(&f, a, &m, ret_msg, &why), 0);
    *ret_body = bytes_new(m.body_len);
    if (m.body) {
        assert_int_equal(at, b.n);
        assert_true(f.flags & AS_FRAME_F_END);
        memcpy(ret_body->p, m.body, m.body_len);
        return frames;
    }
    assert_false(f.flags & AS_FRAME_F_END);
    while (at < b.n) {
        int64_t used = as_frame_next(b.p + at, b.n - at, &f);

        assert_true(used > 0);
        at += (size_t)used;
        assert_int_equal(f.type, AS_FRAME_DATA);
        assert_int_equal(f.stream, 41);
        assert_int_equal(f.flags, at == b.n ? AS_FRAME_F_END : 0);
        assert_true(got + f.n <= m.body_len);
        memcpy(ret_body->p + got, f.p, f.n);
        got += f.n;
        frames++;
    }
    assert_int_equal(got, m.body_len);
    as_frame_msg_set_body(&m, ret_msg, ret_body->p);
    return frames;
}

/* Two tensors, the first of `n` bytes: the stream is the same with and without an owner. */
static unsigned body_round_trip(size_t n)
{
    struct as_blob *blob = as_blob_new(n + 100);
    int64_t shape[] = {(int64_t)n}, hundred[] = {100};
    struct as_tensor t[] = {{AS_STR("x"), AS_DT_UINT8, 1, shape, blob->data, n},
                            {AS_STR("y"), AS_DT_INT8, 1, hundred, blob->data + n, 100}};
    struct as_msg in = {.tensors = t, .n_tensors = 2}, out;
    struct bytes copied, shared, body;
    struct as_arena a;
    unsigned frames;

    for (size_t i = 0; i < n + 100; i++)
        blob->data[i] = pattern(i);
    as_arena_init(&a, NULL, 0);
    copied = encode(AS_FRAME_DATA, &in, NULL);
    shared = encode(AS_FRAME_DATA, &in, blob);
    assert_int_equal(copied.n, shared.n);
    assert_memory_equal(copied.p, shared.p, copied.n);
    frames = reassemble(copied, &a, &out, &body);
    assert_int_equal(body.n, AS_ALIGN(n, 64) + 100);
    if (frames > 1)
        assert_same_tensors(&in, &out);
    as_arena_fini(&a);
    free(body.p);
    free(copied.p);
    free(shared.p);
    as_blob_unref(blob);
    return frames;
}

static void bodies_of_every_size(void **state AS_UNUSED)
{
    static const size_t inline_max = AS_FRAME_INLINE - 128; /* with 100 bytes behind: 64 KiB - 28 */
    static const size_t frame = AS_FRAME_MAX - AS_FRAME_HEADER;

    assert_int_equal(body_round_trip(1), 1);
    assert_int_equal(body_round_trip(AS_COPY_MAX), 1);
    assert_int_equal(body_round_trip(AS_COPY_MAX + 1), 1);
    assert_int_equal(body_round_trip(inline_max), 1);
    assert_int_equal(body_round_trip(inline_max + 1), 2);
    assert_int_equal(body_round_trip(frame - 112), 2);     /* 64·k + 100 = a whole frame or less */
    assert_int_equal(body_round_trip(frame - 112 + 1), 3); /* one byte more */
    assert_int_equal(body_round_trip(5 * frame), 7);
}

static void inline_limit_is_exact(void **state AS_UNUSED)
{
    static uint8_t data[AS_FRAME_INLINE + 1];
    int64_t shape[] = {AS_FRAME_INLINE};
    struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, data, AS_FRAME_INLINE};
    struct as_msg in = {.tensors = &t, .n_tensors = 1}, out;
    struct bytes b = encode(AS_FRAME_OPEN, &in, NULL), body;
    struct as_arena a;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(reassemble(b, &a, &out, &body), 1);
    free(b.p);
    free(body.p);
    shape[0] = (int64_t)++t.nbytes;
    b = encode(AS_FRAME_OPEN, &in, NULL);
    assert_int_equal(reassemble(b, &a, &out, &body), 2);
    free(b.p);
    free(body.p);
    as_arena_fini(&a);
}

static void large_tensors_are_referenced_and_small_ones_copied(void **state AS_UNUSED)
{
    struct as_blob *blob = as_blob_new(AS_COPY_MAX + 1);
    int64_t shape[] = {AS_COPY_MAX};
    struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, blob->data, AS_COPY_MAX};
    struct as_msg in = {.tensors = &t, .n_tensors = 1};
    struct as_outq q;

    memset(blob->data, 1, AS_COPY_MAX + 1);
    as_outq_init(&q);
    as_frame_put_msg(&q, AS_FRAME_OPEN, 1, &fixed, &in, blob);
    assert_int_equal(atomic_load(&blob->refs), 1);
    shape[0] = (int64_t)++t.nbytes;
    as_frame_put_msg(&q, AS_FRAME_OPEN, 3, &fixed, &in, blob);
    assert_int_equal(atomic_load(&blob->refs), 2);
    as_outq_drop(&q, q.bytes);
    assert_int_equal(atomic_load(&blob->refs), 1);
    as_outq_fini(&q);
    as_blob_unref(blob);
}

static void body_len_aligns_and_sees_overflow(void **state AS_UNUSED)
{
    struct as_tensor t[3] = {{.nbytes = 1}, {.nbytes = 64}, {.nbytes = 0}};

    assert_int_equal(as_frame_body_len(t, 0), 0);
    assert_int_equal(as_frame_body_len(t, 1), 1);
    assert_int_equal(as_frame_body_len(t, 2), 128);
    assert_int_equal(as_frame_body_len(t, 3), 128);
    t[2].nbytes = SIZE_MAX - 128;
    assert_true(as_frame_body_len(t, 3) == UINT64_MAX);
    t[0].nbytes = t[1].nbytes = (size_t)INT64_MAX - 64;
    assert_true(as_frame_body_len(t, 1) != UINT64_MAX);
    assert_true(as_frame_body_len(t, 2) == UINT64_MAX);
    t[0].nbytes++;
    assert_true(as_frame_body_len(t, 1) == UINT64_MAX);
}

static void encoder_refuses_what_does_not_fit(void **state AS_UNUSED)
{
    struct as_param *many = calloc(AS_FRAME_PARAMS + 1, sizeof(*many));
    char *text = calloc(1, AS_FRAME_TABLE + 1);
    struct as_param p = {.type = AS_PARAM_STRING, .str = {text, AS_FRAME_TABLE - 16}};
    struct as_msg in = {.params = &p, .n_params = 1};
    struct as_tensor t = {.name = {text, 65536}, .dtype = AS_DT_FP64};
    struct as_outq q;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_OPEN, 1, &fixed, &in, NULL), 0);
    as_outq_drop(&q, q.bytes);
    p.str.n++;
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_OPEN, 1, &fixed, &in, NULL), AS_ETOOBIG);
    for (uint32_t i = 0; i <= AS_FRAME_PARAMS; i++)
        many[i].type = AS_PARAM_BOOL;
    in = (struct as_msg){.params = many, .n_params = AS_FRAME_PARAMS};
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_DATA, 1, &fixed, &in, NULL), 0);
    as_outq_drop(&q, q.bytes);
    in.n_params++;
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_DATA, 1, &fixed, &in, NULL), AS_ETOOBIG);
    in = (struct as_msg){.tensors = &t, .n_tensors = 1};
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_DATA, 1, &fixed, &in, NULL), AS_ETOOBIG);
    t.name.n--;
    t.nbytes = SIZE_MAX / 2;
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_DATA, 1, &fixed, &in, NULL), AS_ETOOBIG);
    in = (struct as_msg){.id = {text, AS_FRAME_TABLE + 1}};
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_OPEN, 1, &fixed, &in, NULL), AS_ETOOBIG);
    assert_int_equal(q.bytes, 0);
    as_outq_fini(&q);
    free(text);
    free(many);
}

/* No frame of a message with `more` has END, whatever its size; its cost is that of its fixed part.
 */
static void more_messages_may_follow(void **state AS_UNUSED)
{
    static uint8_t data[AS_FRAME_INLINE + 1];
    const size_t sizes[] = {0, 1, AS_FRAME_INLINE, AS_FRAME_INLINE + 1};

    for (size_t i = 0; i < 2 * AS_COUNT(sizes); i++) {
        bool input = i & 1;
        int64_t shape[] = {(int64_t)sizes[i / 2]};
        struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, data, sizes[i / 2]};
        struct as_msg in = {.id = AS_STR("an id"), .tensors = &t, .n_tensors = 1}, msg;
        struct as_frame_msg part = {.more = true, .input = input}, m;
        struct as_arena a;
        struct as_outq q;
        struct as_frame f;
        struct bytes b;
        const char *why;
        size_t at = 0;

        as_outq_init(&q);
        as_arena_init(&a, NULL, 0);
        assert_int_equal(as_frame_put_msg(&q, AS_FRAME_DATA, 3, &part, &in, NULL), 0);
        b = bytes_of(&q);
        for (; at < b.n; at += (size_t)as_frame_next(b.p + at, b.n - at, &f)) {
            assert_true(as_frame_next(b.p + at, b.n - at, &f) > 0);
            assert_int_equal(f.flags, at ? 0 : AS_FRAME_F_MSG);
        }
        assert_true(as_frame_next(b.p, b.n, &f) > 0);
        assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), 0);
        assert_int_equal(msg.id.n, input ? 5 : 0);
        assert_int_equal(as_frame_msg_cost(&in, &part.tensor_params, input),
                         m.table.n + m.body_len);
        as_arena_fini(&a);
        free(b.p);
        as_outq_fini(&q);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_round_trip),
        cmocka_unit_test(a_response_carries_service_time_and_no_id),
        cmocka_unit_test(moments_have_32_bits),
        cmocka_unit_test(a_message_may_be_empty),
        cmocka_unit_test(layout_of_one_small_request),
        cmocka_unit_test(bodies_of_every_size),
        cmocka_unit_test(inline_limit_is_exact),
        cmocka_unit_test(large_tensors_are_referenced_and_small_ones_copied),
        cmocka_unit_test(body_len_aligns_and_sees_overflow),
        cmocka_unit_test(encoder_refuses_what_does_not_fit),
        cmocka_unit_test(more_messages_may_follow),
    };

    return cmocka_run_group_tests_name("frame_msg", tests, NULL, NULL);
}
