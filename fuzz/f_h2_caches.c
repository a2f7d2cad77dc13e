/* The header caches of wire/h2 (h2_request_cache, h2_response_cache) compared with a server without
 * them.
 *
 * The input is a list of steps of a client and of the owner. The same bytes go to two servers, one
 * of which has no caches. Both owners must see the same of each request, and the output of both
 * servers must mean the same: frame by frame of each stream, with header blocks decoded by nghttp2
 * as a client does. The order of frames of different streams may differ, and empty DATA frames are
 * ignored.
 */
#include "base/buf.h"
#include "base/err.h"
#include "wire/h2/h2.h"

#include <nghttp2/nghttp2.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STREAMS    32u /* requests of one input, and those that may be open */
#define INPUT_MAX  (64u << 10)
#define BODY       70000u /* above the windows that a client begins with */
#define FRAME_HEAD 9u

struct fuzz;

/* Index i is for stream 2 i + 1; the last one is for the connection. */
struct side {
    struct fuzz *f;
    struct as_h2 *h;
    struct as_outq q;
    nghttp2_hd_inflater *inflater;
    struct as_buf out, heard[STREAMS + 1], said[STREAMS + 1], block;
    bool open[STREAMS + 1], over_time[STREAMS + 1];
    uint32_t acks; /* SETTINGS that were acknowledged */
    bool over;
};

struct fuzz {
    struct side side[2];
    struct as_blob *blob;
    struct as_buf in; /* what the client sends in this turn */
    uint32_t next, tables[STREAMS], n_tables;
    as_ns now;
    size_t slice;
    bool within; /* answers are given during on_request */
    uint8_t kind;
};

static uint32_t index_of(uint32_t stream)
{
    return stream % 2 && stream / 2 < STREAMS ? stream / 2 : STREAMS;
}

/* --- the owners --- */

static void put_text(struct as_buf *b, char what, struct as_str s)
{
    as_buf_printf(b, "%c%zu:", what, s.n);
    if (s.n)
        as_buf_add(b, s.p, s.n);
}

/* kind: bits 0–1: the head; 2–3: the body; 4–5: the trailers; 6: another value in both. */
static void answer(struct side *s, uint32_t stream, uint8_t kind)
{
    const char digit = (char)('0' + (kind >> 6));
    const struct as_str value = {&digit, 1};
    const struct as_http_header h[] = {{AS_STR("content-type"), AS_STR("application/grpc")},
                                       {AS_STR("x-kind"), value},
                                       {AS_STR("grpc-status"), value}};
    const struct as_http_header t[] = {{AS_STR("grpc-status"), AS_STR("0")},
                                       {AS_STR("grpc-message"), value}};
    const struct as_http_piece body[] = {{(const uint8_t *)"abc", 3, NULL},
                                         {s->f->blob->data, s->f->blob->n, s->f->blob}};
    struct as_http_answer a = {.status = kind & 3 ? 200 : 404,
                               .headers = h,
                               .n_headers = kind & 3,
                               .body = body,
                               .n_body = (kind >> 2 & 3) % 3,
                               .trailers = t,
                               .n_trailers = (kind >> 4 & 3) % 3};

    if ((kind >> 2 & 3) == 3) {
        as_h2_begin(s->h, stream, &a);
        as_h2_write(s->h, stream,
                    &(struct as_http_piece){s->f->blob->data, kind & 1 ? 10 : BODY, s->f->blob});
        s->over_time[index_of(stream)] = true;
    } else {
        as_h2_answer(s->h, stream, &a);
    }
}

static void finish(struct side *s, uint32_t stream, uint8_t kind)
{
    static const struct as_http_header t[] = {{{"grpc-status", 11}, {"0", 1}},
                                              {{"grpc-message", 12}, {"late", 4}}};

    if (s->over_time[index_of(stream)])
        as_h2_finish(s->h, stream, t, kind % 3);
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct side *s = conn;
    struct as_buf *b = &s->heard[index_of(stream)];
    const struct as_str own[] = {head->method,       head->path,         head->scheme,
                                 head->authority,    head->content_type, head->te,
                                 head->grpc_timeout, head->grpc_encoding};

    AS_ASSERT(index_of(stream) < STREAMS && !s->open[index_of(stream)]);
    as_buf_printf(b, "R%d", head->end_stream);
    for (size_t i = 0; i < AS_COUNT(own); i++)
        put_text(b, 'o', own[i]);
    for (uint32_t i = 0; i < head->n_rest; i++) {
        put_text(b, 'n', head->rest[i].name);
        put_text(b, 'v', head->rest[i].value);
    }
    s->open[index_of(stream)] = true;
    if (s->f->within)
        answer(s, stream, s->f->kind);
    return (void *)(uintptr_t)stream;
}

static void on_data(void *conn, void *req, const uint8_t *p AS_UNUSED, size_t n)
{
    struct side *s = conn;
    uint32_t stream = (uint32_t)(uintptr_t)req;

    as_buf_printf(&s->heard[index_of(stream)], "D%zu", n);
    as_h2_consume(s->h, stream, n);
}

static void on_end(void *conn, void *req)
{
    struct side *s = conn;

    as_buf_str(&s->heard[index_of((uint32_t)(uintptr_t)req)], "E");
}

static void on_close(void *conn, void *req, uint32_t code)
{
    struct side *s = conn;
    uint32_t i = index_of((uint32_t)(uintptr_t)req);

    AS_ASSERT(s->open[i]);
    s->open[i] = false;
    as_buf_printf(&s->heard[i], "C%u", code);
}

static void on_drained(void *conn AS_UNUSED, void *req AS_UNUSED)
{
}

static const struct as_http_ops ops = {.on_request = on_request,
                                       .on_data = on_data,
                                       .on_end = on_end,
                                       .on_close = on_close,
                                       .on_drained = on_drained};

/* --- what they say, as a client reads it --- */

static void unpack(struct side *s, struct as_buf *to, bool last)
{
    const uint8_t *p = s->block.p;
    size_t n = s->block.n;

    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t k = nghttp2_hd_inflate_hd2(s->inflater, &nv, &flags, p, n, last);

        AS_ASSERT(k >= 0);
        p += k;
        n -= (size_t)k;
        if (flags & NGHTTP2_HD_INFLATE_EMIT) {
            put_text(to, 'n', (struct as_str){(const char *)nv.name, nv.namelen});
            put_text(to, 'v', (struct as_str){(const char *)nv.value, nv.valuelen});
        }
        if (flags & NGHTTP2_HD_INFLATE_FINAL) {
            nghttp2_hd_inflate_end_headers(s->inflater);
            break;
        }
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && !n)
            break;
    }
    AS_ASSERT(n == 0);
    s->block.n = 0;
}

static void read_frame(struct side *s, const uint8_t *p, size_t len)
{
    uint32_t stream = (uint32_t)p[7] << 8 | p[8];
    struct as_buf *to = &s->said[stream ? index_of(stream) : STREAMS];
    uint8_t type = p[3], flags = p[4];

    switch (type) {
    case NGHTTP2_DATA:
        for (size_t i = 0; i < len;
             i++) /* one letter per byte, because the size of frames may differ */
            AS_ASSERT(p[FRAME_HEAD + i]);
        if (len)
            as_buf_add(to, p + FRAME_HEAD, len);
        if (flags & NGHTTP2_FLAG_END_STREAM)
            as_buf_str(to, "!");
        break;
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
        AS_ASSERT(!(flags & (NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY)));
        as_buf_add(&s->block, p + FRAME_HEAD, len);
        if (flags & NGHTTP2_FLAG_END_HEADERS)
            unpack(s, to, true);
        if (flags & NGHTTP2_FLAG_END_STREAM)
            as_buf_str(to, "!");
        break;
    case NGHTTP2_SETTINGS:
        if (flags & NGHTTP2_FLAG_ACK) {
            AS_ASSERT(s->acks < s->f->n_tables);
            AS_ASSERT(!nghttp2_hd_inflate_change_table_size(s->inflater, s->f->tables[s->acks++]));
        }
        __attribute__((fallthrough));
    default:
        as_buf_printf(to, "<%u %u %u %zu ", type, flags, stream, len);
        if (len)
            as_buf_add(to, p + FRAME_HEAD, len);
        as_buf_str(to, ">");
    }
}

static void listen_to(struct side *s)
{
    size_t at = 0;

    while (s->q.bytes) {
        struct iovec iov[16];
        int n = as_outq_iov(&s->q, iov, AS_COUNT(iov));
        size_t all = 0;

        for (int i = 0; i < n; i++) {
            as_buf_add(&s->out, iov[i].iov_base, iov[i].iov_len);
            all += iov[i].iov_len;
        }
        as_outq_drop(&s->q, all);
    }
    while (s->out.n - at >= FRAME_HEAD) {
        const uint8_t *p = s->out.p + at;
        size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];

        AS_ASSERT(s->out.n - at >= FRAME_HEAD + len); /* whole frames */
        read_frame(s, p, len);
        at += FRAME_HEAD + len;
    }
    AS_ASSERT(at == s->out.n);
    s->out.n = 0;
}

/* --- the client's turn --- */

static void same(const struct as_buf *a, const struct as_buf *b)
{
    AS_ASSERT(a->n == b->n && (!a->n || memcmp(a->p, b->p, a->n) == 0));
}

static void turn_of(struct side *s)
{
    const struct as_buf *in = &s->f->in;

    for (size_t at = 0; at < in->n && !s->over;) {
        size_t n = AS_MIN(in->n - at, s->f->slice), taken = 0;
        uint8_t *exact = as_xalloc(n); /* so that a sanitizer finds a read beyond its end */

        memcpy(exact, in->p + at, n);
        s->over = as_h2_recv(s->h, exact, n, s->f->now, &taken) != 0;
        free(exact);
        at += taken;
        if (taken < n && !s->over) /* as many requests as one as_h2_recv accepts */
            s->over = as_h2_send(s->h, &s->q, SIZE_MAX) != 0;
    }
    if (as_h2_send(s->h, &s->q, SIZE_MAX))
        s->over = true;
    listen_to(s);
}

static void turn(struct fuzz *f)
{
    f->now += AS_MS;
    for (int i = 0; i < 2; i++)
        turn_of(&f->side[i]);
    f->in.n = 0;
    AS_ASSERT(f->side[0].over == f->side[1].over);
    AS_ASSERT(as_h2_breach(f->side[0].h) == as_h2_breach(f->side[1].h));
    for (uint32_t i = 0; i <= STREAMS; i++) {
        AS_ASSERT(f->side[0].open[i] == f->side[1].open[i]);
        same(&f->side[0].heard[i], &f->side[1].heard[i]);
        same(&f->side[0].said[i], &f->side[1].said[i]);
    }
}

static void put_frame(struct fuzz *f, uint8_t type, uint8_t flags, uint32_t stream, const void *p,
                      size_t n)
{
    const uint8_t head[FRAME_HEAD] = {0, (uint8_t)(n >> 8),      (uint8_t)n,     type, flags, 0,
                                      0, (uint8_t)(stream >> 8), (uint8_t)stream};

    as_buf_add(&f->in, head, sizeof(head));
    if (n)
        as_buf_add(&f->in, p, n);
}

/* RFC 7541: :method POST, :scheme http, :path / by the static table; lengths below 127. */
#define BASE "\x83\x86\x84"
static const struct {
    const char *p;
    size_t n;
} blocks[] = {
#define BLOCK(lit)                                                                                 \
    {                                                                                              \
        lit, sizeof(lit) - 1                                                                       \
    }
    BLOCK(BASE "\x01\x01h"), /* cacheable: :authority, not indexed */
    BLOCK(BASE "\x11\x01h\x0f\x10\x10"
               "application/grpc"), /* never indexed */
    BLOCK(BASE "\x41\x01h\x40\x01x\x01"
               "1"),                            /* literals with indexing */
    BLOCK(BASE "\xbf\xbe"),                     /* references to them */
    BLOCK(BASE "\xc3\xc2"),                     /* of three such blocks */
    BLOCK(BASE "\x01\x01h\xbe"),                /* the newest entry */
    BLOCK("\x20" BASE "\x01\x01h"),             /* a table of size 0 */
    BLOCK("\x20\x3f\xe1\x1f" BASE "\x41\x01h"), /* and of 4096 */
    BLOCK(BASE "\x01\x01h\x00\x0e"
               "content-length\x01"
               "3"),
    BLOCK(BASE "\x01\x01h\x00\x01X\x00"), /* malformed: upper case */
    BLOCK("\x83\x86\x01\x01h"),           /* no :path */
    BLOCK(BASE "\x01\x01h\x00\x0c"
               "grpc-timeout\x02"
               "1S\x00\x02te\x08"
               "trailers"),
    BLOCK(BASE "\x01\x01h\x0f\x01\x01"), /* cut short */
#undef BLOCK
};

/* A new request, or trailers of the last one. */
static void put_request(struct fuzz *f, uint8_t a, uint8_t b)
{
    const char *p = blocks[a % AS_COUNT(blocks)].p;
    size_t n = blocks[a % AS_COUNT(blocks)].n, half = b & 16 ? n / 2 : n;
    uint32_t stream = b & 8 && f->next ? 2 * f->next - 1 : 2 * f->next + 1;
    uint8_t end = b & 1 ? NGHTTP2_FLAG_END_STREAM : 0;

    if (stream / 2 >= STREAMS)
        return;
    f->next = stream / 2 + 1;
    put_frame(f, NGHTTP2_HEADERS, end | (half == n ? NGHTTP2_FLAG_END_HEADERS : NGHTTP2_FLAG_NONE),
              stream, p, half);
    if (half < n)
        put_frame(f, NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, stream, p + half, n - half);
}

/* A table size, or a window, small enough to matter. */
static void put_settings(struct fuzz *f, uint8_t a, uint8_t b)
{
    static const uint32_t sizes[] = {0, 32, 64, 100, 4096, 8192, 65535};
    uint32_t v = sizes[a % AS_COUNT(sizes)];
    const uint8_t window = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE;
    const uint8_t table = NGHTTP2_SETTINGS_HEADER_TABLE_SIZE;
    const uint8_t p[6] = {0, b & 1 ? window : table, 0, 0, (uint8_t)(v >> 8), (uint8_t)v};

    if (f->n_tables == STREAMS)
        return;
    f->tables[f->n_tables] = b & 1 ? f->tables[f->n_tables - 1] : v;
    f->n_tables++;
    put_frame(f, NGHTTP2_SETTINGS, 0, 0, p, sizeof(p));
}

static void put_number(struct fuzz *f, uint8_t type, uint32_t stream, uint32_t v)
{
    const uint8_t p[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};

    put_frame(f, type, 0, stream, p, sizeof(p));
}

static void step(struct fuzz *f, uint8_t op, uint8_t a, uint8_t b)
{
    uint32_t stream = 2 * (a % STREAMS) + 1;

    switch (op % 12) {
    case 0:
    case 1:
        put_request(f, a, b);
        break;
    case 2:
        f->within = a & 1;
        f->kind = b;
        break;
    case 3:
    case 4:
        for (int i = 0; i < 2; i++)
            answer(&f->side[i], stream, b);
        break;
    case 5:
        for (int i = 0; i < 2; i++)
            finish(&f->side[i], stream, b);
        break;
    case 6:
        put_settings(f, a, b);
        break;
    case 7:
        put_frame(f, NGHTTP2_DATA, b & 1, stream, "body", b % 5);
        break;
    case 8:
        put_number(f, NGHTTP2_WINDOW_UPDATE, b & 1 ? stream : 0, 1u + 1000u * b);
        break;
    case 9:
        if (b & 1)
            put_number(f, NGHTTP2_RST_STREAM, stream, NGHTTP2_CANCEL);
        for (int i = 0; i < 2 && !(b & 1); i++)
            as_h2_reset(f->side[i].h, stream, NGHTTP2_INTERNAL_ERROR);
        break;
    case 10:
        f->slice = a ? a : INPUT_MAX;
        put_frame(f, NGHTTP2_PING, 0, 0, "12345678", 8);
        break;
    default:
        turn(f);
    }
}

static void open_side(struct fuzz *f, struct side *s, bool uncached)
{
    const struct as_h2_conf conf = {
        .max_streams = STREAMS,
        .stream_window = 65535,
        .conn_window = 1 << 20,
        .max_header_list = 1024,
        .max_headers = 20,
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
                   .ping_strikes = 2},
        .uncached = uncached,
    };

    s->f = f;
    as_outq_init(&s->q);
    AS_ASSERT(!as_h2_new(&s->h, &conf, &ops, s, 0));
    AS_ASSERT(!nghttp2_hd_inflate_new(&s->inflater));
}

static void close_side(struct side *s)
{
    as_h2_free(s->h);
    nghttp2_hd_inflate_del(s->inflater);
    as_outq_fini(&s->q);
    as_buf_fini(&s->out);
    as_buf_fini(&s->block);
    for (uint32_t i = 0; i <= STREAMS; i++) {
        AS_ASSERT(!s->open[i]);
        as_buf_fini(&s->heard[i]);
        as_buf_fini(&s->said[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    struct fuzz *f = as_xalloc(sizeof(*f));

    *f = (struct fuzz){.blob = as_blob_new(BODY), .slice = INPUT_MAX, .tables = {4096}};
    f->n_tables = 1;
    memset(f->blob->data, 'b', BODY);
    for (int i = 0; i < 2; i++)
        open_side(f, &f->side[i], i == 1);
    as_buf_add(&f->in, preface, sizeof(preface) - 1);
    for (size_t at = 0; at + 3 <= size && f->in.n < INPUT_MAX / 2; at += 3) {
        step(f, data[at], data[at + 1], data[at + 2]);
        if (f->side[0].over)
            break;
    }
    turn(f);
    for (int i = 0; i < 2; i++)
        as_h2_shutdown_notice(f->side[i].h);
    turn(f);
    for (int i = 0; i < 2; i++)
        as_h2_shutdown_final(f->side[i].h);
    turn(f);
    for (int i = 0; i < 2; i++)
        close_side(&f->side[i]);
    as_buf_fini(&f->in);
    as_blob_unref(f->blob);
    free(f);
    return 0;
}
