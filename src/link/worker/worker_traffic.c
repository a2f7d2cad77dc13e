/* TRAFFIC and ROUTER: the canary, mirror and fallback of the deployment, and how its replicas are
 * chosen, sent to the server. */
#include "link/worker/worker_internal.h"

#include <string.h>

/* Characters of deployment names; the server checks the other rules. */
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:/#"

static bool is_same(const struct as_frame_traffic *a, const struct as_frame_traffic *b)
{
    return a->flags == b->flags && a->canary == b->canary && a->mirror == b->mirror &&
           as_str_eq(a->fallback, b->fallback);
}

int as_worker_set_traffic(struct as_worker *w, const struct as_worker_traffic *traffic)
{
    struct as_frame_traffic t = {0};
    struct as_worker_traffic v;
    bool same;
    size_t n;

    static_assert(AS_WORKER_SHARE == AS_FRAME_SHARE, "specification");
    if (!as_worker_copy_struct(&v, sizeof(v), traffic) || v.canary > AS_FRAME_SHARE ||
        v.mirror > AS_FRAME_SHARE || (v.canary && !v.is_canary))
        return AS_EINVALID;
    n = v.fallback ? strlen(v.fallback) : 0;
    if (n > AS_FRAME_NAME || (n && strspn(v.fallback, LETTERS) != n))
        return AS_EINVALID;
    t.flags = v.is_canary ? AS_FRAME_CANARY : 0;
    t.canary = v.canary;
    t.mirror = v.mirror;
    pthread_mutex_lock(&w->mu);
    t.fallback = (struct as_str){v.fallback, n};
    same = is_same(&t, &w->traffic);
    if (n)
        memcpy(w->fallback, v.fallback, n);
    t.fallback.p = w->fallback;
    w->traffic = t;
    AS_WORKER_LINKS(w, l)
    {
        if (l->state == AS_WORKER_LIVE && !same)
            as_frame_put_traffic(&l->out, &w->traffic);
    }
    as_worker_send(w);
    pthread_mutex_unlock(&w->mu);
    return 0;
}

void as_worker_send_traffic(struct as_worker *w, struct as_worker_link *l)
{
    const struct as_frame_traffic *t = &w->traffic;

    if (t->flags || t->mirror || t->fallback.n)
        as_frame_put_traffic(&l->out, t);
}

/* --- how replicas are chosen --- */

/* 0 is left out; AS_NEVER stands for 0. False: it is out of range. */
static bool set_value(struct as_frame_router *r, enum as_frame_router_key key, uint64_t v)
{
    return !v || as_frame_router_set(r, key, v == AS_NEVER ? 0 : v);
}

static bool encode_router(const struct as_worker_router *v, struct as_frame_router *r)
{
    struct as_str policy = as_str_of(v->policy ? v->policy : "");

    memset(r, 0, sizeof(*r));
    if (policy.n > AS_FRAME_ROUTER_POLICY ||
        strspn(policy.p, "abcdefghijklmnopqrstuvwxyz0123456789_") != policy.n)
        return false;
    memcpy(r->policy, policy.p, policy.n);
    if (v->session_header && v->session_header[0] &&
        !as_frame_router_header(r->session_header, as_str_of(v->session_header)))
        return false;
    return v->fallbacks >= -1 && set_value(r, AS_FRAME_ROUTER_MAX_WAIT, v->max_wait) &&
           set_value(r, AS_FRAME_ROUTER_VIRTUAL_NODES, v->virtual_nodes) &&
           set_value(r, AS_FRAME_ROUTER_FALLBACKS,
                     v->fallbacks < 0 ? AS_NEVER : (uint64_t)v->fallbacks) &&
           set_value(r, AS_FRAME_ROUTER_BOUND, v->bound) &&
           set_value(r, AS_FRAME_ROUTER_SESSION_TTL, v->session_ttl) &&
           set_value(r, AS_FRAME_ROUTER_MAX_SESSIONS, v->max_sessions) &&
           set_value(r, AS_FRAME_ROUTER_PREFER_LOCAL, v->prefer_local) &&
           set_value(r, AS_FRAME_ROUTER_ASK_FIRST, v->ask_first) &&
           set_value(r, AS_FRAME_ROUTER_ASK_FACTOR, v->ask_factor) &&
           set_value(r, AS_FRAME_ROUTER_ASK_MAX, v->ask_max);
}

int as_worker_set_router(struct as_worker *w, const struct as_worker_router *router)
{
    struct as_worker_router v;
    struct as_frame_router r;
    bool same;

    if (!as_worker_copy_struct(&v, sizeof(v), router) || !encode_router(&v, &r))
        return AS_EINVALID;
    pthread_mutex_lock(&w->mu);
    same = w->has_router && as_frame_router_eq(&r, &w->router);
    w->router = r;
    w->has_router = true;
    AS_WORKER_LINKS(w, l)
    {
        if (l->state == AS_WORKER_LIVE && !same)
            as_frame_put_router(&l->out, &w->router);
    }
    as_worker_send(w);
    pthread_mutex_unlock(&w->mu);
    return 0;
}

void as_worker_send_router(struct as_worker *w, struct as_worker_link *l)
{
    if (w->has_router)
        as_frame_put_router(&l->out, &w->router);
}
