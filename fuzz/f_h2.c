/* A hostile HTTP/2 client. The first byte chooses the behaviour of the owner and how the input is
 * cut; the rest is the bytes of the connection, as they are or as records {type, flags, stream,
 * length, payload} that become frames with the right length and, depending on the flags, a valid
 * header block in front. Checked: every request is closed once, no event follows the end, the
 * output stays within a limit.
 */
#include "wire/h2/h2.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How much one as_h2_send may write, and how far a frame may exceed that: the limit that
 * edge/conn/conn has for a slow reader. */
#define SEND_MAX  65536
#define FRAME_MAX 262144
#define REQS      64

/* One request as the owner sees it, from on_request to on_close. */
struct req {
    uint32_t stream;
    size_t unconsumed;
    bool ended, answered;
    unsigned drained;
};

/* mode, bits 0–1: when the owner answers (never, at once, at the end, late and again and again);
 * 2–3: pieces of body; 4: trailers; 5: the peer reads; 6: input in steps of 7; 7: input as it is.
 */
struct fuzz {
    struct as_h2 *h;
    struct as_outq q;
    struct as_blob *blob;
    uint8_t mode;
    as_ns now;
    struct req *open[REQS];
    unsigned n_open;
};

/* Also for requests that were answered or closed: as_h2_answer must tolerate that, since answers of
 * workers come at any time. */
static void answer(struct fuzz *f, struct req *r)
{
    static const struct as_http_header h[] = {{{"content-type", 12}, {"application/grpc", 16}}};
    static const struct as_http_header t[] = {{{"grpc-status", 11}, {"0", 1}}};
    struct as_http_piece body[] = {{(const uint8_t *)"abc", 3, NULL},
                                   {f->blob->data, f->blob->n, f->blob}};

    if ((f->mode >> 2 & 3) == 3) { /* over time: on_drained goes on */
        as_h2_begin(f->h, r->stream,
                    &(struct as_http_answer){.status = 200, .headers = h, .n_headers = 1});
        as_h2_write(f->h, r->stream, &body[1]);
        return;
    }
    r->answered = true;
    as_h2_answer(f->h, r->stream,
                 &(struct as_http_answer){.status = 200,
                                          .headers = h,
                                          .n_headers = 1,
                                          .body = body,
                                          .n_body = (f->mode >> 2 & 3) % 3,
                                          .trailers = t,
                                          .n_trailers = f->mode >> 4 & 1});
}

static void on_drained(void *conn, void *req)
{
    static const struct as_http_header t[] = {{{"grpc-status", 11}, {"0", 1}}};
    struct fuzz *f = conn;
    struct req *r = req;

    AS_ASSERT(!r->answered);
    if (++r->drained < 3) {
        as_h2_write(f->h, r->stream, &(struct as_http_piece){f->blob->data, 1000, f->blob});
    } else if (f->mode & 16) {
        r->answered = true;
        as_h2_finish(f->h, r->stream, t, 1);
    }
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct fuzz *f = conn;
    struct req *r = as_xalloc(sizeof(*r));
    volatile char sink = 0;

    /* max_streams is kept, and the header list's bound */
    AS_ASSERT(f->n_open < REQS && head->method.p && head->n_rest <= 40);
    for (uint32_t i = 0; i < head->n_rest; i++) {
        for (size_t k = 0; k < head->rest[i].value.n; k++)
            sink = (char)(sink ^ head->rest[i].value.p[k]);
    }
    r->stream = stream;
    f->open[f->n_open++] = r;
    /* during the callback: nghttp2 is in the middle of its input */
    if ((f->mode & 3) == 1)
        answer(f, r);
    return r;
}

static void on_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    struct fuzz *f = conn;
    struct req *r = req;

    /* no data after the end, none after an answer or a reset */
    AS_ASSERT(p && n && !r->ended && !r->answered);
    r->unconsumed += n;
    /* a normal owner consumes what it gets; the other never does, and resets what still comes */
    if ((f->mode & 3) == 2) {
        as_h2_consume(f->h, r->stream, n);
        r->unconsumed -= n;
        as_h2_widen_window(f->h, r->stream, 1000 * n);
    } else if (r->unconsumed > 500) {
        r->answered = true;
        as_h2_reset(f->h, r->stream, 8);
    }
}

static void on_end(void *conn, void *req)
{
    struct fuzz *f = conn;
    struct req *r = req;

    AS_ASSERT(!r->ended && !r->answered);
    r->ended = true;
    if ((f->mode & 3) == 2)
        answer(f, r);
}

static void on_close(void *conn, void *req, uint32_t code)
{
    struct fuzz *f = conn;
    struct req *r = req;
    unsigned i = 0;

    (void)code;
    while (i < f->n_open && f->open[i] != r)
        i++;
    AS_ASSERT(i < f->n_open); /* so that a second close is not found */
    f->open[i] = f->open[--f->n_open];
    /* the connection's window gets back what the closed stream held, or all streams would stall in
     * the end */
    as_h2_consume(f->h, r->stream, r->unconsumed);
    free(r);
}

/* The end of a turn of the loop. Without bit 5 nothing is read and the queue stays full: then
 * nothing more may be appended. */
static void turn(struct fuzz *f)
{
    AS_ASSERT(as_h2_send(f->h, &f->q, SEND_MAX) <= 0);
    AS_ASSERT(f->q.bytes <= SEND_MAX + FRAME_MAX + 9);
    if (f->mode & 32)
        as_outq_drop(&f->q, f->q.bytes);
    if ((f->mode & 3) == 3 && f->n_open)
        answer(f, f->open[0]);
}

/* Each piece is in a block of its own, so that a sanitizer finds a read beyond its end. */
static void feed(struct fuzz *f, const uint8_t *p, size_t n)
{
    size_t step = f->mode & 64 ? 7 : n;

    while (n) {
        size_t take = AS_MIN(n, step);
        uint8_t *exact = as_xalloc(take);

        memcpy(exact, p, take);
        if (as_h2_recv(f->h, exact, take, f->now += AS_MS, &take))
            take = n; /* the connection is over: nothing more is passed in */
        free(exact);
        p += take;
        n -= take;
    }
    turn(f);
}

/* A literal header field without indexing (RFC 7541, 6.2.2), lengths below 127: valid HPACK without
 * an encoder. */
static size_t put_field(uint8_t *to, const char *name, const char *value)
{
    size_t a = strlen(name), b = strlen(value);

    to[0] = 0;
    to[1] = (uint8_t)a;
    memcpy(to + 2, name, a);
    to[2 + a] = (uint8_t)b;
    memcpy(to + 3 + a, value, b);
    return 3 + a + b;
}

/* Bit 6 of a record's flags: a HEADERS frame begins with the fields that every request needs. */
static size_t take_record(struct fuzz *f, const uint8_t *p, size_t n)
{
    uint8_t frame[9 + 512] = {0};
    size_t len = 0, take;

    if (n < 4)
        return n;
    take = AS_MIN((size_t)p[3], n - 4);
    if (p[0] == 1 && p[1] & 64) {
        len += put_field(frame + 9, ":method", "POST");
        len += put_field(frame + 9 + len, ":scheme", "http");
        len += put_field(frame + 9 + len, ":path", "/a.B/C");
        len += put_field(frame + 9 + len, ":authority", "h");
    }
    memcpy(frame + 9 + len, p + 4, take);
    len += take;
    /* The 9 bytes of a frame head (RFC 9113 §4.1). The length is right, or the fuzzer would spend
     * its time in nghttp2's framing. */
    frame[1] = (uint8_t)(len >> 8);
    frame[2] = (uint8_t)len;
    frame[3] = p[0];
    frame[4] = p[1];
    frame[8] = p[2];
    feed(f, frame, 9 + len);
    return 4 + take;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* with an empty SETTINGS frame after it: other frames are not read before both */
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const struct as_http_ops ops = {.on_request = on_request,
                                           .on_data = on_data,
                                           .on_end = on_end,
                                           .on_close = on_close,
                                           .on_drained = on_drained};
    const struct as_h2_conf conf = {.max_streams = REQS,
                                    .stream_window = 65535,
                                    .conn_window = 1 << 20,
                                    .max_header_list = 4096,
                                    .max_headers = 40,
                                    .limits = {.resets = {20, 10},
                                               .reset_patience = AS_SEC,
                                               .faults = {20, 10},
                                               .control = {50, 10},
                                               .empty = {10, 10},
                                               .window = {20, 10},
                                               .max_continuations = 8,
                                               .max_header_block = 8192,
                                               .ping_interval = AS_SEC,
                                               .idle_ping_interval = 2 * AS_SEC,
                                               .ping_strikes = 2}};
    struct fuzz f = {.mode = size ? data[0] : 0, .blob = as_blob_new(100000)};

    AS_ASSERT(f.blob);
    memset(f.blob->data, 'b', f.blob->n);
    as_outq_init(&f.q);
    AS_ASSERT(as_h2_new(&f.h, &conf, &ops, &f, 0) == 0);
    feed(&f, (const uint8_t *)preface, sizeof(preface) - 1);
    if (size > 1 && f.mode & 128)
        feed(&f, data + 1, size - 1);
    else
        for (size_t at = 1; at < size;)
            at += take_record(&f, data + at, size - at);
    /* whatever came before, the graceful shutdown must close all requests */
    as_h2_shutdown_notice(f.h);
    turn(&f);
    as_h2_shutdown_final(f.h);
    turn(&f);
    as_h2_free(f.h);
    AS_ASSERT(f.n_open == 0);
    as_outq_fini(&f.q);
    as_blob_unref(f.blob);
    return 0;
}
