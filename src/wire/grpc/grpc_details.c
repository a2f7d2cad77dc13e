#include "wire/grpc/grpc_details.h"

#include "wire/grpc/grpc.h"
#include "wire/name_check.h"
#include "wire/protobuf/pb.h"

#define FIELD_MAX   160u
#define RETRY_INFO  "type.googleapis.com/google.rpc.RetryInfo"
#define BAD_REQUEST "type.googleapis.com/google.rpc.BadRequest"
#define INPUTS      "inputs."

/* Maximum size of a Status without the bytes of its one detail. */
#define STATUS_MAX (AS_GRPC_DETAILS_TEXT_MAX + 128)
#define RAW_MAX    (STATUS_MAX + AS_GRPC_DETAILS_TEXT_MAX + FIELD_MAX + 64)
_Static_assert(AS_GRPC_BIN_CHARS(RAW_MAX) <= AS_GRPC_DETAILS_MAX, "the value has room");

static uint8_t *put_uint(uint8_t *p, uint32_t number, uint64_t v)
{
    *p++ = AS_PB_TAG(number, AS_PB_VARINT);
    return as_pb_put_varint(p, v);
}

/* Encodes a Status with one detail, as base64. */
static struct as_str encode_status(char *out, uint32_t status, struct as_str text,
                                   struct as_str type, struct as_str detail)
{
    uint8_t raw[RAW_MAX], *p = raw;

    p = put_uint(p, 1, status);
    p = as_pb_put_opt(p, 2, text);
    p = as_pb_put_head(p, 3, as_pb_len_len(type.n) + as_pb_len_len(detail.n));
    p = as_pb_put_str(p, 1, type);
    p = as_pb_put_str(p, 2, detail);
    as_grpc_encode_bin(out, raw, (size_t)(p - raw));
    return (struct as_str){out, AS_GRPC_BIN_CHARS((size_t)(p - raw))};
}

static bool fits_details(struct as_str text)
{
    return text.n <= AS_GRPC_DETAILS_TEXT_MAX && as_name_check_utf8(text);
}

struct as_str as_grpc_details_retry(char *out, uint32_t status, struct as_str text, as_ns delay)
{
    uint8_t duration[24], info[32], *p = duration, *q = info;

    if (!fits_details(text))
        return (struct as_str){0};
    if (delay / AS_SEC)
        p = put_uint(p, 1, delay / AS_SEC);
    if (delay % AS_SEC)
        p = put_uint(p, 2, delay % AS_SEC);
    q = as_pb_put_str(q, 1, (struct as_str){(const char *)duration, (size_t)(p - duration)});
    return encode_status(out, status, text, AS_STR(RETRY_INFO),
                         (struct as_str){(const char *)info, (size_t)(q - info)});
}

struct as_str as_grpc_details_field(struct as_str text, bool *ret_is_input)
{
    static const char input[] = "input '";
    size_t n = sizeof(input) - 1;

    *ret_is_input = text.n > n && memcmp(text.p, input, n) == 0;
    if (*ret_is_input) {
        for (size_t i = n; i + 1 < text.n; i++) {
            if (text.p[i] == '\'' && (text.p[i + 1] == ':' || text.p[i + 1] == ' '))
                return (struct as_str){text.p + n, i - n};
        }
        return (struct as_str){0};
    }
    for (size_t i = 0; i + 1 < text.n; i++) {
        if (text.p[i] == ':')
            return (struct as_str){text.p, i};
        if (text.p[i] == ' ')
            break;
    }
    return (struct as_str){0};
}

struct as_str as_grpc_details_violation(char *out, uint32_t status, struct as_str text)
{
    bool is_input;
    struct as_str name = as_grpc_details_field(text, &is_input);
    size_t prefix = is_input ? sizeof(INPUTS) - 1 : 0, field = prefix + name.n;
    uint8_t request[AS_GRPC_DETAILS_TEXT_MAX + FIELD_MAX + 32], *p = request;

    if (!name.n || field > FIELD_MAX || !fits_details(text) || !as_name_check_utf8(name))
        return (struct as_str){0};
    p = as_pb_put_head(p, 1, as_pb_len_len(field) + as_pb_len_len(text.n));
    p = as_pb_put_head(p, 1, field);
    memcpy(p, INPUTS, prefix);
    memcpy(p + prefix, name.p, name.n);
    p = as_pb_put_str(p + field, 2, text);
    return encode_status(out, status, text, AS_STR(BAD_REQUEST),
                         (struct as_str){(const char *)request, (size_t)(p - request)});
}
