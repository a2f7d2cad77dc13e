/* Calls that reserve a slot first: getting it, and using it. */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"
#include "link/worker/worker_out.h"
#include "wire/frame/body.h"

#include <string.h>

void as_worker_on_reserved(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_worker_out *o = f->stream ? as_worker_out_find(l, f->stream) : NULL;
    struct as_str replica;

    if (!o || o->slot != AS_WORKER_SLOT_WANTED || as_frame_get_reserved(f, &replica)) {
        as_worker_close_link(w, l, "the dispatcher sent a RESERVED that nothing waits for");
        return;
    }
    o->slot = AS_WORKER_SLOT_HELD;
    if (o->dropped) /* it was cancelled meanwhile */
        return;
    o->replica = as_blob_new(replica.n);
    if (!o->replica) {
        as_worker_out_abandon(w, o, AS_STATUS_RESOURCE_EXHAUSTED, AS_STR("out of memory"));
        return;
    }
    memcpy(o->replica->data, replica.p, replica.n);
    o->place =
        (struct as_meta){AS_STR("anyserve-replica"), {(const char *)o->replica->data, replica.n}};
    o->slot_news = true;
    as_worker_out_notify(w, o);
}

/* Sends the second OPEN. kept: NULL, or the copy of a large body. */
static int use_slot(struct as_worker *w, struct as_worker_out *o, const struct as_worker_open *v,
                    struct as_frame_call *c, struct as_blob *kept)
{
    const struct as_body *body = kept ? NULL : v->body;
    uint64_t cost = as_frame_call_cost(c, body);
    int err;

    if (o->over)
        return 0; /* its slot was taken back: as reading it tells */
    if (o->slot != AS_WORKER_SLOT_HELD)
        return AS_EINVALID;
    if ((body ? as_body_len(body) : c->body_len) > o->link->peer_max) {
        as_worker_out_abandon(w, o, AS_STATUS_RESOURCE_EXHAUSTED,
                              AS_STR("the body of the call is larger than the server accepts"));
        return 0;
    }
    c->target = o->target;
    c->timeout = v->timeout;
    c->parent = o->parent ? o->parent->stream : 0;
    err = as_frame_put_call(&o->link->out, AS_FRAME_OPEN, o->stream, c, body, kept);
    if (err)
        return err;
    o->slot = AS_WORKER_SLOT_NONE;
    o->slot_news = false;
    o->flags = c->flags;
    o->window = AS_MIN(v->window, AS_WORKER_OUT_MESSAGES);
    o->family->used.bytes += (int64_t)(cost - o->cost);
    o->cost = cost;
    as_worker_grant_stream(w, o);
    return 0;
}

int as_worker_use_slot(struct as_worker_out *o, const struct as_worker_open *open)
{
    struct as_worker *w = o->w;
    struct as_blob *kept = NULL;
    struct as_worker_open v;
    struct as_frame_call c;
    int err;

    if (w->forked)
        return AS_EUNAVAILABLE;
    if (!as_worker_copy_struct(&v, sizeof(v), open) || !v.body ||
        !as_body_is_valid(v.body, false) || (v.n_meta && !v.meta))
        return AS_EINVALID;
    c = (struct as_frame_call){.flags = AS_CALL_F_USE | (v.stream ? AS_CALL_F_STREAM : 0),
                               .id = v.id,
                               .meta = v.meta,
                               .n_meta = v.n_meta};
    if (as_frame_call_cost(&c, v.body) == UINT64_MAX)
        return AS_ETOOBIG;
    if (as_body_len(v.body) > AS_FRAME_INLINE) {
        kept = as_worker_keep_call(&c, v.body); /* without the lock, since it is large */
        if (!kept)
            return AS_ENOMEM;
    }
    pthread_mutex_lock(&w->mu);
    err = use_slot(w, o, &v, &c, kept);
    as_worker_out_send(w);
    pthread_mutex_unlock(&w->mu);
    as_blob_unref(kept);
    return err;
}
