/* Any bytes as the body, timeout, message, metadata and compressed message of a call. A body and a
 * compressed message give the same result in any pieces; an encoded message decodes to a prefix of
 * the text; base64 can be decoded again.
 */
#include "base/buf.h"
#include "wire/grpc/grpc.h"
#include "wire/grpc/grpc_details.h"
#include "wire/http/gzip.h"

#define INFLATED_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Feeds the body in steps of `step` bytes; what comes out is written to `out` in one form. */
/* Checks what edge/exchange/exchange relies on: a message is announced before its bytes come, no
 * more bytes come than were announced, and each part lies in the input. */
static void read_body(const uint8_t *p, size_t n, size_t step, struct as_buf *out)
{
    struct as_grpc_reader r = {0};
    uint64_t announced = 0, got = 0;

    for (size_t at = 0; at < n; at += step) {
        const uint8_t *part = p + at, *q = NULL;
        size_t left = AS_MIN(step, n - at);
        enum as_grpc_step s;
        uint64_t len = 0;
        bool compressed = false;

        while ((s = as_grpc_read(&r, &part, &left, &q, &len, &compressed)) != AS_GRPC_MORE) {
            /* nothing follows: the call has ended */
            if (s == AS_GRPC_BAD) {
                as_buf_str(out, "bad");
                return;
            }
            if (s == AS_GRPC_MESSAGE) {
                /* no new message before the last one is whole */
                AS_ASSERT(announced == got);
                announced += len;
                as_buf_printf(out, "<%llu %d>", (unsigned long long)len, compressed);
            } else {
                AS_ASSERT(len > 0 && q >= p && q + len <= p + n);
                got += len;
                as_buf_add(out, q, (size_t)len);
            }
        }
        /* MORE means that all input was consumed: otherwise it would be passed twice */
        AS_ASSERT(left == 0 && got <= announced);
    }
    AS_ASSERT(!as_grpc_at_boundary(&r) || got == announced);
    as_buf_printf(out, "%s", as_grpc_at_boundary(&r) ? "." : "~");
}

/* Odd steps, so that the five bytes of the prefix are cut at every place. */
static void check_framing(const uint8_t *p, size_t n)
{
    struct as_buf whole = {0}, cut = {0};

    read_body(p, n, n + 1, &whole);
    for (size_t step = 1; step < 8; step += 2) {
        cut.n = 0;
        read_body(p, n, step, &cut);
        AS_ASSERT(as_str_eq(as_buf_slice(&whole), as_buf_slice(&cut)));
    }
    as_buf_fini(&whole);
    as_buf_fini(&cut);
}

/* Upper case only: gRPC's percent-encoding is written so, although both cases must be read. */
static uint8_t unhex(char c)
{
    AS_ASSERT((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'));
    return (uint8_t)(c <= '9' ? c - '0' : c - 'A' + 10);
}

/* grpc-message: printable ASCII on the wire for any text, and a prefix of the text when it is
 * decoded. Cut at `max`, never inside an escape. */
static void check_message(struct as_str text, size_t max)
{
    char *out = as_xalloc(max);
    size_t n = as_grpc_encode_message(out, max, text), k = 0, spaces = 0;

    AS_ASSERT(n <= max);
    AS_ASSERT(!n || (out[0] != ' ' && out[n - 1] != ' '));
    for (size_t i = 0; i < n; i++, k++) {
        uint8_t c = (uint8_t)out[i];

        AS_ASSERT(c >= 0x20 && c <= 0x7e);
        if (c == '%') {
            AS_ASSERT(i + 2 < n);
            c = (uint8_t)(unhex(out[i + 1]) << 4 | unhex(out[i + 2]));
            i += 2;
        }
        AS_ASSERT(k < text.n && (uint8_t)text.p[k] == c);
    }
    while (k + spaces < text.n && text.p[k + spaces] == ' ')
        spaces++;
    /* cut only if the rest has no room: four bytes of UTF-8 are twelve when escaped; spaces at the
     * end are dropped, too */
    AS_ASSERT(k == text.n || n + spaces + 12 > max);
    free(out);
}

/* Base64 of -bin headers, with and without padding. The encoder below is as simple as possible, so
 * that both do not have the same bug. */
static void check_bin(struct as_str value)
{
    uint8_t *out = as_xalloc(AS_GRPC_BIN_BYTES(value.n)), *again;
    size_t n = 0, m = 0;

    if (as_grpc_decode_bin(value, out, &n) == 0) {
        struct as_str text = {as_xalloc(AS_GRPC_BIN_CHARS(n)), AS_GRPC_BIN_CHARS(n)};

        AS_ASSERT(n <= AS_GRPC_BIN_BYTES(value.n));
        as_grpc_encode_bin((char *)(uintptr_t)text.p, out, n);
        again = as_xalloc(AS_GRPC_BIN_BYTES(text.n));
        AS_ASSERT(as_grpc_decode_bin(text, again, &m) == 0 && m == n);
        AS_ASSERT(memcmp(out, again, n) == 0);
        free(again);
        free((char *)(uintptr_t)text.p);
    }
    free(out);
}

static void check_list(struct as_str rest)
{
    struct as_str v, all = rest;
    size_t commas = 0, values = 0;

    for (size_t i = 0; i < all.n; i++)
        commas += all.p[i] == ',';
    while (as_grpc_next_bin(&rest, &v)) {
        AS_ASSERT(v.p >= all.p && v.p + v.n <= all.p + all.n);
        values++;
    }
    AS_ASSERT(!all.p || values == commas + 1);
}

/* A compressed message gives the same result in any pieces and with any room for the output. */
static bool inflate(enum as_gzip_format f, const uint8_t *p, size_t n, size_t in_step,
                    size_t out_step, struct as_buf *out)
{
    struct as_gzip *z;
    enum as_gzip_step r = AS_GZIP_MORE;

    AS_ASSERT(as_gzip_new(&z, f, true) == 0);
    while (r != AS_GZIP_END && r != AS_GZIP_BAD && r != AS_GZIP_NO_MEMORY &&
           out->n < INFLATED_MAX) {
        size_t part = AS_MIN(in_step, n), left = part, room = out_step;
        uint8_t *to = as_buf_reserve(out, out_step), *end = to;

        r = as_gzip_step(z, &p, &left, part == n, &end, &room);
        AS_ASSERT((size_t)(end - to) + room == out_step);
        out->n += (size_t)(end - to);
        n -= part - left;
    }
    as_gzip_free(z);
    return r == AS_GZIP_END;
}

static void check_zip(enum as_gzip_format f, const uint8_t *p, size_t n)
{
    struct as_buf whole = {0}, cut = {0};
    bool good = inflate(f, p, n, n + 1, INFLATED_MAX, &whole);

    if (whole.n < INFLATED_MAX) {
        AS_ASSERT(inflate(f, p, n, 7, 1000, &cut) == good);
        AS_ASSERT(!good || as_str_eq(as_buf_slice(&whole), as_buf_slice(&cut)));
    }
    as_buf_fini(&whole);
    as_buf_fini(&cut);
}

static void check_details(struct as_str text)
{
    char *out = as_xalloc(AS_GRPC_DETAILS_MAX);

    AS_ASSERT(as_grpc_details_violation(out, 3, text).n <= AS_GRPC_DETAILS_MAX);
    AS_ASSERT(as_grpc_details_retry(out, 8, text, AS_SEC).n <= AS_GRPC_DETAILS_MAX);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_str s = {(const char *)data, size};
    as_ns timeout;

    check_framing(data, size);
    if (as_grpc_timeout(s, &timeout) == 0)
        AS_ASSERT(timeout < AS_NEVER);
    check_message(s, 3 * size);
    /* cut anywhere, also at nothing */
    check_message(s, size ? data[0] : 0);
    check_bin(s);
    check_list(s);
    check_zip(AS_GZIP_GZIP, data, size);
    check_zip(AS_GZIP_DEFLATE, data, size);
    check_details(s);
    /* shorter than "application/grpc": not accepted */
    if (as_grpc_is_content_type(s))
        AS_ASSERT(size >= 16);
    (void)as_grpc_is_reserved(s);
    return 0;
}
