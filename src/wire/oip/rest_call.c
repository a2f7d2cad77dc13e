#include "wire/oip/rest_call.h"

#include "base/err.h"
#include "wire/oip/oip_json.h"

#include <strings.h>

#define NOT_EVENT_STREAM "the response is not a stream of events (text/event-stream)"
#define TOO_LARGE        "the answer is larger than the limit"
#define PAGE_MAX         200u /* how much is shown of an error's body that is not JSON */

uint32_t as_rest_call_fields(struct as_http_header out[AS_REST_CALL_FIELDS],
                             const struct as_rest_call_head *head)
{
    const struct as_http_header fields[] = {
        {AS_STR(":method"), head->method},
        {AS_STR(":scheme"), head->scheme},
        {AS_STR(":path"), head->path},
        {AS_STR(":authority"), head->authority},
        {AS_STR("user-agent"), head->user_agent},
        {AS_STR("content-type"), head->content_type},
        {AS_STR("inference-header-content-length"), head->json_len},
    };

    memcpy(out, fields, sizeof(fields));
    return AS_REST_CALL_FIELDS - (head->content_type.n ? 0 : 2) -
           (head->content_type.n && !head->json_len.n ? 1 : 0);
}

bool as_rest_call_is_reserved(struct as_str name)
{
    static const char *const names[] = {"host",
                                        "user-agent",
                                        "content-type",
                                        "content-length",
                                        "content-encoding",
                                        "accept-encoding",
                                        "inference-header-content-length",
                                        "connection",
                                        "keep-alive",
                                        "proxy-connection",
                                        "transfer-encoding",
                                        "te",
                                        "trailer",
                                        "upgrade",
                                        "expect"};

    for (size_t i = 0; i < AS_COUNT(names); i++) {
        if (as_str_eq(name, as_str_of(names[i])))
            return true;
    }
    return false;
}

/* Names may hold slashes, and other clients do not encode them. */
void as_rest_call_path(struct as_buf *out, struct as_str model, struct as_str version,
                       const char *rest)
{
    as_buf_str(out, "/v2/models/");
    as_buf_percent(out, model);
    if (version.n) {
        as_buf_str(out, "/versions/");
        as_buf_percent(out, version);
    }
    as_buf_str(out, rest);
}

void as_rest_call_begin(struct as_rest_call *c, size_t limit)
{
    c->body.n = 0;
    c->limit = limit;
    c->http_status = 0;
    c->json_len = 0;
    c->has_json_len = false;
    c->on_event = NULL;
    c->sse = (struct as_sse){0};
    c->is_events = false;
    c->fault = NULL;
    c->fault_status = AS_STATUS_OK;
    c->text[0] = 0;
}

void as_rest_call_expect_stream(struct as_rest_call *c,
                                void (*on_event)(void *ctx, struct as_rest_call *c), void *ctx)
{
    c->on_event = on_event;
    c->ctx = ctx;
}

void as_rest_call_fini(struct as_rest_call *c)
{
    as_buf_fini(&c->body);
}

static void set_fault(struct as_rest_call *c, uint32_t status, const char *fault)
{
    if (c->fault)
        return;
    c->fault = fault;
    c->fault_status = status;
}

/* The media type text/event-stream, with or without parameters. */
static bool is_event_stream(struct as_str v)
{
    static const char type[] = "text/event-stream";
    size_t n = sizeof(type) - 1;

    return v.n >= n && strncasecmp(v.p, type, n) == 0 &&
           (v.n == n || v.p[n] == ';' || v.p[n] == ' ' || v.p[n] == '\t');
}

void as_rest_call_field(struct as_rest_call *c, struct as_str name, struct as_str value)
{
    uint64_t v;

    if (as_str_eq(name, AS_STR(":status"))) {
        c->http_status = as_str_u64(value, &v) == 0 && v < 1000 ? (uint32_t)v : 0;
    } else if (as_str_eq(name, AS_STR("content-type"))) {
        c->is_events = is_event_stream(value);
    } else if (as_str_eq(name, AS_STR("content-encoding"))) {
        if (!as_str_eq(value, AS_STR("identity")))
            set_fault(c, AS_STATUS_INTERNAL, "the response is compressed, which was not requested");
    } else if (as_str_eq(name, AS_STR("inference-header-content-length"))) {
        if (c->has_json_len || as_str_u64(value, &c->json_len))
            set_fault(c, AS_STATUS_INTERNAL,
                      "the response has a bad Inference-Header-Content-Length");
        c->has_json_len = true;
    }
}

/* The JSON reader needs readable bytes after the body. */
static void pad_body(struct as_rest_call *c)
{
    memset(as_buf_reserve(&c->body, AS_JSON_PADDING), 0, AS_JSON_PADDING);
}

static int read_events(struct as_rest_call *c, const uint8_t *p, size_t n)
{
    for (;;) {
        switch (as_sse_read(&c->sse, &p, &n, &c->body, c->limit)) {
        case AS_SSE_MORE:
            return 0;
        case AS_SSE_EVENT:
            pad_body(c);
            c->on_event(c->ctx, c);
            c->body.n = 0;
            break;
        case AS_SSE_TOO_BIG:
            set_fault(c, AS_STATUS_RESOURCE_EXHAUSTED, TOO_LARGE);
            return AS_EPROTO;
        }
    }
}

int as_rest_call_data(struct as_rest_call *c, const uint8_t *p, size_t n)
{
    bool events = c->on_event && c->http_status == 200;

    if (events && !c->is_events)
        set_fault(c, AS_STATUS_UNKNOWN, NOT_EVENT_STREAM);
    if (events && !c->fault)
        return read_events(c, p, n);
    if (!c->fault && n > c->limit - c->body.n)
        set_fault(c, AS_STATUS_RESOURCE_EXHAUSTED, TOO_LARGE);
    if (c->fault)
        return AS_EPROTO;
    as_buf_add(&c->body, p, n);
    return 0;
}

static uint32_t status_of_http(uint32_t http)
{
    static const struct {
        uint16_t http, grpc;
    } rows[] = {{400, AS_STATUS_INVALID_ARGUMENT},
                {401, AS_STATUS_UNAUTHENTICATED},
                {403, AS_STATUS_PERMISSION_DENIED},
                {404, AS_STATUS_NOT_FOUND},
                {405, AS_STATUS_UNIMPLEMENTED},
                {408, AS_STATUS_DEADLINE_EXCEEDED},
                {409, AS_STATUS_ALREADY_EXISTS},
                {411, AS_STATUS_INVALID_ARGUMENT},
                {412, AS_STATUS_FAILED_PRECONDITION},
                {413, AS_STATUS_RESOURCE_EXHAUSTED},
                {414, AS_STATUS_INVALID_ARGUMENT},
                {415, AS_STATUS_UNIMPLEMENTED},
                {422, AS_STATUS_INVALID_ARGUMENT},
                {429, AS_STATUS_RESOURCE_EXHAUSTED},
                {431, AS_STATUS_RESOURCE_EXHAUSTED},
                {499, AS_STATUS_CANCELLED},
                {500, AS_STATUS_INTERNAL},
                {501, AS_STATUS_UNIMPLEMENTED},
                {502, AS_STATUS_UNAVAILABLE},
                {503, AS_STATUS_UNAVAILABLE},
                {504, AS_STATUS_DEADLINE_EXCEEDED}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        if (rows[i].http == http)
            return rows[i].grpc;
    }
    return AS_STATUS_UNKNOWN;
}

/* The error's text: that of {"error": …}, else the beginning of the body. */
static void set_error_text(struct as_rest_call *c, struct as_json *j)
{
    struct as_str text = as_buf_slice(&c->body);
    struct as_arena a;
    size_t at;

    as_arena_init(&a, NULL, 0);
    if (as_oip_json_parse_error(j, c->body.p, c->body.n, &a, &text))
        text.n = AS_MIN(text.n, (size_t)PAGE_MAX);
    at =
        (size_t)snprintf(c->text, sizeof(c->text), "HTTP %u%s", c->http_status, text.n ? ": " : "");
    text.n = AS_MIN(text.n, sizeof(c->text) - at - 1);
    for (size_t i = 0; i < text.n; i++)
        c->text[at++] = text.p[i] ? text.p[i] : '?';
    c->text[at] = 0;
    as_arena_fini(&a);
}

static uint32_t set_text(struct as_rest_call *c, uint32_t status, const char *text)
{
    snprintf(c->text, sizeof(c->text), "%s", text);
    return status;
}

uint32_t as_rest_call_end(struct as_rest_call *c, struct as_json *j, bool whole)
{
    pad_body(c);
    if (c->fault)
        return set_text(c, c->fault_status, c->fault);
    if (!whole)
        return set_text(c, AS_STATUS_UNAVAILABLE, "the response was cut short");
    if (c->http_status != 200) { /* the protocol has no other success status */
        set_error_text(c, j);
        return status_of_http(c->http_status);
    }
    if (c->on_event && (!c->is_events || !as_sse_at_boundary(&c->sse)))
        return set_text(c, c->is_events ? AS_STATUS_INTERNAL : AS_STATUS_UNKNOWN,
                        c->is_events ? "the last event was cut short" : NOT_EVENT_STREAM);
    if (!c->has_json_len)
        c->json_len = c->body.n;
    if (c->json_len > c->body.n)
        return set_text(c, AS_STATUS_INTERNAL,
                        "the response's Inference-Header-Content-Length is larger than its body");
    c->text[0] = 0;
    return AS_STATUS_OK;
}
