#include "wire/grpc/grpc_call.h"

#include "base/be.h"

#include <stdarg.h>

uint32_t as_grpc_call_fields(struct as_http_header out[AS_GRPC_CALL_FIELDS], struct as_str scheme,
                             struct as_str path, struct as_str authority, struct as_str user_agent,
                             struct as_str timeout)
{
    const struct as_http_header fields[AS_GRPC_CALL_FIELDS] = {
        {AS_STR(":method"), AS_STR("POST")},
        {AS_STR(":scheme"), scheme},
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
    c->expected = NULL;
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

/* The number that the value is, or `other` if it is none up to `most`. */
static uint32_t number(struct as_str value, uint32_t most, uint32_t other)
{
    uint64_t v;

    return as_str_u64(value, &v) == 0 && v <= most ? (uint32_t)v : other;
}

void as_grpc_call_field(struct as_grpc_call *c, struct as_str name, struct as_str value)
{
    switch (name.n) {
    case 7:
        if (as_str_eq(name, AS_STR(":status")))
            c->http_status = as_str_eq(value, AS_STR("200")) ? 200 : number(value, 999, 0);
        break;
    case 11:
        if (as_str_eq(name, AS_STR("grpc-status"))) {
            c->has_status = true;
            c->status = as_str_eq(value, AS_STR("0"))
                            ? AS_STATUS_OK
                            : number(value, AS_STATUS_UNAUTHENTICATED, AS_STATUS_UNKNOWN);
        }
        break;
    case 12:
        if (as_str_eq(name, AS_STR("content-type")))
            c->is_grpc = as_grpc_is_content_type(value);
        else if (as_str_eq(name, AS_STR("grpc-message")))
            decode_text(c->text, value);
        break;
    default:
        break;
    }
}

static int set_fault(struct as_grpc_call *c, uint32_t status, const char *fault)
{
    c->fault = fault;
    c->fault_status = status;
    return AS_EPROTO;
}

void as_grpc_call_compare(struct as_grpc_call *c, const struct as_str *expected)
{
    c->expected = expected;
    c->n_equal = 0;
    c->differs = false;
}

bool as_grpc_call_is_expected(const struct as_grpc_call *c)
{
    return !c->differs && c->n_equal == c->expected->n;
}

static void take_bytes(struct as_grpc_call *c, const uint8_t *p, size_t n)
{
    if (!c->expected) {
        as_buf_add(&c->message, p, n);
    } else if (c->differs || n > c->expected->n - c->n_equal ||
               (n && memcmp(c->expected->p + c->n_equal, p, n) != 0)) {
        c->differs = true;
    } else {
        c->n_equal += n;
    }
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

/* The first bytes of an answer are its only message, not compressed and within the limit. */
static bool is_whole(const struct as_grpc_call *c, const uint8_t *p, size_t n)
{
    return !c->on_message && !c->reader.messages && !c->reader.n_prefix && n >= AS_GRPC_PREFIX &&
           !p[0] && as_be_get32(p + 1) == n - AS_GRPC_PREFIX && n - AS_GRPC_PREFIX <= c->limit;
}

static int read_pieces(struct as_grpc_call *c, const uint8_t *p, size_t n)
{
    const uint8_t *bytes;
    bool compressed = false;
    uint64_t len;

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
            take_bytes(c, bytes, (size_t)len);
            deliver_message(c);
            break;
        }
    }
}

int as_grpc_call_data(struct as_grpc_call *c, const uint8_t *p, size_t n)
{
    if (c->http_status != 200 || !c->is_grpc || c->fault)
        return c->fault ? AS_EPROTO
                        : 0; /* the body of an HTTP error is ignored: its status is enough */
    if (!is_whole(c, p, n))
        return read_pieces(c, p, n);
    c->reader.messages = 1;
    c->pending = true;
    take_bytes(c, p + AS_GRPC_PREFIX, n - AS_GRPC_PREFIX);
    return 0;
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
