/* A hostile HTTP/1.1 server: any bytes as the answers to one request after the other. The first
 * byte chooses how the input is cut, whether the first request is a HEAD, and whether it is
 * cancelled. Checked: every call is closed once, no event for it follows, heads stay within their
 * limits, and the result does not depend on how the bytes are cut.
 */
#include "wire/h1/h1_client.h"

#include "base/buf.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALLS     16u
#define HEADERS_N 512u

struct call {
    bool closed, whole;
    size_t fields, bytes;
};

struct fuzz {
    struct as_h1_client *h;
    struct as_outq q;
    struct call call[CALLS];
    uint32_t n, stream;
    bool chain, is_head;
    uint64_t sum; /* of all events */
};

static void start(struct fuzz *f)
{
    const struct as_http_header fields[] = {
        {AS_STR(":method"), f->is_head && !f->n ? AS_STR("HEAD") : AS_STR("POST")},
        {AS_STR(":path"), AS_STR("/")},
        {AS_STR(":authority"), AS_STR("h")}};
    static const struct as_str body[] = {{"hi", 2}};
    struct as_http_client_request r = {fields, AS_COUNT(fields), body, 1, 0};

    if (f->n < CALLS && as_h1_client_request(f->h, &r, &f->call[f->n], &f->stream) == 0) {
        f->n++;
        as_h1_client_send(f->h, &f->q, 65536);
        as_outq_drop(&f->q, f->q.bytes);
    }
}

static void sum(struct fuzz *f, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        f->sum = f->sum * 31 + ((const uint8_t *)p)[i];
}

static void on_field(void *conn, void *call, struct as_str name, struct as_str value, bool trailer)
{
    struct call *c = call;

    AS_ASSERT(!c->closed && name.n);
    c->fields += name.n + value.n + 32;
    AS_ASSERT(c->fields <= HEADERS_N + 64); /* :status is not counted */
    sum(conn, name.p, name.n);
    sum(conn, value.p, value.n);
    sum(conn, &trailer, 1);
}

static void on_data(void *conn, void *call, const uint8_t *p, size_t n)
{
    struct call *c = call;

    AS_ASSERT(!c->closed);
    c->bytes += n;
    sum(conn, p, n);
}

static void on_close(void *conn, void *call, uint32_t code, bool whole)
{
    struct fuzz *f = conn;
    struct call *c = call;

    AS_ASSERT(!c->closed && whole == (code == 0));
    c->closed = true;
    c->whole = whole;
    if (f->chain)
        start(f);
}

/* One connection that gets the input in pieces of `cut`; the result as one number. */
static uint64_t run(const uint8_t *p, size_t n, size_t cut, uint8_t mode)
{
    static const struct as_h1_client_conf conf = {
        .max_line = 100, .max_header_bytes = HEADERS_N, .max_headers = 8, .max_chunk_ext = 16};
    static const struct as_http_client_ops ops = {on_field, on_data, on_close};
    struct fuzz *f = as_xalloc(sizeof(*f));
    uint64_t result;
    int rc = 0;

    as_outq_init(&f->q);
    AS_ASSERT(as_h1_client_new(&f->h, &conf, &ops, f) == 0);
    f->chain = true;
    f->is_head = mode & 0x10;
    start(f);
    if (mode & 0x20) {
        as_h1_client_reset(f->h, f->stream, 8);
        f->chain = false;
    }
    for (size_t at = 0; at < n && !rc; at += cut)
        rc = as_h1_client_recv(f->h, p + at, AS_MIN(cut, n - at));
    if (!rc)
        as_h1_client_eof(f->h);
    AS_ASSERT(rc == 0 || (rc == AS_EPROTO && as_h1_client_why(f->h)));
    result = f->sum * 64 + f->n * 2 + (rc != 0);
    f->chain = false;
    as_h1_client_free(f->h);
    for (uint32_t i = 0; i < CALLS; i++)
        AS_ASSERT(f->call[i].closed == (i < f->n));
    as_outq_fini(&f->q);
    free(f);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t mode = size ? data[0] : 0;
    size_t n = size ? size - 1 : 0;

    data += size > 0;
    AS_ASSERT(run(data, n, AS_MAX(n, (size_t)1), mode) ==
              run(data, n, (size_t)(mode & 15) + 1, mode));
    return 0;
}
