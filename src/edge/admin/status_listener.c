#include "edge/admin/status_listener.h"

#include "base/err.h"
#include "io/loop/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_MAX  8192u
#define CONNS_MAX    64u
#define LISTENERS    8u
#define TIMEOUT      (5 * AS_SEC)
#define ACCEPT_RETRY AS_SEC /* delay of a listener when no descriptor is free */

struct listener;

struct as_status_listener {
    struct as_loop *loop;
    struct as_status_page *page;
    struct listener *listeners[LISTENERS];
    uint32_t n_listeners, n_conns;
    uint32_t n_closing; /* listeners that are being closed */
    struct as_list conns;
    bool closing;
};

struct conn {
    struct as_sock sock;
    struct as_timer timer;
    struct as_status_listener *status;
    struct as_list node;
    struct as_outq out;
    char in[REQUEST_MAX];
    size_t n;
    bool tcp, answered;
    uint8_t closing;
};

/* --- the request --- */

static struct as_str line_of(struct as_str *rest)
{
    const char *end = rest->n ? memmem(rest->p, rest->n, "\r\n", 2) : NULL;
    struct as_str line = {rest->p, end ? (size_t)(end - rest->p) : rest->n};
    size_t used = end ? line.n + 2 : line.n;

    rest->p += used;
    rest->n -= used;
    return line;
}

/* True: a name or address of loopback, which no DNS name of another site can be. */
static bool is_local_host(struct as_str v)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < AS_COUNT(names); i++) {
        size_t n = strlen(names[i]);

        if (v.n >= n && strncasecmp(v.p, names[i], n) == 0 && (v.n == n || v.p[n] == ':'))
            return true;
    }
    return false;
}

static int check_headers(struct as_str rest, bool check_host)
{
    uint32_t hosts = 0;

    while (rest.n) {
        struct as_str line = line_of(&rest), value;
        const char *colon;

        if (!line.n)
            break;
        colon = memchr(line.p, ':', line.n);
        if (!colon || colon == line.p || line.p[0] == ' ' || line.p[0] == '\t')
            return 400;
        if (colon - line.p != 4 || strncasecmp(line.p, "host", 4) != 0)
            continue;
        value = (struct as_str){colon + 1, line.n - 5};
        while (value.n && (value.p[0] == ' ' || value.p[0] == '\t')) {
            value.p++;
            value.n--;
        }
        hosts++;
        if (check_host && !is_local_host(value))
            return 403;
    }
    return check_host && hosts != 1 ? 400 : 0;
}

int as_status_listener_parse(struct as_str head, bool check_host, struct as_str *ret_target)
{
    struct as_str line = line_of(&head);
    const char *sp = line.n ? memchr(line.p, ' ', line.n) : NULL;
    const char *sp2 = sp ? memchr(sp + 1, ' ', line.n - (size_t)(sp + 1 - line.p)) : NULL;
    struct as_str version;

    if (!sp || !sp2 || sp[1] != '/')
        return 400;
    version = (struct as_str){sp2 + 1, line.n - (size_t)(sp2 + 1 - line.p)};
    if (!as_str_eq(version, AS_STR("HTTP/1.1")) && !as_str_eq(version, AS_STR("HTTP/1.0")))
        return 400;
    if (!as_str_eq((struct as_str){line.p, (size_t)(sp - line.p)}, AS_STR("GET")))
        return 405;
    *ret_target = (struct as_str){sp + 1, (size_t)(sp2 - sp - 1)};
    return check_headers(head, check_host);
}

/* --- one connection --- */

static void conn_handle_closed(struct conn *c)
{
    struct as_status_listener *s = c->status;

    if (--c->closing)
        return;
    as_outq_fini(&c->out);
    as_list_remove(&c->node);
    s->n_conns--;
    free(c);
    if (s->closing && !s->n_conns && !s->n_closing)
        free(s);
}

static void on_sock_closed(struct as_sock *s)
{
    conn_handle_closed(AS_CONTAINER(s, struct conn, sock));
}

static void on_timer_closed(struct as_timer *t)
{
    conn_handle_closed(AS_CONTAINER(t, struct conn, timer));
}

static void conn_close(struct conn *c)
{
    if (c->sock.closing)
        return;
    c->closing = 2;
    as_sock_close(&c->sock, on_sock_closed);
    as_timer_close(&c->timer, on_timer_closed);
}

static void on_timeout(struct as_timer *t)
{
    conn_close(AS_CONTAINER(t, struct conn, timer));
}

static const char *reason_of(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    default:
        return "Bad Request";
    }
}

static int write_body(struct conn *c, struct as_str target, struct as_buf *body,
                      const char **ret_type)
{
    struct as_status_page *b = c->status->page;
    as_ns now = as_loop_now(c->status->loop);

    if (as_str_eq(target, AS_STR("/metrics"))) {
        *ret_type = "text/plain; version=0.0.4; charset=utf-8";
        as_status_page_metrics(b, now, body);
    } else if (as_str_eq(target, AS_STR("/status?format=text"))) {
        *ret_type = "text/plain; charset=utf-8";
        as_status_page_text(b, now, body);
    } else if (as_str_eq(target, AS_STR("/status"))) {
        *ret_type = "application/json";
        as_status_page_json(b, now, body);
    } else if (as_str_eq(target, AS_STR("/workers?format=text"))) {
        *ret_type = "text/plain; charset=utf-8";
        as_status_page_workers_text(b, now, body);
    } else if (as_str_eq(target, AS_STR("/workers"))) {
        *ret_type = "application/json";
        as_status_page_workers_json(b, now, body);
    } else if (as_str_eq(target, AS_STR("/-/healthz"))) {
        *ret_type = "text/plain; charset=utf-8";
        return as_status_page_health(b, body) ? 200 : 503;
    } else if (as_str_eq(target, AS_STR("/-/routes"))) {
        *ret_type = "application/json";
        return as_status_page_routes(b, body) ? 200 : 503;
    } else {
        return 404;
    }
    return 200;
}

static void write_response(struct conn *c, int status, struct as_str target)
{
    const char *type = "application/json";
    struct as_buf body, head;

    as_buf_init(&body);
    as_buf_init(&head);
    if (!status)
        status = write_body(c, target, &body, &type);
    if (!body.n)
        as_buf_printf(&body, "{\"error\":\"%s\"}\n", reason_of(status));
    as_buf_printf(&head,
                  "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                  "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
                  status, reason_of(status), type, body.n);
    as_outq_copy(&c->out, head.p, head.n);
    as_outq_copy(&c->out, body.p, body.n);
    as_buf_fini(&head);
    as_buf_fini(&body);
    c->answered = true;
}

static void on_event(struct as_sock *s, int events)
{
    struct conn *c = AS_CONTAINER(s, struct conn, sock);
    struct as_str target = {0};
    const char *end;
    int64_t n;

    if ((events & UV_READABLE) && !c->answered) {
        n = as_sock_read(s, c->in + c->n, sizeof(c->in) - c->n);
        if (n == AS_EAGAIN)
            return;
        if (n < 0) {
            conn_close(c);
            return;
        }
        c->n += (size_t)n;
        end = memmem(c->in, c->n, "\r\n\r\n", 4);
        if (end)
            write_response(c,
                           as_status_listener_parse((struct as_str){c->in, (size_t)(end - c->in)},
                                                    c->tcp, &target),
                           target);
        else if (c->n == sizeof(c->in))
            write_response(c, 431, target);
        else
            return;
        as_sock_watch(s, 0);
    }
    if (as_sock_flush(s, &c->out) || (c->answered && !c->out.bytes))
        conn_close(c);
}

/* --- listeners --- */

struct listener {
    struct as_sock sock;
    struct as_timer accept_retry; /* set when no descriptor is free */
    struct as_status_listener *status;
    uint8_t closing;
};

static void on_accept_retry(struct as_timer *t)
{
    as_sock_watch(&AS_CONTAINER(t, struct listener, accept_retry)->sock, UV_READABLE);
}

static void on_listener(struct as_sock *sock, int events AS_UNUSED)
{
    struct listener *l = AS_CONTAINER(sock, struct listener, sock);
    struct as_status_listener *s = l->status;
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t n = sizeof(peer);
    int fd = accept4(sock->fd, (struct sockaddr *)&peer, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct conn *c;

    if (fd < 0 && as_sock_is_starved(errno)) {
        as_sock_watch(sock, 0);
        as_timer_set(&l->accept_retry, as_loop_now(s->loop) + ACCEPT_RETRY);
    }
    if (fd < 0)
        return;
    if (s->n_conns >= CONNS_MAX) {
        close(fd);
        return;
    }
    c = calloc(1, sizeof(*c));
    if (!c) {
        close(fd);
        return;
    }
    if (as_sock_open(&c->sock, s->loop, fd, on_event)) {
        free(c);
        return;
    }
    c->status = s;
    c->tcp = n >= sizeof(sa_family_t) && peer.ss_family != AF_UNIX;
    as_outq_init(&c->out);
    as_timer_init(&c->timer, s->loop, on_timeout);
    as_timer_set(&c->timer, as_loop_now(s->loop) + TIMEOUT);
    as_list_push(&s->conns, &c->node);
    s->n_conns++;
}

int as_status_listener_new(struct as_status_listener **ret_s, struct as_loop *loop,
                           struct as_status_page *page)
{
    struct as_status_listener *s = as_xalloc(sizeof(*s));

    s->loop = loop;
    s->page = page;
    as_list_init(&s->conns);
    *ret_s = s;
    return 0;
}

int as_status_listener_listen(struct as_status_listener *s, int fd)
{
    struct listener *l;
    int own;

    AS_ASSERT(s->n_listeners < LISTENERS);
    own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return AS_EIO;
    l = as_xalloc(sizeof(*l));
    l->status = s;
    if (as_sock_open(&l->sock, s->loop, own, on_listener)) {
        free(l);
        return AS_EIO;
    }
    as_timer_init(&l->accept_retry, s->loop, on_accept_retry);
    s->listeners[s->n_listeners++] = l;
    return 0;
}

static void listener_closed(struct listener *l)
{
    struct as_status_listener *s = l->status;

    if (--l->closing)
        return;
    free(l);
    if (--s->n_closing == 0 && s->closing && !s->n_conns)
        free(s);
}

static void on_listener_closed(struct as_sock *sock)
{
    listener_closed(AS_CONTAINER(sock, struct listener, sock));
}

static void on_accept_retry_closed(struct as_timer *t)
{
    listener_closed(AS_CONTAINER(t, struct listener, accept_retry));
}

void as_status_listener_stop(struct as_status_listener *s)
{
    while (s->n_listeners) {
        struct listener *l = s->listeners[--s->n_listeners];

        s->n_closing++;
        l->closing = 2;
        as_sock_close(&l->sock, on_listener_closed);
        as_timer_close(&l->accept_retry, on_accept_retry_closed);
    }
}

void as_status_listener_close(struct as_status_listener *s)
{
    s->closing = true;
    AS_LIST_EACH(n, &s->conns) conn_close(AS_LIST_ENTRY(n, struct conn, node));
    as_status_listener_stop(s);
    if (!s->n_closing && !s->n_conns)
        free(s);
}
