#include "wire/frame/body.h"

#include "base/err.h"
#include "wire/frame/frame_le.h"
#include "wire/name_check.h"

#define BODY_MAX AS_MSG_BODY_MAX

static_assert(AS_BODY_ALIGN == AS_FRAME_ALIGN, "a body is aligned in its frame");

uint64_t as_body_head_len(const struct as_body *b)
{
    return AS_BODY_FIXED + 8 * ((uint64_t)b->n_buffers + b->n_parts) + AS_ALIGN(b->method.n, 8);
}

/* Adds n slices at the next multiples of 64. */
static bool add_slices(uint64_t *len, const struct as_str *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (*len > BODY_MAX - AS_BODY_ALIGN || s[i].n > BODY_MAX - AS_BODY_ALIGN - *len)
            return false;
        *len = AS_ALIGN(*len, AS_BODY_ALIGN) + s[i].n;
    }
    return true;
}

uint64_t as_body_len(const struct as_body *b)
{
    uint64_t len = as_body_head_len(b);

    if (b->n_buffers > AS_BODY_BUFFERS || b->n_parts > AS_BODY_PARTS ||
        b->method.n > AS_BODY_METHOD || b->data.n > BODY_MAX - len)
        return UINT64_MAX;
    len += b->data.n;
    return add_slices(&len, b->buffers, b->n_buffers) && add_slices(&len, b->parts, b->n_parts)
               ? len
               : UINT64_MAX;
}

void as_body_write_head(const struct as_body *b, uint8_t *p)
{
    size_t room = AS_ALIGN(b->method.n, 8);

    p[0] = b->codec;
    p[1] = b->flags;
    put16(p + 2, (uint16_t)b->method.n);
    put32(p + 4, b->n_buffers);
    put64(p + 8, b->data.n);
    put32(p + 16, b->n_parts);
    put32(p + 20, 0);
    p += AS_BODY_FIXED;
    for (uint32_t i = 0; i < b->n_buffers; i++, p += 8)
        put64(p, b->buffers[i].n);
    for (uint32_t i = 0; i < b->n_parts; i++, p += 8)
        put64(p, b->parts[i].n);
    if (room) {
        put64(p + room - 8, 0);
        memcpy(p, b->method.p, b->method.n);
    }
}

static uint8_t *write_slice(uint8_t *start, uint8_t *p, struct as_str s)
{
    size_t gap = -(size_t)(p - start) % AS_BODY_ALIGN;

    memset(p, 0, gap);
    if (s.n)
        memcpy(p + gap, s.p, s.n);
    return p + gap + s.n;
}

void as_body_write(const struct as_body *b, uint8_t *p)
{
    uint8_t *at = p + as_body_head_len(b);

    as_body_write_head(b, p);
    if (b->data.n)
        memcpy(at, b->data.p, b->data.n);
    at += b->data.n;
    for (uint32_t i = 0; i < b->n_buffers; i++)
        at = write_slice(p, at, b->buffers[i]);
    for (uint32_t i = 0; i < b->n_parts; i++)
        at = write_slice(p, at, b->parts[i]);
}

struct as_str as_body_method(const uint8_t *p)
{
    uint64_t n = (uint64_t)get32(p + 4) + get32(p + 16);

    return (struct as_str){(const char *)p + AS_BODY_FIXED + 8 * n, get16(p + 2)};
}

static int refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return AS_EPROTO;
}

static bool is_zero(const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (p[i])
            return false;
    }
    return true;
}

/* The fixed part, the lengths and the method; the body has n >= AS_BODY_FIXED bytes. *ret_at: the
 * offset of the data's end. */
static int check_head(const uint8_t *p, uint64_t n, bool answer, uint64_t *ret_at,
                      const char **ret_why)
{
    uint32_t buffers = get32(p + 4), parts = get32(p + 16);
    uint64_t method = get16(p + 2), data = get64(p + 8), at;

    if (p[0] != AS_BODY_PICKLE && p[0] != AS_BODY_BYTES)
        return refuse(ret_why, "body: unknown codec");
    if (p[1] & ~(answer ? AS_BODY_F_EXCEPTION : 0u) || get32(p + 20))
        return refuse(ret_why, "body: reserved bits are set");
    if (answer && method)
        return refuse(ret_why, "body: an answer names a method");
    if (buffers > AS_BODY_BUFFERS || parts > AS_BODY_PARTS || method > AS_BODY_METHOD)
        return refuse(ret_why, "body: a count is over its limit");
    at = AS_BODY_FIXED + 8 * ((uint64_t)buffers + parts);
    if (at + AS_ALIGN(method, 8) > n)
        return refuse(ret_why, "body: cut short");
    if (!is_zero(p + at + method, AS_ALIGN(method, 8) - method) ||
        !as_name_check_line((struct as_str){(const char *)p + at, (size_t)method}))
        return refuse(ret_why, "body: the method is not a line of UTF-8, padded with zeros");
    at += AS_ALIGN(method, 8);
    if (data > n - at)
        return refuse(ret_why, "body: its data is longer than the body");
    *ret_at = at + data;
    return 0;
}

/* Finds the next slice of `len` bytes behind *at, which advances to its end. */
static int next_slice(const uint8_t *p, uint64_t n, uint64_t len, uint64_t *at,
                      const uint8_t **ret_s, const char **ret_why)
{
    uint64_t from = AS_ALIGN(*at, AS_BODY_ALIGN);

    if (from > n || len > n - from)
        return refuse(ret_why, "body: a buffer or a part ends behind the body");
    if (!is_zero(p + *at, from - *at))
        return refuse(ret_why, "body: a gap is not filled with zeros");
    *ret_s = p + from;
    *at = from + len;
    return 0;
}

static int check(const uint8_t *p, uint64_t n, bool answer, uint32_t depth, const char **ret_why)
{
    uint32_t buffers, count;
    const uint8_t *s;
    uint64_t at;
    int err;

    if (n < AS_BODY_FIXED || n > BODY_MAX)
        return refuse(ret_why, "body: cut short");
    err = check_head(p, n, answer, &at, ret_why);
    if (err)
        return err;
    buffers = get32(p + 4);
    count = buffers + get32(p + 16);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t len = get64(p + AS_BODY_FIXED + 8 * (size_t)i);

        err = next_slice(p, n, len, &at, &s, ret_why);
        if (err)
            return err;
        if (i < buffers)
            continue;
        if (depth == AS_BODY_DEPTH)
            return refuse(ret_why, "body: its parts are nested too deep");
        err = check(s, len, true, depth + 1, ret_why);
        if (!err && s[1])
            err = refuse(ret_why, "body: a part is an exception");
        if (err)
            return err;
    }
    return at == n ? 0 : refuse(ret_why, "body: bytes behind its end");
}

int as_body_check(const uint8_t *p, uint64_t n, bool answer, const char **ret_why)
{
    *ret_why = "";
    return check(p, n, answer, 1, ret_why);
}

static bool is_valid_part(struct as_str s)
{
    const char *why;

    return s.n && !check((const uint8_t *)s.p, s.n, true, 2, &why) && !s.p[1];
}

bool as_body_is_valid(const struct as_body *b, bool answer)
{
    if ((b->codec != AS_BODY_PICKLE && b->codec != AS_BODY_BYTES) ||
        b->flags & ~(answer ? AS_BODY_F_EXCEPTION : 0u) || (answer && b->method.n) ||
        (b->n_buffers && !b->buffers) || (b->n_parts && !b->parts) ||
        as_body_len(b) == UINT64_MAX || !as_name_check_line(b->method))
        return false;
    for (uint32_t i = 0; i < b->n_parts; i++) {
        if (!is_valid_part(b->parts[i]))
            return false;
    }
    return true;
}

int as_body_get(const uint8_t *p, uint64_t n, bool answer, struct as_arena *a,
                struct as_body *ret_b, const char **ret_why)
{
    int err = as_body_check(p, n, answer, ret_why);
    struct as_str *slices = NULL, method;
    uint32_t buffers, count;
    uint64_t at, data;

    if (err)
        return err;
    buffers = get32(p + 4);
    count = buffers + get32(p + 16);
    data = get64(p + 8);
    if (count) {
        slices = as_arena_alloc(a, count * sizeof(*slices), _Alignof(struct as_str));
        if (!slices)
            return AS_ENOMEM;
    }
    method = as_body_method(p);
    at = AS_BODY_FIXED + 8 * (uint64_t)count + AS_ALIGN(method.n, 8);
    *ret_b = (struct as_body){.codec = p[0],
                              .flags = p[1],
                              .method = method,
                              .data = {(const char *)p + at, (size_t)data},
                              .n_buffers = buffers,
                              .n_parts = count - buffers,
                              .buffers = slices,
                              .parts = count > buffers ? slices + buffers : NULL};
    at += data;
    for (uint32_t i = 0; i < count; i++) {
        at = AS_ALIGN(at, AS_BODY_ALIGN);
        slices[i] =
            (struct as_str){(const char *)p + at, (size_t)get64(p + AS_BODY_FIXED + 8 * (size_t)i)};
        at += slices[i].n;
    }
    return 0;
}
