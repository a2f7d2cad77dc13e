/* Specification of wire/frame/frame_reader: the same frames, however the bytes are cut. */
#include "wire/frame/frame_reader.h"

#include "base/memory/outq.h"
#include "unit.h"

#include <string.h>

#define CAP    65536u
#define STREAM 3u

static uint8_t bytes[CAP] __attribute__((aligned(64)));
static size_t n_bytes;

/* What the reader said: a letter for each event, and the bodies. */
static char said[64];
static uint8_t body[CAP];
static size_t n_body;

static void put_frame(uint8_t type, uint8_t flags, const void *p, uint32_t n)
{
    uint32_t word = (uint32_t)type | (uint32_t)flags << 8;
    uint64_t stream = STREAM;

    memcpy(bytes + n_bytes, &n, 4);
    memcpy(bytes + n_bytes + 4, &word, 4);
    memcpy(bytes + n_bytes + 8, &stream, 8);
    if (n)
        memcpy(bytes + n_bytes + AS_FRAME_HEADER, p, n);
    n_bytes += AS_ALIGN(AS_FRAME_HEADER + (size_t)n, (size_t)AS_FRAME_ALIGN);
}

/* Two whole frames, bodies of several sizes, and a last frame. */
static void put_stream(void)
{
    uint8_t text[1000];

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)(i * 7);
    memset(bytes, 0xee, sizeof(bytes));
    n_bytes = 0;
    put_frame(AS_FRAME_PING, 0, text, 8);
    put_frame(AS_FRAME_DATA, AS_FRAME_F_MSG, text, 100);
    put_frame(AS_FRAME_DATA, 0, text, 700);
    put_frame(AS_FRAME_DATA, 0, text, 48); /* no padding */
    put_frame(AS_FRAME_DATA, 0, text, 0);
    put_frame(AS_FRAME_DATA, AS_FRAME_F_END, text, 1000);
    put_frame(AS_FRAME_PONG, 0, text, 8);
}

#define EVENTS "FFB.B.B.B.F" /* of put_stream: F frame, B body, . its end */

enum sinks {
    KEPT,
    DISCARDED,
    DROPPED /* discarded when some of it has come */
};

static void on_event(struct as_frame_reader *r, enum as_frame_read e, const struct as_frame *f,
                     enum sinks sinks)
{
    strcat(said, e == AS_FRAME_READ_FRAME ? "F" : e == AS_FRAME_READ_BODY ? "B" : ".");
    if (e == AS_FRAME_READ_BODY_END)
        return;
    assert_int_equal(f->stream, STREAM);
    if (e == AS_FRAME_READ_FRAME)
        assert_int_equal(((uintptr_t)f->p - AS_FRAME_HEADER) % AS_FRAME_ALIGN, 0);
    if (e != AS_FRAME_READ_BODY || sinks == DISCARDED)
        return;
    r->sink = body + n_body;
    n_body += f->n;
}

/* Reads the stream in pieces of `step` bytes into a buffer that is as small as can be. */
static void read_stream(size_t step, enum sinks sinks)
{
    static uint8_t buffer[2048] __attribute__((aligned(64)));
    struct as_frame_reader r = {.p = buffer, .cap = sizeof(buffer)};
    struct iovec iov[2];
    enum as_frame_read e;
    struct as_frame f;

    said[0] = 0;
    n_body = 0;
    memset(body, 0, sizeof(body));
    for (size_t at = 0; at < n_bytes;) {
        size_t rest = r.end - r.at, to = rest ? 0 : as_frame_reader_offset(&r);
        size_t left = AS_MIN(step, n_bytes - at), got = 0;

        memmove(buffer + to, buffer + r.at, rest);
        r.at = to;
        r.end = to + rest;
        for (int i = 0, k = as_frame_reader_iov(&r, iov); i < k; i++) {
            size_t m = AS_MIN(iov[i].iov_len, left - got);

            memcpy(iov[i].iov_base, bytes + at + got, m);
            got += m;
        }
        at += got;
        as_frame_reader_received(&r, got);
        while ((e = as_frame_reader_next(&r, &f)) != AS_FRAME_READ_MORE) {
            assert_int_not_equal(e, AS_FRAME_READ_BAD);
            on_event(&r, e, &f, sinks);
        }
        if (sinks == DROPPED && r.left)
            r.sink = NULL;
    }
    assert_int_equal(r.at, r.end);
}

static void however_the_bytes_are_cut(void **state AS_UNUSED)
{
    put_stream();
    for (size_t step = 1; step <= n_bytes; step += step < 200 ? 1 : 37) {
        read_stream(step, KEPT);
        assert_string_equal(said, EVENTS);
        assert_int_equal(n_body, 700 + 48 + 1000);
        for (size_t i = 0; i < n_body; i++)
            assert_int_equal(body[i], (uint8_t)((i < 700 ? i : i < 748 ? i - 700 : i - 748) * 7));
    }
}

static void a_body_that_nobody_wants_is_skipped(void **state AS_UNUSED)
{
    put_stream();
    for (size_t step = 1; step <= n_bytes; step += step < 200 ? 1 : 37) {
        read_stream(step, DISCARDED);
        assert_string_equal(said, EVENTS);
        read_stream(step, DROPPED);
        assert_string_equal(said, EVENTS);
    }
}

static void what_is_malformed_is_found_at_its_header(void **state AS_UNUSED)
{
    struct as_frame_reader r = {.p = bytes, .cap = sizeof(bytes)};
    uint32_t too_long = AS_FRAME_MAX + 1;
    struct as_frame f;

    n_bytes = 0;
    put_frame(AS_FRAME_PING, 0, "12345678", 8);
    put_frame(AS_FRAME_DATA, 0, NULL, 0);
    memcpy(bytes + AS_FRAME_ALIGN, &too_long, 4);
    r.end = AS_FRAME_ALIGN + AS_FRAME_HEADER - 1;
    assert_int_equal(as_frame_reader_next(&r, &f), AS_FRAME_READ_FRAME);
    assert_int_equal(as_frame_reader_next(&r, &f), AS_FRAME_READ_MORE);
    r.end++;
    assert_int_equal(as_frame_reader_next(&r, &f), AS_FRAME_READ_BAD);
}

/* The owner makes room for all of a frame when its size is known. */
static void the_size_of_an_incomplete_frame_is_known(void **state AS_UNUSED)
{
    struct as_frame_reader r = {.p = bytes, .cap = sizeof(bytes)};
    static const uint8_t text[5000];
    struct as_frame f;

    n_bytes = 0;
    put_frame(AS_FRAME_ERROR, 0, text, sizeof(text));
    r.end = AS_FRAME_HEADER - 1;
    assert_int_equal(as_frame_reader_next(&r, &f), AS_FRAME_READ_MORE);
    assert_int_equal(r.need, 0);
    r.end++;
    assert_int_equal(as_frame_reader_next(&r, &f), AS_FRAME_READ_MORE);
    assert_int_equal(r.need, n_bytes);
    r.end = n_bytes;
    assert_int_equal(as_frame_reader_next(&r, &f), AS_FRAME_READ_FRAME);
    assert_int_equal(r.need, 0);
    assert_int_equal(f.n, sizeof(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(however_the_bytes_are_cut),
        cmocka_unit_test(a_body_that_nobody_wants_is_skipped),
        cmocka_unit_test(what_is_malformed_is_found_at_its_header),
        cmocka_unit_test(the_size_of_an_incomplete_frame_is_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
