/* Connections to simple workers: one request at a time, and used again if the answer allows it. */
#include "base/err.h"
#include "io/socket/folder_socket.h"
#include "link/simple/simple_internal.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#define RETRY (2 * AS_MS) /* between two attempts to connect while the backlog is full */
#define WHY   256

static as_ns now_of(const struct as_simple *s)
{
    return as_loop_now(s->up.fleet->loop);
}

static struct as_simple_stat *stat_of(const struct as_simple *s)
{
    return &s->up.fleet->simple->stat;
}

/* --- creating and closing --- */

static void set_state(struct as_simple_conn *conn, enum as_simple_conn_state to)
{
    struct as_simple *s = conn->worker;

    AS_ASSERT(conn->state != AS_SIMPLE_GONE);
    conn->state = to;
    as_list_remove(&conn->node);
    if (to == AS_SIMPLE_WAITING)
        as_list_push(&s->waiting, &conn->node);
    else if (to == AS_SIMPLE_BUSY)
        as_list_push(&s->busy, &conn->node);
    else if (to == AS_SIMPLE_IDLE)
        as_list_insert_after(&s->idle, &conn->node);
}

static void on_turn(struct as_task *t);

static struct as_simple_conn *conn_new(struct as_simple *s)
{
    struct as_simple_conn *conn = as_xalloc(sizeof(*conn));

    conn->worker = s;
    as_list_init(&conn->node);
    as_task_init(&conn->turn, on_turn);
    as_outq_init(&conn->out);
    conn->sock.closing = true; /* there is nothing to close until it is open */
    s->n_conns++;
    return conn;
}

static void on_closed(struct as_sock *sock)
{
    struct as_simple_conn *conn = AS_CONTAINER(sock, struct as_simple_conn, sock);
    struct as_simple *s = conn->worker;

    free(conn);
    as_simple_unref(s);
}

/* conn may be freed by this. counter: the reason, in struct as_simple_stat. */
static void conn_close(struct as_simple_conn *conn, uint64_t *counter)
{
    AS_ASSERT(!conn->call);
    set_state(conn, AS_SIMPLE_GONE);
    conn->worker->n_conns--;
    as_task_cancel(&conn->turn);
    as_outq_fini(&conn->out);
    as_simple_frame_reset(&conn->rx);
    if (conn->sock.closing) {
        free(conn);
        return;
    }
    ++*counter;
    as_sock_close(&conn->sock, on_closed);
}

/* --- requests that end --- */

static struct as_call *detach_call(struct as_simple_conn *conn)
{
    struct as_call *c = conn->call;

    conn->call = NULL;
    c->conn = NULL;
    return c;
}

static void finish_call(struct as_simple *s, struct as_call *c, as_ns service, bool retry)
{
    as_fleet_finish_call(&s->up, c, (struct as_model_times){.service = service}, retry);
    as_simple_on_call_finished(s);
}

static void set_outcome(struct as_call *c, int err, uint32_t status, struct as_str message)
{
    if (as_call_is_awaited(c))
        as_call_set_outcome(c, err, status, message);
}

/* The worker has not read the request: it may be sent again, to this worker or another. */
static void return_to_core(struct as_simple_conn *conn, uint64_t *counter)
{
    struct as_simple *s = conn->worker;
    struct as_call *c = detach_call(conn);

    conn_close(conn, counter);
    set_outcome(c, AS_EUNAVAILABLE, 0, (struct as_str){0});
    finish_call(s, c, 0, true);
}

/* The connection ended during a request. reset: the worker left bytes of it unread. */
static void lose_connection(struct as_simple_conn *conn, bool reset, uint64_t *counter)
{
    struct as_simple *s = conn->worker;
    bool begun = as_simple_frame_begun(&conn->rx);
    bool read_all = begun || (!conn->out.bytes && !reset);
    struct as_call *c = conn->call;

    if (!read_all) {
        return_to_core(conn, counter);
        return;
    }
    if (as_call_is_awaited(c) && !s->ended)
        as_simple_log_fault(
            s, begun ? "closed in the middle of an answer" : "closed without an answer", conn->id);
    detach_call(conn);
    conn_close(conn, counter);
    as_fleet_lose_call(&s->up, c, as_simple_is_listening(s) ? AS_LOSS_LINK : AS_LOSS_UNKNOWN);
    as_simple_on_call_finished(s);
}

/* There is no memory for the answer (AS_ENOMEM), or its client has no room (AS_EFULL). */
static void drop_answer(struct as_simple_conn *conn, int err)
{
    struct as_simple *s = conn->worker;
    uint64_t n = conn->rx.n;
    struct as_call *c = detach_call(conn);

    conn_close(conn, &stat_of(s)->refused);
    c->outcome.dropped = n;
    if (err == AS_EFULL)
        set_outcome(c, AS_EUNTAKEN, 0, (struct as_str){0});
    else
        set_outcome(c, err, as_err_grpc(err), AS_STR("no memory for the worker's answer"));
    finish_call(s, c, 0, false);
}

/* The worker broke the protocol: its client gets an error, and the connection is closed. */
static void refuse_answer(struct as_simple_conn *conn, const char *why)
{
    struct as_simple *s = conn->worker;
    char text[WHY + 64];
    struct as_call *c = conn->call;

    as_simple_log_fault(s, why, conn->id);
    snprintf(text, sizeof(text), "the worker's answer is not valid: %s", why);
    detach_call(conn);
    conn_close(conn, &stat_of(s)->refused);
    set_outcome(c, AS_EHANDLER, as_err_grpc(AS_EHANDLER), as_str_of(text));
    finish_call(s, c, 0, false);
}

/* --- answers --- */

static void make_idle(struct as_simple_conn *conn)
{
    struct as_simple *s = conn->worker;
    as_ns idle = s->up.fleet->conf.simple_idle;

    set_state(conn, AS_SIMPLE_IDLE);
    conn->idle_since = now_of(s);
    if (idle)
        as_simple_schedule(s, conn->idle_since + idle);
}

/* For another loop: copies the message out of the read buffer. 0, AS_EFULL, AS_ENOMEM. */
static int copy_message(struct as_simple_conn *conn, struct as_str *message)
{
    struct as_call *c = conn->call;
    int err;

    if (conn->rx.blob || c->client->local)
        return 0;
    message->p = (const char *)as_call_copy_answer(c, message->p, message->n, &conn->rx.blob, &err);
    return message->p ? 0 : err;
}

static void set_result(struct as_call *c, const struct as_simple_answer *a,
                       struct as_simple_conn *conn)
{
    set_outcome(c, a->status ? AS_EHANDLER : 0, a->status,
                a->status ? a->message : (struct as_str){0});
    if (a->status)
        return;
    c->outcome.result.msg = (struct as_msg){.tensors = a->r.outputs,
                                            .n_tensors = a->r.n_outputs,
                                            .params = a->r.params,
                                            .n_params = a->r.n_params};
    c->outcome.result.tensor_params = a->r.tensor_params;
    c->outcome.result.blob = conn->rx.blob;
    conn->rx.blob = NULL;
}

/* A message is complete, and `behind` bytes follow that nobody asked for. */
static void on_message(struct as_simple_conn *conn, struct as_str message, size_t behind)
{
    struct as_simple *s = conn->worker;
    as_ns now = now_of(s);
    struct as_simple_answer a;
    struct as_call *c = conn->call;
    char why[WHY];
    bool reusable;
    int err;

    AS_ASSERT(as_call_is_awaited(c)); /* else the connection is not read any more */
    err = copy_message(conn, &message);
    if (!err)
        err = as_simple_frame_parse(message, conn->id, c->arena, &a, why, sizeof(why));
    if (err == AS_ENOMEM || err == AS_EFULL)
        drop_answer(conn, err);
    else if (err)
        refuse_answer(conn, why);
    if (err)
        return;
    if (behind)
        as_simple_log_fault(s, "two answers to one request", conn->id);
    reusable = a.has_id && !behind && !conn->out.bytes;
    set_result(c, &a, conn);
    s->alive_at = now;
    detach_call(conn);
    as_simple_frame_reset(&conn->rx);
    /* before the answer, so that a queued request can use the connection */
    if (reusable && !s->leaving)
        make_idle(conn);
    else
        conn_close(conn, behind       ? &stat_of(s)->refused
                         : s->leaving ? &stat_of(s)->left
                                      : &stat_of(s)->single);
    /* the protocol does not report the service time: ours includes the way */
    finish_call(s, c, now > c->core.sent ? now - c->core.sent : 0, false);
}

/* 1: *ret_message is complete; 0: not yet; else the error of a read. */
static int64_t read_answer(struct as_simple_conn *conn, struct as_str *ret_message,
                           size_t *ret_behind)
{
    struct as_simple *s = conn->worker;
    struct as_simple_registry *registry = s->up.fleet->simple;
    size_t room = 0;
    uint8_t *p = as_simple_frame_buffer(&conn->rx, &room);
    struct iovec iov[] = {{p, room}, {registry->rx, sizeof(registry->rx)}};
    int64_t n;
    int err;

    if (!p) {
        n = as_sock_read(&conn->sock, registry->rx, sizeof(registry->rx));
        if (n <= 0)
            return n;
        return as_simple_frame_receive(&conn->rx, registry->rx, (size_t)n,
                                       s->up.fleet->conf.max_message, ret_message, ret_behind);
    }
    /* the second buffer gets what follows the body, which should be nothing */
    n = as_sock_readv(&conn->sock, iov, 2, NULL);
    if (n <= 0)
        return n;
    err = as_simple_frame_received(&conn->rx, AS_MIN((size_t)n, room), ret_message);
    if ((size_t)n <= room || err < 0)
        return err;
    if (err == 0)
        return as_simple_frame_receive(&conn->rx, registry->rx, (size_t)n - room,
                                       s->up.fleet->conf.max_message, ret_message, ret_behind);
    *ret_behind = (size_t)n - room;
    return 1;
}

static void on_answer(struct as_simple_conn *conn)
{
    struct as_simple *s = conn->worker;
    struct as_str message = {0};
    size_t behind = 0;
    int64_t r = read_answer(conn, &message, &behind);
    bool reset = r == AS_EIO && errno == ECONNRESET;
    char why[96];

    if (r == 1) {
        on_message(conn, message, behind);
    } else if (r == AS_EOF || r == AS_EIO) {
        lose_connection(conn, reset, &stat_of(s)->broken);
        as_simple_probe(s);
    } else if (r == AS_EPROTO) {
        refuse_answer(conn, "its length is 0");
    } else if (r == AS_ETOOBIG) {
        snprintf(why, sizeof(why), "its length is %zu bytes, --max-message-bytes is %llu",
                 conn->rx.n, (unsigned long long)s->up.fleet->conf.max_message);
        refuse_answer(conn, why);
    } else if (r == AS_ENOMEM || r == AS_EFULL) {
        drop_answer(conn, (int)r);
    }
}

/* An idle connection is readable: the worker has closed it, or sends bytes without a request. */
static void on_idle_readable(struct as_simple_conn *conn)
{
    struct as_simple *s = conn->worker;
    uint8_t byte;
    int64_t n = as_sock_read(&conn->sock, &byte, 1);

    if (n == AS_EAGAIN)
        return;
    if (n > 0)
        as_simple_log_fault(s, "bytes on a connection without a request", (struct as_str){0});
    conn_close(conn, n > 0 ? &stat_of(s)->refused : &stat_of(s)->ended);
    as_simple_probe(s);
}

static void on_event(struct as_sock *sock, int events)
{
    struct as_simple_conn *conn = AS_CONTAINER(sock, struct as_simple_conn, sock);

    if (conn->state == AS_SIMPLE_GONE || conn->cancelled)
        return;
    if (events & UV_WRITABLE)
        as_loop_defer_first(sock->loop, &conn->turn);
    if (!(events & UV_READABLE))
        return;
    if (conn->call)
        on_answer(conn);
    else
        on_idle_readable(conn);
}

/* --- sending requests --- */

/* Whether one of the last ids was this one: a second answer to it could still come. */
static bool has_sent_id(const struct as_simple_conn *conn, struct as_str id)
{
    uint64_t hash = as_str_hash(id);

    for (uint32_t i = 0; i < AS_MIN(conn->n_ids, AS_SIMPLE_IDS); i++) {
        if (conn->ids[i] == hash)
            return true;
    }
    return false;
}

static struct as_simple_conn *choose_conn(struct as_simple *s, struct as_str id)
{
    struct as_simple_conn *conn;

    if (!as_list_empty(&s->idle)) {
        conn = AS_LIST_ENTRY(s->idle.next, struct as_simple_conn, node);
        if (!id.n || !has_sent_id(conn, id)) {
            conn->was_idle = true;
            set_state(conn, AS_SIMPLE_BUSY);
            return conn;
        }
        conn_close(conn, &stat_of(s)->single);
    }
    conn = conn_new(s);
    set_state(conn, AS_SIMPLE_WAITING);
    return conn;
}

static void remember_id(struct as_simple_conn *conn, struct as_str id)
{
    conn->ids[conn->n_ids++ % AS_SIMPLE_IDS] = as_str_hash(id);
}

static void set_request_id(struct as_simple_conn *conn, struct as_call *c)
{
    struct as_simple *s = conn->worker;

    conn->id = c->payload.msg.id;
    if (conn->id.n) {
        remember_id(conn, conn->id);
        return;
    }
    conn->id.p = conn->own_id;
    conn->id.n = (size_t)snprintf(conn->own_id, sizeof(conn->own_id), "%llx-%llx",
                                  (unsigned long long)s->epoch, (unsigned long long)s->stream);
}

/* Called by core: errors are handled at the end of the turn (on_turn). */
void as_simple_conn_send(struct as_simple *s, struct as_call *c)
{
    struct as_simple_conn *conn = choose_conn(s, c->payload.msg.id);
    struct as_oip_request r;

    c->core.stream = ++s->stream;
    c->conn = conn;
    conn->call = c;
    conn->cancelled = false;
    conn->rx.payer = c->payer;
    c->outcome.dropped = 0;
    set_request_id(conn, c);
    r = (struct as_oip_request){.head = {.model = as_str_of(s->model),
                                         .version = as_str_of(s->version),
                                         .id = conn->id,
                                         .outputs = c->payload.msg.tensors,
                                         .n_outputs = c->payload.msg.n_tensors,
                                         .params = c->payload.msg.params,
                                         .n_params = c->payload.msg.n_params,
                                         .tensor_params = c->payload.tensor_params}};
    conn->too_big = as_simple_frame_put(&conn->out, &r, c->payload.blob) != 0;
    as_loop_defer_first(s->up.fleet->loop, &conn->turn);
}

void as_simple_conn_cancel(struct as_simple_conn *conn)
{
    conn->cancelled = true;
    as_loop_defer_first(conn->worker->up.fleet->loop, &conn->turn);
}

static bool open_sock(struct as_simple_conn *conn, int fd)
{
    struct as_simple *s = conn->worker;

    if (as_sock_open(&conn->sock, s->up.fleet->loop, fd, on_event))
        return false;
    s->handles++;
    stat_of(s)->opened++;
    return true;
}

void as_simple_conn_adopt(struct as_simple *s, int fd)
{
    struct as_simple_conn *conn = conn_new(s);

    if (open_sock(conn, fd))
        make_idle(conn);
    else
        conn_close(conn, &stat_of(s)->not_connected);
}

/* Connects a waiting connection. False: not yet, or it failed and conn is freed. */
static bool connect_now(struct as_simple_conn *conn)
{
    struct as_simple *s = conn->worker;
    const struct as_fleet_conf *conf = &s->up.fleet->conf;
    as_ns now = now_of(s);
    const char *why;
    int fd, err;

    err = as_folder_socket_connect(conf->worker_dir, s->socket_path, &fd, &s->pid, &why);
    if (err == AS_EAGAIN && now - conn->call->core.sent < conf->simple_connect) {
        as_simple_schedule(s, now + RETRY);
        return false;
    }
    if (!err && open_sock(conn, fd)) {
        as_simple_on_alive(s);
        set_state(conn, AS_SIMPLE_BUSY);
        return true;
    }
    stat_of(s)->not_connected++;
    /* first, so that the request goes elsewhere; lack of memory is not the worker's fault */
    if (err && err != AS_ENOMEM)
        as_simple_on_connect_failed(s, why);
    return_to_core(conn, &stat_of(s)->not_connected);
    return false;
}

/* Whether an idle connection is still open and silent: the loop may not have polled it yet. */
static bool is_still_quiet(struct as_simple_conn *conn)
{
    uint8_t byte;
    ssize_t n = recv(conn->sock.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n > 0)
        as_simple_log_fault(conn->worker, "bytes on a connection without a request",
                            (struct as_str){0});
    return n < 0 && errno == EAGAIN;
}

/* Moves the request to a new connection, before any byte of it was written. */
static struct as_simple_conn *replace_conn(struct as_simple_conn *old)
{
    struct as_simple_conn *conn = conn_new(old->worker);
    struct as_call *c = detach_call(old);

    conn->out = old->out;
    as_outq_init(&old->out);
    conn->call = c;
    conn->rx.payer = c->payer;
    c->conn = conn;
    conn->id = old->id;
    if (old->id.p == old->own_id) {
        memcpy(conn->own_id, old->own_id, sizeof(conn->own_id));
        conn->id.p = conn->own_id;
    } else {
        remember_id(conn, conn->id);
    }
    conn_close(old, &stat_of(conn->worker)->ended);
    set_state(conn, AS_SIMPLE_WAITING);
    return conn;
}

static void on_turn(struct as_task *t)
{
    struct as_simple_conn *conn = AS_CONTAINER(t, struct as_simple_conn, turn);
    struct as_simple *s = conn->worker;
    struct as_call *c = conn->call;

    if (!c)
        return;
    if (conn->cancelled) {
        detach_call(conn);
        conn_close(conn, &stat_of(s)->cancelled);
        finish_call(s, c, 0, false);
        return;
    }
    if (conn->too_big) {
        detach_call(conn);
        conn_close(conn, &stat_of(s)->single);
        set_outcome(c, AS_ETOOBIG, as_err_grpc(AS_ETOOBIG),
                    AS_STR("the request is over 2147483647 bytes as a ModelInferRequest"));
        finish_call(s, c, 0, false);
        return;
    }
    if (conn->was_idle) {
        conn->was_idle = false;
        if (is_still_quiet(conn))
            stat_of(s)->reused++;
        else
            conn = replace_conn(conn);
    }
    if (conn->state == AS_SIMPLE_WAITING && !connect_now(conn))
        return;
    if (as_sock_flush(&conn->sock, &conn->out)) {
        lose_connection(conn, false, &stat_of(s)->broken);
        as_simple_probe(s);
    }
}

/* --- over time --- */

void as_simple_conn_retry_waiting(struct as_simple *s)
{
    AS_LIST_EACH_ENTRY(conn, struct as_simple_conn, node, &s->waiting) {
        as_loop_defer_first(s->up.fleet->loop, &conn->turn);
    }
}

as_ns as_simple_conn_close_idle(struct as_simple *s, as_ns now)
{
    as_ns idle = s->up.fleet->conf.simple_idle;
    bool yields =
        s->up.fleet->simple
            ->on_fewer; /* a worker that serves one connection at a time waits for its end */

    while ((idle || yields) && !as_list_empty(&s->idle)) {
        struct as_simple_conn *conn = AS_LIST_ENTRY(s->idle.prev, struct as_simple_conn, node);

        if (!yields && now - conn->idle_since < idle)
            return conn->idle_since + idle;
        conn_close(conn, &stat_of(s)->idle);
    }
    return AS_NEVER;
}

void as_simple_conn_close_all(struct as_simple *s)
{
    struct as_list *n;

    while ((n = as_list_pop(&s->idle)))
        conn_close(AS_LIST_ENTRY(n, struct as_simple_conn, node), &stat_of(s)->left);
    while ((n = as_list_pop(&s->waiting)))
        lose_connection(AS_LIST_ENTRY(n, struct as_simple_conn, node), false, &stat_of(s)->left);
    while ((n = as_list_pop(&s->busy)))
        lose_connection(AS_LIST_ENTRY(n, struct as_simple_conn, node), false, &stat_of(s)->left);
}
