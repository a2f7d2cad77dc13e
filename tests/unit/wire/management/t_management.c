/* Specification of wire/management/management: its messages in both forms, and the errors for
 * malformed ones. The same messages from PyPI's protobuf: tests/e2e/worker/test_management.py.
 */
#include "wire/management/management.h"

#include "base/err.h"
#include "json_case.h"
#include "protobuf.h"

static struct as_management_request asked;
static char said[256]; /* the reason */

static int parse(enum as_management_rpc rpc, struct as_buf *b)
{
    int err = as_management_parse(rpc, as_buf_slice(b), &got.arena, &asked, said, sizeof(said));

    free(got.text); /* slices point into it */
    got.text = b->p;
    *b = (struct as_buf){0};
    return err;
}

static int parse_json(enum as_management_rpc rpc, const char *z)
{
    return as_management_parse_json(rpc, keep_text(z, '}'), got.j, &got.arena, &asked, said,
                                    sizeof(said));
}

static void refused(enum as_management_rpc rpc, struct as_buf *b, const char *why)
{
    assert_int_equal(parse(rpc, b), AS_EINVALID);
    assert_string_equal(said, why);
}

static void refused_json(enum as_management_rpc rpc, const char *z, const char *why)
{
    assert_int_equal(parse_json(rpc, z), AS_EINVALID);
    assert_string_equal(said, why);
}

/* --- a whole message, twice --- */

static struct as_buf tensor(const char *name, const char *dtype, const int64_t *shape, size_t n)
{
    struct as_buf b = {0};

    pb_text(&b, 1, name);
    pb_text(&b, 2, dtype);
    if (n)
        pb_packed(&b, 3, shape, n);
    return b;
}

static void assert_whole(void)
{
    const struct as_management_request *q = &asked;

    assert_str(q->model, "m/n");
    assert_str(q->version, "2");
    assert_str(q->address, "unix:///run/w.sock");
    assert_str(q->worker, "w-1");
    assert_str(q->platform, "rust");
    assert_int_equal(q->n_inputs, 2);
    assert_str(q->inputs[0].name, "x");
    assert_int_equal(q->inputs[0].dtype, AS_DT_FP32);
    assert_int_equal(q->inputs[0].ndim, 2);
    assert_int_equal(q->inputs[0].shape[0], -1);
    assert_int_equal(q->inputs[0].shape[1], 3);
    assert_str(q->inputs[1].name, "y");
    assert_int_equal(q->inputs[1].ndim, AS_ANY_RANK);
    assert_int_equal(q->n_outputs, 1);
    assert_int_equal(q->outputs[0].dtype, AS_DT_INT64);
    assert_int_equal(q->inputs[0].n_labels, 0);
    assert_int_equal(q->outputs[0].n_labels, 3);
    assert_str(q->outputs[0].labels[0], "no");
    assert_str(q->outputs[0].labels[1], "");
    assert_str(q->outputs[0].labels[2], "\xc3\xa9");
    assert_int_equal(q->max_ongoing, 4);
    assert_int_equal(q->max_queued, -1);
    assert_true(q->idempotent);
}

static void a_registration_as_protobuf(void **state AS_UNUSED)
{
    static const int64_t shape[] = {-1, 3}, one[] = {1};
    struct as_buf b = {0}, sig = {0}, opt = {0}, z = tensor("z", "INT64", one, 1);

    pb_text(&b, 1, "m/n");
    pb_text(&b, 2, "2");
    pb_text(&b, 3, "unix:///run/w.sock");
    pb_text(&b, 4, "w-1");
    pb_text(&b, 5, "rust");
    pb_nest(&sig, 1, tensor("x", "FP32", shape, 2));
    pb_nest(&sig, 1, tensor("y", "INT64", NULL, 0));
    pb_text(&z, 4, "no");
    pb_text(&z, 4, "");
    pb_text(&z, 4, "\xc3\xa9");
    pb_nest(&sig, 2, z);
    pb_nest(&b, 6, sig);
    pb_number(&opt, 1, 4);
    pb_number(&opt, 2, UINT64_MAX);
    pb_number(&opt, 3, 1);
    pb_nest(&b, 7, opt);
    assert_int_equal(parse(AS_MANAGEMENT_REGISTER, &b), 0);
    assert_whole();
}

static void a_registration_as_json(void **state AS_UNUSED)
{
    static const char *const texts[] = {
        "{\"model_name\":\"m/n\",\"model_version\":\"2\",\"worker_address\":\"unix:///run/w.sock\","
        "\"worker_id\":\"w-1\",\"platform\":\"rust\",\"signature\":{\"inputs\":[{\"name\":\"x\","
        "\"datatype\":\"FP32\",\"shape\":[-1,\"3\"]},{\"name\":\"y\",\"datatype\":\"INT64\"}],"
        "\"outputs\":[{\"name\":\"z\",\"datatype\":\"INT64\",\"shape\":[1],\"labels\":[\"no\",\"\","
        "\"\xc3\xa9\"]}]},\"options\":"
        "{\"max_ongoing_requests\":4,\"max_queued_requests\":-1,\"idempotent\":true}}",
        "{\"modelName\":\"m/n\",\"modelVersion\":\"2\",\"workerAddress\":\"unix:///run/w.sock\","
        "\"workerId\":\"w-1\",\"platform\":\"rust\",\"signature\":{\"inputs\":[{\"name\":\"x\","
        "\"datatype\":\"FP32\",\"shape\":[\"-1\",3]},{\"name\":\"y\",\"datatype\":\"INT64\","
        "\"shape\":[]}],\"outputs\":[{\"name\":\"z\",\"datatype\":\"INT64\",\"shape\":[\"1\"],"
        "\"labels\":[\"no\",\"\",\"\\u00e9\"]}]},"
        "\"options\":{\"maxOngoingRequests\":\"4\",\"maxQueuedRequests\":\"-1\",\"idempotent\":"
        "true}}"};

    for (size_t i = 0; i < AS_COUNT(texts); i++) {
        assert_int_equal(parse_json(AS_MANAGEMENT_REGISTER, texts[i]), 0);
        assert_whole();
    }
}

static void absent_fields_are_empty(void **state AS_UNUSED)
{
    static const struct as_management_request empty;
    struct as_buf b = {0};

    for (int rpc = 0; rpc < AS_MANAGEMENT_RPCS; rpc++) {
        assert_int_equal(parse((enum as_management_rpc)rpc, &b), 0);
        assert_memory_equal(&asked, &empty, sizeof(empty));
        assert_int_equal(parse_json((enum as_management_rpc)rpc, "{}"), 0);
        assert_memory_equal(&asked, &empty, sizeof(empty));
    }
    assert_int_equal(parse_json(AS_MANAGEMENT_REGISTER,
                                "{\"model_name\":null,\"signature\":null,\"options\":"
                                "{\"idempotent\":null}}"),
                     0);
    assert_memory_equal(&asked, &empty, sizeof(empty));
}

static void the_other_requests(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    pb_text(&b, 1, "m");
    pb_text(&b, 3, "w");
    pb_number(&b, 4, UINT64_MAX);
    assert_int_equal(parse(AS_MANAGEMENT_UNREGISTER, &b), 0);
    assert_str(asked.worker, "w");
    assert_true(asked.epoch == UINT64_MAX);
    assert_int_equal(parse_json(AS_MANAGEMENT_UNREGISTER, "{\"epoch\":\"18446744073709551615\"}"),
                     0);
    assert_true(asked.epoch == UINT64_MAX);
    pb_text(&b, 1, "w");
    pb_text(&b, 2, "a");
    pb_text(&b, 2, "");
    assert_int_equal(parse(AS_MANAGEMENT_HEARTBEAT, &b), 0);
    assert_int_equal(asked.n_models, 2);
    assert_str(asked.models[0], "a");
    assert_str(asked.models[1], "");
    assert_int_equal(parse_json(AS_MANAGEMENT_HEARTBEAT, "{\"modelNames\":[\"a\",\"\\u00e9\"]}"),
                     0);
    assert_str(asked.models[1], "\xc3\xa9");
}

/* Like every protobuf reader: sizes that are not packed, too; the last value of a scalar counts;
 * and a message in two parts is merged. */
static void other_encodings_of_protobuf(void **state AS_UNUSED)
{
    struct as_buf b = {0}, t = {0}, sig = {0};

    pb_text(&t, 1, "x");
    pb_text(&t, 2, "FP64");
    pb_number(&t, 3, 7);
    pb_packed(&t, 3, (const int64_t[]){8, 9}, 2);
    pb_nest(&sig, 1, t);
    pb_nest(&b, 6, sig);
    sig = (struct as_buf){0};
    pb_nest(&sig, 1, tensor("y", "BF16", NULL, 0));
    pb_nest(&b, 6, sig);
    pb_text(&b, 1, "first");
    pb_text(&b, 1, "last");
    assert_int_equal(parse(AS_MANAGEMENT_REGISTER, &b), 0);
    assert_int_equal(asked.n_inputs, 2);
    assert_int_equal(asked.inputs[0].ndim, 3);
    assert_int_equal(asked.inputs[0].shape[2], 9);
    assert_str(asked.model, "last");
}

/* --- what is wrong, and where --- */

static void malformed_protobuf(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    as_buf_add(&b, "\x0a\x05m", 3);
    refused(AS_MANAGEMENT_REGISTER, &b, "malformed RegisterModelRequest");
    as_buf_add(&b, "\x32\x02\x0a\x05", 4);
    refused(AS_MANAGEMENT_REGISTER, &b, "malformed Signature");
    pb_text(&b, 1, "\xff");
    refused(AS_MANAGEMENT_HEARTBEAT, &b, "worker_id: not UTF-8");
}

/* What a later version of the protocol may add: a field of each wire type, groups with fields and
 * groups in them, and known numbers with another type. */
static void put_unknown(struct as_buf *b)
{
    pb_number(b, 15, UINT64_MAX);
    pb_text(b, 1000, "x");
    pb_varint(b, ((1u << 29) - 1) << 3 | 1);
    as_buf_add(b, "12345678", 8);
    pb_varint(b, 16u << 3 | 5);
    as_buf_add(b, "1234", 4);
    pb_varint(b, 17u << 3 | 3);
    pb_text(b, 1, "\xff");
    pb_varint(b, 18u << 3 | 3);
    pb_number(b, 2, 1);
    pb_varint(b, 18u << 3 | 4);
    pb_varint(b, 17u << 3 | 4);
}

static void unknown_fields_are_skipped(void **state AS_UNUSED)
{
    struct as_buf b = {0}, opt = {0}, sig = {0}, t = {0};

    put_unknown(&b);
    pb_text(&b, 1, "m");
    put_unknown(&t);
    pb_text(&t, 1, "x");
    pb_text(&t, 2, "FP32");
    pb_varint(&t, 3u << 3 | 5); /* shape has none of these types */
    as_buf_add(&t, "1234", 4);
    put_unknown(&sig);
    pb_nest(&sig, 1, t);
    pb_nest(&b, 6, sig);
    put_unknown(&opt);
    pb_number(&opt, 1, 7);
    pb_text(&opt, 1, "max_ongoing_requests is no text");
    pb_nest(&b, 7, opt);
    pb_number(&b, 4, 5); /* worker_id is no number */
    pb_text(&b, 5, "p");
    put_unknown(&b);
    assert_int_equal(parse(AS_MANAGEMENT_REGISTER, &b), 0);
    assert_str(asked.model, "m");
    assert_str(asked.platform, "p");
    assert_str(asked.worker, "");
    assert_int_equal(asked.max_ongoing, 7);
    assert_int_equal(asked.n_inputs, 1);
    assert_str(asked.inputs[0].name, "x");
    assert_int_equal(asked.inputs[0].ndim, AS_ANY_RANK);
}

static void unknown_fields_that_are_malformed(void **state AS_UNUSED)
{
    static const char *const rows[] = {
        "\x78",               /* a varint that is missing */
        "\x79\1\2\3\4\5\6\7", /* seven bytes of eight */
        "\x7a\5abcd",         /* four bytes of five */
        "\x7d\1\2\3",         /* three bytes of four */
        "\x7b",               /* a group without its end */
        "\x7b\x7b\x7c",       /* one of two ends */
        "\x7b\x84\1",         /* another group's end */
        "\x7c",               /* an end without a group */
        "\x7e",
        "\x7f",         /* no wire types */
        "\x7b\x7e\x7c", /* inside a group */
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_buf b = {0};

        as_buf_str(&b, rows[i]);
        refused(AS_MANAGEMENT_HEARTBEAT, &b, "malformed HeartbeatRequest");
    }
}

/* protobuf's own mapping refuses unknown keys; a newer worker must be able to register. */
static void unknown_keys_of_json_are_skipped(void **state AS_UNUSED)
{
    assert_int_equal(
        parse_json(AS_MANAGEMENT_REGISTER,
                   "{\"model\":1,\"model_name\":\"m\",\"model_Name\":{\"a\":[1,{}]},"
                   "\"options\":{\"idempotenT\":7,\"max_ongoing_requests\":3,\"x\":[]},"
                   "\"x\":1,\"x\":2,\"signature\":{\"inputs\":[{\"y\":0,\"name\":\"i\","
                   "\"datatype\":\"FP32\"}]}}"),
        0);
    assert_str(asked.model, "m");
    assert_int_equal(asked.max_ongoing, 3);
    assert_false(asked.idempotent);
    assert_str(asked.inputs[0].name, "i");
    assert_str(asked.unknown, "model"); /* the first */
    assert_int_equal(parse_json(AS_MANAGEMENT_HEARTBEAT, "{\"worker_id\":\"w\"}"), 0);
    assert_int_equal(asked.unknown.n, 0);
    /* an unused value is checked all the same */
    assert_int_equal(parse_json(AS_MANAGEMENT_HEARTBEAT, "{\"worker_id\":\"w\",\"x\":[1,}"),
                     AS_EINVALID);
}

static void json_of_another_type(void **state AS_UNUSED)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"{\"model_name\":1}", "model_name: must be a string"},
        {"{\"signature\":[]}", "signature must be an object"},
        {"{\"signature\":{\"inputs\":{}}}", "signature.inputs: must be an array"},
        {"{\"signature\":{\"inputs\":[1]}}", "signature.inputs[0] must be an object"},
        {"{\"signature\":{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1.5]}]}}",
         "signature.inputs[0].shape: must be an integer"},
        {"{\"signature\":{\"inputs\":[{\"shape\":[\"1 \"]}]}}",
         "signature.inputs[0].shape: must be an integer"},
        {"{\"signature\":{\"outputs\":[{\"labels\":[1]}]}}",
         "signature.outputs[0].labels: must be an array of strings"},
        {"{\"options\":{\"max_ongoing_requests\":-1}}",
         "options.max_ongoing_requests: must be an integer, 0 or more"},
        {"{\"options\":{\"max_ongoing_requests\":\"\"}}",
         "options.max_ongoing_requests: must be an integer, 0 or more"},
        {"{\"options\":{\"max_ongoing_requests\":4294967296}}",
         "options.max_ongoing_requests: 4294967296 is above 4294967295"},
        {"{\"options\":{\"max_queued_requests\":\"9223372036854775808\"}}",
         "options.max_queued_requests: must be an integer"},
        {"{\"options\":{\"max_queued_requests\":\"+1\"}}",
         "options.max_queued_requests: must be an integer"},
        {"{\"options\":{\"idempotent\":1}}", "options.idempotent: must be true or false"},
        {"{\"model_name\":\"a\",\"modelName\":\"a\"}", "model_name: given twice"},
        {"[]", "RegisterModelRequest must be an object"},
        {"", "not JSON: the text is empty"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++)
        refused_json(AS_MANAGEMENT_REGISTER, rows[i].text, rows[i].why);
    assert_int_equal(parse_json(AS_MANAGEMENT_REGISTER, "{} x"), AS_EINVALID);
    assert_non_null(strstr(said, "not JSON at byte"));
}

static void refused_tensor(struct as_buf t, const char *why)
{
    struct as_buf b = {0}, sig = {0};

    pb_nest(&sig, 2, tensor("fine", "BOOL", NULL, 0));
    pb_nest(&sig, 2, t);
    pb_nest(&b, 6, sig);
    refused(AS_MANAGEMENT_REGISTER, &b, why);
}

static void invalid_signatures(void **state AS_UNUSED)
{
    static const int64_t low[] = {1, -2};
    int64_t many[AS_MAX_DIMS + 1] = {0};

    refused_tensor(tensor("", "FP32", NULL, 0), "signature.outputs[1].name: missing");
    refused_tensor(tensor("x", "", NULL, 0),
                   "signature.outputs[1].datatype: '' is not a datatype (FP32, INT64, BYTES …)");
    refused_tensor(
        tensor("x", "fp32", NULL, 0),
        "signature.outputs[1].datatype: 'fp32' is not a datatype (FP32, INT64, BYTES …)");
    refused_tensor(tensor("x", "FP32", low, 2), "signature.outputs[1].shape[1]: -2 is below -1");
    refused_tensor(tensor("x", "FP32", many, AS_MAX_DIMS + 1),
                   "signature.outputs[1].shape: more than 32");
    refused_tensor(tensor("fine", "FP32", many, AS_MAX_DIMS),
                   "signature.outputs: 'fine' is given twice");
}

static struct as_buf labelled(const char *dtype, const char *label)
{
    struct as_buf t = tensor("x", dtype, NULL, 0);

    pb_text(&t, 4, "fine");
    pb_text(&t, 4, label);
    return t;
}

static void invalid_labels(void **state AS_UNUSED)
{
    struct as_buf b = {0}, sig = {0};

    refused_tensor(labelled("INT64", "\xff"), "signature.outputs[1].labels: not UTF-8");
    refused_tensor(labelled("INT64", "a\nb"), "signature.outputs[1].labels[1]: not a line of text");
    refused_tensor(labelled("BYTES", "a"), "signature.outputs[1].labels: BYTES has no classes");
    refused_tensor(labelled("BOOL", "a"), "signature.outputs[1].labels: BOOL has no classes");
    pb_nest(&sig, 1, labelled("INT64", "a"));
    pb_nest(&b, 6, sig);
    refused(AS_MANAGEMENT_REGISTER, &b, "signature.inputs[0].labels: only outputs have them");
    refused_json(AS_MANAGEMENT_REGISTER,
                 "{\"signature\":{\"outputs\":[{\"labels\":[\"a\\u0000b\"]}]}}",
                 "signature.outputs[0].labels[0]: not a line of text");
}

/* One output with this many labels of this length. */
static struct as_buf many_labels(uint32_t n, size_t size)
{
    struct as_buf b = {0}, sig = {0}, t = tensor("x", "FP32", NULL, 0);
    char label[AS_MANAGEMENT_LABEL + 1];

    memset(label, 'l', sizeof(label));
    for (uint32_t i = 0; i < n; i++)
        pb_bytes(&t, 4, label, size);
    pb_nest(&sig, 2, t);
    pb_nest(&b, 6, sig);
    return b;
}

static void limits_of_labels(void **state AS_UNUSED)
{
    struct as_buf b = many_labels(AS_MANAGEMENT_LABELS, 1);

    assert_int_equal(parse(AS_MANAGEMENT_REGISTER, &b), 0);
    assert_int_equal(asked.outputs[0].n_labels, AS_MANAGEMENT_LABELS);
    b = many_labels(AS_MANAGEMENT_LABELS + 1, 1);
    refused(AS_MANAGEMENT_REGISTER, &b, "signature.outputs[0].labels: more than 65536");
    b = many_labels(1, AS_MANAGEMENT_LABEL);
    assert_int_equal(parse(AS_MANAGEMENT_REGISTER, &b), 0);
    b = many_labels(1, AS_MANAGEMENT_LABEL + 1);
    refused(AS_MANAGEMENT_REGISTER, &b, "signature.outputs[0].labels[0]: longer than 1024 bytes");
}

static struct as_buf many_tensors(uint32_t n, const char *name_first)
{
    struct as_buf b = {0}, sig = {0};

    for (uint32_t i = 0; i < n; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%s%u", i ? "t" : name_first, i);
        pb_nest(&sig, 1, tensor(name, "UINT8", NULL, 0));
    }
    pb_nest(&b, 6, sig);
    return b;
}

static void limits(void **state AS_UNUSED)
{
    struct as_buf b = many_tensors(AS_MANAGEMENT_TENSORS, "t"), t = {0}, sig = {0};
    char *name = malloc(AS_MANAGEMENT_NAME_MAX + 1);

    assert_int_equal(parse(AS_MANAGEMENT_REGISTER, &b), 0);
    assert_int_equal(asked.n_inputs, AS_MANAGEMENT_TENSORS);
    b = many_tensors(AS_MANAGEMENT_TENSORS + 1, "t");
    refused(AS_MANAGEMENT_REGISTER, &b, "signature.inputs: more than 4096");
    for (int over = 0; over < 2; over++) {
        memset(name, 'n', AS_MANAGEMENT_NAME_MAX + 1);
        pb_bytes(&t, 1, name, AS_MANAGEMENT_NAME_MAX + (size_t)over);
        pb_text(&t, 2, "FP16");
        pb_nest(&sig, 1, t);
        pb_nest(&b, 6, sig);
        t = sig = (struct as_buf){0};
        if (over)
            refused(AS_MANAGEMENT_REGISTER, &b,
                    "signature.inputs[0].name: longer than 65535 bytes");
        else
            assert_int_equal(parse(AS_MANAGEMENT_REGISTER, &b), 0);
    }
    free(name);
    for (uint32_t i = 0; i < AS_MANAGEMENT_MODELS; i++)
        pb_text(&b, 2, "m");
    assert_int_equal(parse(AS_MANAGEMENT_HEARTBEAT, &b), 0);
    for (uint32_t i = 0; i <= AS_MANAGEMENT_MODELS; i++)
        pb_text(&b, 2, "m");
    refused(AS_MANAGEMENT_HEARTBEAT, &b, "model_names: more than 4096");
}

/* Every prefix of a valid message is read to its end and no further (a sanitizer finds reads beyond
 * it). */
static void cut_messages_are_safe(void **state AS_UNUSED)
{
    struct as_buf whole = many_tensors(3, "first");

    for (size_t n = 0; n <= whole.n; n++) {
        struct as_buf b = {0};

        as_buf_add(&b, whole.p, n);
        (void)parse(AS_MANAGEMENT_REGISTER, &b);
    }
    as_buf_fini(&whole);
}

/* --- answers --- */

static void answers(void **state AS_UNUSED)
{
    const struct as_management_response r = {AS_STR("ok"), UINT64_MAX, 5000, true};
    static const char *const texts[AS_MANAGEMENT_RPCS] = {
        "{\"success\":true,\"message\":\"ok\",\"epoch\":\"18446744073709551615\","
        "\"heartbeatIntervalMs\":5000}",
        "{\"success\":true,\"message\":\"ok\"}", "{\"healthy\":true}"};
    struct as_buf want = {0}, out = {0};

    for (int rpc = 0; rpc < AS_MANAGEMENT_RPCS; rpc++) {
        as_management_put_json((enum as_management_rpc)rpc, &r, &out);
        assert_str(as_buf_slice(&out), texts[rpc]);
        out.n = want.n = 0;
        pb_number(&want, 1, 1);
        if (rpc != AS_MANAGEMENT_HEARTBEAT)
            pb_text(&want, 2, "ok");
        if (rpc == AS_MANAGEMENT_REGISTER) {
            pb_number(&want, 3, UINT64_MAX);
            pb_number(&want, 4, 5000);
        }
        as_management_put((enum as_management_rpc)rpc, &r, &out);
        assert_int_equal(out.n, want.n);
        assert_memory_equal(out.p, want.p, want.n);
        out.n = 0;
    }
    as_management_put(AS_MANAGEMENT_HEARTBEAT, &(struct as_management_response){0}, &out);
    assert_int_equal(out.n, 0);
    as_buf_fini(&want);
    as_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_registration_as_protobuf, up, down),
        cmocka_unit_test_setup_teardown(a_registration_as_json, up, down),
        cmocka_unit_test_setup_teardown(absent_fields_are_empty, up, down),
        cmocka_unit_test_setup_teardown(the_other_requests, up, down),
        cmocka_unit_test_setup_teardown(other_encodings_of_protobuf, up, down),
        cmocka_unit_test_setup_teardown(malformed_protobuf, up, down),
        cmocka_unit_test_setup_teardown(unknown_fields_are_skipped, up, down),
        cmocka_unit_test_setup_teardown(unknown_fields_that_are_malformed, up, down),
        cmocka_unit_test_setup_teardown(unknown_keys_of_json_are_skipped, up, down),
        cmocka_unit_test_setup_teardown(json_of_another_type, up, down),
        cmocka_unit_test_setup_teardown(invalid_signatures, up, down),
        cmocka_unit_test_setup_teardown(invalid_labels, up, down),
        cmocka_unit_test_setup_teardown(limits, up, down),
        cmocka_unit_test_setup_teardown(limits_of_labels, up, down),
        cmocka_unit_test_setup_teardown(cut_messages_are_safe, up, down),
        cmocka_unit_test_setup_teardown(answers, up, down),
    };

    return cmocka_run_group_tests_name("management", tests, NULL, NULL);
}
