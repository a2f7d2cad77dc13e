#include "tool/unary.h"

#include "base/err.h"

enum { DEADLINE_EXCEEDED = 4, UNAVAILABLE = 14, CANCEL = 8 /* of RFC 9113 */ };

static void on_field(void *conn, void *call, struct as_str name, struct as_str value, bool trailer)
{
    (void)conn;
    (void)trailer;
    as_grpc_call_field(&((struct as_unary *)call)->call, name, value);
}

static void on_data(void *conn, void *call, const uint8_t *p, size_t n)
{
    struct as_unary *u = call;

    (void)conn;
    if (as_grpc_call_data(&u->call, p, n))
        as_h2_client_reset(u->peer->h2, u->stream, CANCEL);
}

static void on_close(void *conn, void *call, uint32_t code, bool whole)
{
    struct as_unary *u = call;

    (void)conn;
    u->status = as_grpc_call_end(&u->call, code, whole);
    u->open = false;
    u->broken = u->peer->gone; /* it is not the server that closed the call */
    if (u->running)
        as_loop_stop(u->loop);
}

static const struct as_http_client_ops ops = {on_field, on_data, on_close};

static void on_late(struct as_timer *t)
{
    struct as_unary *u = AS_CONTAINER(t, struct as_unary, timer);

    u->late = true;
    if (!u->peer->gone) {
        as_h2_client_reset(u->peer->h2, u->stream, CANCEL);
        as_peer_touch(u->peer);
    }
    as_loop_stop(u->loop); /* a server that says nothing is not waited for */
}

int as_unary_open(struct as_unary *u, int fd, const char *authority)
{
    int rc;

    *u = (struct as_unary){.authority = authority};
    rc = as_loop_new(&u->loop, 0);
    if (rc)
        return rc;
    u->peer = as_xalloc(sizeof(*u->peer));
    as_timer_init(&u->timer, u->loop, on_late);
    rc = as_peer_open(u->peer, u->loop, fd, &ops, u);
    if (rc) {
        as_timer_close(&u->timer, NULL);
        as_loop_free(u->loop);
        free(u->peer);
    }
    return rc;
}

void as_unary_close(struct as_unary *u)
{
    if (!u->loop)
        return;
    as_peer_close(u->peer);
    as_timer_close(&u->timer, NULL);
    as_loop_free(u->loop);
    free(u->peer);
    as_grpc_call_fini(&u->call);
    u->loop = NULL;
}

/* Starts the request; false: the connection takes none. */
static bool start(struct as_unary *u, const struct as_unary_request *r, const struct as_str *body,
                  const char *timeout)
{
    struct as_http_header fields[AS_HTTP_CLIENT_HEADERS];
    struct as_http_client_request q = {.headers = fields, .body = body, .n_body = 2};

    q.n_headers = as_grpc_call_fields(fields, as_str_of(r->path), as_str_of(u->authority),
                                      AS_STR(AS_UNARY_AGENT), as_str_of(timeout));
    AS_ASSERT(r->n_metadata <= AS_UNARY_METADATA);
    for (uint32_t i = 0; i < r->n_metadata; i++)
        fields[q.n_headers++] = r->metadata[i];
    u->open = !u->peer->gone && as_h2_client_request(u->peer->h2, &q, u, &u->stream) == 0;
    return u->open;
}

static void wait_for_end(struct as_unary *u, as_ns timeout)
{
    /* from the loop's own idea of now, which may lie behind when it has not run for a while */
    as_timer_set(&u->timer, timeout ? as_loop_now(u->loop) + timeout : AS_NEVER);
    as_peer_touch(u->peer);
    u->running = true;
    while (u->open && !u->late)
        as_loop_run(u->loop);
    u->running = false;
    as_timer_set(&u->timer, AS_NEVER);
}

uint32_t as_unary_call(struct as_unary *u, const struct as_unary_request *r)
{
    char timeout[AS_GRPC_TIMEOUT_MAX] = "";
    uint8_t prefix[AS_GRPC_PREFIX];
    const struct as_str body[] = {{(const char *)prefix, sizeof(prefix)}, r->message};
    as_ns start_at = as_peer_clock();

    AS_ASSERT(r->message.n <= UINT32_MAX);
    as_grpc_prefix(prefix, (uint32_t)r->message.n);
    if (r->timeout)
        as_grpc_put_timeout(timeout, r->timeout);
    as_grpc_call_begin(&u->call, r->limit);
    u->late = u->broken = false;
    u->status = UNAVAILABLE;
    if (start(u, r, body, timeout))
        wait_for_end(u, r->timeout);
    else
        u->broken = true;
    u->took = as_peer_clock() - start_at;
    if (u->late) {
        as_peer_close(u->peer); /* fields and body are on this stack */
        snprintf(u->call.text, sizeof(u->call.text), "no answer within %.6g s",
                 (double)r->timeout / (double)AS_SEC);
        u->status = DEADLINE_EXCEEDED;
    } else if (u->broken) {
        snprintf(u->call.text, sizeof(u->call.text), "%s",
                 u->peer->why[0] ? u->peer->why : "the server takes no more requests");
        u->status = UNAVAILABLE;
    }
    return u->status;
}
