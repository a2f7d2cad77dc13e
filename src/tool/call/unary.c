#include "tool/call/unary.h"

#include "base/err.h"

enum { DEADLINE_EXCEEDED = 4, UNAVAILABLE = 14 };

static void on_field(void *conn, void *call, struct as_str name, struct as_str value, bool trailer)
{
    (void)conn;
    (void)trailer;
    as_talk_field(&((struct as_unary *)call)->call, name, value);
}

static void on_data(void *conn, void *call, const uint8_t *p, size_t n)
{
    struct as_unary *u = call;

    (void)conn;
    if (as_talk_data(&u->call, p, n))
        as_peer_reset(u->peer, u->stream);
}

static void on_close(void *conn, void *call, uint32_t code, bool whole)
{
    struct as_unary *u = call;

    (void)conn;
    u->status = as_talk_end(&u->call, code, whole);
    if (code == AS_TALK_BROKEN && as_peer_fault(u->peer))
        snprintf(as_talk_text(&u->call), AS_TALK_TEXT, "%s", as_peer_fault(u->peer));
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
    as_peer_reset(u->peer, u->stream);
    as_loop_stop(u->loop); /* a server that says nothing is not waited for */
}

int as_unary_open(struct as_unary *u, int fd, enum as_talk talk, const char *authority)
{
    bool rest = talk != AS_TALK_GRPC;
    int rc;

    *u = (struct as_unary){.talk = talk, .authority = authority};
    rc = as_loop_new(&u->loop, 0);
    if (rc)
        return rc;
    u->peer = as_xalloc(sizeof(*u->peer));
    as_timer_init(&u->timer, u->loop, on_late);
    rc = as_peer_open(u->peer, u->loop, fd, rest, &ops, u);
    if (!rc && rest && !(u->json = as_json_new())) {
        as_peer_close(u->peer);
        rc = AS_ENOMEM;
    }
    if (rc) {
        as_timer_close(&u->timer, NULL);
        as_loop_free(u->loop);
        free(u->peer);
        u->loop = NULL;
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
    as_talk_fini(&u->call);
    as_json_free(u->json);
    u->loop = NULL;
}

static void wait_for_end(struct as_unary *u, as_ns timeout)
{
    /* from the loop's own idea of now, which may lie behind when it has not run for a while */
    as_timer_set(&u->timer, timeout ? as_loop_now(u->loop) + timeout : AS_NEVER);
    u->running = true;
    while (u->open && !u->late)
        as_loop_run(u->loop);
    u->running = false;
    as_timer_set(&u->timer, AS_NEVER);
}

uint32_t as_unary_call(struct as_unary *u, const struct as_talk_request *r)
{
    struct as_talk_frame frame;
    as_ns start_at = as_peer_clock();
    char *text;

    as_talk_prepare(&frame, u->talk, r, u->authority);
    as_talk_begin(&u->call, u->talk, u->json, r->limit);
    if (r->on_response)
        as_talk_begin_stream(&u->call, r->on_response, r->ctx);
    text = as_talk_text(&u->call);
    u->late = u->broken = false;
    u->status = UNAVAILABLE;
    u->open = as_peer_request(u->peer, &frame.request, u, &u->stream) == 0;
    if (u->open)
        wait_for_end(u, r->timeout);
    else
        u->broken = true;
    u->took = as_peer_clock() - start_at;
    if (u->late) {
        as_peer_close(u->peer); /* fields and body are on this stack */
        snprintf(text, AS_TALK_TEXT, "no answer within %.6g s",
                 (double)r->timeout / (double)AS_SEC);
        u->status = DEADLINE_EXCEEDED;
    } else if (u->broken) {
        snprintf(text, AS_TALK_TEXT, "%s",
                 u->peer->why[0] ? u->peer->why : "the server takes no more requests");
        u->status = UNAVAILABLE;
    }
    return u->status;
}
