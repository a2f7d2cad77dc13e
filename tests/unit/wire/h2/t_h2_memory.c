/* Failure sweep of wire/h2/h2 in one process: a session with requests is repeated, and each time a
 * later allocation fails. Whatever fails, every request that came is closed once, nothing is leaked
 * or used after it was freed (run it under a sanitizer), and each stream has its complete answer,
 * is refused with 503, or is reset, unless the connection is over. Allocations of this project's
 * files are counted (the linker's --wrap), and so are those of nghttp2, which go through the
 * connection's allocator.
 */
#include "base/err.h"
#include "unit.h"
#include "wire/h2/h2.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

#define STREAMS   6
#define BODY      20000u /* above a DATA frame, below the window */
#define OPEN_ENDS 3      /* streams that are answered before the client has ended them */

/* --- the allocator --- */

static struct {
    bool on;      /* inside of the server */
    unsigned n;   /* allocations so far */
    unsigned at;  /* the first that fails, from 1 */
    unsigned run; /* how many fail from there on */
    long live;    /* blocks of the server */
} mem;

static bool fails(void)
{
    if (!mem.on)
        return false;
    mem.n++;
    return mem.at && mem.n >= mem.at && mem.n - mem.at < mem.run;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__real_aligned_alloc(size_t align, size_t n);
void __real_free(void *p);
void *__real_as_slab_get(size_t n);
void __real_as_slab_put(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_aligned_alloc(size_t align, size_t n);
void __wrap_free(void *p);
void *__wrap_as_slab_get(size_t n);
void __wrap_as_slab_put(void *p);

static void *count(void *p)
{
    mem.live += mem.on && p;
    return p;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : count(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t each)
{
    return fails() ? NULL : count(__real_calloc(n, each));
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : count(__real_aligned_alloc(align, n));
}

void __wrap_free(void *p)
{
    mem.live -= mem.on && p;
    __real_free(p);
}

void *__wrap_as_slab_get(size_t n)
{
    return fails() ? NULL : count(__real_as_slab_get(n));
}

void __wrap_as_slab_put(void *p)
{
    mem.live -= mem.on && p;
    __real_as_slab_put(p);
}

/* --- the server: answers with a body and trailers --- */

struct world {
    struct as_h2 *h;
    struct as_outq q;
    nghttp2_session *client;
    unsigned requests, closes;
    struct as_blob *blob;
    uint32_t stream[STREAMS];
    unsigned asked;
    struct {
        size_t body;
        bool trailers, closed, refused; /* refused: 503 */
        uint32_t code;
    } reply[STREAMS];
};

static const struct as_http_header headers[] = {{{"content-type", 12}, {"application/grpc", 16}}};
static const struct as_http_header trailers[] = {{{"grpc-status", 11}, {"0", 1}}};

static void answer(struct world *w, uint32_t stream)
{
    const struct as_http_piece body[] = {{w->blob->data, 100, NULL},
                                         {w->blob->data + 100, BODY - 100, w->blob}};

    as_h2_answer(w->h, stream,
                 &(struct as_http_answer){.status = 200,
                                          .headers = headers,
                                          .n_headers = 1,
                                          .body = body,
                                          .n_body = 2,
                                          .trailers = trailers,
                                          .n_trailers = 1});
}

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct world *w = conn;
    uint32_t *slot = &w->stream[w->requests++];

    assert_true(as_str_eq(head->path, AS_STR("/m")));
    *slot = stream;
    as_h2_widen_window(w->h, stream, 1 << 20);
    if (w->requests <= OPEN_ENDS)
        answer(w, stream);
    return slot;
}

static void on_data(void *conn, void *req, const uint8_t *p AS_UNUSED, size_t n)
{
    struct world *w = conn;

    as_h2_consume(w->h, *(uint32_t *)req, n);
}

static void on_end(void *conn, void *req)
{
    answer(conn, *(uint32_t *)req);
}

static void on_close(void *conn, void *req, uint32_t code AS_UNUSED)
{
    struct world *w = conn;

    assert_int_not_equal(*(uint32_t *)req, 0);
    *(uint32_t *)req = 0; /* once */
    w->closes++;
}

static const struct as_http_ops ops = {
    .on_request = on_request, .on_data = on_data, .on_end = on_end, .on_close = on_close};

/* --- the client --- */

static int on_chunk(nghttp2_session *s AS_UNUSED, uint8_t flags AS_UNUSED, int32_t id,
                    const uint8_t *p, size_t n, void *user)
{
    struct world *w = user;
    size_t *at = &w->reply[(id - 1) / 2].body;

    assert_true(*at + n <= BODY);
    assert_memory_equal(p, w->blob->data + *at, n);
    *at += n;
    return 0;
}

static int on_header(nghttp2_session *s AS_UNUSED, const nghttp2_frame *f, const uint8_t *name,
                     size_t n_name, const uint8_t *value, size_t n_value, uint8_t flags AS_UNUSED,
                     void *user)
{
    struct world *w = user;

    if (n_name == 7 && memcmp(name, ":status", 7) == 0 && n_value == 3)
        w->reply[(f->hd.stream_id - 1) / 2].refused = memcmp(value, "503", 3) == 0;
    return 0;
}

static int on_frame(nghttp2_session *s AS_UNUSED, const nghttp2_frame *f, void *user)
{
    struct world *w = user;

    if (f->hd.type == NGHTTP2_HEADERS && (f->hd.flags & NGHTTP2_FLAG_END_STREAM))
        w->reply[(f->hd.stream_id - 1) / 2].trailers = true;
    return 0;
}

static int on_client_close(nghttp2_session *s AS_UNUSED, int32_t id, uint32_t code, void *user)
{
    struct world *w = user;

    w->reply[(id - 1) / 2].closed = true;
    w->reply[(id - 1) / 2].code = code;
    return 0;
}

static ssize_t upload(nghttp2_session *s AS_UNUSED, int32_t id AS_UNUSED, uint8_t *buf, size_t max,
                      uint32_t *flags, nghttp2_data_source *source, void *user AS_UNUSED)
{
    size_t *left = source->ptr, n = AS_MIN(max, *left);

    memset(buf, 'x', n);
    *left -= n;
    if (!*left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static void open_client(struct world *w)
{
    nghttp2_session_callbacks *cb;

    assert_int_equal(nghttp2_session_callbacks_new(&cb), 0);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_client_close);
    assert_int_equal(nghttp2_session_client_new(&w->client, cb, w), 0);
    nghttp2_session_callbacks_del(cb);
    assert_int_equal(nghttp2_submit_settings(w->client, NGHTTP2_FLAG_NONE, NULL, 0), 0);
}

static nghttp2_nv nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static void ask(struct world *w, size_t *left)
{
    /* three headers that are larger than a stream's record */
    char value[600];
    nghttp2_nv fields[7];
    nghttp2_data_provider body = {.source = {.ptr = left}, .read_callback = upload};

    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = 0;
    fields[0] = nv(":method", "POST");
    fields[1] = nv(":scheme", "http");
    fields[2] = nv(":path", "/m");
    fields[3] = nv(":authority", "host");
    fields[4] = nv("x-first", value);
    fields[5] = nv("x-second", value);
    fields[6] = nv("x-third", value);
    assert_true(nghttp2_submit_request(w->client, NULL, fields, AS_COUNT(fields), &body, NULL) > 0);
    w->asked++;
}

/* --- the wire --- */

/* 0, or what ended the connection. */
static int to_server(struct world *w, bool *ret_any)
{
    const uint8_t *p;
    size_t taken;
    ssize_t n;
    int err = 0;

    while (!err && (n = nghttp2_session_mem_send(w->client, &p)) > 0) {
        mem.on = true;
        err = as_h2_recv(w->h, p, (size_t)n, AS_SEC, &taken);
        mem.on = false;
        assert_true(err || taken == (size_t)n); /* six requests fit one call */
        *ret_any = true;
    }
    return err;
}

static int to_client(struct world *w, bool *ret_any)
{
    struct iovec iov[16];
    int err, k;

    mem.on = true;
    err = as_h2_send(w->h, &w->q, 1 << 20);
    mem.on = false;
    if (w->q.broken)
        return AS_ENOMEM; /* like a real owner: nothing more is written */
    while ((k = as_outq_iov(&w->q, iov, 16)) > 0) {
        for (int i = 0; i < k; i++) {
            assert_true(nghttp2_session_mem_recv(w->client, iov[i].iov_base, iov[i].iov_len) >= 0);
            mem.on = true;
            as_outq_drop(&w->q, iov[i].iov_len);
            mem.on = false;
        }
        *ret_any = true;
    }
    return err;
}

static int pump(struct world *w)
{
    bool any;
    int err;

    do {
        any = false;
        err = to_server(w, &any);
        if (!err)
            err = to_client(w, &any);
        else
            (void)to_client(w, &any);
    } while (any && !err);
    return err;
}

/* One connection with all its requests. Returns how many allocations it took. */
static unsigned live_once(unsigned at, unsigned run, unsigned *ret_right)
{
    static const struct as_h2_conf conf = {.max_streams = 100,
                                           .stream_window = 65535,
                                           .conn_window = 1 << 20,
                                           .max_header_list = 8192,
                                           .max_headers = 100};
    struct world w = {.blob = as_blob_new(BODY)};
    size_t left[STREAMS];
    int err;

    for (size_t i = 0; i < BODY; i++)
        w.blob->data[i] = (uint8_t)(i * 31 + i / 256);
    open_client(&w);
    as_outq_init(&w.q);
    mem.n = 0;
    mem.live = 0;
    mem.at = at;
    mem.run = run;
    mem.on = true;
    err = as_h2_new(&w.h, &conf, &ops, &w, AS_SEC);
    mem.on = false;
    for (unsigned i = 0; i < STREAMS && !err; i++) { /* two at a time */
        left[i] = i % 2 ? 70000 : 100;
        ask(&w, &left[i]);
        if (i % 2)
            err = pump(&w);
    }
    if (!err) {
        mem.on = true;
        as_h2_shutdown_notice(w.h);
        as_h2_shutdown_final(w.h);
        mem.on = false;
        err = pump(&w);
    }
    *ret_right = 0;
    for (unsigned i = 0; i < w.asked; i++) {
        bool right = w.reply[i].body == BODY && w.reply[i].trailers && w.reply[i].closed;

        *ret_right += right;
        /* never an incomplete answer that looks complete, never a stream that waits on a living
         * connection */
        assert_true(right || err || w.reply[i].refused || (w.reply[i].closed && w.reply[i].code));
    }
    mem.on = true;
    as_h2_free(w.h);
    as_outq_fini(&w.q);
    mem.on = false;
    assert_int_equal(w.closes, w.requests);
    assert_int_equal(mem.live, 0);
    assert_int_equal(atomic_load(&w.blob->refs), 1);
    as_blob_unref(w.blob);
    nghttp2_session_del(w.client);
    return mem.n;
}

static void sweep(unsigned run)
{
    unsigned right, n = live_once(0, 0, &right), ended = 0;

    assert_int_equal(right, STREAMS);
    assert_true(n > 50);
    for (unsigned at = 1; at <= n; at++) {
        (void)live_once(at, run, &right);
        ended += right < STREAMS;
    }
    print_message("# %u allocations, %u of %u failures were felt by a request\n", n, ended, n);
    assert_true(ended > 0);
}

static void any_single_allocation_may_fail(void **state AS_UNUSED)
{
    sweep(1);
}

static void any_two_in_a_row_may_fail(void **state AS_UNUSED)
{
    sweep(2);
}

static void all_from_any_one_on_may_fail(void **state AS_UNUSED)
{
    sweep(UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_single_allocation_may_fail),
        cmocka_unit_test(any_two_in_a_row_may_fail),
        cmocka_unit_test(all_from_any_one_on_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
