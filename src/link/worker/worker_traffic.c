/* TRAFFIC: the canary, mirror and fallback of the deployment, sent to the server. */
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
