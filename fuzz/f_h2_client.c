/* A hostile HTTP/2 server: any bytes as the answer on a connection with four open gRPC calls. The
 * first byte chooses how the input is cut, and whether ended calls start new ones. Checked: every
 * call is closed once, no event for it follows, messages stay within their limit.
 */
#include "wire/grpc/grpc_call.h"
#include "wire/h2/h2_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CALLS     32u
#define FIRST     4u
#define LIMIT     1000u
#define HEADERS_N 4096u

struct call {
    struct as_grpc_call grpc;
    uint32_t stream;
    bool closed;
};

struct fuzz {
    struct as_h2_client *h;
    struct as_outq q;
    struct call call[CALLS];
    uint32_t n;
    bool chain;
};

static void start(struct fuzz *f)
{
    static const struct as_str body[] = {{"\0\0\0\0\2hi", 7}};
    struct as_http_header fields[AS_GRPC_CALL_FIELDS];
    struct as_http_client_request r = {.headers = fields, .body = body, .n_body = 1};
    struct call *c = &f->call[f->n];

    if (f->n == CALLS)
        return;
    r.n_headers = as_grpc_call_fields(fields, AS_STR("http"), AS_STR("/s/m"), AS_STR("h"),
                                      AS_STR("a"), AS_STR("1S"));
    as_grpc_call_begin(&c->grpc, LIMIT);
    f->n += as_h2_client_request(f->h, &r, c, &c->stream) == 0;
}

static void on_field(void *conn, void *call, struct as_str name, struct as_str value, bool trailer)
{
    struct call *c = call;

    (void)conn;
    (void)trailer;
    AS_ASSERT(!c->closed && name.n + value.n <= HEADERS_N);
    as_grpc_call_field(&c->grpc, name, value);
}

static void on_data(void *conn, void *call, const uint8_t *p, size_t n)
{
    struct fuzz *f = conn;
    struct call *c = call;

    AS_ASSERT(!c->closed);
    if (as_grpc_call_data(&c->grpc, p, n))
        as_h2_client_reset(f->h, c->stream, 8);
    AS_ASSERT(c->grpc.message.n <= LIMIT);
}

static void on_close(void *conn, void *call, uint32_t code, bool whole)
{
    struct fuzz *f = conn;
    struct call *c = call;

    AS_ASSERT(!c->closed);
    c->closed = true;
    if (as_grpc_call_end(&c->grpc, code, whole) == 0)
        AS_ASSERT(whole && c->grpc.reader.messages == 1);
    if (f->chain)
        start(f);
}

static const struct as_http_client_ops ops = {on_field, on_data, on_close};

static bool send(struct fuzz *f)
{
    int rc = as_h2_client_send(f->h, &f->q, 65536);

    as_outq_drop(&f->q, f->q.bytes);
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct as_h2_client_conf conf = {
        .stream_window = 65535, .conn_window = 1 << 20, .max_header_list = HEADERS_N};
    struct fuzz *f = as_xalloc(sizeof(*f));
    uint8_t mode = size ? data[0] : 0;
    size_t cut = (mode >> 1 & 7) ? (size_t)1 << (mode >> 1 & 7) : size;

    as_outq_init(&f->q);
    AS_ASSERT(as_h2_client_new(&f->h, &conf, &ops, f) == 0);
    f->chain = mode & 1;
    for (uint32_t i = 0; i < FIRST; i++)
        start(f);
    send(f);
    for (size_t at = 1; at < size; at += cut) {
        if (as_h2_client_recv(f->h, data + at, AS_MIN(cut, size - at)) || !send(f))
            break;
    }
    f->chain = false;
    as_h2_client_free(f->h);
    for (uint32_t i = 0; i < CALLS; i++) {
        AS_ASSERT(f->call[i].closed == (i < f->n));
        as_grpc_call_fini(&f->call[i].grpc);
    }
    as_outq_fini(&f->q);
    free(f);
    return 0;
}
