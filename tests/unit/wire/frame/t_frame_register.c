/* REGISTER: a model's name, options and signature. */
#include "frames.h"

static const int64_t any_by_four[] = {-1, 4};

static const struct as_tensor_spec inputs[] = {
    {.name = STATIC_STR("a"), .dtype = AS_DT_FP32, .ndim = 2, .shape = any_by_four},
    {.name = STATIC_STR("a longer name"), .dtype = AS_DT_BYTES, .ndim = AS_ANY_RANK},
};
static const struct as_tensor_spec outputs[] = {
    {.name = STATIC_STR("scalar"), .dtype = AS_DT_BF16, .ndim = 0},
};

static struct as_frame_register model(void)
{
    return (struct as_frame_register){.model = 7,
                                      .name = AS_STR("add"),
                                      .version = AS_STR("v2"),
                                      .platform = AS_STR("python"),
                                      .max_ongoing = 4,
                                      .idempotent = true,
                                      .has_inputs = true,
                                      .has_outputs = true,
                                      .max_queued = -1,
                                      .budget = 65535,
                                      .n_inputs = 2,
                                      .n_outputs = 1,
                                      .inputs = inputs,
                                      .outputs = outputs};
}

static struct bytes encode(const struct as_frame_register *r)
{
    struct as_outq q;
    struct bytes b;

    as_outq_init(&q);
    assert_int_equal(as_frame_put_register(&q, r), 0);
    b = bytes_of(&q);
    as_outq_fini(&q);
    return b;
}

static int decode(struct bytes b, const char **ret_why)
{
    struct as_frame f = only_frame(b);
    struct as_frame_register r;
    struct as_arena a;
    int err;

    as_arena_init(&a, NULL, 0);
    err = as_frame_get_register(&f, &a, &r, ret_why);
    as_arena_fini(&a);
    return err;
}

static void assert_refused(struct bytes b, const char *why)
{
    const char *said = "";

    assert_int_equal(decode(b, &said), AS_EPROTO);
    assert_string_equal(said, why);
}

static void round_trip(void **state AS_UNUSED)
{
    struct as_frame_register in = model(), r;
    struct bytes b = encode(&in);
    struct as_frame f = only_frame(b);
    struct as_arena a;
    const char *why;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_register(&f, &a, &r, &why), 0);
    assert_int_equal(r.model, 7);
    assert_str(r.name, "add");
    assert_str(r.version, "v2");
    assert_str(r.platform, "python");
    assert_int_equal(r.max_ongoing, 4);
    assert_int_equal(r.budget, 65535);
    assert_true(r.max_queued == -1);
    assert_true(r.idempotent && r.has_inputs && r.has_outputs);
    assert_int_equal(r.n_inputs, 2);
    assert_str(r.inputs[0].name, "a");
    assert_int_equal(r.inputs[0].dtype, AS_DT_FP32);
    assert_int_equal(r.inputs[0].ndim, 2);
    assert_memory_equal(r.inputs[0].shape, any_by_four, sizeof(any_by_four));
    assert_str(r.inputs[1].name, "a longer name");
    assert_int_equal(r.inputs[1].ndim, AS_ANY_RANK);
    assert_int_equal(r.n_outputs, 1);
    assert_str(r.outputs[0].name, "scalar");
    assert_int_equal(r.outputs[0].ndim, 0);
    as_arena_fini(&a);
    free(b.p);
}

static void no_signature_differs_from_an_empty_one(void **state AS_UNUSED)
{
    struct as_frame_register in = model(), r;
    struct as_arena a;
    struct as_frame f;
    struct bytes b;
    const char *why;

    in.n_inputs = in.n_outputs = 0;
    in.has_outputs = false;
    b = encode(&in);
    f = only_frame(b);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_register(&f, &a, &r, &why), 0);
    assert_true(r.has_inputs);
    assert_false(r.has_outputs);
    as_arena_fini(&a);
    free(b.p);
}

static void numbers_have_limits(void **state AS_UNUSED)
{
    static const char *const ongoing = "REGISTER: max_ongoing or budget is not within 1…65535";
    static const char *const queued = "REGISTER: max_queued is below -1";
    struct as_frame_register in = model();
    struct bytes b = encode(&in);
    const char *why;

    for (size_t at = 16 + 12; at <= 16 + 16; at += 4) { /* max_ongoing, budget */
        set32(b.p + at, 0);
        assert_refused(b, ongoing);
        set32(b.p + at, 65536);
        assert_refused(b, ongoing);
        set32(b.p + at, 1);
        assert_int_equal(decode(b, &why), 0);
    }
    set64(b.p + 16 + 24, (uint64_t)-2);
    assert_refused(b, queued);
    for (int64_t v = -1; v <= 1; v++) { /* 0: not set */
        set64(b.p + 16 + 24, (uint64_t)v);
        assert_int_equal(decode(b, &why), 0);
    }
    free(b.p);
}

static void flags_and_reserved_bits(void **state AS_UNUSED)
{
    struct as_frame_register in = model();
    struct bytes b = encode(&in);

    b.p[16 + 10] = 7 | 128;
    assert_refused(b, "REGISTER: the fixed part is cut short or malformed");
    b.p[16 + 10] = 7 | 16;
    assert_refused(b, "REGISTER: a stream of inputs needs a stream of answers");
    b.p[16 + 10] = 7 & ~2;
    assert_refused(b, "REGISTER: tensors on a side without a signature");
    b.p[16 + 10] = 7 & ~4;
    assert_refused(b, "REGISTER: tensors on a side without a signature");
    b.p[16 + 10] = 7;
    free(b.p);
}

static void a_target_of_calls_has_no_signature(void **state AS_UNUSED)
{
    static const char why[] =
        "REGISTER: a target of calls has neither a signature, nor batching, nor streams";
    struct as_frame_register in = {.name = AS_STR("Model"),
                                   .version = AS_STR("1"),
                                   .platform = AS_STR("python"),
                                   .max_ongoing = 5,
                                   .budget = 5,
                                   .opaque = true},
                             r;
    struct bytes b = encode(&in);
    struct as_frame f = only_frame(b);
    struct as_arena a;
    const char *reason;

    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_register(&f, &a, &r, &reason), 0);
    assert_true(r.opaque);
    assert_false(r.http);
    b.p[16 + 10] |= 64;
    assert_int_equal(as_frame_get_register(&f, &a, &r, &reason), 0);
    assert_true(r.http);
    b.p[16 + 10] = 64;
    assert_refused(b, "REGISTER: requests of HTTP need a target of calls");
    b.p[16 + 10] = (uint8_t)(32 | 128);
    assert_refused(b, "REGISTER: the fixed part is cut short or malformed");
    b.p[16 + 10] = 32;
    free(b.p);
    in.http = true;
    b = encode(&in);
    assert_int_equal(b.p[16 + 10], 96);
    in.http = false;
    free(b.p);
    b = encode(&in);
    f = only_frame(b);
    as_arena_fini(&a);
    b.p[16 + 10] |= 2;
    assert_refused(b, why);
    b.p[16 + 10] = 32 | 4;
    assert_refused(b, why);
    b.p[16 + 10] = 32 | 8;
    assert_refused(b, why);
    b.p[16 + 10] = 32;
    b.p[16 + 20] = 2; /* max_batch_size */
    assert_refused(b, why);
    free(b.p);
}

static struct as_frame_register batching_model(uint32_t n_preferred)
{
    struct as_frame_register r = model();

    r.batching = (struct as_frame_batching){
        .max_size = 32, .max_wait = 5000000, .ragged = true, .n_preferred = n_preferred};
    for (uint32_t i = 0; i < n_preferred; i++)
        r.batching.preferred[i] = i + 2;
    return r;
}

static void batching_round_trip(void **state AS_UNUSED)
{
    for (uint32_t n = 0; n <= AS_FRAME_PREFERRED; n++) {
        struct as_frame_register in = batching_model(n), r;
        struct bytes b = encode(&in);
        struct as_frame f = only_frame(b);
        const char *why = "";
        struct as_arena a;

        as_arena_init(&a, NULL, 0);
        assert_int_equal(as_frame_get_register(&f, &a, &r, &why), 0);
        assert_memory_equal(&r.batching, &in.batching, sizeof(r.batching));
        assert_int_equal(r.n_inputs, 2);
        assert_str(r.version, "v2");
        as_arena_fini(&a);
        free(b.p);
    }
}

static void batching_is_checked(void **state AS_UNUSED)
{
    struct as_frame_register in = batching_model(3);
    struct bytes b = encode(&in);
    uint8_t *part = b.p + 16 + 40;

    part[8] = 3;
    assert_refused(b, "REGISTER: the batching options are malformed");
    part[8] = 1;
    part[12] = AS_FRAME_PREFERRED + 1;
    assert_refused(b, "REGISTER: the batching options are malformed");
    part[12] = 3;
    part[16 + 12] = 1; /* behind three sizes: padding */
    assert_refused(b, "REGISTER: the batching options are malformed");
    free(b.p);
    /* a model that says only that it has batching, and ends there */
    b = encode(&(struct as_frame_register){.max_ongoing = 1, .budget = 1});
    b.p[16 + 20] = 1;
    assert_refused(b, "REGISTER: batching is cut short");
    free(b.p);
}

static void entries_are_checked(void **state AS_UNUSED)
{
    struct as_frame_register in = model();
    struct bytes b = encode(&in);
    uint8_t *first = b.p + 16 + 40, *name = first + 8 + 16;

    first[2] = 0;
    assert_refused(b, "signature: unknown datatype");
    first[2] = AS_DT_COUNT;
    assert_refused(b, "signature: unknown datatype");
    first[2] = AS_DT_FP32;
    set64(first + 8, (uint64_t)-2);
    assert_refused(b, "signature: bad shape");
    set64(first + 8, (uint64_t)-1);
    first[4] = 1;
    assert_refused(b, "signature: labels on an input");
    first[4] = 0;
    *name = 0xff;
    assert_refused(b, "signature: a tensor name is empty or not UTF-8");
    *name = 'a';
    first[0] = 0;
    assert_refused(b, "signature: a tensor name is empty or not UTF-8");
    first[0] = 1;
    first[3] = 200; /* dimensions: more than the frame has bytes for */
    assert_refused(b, "signature: cut short");
    first[3] = 2;
    set32(b.p + 16 + 32, 4097);
    assert_refused(b, "signature: too many tensors");
    set32(b.p + 16 + 32, UINT32_MAX);
    assert_refused(b, "signature: too many tensors");
    free(b.p);
}

static void dimensions_of_an_entry(void **state AS_UNUSED)
{
    static const int64_t shape[AS_MAX_DIMS + 1];
    struct as_tensor_spec s = {
        .name = AS_STR("n"), .dtype = AS_DT_BOOL, .ndim = AS_MAX_DIMS, .shape = shape};
    struct as_frame_register in = model();
    struct bytes b;
    const char *why;

    in.inputs = &s;
    in.n_inputs = 1;
    in.n_outputs = 0;
    in.platform = AS_STR("eight bytes long, and more");
    b = encode(&in);
    assert_int_equal(decode(b, &why), 0);
    b.p[16 + 40 + 3] = AS_MAX_DIMS + 1;
    assert_refused(b, "signature: bad shape");
    free(b.p);
}

static void names_are_given_once_per_side(void **state AS_UNUSED)
{
    struct as_tensor_spec twice[2] = {inputs[0], inputs[0]};
    struct as_frame_register in = model();
    struct bytes b;
    const char *why;

    in.outputs = inputs; /* the same name on both sides is fine */
    b = encode(&in);
    assert_int_equal(decode(b, &why), 0);
    free(b.p);
    in.inputs = twice;
    b = encode(&in);
    assert_refused(b, "signature: a tensor name is given twice");
    free(b.p);
}

static const struct as_str cats[] = {STATIC_STR("cat"), STATIC_STR(""), STATIC_STR("v\u00f6gel")};
#define LABEL_AT (16 + 40 + 8 + 8) /* of the only entry, a scalar with a name of 6 bytes */

static struct as_frame_register labelled(struct as_tensor_spec *s, const struct as_str *labels,
                                         uint32_t n)
{
    struct as_frame_register r = model();

    *s = outputs[0];
    s->labels = labels;
    s->n_labels = n;
    r.n_inputs = 0;
    r.outputs = s;
    return r;
}

static void labels_round_trip(void **state AS_UNUSED)
{
    for (uint32_t n = 1; n <= 3; n++) {
        struct as_tensor_spec s;
        struct as_frame_register in = labelled(&s, cats, n), r;
        struct bytes b = encode(&in);
        struct as_frame f = only_frame(b);
        struct as_arena a;
        const char *why;

        as_arena_init(&a, NULL, 0);
        assert_int_equal(as_frame_get_register(&f, &a, &r, &why), 0);
        assert_int_equal(r.outputs[0].n_labels, n);
        for (uint32_t i = 0; i < n; i++)
            assert_true(as_str_eq(r.outputs[0].labels[i], cats[i]));
        assert_str(r.platform, "python");
        for (uint32_t full = f.n; f.n-- > 0 && full;)
            assert_int_equal(as_frame_get_register(&f, &a, &r, &why), AS_EPROTO);
        as_arena_fini(&a);
        free(b.p);
    }
}

static void labels_are_checked(void **state AS_UNUSED)
{
    static const char *const bad = "signature: a label is too long, or not a line of UTF-8";
    struct as_tensor_spec s;
    struct as_frame_register in = labelled(&s, cats, 1);
    struct bytes b = encode(&in);

    for (const char *c = "\0\n\r\xff"; c < (const char *)"\0\n\r\xff" + 4; c++) {
        b.p[LABEL_AT + 2 + 1] = (uint8_t)*c;
        assert_refused(b, bad);
    }
    b.p[LABEL_AT + 2 + 1] = 'a';
    b.p[LABEL_AT + 7] = 1;
    assert_refused(b, "signature: labels are not padded with zeros");
    b.p[LABEL_AT + 7] = 0;
    b.p[LABEL_AT + 1] = 0x7f; /* behind the frame, and too long */
    assert_refused(b, bad);
    b.p[LABEL_AT + 1] = 0;
    b.p[16 + 40 + 4] = 200; /* more than could be in what is left */
    assert_refused(b, "signature: too many labels");
    free(b.p);
    in = model();
    s = inputs[0];
    s.labels = cats;
    s.n_labels = 1;
    in.inputs = &s;
    in.n_inputs = 1;
    b = encode(&in);
    assert_refused(b, "signature: labels on an input");
    free(b.p);
}

static void labels_have_limits(void **state AS_UNUSED)
{
    struct as_str *many = calloc(AS_FRAME_LABELS + 1, sizeof(*many));
    char *text = malloc(AS_FRAME_LABEL + 1);
    struct as_tensor_spec s;
    struct as_frame_register in = labelled(&s, many, AS_FRAME_LABELS);
    struct bytes b = encode(&in);
    struct as_outq q;
    const char *why;

    as_outq_init(&q);
    assert_int_equal(decode(b, &why), 0);
    b.p[16 + 40 + 4] = 1; /* 65,537 */
    assert_refused(b, "signature: too many labels");
    free(b.p);
    s.n_labels++;
    assert_int_equal(as_frame_put_register(&q, &in), AS_ETOOBIG);
    memset(text, 'x', AS_FRAME_LABEL + 1);
    s.n_labels = 1;
    many[0] = (struct as_str){text, AS_FRAME_LABEL};
    b = encode(&in);
    assert_int_equal(decode(b, &why), 0);
    b.p[LABEL_AT]++; /* the first byte of the padding would belong to it */
    assert_refused(b, "signature: a label is too long, or not a line of UTF-8");
    free(b.p);
    many[0].n++;
    assert_int_equal(as_frame_put_register(&q, &in), AS_ETOOBIG);
    assert_int_equal(q.bytes, 0);
    as_outq_fini(&q);
    free(text);
    free(many);
}

static void names_fill_the_frame(void **state AS_UNUSED)
{
    struct as_frame_register in = model();
    struct bytes b = encode(&in);

    b.p[16 + 4]++;
    assert_refused(b, "REGISTER: names do not fill the frame");
    b.p[16 + 4] -= 2;
    assert_refused(b, "REGISTER: names do not fill the frame");
    b.p[16 + 4]++;
    b.p[16 + 8 + 1] = 0xff;
    assert_refused(b, "REGISTER: names do not fill the frame");
    b.p[16 + 8 + 1] = 0;
    b.p[16 + u32_at(b.p) - 1] = 0x80; /* last byte of the platform */
    assert_refused(b, "REGISTER: a name is not UTF-8");
    free(b.p);
}

static void every_shorter_frame_is_refused(void **state AS_UNUSED)
{
    struct as_frame_register in = model(), r;
    struct bytes b = encode(&in);
    struct as_frame f = only_frame(b);
    const char *why;

    for (uint32_t n = 0, full = f.n; n < full; n++) {
        struct as_arena a;

        as_arena_init(&a, NULL, 0);
        f.n = n;
        assert_int_equal(as_frame_get_register(&f, &a, &r, &why), AS_EPROTO);
        as_arena_fini(&a);
    }
    free(b.p);
}

static void encoder_limits(void **state AS_UNUSED)
{
    char *text = calloc(1, 65536);
    struct as_tensor_spec *many = calloc(AS_FRAME_TENSORS + 1, sizeof(*many));
    struct as_frame_register in = model();
    struct as_outq q;

    as_outq_init(&q);
    in.platform = (struct as_str){text, 65535};
    assert_int_equal(as_frame_put_register(&q, &in), 0);
    as_outq_drop(&q, q.bytes);
    in.platform.n = 65536;
    assert_int_equal(as_frame_put_register(&q, &in), AS_ETOOBIG);
    in = model();
    for (uint32_t i = 0; i <= AS_FRAME_TENSORS; i++)
        many[i] = inputs[0];
    in.inputs = many;
    in.n_inputs = AS_FRAME_TENSORS;
    assert_int_equal(as_frame_put_register(&q, &in), 0);
    as_outq_drop(&q, q.bytes);
    in.n_inputs++;
    assert_int_equal(as_frame_put_register(&q, &in), AS_ETOOBIG);
    in.n_inputs = 16; /* 16 names of 65535 bytes do not fit a frame */
    for (uint32_t i = 0; i < 16; i++)
        many[i].name = (struct as_str){text, 65535};
    assert_int_equal(as_frame_put_register(&q, &in), AS_ETOOBIG);
    assert_int_equal(q.bytes, 0);
    in.n_inputs = 15;
    assert_int_equal(as_frame_put_register(&q, &in), 0);
    as_outq_fini(&q);
    free(many);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(no_signature_differs_from_an_empty_one),
        cmocka_unit_test(numbers_have_limits),
        cmocka_unit_test(flags_and_reserved_bits),
        cmocka_unit_test(a_target_of_calls_has_no_signature),
        cmocka_unit_test(batching_round_trip),
        cmocka_unit_test(batching_is_checked),
        cmocka_unit_test(entries_are_checked),
        cmocka_unit_test(dimensions_of_an_entry),
        cmocka_unit_test(names_are_given_once_per_side),
        cmocka_unit_test(labels_round_trip),
        cmocka_unit_test(labels_are_checked),
        cmocka_unit_test(labels_have_limits),
        cmocka_unit_test(names_fill_the_frame),
        cmocka_unit_test(every_shorter_frame_is_refused),
        cmocka_unit_test(encoder_limits),
    };

    return cmocka_run_group_tests_name("frame_register", tests, NULL, NULL);
}
