#include "wire/grpc/grpc.h"

#include "base/be.h"

#include <string.h>

enum as_grpc_step as_grpc_read(struct as_grpc_reader *r, const uint8_t **p, size_t *n,
                               const uint8_t **ret_p, uint64_t *ret_len, bool *ret_compressed)
{
    size_t take;

    if (r->left) {
        if (*n == 0)
            return AS_GRPC_MORE;
        take = r->left < *n ? (size_t)r->left : *n;
        *ret_p = *p;
        *ret_len = take;
        *p += take;
        *n -= take;
        r->left -= take;
        return AS_GRPC_BYTES;
    }
    take = AS_MIN(AS_GRPC_PREFIX - (size_t)r->n_prefix, *n);
    if (take == 0)
        return AS_GRPC_MORE;
    memcpy(r->prefix + r->n_prefix, *p, take);
    *p += take;
    *n -= take;
    r->n_prefix = (uint8_t)(r->n_prefix + take);
    /* Checked before the prefix is complete: a peer that speaks another protocol gets its error at
     * once. */
    if (r->prefix[0] > 1)
        return AS_GRPC_BAD;
    if (r->n_prefix < AS_GRPC_PREFIX)
        return AS_GRPC_MORE;
    r->n_prefix = 0;
    r->left = as_be_get32(r->prefix + 1);
    if (r->messages <
        UINT32_MAX) /* a client can send very many empty messages, of five bytes each */
        r->messages++;
    *ret_len = r->left;
    *ret_compressed = r->prefix[0] == 1;
    return AS_GRPC_MESSAGE;
}

bool as_grpc_at_boundary(const struct as_grpc_reader *r)
{
    return r->n_prefix == 0 && r->left == 0;
}

void as_grpc_prefix(uint8_t out[AS_GRPC_PREFIX], uint32_t len)
{
    out[0] = 0;
    as_be_put32(out + 1, len);
}

int as_grpc_timeout(struct as_str value, as_ns *ret_timeout)
{
    uint64_t v, unit;

    if (value.n < 2 || value.n > 9)
        return AS_EINVALID;
    switch (value.p[value.n - 1]) {
    case 'H':
        unit = 3600 * AS_SEC;
        break;
    case 'M':
        unit = 60 * AS_SEC;
        break;
    case 'S':
        unit = AS_SEC;
        break;
    case 'm':
        unit = AS_MS;
        break;
    case 'u':
        unit = AS_US;
        break;
    case 'n':
        unit = 1;
        break;
    default:
        return AS_EINVALID;
    }
    if (as_str_u64((struct as_str){value.p, value.n - 1}, &v))
        return AS_EINVALID;
    /* 8 digits of hours are up to 3.6e20 ns, more than 64 bits hold */
    if (__builtin_mul_overflow(v, unit, &v) || v >= AS_NEVER)
        v = AS_NEVER - 1;
    *ret_timeout = v;
    return 0;
}

/* The length of the UTF-8 sequence that begins with this byte; 1 if none does. */
static size_t sequence_len(uint8_t c)
{
    if (c >= 0xf0 && c <= 0xf4)
        return 4;
    if (c >= 0xe0 && c < 0xf0)
        return 3;
    return c >= 0xc2 && c < 0xe0 ? 2 : 1;
}

/* A field's value must neither begin nor end with a space (RFC 9113 §8.2.1): strict peers drop such
 * a field or reset the stream. */
static bool is_plain(struct as_str text, size_t i)
{
    uint8_t c = (uint8_t)text.p[i];

    return c == ' ' ? i > 0 && i + 1 < text.n : c > 0x20 && c <= 0x7e && c != '%';
}

size_t as_grpc_encode_message(char *out, size_t max, struct as_str text)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t w = 0;

    for (size_t i = 0; i < text.n;) {
        uint8_t c = (uint8_t)text.p[i];
        size_t len = 1;

        if (is_plain(text, i)) {
            if (w == max)
                break;
            out[w++] = (char)c;
            i++;
            continue;
        }
        /* A sequence is written completely or not at all; an invalid one byte by byte. */
        for (size_t want = sequence_len(c); len < want && i + len < text.n; len++) {
            if (((uint8_t)text.p[i + len] & 0xc0) != 0x80)
                break;
        }
        if (max - w < 3 * len)
            break;
        for (size_t end = i + len; i < end; i++) {
            out[w++] = '%';
            out[w++] = hex[(uint8_t)text.p[i] >> 4];
            out[w++] = hex[(uint8_t)text.p[i] & 15];
        }
    }
    while (w && out[w - 1] == ' ') /* the text was cut after a space */
        w--;
    return w;
}

bool as_grpc_is_content_type(struct as_str v)
{
    static const char base[] = "application/grpc";
    size_t n = sizeof(base) - 1;

    if (v.n < n || memcmp(v.p, base, n) != 0)
        return false;
    if (v.n == n || v.p[n] == ';')
        return true;
    /* grpc-web and other codecs begin with the same text, but are not supported */
    if (v.n < n + 6 || memcmp(v.p + n, "+proto", 6) != 0)
        return false;
    return v.n == n + 6 || v.p[n + 6] == ';';
}

bool as_grpc_is_reserved(struct as_str key)
{
    if (key.n == 0 || key.p[0] == ':')
        return true;
    if (key.n >= 5 && memcmp(key.p, "grpc-", 5) == 0)
        return !as_str_eq(key, AS_STR("grpc-previous-rpc-attempts")) &&
               !as_str_eq(key, AS_STR("grpc-retry-pushback-ms"));
    return as_str_eq(key, AS_STR("te")) || as_str_eq(key, AS_STR("content-type"));
}

static int digit64(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool as_grpc_next_bin(struct as_str *rest, struct as_str *ret_value)
{
    const char *comma;
    struct as_str v = *rest;

    if (!rest->p) /* p == NULL marks the end; an empty value has a p */
        return false;
    comma = v.n ? memchr(v.p, ',', v.n) : NULL;
    *rest = (struct as_str){0};
    if (comma) {
        *rest = (struct as_str){comma + 1, v.n - (size_t)(comma + 1 - v.p)};
        v.n = (size_t)(comma - v.p);
    }
    while (v.n && (v.p[0] == ' ' || v.p[0] == '\t'))
        v = (struct as_str){v.p + 1, v.n - 1};
    while (v.n && (v.p[v.n - 1] == ' ' || v.p[v.n - 1] == '\t'))
        v.n--;
    *ret_value = v;
    return true;
}

int as_grpc_decode_bin(struct as_str v, uint8_t *out, size_t *ret_n)
{
    uint32_t acc = 0;
    uint8_t *w = out;
    size_t n = v.n;

    if (n && n % 4 == 0) { /* padding is complete or absent */
        n -= v.p[n - 1] == '=';
        n -= n < v.n && v.p[n - 1] == '=';
    }
    if (n % 4 == 1)
        return AS_EINVALID;
    for (size_t i = 0; i < n; i++) {
        int d = digit64(v.p[i]);

        if (d < 0)
            return AS_EINVALID;
        acc = acc << 6 | (uint32_t)d;
        if (i % 4) /* every digit except the first of a group completes a byte */
            *w++ = (uint8_t)(acc >> (6 - 2 * (i % 4)));
    }
    *ret_n = (size_t)(w - out);
    return 0;
}

void as_grpc_encode_bin(char *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t bit = 0; bit < 8 * n; bit += 6) {
        uint32_t two = (uint32_t)p[bit / 8] << 8 | (bit / 8 + 1 < n ? p[bit / 8 + 1] : 0u);

        *out++ = digits[two >> (10 - bit % 8) & 63];
    }
}
