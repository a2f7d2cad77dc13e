#include "edge/conn/conn_tls.h"

#include "base/counter.h"
#include "base/err.h"
#include "io/loop/clock.h"

#include <errno.h>
#include <sys/socket.h>

/* --- bytes --- */

/* Polling says nothing about bytes that the session has already. */
static void schedule_more(struct as_conn *c)
{
    if (as_tls_has_input(c->tls->session) && c->sock.events & UV_READABLE)
        as_loop_defer_next_turn(c->edge->loop, &c->tls->more);
}

static void on_more(struct as_task *t)
{
    struct as_conn *c = AS_CONTAINER(t, struct as_conn_tls, more)->conn;

    if (c->sock.events & UV_READABLE)
        c->protocol->on_event(c, UV_READABLE);
}

/* A part of a record, and what the protocol does not read on. Mostly there is nothing. */
static void charge_input(struct as_conn *c, size_t n)
{
    as_account_set(c->requests, &c->tls->charged, n);
}

int64_t as_conn_read(struct as_conn *c, void *p, size_t n)
{
    int64_t k;

    if (!c->tls)
        return as_sock_read(&c->sock, p, n);
    k = as_tls_read(c->tls->session, p, n);
    charge_input(c, as_tls_kept_input(c->tls->session));
    schedule_more(c);
    if (as_tls_has_output(c->tls->session)) /* an answer of the protocol itself */
        as_conn_schedule_flush(c);
    return k;
}

uint32_t as_conn_read_failure(const struct as_conn *c)
{
    return c->tls && as_tls_cause(c->tls->session) == AS_TLS_CAUSE_FLOOD ? AS_CLOSE_TLS_FLOOD
                                                                         : AS_CLOSE_CLIENT;
}

int as_conn_flush(struct as_conn *c)
{
    int err;

    if (!c->tls || !c->tls->session)
        return as_sock_flush(&c->sock, &c->out);
    err = as_tls_flush(c->tls->session, &c->out);
    if (err && err != AS_EAGAIN)
        return err;
    as_sock_watch(&c->sock, err ? c->sock.events | UV_WRITABLE : c->sock.events & ~UV_WRITABLE);
    return 0;
}

void as_conn_watch(struct as_conn *c, int events)
{
    as_sock_watch(&c->sock, events);
    if (c->tls)
        schedule_more(c);
}

size_t as_conn_kept_output(const struct as_conn *c)
{
    return c->tls && c->tls->session ? as_tls_kept_output(c->tls->session) : 0;
}

/* --- handshakes --- */

static struct as_handshakes *handshakes_of(const struct as_conn *c)
{
    return &c->edge->handshakes;
}

static void end_handshake(struct as_conn *c)
{
    if (!c->tls->handshaking)
        return;
    c->tls->handshaking = false;
    as_list_remove(&c->tls->node);
    as_counter_sub(&c->edge->stat.handshakes, 1);
}

/* False: all of them wait for this server. */
static bool evict_silent_client(struct as_handshakes *h)
{
    const struct as_list *from = as_list_empty(&h->silent) ? &h->waiting : &h->silent;
    struct as_conn_tls *t;

    if (as_list_empty(from))
        return false;
    t = AS_LIST_ENTRY(from->next, struct as_conn_tls, node);
    as_conn_end(t->conn, AS_CLOSE_HANDSHAKE_EVICTED, false);
    return true;
}

static void refuse(struct as_conn *c, int err)
{
    struct as_edge *e = c->edge;
    uint64_t skipped;

    if (as_edge_may_log(e, AS_CLOSE_HANDSHAKE_REFUSED, &skipped))
        as_log_event(e->log, AS_LOG_WARN, "handshake_refused", "reason=\"%s\" skipped=%lu",
                     err == AS_EAGAIN         ? "too many handshakes (--max-handshakes)"
                     : err == AS_EUNAVAILABLE ? "no certificate is loaded (--tls-cert)"
                                              : "no memory",
                     skipped);
    as_conn_close(c, AS_CLOSE_HANDSHAKE_REFUSED);
}

/* 0; AS_EAGAIN; AS_EUNAVAILABLE; AS_ENOMEM. */
static int start_handshake(struct as_conn *c)
{
    struct as_edge *e = c->edge;
    struct as_conn_tls *t;

    if (e->stat.handshakes >= e->conf.max_handshakes && !evict_silent_client(&e->handshakes))
        return AS_EAGAIN;
    if (!as_tls_server_not_after(e->conf.tls))
        return AS_EUNAVAILABLE;
    t = calloc(1, sizeof(*t));
    if (!t)
        return AS_ENOMEM;
    t->conn = c;
    t->handshaking = true;
    as_task_init(&t->more, on_more);
    as_list_push(&e->handshakes.silent, &t->node);
    as_counter_add(&e->stat.handshakes, 1);
    c->tls = t;
    c->protocol = &as_conn_handshake;
    return 0;
}

bool as_conn_tls_start(struct as_conn *c)
{
    int err = start_handshake(c);

    if (err)
        refuse(c, err);
    return !err;
}

void as_conn_tls_free(struct as_conn *c)
{
    if (!c->tls)
        return;
    end_handshake(c);
    charge_input(c, 0);
    as_task_cancel(&c->tls->more);
    as_tls_free(c->tls->session);
    free(c->tls);
    c->tls = NULL;
}

/* The client speaks HTTP in clear text: it gets an answer that it can read. */
static void refuse_clear_text(struct as_conn *c)
{
    as_conn_tls_free(c);
    if (as_conn_h1.open(c)) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    as_h1_refuse(c->h1.session, 400, "this port speaks TLS: use https, or --tls of the client");
    as_conn_schedule_flush(c);
}

/* Looks at the first byte without taking it. 0: it may be TLS; AS_EAGAIN; AS_EOF: closed;
 * AS_EPROTO: clear text, which begins with the name of a method. */
static int look_at_first_byte(struct as_conn *c)
{
    uint8_t first;
    ssize_t n;

    as_counter_add(&c->edge->loop->stat.reads, 1);
    n = recv(c->sock.fd, &first, 1, MSG_DONTWAIT | MSG_PEEK);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? AS_EAGAIN : AS_EOF;
    return first >= 'A' && first <= 'Z' ? AS_EPROTO : 0;
}

/* 0 or AS_ENOMEM. */
static int open_session(struct as_conn *c)
{
    struct as_edge *e = c->edge;

    if (!e->tls_buffer)
        e->tls_buffer = as_tls_buffer_new(e->loop, e->conf.max_tls_messages);
    c->tls->session = as_tls_new(as_tls_server_open(e->conf.tls), true, c->sock.fd, e->tls_buffer);
    return c->tls->session ? 0 : AS_ENOMEM;
}

static void finish_handshake(struct as_conn *c)
{
    struct as_str alpn = as_tls_alpn(c->tls->session);
    const struct as_conn_protocol *next = &as_conn_detect;

    as_counter_add(as_tls_is_resumed(c->tls->session) ? &c->edge->stat.tls_resumed
                                                      : &c->edge->stat.tls_full,
                   1);
    end_handshake(c);
    c->ready = c->last_active = as_loop_now(c->edge->loop);
    if (alpn.n)
        next = as_str_eq(alpn, AS_STR("h2")) ? &as_conn_h2 : &as_conn_h1;
    c->protocol = next;
    c->detect.n_first = 0;
    if (next->open && next->open(c)) {
        as_conn_close(c, AS_CLOSE_CLIENT);
        return;
    }
    as_conn_watch(c, UV_READABLE | (c->sock.events & UV_WRITABLE));
    as_conn_schedule_flush(c); /* HTTP/2 has settings to send */
}

static void take_step(struct as_conn *c)
{
    struct as_conn_tls *t = c->tls;
    int err = t->session ? 0 : look_at_first_byte(c);

    if (err == AS_EPROTO) {
        refuse_clear_text(c);
        return;
    }
    if (!err && !t->session)
        err = open_session(c);
    if (!err)
        err = as_tls_handshake(t->session);
    if (t->session)
        charge_input(c, as_tls_kept_input(t->session));
    if (err == AS_EAGAIN) {
        bool has_sent = t->session && as_tls_has_sent(t->session);
        bool has_output = t->session && as_tls_has_output(t->session);

        as_list_push(has_sent ? &handshakes_of(c)->waiting : &handshakes_of(c)->silent, &t->node);
        as_sock_watch(&c->sock, UV_READABLE | (has_output ? UV_WRITABLE : 0));
    } else if (err == AS_EOF) {
        as_conn_close(c, AS_CLOSE_CLIENT);
    } else if (err == AS_ENOMEM) {
        refuse(c, err);
    } else if (err) {
        as_conn_end(c, AS_CLOSE_HANDSHAKE_FAILED, false);
    } else {
        finish_handshake(c);
    }
}

static void on_turn(struct as_task *task)
{
    struct as_handshakes *h = AS_CONTAINER(task, struct as_handshakes, turn);
    as_ns end = as_clock_now() + AS_HANDSHAKE_SLICE;
    struct as_list *n;

    while ((n = as_list_pop(&h->due))) {
        take_step(AS_LIST_ENTRY(n, struct as_conn_tls, node)->conn);
        if (as_clock_now() >= end)
            break;
    }
    if (!as_list_empty(&h->due))
        as_loop_defer_next_turn(h->edge->loop, &h->turn);
}

void as_handshakes_init(struct as_handshakes *h, struct as_edge *e)
{
    h->edge = e;
    as_list_init(&h->silent);
    as_list_init(&h->waiting);
    as_list_init(&h->due);
    as_task_init(&h->turn, on_turn);
}

/* --- the protocol of a connection whose handshake is in progress --- */

static void on_event(struct as_conn *c, int events)
{
    struct as_handshakes *h = handshakes_of(c);

    if (!(events & UV_READABLE) || !(c->sock.events & UV_READABLE))
        return;
    as_sock_watch(&c->sock, c->sock.events & ~UV_READABLE); /* until its step is taken */
    as_list_remove(&c->tls->node);
    as_list_push(&h->due, &c->tls->node);
    as_loop_defer(c->edge->loop, &h->turn);
}

static bool send_nothing(struct as_conn *c AS_UNUSED)
{
    return true;
}

static bool never(const struct as_conn *c AS_UNUSED)
{
    return false;
}

static void sweep(struct as_conn *c, as_ns now)
{
    if (now - c->opened >= c->edge->conf.handshake_timeout)
        as_conn_end(c, AS_CLOSE_HANDSHAKE_TIMEOUT, false);
}

/* It may go on for the grace time of a drain: its request may be on the way. */
static void drain(struct as_conn *c, bool final)
{
    c->close_reason = AS_CLOSE_DRAIN;
    if (final)
        as_conn_close(c, AS_CLOSE_DRAIN);
}

static uint32_t close_reason(const struct as_conn *c, const char **ret_detail)
{
    if (c->close_reason == AS_CLOSE_HANDSHAKE_FAILED)
        *ret_detail = as_tls_failure(c->tls->session);
    return (uint32_t)c->close_reason;
}

const struct as_conn_protocol as_conn_handshake = {
    .on_event = on_event,
    .send = send_nothing,
    .wants_write = never,
    .is_done = never,
    .is_idle = never,
    .sweep = sweep,
    .drain = drain,
    .close_reason = close_reason,
};
