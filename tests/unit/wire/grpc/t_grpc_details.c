/* Specification of wire/grpc/grpc_details: google.rpc.Status in the trailers of an error. */
#include "wire/grpc/grpc_details.h"

#include "unit.h"
#include "wire/grpc/grpc.h"
#include "wire/protobuf/pb.h"

/* A message as text: numbers as they are, "[…]" around nested messages, quotes around strings. */
static void spell(struct as_str message, const char *nested, char *out)
{
    struct as_pb r = as_pb_of(message);
    struct as_pb_field f;
    int rc;

    while ((rc = as_pb_next(&r, &f)) == 1) {
        out += sprintf(out, "%u:", f.number);
        if (f.wire == AS_PB_VARINT) {
            out += sprintf(out, "%lu ", (unsigned long)f.v);
        } else if (*nested == (char)('0' + f.number)) {
            out += sprintf(out, "[");
            spell(f.s, nested + 1, out);
            out += strlen(out);
            out += sprintf(out, "] ");
        } else {
            out += sprintf(out, "'%.*s' ", AS_STR_FMT(f.s));
        }
    }
    assert_int_equal(rc, 0);
}

static void check(struct as_str value, const char *nested, const char *want)
{
    uint8_t raw[AS_GRPC_DETAILS_MAX];
    char text[4096];
    size_t n;

    assert_true(value.n > 0 && value.n <= AS_GRPC_DETAILS_MAX);
    assert_int_equal(as_grpc_decode_bin(value, raw, &n), 0);
    spell((struct as_str){(char *)raw, n}, nested, text);
    assert_string_equal(text, want);
}

static void retry_info(void **state AS_UNUSED)
{
    char out[AS_GRPC_DETAILS_MAX];

    check(as_grpc_details_retry(out, 8, AS_STR("full"), AS_SEC + 5), "321",
          "1:8 2:'full' 3:[1:'type.googleapis.com/google.rpc.RetryInfo' 2:[1:[1:1 2:5 ] ] ] ");
    check(as_grpc_details_retry(out, 8, AS_STR(""), 250 * AS_MS), "321",
          "1:8 3:[1:'type.googleapis.com/google.rpc.RetryInfo' 2:[1:[2:250000000 ] ] ] ");
}

static void bad_request(void **state AS_UNUSED)
{
    char out[AS_GRPC_DETAILS_MAX];

    check(as_grpc_details_violation(out, 3, AS_STR("input 'a': no data")), "321",
          "1:3 2:'input 'a': no data' 3:[1:'type.googleapis.com/google.rpc.BadRequest' "
          "2:[1:[1:'inputs.a' 2:'input 'a': no data' ] ] ] ");
    check(as_grpc_details_violation(out, 3, AS_STR("raw_input_contents: 1 entries")), "321",
          "1:3 2:'raw_input_contents: 1 entries' 3:[1:'type.googleapis.com/google.rpc.BadRequest' "
          "2:[1:[1:'raw_input_contents' 2:'raw_input_contents: 1 entries' ] ] ] ");
}

static void texts_that_name_a_field(void **state AS_UNUSED)
{
    static const struct {
        const char *text, *want;
        bool is_input;
    } rows[] = {
        {"input 'a': x", "a", true},
        {"input 'b' of model 'm' is missing", "b", true},
        {"input 'it's': x", "it's", true},
        {"input 'cut", "", true},
        {"inputs[0]: x", "inputs[0]", false},
        {"model_name: wrong wire type", "model_name", false},
        {"unknown model 'm': x", "", false},
        {"no colon", "", false},
        {"", "", false},
        {": x", "", false},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        bool is_input;
        struct as_str f = as_grpc_details_field(as_str_of(rows[i].text), &is_input);

        assert_true(as_str_eq(f, as_str_of(rows[i].want)));
        assert_int_equal(is_input, rows[i].is_input);
    }
}

static void errors_without_details(void **state AS_UNUSED)
{
    char out[AS_GRPC_DETAILS_MAX], text[AS_GRPC_DETAILS_TEXT_MAX + 2], name[200];

    assert_int_equal(as_grpc_details_violation(out, 3, AS_STR("malformed")).n, 0);
    assert_int_equal(as_grpc_details_violation(out, 3, AS_STR("input '\xff': x")).n, 0);
    assert_int_equal(as_grpc_details_retry(out, 8, AS_STR("\xff"), AS_SEC).n, 0);
    memset(text, 'x', sizeof(text));
    memcpy(text, "f: ", 3);
    assert_true(
        as_grpc_details_violation(out, 3, (struct as_str){text, AS_GRPC_DETAILS_TEXT_MAX}).n > 0);
    assert_int_equal(
        as_grpc_details_violation(out, 3, (struct as_str){text, AS_GRPC_DETAILS_TEXT_MAX + 1}).n,
        0);
    assert_true(
        as_grpc_details_retry(out, 8, (struct as_str){text, AS_GRPC_DETAILS_TEXT_MAX}, AS_SEC).n >
        0);
    assert_int_equal(
        as_grpc_details_retry(out, 8, (struct as_str){text, AS_GRPC_DETAILS_TEXT_MAX + 1}, AS_SEC)
            .n,
        0);
    memset(name, 'n', sizeof(name));
    name[160] = ':';
    name[161] = ' ';
    assert_true(as_grpc_details_violation(out, 3, (struct as_str){name, 170}).n > 0);
    name[160] = 'n';
    name[161] = ':';
    assert_int_equal(as_grpc_details_violation(out, 3, (struct as_str){name, 170}).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retry_info),
        cmocka_unit_test(bad_request),
        cmocka_unit_test(texts_that_name_a_field),
        cmocka_unit_test(errors_without_details),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
