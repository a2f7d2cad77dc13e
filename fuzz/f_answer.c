/* Any names, values and texts, which user code may choose, are sent to a client: no byte of them
 * may become syntax.
 *
 * The input is a list of fields: a byte for the length of the name, one for that of the value, and
 * both texts. They are sent as headers and trailers of a response over HTTP/1.1, and twice over
 * HTTP/2 (the second time from wire/h2/h2_response_cache), and read by our own clients: exactly
 * those fields must arrive that wire/http/http_field allows. They are also written as a
 * grpc-message, an error in JSON, and a response of generate_stream, which must be a single event.
 */
#include "base/err.h"
#include "wire/grpc/grpc.h"
#include "wire/h1/h1.h"
#include "wire/h1/h1_client.h"
#include "wire/h2/h2.h"
#include "wire/h2/h2_client.h"
#include "wire/http/http_field.h"
#include "wire/http/sse.h"
#include "wire/name_check.h"
#include "wire/oip/oip_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIELDS 24u
#define NOW    ((as_ns)1 << 40)

struct fuzz {
    struct as_http_header f[FIELDS];
    uint32_t n, split; /* headers, and from `split` on trailers */
    struct as_buf want, got;
    uint32_t stream;
    unsigned closed;
};

static uint32_t read_fields(struct as_http_header *f, const uint8_t *p, size_t size)
{
    uint32_t n = 0;

    while (size >= 2 && n < FIELDS) {
        size_t name = AS_MIN((size_t)p[0], size - 2);
        size_t value = AS_MIN((size_t)p[1], size - 2 - name);

        f[n].name = (struct as_str){(const char *)p + 2, name};
        f[n].value = (struct as_str){(const char *)p + 2 + name, value};
        p += 2 + name + value;
        size -= 2 + name + value;
        /* the server itself sets the length of a response */
        n += !as_str_eq(f[n].name, AS_STR("content-length"));
    }
    return n;
}

static void put(struct as_buf *b, struct as_str name, struct as_str value, bool trailer)
{
    as_buf_printf(b, "%d %zu %zu ", trailer, name.n, value.n);
    if (name.n)
        as_buf_add(b, name.p, name.n);
    if (value.n)
        as_buf_add(b, value.p, value.n);
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head AS_UNUSED)
{
    struct fuzz *f = conn;

    f->stream = stream;
    return f;
}

static void on_server_data(void *c AS_UNUSED, void *r AS_UNUSED, const uint8_t *p AS_UNUSED,
                           size_t n AS_UNUSED)
{
}

static void on_end(void *c AS_UNUSED, void *r AS_UNUSED)
{
}

static void on_server_close(void *c AS_UNUSED, void *r AS_UNUSED, uint32_t code AS_UNUSED)
{
}

static const struct as_http_ops server_ops = {
    .on_request = on_request,
    .on_data = on_server_data,
    .on_end = on_end,
    .on_close = on_server_close,
};

/* Ignores the header fields that HTTP/1.1 adds. */
static void on_field(void *conn, void *call AS_UNUSED, struct as_str name, struct as_str value,
                     bool trailer)
{
    struct fuzz *f = conn;

    if (!as_str_eq(name, AS_STR("content-length")))
        put(&f->got, name, value, trailer);
}

static void on_data(void *conn, void *call AS_UNUSED, const uint8_t *p, size_t n)
{
    struct fuzz *f = conn;

    AS_ASSERT(n == 2 && memcmp(p, "ok", 2) == 0);
    as_buf_str(&f->got, "ok");
}

static void on_close(void *conn, void *call AS_UNUSED, uint32_t code AS_UNUSED, bool whole)
{
    struct fuzz *f = conn;

    AS_ASSERT(whole);
    f->closed++;
}

static const struct as_http_client_ops client_ops = {on_field, on_data, on_close};

static void expect(struct fuzz *f, bool trailers)
{
    f->want.n = f->got.n = 0;
    f->closed = 0;
    put(&f->want, AS_STR(":status"), AS_STR("200"), false);
    for (uint32_t i = 0; i < f->split; i++) {
        if (as_http_field_is_valid(&f->f[i]))
            put(&f->want, f->f[i].name, f->f[i].value, false);
    }
    as_buf_str(&f->want, "ok");
    for (uint32_t i = f->split; trailers && i < f->n; i++) {
        if (as_http_field_is_valid(&f->f[i]))
            put(&f->want, f->f[i].name, f->f[i].value, true);
    }
}

static void check(const struct fuzz *f)
{
    AS_ASSERT(f->closed == 1 && f->got.n == f->want.n);
    AS_ASSERT(memcmp(f->got.p, f->want.p, f->got.n) == 0);
}

static const struct as_http_header asked[] = {{{":method", 7}, {"GET", 3}},
                                              {{":scheme", 7}, {"http", 4}},
                                              {{":path", 5}, {"/", 1}},
                                              {{":authority", 10}, {"h", 1}}};
static const struct as_http_client_request request = {.headers = asked, .n_headers = 4};

static struct as_http_answer answer_of(const struct fuzz *f)
{
    static const struct as_http_piece body = {(const uint8_t *)"ok", 2, NULL};

    return (struct as_http_answer){.status = 200,
                                   .headers = f->f,
                                   .n_headers = f->split,
                                   .body = &body,
                                   .n_body = 1,
                                   .trailers = f->f + f->split,
                                   .n_trailers = f->n - f->split};
}

/* Removes all bytes from a queue and returns them. */
static struct as_buf drain(struct as_outq *q)
{
    struct as_buf b = {0};
    struct iovec iov[16];

    while (q->bytes) {
        int n = as_outq_iov(q, iov, AS_COUNT(iov));
        size_t all = 0;

        for (int i = 0; i < n; i++) {
            as_buf_add(&b, iov[i].iov_base, iov[i].iov_len);
            all += iov[i].iov_len;
        }
        as_outq_drop(q, all);
    }
    return b;
}

static void over_h1(struct fuzz *f)
{
    const struct as_h1_conf server_conf = {8192, 65536, 100, 1024, 65536};
    const struct as_h1_client_conf client_conf = {8192, 1u << 20, 1000, 1024};
    struct as_http_answer a = answer_of(f);
    struct as_h1_client *client;
    struct as_h1 *server;
    struct as_outq q;
    struct as_buf b;
    size_t taken;
    uint32_t id;

    as_outq_init(&q);
    AS_ASSERT(!as_h1_new(&server, &server_conf, &server_ops, f));
    AS_ASSERT(!as_h1_client_new(&client, &client_conf, &client_ops, f));
    expect(f, false);
    AS_ASSERT(!as_h1_client_request(client, &request, f, &id));
    AS_ASSERT(!as_h1_client_send(client, &q, SIZE_MAX));
    b = drain(&q);
    AS_ASSERT(!as_h1_recv(server, b.p, b.n, NOW, &taken) && taken == b.n);
    as_buf_fini(&b);
    as_h1_answer(server, f->stream, &a);
    AS_ASSERT(!as_h1_send(server, &q, SIZE_MAX));
    b = drain(&q);
    AS_ASSERT(!as_h1_client_recv(client, b.p, b.n));
    as_buf_fini(&b);
    check(f);
    as_h1_client_free(client);
    as_h1_free(server);
    as_outq_fini(&q);
}

static void pump(struct as_h2 *server, struct as_h2_client *client, struct as_outq *q)
{
    do {
        struct as_buf b;
        size_t taken = 0;

        AS_ASSERT(!as_h2_client_send(client, q, SIZE_MAX));
        b = drain(q);
        for (size_t at = 0; at < b.n; at += taken)
            AS_ASSERT(!as_h2_recv(server, b.p + at, b.n - at, NOW, &taken));
        as_buf_fini(&b);
        AS_ASSERT(!as_h2_send(server, q, SIZE_MAX));
        b = drain(q);
        AS_ASSERT(!as_h2_client_recv(client, b.p, b.n));
        as_buf_fini(&b);
    } while (as_h2_client_wants_write(client) || as_h2_wants_write(server));
}

static void over_h2(struct fuzz *f)
{
    const struct as_h2_conf server_conf = {.max_streams = 10,
                                           .stream_window = 65536,
                                           .conn_window = 1u << 20,
                                           .max_header_list = 65536,
                                           .max_headers = 100};
    const struct as_h2_client_conf client_conf = {65536, 1u << 20, 1u << 20};
    struct as_http_answer a = answer_of(f);
    struct as_h2_client *client;
    struct as_h2 *server;
    struct as_outq q;
    uint32_t id;

    as_outq_init(&q);
    AS_ASSERT(!as_h2_new(&server, &server_conf, &server_ops, f, NOW));
    AS_ASSERT(!as_h2_client_new(&client, &client_conf, &client_ops, f));
    for (int again = 0; again < 3; again++) {
        expect(f, true);
        AS_ASSERT(!as_h2_client_request(client, &request, f, &id));
        pump(server, client, &q);
        as_h2_answer(server, f->stream, &a);
        pump(server, client, &q);
        check(f);
    }
    as_h2_client_free(client);
    as_h2_free(server);
    as_outq_fini(&q);
}

/* A status text goes into a header, percent-encoded. */
static void as_message(struct as_str text)
{
    static char out[AS_GRPC_MESSAGE_MAX];
    size_t n = as_grpc_encode_message(out, sizeof(out), text);

    AS_ASSERT(n <= sizeof(out) && as_http_field_is_value((struct as_str){out, n}));
    for (size_t i = 0; i < n; i++)
        AS_ASSERT(out[i] >= 0x20 && out[i] <= 0x7e);
    n = as_grpc_encode_message(out, AS_MIN(text.n, sizeof(out)), text); /* cut short */
    AS_ASSERT(as_http_field_is_value((struct as_str){out, n}));
}

/* One event, whose data is that text. */
static void check_event(struct as_buf *event)
{
    struct as_buf data = {0};
    struct as_sse s = {0};
    const uint8_t *p;
    size_t n, text = event->n;

    for (size_t i = 0; i < event->n; i++)
        AS_ASSERT(event->p[i] >= 0x20);
    as_buf_str(event, "\n\n");
    p = event->p;
    n = event->n;
    AS_ASSERT(as_sse_read(&s, &p, &n, &data, SIZE_MAX) == AS_SSE_EVENT);
    AS_ASSERT(n == 0 && as_sse_at_boundary(&s) && data.n == text - strlen("data: "));
    as_buf_fini(&data);
}

static void as_error(struct as_str text)
{
    struct as_buf b = {0};

    as_buf_str(&b, "data: {\"error\":");
    as_buf_json(&b, text);
    as_buf_str(&b, "}");
    check_event(&b);
    as_buf_fini(&b);
}

/* Names, ids, values and parameters of a response. */
static void as_response(const struct as_http_header *f)
{
    uint8_t bytes[4 + 255];
    const int64_t one[] = {1};
    struct as_tensor t = {.name = f->name, .dtype = AS_DT_BYTES, .shape = one, .ndim = 1};
    struct as_param param = {.name = f->name, .type = AS_PARAM_STRING, .str = f->value};
    struct as_oip_response r = {.model = f->value,
                                .version = f->name,
                                .id = f->value,
                                .outputs = &t,
                                .n_outputs = 1,
                                .params = &param,
                                .n_params = 1};
    const uint32_t len = (uint32_t)f->value.n;
    struct as_buf b = {0};
    char why[256];
    uint64_t max;

    if (!as_name_check_utf8(f->name) || !as_name_check_utf8(f->value))
        return; /* workers may not send these */
    memcpy(bytes, &len, 4);
    if (len)
        memcpy(bytes + 4, f->value.p, len);
    t.data = bytes;
    t.nbytes = 4 + len;
    if (as_oip_json_generate_max(&r, &max, why, sizeof(why)))
        return;
    as_buf_str(&b, "data: ");
    as_buf_reserve(&b, (size_t)max);
    b.n += as_oip_json_put_generate(b.p + b.n, &r);
    check_event(&b);
    as_buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz f = {0};

    if (!size)
        return 0;
    f.n = read_fields(f.f, data + 1, size - 1);
    f.split = f.n ? data[0] % (f.n + 1) : 0;
    over_h1(&f);
    over_h2(&f);
    for (uint32_t i = 0; i < f.n; i++) {
        as_message(f.f[i].value);
        as_error(f.f[i].value);
        as_response(&f.f[i]);
    }
    as_buf_fini(&f.want);
    as_buf_fini(&f.got);
    return 0;
}
