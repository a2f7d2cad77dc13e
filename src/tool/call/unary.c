#include "tool/call/unary.h"

#include "base/err.h"
#include "io/loop/clock.h"

#include <unistd.h>

enum { DEADLINE_EXCEEDED = 4, UNAVAILABLE = 14 };

static void on_field(void *conn AS_UNUSED, void *call, struct as_str name, struct as_str value,
                     bool trailer AS_UNUSED)
{
    as_model_call_field(&((struct as_unary *)call)->call, name, value);
}

static void on_data(void *conn AS_UNUSED, void *call, const uint8_t *p, size_t n)
{
    struct as_unary *u = call;

    if (as_model_call_data(&u->call, p, n))
        as_client_connection_reset(u->connection, u->stream);
}

static void on_close(void *conn AS_UNUSED, void *call, uint32_t code, bool whole)
{
    struct as_unary *u = call;

    u->status = as_model_call_end(&u->call, code, whole);
    if (code == AS_MODEL_CALL_PROTOCOL_ERROR && as_client_connection_fault(u->connection))
        snprintf(as_model_call_text(&u->call), AS_MODEL_CALL_TEXT, "%s",
                 as_client_connection_fault(u->connection));
    u->open = false;
    u->connection_lost = u->connection->ended; /* the call ended because the connection did */
    if (u->running)
        as_loop_stop(u->loop);
}

static const struct as_http_client_ops ops = {on_field, on_data, on_close};

static void on_timeout(struct as_timer *t)
{
    struct as_unary *u = AS_CONTAINER(t, struct as_unary, timer);

    u->timed_out = true;
    if (u->open)
        as_client_connection_reset(u->connection, u->stream);
    as_loop_stop(u->loop); /* does not wait for the server */
}

static void stop(struct as_client_connection *p)
{
    as_loop_stop(p->loop);
}

int as_unary_open(struct as_unary *u, int fd, struct as_tls_client *tls,
                  enum as_model_call_protocol protocol, const char *authority)
{
    bool rest = protocol != AS_MODEL_CALL_GRPC;
    struct as_tls *session = NULL;
    int rc;

    *u = (struct as_unary){.protocol = protocol, .authority = authority};
    rc = as_loop_new(&u->loop, 0);
    if (rc) {
        close(fd);
        return rc;
    }
    if (tls) {
        u->tls_buffer = as_tls_buffer_new(u->loop, AS_TLS_CLIENT_MESSAGES);
        session = as_tls_new(as_tls_client_open(tls), false, fd, u->tls_buffer);
        if (!session)
            as_fatal_memory(0);
    }
    u->connection = as_xalloc(sizeof(*u->connection));
    as_timer_init(&u->timer, u->loop, on_timeout);
    rc = as_client_connection_open(u->connection, u->loop, fd, session, rest, &ops, u);
    if (!rc && rest && !(u->json = as_json_new())) {
        as_client_connection_close(u->connection);
        rc = AS_ENOMEM;
    }
    if (rc) {
        as_timer_close(&u->timer, NULL);
        as_loop_free(u->loop);
        as_tls_buffer_free(u->tls_buffer);
        free(u->connection);
        u->loop = NULL;
    }
    return rc;
}

void as_unary_close(struct as_unary *u)
{
    if (!u->loop)
        return;
    as_client_connection_close(u->connection);
    as_timer_close(&u->timer, NULL);
    as_loop_free(u->loop);
    as_tls_buffer_free(u->tls_buffer);
    free(u->connection);
    as_model_call_fini(&u->call);
    as_json_free(u->json);
    u->loop = NULL;
}

int as_unary_wait_handshake(struct as_unary *u, as_ns timeout)
{
    struct as_client_connection *p = u->connection;

    p->on_handshake = p->on_end = stop;
    as_timer_set(&u->timer, as_loop_now(u->loop) + timeout);
    u->timed_out = false;
    while (p->handshaking && !p->ended && !u->timed_out)
        as_loop_run(u->loop);
    as_timer_set(&u->timer, AS_NEVER);
    p->on_handshake = p->on_end = NULL;
    if (!p->ended && p->handshaking) {
        snprintf(p->why, sizeof(p->why), AS_CLIENT_CONNECTION_SILENT,
                 (double)timeout / (double)AS_SEC);
        as_client_connection_close(p);
    }
    return p->ended ? AS_EUNAVAILABLE : 0;
}

static void wait_for_end(struct as_unary *u, as_ns timeout)
{
    /* relative to the loop's time, which may be old if the loop has not run for a while */
    as_timer_set(&u->timer, timeout ? as_loop_now(u->loop) + timeout : AS_NEVER);
    u->running = true;
    while (u->open && !u->timed_out)
        as_loop_run(u->loop);
    u->running = false;
    as_timer_set(&u->timer, AS_NEVER);
}

uint32_t as_unary_call(struct as_unary *u, const struct as_model_call_request *r)
{
    struct as_model_call_frame frame;
    as_ns start_at = as_clock_now();
    char *text;

    as_model_call_prepare(&frame, u->protocol, r, u->authority, u->tls_buffer != NULL);
    as_model_call_begin(&u->call, u->protocol, u->json, r->limit);
    if (r->on_response)
        as_model_call_expect_stream(&u->call, r->on_response, r->ctx);
    text = as_model_call_text(&u->call);
    u->timed_out = u->connection_lost = false;
    u->status = UNAVAILABLE;
    u->open = as_client_connection_request(u->connection, &frame.request, u, &u->stream) == 0;
    if (u->open)
        wait_for_end(u, r->timeout);
    else
        u->connection_lost = true;
    u->elapsed = as_clock_now() - start_at;
    if (u->timed_out) {
        as_client_connection_close(
            u->connection); /* it still points to the request, which is on this stack */
        snprintf(text, AS_MODEL_CALL_TEXT, "no answer within %.6g s",
                 (double)r->timeout / (double)AS_SEC);
        u->status = DEADLINE_EXCEEDED;
    } else if (u->connection_lost) {
        snprintf(text, AS_MODEL_CALL_TEXT, "%s",
                 u->connection->why[0] ? u->connection->why
                                       : "the server accepts no more requests");
        u->status = UNAVAILABLE;
    }
    return u->status;
}
