#include "tool/peer.h"

#include "base/err.h"

#include <time.h>

#define OUT_MAX ((size_t)1 << 20) /* bytes queued at once */

/* Answers of up to these sizes need no round trip for more room. */
static const struct as_h2_client_conf conf = {
    .stream_window = 16u << 20, .conn_window = 64u << 20, .max_header_list = 64u << 10};

as_ns as_peer_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (as_ns)t.tv_sec * AS_SEC + (as_ns)t.tv_nsec;
}

static void on_closed(struct as_sock *s)
{
    AS_CONTAINER(s, struct as_peer, sock)->closed = true;
}

void as_peer_close(struct as_peer *p)
{
    struct as_h2_client *h2 = p->h2;

    if (p->gone)
        return;
    p->gone = true;
    p->h2 = NULL;
    as_task_cancel(&p->flush);
    as_h2_client_free(h2);
    as_outq_fini(&p->out);
    as_sock_close(&p->sock, on_closed);
}

static void end(struct as_peer *p, const char *why)
{
    if (p->gone)
        return;
    snprintf(p->why, sizeof(p->why), "%s", why);
    as_peer_close(p);
    if (p->on_gone)
        p->on_gone(p);
}

static const char *broke_rules(const struct as_peer *p)
{
    return as_h2_client_ready(p->h2) ? "the server broke the rules of HTTP/2"
                                     : "the server does not speak HTTP/2";
}

static void flush(struct as_task *t)
{
    struct as_peer *p = AS_CONTAINER(t, struct as_peer, flush);
    int rc;

    do { /* until nothing more is to be said, or the socket is full */
        rc = as_h2_client_send(p->h2, &p->out, OUT_MAX);
        if (!p->out.bytes)
            break;
        if (as_sock_flush(&p->sock, &p->out)) {
            end(p, "the connection broke while it was written to");
            return;
        }
    } while (!rc && !p->out.bytes);
    if (rc)
        end(p, broke_rules(p));
    else if (!p->out.bytes && as_h2_client_done(p->h2))
        end(p, "the server ended the connection");
}

void as_peer_touch(struct as_peer *p)
{
    if (!p->gone)
        as_loop_defer(p->loop, &p->flush);
}

static void on_event(struct as_sock *s, int events)
{
    struct as_peer *p = AS_CONTAINER(s, struct as_peer, sock);
    int64_t n = AS_EAGAIN;

    if (events & UV_READABLE) {
        n = as_sock_read(s, p->in, sizeof(p->in));
        p->read_at = as_peer_clock();
    }
    if (n > 0 && as_h2_client_recv(p->h2, p->in, (size_t)n)) {
        /* a GOAWAY for the server is still owed, but what it says to us counts more */
        end(p, broke_rules(p));
        return;
    }
    if (n == AS_EOF || n == AS_EIO) {
        end(p, n == AS_EOF ? "the server closed the connection" : "the connection broke");
        return;
    }
    as_peer_touch(p);
}

int as_peer_open(struct as_peer *p, struct as_loop *l, int fd, const struct as_http_client_ops *ops,
                 void *conn)
{
    int rc;

    p->loop = l;
    p->gone = p->closed = true;
    p->why[0] = 0;
    p->on_gone = NULL;
    as_outq_init(&p->out);
    as_task_init(&p->flush, flush);
    rc = as_sock_open(&p->sock, l, fd, on_event);
    if (rc)
        return rc;
    rc = as_h2_client_new(&p->h2, &conf, ops, conn);
    p->closed = false;
    if (rc) {
        as_sock_close(&p->sock, on_closed);
        return rc;
    }
    p->gone = false;
    as_peer_touch(p);
    return 0;
}
