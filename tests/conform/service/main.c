/* tests/conform/service/main.c — gRPC connections for the test service.  test_service [PORT]
 *
 * The same io, wire/h2/h2 and wire/grpc/grpc as AnyServe's own, with as little as possible around
 * them. Listens on localhost and prints "port N"; SIGTERM ends it.
 */
#include "call.h"

#include "io/loop/sock.h"
#include "io/socket/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>

#define RX            (128u << 10)
#define OUT_MAX       (512u << 10)
#define MESSAGE_MAX   (16u << 20) /* either way */
#define UNIMPLEMENTED 12u

enum { INTERNAL = 13, RESOURCE_EXHAUSTED = 8 };

struct server {
    struct as_loop *loop;
    struct as_sock listeners[2]; /* localhost has two addresses */
    int n_listeners;
    struct as_list conns;
    uv_signal_t term;
    uint8_t rx[RX];
};

struct conn {
    struct as_sock sock;
    struct as_task flush;
    struct as_outq out;
    struct as_h2 *h2;
    struct server *server;
    struct as_list node;
    bool ending;
};

static uint8_t *zeros; /* MESSAGE_MAX bytes of payload: only read, so that they take no memory */

static const struct as_h2_conf h2_conf = {.max_streams = 1024,
                                          .stream_window = 1 << 20,
                                          .conn_window = 16 << 20,
                                          .max_header_list = 16384,
                                          .max_headers = 100};

/* --- answers --- */

bool call_send(struct call *c, struct as_str head, size_t n_zeros, struct as_str tail)
{
    size_t n = head.n + n_zeros + tail.n;
    uint8_t *p;

    if (c->done)
        return true;
    if (n_zeros > MESSAGE_MAX || c->n_pieces + 3 > CALL_PIECES)
        return false;
    p = as_arena_alloc(&c->arena, AS_GRPC_PREFIX + head.n + tail.n, 1);
    AS_ASSERT(p);
    as_grpc_prefix(p, (uint32_t)n);
    memcpy(p + AS_GRPC_PREFIX, head.p, head.n);
    memcpy(p + AS_GRPC_PREFIX + head.n, tail.p, tail.n);
    c->pieces[c->n_pieces++] = (struct as_http_piece){p, AS_GRPC_PREFIX + head.n, NULL};
    if (n_zeros)
        c->pieces[c->n_pieces++] = (struct as_http_piece){zeros, n_zeros, NULL};
    if (tail.n)
        c->pieces[c->n_pieces++] =
            (struct as_http_piece){p + AS_GRPC_PREFIX + head.n, tail.n, NULL};
    return true;
}

/* Copies the request's metadata `name`, if it has it, to where h points to. */
static uint32_t echo(const struct call *c, struct as_str name, struct as_http_header *h)
{
    for (uint32_t i = 0; i < c->head->n_rest; i++) {
        if (as_str_eq(c->head->rest[i].name, name)) {
            *h = c->head->rest[i];
            return 1;
        }
    }
    return 0;
}

/* The pieces as one blob, which lives until it is sent, however long the client takes. */
static void write_pieces(struct call *c)
{
    struct as_http_piece all = {0};
    struct as_blob *b;
    uint8_t *p;

    for (uint32_t i = 0; i < c->n_pieces; i++)
        all.n += c->pieces[i].n;
    if (!all.n)
        return;
    b = as_blob_new(all.n);
    AS_ASSERT(b);
    all.p = p = b->data;
    all.owner = b;
    for (uint32_t i = 0; i < c->n_pieces; p += c->pieces[i++].n)
        memcpy(p, c->pieces[i].p, c->pieces[i].n);
    as_h2_write(c->conn->h2, c->stream, &all);
    as_blob_unref(b);
    c->n_pieces = 0;
    as_loop_defer(c->conn->server->loop, &c->conn->flush);
}

static uint32_t headers_of(const struct call *c, struct as_http_header headers[2])
{
    headers[0] = (struct as_http_header){AS_STR("content-type"), AS_STR("application/grpc")};
    return 1 + echo(c, AS_STR("x-grpc-test-echo-initial"), &headers[1]);
}

void call_flush(struct call *c)
{
    struct as_http_header headers[2];
    struct as_http_answer a = {.status = 200, .headers = headers};

    if (c->done || !c->n_pieces)
        return;
    if (!c->open) {
        a.n_headers = headers_of(c, headers);
        as_h2_begin(c->conn->h2, c->stream, &a);
        c->open = true;
    }
    write_pieces(c);
}

void call_end(struct call *c, uint32_t status, struct as_str text)
{
    char number[12], message[AS_GRPC_MESSAGE_MAX];
    struct as_http_header headers[2];
    struct as_http_header trailers[3] = {
        {AS_STR("grpc-status"), {number, (size_t)snprintf(number, sizeof(number), "%u", status)}},
    };
    struct as_http_answer a = {.status = 200,
                               .headers = headers,
                               .n_headers = headers_of(c, headers),
                               .body = c->pieces,
                               .n_body = status ? 0 : c->n_pieces,
                               .trailers = trailers,
                               .n_trailers = 1};

    if (c->done)
        return;
    c->done = true;
    if (text.n)
        trailers[a.n_trailers++] = (struct as_http_header){
            AS_STR("grpc-message"),
            {message, as_grpc_encode_message(message, sizeof(message), text)}};
    a.n_trailers += echo(c, AS_STR("x-grpc-test-echo-trailing-bin"), &trailers[a.n_trailers]);
    if (c->open) {
        write_pieces(c);
        as_h2_finish(c->conn->h2, c->stream, trailers, a.n_trailers);
    } else {
        as_h2_answer(c->conn->h2, c->stream, &a);
    }
    as_loop_defer(c->conn->server->loop, &c->conn->flush);
}

/* --- requests --- */

static void *on_request(void *conn, uint32_t stream, const struct as_http_head *head)
{
    struct call *c = as_xalloc(sizeof(*c));

    *c = (struct call){.conn = conn, .stream = stream, .head = head};
    as_arena_init(&c->arena, NULL, 0);
    if (!as_grpc_is_content_type(head->content_type)) {
        as_h2_answer(c->conn->h2, stream, &(struct as_http_answer){.status = 415});
        c->done = true;
        return c;
    }
    c->method = method_find(head->path);
    if (!c->method)
        call_end(c, UNIMPLEMENTED, AS_STR("no such method here"));
    return c;
}

static void begin_message(struct call *c, uint64_t len, bool compressed)
{
    c->message.n = 0;
    if (compressed)
        call_end(c, UNIMPLEMENTED, AS_STR("this service takes no compressed messages"));
    else if (len > MESSAGE_MAX)
        call_end(c, RESOURCE_EXHAUSTED, AS_STR("the message is too large"));
    else if (c->reader.messages > c->method->max_messages)
        call_end(c, UNIMPLEMENTED, AS_STR("more messages than the method takes"));
}

static void on_data(void *conn, void *req, const uint8_t *p, size_t n)
{
    struct call *c = req;
    enum as_grpc_step step;
    const uint8_t *part;
    uint64_t len;
    bool compressed;

    as_h2_consume(((struct conn *)conn)->h2, c->stream, n);
    while (!c->done && (step = as_grpc_read(&c->reader, &p, &n, &part, &len, &compressed))) {
        if (step == AS_GRPC_BAD)
            call_end(c, INTERNAL, AS_STR("the body is not gRPC"));
        else if (step == AS_GRPC_MESSAGE)
            begin_message(c, len, compressed);
        else
            as_buf_add(&c->message, part, len);
        if (!c->done && as_grpc_at_boundary(&c->reader))
            c->method->on_message(c, as_buf_slice(&c->message));
    }
}

static void on_end(void *conn AS_UNUSED, void *req)
{
    struct call *c = req;

    if (c->done)
        return;
    if (!as_grpc_at_boundary(&c->reader))
        call_end(c, INTERNAL, AS_STR("the body ends inside of a message"));
    else if (c->reader.messages < c->method->min_messages)
        call_end(c, UNIMPLEMENTED, AS_STR("no message"));
    else
        c->method->on_end(c);
}

static void on_close(void *conn AS_UNUSED, void *req, uint32_t code AS_UNUSED)
{
    struct call *c = req;

    as_buf_fini(&c->message);
    as_arena_fini(&c->arena);
    free(c);
}

/* Answers are small: they are not held back. */
static void on_drained(void *conn AS_UNUSED, void *req AS_UNUSED)
{
}

static const struct as_http_ops ops = {.on_request = on_request,
                                       .on_data = on_data,
                                       .on_end = on_end,
                                       .on_close = on_close,
                                       .on_drained = on_drained};

/* --- connections --- */

static struct conn *conn_of(struct as_sock *s)
{
    return AS_CONTAINER(s, struct conn, sock);
}

static void on_closed(struct as_sock *s)
{
    free(conn_of(s));
}

static void conn_close(struct conn *c)
{
    as_task_cancel(&c->flush);
    as_sock_close(&c->sock, on_closed);
    as_h2_free(c->h2);
    as_outq_fini(&c->out);
    as_list_remove(&c->node);
}

static void on_flush(struct as_task *t)
{
    struct conn *c = AS_CONTAINER(t, struct conn, flush);

    do {
        if (as_h2_send(c->h2, &c->out, OUT_MAX))
            c->ending = true;
        if (as_sock_flush(&c->sock, &c->out)) {
            conn_close(c);
            return;
        }
    } while (!c->out.bytes && !c->ending && as_h2_wants_write(c->h2));
    if (!c->out.bytes && (c->ending || as_h2_done(c->h2)))
        conn_close(c);
}

static void feed(struct conn *c, const uint8_t *p, size_t n)
{
    while (n && !c->ending) {
        size_t taken;

        if (as_h2_recv(c->h2, p, n, as_loop_now(c->server->loop), &taken) ||
            as_h2_send(c->h2, &c->out, OUT_MAX))
            c->ending = true;
        p += taken;
        n -= taken;
    }
}

static void on_event(struct as_sock *s, int events)
{
    struct conn *c = conn_of(s);
    int64_t n;

    as_loop_defer(c->server->loop, &c->flush);
    if (!(events & UV_READABLE))
        return;
    n = as_sock_read(s, c->server->rx, RX);
    if (n < 0 && n != AS_EAGAIN)
        conn_close(c);
    else if (n > 0)
        feed(c, c->server->rx, (size_t)n);
}

static void conn_open(struct server *s, int fd)
{
    struct conn *c = as_xalloc(sizeof(*c));
    int one = 1, err;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->server = s;
    as_outq_init(&c->out);
    as_task_init(&c->flush, on_flush);
    err = as_h2_new(&c->h2, &h2_conf, &ops, c, as_loop_now(s->loop));
    AS_ASSERT(!err);
    err = as_sock_open(&c->sock, s->loop, fd, on_event);
    AS_ASSERT(!err);
    as_list_push(&s->conns, &c->node);
    as_loop_defer(s->loop, &c->flush);
}

static void on_listener(struct as_sock *listener, int events AS_UNUSED)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0)
        conn_open(listener->uv.loop->data, fd);
}

static void on_term(uv_signal_t *h, int number AS_UNUSED)
{
    struct server *s = h->loop->data;
    struct as_list *n;

    while ((n = s->conns.next) != &s->conns)
        conn_close(AS_LIST_ENTRY(n, struct conn, node));
    for (int i = 0; i < s->n_listeners; i++)
        as_sock_close(&s->listeners[i], NULL);
    uv_close((uv_handle_t *)h, NULL);
    as_loop_stop(s->loop);
}

int main(int argc, char **argv)
{
    struct server *s = as_xalloc(sizeof(*s));
    int fds[2], err, why;
    uint16_t port;

    signal(SIGPIPE, SIG_IGN);
    zeros = as_xalloc(MESSAGE_MAX);
    s->n_listeners = as_listen_tcp("localhost", (uint16_t)(argc > 1 ? atoi(argv[1]) : 0), fds,
                                   AS_COUNT(fds), &port, &why);
    if (s->n_listeners <= 0 || as_loop_new(&s->loop, 0)) {
        fprintf(stderr, "test_service: cannot listen: %s\n", strerror(why));
        return 1;
    }
    s->loop->uv.data = s;
    as_list_init(&s->conns);
    for (int i = 0; i < s->n_listeners; i++) {
        err = as_sock_open(&s->listeners[i], s->loop, fds[i], on_listener);
        AS_ASSERT(!err);
    }
    uv_signal_init(&s->loop->uv, &s->term);
    uv_signal_start(&s->term, on_term, SIGTERM);
    printf("port %u\n", port);
    fflush(stdout);
    as_loop_run(s->loop);
    as_loop_free(s->loop);
    free(s);
    free(zeros);
    return 0;
}
