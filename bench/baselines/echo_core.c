/* bench/baselines/echo_core.c — see the header. */
#include "echo_core.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* as large as a burst of many streams gets, so that a turn is one read in practice */
#define READ_MAX  ((size_t)256 << 10)
#define WRITE_MAX ((size_t)256 << 10) /* soft: no more frames are asked for beyond it */
#define WINDOW    (16 << 20)
#define NV(name, value)                                                                            \
    {                                                                                              \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1,             \
            sizeof(value) - 1, NGHTTP2_NV_FLAG_NONE                                                \
    }

/* One connection. Output is gathered here and written with one call per turn, as AnyServe does:
 * else the comparison would be of system calls. */
struct as_echo {
    nghttp2_session *session;
    int fd;
    size_t out_n, out_off, out_cap;
    uint8_t *out;
};

/* The whole request is kept and sent back when it has ended: an echo of unary calls, not a pipe. */
struct stream {
    size_t n, off, cap;
    uint8_t *body;
};

static int on_begin_headers(nghttp2_session *s, const nghttp2_frame *frame, void *user AS_UNUSED)
{
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        nghttp2_session_set_stream_user_data(s, frame->hd.stream_id,
                                             as_xalloc(sizeof(struct stream)));
    return 0;
}

/* Fields are decoded (nghttp2 cannot help it) and not looked at: this is the floor, what routing
 * and deadlines cost comes on top. */
static int on_header(nghttp2_session *s AS_UNUSED, const nghttp2_frame *frame AS_UNUSED,
                     const uint8_t *name AS_UNUSED, size_t name_n AS_UNUSED,
                     const uint8_t *value AS_UNUSED, size_t value_n AS_UNUSED,
                     uint8_t flags AS_UNUSED, void *user AS_UNUSED)
{
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags AS_UNUSED, int32_t id, const uint8_t *p,
                   size_t n, void *user AS_UNUSED)
{
    struct stream *st = nghttp2_session_get_stream_user_data(s, id);

    if (st->n + n > st->cap) {
        st->cap = AS_MAX(2 * st->cap, st->n + n);
        st->body = as_xrealloc(st->body, st->cap);
    }
    memcpy(st->body + st->n, p, n);
    st->n += n;
    return 0;
}

static ssize_t read_body(nghttp2_session *s, int32_t id, uint8_t *p, size_t max, uint32_t *flags,
                         nghttp2_data_source *source, void *user AS_UNUSED)
{
    static const nghttp2_nv trailers[] = {NV("grpc-status", "0")};
    struct stream *st = source->ptr;
    size_t n = AS_MIN(max, st->n - st->off);

    memcpy(p, st->body + st->off, n);
    st->off += n;
    if (st->off == st->n) {
        /* the end of the stream travels on the trailers, as gRPC wants it */
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(s, id, trailers, AS_COUNT(trailers));
    }
    return (ssize_t)n;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *user AS_UNUSED)
{
    static const nghttp2_nv headers[] = {NV(":status", "200"),
                                         NV("content-type", "application/grpc")};
    nghttp2_data_provider body = {.read_callback = read_body};

    /* a request without a body ends with its HEADERS */
    if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    body.source.ptr = nghttp2_session_get_stream_user_data(s, frame->hd.stream_id);
    nghttp2_submit_response(s, frame->hd.stream_id, headers, AS_COUNT(headers), &body);
    return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t code AS_UNUSED, void *user AS_UNUSED)
{
    struct stream *st = nghttp2_session_get_stream_user_data(s, id);

    if (st) {
        free(st->body);
        free(st);
    }
    return 0;
}

static nghttp2_session *new_session(struct as_echo *e)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1024},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
        /* or nghttp2 keeps a tree of priorities that nobody uses */
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    nghttp2_session_callbacks *cb;
    nghttp2_option *option;
    nghttp2_session *s;

    nghttp2_session_callbacks_new(&cb);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    nghttp2_option_new(&option);
    /* likewise: closed streams are not kept for the tree */
    nghttp2_option_set_no_closed_streams(option, 1);
    AS_ASSERT(nghttp2_session_server_new2(&s, cb, e, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);
    nghttp2_submit_settings(s, NGHTTP2_FLAG_NONE, settings, AS_COUNT(settings));
    /* large windows: no WINDOW_UPDATE in the way of what is measured */
    nghttp2_session_set_local_window_size(s, NGHTTP2_FLAG_NONE, 0, 4 * WINDOW);
    return s;
}

int as_echo_listen(const char *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)strtoul(port, NULL, 10))};
    socklen_t addr_n = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0 || listen(fd, 1024) != 0) {
        perror("listen");
        exit(1);
    }
    getsockname(fd, (struct sockaddr *)&addr, &addr_n);
    /* PORT 0 takes a free one; bench/servers.py reads this line */
    printf("port %u\n", ntohs(addr.sin_port));
    fflush(stdout);
    return fd;
}

struct as_echo *as_echo_new(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct as_echo *e;

    if (fd < 0)
        return NULL;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    e = as_xalloc(sizeof(*e));
    e->fd = fd;
    e->session = new_session(e);
    return e;
}

void as_echo_free(struct as_echo *e)
{
    nghttp2_session_del(e->session);
    close(e->fd);
    free(e->out);
    free(e);
}

int as_echo_fd(const struct as_echo *e)
{
    return e->fd;
}

/* false: the peer is gone or broke the protocol; the connection ends. */
static bool read_once(struct as_echo *e)
{
    static uint8_t in[READ_MAX];
    ssize_t n = recv(e->fd, in, sizeof(in), 0);

    if (n < 0)
        return errno == EAGAIN;
    return n > 0 && nghttp2_session_mem_recv(e->session, in, (size_t)n) == n;
}

/* Copied into one buffer: nghttp2's pieces are valid only until the next call. */
static void collect(struct as_echo *e)
{
    while (e->out_n < WRITE_MAX) {
        const uint8_t *p;
        ssize_t n = nghttp2_session_mem_send(e->session, &p);

        if (n <= 0)
            return;
        if (e->out_n + (size_t)n > e->out_cap) {
            e->out_cap = AS_MAX(2 * e->out_cap, e->out_n + (size_t)n);
            e->out = as_xrealloc(e->out, e->out_cap);
        }
        memcpy(e->out + e->out_n, p, (size_t)n);
        e->out_n += (size_t)n;
    }
}

/* What is left waits for writability (as_echo_is_blocked). */
static bool write_once(struct as_echo *e)
{
    ssize_t n = send(e->fd, e->out + e->out_off, e->out_n - e->out_off, MSG_NOSIGNAL);

    if (n < 0)
        return errno == EAGAIN;
    e->out_off += (size_t)n;
    if (e->out_off == e->out_n)
        e->out_off = e->out_n = 0;
    return true;
}

bool as_echo_turn(struct as_echo *e, bool readable)
{
    if (readable && !read_once(e))
        return false;
    collect(e);
    if (e->out_n && !write_once(e))
        return false;
    return nghttp2_session_want_read(e->session) || nghttp2_session_want_write(e->session);
}

bool as_echo_is_blocked(const struct as_echo *e)
{
    return e->out_n > 0 || nghttp2_session_want_write(e->session);
}
