/* tests/unit/support/h2_raw.h — frames that a test builds for an as_h2 server, and the server's
 * frames as text.
 */
#ifndef AS_TESTS_H2_RAW_H
#define AS_TESTS_H2_RAW_H

#include "h2_pair.h"

static void raw(struct pair *t, uint8_t type, uint8_t flags, uint32_t stream, const void *payload,
                size_t n)
{
    uint8_t frame[9 + 512] = {0};

    assert_true(n <= 512 && stream < 65536);
    frame[1] = (uint8_t)(n >> 8);
    frame[2] = (uint8_t)n;
    frame[3] = type;
    frame[4] = flags;
    frame[7] = (uint8_t)(stream >> 8);
    frame[8] = (uint8_t)stream;
    if (n)
        memcpy(frame + 9, payload, n);
    pair_feed(t, frame, 9 + n);
}

/* A literal field, which does not change the compression table. */
AS_UNUSED static size_t literal(uint8_t *to, const char *name, const char *value)
{
    size_t a = strlen(name), b = strlen(value);

    to[0] = 0;
    to[1] = (uint8_t)a;
    memcpy(to + 2, name, a);
    to[2 + a] = (uint8_t)b;
    memcpy(to + 3 + a, value, b);
    return 3 + a + b;
}

AS_UNUSED static void raw_request(struct pair *t, uint32_t stream, uint8_t flags, const char *name,
                                  const char *value)
{
    uint8_t block[256];
    size_t n = literal(block, ":method", "POST");

    n += literal(block + n, ":scheme", "http");
    n += literal(block + n, ":path", "/m");
    n += literal(block + n, ":authority", "host");
    n += literal(block + n, name, value);
    raw(t, NGHTTP2_HEADERS, flags | NGHTTP2_FLAG_END_HEADERS, stream, block, n);
}

/* The frames that the server sends, as "R3:1 " (RST_STREAM of 3, code 1), "G:1 " (GOAWAY), "H3 ".
 */
static const char *sent(struct pair *t)
{
    static char text[512];
    struct as_buf all = {0};
    struct iovec iov[64];
    size_t w = 0;

    text[0] = 0;
    t->send_rc = as_h2_send(t->h, &t->q, 1 << 20);
    for (int k = as_outq_iov(&t->q, iov, 64), i = 0; i < k; i++)
        as_buf_add(&all, iov[i].iov_base, iov[i].iov_len);
    as_outq_drop(&t->q, t->q.bytes);
    for (const uint8_t *p = all.p; p && p < all.p + all.n;) {
        size_t n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];

        if (p[3] == NGHTTP2_RST_STREAM)
            w += (size_t)snprintf(text + w, sizeof(text) - w, "R%u:%u ", p[7] << 8 | p[8], p[12]);
        else if (p[3] == NGHTTP2_GOAWAY)
            w += (size_t)snprintf(text + w, sizeof(text) - w, "G:%u ", p[9 + 7]);
        else if (p[3] == NGHTTP2_HEADERS)
            w += (size_t)snprintf(text + w, sizeof(text) - w, "H%u ", p[7] << 8 | p[8]);
        p += 9 + n;
    }
    as_buf_fini(&all);
    return text;
}

static struct pair *pair_greeted(void)
{
    struct pair *t = pair_new();

    t->mode = PAIR_HOLD;
    pair_pump(t);
    return t;
}

#endif
