#include "tool/call/client_connection.h"

#include "base/err.h"
#include "io/loop/clock.h"

#define OUTPUT_MAX ((size_t)1 << 20) /* output is generated in portions of this many bytes */

#define CANCEL 8u /* of RFC 9113 */

/* Responses up to these sizes need no WINDOW_UPDATE. */
static const struct as_h2_client_conf h2_conf = {
    .stream_window = 16u << 20, .conn_window = 64u << 20, .max_header_list = 64u << 10};
/* The same limit for headers as for HTTP/2. */
static const struct as_h1_client_conf h1_conf = {
    .max_line = 8192, .max_header_bytes = 64u << 10, .max_headers = 1000, .max_chunk_ext = 1024};

static void on_closed(struct as_sock *s)
{
    struct as_client_connection *p = AS_CONTAINER(s, struct as_client_connection, sock);

    p->closed = true;
    if (p->on_closed)
        p->on_closed(p);
}

void as_client_connection_close(struct as_client_connection *p)
{
    struct as_h2_client *h2 = p->h2;
    struct as_h1_client *h1 = p->h1;

    if (p->ended)
        return;
    p->ended = true;
    p->h2 = NULL;
    p->h1 = NULL;
    as_task_cancel(&p->flush);
    as_h2_client_free(h2);
    as_h1_client_free(h1);
    as_outq_fini(&p->out);
    as_sock_close(&p->sock, on_closed);
}

static void end_connection(struct as_client_connection *p, const char *why)
{
    if (p->ended)
        return;
    snprintf(p->why, sizeof(p->why), "%s", why);
    as_client_connection_close(p);
    if (p->on_end)
        p->on_end(p);
}

static const char *protocol_error_text(const struct as_client_connection *p)
{
    if (p->h1)
        return as_h1_client_ready(p->h1) ? as_h1_client_why(p->h1)
                                         : "the server does not speak HTTP/1.1";
    return as_h2_client_ready(p->h2) ? "the server violated HTTP/2"
                                     : "the server does not speak HTTP/2";
}

const char *as_client_connection_fault(const struct as_client_connection *p)
{
    return p->h1 ? as_h1_client_why(p->h1) : NULL;
}

static int fill_output(struct as_client_connection *p)
{
    return p->h1 ? as_h1_client_send(p->h1, &p->out, OUTPUT_MAX)
                 : as_h2_client_send(p->h2, &p->out, OUTPUT_MAX);
}

static bool is_done(const struct as_client_connection *p)
{
    return p->h1 ? as_h1_client_done(p->h1) : as_h2_client_done(p->h2);
}

static void flush_output(struct as_task *t)
{
    struct as_client_connection *p = AS_CONTAINER(t, struct as_client_connection, flush);
    int rc;

    do { /* until there is no more output, or the socket is full */
        rc = fill_output(p);
        if (!p->out.bytes)
            break;
        if (as_sock_flush(&p->sock, &p->out)) {
            end_connection(p, "the connection broke during a write");
            return;
        }
    } while (!rc && !p->out.bytes);
    if (rc)
        end_connection(p, protocol_error_text(p));
    else if (is_done(p) &&
             (p->h1 || !p->out.bytes)) /* HTTP/1.1: the server does not read the rest */
        end_connection(p, p->h1 ? as_h1_client_why(p->h1) : "the server ended the connection");
}

static void schedule_flush(struct as_client_connection *p)
{
    if (!p->ended)
        as_loop_defer(p->loop, &p->flush);
}

int as_client_connection_request(struct as_client_connection *p,
                                 const struct as_http_client_request *r, void *call,
                                 uint32_t *ret_stream)
{
    int rc = p->ended ? AS_EUNAVAILABLE
             : p->h1  ? as_h1_client_request(p->h1, r, call, ret_stream)
                      : as_h2_client_request(p->h2, r, call, ret_stream);

    schedule_flush(p);
    return rc;
}

void as_client_connection_reset(struct as_client_connection *p, uint32_t stream)
{
    if (p->h1)
        as_h1_client_reset(p->h1, stream, CANCEL);
    else if (p->h2)
        as_h2_client_reset(p->h2, stream, CANCEL);
    schedule_flush(p);
}

static int receive_bytes(struct as_client_connection *p, size_t n)
{
    return p->h1 ? as_h1_client_recv(p->h1, p->in, n) : as_h2_client_recv(p->h2, p->in, n);
}

static void on_event(struct as_sock *s, int events)
{
    struct as_client_connection *p = AS_CONTAINER(s, struct as_client_connection, sock);
    int64_t n = AS_EAGAIN;

    if (events & UV_READABLE) {
        n = as_sock_read(s, p->in, sizeof(p->in));
        p->read_at = as_clock_now();
    }
    if (n > 0 && receive_bytes(p, (size_t)n)) {
        /* no GOAWAY is sent to the server: the error text for the user is more important */
        end_connection(p, protocol_error_text(p));
        return;
    }
    if (n == AS_EOF && p->h1)
        as_h1_client_eof(p->h1);
    if (n == AS_EOF || n == AS_EIO) {
        end_connection(p,
                       n == AS_EOF ? "the server closed the connection" : "the connection broke");
        return;
    }
    schedule_flush(p);
}

int as_client_connection_open(struct as_client_connection *p, struct as_loop *l, int fd, bool http1,
                              const struct as_http_client_ops *ops, void *conn)
{
    int rc;

    p->loop = l;
    p->ended = p->closed = true;
    p->why[0] = 0;
    p->h1 = NULL;
    p->h2 = NULL;
    p->on_end = p->on_closed = NULL;
    as_outq_init(&p->out);
    as_task_init(&p->flush, flush_output);
    rc = as_sock_open(&p->sock, l, fd, on_event);
    if (rc)
        return rc;
    rc = http1 ? as_h1_client_new(&p->h1, &h1_conf, ops, conn)
               : as_h2_client_new(&p->h2, &h2_conf, ops, conn);
    p->closed = false;
    if (rc) {
        as_sock_close(&p->sock, on_closed);
        return rc;
    }
    p->ended = false;
    schedule_flush(p);
    return 0;
}
