/* Reads inputs from stdin, each a 32-bit length (in this machine's byte order) and its bytes, and
 * writes how wire/h1/h1 reads each of them: length-prefixed strings, one for every method, path,
 * host, content type, name and value, each after a letter for its kind; 'D' and a piece of the
 * body; 'E' at the end of a request; 'X' and the reason if the connection ended with an error; '.'
 * at the end.
 */
#include "base/buf.h"
#include "wire/h1/h1.h"

struct filter {
    struct as_h1 *h;
    struct as_buf out;
    uint32_t stream;
};

static void put(struct filter *f, char what, struct as_str s)
{
    uint32_t n = (uint32_t)s.n;

    as_buf_add(&f->out, &what, 1);
    as_buf_add(&f->out, &n, sizeof(n));
    if (n)
        as_buf_add(&f->out, s.p, n);
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct filter *f = conn;

    f->stream = stream;
    put(f, 'M', head->method);
    put(f, 'P', head->path);
    put(f, 'H', head->authority);
    if (head->content_type.p)
        put(f, 'T', head->content_type);
    for (uint32_t i = 0; i < head->n_rest; i++) {
        put(f, 'N', head->rest[i].name);
        put(f, 'V', head->rest[i].value);
    }
    return f;
}

static void on_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    (void)req;
    put(conn, 'D', (struct as_str){(const char *)p, n});
}

static void on_end(void *conn, void *req)
{
    struct filter *f = conn;

    (void)req;
    put(f, 'E', (struct as_str){0});
    as_h1_answer(f->h, f->stream, &(struct as_http_answer){.status = 200});
}

static void on_close(void *conn, void *req, uint32_t code)
{
    (void)conn;
    (void)req;
    (void)code;
}

static void run(struct filter *f, const uint8_t *p, size_t n)
{
    static const struct as_http_ops ops = {
        .on_request = on_request, .on_data = on_data, .on_end = on_end, .on_close = on_close};
    static const struct as_h1_conf conf = {.max_line = 8192,
                                           .max_header_bytes = 16384,
                                           .max_headers = 100,
                                           .max_chunk_ext = 256,
                                           .max_unread = UINT32_MAX};
    struct as_outq q;

    as_outq_init(&q);
    AS_ASSERT(as_h1_new(&f->h, &conf, &ops, f) == 0);
    while (n && as_h1_wants_read(f->h)) {
        size_t taken;

        as_h1_recv(f->h, p, n, 0, &taken);
        p += taken;
        n -= taken;
        AS_ASSERT(as_h1_send(f->h, &q, SIZE_MAX) == 0);
        as_outq_drop(&q, q.bytes);
    }
    if (as_h1_breach(f->h))
        put(f, 'X', as_str_of(as_h1_breach(f->h)));
    put(f, '.', (struct as_str){0});
    as_h1_free(f->h);
    as_outq_fini(&q);
}

int main(void)
{
    struct filter f = {0};
    uint32_t n;

    while (fread(&n, sizeof(n), 1, stdin) == 1) {
        uint8_t *p = as_xalloc(n);

        if (fread(p, 1, n, stdin) != n)
            return 1;
        run(&f, p, n);
        free(p);
        fwrite(f.out.p, 1, f.out.n, stdout);
        f.out.n = 0;
    }
    as_buf_fini(&f.out);
    return 0;
}
