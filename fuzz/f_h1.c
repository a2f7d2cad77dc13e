/* A hostile HTTP/1.1 client. The first byte chooses the behaviour of the owner, the second how the
 * input is cut; the rest is the bytes of the connection. Checked: every request is closed once, no
 * event follows its end, the output stays within a limit, and the pieces of the input make no
 * difference for the owner and the client.
 */
#include "base/buf.h"
#include "wire/h1/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SEND_MAX 4096u

/* mode, bits 0–1: when the owner answers (at the end, at once, in the middle, in the next turn); 2:
 * streamed; 3: the body has a buffer; 4: bytes are never consumed; 5: the owner resets requests
 * with a body. */
struct fuzz {
    struct as_h1 *h;
    struct as_outq q;
    struct as_blob *blob;
    uint8_t mode;
    uint32_t stream;
    bool open, ended, answered, begun;
    uint8_t *place;
    size_t place_at;
    uint64_t seen; /* a digest of all events, in order, wherever data was cut */
    uint64_t sent;
    uint64_t n_sent;
};

static void mix(uint64_t *digest, const void *p, size_t n)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < n; i++)
        *digest = (*digest ^ b[i]) * UINT64_C(0x100000001b3);
}

static void answer(struct fuzz *f)
{
    static const struct as_http_header h[] = {{{"content-type", 12}, {"a\r\nb: c", 7}}};
    struct as_http_piece body[] = {{(const uint8_t *)"abc", 3, NULL},
                                   {f->blob->data, f->blob->n, f->blob}};
    struct as_http_answer a = {
        .status = 200, .headers = h, .n_headers = 1, .body = body, .n_body = 2};

    if (f->mode & 4) {
        f->begun = true;
        as_h1_begin(f->h, f->stream, &a);
        as_h1_write(f->h, f->stream, &body[1]);
    } else {
        f->answered = true;
        as_h1_answer(f->h, f->stream, &a);
    }
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct fuzz *f = conn;

    AS_ASSERT(!f->open && stream == f->stream + 1 && head->method.n && head->path.n);
    AS_ASSERT(head->n_rest <= 20);
    f->stream = stream;
    f->open = true;
    f->ended = f->answered = f->begun = false;
    mix(&f->seen, head->method.p, head->method.n);
    mix(&f->seen, head->path.p, head->path.n);
    mix(&f->seen, head->authority.p, head->authority.n);
    for (uint32_t i = 0; i < head->n_rest; i++) {
        mix(&f->seen, head->rest[i].name.p, head->rest[i].name.n);
        mix(&f->seen, head->rest[i].value.p, head->rest[i].value.n);
        if (f->mode & 8 && as_str_eq(head->rest[i].name, AS_STR("content-length"))) {
            uint64_t n;

            AS_ASSERT(as_str_u64(head->rest[i].value, &n) == 0);
            f->place = as_xalloc((size_t)AS_MIN(n, (uint64_t)50));
            f->place_at = 0;
            as_h1_set_body_buffer(f->h, stream, f->place, (size_t)AS_MIN(n, (uint64_t)50));
        }
    }
    if ((f->mode & 3) == 1)
        answer(f);
    else if (f->mode & 32 && !head->end_stream)
        as_h1_reset(f->h, stream);
    return f;
}

static void on_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    struct fuzz *f = conn;

    AS_ASSERT(req == f && f->open && n && !f->ended && !f->answered);
    mix(&f->seen, p, n);
    if (!(f->mode & 16))
        as_h1_consume(f->h, f->stream, n);
    if ((f->mode & 3) == 2 && !f->begun)
        answer(f);
}

static void on_end(void *conn, void *req)
{
    struct fuzz *f = conn;

    AS_ASSERT(req == f && f->open && !f->ended && !f->answered);
    f->ended = true;
    mix(&f->seen, "}", 1);
    if ((f->mode & 3) == 0 && !f->begun)
        answer(f);
}

static void on_drained(void *conn, void *req)
{
    struct fuzz *f = conn;

    AS_ASSERT(req == f && f->open && f->begun && !f->answered);
    f->answered = true;
    as_h1_finish(f->h, f->stream);
}

static void on_close(void *conn, void *req, uint32_t code)
{
    struct fuzz *f = conn;

    (void)code;
    AS_ASSERT(req == f && f->open);
    f->open = false;
    free(f->place);
    f->place = NULL;
}

static void turn(struct fuzz *f)
{
    do {
        if (as_h1_send(f->h, &f->q, SEND_MAX))
            break;
        AS_ASSERT(f->q.bytes <= SEND_MAX + 1024);
        while (f->q.bytes) {
            struct iovec iov;

            as_outq_iov(&f->q, &iov, 1);
            mix(&f->sent, iov.iov_base, iov.iov_len);
            f->n_sent += iov.iov_len;
            as_outq_drop(&f->q, iov.iov_len);
        }
    } while (as_h1_wants_write(f->h));
    if ((f->mode & 3) == 3 && f->open && !f->begun && !f->answered && f->ended) {
        answer(f);
        turn(f);
    }
}

/* Each piece is in a block of its own, so that a sanitizer finds a read beyond its end. */
static size_t feed(struct fuzz *f, const uint8_t *p, size_t n)
{
    uint8_t *to = NULL, *exact;
    size_t room, taken;

    if (as_h1_body_buffer(f->h, &to, &room)) {
        n = AS_MIN(n, room);
        memcpy(to, p, n);
        as_h1_body_received(f->h, n, AS_SEC);
        return n;
    }
    exact = as_xalloc(n);
    memcpy(exact, p, n);
    as_h1_recv(f->h, exact, n, AS_SEC, &taken);
    AS_ASSERT(taken <= n);
    free(exact);
    return taken;
}

static void run(struct fuzz *f, const uint8_t *p, size_t n, size_t step)
{
    static const struct as_http_ops ops = {.on_request = on_request,
                                           .on_data = on_data,
                                           .on_end = on_end,
                                           .on_close = on_close,
                                           .on_drained = on_drained};
    static const struct as_h1_conf conf = {.max_line = 200,
                                           .max_header_bytes = 3000,
                                           .max_headers = 20,
                                           .max_chunk_ext = 16,
                                           .max_unread = 1000};

    as_outq_init(&f->q);
    AS_ASSERT(as_h1_new(&f->h, &conf, &ops, f) == 0);
    while (n && as_h1_wants_read(f->h)) {
        size_t k = feed(f, p, AS_MIN(n, step));

        p += k;
        n -= k;
        turn(f);
    }
    if (as_h1_done(f->h)) /* no answer is owed, and none comes */
        AS_ASSERT(!f->open && !as_h1_wants_write(f->h));
    as_h1_shutdown_final(f->h);
    turn(f);
    as_h1_free(f->h);
    AS_ASSERT(!f->open);
    as_outq_fini(&f->q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz whole = {.mode = size ? data[0] : 0, .blob = as_blob_new(10000)}, cut = whole;

    AS_ASSERT(whole.blob);
    memset(whole.blob->data, 'b', whole.blob->n);
    cut.blob = whole.blob;
    if (size > 2) {
        run(&whole, data + 2, size - 2, size);
        run(&cut, data + 2, size - 2, 1 + data[1] % 16);
        /* an owner that answers before the end, never consumes or resets sees as much as has come
         */
        if ((whole.mode & (1 | 2 | 16 | 32)) == 0) {
            AS_ASSERT(whole.seen == cut.seen && whole.stream == cut.stream);
            AS_ASSERT(whole.mode & 4 || (whole.sent == cut.sent && whole.n_sent == cut.n_sent));
        }
    }
    AS_ASSERT(atomic_load(&whole.blob->refs) == 1);
    as_blob_unref(whole.blob);
    return 0;
}
