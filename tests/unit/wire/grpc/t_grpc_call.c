/* Specification of wire/grpc/grpc_call: the fields of a call, timeouts, -bin values, and the status
 * that every kind of answer means. */
#include "unit.h"
#include "wire/grpc/grpc_call.h"

static void the_fields_are_in_grpcs_order(void **state AS_UNUSED)
{
    static const char want[] = ":method=POST;:scheme=http;:path=/s/m;:authority=host;te=trailers;"
                               "content-type=application/grpc;user-agent=me;grpc-timeout=5S;";
    struct as_http_header f[AS_GRPC_CALL_FIELDS];
    char got[512] = "";
    uint32_t n = as_grpc_call_fields(f, AS_STR("http"), AS_STR("/s/m"), AS_STR("host"),
                                     AS_STR("me"), AS_STR("5S"));

    assert_int_equal(n, AS_GRPC_CALL_FIELDS);
    for (uint32_t i = 0; i < n; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%.*s=%.*s;", AS_STR_FMT(f[i].name),
                 AS_STR_FMT(f[i].value));
    assert_string_equal(got, want);
    assert_int_equal(as_grpc_call_fields(f, AS_STR("https"), AS_STR("/s/m"), AS_STR("host"),
                                         AS_STR("me"), AS_STR("")),
                     AS_GRPC_CALL_FIELDS - 1);
    assert_true(as_str_eq(f[1].value, AS_STR("https")));
}

static void a_timeout_has_at_most_eight_digits_and_is_never_shorter(void **state AS_UNUSED)
{
    static const struct {
        as_ns v;
        const char *want;
    } rows[] = {{1, "1n"},
                {99999999, "99999999n"},
                {100000000, "100000u"},
                {100000001, "100001u"},
                {5 * AS_SEC, "5000000u"},
                {100 * AS_SEC, "100000m"},
                {99999999 * AS_SEC, "99999999S"},
                {99999999 * AS_SEC + 1, "1666667M"},
                {AS_NEVER - 1, "5124096H"}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        char out[AS_GRPC_TIMEOUT_MAX];
        as_ns back;

        as_grpc_put_timeout(out, rows[i].v);
        assert_string_equal(out, rows[i].want);
        assert_int_equal(as_grpc_timeout(as_str_of(out), &back), 0);
        assert_true(back >= rows[i].v);
    }
}

static void bin_values_come_back(void **state AS_UNUSED)
{
    uint8_t bytes[64];
    uint8_t back[AS_GRPC_BIN_BYTES(sizeof(bytes) * 2)];
    struct as_buf text = {0};
    size_t back_n;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 37 + 200);
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        text.n = 0;
        as_grpc_put_bin(&text, (struct as_str){(char *)bytes, n});
        assert_int_equal(text.n, (4 * n + 2) / 3);
        assert_int_equal(as_grpc_decode_bin(as_buf_slice(&text), back, &back_n), 0);
        assert_int_equal(back_n, n);
        if (n)
            assert_memory_equal(back, bytes, n);
    }
    as_buf_fini(&text);
}

/* --- answers --- */

static struct as_grpc_call c;

static void field(const char *name, const char *value)
{
    as_grpc_call_field(&c, as_str_of(name), as_str_of(value));
}

static void begin(const char *http)
{
    as_grpc_call_begin(&c, 16);
    field(":status", http);
}

static int data(const char *p, size_t n)
{
    return as_grpc_call_data(&c, (const uint8_t *)p, n);
}

static void check_end(uint32_t code, bool whole, uint32_t status, const char *text)
{
    assert_int_equal(as_grpc_call_end(&c, code, whole), status);
    assert_string_equal(c.text, text);
}

#define MESSAGE "\0\0\0\0\5hello"

static void a_good_answer(void **state AS_UNUSED)
{
    for (size_t cut = 0; cut <= 10; cut++) {
        begin("200");
        field("content-type", "application/grpc+proto");
        assert_int_equal(data(MESSAGE, cut), 0);
        assert_int_equal(data(MESSAGE + cut, 10 - cut), 0);
        field("grpc-status", "0");
        field("grpc-message", "not shown");
        check_end(0, true, 0, "");
        assert_int_equal(c.message.n, 5);
        assert_memory_equal(c.message.p, "hello", 5);
    }
}

static void a_message_may_be_compared_and_not_kept(void **state AS_UNUSED)
{
    static const struct as_str others[] = {
        {"hello", 5}, {"hallo", 5}, {"hell", 4}, {"hello!", 6}, {NULL, 0}};

    for (size_t i = 0; i < AS_COUNT(others); i++) {
        for (size_t cut = 0; cut <= 10; cut++) {
            begin("200");
            as_grpc_call_compare(&c, &others[i]);
            field("content-type", "application/grpc");
            assert_int_equal(data(MESSAGE, cut), 0);
            assert_int_equal(data(MESSAGE + cut, 10 - cut), 0);
            field("grpc-status", "0");
            check_end(0, true, 0, "");
            assert_int_equal(c.message.n, 0);
            assert_int_equal(as_grpc_call_is_expected(&c), i == 0);
        }
    }
    begin("200");
    as_grpc_call_compare(&c, &others[4]);
    field("content-type", "application/grpc");
    assert_int_equal(data("\0\0\0\0\0", 5), 0);
    assert_true(as_grpc_call_is_expected(&c));
}

static void an_error_keeps_the_servers_status_and_text(void **state AS_UNUSED)
{
    begin("200");
    field("content-type", "application/grpc");
    field("grpc-status", "5");
    field("grpc-message", "model %27m%27 gr%C3%BC%C3%9fe 100% %4 %zz %00");
    check_end(0, true, 5,
              "model 'm' gr\xc3\xbc\xc3\x9f"
              "e 100% %4 %zz ?");
    begin("503"); /* grpc-status has precedence over HTTP's status */
    field("grpc-status", "8");
    check_end(0, true, 8, "");
    begin("200"); /* also if the stream was reset after it */
    field("grpc-status", "4");
    check_end(8, false, 4, "");
    begin("200");
    field("grpc-status", "17");
    check_end(0, true, 2, "");
    begin("200");
    field("grpc-status", "-1");
    check_end(0, true, 2, "");
}

static void a_long_text_is_cut(void **state AS_UNUSED)
{
    char *big = as_xalloc(3 * AS_GRPC_CALL_TEXT);

    memset(big, 'x', 3 * AS_GRPC_CALL_TEXT - 1);
    begin("200");
    field("grpc-status", "2");
    field("grpc-message", big);
    assert_int_equal(as_grpc_call_end(&c, 0, true), 2);
    assert_int_equal(strlen(c.text), AS_GRPC_CALL_TEXT - 1);
    free(big);
}

static void http_statuses_have_a_meaning(void **state AS_UNUSED)
{
    static const struct {
        const char *http;
        uint32_t status;
    } rows[] = {{"400", 13}, {"401", 16}, {"403", 7},  {"404", 12}, {"429", 14},
                {"502", 14}, {"503", 14}, {"504", 14}, {"500", 2},  {"418", 2}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        char want[64];

        begin(rows[i].http);
        assert_int_equal(data("<html>", 6), 0);
        snprintf(want, sizeof(want), "HTTP status %s instead of a gRPC answer", rows[i].http);
        check_end(0, true, rows[i].status, want);
    }
}

static void resets_have_a_meaning(void **state AS_UNUSED)
{
    begin("200");
    check_end(8, false, 1, "the stream was reset: CANCEL");
    begin("200");
    check_end(7, false, 14, "the stream was reset: REFUSED_STREAM");
    begin("200");
    check_end(11, false, 8, "the stream was reset: ENHANCE_YOUR_CALM");
    begin("200");
    check_end(12, false, 7, "the stream was reset: INADEQUATE_SECURITY");
    begin("200");
    check_end(99999, false, 13, "the stream was reset: INTERNAL_ERROR");
}

static void broken_answers(void **state AS_UNUSED)
{
    begin("200");
    field("content-type", "text/html");
    assert_int_equal(data("<html>", 6), 0);
    field("grpc-status", "0");
    check_end(0, true, 2, "the answer's content-type is not application/grpc");
    begin("200");
    field("content-type", "application/grpc");
    check_end(0, true, 2, "the answer has no grpc-status");
    field("grpc-status", "0");
    check_end(0, true, 13, "status OK without a message");
    begin("200");
    field("content-type", "application/grpc");
    assert_int_equal(data(MESSAGE, 8), 0);
    field("grpc-status", "0");
    check_end(0, true, 13, "the message was cut short");
    begin("200");
    field("content-type", "application/grpc");
    assert_int_equal(data("\2", 1), AS_EPROTO);
    assert_int_equal(data("more", 4), AS_EPROTO);
    check_end(8, false, 13, "the answer is not framed as gRPC");
    begin("200");
    field("content-type", "application/grpc");
    assert_int_equal(data(MESSAGE MESSAGE, 20), AS_EPROTO);
    check_end(8, false, 13, "more than one message came");
    begin("200");
    field("content-type", "application/grpc");
    assert_int_equal(data("\1\0\0\0\0", 5), AS_EPROTO);
    check_end(8, false, 13, "the message is compressed, which was not asked for");
}

static void a_message_above_the_limit_is_refused_before_it_comes(void **state AS_UNUSED)
{
    begin("200");
    field("content-type", "application/grpc");
    assert_int_equal(data("\0\0\0\0\x10", 5), 0);
    begin("200");
    field("content-type", "application/grpc");
    assert_int_equal(data("\0\0\0\0\x11", 5), AS_EPROTO);
    check_end(8, false, 8, "the answer is larger than the limit");
    assert_int_equal(c.message.n, 0);
}

static struct as_buf told;

static void on_message(void *ctx, struct as_grpc_call *call)
{
    assert_ptr_equal(ctx, &told);
    as_buf_printf(&told, "[%.*s]", AS_STR_FMT(as_buf_slice(&call->message)));
}

static void begin_stream(void)
{
    begin("200");
    as_grpc_call_expect_stream(&c, on_message, &told);
    field("content-type", "application/grpc");
    told.n = 0;
}

static void messages_of_a_stream_are_handed_over_one_by_one(void **state AS_UNUSED)
{
    static const char bytes[] = MESSAGE "\0\0\0\0\0" MESSAGE; /* one of no bytes in the middle */

    for (size_t slice = 1; slice < sizeof(bytes); slice++) {
        begin_stream();
        for (size_t at = 0; at < sizeof(bytes) - 1; at += slice)
            assert_int_equal(data(bytes + at, AS_MIN(slice, sizeof(bytes) - 1 - at)), 0);
        field("grpc-status", "0");
        check_end(0, true, 0, "");
        assert_true(as_str_eq(as_buf_slice(&told), AS_STR("[hello][][hello]")));
    }
    begin_stream(); /* a stream without messages is valid */
    field("grpc-status", "0");
    check_end(0, true, 0, "");
    begin_stream(); /* the limit is for each message, and an incomplete one is not reported */
    assert_int_equal(data(MESSAGE MESSAGE MESSAGE "\0\0\0\0\5he", 37), 0);
    field("grpc-status", "0");
    check_end(0, true, 13, "the message was cut short");
    assert_true(as_str_eq(as_buf_slice(&told), AS_STR("[hello][hello][hello]")));
    begin_stream();
    assert_int_equal(data(MESSAGE "\0\0\0\0\x11", 15), AS_EPROTO);
    check_end(8, false, 8, "the answer is larger than the limit");
    begin_stream();
    assert_int_equal(data(MESSAGE, 10), 0);
    field("grpc-status", "13");
    check_end(0, true, 13, "");
}

static int fini(void **state AS_UNUSED)
{
    as_grpc_call_fini(&c);
    as_buf_fini(&told);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fields_are_in_grpcs_order),
        cmocka_unit_test(a_timeout_has_at_most_eight_digits_and_is_never_shorter),
        cmocka_unit_test(bin_values_come_back),
        cmocka_unit_test(a_good_answer),
        cmocka_unit_test(a_message_may_be_compared_and_not_kept),
        cmocka_unit_test(an_error_keeps_the_servers_status_and_text),
        cmocka_unit_test(a_long_text_is_cut),
        cmocka_unit_test(http_statuses_have_a_meaning),
        cmocka_unit_test(resets_have_a_meaning),
        cmocka_unit_test(broken_answers),
        cmocka_unit_test(a_message_above_the_limit_is_refused_before_it_comes),
        cmocka_unit_test(messages_of_a_stream_are_handed_over_one_by_one),
    };

    return cmocka_run_group_tests_name("grpc_call", tests, NULL, fini);
}
