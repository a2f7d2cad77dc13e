/* bench/load_call.c — see the header. */
#include "load_call.h"

/* Whole numbers below 2^20: a float holds them, and their sums with the shape's own, exactly. */
void as_load_call_stamp(struct as_load_call *call, const struct as_load_shape *s, uint64_t number)
{
    float v[2] = {(float)(number & 0xfffff), (float)(number >> 20 & 0xfffff)};

    memcpy(call->stamp, v, sizeof(v));
    v[0] += s->stamp_add[0];
    v[1] += s->stamp_add[1];
    memcpy(call->answer, v, sizeof(v));
}

void as_load_call_copy_body(const struct as_load_call *call, const struct as_load_shape *s,
                            size_t at, size_t n, uint8_t *out)
{
    size_t stamp_at = s->body.n - s->payload;

    memcpy(out, s->body.p + at, n);
    for (size_t i = 0; i < AS_LOAD_STAMP; i++)
        if (stamp_at + i >= at && stamp_at + i < at + n)
            out[stamp_at + i - at] = call->stamp[i];
}

void as_load_call_take_head(struct as_load_call *call, const struct as_load_head *head)
{
    if (head->http_status != AS_LOAD_NO_STATUS) {
        call->http_status = head->http_status;
        call->is_grpc = head->is_grpc;
    }
    if (head->grpc_status != AS_LOAD_NO_STATUS)
        call->grpc_status = head->grpc_status;
}

/* The answer's tensor is the last thing in its message: compare those bytes as they come. */
static void compare(struct as_load_call *call, const struct as_load_shape *s, const uint8_t *p,
                    uint64_t n)
{
    uint64_t end = AS_LOAD_PREFIX + call->want;
    uint64_t begin = end - s->payload; /* of the tensor in the body */
    uint64_t skip, at;

    /* A message of the wrong size is refused by the verdict. */
    if (call->want < s->payload || call->got + n <= begin || call->got + n > end)
        return;
    skip = call->got < begin ? begin - call->got : 0;
    at = call->got + skip - begin;
    p += skip;
    n -= skip;
    for (; at < AS_LOAD_STAMP && n; at++, p++, n--)
        call->differs |= *p != call->answer[at];
    call->differs |= memcmp(p, s->answer + at, n) != 0;
}

void as_load_call_take_body(struct as_load_call *call, const struct as_load_shape *s,
                            const uint8_t *p, size_t n)
{
    if (call->got < AS_LOAD_PREFIX) {
        size_t k = AS_MIN(n, AS_LOAD_PREFIX - call->got);

        memcpy(call->prefix + call->got, p, k);
        call->got += k;
        p += k;
        n -= k;
        if (call->got == AS_LOAD_PREFIX)
            for (size_t i = 1; i < AS_LOAD_PREFIX; i++)
                call->want = call->want << 8 | call->prefix[i];
    }
    if (n) {
        compare(call, s, p, n);
        call->got += n;
    }
}

const char *as_load_call_judge(const struct as_load_call *call, const struct as_load_shape *s)
{
    if (call->http_status != 200)
        return "HTTP status is not 200";
    if (call->grpc_status != 0)
        return "grpc-status is not 0";
    if (!call->is_grpc)
        return "content-type is not application/grpc";
    if (call->got < AS_LOAD_PREFIX || call->got != AS_LOAD_PREFIX + call->want || call->prefix[0])
        return "the body is not one uncompressed message";
    if (call->want < s->payload || call->differs)
        return "the tensor that came back is not the right one";
    return call->sent < s->body.n ? "answered before the request was complete" : NULL;
}
