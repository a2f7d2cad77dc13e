/* Specification of wire/oip/oip: parameters of tensors that the server uses itself: shared memory
 * and classification. */
#include "oip_case.h"

static struct as_buf number(unsigned field, uint64_t v)
{
    struct as_buf b = {0};

    pb_number(&b, field, v);
    return b;
}

static struct as_buf text(const char *z)
{
    struct as_buf b = {0};

    pb_text(&b, 3, z);
    return b;
}

/* Adds an entry to the parameters in `field` of the message; frees the value's buffer. */
static void parameter(struct as_buf *b, unsigned field, const char *key, struct as_buf value)
{
    struct as_buf entry = {0};

    pb_text(&entry, 1, key);
    pb_nest(&entry, 2, value);
    pb_nest(b, field, entry);
}

static void range(struct as_buf *b, unsigned field, const char *region, uint64_t offset,
                  uint64_t size)
{
    parameter(b, field, "shared_memory_byte_size", number(2, size));
    parameter(b, field, "shared_memory_region", text(region));
    if (offset)
        parameter(b, field, "shared_memory_offset", number(2, offset));
}

static void an_input_in_shared_memory(void **state AS_UNUSED)
{
    struct as_buf b = request(), in = input("a", "INT32", by_two, 2);

    range(&in, 4, "r", 64, 16);
    pb_nest(&b, INPUTS, in);
    assert_int_equal(parse(&b), 0);
    assert_non_null(got.r.ranges);
    assert_text(got.r.ranges[0].region, "r");
    assert_int_equal(got.r.ranges[0].offset, 64);
    assert_null(got.r.inputs[0].data);
    assert_int_equal(got.r.inputs[0].nbytes, 16);
    b = raw("UINT8", one, 1, data, 1);
    assert_int_equal(parse(&b), 0);
    assert_null(got.r.ranges);
    assert_false(got.r.has_output_range || got.r.has_classification);
}

/* Raw entries belong to the other inputs, wherever they are in the message. */
static void raw_contents_belong_to_the_other_inputs(void **state AS_UNUSED)
{
    for (int first = 0; first < 2; first++) {
        struct as_buf b = request(), in;

        for (int i = 0; first && i < 2; i++)
            pb_bytes(&b, RAW, data + i, (size_t)i + 1);
        in = input("a", "UINT8", one, 1);
        range(&in, 4, "r", 0, 1);
        pb_nest(&b, INPUTS, in);
        pb_nest(&b, INPUTS, input("b", "UINT8", one, 1));
        in = input("c", "BYTES", three, 1);
        range(&in, 4, "s", 0, 40);
        pb_nest(&b, INPUTS, in);
        pb_nest(&b, INPUTS, input("d", "UINT8", two, 1));
        for (int i = 0; !first && i < 2; i++)
            pb_bytes(&b, RAW, data + i, (size_t)i + 1);
        assert_int_equal(parse(&b), 0);
        assert_true(got.r.n_inputs == 4 && !got.r.ranges[1].region.n && !got.r.ranges[3].region.n);
        assert_true(!got.r.inputs[0].data && got.r.inputs[0].nbytes == 1);
        assert_true(!got.r.inputs[2].data && got.r.inputs[2].nbytes == 40);
        assert_true(got.r.inputs[1].nbytes == 1 && got.r.inputs[1].data[0] == 1);
        assert_true(got.r.inputs[3].nbytes == 2 && got.r.inputs[3].data[0] == 2);
    }
}

static void typed_contents_of_the_other_inputs(void **state AS_UNUSED)
{
    struct as_buf b = request(), in = input("a", "UINT8", one, 1);

    range(&in, 4, "r", 0, 1);
    pb_nest(&b, INPUTS, in);
    in = input("b", "INT32", two, 1);
    pb_nest(&in, 5, numbers(2, (int64_t[]){5, 6}, 2));
    pb_nest(&b, INPUTS, in);
    assert_int_equal(parse(&b), 0);
    assert_true(got.r.ranges[0].region.n && got.r.inputs[1].nbytes == 8);
    assert_memory_equal(got.r.inputs[1].data, ((int32_t[]){5, 6}), 8);
}

static void too_many_and_too_few_raw_contents(void **state AS_UNUSED)
{
    struct as_buf b = request(), in = input("a", "UINT8", one, 1);

    range(&in, 4, "r", 0, 1);
    pb_nest(&b, INPUTS, in);
    pb_bytes(&b, RAW, data, 1);
    REFUSED(&b, AS_EINVALID, "raw_input_contents: 1 entries for 0 inputs");
    b = request();
    in = input("a", "UINT8", one, 1);
    range(&in, 4, "r", 0, 1);
    pb_nest(&b, INPUTS, in);
    pb_nest(&b, INPUTS, input("b", "UINT8", one, 1));
    pb_nest(&b, INPUTS, input("c", "UINT8", one, 1));
    pb_bytes(&b, RAW, data, 1);
    REFUSED(&b, AS_EINVALID, "raw_input_contents: 1 entries for 2 inputs");
}

static struct as_buf parameters_with(const char *key, struct as_buf value)
{
    struct as_buf b = request(), in = input("a", "UINT8", two, 1);

    parameter(&in, 4, key, value);
    pb_nest(&b, INPUTS, in);
    return b;
}

static void malformed_ranges_are_refused(void **state AS_UNUSED)
{
    struct as_buf b = parameters_with("shared_memory_region", text("r")), in;

    REFUSED(&b, AS_EINVALID, "input 'a': shared_memory_region without shared_memory_byte_size");
    b = parameters_with("shared_memory_offset", number(2, 0));
    REFUSED(
        &b, AS_EINVALID,
        "input 'a': shared_memory_offset or shared_memory_byte_size without shared_memory_region");
    b = parameters_with("shared_memory_region", text(""));
    REFUSED(&b, AS_EINVALID, "input 'a': parameter 'shared_memory_region' must be a region's name");
    b = parameters_with("shared_memory_byte_size", number(2, (uint64_t)-1));
    REFUSED(&b, AS_EINVALID,
            "input 'a': parameter 'shared_memory_byte_size' must be an integer >= 0");
    b = parameters_with("shared_memory_offset", text("0"));
    REFUSED(&b, AS_EINVALID, "input 'a': parameter 'shared_memory_offset' must be an integer >= 0");
    b = request();
    in = input("a", "UINT8", two, 1);
    range(&in, 4, "r", 0, 3);
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EINVALID, "input 'a': 3 bytes of shared memory, shape [2] of UINT8 needs 2");
    b = request();
    in = input("a", "UINT8", two, 1);
    range(&in, 4, "r", 0, 2);
    pb_nest(&in, 5, numbers(4, (int64_t[]){1, 2}, 2));
    pb_nest(&b, INPUTS, in);
    REFUSED(&b, AS_EINVALID, "input 'a': contents and shared_memory_region must not be mixed");
}

static struct as_buf output(void)
{
    struct as_buf b = {0};

    pb_text(&b, 1, "o");
    return b;
}

static void an_output_in_shared_memory(void **state AS_UNUSED)
{
    struct as_buf b = request(), out = output();

    range(&out, 2, "r", 8, 100);
    pb_nest(&b, OUTPUTS, out);
    assert_int_equal(parse(&b), 0);
    assert_true(got.r.has_output_range && !got.r.has_classification);
    assert_text(got.r.outputs[0].range.region, "r");
    assert_true(got.r.outputs[0].range.offset == 8 && got.r.outputs[0].range.size == 100);
}

static void an_output_is_classified(void **state AS_UNUSED)
{
    struct as_buf b = request(), out = output(), plain = {0};

    parameter(&out, 2, "classification", number(2, 3));
    pb_nest(&b, OUTPUTS, out);
    pb_text(&plain, 1, "plain");
    pb_nest(&b, OUTPUTS, plain);
    assert_int_equal(parse(&b), 0);
    assert_true(got.r.has_classification && !got.r.has_output_range);
    assert_true(got.r.outputs[0].classification == 3 && !got.r.outputs[1].classification);
    b = request();
    out = output();
    parameter(&out, 2, "classification", number(5, UINT64_MAX));
    pb_nest(&b, OUTPUTS, out);
    assert_int_equal(parse(&b), 0);
    assert_int_equal(got.r.outputs[0].classification, UINT32_MAX);
    b = request();
    out = output();
    parameter(&out, 2, "classification", number(2, 3));
    range(&out, 2, "r", 0, 8);
    pb_nest(&b, OUTPUTS, out);
    REFUSED(&b, AS_EINVALID,
            "output 'o': classification and shared_memory_region exclude each other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_input_in_shared_memory, clean),
        cmocka_unit_test_teardown(raw_contents_belong_to_the_other_inputs, clean),
        cmocka_unit_test_teardown(typed_contents_of_the_other_inputs, clean),
        cmocka_unit_test_teardown(too_many_and_too_few_raw_contents, clean),
        cmocka_unit_test_teardown(malformed_ranges_are_refused, clean),
        cmocka_unit_test_teardown(an_output_in_shared_memory, clean),
        cmocka_unit_test_teardown(an_output_is_classified, clean),
    };

    return cmocka_run_group_tests_name("oip_param", tests, NULL, NULL);
}
