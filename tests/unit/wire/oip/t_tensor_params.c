/* Parameters of tensors: from protobuf to the link and back, errors, and limits. In JSON:
 * t_oip_json.
 */
#include "msg_case.h"
#include "wire/oip/oip.h"

#include "protobuf.h"

static const struct as_tensor_param expected[] = {
    {{.name = {"yes", 3}, .type = AS_PARAM_BOOL, .b = true}, 0},
    {{.name = {"minus", 5}, .type = AS_PARAM_INT64, .i64 = -5}, 1},
    {{.name = {"content_type", 12}, .type = AS_PARAM_STRING, .str = {"v\xc3\xa9lo", 5}}, 1},
    {{.name = {"", 0}, .type = AS_PARAM_DOUBLE, .f64 = 0.5}, 3},
    {{.name = {"big", 3}, .type = AS_PARAM_UINT64, .u64 = UINT64_MAX}, 3},
};

static void assert_expected_params(const struct as_tensor_params *p)
{
    assert_int_equal(p->n, AS_COUNT(expected));
    for (uint32_t i = 0; i < p->n; i++) {
        const struct as_param *a = &p->at[i].param, *b = &expected[i].param;

        assert_int_equal(p->at[i].tensor, expected[i].tensor);
        assert_true(as_str_eq(a->name, b->name));
        assert_int_equal(a->type, b->type);
        if (a->type == AS_PARAM_STRING)
            assert_true(as_str_eq(a->str, b->str));
        else if (a->type == AS_PARAM_BOOL)
            assert_true(a->b == b->b);
        else
            assert_true(a->u64 == b->u64);
    }
}

/* --- on the link --- */

static struct bytes put(enum as_frame_type type, const struct as_tensor_params *p)
{
    struct as_frame_msg with = fixed;
    struct as_outq q;
    struct bytes b;

    with.tensor_params = *p;
    as_outq_init(&q);
    assert_int_equal(as_frame_put_msg(&q, type, 41, &with, &whole, NULL), 0);
    b = bytes_of(&q);
    as_outq_fini(&q);
    return b;
}

static void parameters_survive_the_link(void **state AS_UNUSED)
{
    const struct as_tensor_params p = {expected, AS_COUNT(expected)};
    const enum as_frame_type types[] = {AS_FRAME_OPEN, AS_FRAME_DATA};

    for (size_t i = 0; i < AS_COUNT(types); i++) {
        struct bytes b = put(types[i], &p);
        struct as_frame f = only_frame(b);
        struct as_frame_msg m;
        struct as_arena a;
        struct as_msg msg;
        const char *why;

        as_arena_init(&a, NULL, 0);
        assert_int_equal(as_frame_get_msg(&f, &a, &m, &msg, &why), 0);
        assert_expected_params(&m.tensor_params);
        assert_int_equal(msg.n_params, whole.n_params);
        assert_int_equal(msg.n_meta, whole.n_meta);
        assert_str(msg.meta[0].value, "value");
        assert_int_equal(as_frame_msg_cost(&whole, &p, types[i] == AS_FRAME_OPEN),
                         m.table.n + m.body_len);
        as_arena_fini(&a);
        free(b.p);
    }
}

/* The records of tensors' parameters follow those of the message. */
static const char *refused(size_t offset, uint64_t v, size_t n)
{
    static const struct as_tensor_param one = {{.name = {"k", 1}, .type = AS_PARAM_INT64, .i64 = 1},
                                               1};
    const struct as_tensor_params p = {&one, 1};
    struct bytes b = put(AS_FRAME_OPEN, &p);
    struct as_frame f = only_frame(b);
    const uint8_t *at = f.p;
    struct as_frame_msg m;
    const char *why = "";
    struct as_arena a;
    struct as_msg msg;
    int err;

    /* the only record whose name is "k" */
    while (at[0] != 1 || at[1] || at[2] != AS_PARAM_INT64 || at[16] != 1 || at[24] != 'k')
        at++;
    memcpy((uint8_t *)(uintptr_t)at + offset, &v, n);
    as_arena_init(&a, NULL, 0);
    err = as_frame_get_msg(&f, &a, &m, &msg, &why);
    assert_int_equal(err, *why ? AS_EPROTO : 0);
    as_arena_fini(&a);
    free(b.p);
    return why;
}

static void hostile_records_are_refused(void **state AS_UNUSED)
{
    static const char *const order =
        "parameter of a tensor: no such tensor, or not in the tensors' order";

    assert_string_equal(refused(0, 1, 2), "");
    assert_string_equal(refused(2, 0, 1), "parameter: unknown type");
    assert_string_equal(refused(2, 6, 1), "parameter: unknown type");
    assert_string_equal(refused(0, UINT16_MAX, 2), "table: cut short");
    assert_string_equal(refused(16, 3, 4), "");
    assert_string_equal(refused(16, 4, 4), order);
    assert_string_equal(refused(16, UINT32_MAX, 4), order);
    assert_string_equal(refused(20, 1, 1), "parameter of a tensor: reserved bits are set");
    assert_string_equal(refused(24, 0xff, 1), "parameter: name or text is not UTF-8");
}

static void what_is_written_is_in_order(void **state AS_UNUSED)
{
    struct as_tensor_param p[2] = {expected[1], expected[0]};
    const struct as_tensor_params two = {p, 2}, one = {p, 1};

    assert_false(as_tensor_params_ordered(&two, 4));
    assert_true(as_tensor_params_ordered(&one, 2));
    assert_false(as_tensor_params_ordered(&one, 1));
    p[0].param.type = AS_PARAM_UINT64 + 1;
    assert_false(as_tensor_params_ordered(&one, 2));
}

/* Counted together with those of the message. */
static void the_number_of_parameters_is_limited(void **state AS_UNUSED)
{
    struct as_tensor_param *many = calloc(AS_FRAME_PARAMS, sizeof(*many));
    struct as_frame_msg with = fixed;
    struct as_outq q;

    for (uint32_t i = 0; i < AS_FRAME_PARAMS; i++)
        many[i].param.type = AS_PARAM_INT64;
    as_outq_init(&q);
    with.tensor_params = (struct as_tensor_params){many, AS_FRAME_PARAMS - whole.n_params};
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_OPEN, 1, &with, &whole, NULL), 0);
    with.tensor_params.n++;
    assert_int_equal(as_frame_put_msg(&q, AS_FRAME_OPEN, 1, &with, &whole, NULL), AS_ETOOBIG);
    as_outq_fini(&q);
    free(many);
}

/* --- protobuf --- */

/* The same bytes parsed as a response and as a request: their tensors have the same fields. */
static void protobuf_has_parameters_of_tensors(void **state AS_UNUSED)
{
    struct as_oip_response r = {.model = AS_STR("m"),
                                .outputs = tensors,
                                .n_outputs = 4,
                                .tensor_params = {expected, AS_COUNT(expected)}},
                           back;
    uint64_t n = as_oip_response_len(&r);
    uint8_t *p = malloc(n);
    struct as_arena a;
    char why[128] = "";

    as_oip_put_response(p, &r);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_oip_parse_response(p, n, &a, &back, why, sizeof(why)), 0);
    assert_expected_params(&back.tensor_params);
    as_arena_fini(&a);
    free(p);
}

static struct as_buf entry(const char *key, uint64_t v)
{
    struct as_buf b = {0}, value = {0};

    pb_text(&b, 1, key);
    pb_number(&value, 2, v);
    pb_nest(&b, 2, value);
    return b;
}

static int parse(struct as_buf *b, struct as_arena *a, struct as_oip_infer *r, char *why)
{
    strcpy(why, "");
    return as_oip_parse_infer((const uint8_t *)b->p, b->n, a, r, why, 128);
}

/* Of duplicates within a tensor the last counts, as in a map; those that the server uses are not
 * among them. */
static void parameters_of_inputs(void **state AS_UNUSED)
{
    static const char *const keys[] = {"k", "binary_data_size",    "classification", "l",
                                       "k", "shared_memory_offset"};
    struct as_buf b = {0}, input;
    struct as_oip_infer r;
    struct as_arena a;
    char why[128];

    for (int t = 0; t < 2; t++) {
        input = (struct as_buf){0};
        for (uint64_t i = 0; i < 5; i++)
            pb_nest(&input, 4, entry(keys[i], i));
        pb_text(&input, 1, t ? "b" : "a");
        pb_text(&input, 2, "BYTES");
        pb_packed(&input, 3, none, 1);
        pb_nest(&b, 5, input);
    }
    as_arena_init(&a, NULL, 0);
    assert_int_equal(parse(&b, &a, &r, why), 0);
    assert_int_equal(r.tensor_params.n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(r.tensor_params.at[i].tensor, i / 2);
        assert_str(r.tensor_params.at[i].param.name, i % 2 ? "k" : "l");
        assert_int_equal(r.tensor_params.at[i].param.i64, i % 2 ? 4 : 3);
    }
    as_arena_fini(&a);
    as_buf_fini(&b);
}

static int with_many(uint32_t of_request, uint32_t of_input, size_t name, char *why)
{
    struct as_buf b = {0}, input = {0};
    struct as_oip_infer r;
    struct as_arena a;
    char *key = calloc(1, AS_MAX(name, (size_t)16) + 1);
    int err;

    for (uint32_t i = 0; i < of_request + of_input; i++) {
        snprintf(key, 16, "%u", i);
        if (name)
            memset(key, 'n', name);
        pb_nest(i < of_request ? &b : &input, 4, entry(key, i));
    }
    pb_text(&input, 1, "a");
    pb_text(&input, 2, "BYTES");
    pb_packed(&input, 3, none, 1);
    pb_nest(&b, 5, input);
    as_arena_init(&a, NULL, 0);
    err = parse(&b, &a, &r, why);
    as_arena_fini(&a);
    as_buf_fini(&b);
    free(key);
    return err;
}

static void parameter_sizes_are_limited(void **state AS_UNUSED)
{
    char why[128];

    assert_int_equal(with_many(24, AS_OIP_PARAMS_MAX - 24, 0, why), 0);
    assert_int_equal(with_many(25, AS_OIP_PARAMS_MAX - 24, 0, why), AS_EINVALID);
    assert_string_equal(why, "parameters: more than 1024 entries, those of inputs included");
    assert_int_equal(with_many(AS_OIP_PARAMS_MAX, 1, 0, why), AS_EINVALID);
    /* the limits of a record on the link; also for the request's own parameters */
    assert_int_equal(with_many(0, 1, UINT16_MAX, why), 0);
    assert_int_equal(with_many(0, 1, UINT16_MAX + 1, why), AS_EINVALID);
    assert_int_equal(with_many(1, 0, UINT16_MAX, why), 0);
    assert_int_equal(with_many(1, 0, UINT16_MAX + 1, why), AS_EINVALID);
    assert_non_null(strstr(why, "the name is too long"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_survive_the_link),
        cmocka_unit_test(hostile_records_are_refused),
        cmocka_unit_test(what_is_written_is_in_order),
        cmocka_unit_test(the_number_of_parameters_is_limited),
        cmocka_unit_test(protobuf_has_parameters_of_tensors),
        cmocka_unit_test(parameters_of_inputs),
        cmocka_unit_test(parameter_sizes_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
