/* Specification of wire/oip/rest_call: the fields of a request, and the status of a response. */
#include "unit.h"
#include "wire/oip/rest_call.h"

#include "base/err.h"

static struct as_json *json;
static struct as_rest_call call;

static void begin(size_t limit)
{
    as_rest_call_begin(&call, limit);
}

static void field(const char *name, const char *value)
{
    as_rest_call_field(&call, as_str_of(name), as_str_of(value));
}

static int data(const char *text)
{
    return as_rest_call_data(&call, (const uint8_t *)text, strlen(text));
}

/* The gRPC status of a response with this HTTP status and body. */
static uint32_t status_of(const char *status, const char *body)
{
    begin(10000);
    field(":status", status);
    assert_int_equal(data(body), 0);
    return as_rest_call_end(&call, json, true);
}

/* --- requests --- */

static const char *fields_text(const struct as_rest_call_head *head)
{
    static char text[500];
    struct as_http_header f[AS_REST_CALL_FIELDS];
    uint32_t n = as_rest_call_fields(f, head);
    size_t at = 0;

    text[0] = 0;
    for (uint32_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%.*s=%.*s;", AS_STR_FMT(f[i].name),
                               AS_STR_FMT(f[i].value));
    return text;
}

static void fields_of_a_request(void **state AS_UNUSED)
{
    struct as_rest_call_head head = {.method = AS_STR("GET"),
                                     .scheme = AS_STR("https"),
                                     .path = AS_STR("/v2/models/m"),
                                     .authority = AS_STR("h:1"),
                                     .user_agent = AS_STR("a")};

    assert_string_equal(fields_text(&head),
                        ":method=GET;:scheme=https;:path=/v2/models/m;:authority=h:1;"
                        "user-agent=a;");
    head.content_type = AS_STR("application/json");
    assert_non_null(strstr(fields_text(&head), "user-agent=a;content-type=application/json;"));
    assert_null(strstr(fields_text(&head), "inference-header"));
    head.json_len = AS_STR("12");
    assert_non_null(strstr(fields_text(&head), "inference-header-content-length=12;"));
}

static void paths_are_encoded(void **state AS_UNUSED)
{
    struct as_buf b;

    as_buf_init(&b);
    as_rest_call_path(&b, AS_STR("a/b c%?#\xc3\xbc~-._"), AS_STR("v 1"), "/infer");
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, "/v2/models/a/b%20c%25%3F%23%C3%BC~-._/versions/v%201/infer");
    b.n = 0;
    as_rest_call_path(&b, AS_STR("m"), AS_STR(""), "");
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, "/v2/models/m");
    as_buf_fini(&b);
}

static void reserved_names(void **state AS_UNUSED)
{
    assert_true(as_rest_call_is_reserved(AS_STR("host")));
    assert_true(as_rest_call_is_reserved(AS_STR("content-length")));
    assert_true(as_rest_call_is_reserved(AS_STR("inference-header-content-length")));
    assert_false(as_rest_call_is_reserved(AS_STR("authorization")));
    assert_false(as_rest_call_is_reserved(AS_STR("x-host")));
}

/* --- responses --- */

static void a_complete_response(void **state AS_UNUSED)
{
    assert_int_equal(status_of("200", "{}"), 0);
    assert_int_equal(call.body.n, 2);
    assert_int_equal(call.json_len, 2);
    for (size_t i = 0; i < AS_JSON_PADDING; i++)
        assert_int_equal(call.body.p[2 + i], 0);
    assert_string_equal(call.text, "");
}

static void binary_data_after_the_json(void **state AS_UNUSED)
{
    begin(100);
    field(":status", "200");
    field("inference-header-content-length", "3");
    assert_int_equal(data("{} abcd"), 0);
    assert_int_equal(as_rest_call_end(&call, json, true), 0);
    assert_int_equal(call.json_len, 3);
    assert_int_equal(call.body.n, 7);
}

static void http_errors_map_to_grpc_statuses(void **state AS_UNUSED)
{
    /* every HTTP status of our table of errors maps to the gRPC status of one of its rows */
    for (int row = 1; row < AS_ERR_ROWS; row++) {
        char status[8];
        bool found = false;
        uint32_t got;

        snprintf(status, sizeof(status), "%u", as_err_http(-row));
        got = status_of(status, "{}");
        for (int other = 1; other < AS_ERR_ROWS; other++)
            found =
                found || (as_err_http(-other) == as_err_http(-row) && as_err_grpc(-other) == got);
        if (!found)
            fail_msg("HTTP %s became %u", status, got);
    }
    assert_int_equal(status_of("400", ""), 3);
    assert_int_equal(status_of("404", ""), 5);
    assert_int_equal(status_of("429", ""), 8);
    assert_int_equal(status_of("503", ""), 14);
    assert_int_equal(status_of("504", ""), 4);
    assert_int_equal(status_of("418", ""), 2);
    assert_int_equal(status_of("204", ""), 2); /* not a status of the protocol */
    assert_int_equal(status_of("302", ""), 2);
}

static void texts_of_errors(void **state AS_UNUSED)
{
    struct as_buf b;

    status_of("404", "{\"error\":\"no model 'a\\u00e9'\"}");
    assert_string_equal(call.text, "HTTP 404: no model 'a\xc3\xa9'");
    status_of("503", "");
    assert_string_equal(call.text, "HTTP 503");
    status_of("502", "<html>bad gateway</html>");
    assert_string_equal(call.text, "HTTP 502: <html>bad gateway</html>");
    status_of("400", "{\"detail\": \"x\"}");
    assert_string_equal(call.text, "HTTP 400: {\"detail\": \"x\"}");
    status_of("400", "{\"error\":\"a\\u0000b\"}");
    assert_string_equal(call.text, "HTTP 400: a?b");
    as_buf_init(&b);
    as_buf_str(&b, "{\"error\":\"");
    for (int i = 0; i < 3000; i++)
        as_buf_str(&b, "x");
    as_buf_add(&b, "\"}", 3);
    status_of("400", (char *)b.p);
    assert_int_equal(strlen(call.text), AS_REST_CALL_TEXT - 1);
    as_buf_fini(&b);
}

static void limit_at_n_and_one_more(void **state AS_UNUSED)
{
    begin(4);
    field(":status", "200");
    assert_int_equal(data("abc"), 0);
    assert_int_equal(data("d"), 0);
    assert_int_equal(as_rest_call_end(&call, json, true), 0);
    begin(4);
    field(":status", "200");
    assert_int_equal(data("abcd"), 0);
    assert_int_equal(data("e"), AS_EPROTO);
    assert_int_equal(call.body.n, 4);
    assert_int_equal(as_rest_call_end(&call, json, false), 8);
    assert_string_equal(call.text, "the answer is larger than the limit");
}

static void unacceptable_responses_are_refused(void **state AS_UNUSED)
{
    static const struct {
        const char *name, *value;
    } bad[] = {{"content-encoding", "gzip"},
               {"inference-header-content-length", "x"},
               {"inference-header-content-length", "-1"},
               {"inference-header-content-length", "3"}};

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        begin(100);
        field(":status", "200");
        field(bad[i].name, bad[i].value);
        data("{}");
        assert_int_equal(as_rest_call_end(&call, json, true), 13);
        assert_true(strlen(call.text) > 0);
    }
    begin(100);
    field(":status", "200");
    field("inference-header-content-length", "1");
    field("inference-header-content-length", "1");
    assert_int_equal(data("{}"), AS_EPROTO);
    assert_int_equal(as_rest_call_end(&call, json, true), 13);
    begin(100);
    field(":status", "200");
    field("content-encoding", "identity");
    assert_int_equal(data("{}"), 0);
    assert_int_equal(as_rest_call_end(&call, json, true), 0);
}

static void truncated_responses_are_refused(void **state AS_UNUSED)
{
    begin(100);
    field(":status", "200");
    assert_int_equal(data("{"), 0);
    assert_int_equal(as_rest_call_end(&call, json, false), 14);
    begin(100); /* no byte came */
    assert_int_equal(as_rest_call_end(&call, json, false), 14);
    assert_string_equal(call.text, "the response was cut short");
}

/* --- streams --- */

static char events[200];

static void on_event(void *ctx AS_UNUSED, struct as_rest_call *c)
{
    size_t at = strlen(events);

    assert_int_equal(c->body.p[c->body.n], 0); /* padding */
    snprintf(events + at, sizeof(events) - at, "[%.*s]", AS_STR_FMT(as_buf_slice(&c->body)));
}

static void begin_stream(const char *status, const char *type, size_t limit)
{
    begin(limit);
    as_rest_call_expect_stream(&call, on_event, NULL);
    field(":status", status);
    field("content-type", type);
    events[0] = 0;
}

static void events_of_a_stream(void **state AS_UNUSED)
{
    begin_stream("200", "text/event-stream; charset=utf-8", 4);
    assert_int_equal(data("data: ab\n\nda"), 0);
    assert_string_equal(events, "[ab]");
    assert_int_equal(data("ta: cdef\n\n"), 0); /* the limit is for each event */
    assert_string_equal(events, "[ab][cdef]");
    assert_int_equal(as_rest_call_end(&call, json, true), 0);
    begin_stream("200", "Text/Event-Stream", 4);
    assert_int_equal(as_rest_call_end(&call, json, true), 0); /* no event */
    assert_string_equal(events, "");
    begin_stream("200", "text/event-stream", 4);
    assert_int_equal(data("data: abcde\n\n"), AS_EPROTO);
    assert_int_equal(as_rest_call_end(&call, json, false), 8);
    begin_stream("200", "text/event-stream", 4);
    assert_int_equal(data("data: a\n"), 0);
    assert_int_equal(as_rest_call_end(&call, json, true), 13);
    assert_string_equal(call.text, "the last event was cut short");
    begin_stream("200", "text/event-stream", 4);
    assert_int_equal(data("data: a\n\n"), 0);
    assert_int_equal(as_rest_call_end(&call, json, false), 14);
}

static void a_response_that_is_no_stream(void **state AS_UNUSED)
{
    begin_stream("404", "application/json", 100);
    assert_int_equal(data("{\"error\":\"no\"}"), 0);
    assert_int_equal(as_rest_call_end(&call, json, true), 5);
    assert_string_equal(call.text, "HTTP 404: no");
    begin_stream("200", "application/json", 100);
    assert_int_equal(data("data: a\n\n"), AS_EPROTO);
    assert_int_equal(as_rest_call_end(&call, json, false), 2);
    assert_non_null(strstr(call.text, "text/event-stream"));
    begin_stream("200", "text/event-streams", 100);
    assert_int_equal(as_rest_call_end(&call, json, true), 2);
    assert_string_equal(events, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_request),
        cmocka_unit_test(paths_are_encoded),
        cmocka_unit_test(reserved_names),
        cmocka_unit_test(a_complete_response),
        cmocka_unit_test(binary_data_after_the_json),
        cmocka_unit_test(http_errors_map_to_grpc_statuses),
        cmocka_unit_test(texts_of_errors),
        cmocka_unit_test(limit_at_n_and_one_more),
        cmocka_unit_test(unacceptable_responses_are_refused),
        cmocka_unit_test(truncated_responses_are_refused),
        cmocka_unit_test(events_of_a_stream),
        cmocka_unit_test(a_response_that_is_no_stream),
    };
    int failed;

    json = as_json_new();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    as_rest_call_fini(&call);
    as_json_free(json);
    return failed;
}
