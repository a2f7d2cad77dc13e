#include "wire/grpc/grpc_call.h"

#include <stdarg.h>

uint32_t as_grpc_call_fields(struct as_http_header out[AS_GRPC_CALL_FIELDS], struct as_str path,
                             struct as_str authority, struct as_str user_agent,
                             struct as_str timeout)
{
    const struct as_http_header fields[AS_GRPC_CALL_FIELDS] = {
        {AS_STR(":method"), AS_STR("POST")},
        {AS_STR(":scheme"), AS_STR("http")},
        {AS_STR(":path"), path},
        {AS_STR(":authority"), authority},
        {AS_STR("te"), AS_STR("trailers")},
        {AS_STR("content-type"), AS_STR("application/grpc")},
        {AS_STR("user-agent"), user_agent},
        {AS_STR("grpc-timeout"), timeout},
    };

    memcpy(out, fields, sizeof(fields));
    return AS_GRPC_CALL_FIELDS - (timeout.n ? 0 : 1);
}

void as_grpc_put_timeout(char out[AS_GRPC_TIMEOUT_MAX], as_ns timeout)
{
    static const struct {
        as_ns unit;
        char name;
    } units[] = {{1, 'n'},      {AS_US, 'u'},       {AS_MS, 'm'},
                 {AS_SEC, 'S'}, {60 * AS_SEC, 'M'}, {3600 * AS_SEC, 'H'}};

    for (size_t i = 0; i < AS_COUNT(units); i++) {
        as_ns v = timeout / units[i].unit + (timeout % units[i].unit != 0);

        if (v <= 99999999) {
            snprintf(out, AS_GRPC_TIMEOUT_MAX, "%u%c", (unsigned)v, units[i].name);
            return;
        }
    }
}

void as_grpc_put_bin(struct as_buf *out, struct as_str v)
{
    size_t n = AS_GRPC_BIN_CHARS(v.n);

    as_grpc_encode_bin((char *)as_buf_reserve(out, n), (const uint8_t *)v.p, v.n);
    out->n += n;
}

void as_grpc_call_begin(struct as_grpc_call *c, size_t limit)
{
    c->message.n = 0;
    c->limit = limit;
    c->reader = (struct as_grpc_reader){0};
    c->on_message = NULL;
    c->pending = false;
    c->http_status = 0;
    c->is_grpc = c->has_status = false;
    c->status = AS_STATUS_OK;
    c->fault = NULL;
    c->fault_status = AS_STATUS_OK;
    c->text[0] = 0;
}

void as_grpc_call_expect_stream(struct as_grpc_call *c,
                                void (*on_message)(void *ctx, struct as_grpc_call *c), void *ctx)
{
    c->on_message = on_message;
    c->ctx = ctx;
}

void as_grpc_call_fini(struct as_grpc_call *c)
{
    as_buf_fini(&c->message);
}

/* Decodes a grpc-message: %XX stands for a byte; invalid escapes are copied. */
static void decode_text(char out[AS_GRPC_CALL_TEXT], struct as_str v)
{
    size_t w = 0;

    for (size_t i = 0; i < v.n && w + 1 < AS_GRPC_CALL_TEXT; i++) {
        int escaped = as_str_percent((struct as_str){v.p + i, v.n - i});
        char c = escaped < 0 ? v.p[i] : (char)escaped;

        i += escaped < 0 ? 0 : 2;
        out[w++] = c ? c : '?';
    }
    out[w] = 0;
}

void as_grpc_call_field(struct as_grpc_call *c, struct as_str name, struct as_str value)
{
    uint64_t v;

    if (as_str_eq(name, AS_STR(":status"))) {
        c->http_status = as_str_u64(value, &v) == 0 && v < 1000 ? (uint32_t)v : 0;
    } else if (as_str_eq(name, AS_STR("content-type"))) {
        c->is_grpc = as_grpc_is_content_type(value);
    } else if (as_str_eq(name, AS_STR("grpc-status"))) {
        c->has_status = true;
        c->status = as_str_u64(value, &v) == 0 && v <= AS_STATUS_UNAUTHENTICATED
                        ? (uint32_t)v
                        : AS_STATUS_UNKNOWN;
    } else if (as_str_eq(name, AS_STR("grpc-message"))) {
        decode_text(c->text, value);
    }
}

static int set_fault(struct as_grpc_call *c, uint32_t status, const char *fault)
{
    c->fault = fault;
    c->fault_status = status;
    return AS_EPROTO;
}

/* For a stream: hands over the message if it is complete. */
static void deliver_message(struct as_grpc_call *c)
{
    if (!c->on_message || !c->pending || !as_grpc_at_boundary(&c->reader))
        return;
    c->pending = false;
    c->on_message(c->ctx, c);
    c->message.n = 0;
}

int as_grpc_call_data(struct as_grpc_call *c, const uint8_t *p, size_t n)
{
    const uint8_t *bytes;
    bool compressed = false;
    uint64_t len;

    if (c->http_status != 200 || !c->is_grpc || c->fault)
        return c->fault ? AS_EPROTO
                        : 0; /* the body of an HTTP error is ignored: its status is enough */
    for (;;) {
        switch (as_grpc_read(&c->reader, &p, &n, &bytes, &len, &compressed)) {
        case AS_GRPC_MORE:
            return 0;
        case AS_GRPC_BAD:
            return set_fault(c, AS_STATUS_INTERNAL, "the answer is not framed as gRPC");
        case AS_GRPC_MESSAGE:
            if (c->reader.messages > 1 && !c->on_message)
                return set_fault(c, AS_STATUS_INTERNAL, "more than one message came");
            if (compressed)
                return set_fault(c, AS_STATUS_INTERNAL,
                                 "the message is compressed, which was not asked for");
            if (len > c->limit)
                return set_fault(c, AS_STATUS_RESOURCE_EXHAUSTED,
                                 "the answer is larger than the limit");
            c->pending = true;
            deliver_message(c); /* for a message without bytes */
            break;
        case AS_GRPC_BYTES:
            as_buf_add(&c->message, bytes, (size_t)len);
            deliver_message(c);
            break;
        }
    }
}

static uint32_t status_of_http(uint32_t http)
{
    switch (http) {
    case 400:
        return AS_STATUS_INTERNAL;
    case 401:
        return AS_STATUS_UNAUTHENTICATED;
    case 403:
        return AS_STATUS_PERMISSION_DENIED;
    case 404:
        return AS_STATUS_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return AS_STATUS_UNAVAILABLE;
    default:
        return AS_STATUS_UNKNOWN;
    }
}

/* The error codes of RFC 9113 in order, and the gRPC status for each. */
static const struct {
    const char *name;
    uint32_t status;
} reset_codes[] = {
    {"NO_ERROR", AS_STATUS_INTERNAL},
    {"PROTOCOL_ERROR", AS_STATUS_INTERNAL},
    {"INTERNAL_ERROR", AS_STATUS_INTERNAL},
    {"FLOW_CONTROL_ERROR", AS_STATUS_INTERNAL},
    {"SETTINGS_TIMEOUT", AS_STATUS_INTERNAL},
    {"STREAM_CLOSED", AS_STATUS_INTERNAL},
    {"FRAME_SIZE_ERROR", AS_STATUS_INTERNAL},
    {"REFUSED_STREAM", AS_STATUS_UNAVAILABLE},
    {"CANCEL", AS_STATUS_CANCELLED},
    {"COMPRESSION_ERROR", AS_STATUS_INTERNAL},
    {"CONNECT_ERROR", AS_STATUS_INTERNAL},
    {"ENHANCE_YOUR_CALM", AS_STATUS_RESOURCE_EXHAUSTED},
    {"INADEQUATE_SECURITY", AS_STATUS_PERMISSION_DENIED},
    {"HTTP_1_1_REQUIRED", AS_STATUS_UNKNOWN},
};

AS_PRINTF(3, 4)
static uint32_t set_text(struct as_grpc_call *c, uint32_t status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(c->text, sizeof(c->text), fmt, ap);
    va_end(ap);
    return status;
}

uint32_t as_grpc_call_end(struct as_grpc_call *c, uint32_t code, bool whole)
{
    if (c->fault)
        return set_text(c, c->fault_status, "%s", c->fault);
    if (c->has_status && c->status != AS_STATUS_OK)
        return c->status;
    if (!whole) {
        size_t i = code < AS_COUNT(reset_codes) ? code : 2;

        return set_text(c, reset_codes[i].status, "the stream was reset: %s", reset_codes[i].name);
    }
    if (c->http_status != 200 && !c->has_status)
        return set_text(c, status_of_http(c->http_status),
                        "HTTP status %u instead of a gRPC answer", c->http_status);
    if (!c->is_grpc)
        return set_text(c, AS_STATUS_UNKNOWN, "the answer's content-type is not application/grpc");
    if (!c->has_status)
        return set_text(c, AS_STATUS_UNKNOWN, "the answer has no grpc-status");
    if ((!c->reader.messages && !c->on_message) || !as_grpc_at_boundary(&c->reader))
        return set_text(c, AS_STATUS_INTERNAL,
                        c->reader.messages || c->on_message ? "the message was cut short"
                                                            : "status OK without a message");
    c->text[0] = 0;
    return AS_STATUS_OK;
}
