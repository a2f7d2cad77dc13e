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
    as_task_cancel(&p->more);
    as_h2_client_free(h2);
    as_h1_client_free(h1);
    as_outq_fini(&p->out);
    if (p->tls)
        as_tls_close_notify(p->tls);
    as_tls_free(p->tls);
    p->tls = NULL;
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
    if (as_h2_client_ready(p->h2))
        return "the server violated HTTP/2";
    return p->tls ? "the server does not speak HTTP/2"
                  : "the server does not speak HTTP/2, or only by TLS (--tls)";
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

static void schedule_flush(struct as_client_connection *p)
{
    if (!p->ended)
        as_loop_defer(p->loop, &p->flush);
}

/* --- bytes, in clear text or by TLS --- */

/* Polling says nothing about bytes that the session has already. */
static void schedule_more(struct as_client_connection *p)
{
    if (as_tls_has_input(p->tls))
        as_loop_defer_next_turn(p->loop, &p->more);
}

static int64_t read_bytes(struct as_client_connection *p)
{
    int64_t n;

    if (!p->tls)
        return as_sock_read(&p->sock, p->in, sizeof(p->in));
    n = as_tls_read(p->tls, p->in, sizeof(p->in));
    schedule_more(p);
    return n;
}

/* As as_sock_flush. */
static int flush_bytes(struct as_client_connection *p)
{
    int err;

    if (!p->tls)
        return as_sock_flush(&p->sock, &p->out);
    err = as_tls_flush(p->tls, &p->out);
    if (err && err != AS_EAGAIN)
        return err;
    as_sock_watch(&p->sock, UV_READABLE | (err ? UV_WRITABLE : 0));
    return 0;
}

static bool has_output(const struct as_client_connection *p)
{
    return p->out.bytes || (p->tls && as_tls_has_output(p->tls));
}

/* The connection cannot be read or written any more. With TLS, the server may have said why. */
static void end_broken(struct as_client_connection *p, const char *why)
{
    const char *failure;
    char text[sizeof(p->why)];

    while (p->tls && as_tls_read(p->tls, p->in, sizeof(p->in)) > 0) {
    }
    failure = p->tls ? as_tls_failure(p->tls) : NULL;
    if (!failure) {
        end_connection(p, why);
        return;
    }
    snprintf(text, sizeof(text), "%s: %s%s", why, failure,
             as_tls_cause(p->tls) == AS_TLS_CAUSE_CERTIFICATE_REQUIRED ? " (--cert)" : "");
    end_connection(p, text);
}

/* --- the handshake of TLS --- */

static void end_handshake(struct as_client_connection *p, int err)
{
    const char *failure = as_tls_failure(p->tls);
    char text[sizeof(p->why)];

    if (err == AS_EOF) {
        end_connection(p, "the server has closed the connection instead of a TLS handshake; its "
                          "port may not speak TLS");
        return;
    }
    switch (as_tls_cause(p->tls)) {
    case AS_TLS_CAUSE_NOT_TLS:
        snprintf(text, sizeof(text), "the server's port does not speak TLS: %s", failure);
        break;
    case AS_TLS_CAUSE_UNTRUSTED:
    case AS_TLS_CAUSE_UNVERIFIED:
        snprintf(text, sizeof(text), "the server's certificate cannot be verified: %s%s", failure,
                 as_tls_cause(p->tls) == AS_TLS_CAUSE_UNTRUSTED ? " (--ca)" : "");
        break;
    default:
        snprintf(text, sizeof(text), "the TLS handshake has failed: %s", failure);
        break;
    }
    end_connection(p, text);
}

/* RFC 9113 §3.2: HTTP/2 by TLS is agreed by ALPN. HTTP/1.1 needs no agreement. */
static bool is_protocol_agreed(const struct as_client_connection *p)
{
    struct as_str alpn = as_tls_alpn(p->tls);

    return p->h2 ? as_str_eq(alpn, AS_STR("h2")) : !alpn.n || as_str_eq(alpn, AS_STR("http/1.1"));
}

static void take_handshake_step(struct as_client_connection *p)
{
    int err = as_tls_handshake(p->tls);

    if (err && err != AS_EAGAIN) {
        end_handshake(p, err);
        return;
    }
    if (flush_bytes(p)) { /* bytes of the handshake: no others are queued yet */
        end_broken(p, "the connection broke during the TLS handshake");
        return;
    }
    if (err)
        return;
    if (!is_protocol_agreed(p)) {
        end_connection(p, p->h2 ? "the server does not agree to HTTP/2 by ALPN; it may speak "
                                  "HTTP/1.1 (--protocol http)"
                                : "the server does not agree to HTTP/1.1 by ALPN");
        return;
    }
    p->handshaking = false;
    schedule_more(p);
    schedule_flush(p);
    if (p->on_handshake)
        p->on_handshake(p);
}

/* --- output --- */

static void flush_output(struct as_task *t)
{
    struct as_client_connection *p = AS_CONTAINER(t, struct as_client_connection, flush);
    int rc;

    if (p->handshaking) {
        take_handshake_step(p);
        return;
    }
    do { /* until there is no more output, or the socket is full */
        rc = fill_output(p);
        if (!has_output(p))
            break;
        if (flush_bytes(p)) {
            end_broken(p, "the connection broke during a write");
            return;
        }
    } while (!rc && !has_output(p));
    if (rc)
        end_connection(p, protocol_error_text(p));
    else if (is_done(p) &&
             (p->h1 || !has_output(p))) /* HTTP/1.1: the server does not read the rest */
        end_connection(p, p->h1 ? as_h1_client_why(p->h1) : "the server ended the connection");
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

    if (p->handshaking) {
        take_handshake_step(p);
        return;
    }
    if (events & UV_READABLE) {
        n = read_bytes(p);
        p->read_at = as_clock_now();
    }
    if (n > 0 && receive_bytes(p, (size_t)n)) {
        /* no GOAWAY is sent to the server: the error text for the user is more important */
        end_connection(p, protocol_error_text(p));
        return;
    }
    if (n == AS_EOF && p->h1)
        as_h1_client_eof(p->h1);
    if (n == AS_EOF) {
        end_connection(p, "the server closed the connection");
        return;
    }
    if (n == AS_EIO) {
        end_broken(p, "the connection broke");
        return;
    }
    schedule_flush(p);
}

static void on_more(struct as_task *t)
{
    on_event(&AS_CONTAINER(t, struct as_client_connection, more)->sock, UV_READABLE);
}

int as_client_connection_open(struct as_client_connection *p, struct as_loop *l, int fd,
                              struct as_tls *tls, bool http1, const struct as_http_client_ops *ops,
                              void *conn)
{
    int rc;

    p->loop = l;
    p->ended = p->closed = true;
    p->why[0] = 0;
    p->h1 = NULL;
    p->h2 = NULL;
    p->tls = NULL;
    p->handshaking = tls != NULL;
    p->on_handshake = p->on_end = p->on_closed = NULL;
    as_outq_init(&p->out);
    as_task_init(&p->flush, flush_output);
    as_task_init(&p->more, on_more);
    rc = as_sock_open(&p->sock, l, fd, on_event);
    if (rc) {
        as_tls_free(tls);
        return rc;
    }
    rc = http1 ? as_h1_client_new(&p->h1, &h1_conf, ops, conn)
               : as_h2_client_new(&p->h2, &h2_conf, ops, conn);
    p->closed = false;
    if (rc) {
        as_tls_free(tls);
        as_sock_close(&p->sock, on_closed);
        return rc;
    }
    p->tls = tls;
    p->ended = false;
    schedule_flush(p);
    return 0;
}
