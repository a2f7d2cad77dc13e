/* Specification of wire/oip/oip: how a ModelInferRequest is parsed, and every way to refuse one. */
#include "oip_case.h"

static void a_whole_request(void **state AS_UNUSED)
{
    struct as_buf b = {0}, out = {0};

    pb_bytes(&b, RAW, data, 16); /* fields may come in any order */
    pb_text(&b, MODEL, "wrong");
    pb_text(&b, MODEL, "model");
    pb_text(&b, VERSION, "3");
    pb_text(&b, ID, "id-\xc3\xa9");
    pb_nest(&b, INPUTS, input("a", "FP32", by_two, 2));
    pb_nest(&b, INPUTS, input("b", "BOOL", NULL, 0));
    pb_bytes(&b, RAW, data, 1);
    pb_number(&b, 99, 5); /* unknown: skipped */
    pb_text(&b, 100, "unknown");
    as_buf_add(&b, "\x9b\x06\x08\x05\x9c\x06", 6); /* a group */
    pb_text(&out, 1, "x");
    pb_nest(&b, OUTPUTS, out);
    assert_int_equal(parse(&b), 0);
    assert_text(got.r.model, "model");
    assert_text(got.r.version, "3");
    assert_text(got.r.id, "id-\xc3\xa9");
    assert_int_equal(got.r.n_inputs, 2);
    assert_text(got.r.inputs[0].name, "a");
    assert_int_equal(got.r.inputs[0].dtype, AS_DT_FP32);
    assert_int_equal(got.r.inputs[0].ndim, 2);
    assert_memory_equal(got.r.inputs[0].shape, by_two, sizeof(by_two));
    assert_int_equal(got.r.inputs[0].nbytes, 16);
    assert_ptr_equal(got.r.inputs[0].data, got.bytes + 2); /* in place in the message */
    assert_int_equal(got.r.inputs[1].dtype, AS_DT_BOOL);
    assert_int_equal(got.r.inputs[1].ndim, 0);
    assert_int_equal(got.r.inputs[1].nbytes, 1);
    assert_int_equal(got.r.n_outputs, 1);
    assert_text(got.r.outputs[0].name, "x");
    assert_int_equal(got.r.n_params, 0);
    assert_int_equal(got.r.typed, 0);
}

static void an_empty_message_is_an_empty_request(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    assert_int_equal(as_oip_parse_infer(NULL, 0, &got.arena, &got.r, got.why, sizeof(got.why)), 0);
    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.model.n, 0);
    assert_int_equal(got.r.n_inputs, 0);
}

static void shapes_may_be_packed_or_not(void **state AS_UNUSED)
{
    struct as_buf b = request(), in = {0};

    pb_number(&in, 3, 2);
    pb_packed(&in, 3, by_two, 2);
    pb_packed(&in, 3, NULL, 0);
    pb_number(&in, 3, 1);
    pb_text(&in, 2, "UINT8");
    pb_text(&in, 1, "a");
    pb_nest(&b, INPUTS, in);
    pb_bytes(&b, RAW, data, 8);
    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.inputs[0].ndim, 4);
    assert_int_equal(got.r.inputs[0].shape[3], 1);
}

static void every_datatype_as_raw(void **state AS_UNUSED)
{
    for (unsigned t = AS_DT_BOOL; t < AS_DT_COUNT; t++) {
        size_t size = as_dtype_size((enum as_dtype)t);
        struct as_buf b;

        if (t == AS_DT_BYTES)
            continue;
        b = raw(as_dtype_name((enum as_dtype)t), three, 1, data, 3 * size);
        assert_int_equal(parse(&b), 0);
        assert_int_equal(got.r.inputs[0].dtype, t);
        b = raw(as_dtype_name((enum as_dtype)t), three, 1, data, 3 * size - 1);
        assert_int_equal(parse(&b), AS_EINVALID);
        b = raw(as_dtype_name((enum as_dtype)t), three, 1, data, 3 * size + 1);
        assert_int_equal(parse(&b), AS_EINVALID);
        b = raw(as_dtype_name((enum as_dtype)t), zero, 1, data, 0);
        assert_int_equal(parse(&b), 0);
    }
}

static void raw_sizes_that_do_not_fit(void **state AS_UNUSED)
{
    static const int64_t negative[] = {2, -1}, huge[] = {16, ((int64_t)1 << 60) + 2};
    static const int64_t many[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                   1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    struct as_buf b = raw("FP32", by_two, 2, data, 12);

    REFUSED(&b, AS_EINVALID, "input 'a': 12 bytes of raw data, shape [2,2] of FP32 needs 16");
    b = raw("FP64", NULL, 0, data, 4);
    REFUSED(&b, AS_EINVALID, "input 'a': 4 bytes of raw data, shape [] of FP64 needs 8");
    b = raw("FP32", negative, 2, data, 0);
    REFUSED(&b, AS_EINVALID, "input 'a': shape [2,-1] has a negative size");
    b = raw("FP32", huge, 2, data, 0);
    REFUSED(&b, AS_EINVALID, "input 'a': shape [16,1152921504606846978] of FP32 is too large");
    b = raw("UINT8", many, AS_MAX_DIMS, data, 1);
    assert_int_equal(parse(&b), 0);
    b = raw("UINT8", many, AS_MAX_DIMS + 1, data, 1);
    REFUSED(&b, AS_EINVALID, "input 'a': more than 32 dimensions");
    b = raw("FP31", one, 1, data, 4);
    REFUSED(&b, AS_EINVALID, "input 'a': unknown datatype 'FP31'");
    b = raw("", one, 1, data, 4);
    REFUSED(&b, AS_EINVALID, "input 'a': unknown datatype ''");
    b = raw("fp32", one, 1, data, 4);
    REFUSED(&b, AS_EINVALID, "input 'a': unknown datatype 'fp32'");
}

static void a_long_shape_is_cut_in_the_text(void **state AS_UNUSED)
{
    int64_t shape[AS_MAX_DIMS];
    struct as_buf b;

    for (int i = 0; i < AS_MAX_DIMS; i++)
        shape[i] = INT64_MAX;
    b = raw("FP32", shape, AS_MAX_DIMS, data, 0);
    REFUSED(&b, AS_EINVALID,
            "input 'a': shape [9223372036854775807,9223372036854775807,9223372036854775807,"
            "9223372036854775807,9223372036854775807,9223372036854775807,…] of FP32 is too large");
}

static void raw_bytes_elements(void **state AS_UNUSED)
{
    static const char good[] = "\2\0\0\0ab\0\0\0\0";
    struct as_buf b = raw("BYTES", two, 1, good, 10);

    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.inputs[0].nbytes, 10);
    for (size_t n = 0; n < 10; n++) {
        b = raw("BYTES", two, 1, good, n);
        assert_int_equal(parse(&b), AS_EINVALID);
    }
    b = raw("BYTES", one, 1, good, 10);
    REFUSED(&b, AS_EINVALID,
            "input 'a': 10 bytes of raw data are not the 1 BYTES elements of shape [1]");
    b = raw("BYTES", one, 1, "\xff\xff\xff\xff", 4);
    assert_int_equal(parse(&b), AS_EINVALID);
    b = raw("BYTES", zero, 1, "", 0);
    assert_int_equal(parse(&b), 0);
}

static void there_is_one_raw_entry_per_input(void **state AS_UNUSED)
{
    struct as_buf b = raw("UINT8", one, 1, data, 1);

    pb_bytes(&b, RAW, data, 1);
    REFUSED(&b, AS_EINVALID, "raw_input_contents: 2 entries for 1 inputs");
    b = request();
    pb_bytes(&b, RAW, data, 1);
    REFUSED(&b, AS_EINVALID, "raw_input_contents: 1 entries for 0 inputs");
}

static void raw_and_typed_are_not_mixed(void **state AS_UNUSED)
{
    struct as_buf b = typed("INT64", one, 1, numbers(3, one, 1));

    pb_bytes(&b, RAW, data, 8);
    REFUSED(&b, AS_EINVALID, "input 'a': contents and raw_input_contents must not be mixed");
    b = typed("INT64", one, 1, numbers(3, NULL, 0)); /* no elements: as if absent */
    pb_bytes(&b, RAW, data, 8);
    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.inputs[0].nbytes, 8);
    b = typed("INT64", one, 1, (struct as_buf){0});
    pb_bytes(&b, RAW, data, 8);
    assert_int_equal(parse(&b), 0);
}

static void names_are_required_and_unique(void **state AS_UNUSED)
{
    char *longest = calloc(1, 65537);
    struct as_buf b = raw("UINT8", one, 1, data, 1);

    pb_nest(&b, INPUTS, input("a", "UINT8", one, 1));
    pb_bytes(&b, RAW, data, 1);
    REFUSED(&b, AS_EINVALID, "input 'a' is given twice");
    b = request();
    pb_nest(&b, INPUTS, input("", "UINT8", one, 1));
    pb_bytes(&b, RAW, data, 1);
    REFUSED(&b, AS_EINVALID, "inputs[0] has no name");
    b = request();
    pb_nest(&b, INPUTS, input("\xff", "UINT8", one, 1));
    pb_bytes(&b, RAW, data, 1);
    REFUSED(&b, AS_EINVALID, "an input's name is not valid UTF-8");
    memset(longest, 'n', 65536);
    b = request();
    pb_nest(&b, INPUTS, input(longest, "UINT8", one, 1));
    pb_bytes(&b, RAW, data, 1);
    assert_int_equal(parse(&b), AS_EINVALID);
    assert_non_null(strstr(got.why, "nnn': the name is longer than 65535 bytes"));
    assert_true(strlen(got.why) < 128); /* a text repeats only the start of a name */
    longest[65535] = 0;
    b = request();
    pb_nest(&b, INPUTS, input(longest, "UINT8", one, 1));
    pb_bytes(&b, RAW, data, 1);
    assert_int_equal(parse(&b), 0);
    free(longest);
}

static void text_fields_are_utf8(void **state AS_UNUSED)
{
    static const char *const field[] = {"model_name", "model_version", "id"};

    for (unsigned i = 0; i < 3; i++) {
        struct as_buf b = {0};
        char want[64];

        pb_text(&b, i + 1, "\xc3");
        snprintf(want, sizeof(want), "%s is not valid UTF-8", field[i]);
        REFUSED(&b, AS_EINVALID, want);
    }
}

/* A map entry with this value, whose buffer it frees. */
static struct as_buf entry(const char *key, struct as_buf value)
{
    struct as_buf b = {0};

    pb_text(&b, 1, key);
    pb_nest(&b, 2, value);
    return b;
}

static struct as_buf number(unsigned field, uint64_t v)
{
    struct as_buf b = {0};

    pb_number(&b, field, v);
    return b;
}

static void parameters_of_every_type(void **state AS_UNUSED)
{
    struct as_buf b = request(), v = {0};

    pb_nest(&b, PARAMS, entry("b", number(1, 1)));
    pb_nest(&b, PARAMS, entry("i", number(2, (uint64_t)-3)));
    pb_text(&v, 3, "text");
    pb_nest(&b, PARAMS, entry("s", v));
    v = (struct as_buf){0};
    as_buf_add(&v, "\x21\0\0\0\0\0\0\xe0\x3f", 9);
    pb_nest(&b, PARAMS, entry("d", v));
    pb_nest(&b, PARAMS, entry("u", number(5, UINT64_MAX)));
    pb_nest(&b, PARAMS, entry("", number(1, 0)));
    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.n_params, 6);
    assert_int_equal(got.r.params[0].type, AS_PARAM_BOOL);
    assert_true(got.r.params[0].b);
    assert_int_equal(got.r.params[1].type, AS_PARAM_INT64);
    assert_true(got.r.params[1].i64 == -3);
    assert_int_equal(got.r.params[2].type, AS_PARAM_STRING);
    assert_text(got.r.params[2].str, "text");
    assert_int_equal(got.r.params[3].type, AS_PARAM_DOUBLE);
    assert_true(got.r.params[3].f64 == 0.5);
    assert_int_equal(got.r.params[4].type, AS_PARAM_UINT64);
    assert_true(got.r.params[4].u64 == UINT64_MAX);
    assert_text(got.r.params[5].name, "");
    assert_false(got.r.params[5].b);
}

static void the_last_parameter_and_the_last_value_win(void **state AS_UNUSED)
{
    struct as_buf b = request(), v = {0}, e = {0};

    pb_nest(&b, PARAMS, entry("k", number(2, 1)));
    pb_nest(&b, PARAMS, entry("other", number(2, 2)));
    pb_text(&v, 3, "x"); /* a oneof: the later member wins */
    pb_number(&v, 2, 9);
    pb_nest(&e, 2, v); /* the value before the key */
    pb_text(&e, 1, "wrong");
    pb_text(&e, 1, "k");
    pb_nest(&b, PARAMS, e);
    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.n_params, 2);
    assert_text(got.r.params[0].name, "other");
    assert_text(got.r.params[1].name, "k");
    assert_int_equal(got.r.params[1].type, AS_PARAM_INT64);
    assert_int_equal(got.r.params[1].i64, 9);
}

static void malformed_parameters_are_refused(void **state AS_UNUSED)
{
    struct as_buf b = request(), e = {0}, v = {0};

    pb_nest(&b, PARAMS, entry("k", (struct as_buf){0}));
    REFUSED(&b, AS_EINVALID, "parameter 'k' has no value");
    b = request();
    pb_text(&e, 1, "k");
    pb_nest(&b, PARAMS, e);
    REFUSED(&b, AS_EINVALID, "parameter 'k' has no value");
    b = request();
    pb_nest(&b, PARAMS, entry("k", number(9, 1))); /* an unknown type */
    REFUSED(&b, AS_EINVALID, "parameter 'k' has no value");
    b = request();
    pb_nest(&b, PARAMS, entry("k", number(3, 1)));
    REFUSED(&b, AS_EPROTO, "parameter 'k': wrong wire type 0");
    b = request();
    pb_nest(&b, PARAMS, entry("\xff", number(1, 1)));
    REFUSED(&b, AS_EINVALID, "a parameter's key is not valid UTF-8");
    b = request();
    pb_text(&v, 3, "\xff");
    pb_nest(&b, PARAMS, entry("k", v));
    REFUSED(&b, AS_EINVALID, "parameter 'k': string_param is not UTF-8");
    b = request();
    v = (struct as_buf){0};
    as_buf_add(&v, "\x08", 1);
    pb_nest(&b, PARAMS, entry("k", v));
    REFUSED(&b, AS_EPROTO, "parameter 'k': malformed value");
    b = request();
    e = (struct as_buf){0};
    as_buf_add(&e, "\x0a\x09", 2);
    pb_nest(&b, PARAMS, e);
    REFUSED(&b, AS_EPROTO, "parameters: malformed entry");
    b = request();
    e = (struct as_buf){0};
    pb_number(&e, 2, 1);
    pb_nest(&b, PARAMS, e);
    REFUSED(&b, AS_EPROTO, "parameters: wrong wire type 0");
    b = request();
    e = (struct as_buf){0};
    pb_number(&e, 1, 1);
    pb_nest(&b, PARAMS, e);
    REFUSED(&b, AS_EPROTO, "a parameter's key: wrong wire type 0");
}

static void parameters_of_a_tensor(void **state AS_UNUSED)
{
    struct as_buf b = request(), in = input("a", "UINT8", one, 1), out = {0};

    pb_nest(&in, 4, entry("hint", number(2, 200))); /* skipped */
    pb_nest(&b, INPUTS, in);
    pb_bytes(&b, RAW, data, 1);
    pb_text(&out, 1, "o");
    pb_nest(&out, 2, entry("hint", number(2, 200)));
    pb_nest(&b, OUTPUTS, out);
    assert_int_equal(parse(&b), 0);
    b = request();
    in = input("a", "UINT8", one, 1);
    pb_nest(&in, 4, entry("shared_memory_region", number(2, 1)));
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EINVALID, "input 'a': parameter 'shared_memory_region' must be a region's name");
    b = request();
    out = (struct as_buf){0};
    pb_text(&out, 1, "o");
    pb_nest(&out, 2, entry("classification", number(2, UINT64_MAX)));
    pb_nest(&b, OUTPUTS, out);
    REFUSED(&b, AS_EINVALID, "output 'o': parameter 'classification' must be an integer >= 0");
    b = request();
    in = input("a", "UINT8", one, 1);
    pb_number(&in, 4, 1);
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EPROTO, "input parameters: wrong wire type 0");
}

static void requested_outputs(void **state AS_UNUSED)
{
    struct as_buf b = request(), o = {0};

    for (int i = 0; i < 3; i++) {
        pb_text(&o, 1, i == 1 ? "y" : "x");
        pb_nest(&b, OUTPUTS, o);
        o = (struct as_buf){0};
    }
    assert_int_equal(parse(&b), 0); /* an output requested twice is requested once */
    assert_int_equal(got.r.n_outputs, 2);
    b = request();
    pb_nest(&b, OUTPUTS, (struct as_buf){0});
    REFUSED(&b, AS_EINVALID, "outputs[0] has no name");
    b = request();
    pb_text(&o, 1, "\x80");
    pb_nest(&b, OUTPUTS, o);
    REFUSED(&b, AS_EINVALID, "an output's name is not valid UTF-8");
    b = request();
    o = (struct as_buf){0};
    as_buf_add(&o, "\x0a", 1);
    pb_nest(&b, OUTPUTS, o);
    REFUSED(&b, AS_EPROTO, "outputs[0]: malformed protobuf");
}

static void wrong_wire_types(void **state AS_UNUSED)
{
    static const char *const field[] = {"model_name",        "model_version", "id",
                                        "parameters",        "inputs",        "outputs",
                                        "raw_input_contents"};
    struct as_buf b, in;

    for (unsigned i = 0; i < AS_COUNT(field); i++) {
        char want[64];

        b = (struct as_buf){0};
        pb_number(&b, i + 1, 1);
        snprintf(want, sizeof(want), "%s: wrong wire type 0", field[i]);
        REFUSED(&b, AS_EPROTO, want);
    }
    b = request();
    in = (struct as_buf){0};
    pb_number(&in, 1, 1);
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EPROTO, "an input's name: wrong wire type 0");
    b = request();
    in = (struct as_buf){0};
    pb_text(&in, 1, "a");
    pb_number(&in, 2, 1);
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EPROTO, "input 'a': datatype: wrong wire type 0");
    b = request();
    in = (struct as_buf){0};
    pb_text(&in, 1, "a");
    as_buf_add(&in, "\x1d\0\0\0\0", 5);
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EPROTO, "input 'a': shape: wrong wire type 5");
    b = request();
    in = (struct as_buf){0};
    pb_text(&in, 1, "a");
    pb_bytes(&in, 3, "\x80", 1);
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EPROTO, "input 'a': shape: malformed number");
    b = request();
    in = (struct as_buf){0};
    as_buf_add(&in, "\x0b\x0c", 2); /* a group */
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EPROTO, "an input's name: wrong wire type 3");
    b = request();
    in = (struct as_buf){0};
    as_buf_add(&in, "\x0b", 1); /* without its end */
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EPROTO, "inputs[0]: malformed protobuf");
    b = request();
    as_buf_add(&b, "\x0b", 1);
    REFUSED(&b, AS_EPROTO, "malformed protobuf");
}

static void counts_have_limits(void **state AS_UNUSED)
{
    static const struct {
        unsigned field, limit;
        const char *why;
    } rows[] = {{INPUTS, AS_OIP_TENSORS_MAX, "inputs: more than 4096 entries"},
                {OUTPUTS, AS_OIP_TENSORS_MAX, "outputs: more than 4096 entries"},
                {PARAMS, AS_OIP_PARAMS_MAX, "parameters: more than 1024 entries"}};

    for (size_t k = 0; k < AS_COUNT(rows); k++) {
        for (unsigned n = rows[k].limit; n <= rows[k].limit + 1; n++) {
            struct as_buf b = request();

            for (unsigned i = 0; i < n; i++) {
                char name[16];
                struct as_buf o = {0};

                snprintf(name, sizeof(name), "%u", i);
                if (rows[k].field == INPUTS)
                    o = input(name, "INT8", zero, 1);
                else if (rows[k].field == PARAMS)
                    o = entry(name, number(1, 1));
                else
                    pb_text(&o, 1, name);
                pb_nest(&b, rows[k].field, o);
            }
            if (n > rows[k].limit)
                REFUSED(&b, AS_EINVALID, rows[k].why);
            else
                assert_int_equal(parse(&b), 0);
        }
    }
}

static void names_and_parameters_have_a_limit_together(void **state AS_UNUSED)
{
    char *text = calloc(1, AS_OIP_TABLE_MAX + 1);
    struct as_buf b = {0};

    memset(text, 'i', AS_OIP_TABLE_MAX);
    pb_text(&b, ID, text);
    assert_int_equal(parse(&b), 0);
    pb_text(&b, ID, text);
    pb_nest(&b, PARAMS, entry("k", number(1, 1)));
    REFUSED(&b, AS_EINVALID,
            "id, names, shapes and parameters take 262175 bytes, the limit is 262144");
    free(text);
}

static void a_truncated_request_is_refused(void **state AS_UNUSED)
{
    struct as_buf b = raw("FP32", by_two, 2, data, 16);
    unsigned ok = 0;

    pb_nest(&b, PARAMS, entry("k", number(1, 1)));
    for (size_t n = 0; n < b.n; n++) {
        struct as_buf cut = {0};

        as_buf_add(&cut, b.p, n);
        ok += parse(&cut) == 0;
    }
    assert_int_equal(ok, 3); /* nothing, only the model name, all without the parameter */
    as_buf_fini(&b);
}

static void an_error_is_cut_to_its_buffer(void **state AS_UNUSED)
{
    struct as_buf b = {0};
    struct as_arena a;
    char why[20] = "";

    as_arena_init(&a, NULL, 0);
    pb_nest(&b, OUTPUTS, (struct as_buf){0});
    assert_int_equal(as_oip_parse_infer(b.p, b.n, &a, &got.r, why, 8), AS_EINVALID);
    assert_string_equal(why, "outputs");
    assert_int_equal(as_oip_parse_infer(b.p, b.n, &a, &got.r, NULL, 0), AS_EINVALID);
    as_buf_fini(&b);
    b = raw("FP32", by_two, 2, data, 12);
    assert_int_equal(as_oip_parse_infer(b.p, b.n, &a, &got.r, why, 8), AS_EINVALID);
    assert_string_equal(why, "input '");
    as_arena_fini(&a);
    as_buf_fini(&b);
}

static void name_and_version_are_parsed(void **state AS_UNUSED)
{
    struct as_str name, version;
    struct as_buf b = {0};

    assert_int_equal(as_oip_parse_name_version(NULL, 0, &name, &version), 0);
    assert_int_equal(name.n, 0);
    pb_text(&b, 2, "7");
    pb_text(&b, 1, "model");
    pb_number(&b, 3, 1);
    assert_int_equal(as_oip_parse_name_version(b.p, b.n, &name, &version), 0);
    assert_text(name, "model");
    assert_text(version, "7");
    assert_int_equal(as_oip_parse_name_version(b.p, 2, &name, &version), AS_EPROTO);
    as_buf_fini(&b);
    pb_number(&b, 1, 1);
    assert_int_equal(as_oip_parse_name_version(b.p, b.n, &name, &version), AS_EPROTO);
    as_buf_fini(&b);
    pb_text(&b, 1, "\xff");
    assert_int_equal(as_oip_parse_name_version(b.p, b.n, &name, &version), AS_EPROTO);
    as_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_request),
        cmocka_unit_test(an_empty_message_is_an_empty_request),
        cmocka_unit_test(shapes_may_be_packed_or_not),
        cmocka_unit_test(every_datatype_as_raw),
        cmocka_unit_test(raw_sizes_that_do_not_fit),
        cmocka_unit_test(a_long_shape_is_cut_in_the_text),
        cmocka_unit_test(raw_bytes_elements),
        cmocka_unit_test(there_is_one_raw_entry_per_input),
        cmocka_unit_test(raw_and_typed_are_not_mixed),
        cmocka_unit_test(names_are_required_and_unique),
        cmocka_unit_test(text_fields_are_utf8),
        cmocka_unit_test(parameters_of_every_type),
        cmocka_unit_test(the_last_parameter_and_the_last_value_win),
        cmocka_unit_test(malformed_parameters_are_refused),
        cmocka_unit_test(parameters_of_a_tensor),
        cmocka_unit_test(requested_outputs),
        cmocka_unit_test(wrong_wire_types),
        cmocka_unit_test(counts_have_limits),
        cmocka_unit_test(names_and_parameters_have_a_limit_together),
        cmocka_unit_test(a_truncated_request_is_refused),
        cmocka_unit_test(an_error_is_cut_to_its_buffer),
        cmocka_unit_test(name_and_version_are_parsed),
    };

    return cmocka_run_group_tests_name("oip", tests, NULL, clean);
}
