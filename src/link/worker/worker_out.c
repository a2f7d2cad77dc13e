/* Opening calls, and sending them as far as the server has room. */
#include "link/worker/worker_out.h"
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"
#include "wire/frame/body.h"

#include <string.h>

#define PRIORITY 1u /* of a call that is neither urgent nor can wait, as of clients' requests */

/* --- ending --- */

/* One call less is waiting or open: a drain may be complete. */
static void count_down(struct as_worker *w)
{
    if (--w->n_calls == 0 && w->draining)
        as_worker_wake(w);
}

/* It does not wait to be sent any more. */
static void unkeep(struct as_worker *w, struct as_worker_out *o)
{
    if (!o->kept)
        return;
    as_list_remove(&o->node);
    as_blob_unref(o->kept);
    o->kept = NULL;
    count_down(w);
}

void as_worker_out_end(struct as_worker *w, struct as_worker_out *o, uint32_t status,
                       uint32_t flags, struct as_str text, bool copy)
{
    unkeep(w, o);
    if (o->over)
        return;
    o->over = true;
    o->status = status;
    o->error_flags = flags;
    o->why = text;
    if (copy && text.n) {
        o->text = as_blob_new(text.n);
        o->why = (struct as_str){0};
        if (o->text) {
            memcpy(o->text->data, text.p, text.n);
            o->why = (struct as_str){(const char *)o->text->data, text.n};
        }
    }
    as_worker_out_notify(w, o);
}

/* For the program's calls, as their last step: what it does is sent at once, unless this is the
 * runner, which sends with its next one. It may end links, and with them outs that are not held. */
void as_worker_out_send(struct as_worker *w)
{
    bool is_much = w->links[0].out.bytes > AS_WORKER_PUBLISH_BYTES ||
                   w->links[1].out.bytes > AS_WORKER_PUBLISH_BYTES;

    if (!as_worker_has_out(w))
        return;
    if (is_much || !pthread_equal(pthread_self(), w->runner))
        as_worker_send(w);
    else
        as_worker_arm_guard(w);
}

void as_worker_out_abandon(struct as_worker *w, struct as_worker_out *o, uint32_t reason,
                           struct as_str text)
{
    if (o->over)
        return;
    as_worker_out_drop_messages(w, o);
    as_worker_out_end(w, o, reason, 0, text, false);
    if (!o->sent)
        return;
    o->dropped = true;
    count_down(w); /* a drain need not wait for it */
    as_frame_put_cancel(&o->link->out, o->stream, reason);
    as_worker_arm_guard(w);
}

/* The family gets back what o used. */
static void leave_family(struct as_worker_out *o)
{
    as_list_remove(&o->node);
    o->family->used.messages--;
    o->family->used.bytes -= (int64_t)o->cost;
    o->family = NULL;
}

/* --- sending --- */

/* The link for calls without a parent: the newest one that serves. */
static struct as_worker_link *pick_link(struct as_worker *w)
{
    if (w->newest->state == AS_WORKER_LIVE)
        return w->newest;
    return as_worker_link_at(w, 0)->state == AS_WORKER_LIVE ? as_worker_link_at(w, 0) : NULL;
}

static bool has_room(const struct as_worker_link *l, const struct as_worker_family *f)
{
    return l->calls.granted && f->used.messages < l->calls.limit.messages &&
           f->used.bytes < l->calls.limit.bytes;
}

void as_worker_grant_stream(struct as_worker *w, struct as_worker_out *o)
{
    struct as_frame_credit c = {.messages =
                                    AS_MIN(o->window + o->first_grant, AS_WORKER_OUT_MESSAGES),
                                .bytes = (uint64_t)w->inputs.bytes};

    if (!(o->flags & AS_CALL_F_STREAM) || !c.messages)
        return;
    o->credit = (struct as_frame_window){c.messages, w->inputs.bytes};
    as_frame_put_credit(&o->link->out, o->stream, &c);
}

/* Sends o over l. body: NULL: it is at c->body. owner: holds the bytes of a large one. */
static void send_open(struct as_worker *w, struct as_worker_link *l, struct as_worker_out *o,
                      struct as_frame_call *c, const struct as_body *body, struct as_blob *owner)
{
    struct as_worker_family *f = o->parent ? &o->parent->children : &l->calls.family;
    as_ns now = o->deadline == AS_NEVER ? 0 : as_clock_now();

    if (o->deadline <= now) {
        as_worker_out_end(w, o, AS_STATUS_DEADLINE_EXCEEDED, 0,
                          AS_STR("the deadline has passed before the call was sent"), false);
        return;
    }
    if ((body ? as_body_len(body) : c->body_len) > l->peer_max ||
        l->calls.top_stream > UINT64_MAX - 2) {
        as_worker_out_end(w, o, AS_STATUS_RESOURCE_EXHAUSTED, 0,
                          AS_STR("the body of the call is larger than the server accepts"), false);
        return;
    }
    if (o->slot && !l->calls.reserves) {
        as_worker_out_end(w, o, AS_STATUS_UNIMPLEMENTED, 0,
                          AS_STR("the server is of a version that reserves no slots"), false);
        return;
    }
    c->timeout = o->deadline == AS_NEVER ? 0 : o->deadline - now;
    c->parent = o->parent ? o->parent->stream : 0;
    if (as_frame_put_call(&l->out, AS_FRAME_OPEN, l->calls.top_stream + 2, c, body, owner)) {
        as_worker_out_end(w, o, AS_STATUS_RESOURCE_EXHAUSTED, 0,
                          AS_STR("the metadata of the call is too large"), false);
        return;
    }
    o->link = l;
    o->stream = l->calls.top_stream += 2;
    o->sent = true;
    w->n_calls++;
    as_worker_table_add(&l->calls.outs, &o->entry, o->stream);
    o->family = f;
    f->used.messages++;
    f->used.bytes += (int64_t)o->cost;
    as_list_push(&f->open, &o->node);
    as_worker_grant_stream(w, o);
}

/* Sends what waits, in order, as far as there is room. */
static void send_waiting(struct as_worker *w, struct as_worker_link *l, struct as_list *waiting,
                         const struct as_worker_family *f)
{
    bool sent = false;

    while (!as_list_empty(waiting) && has_room(l, f)) {
        struct as_worker_out *o = AS_LIST_ENTRY(waiting->next, struct as_worker_out, node);
        struct as_blob *kept = as_blob_ref(o->kept);

        unkeep(w, o);
        send_open(w, l, o, o->open, NULL, o->open->body_len > AS_FRAME_INLINE ? kept : NULL);
        as_blob_unref(kept);
        as_worker_out_settle(w, o); /* it may have ended instead */
        sent = true;
    }
    if (sent)
        as_worker_arm_guard(w); /* the caller sends, or the guard does */
}

void as_worker_out_closed(struct as_worker *w, struct as_worker_out *o)
{
    struct as_worker_link *l = o->link;
    struct as_worker_req *parent = o->parent;

    AS_ASSERT(l);
    as_worker_table_remove(&l->calls.outs, &o->entry);
    leave_family(o);
    o->sent = false;
    if (!o->dropped)
        count_down(w);
    as_worker_out_settle(w, o);
    if (parent)
        send_waiting(w, l, &parent->children.waiting, &parent->children);
    else if (l == pick_link(w))
        send_waiting(w, l, &w->unsent, &l->calls.family);
}

static void refuse_unknown(struct as_worker *w, struct as_list *waiting)
{
    while (!as_list_empty(waiting)) {
        struct as_worker_out *o = AS_LIST_ENTRY(waiting->next, struct as_worker_out, node);

        as_worker_out_end(w, o, AS_STATUS_UNIMPLEMENTED, 0,
                          AS_STR("the server is of a version that knows no calls"), false);
        as_worker_out_settle(w, o);
    }
}

void as_worker_send_calls(struct as_worker *w, struct as_worker_link *l)
{
    if (l->state != AS_WORKER_LIVE)
        return;
    if (!l->calls.known) {
        refuse_unknown(w, &w->unsent);
        return;
    }
    if (!l->calls.granted)
        return;
    AS_LIST_EACH_ENTRY(q, struct as_worker_req, node, &w->running) {
        if (q->link == l && as_worker_is_awaited(q))
            send_waiting(w, l, &q->children.waiting, &q->children);
    }
    if (l == pick_link(w))
        send_waiting(w, l, &w->unsent, &l->calls.family);
}

/* --- opening --- */

/* Where the copy of *c itself is in a blob of as_worker_keep_call: behind the body. */
static struct as_frame_call *kept_call(const struct as_blob *b, size_t len)
{
    return (struct as_frame_call *)(void *)(b->data +
                                            AS_ALIGN(len, _Alignof(struct as_frame_call)));
}

struct as_blob *as_worker_keep_call(struct as_frame_call *c, const struct as_body *body)
{
    size_t len = (size_t)as_body_len(body);
    size_t n = AS_ALIGN(len, _Alignof(struct as_frame_call)) + sizeof(*c);
    struct as_blob *b;
    struct as_meta *to;
    char *p;

    n += c->n_meta * sizeof(*to) + c->id.n;
    for (uint32_t i = 0; i < c->n_meta; i++)
        n += c->meta[i].key.n + c->meta[i].value.n;
    b = as_blob_new(n);
    if (!b)
        return NULL;
    as_body_write(body, b->data);
    to = (struct as_meta *)(void *)(kept_call(b, len) + 1);
    p = (char *)(to + c->n_meta);
    for (uint32_t i = 0; i < c->n_meta; i++) {
        struct as_str texts[2] = {c->meta[i].key, c->meta[i].value};

        for (int k = 0; k < 2; k++) {
            if (texts[k].n)
                memcpy(p, texts[k].p, texts[k].n);
            texts[k].p = p;
            p += texts[k].n;
        }
        to[i] = (struct as_meta){texts[0], texts[1]};
    }
    if (c->id.n)
        memcpy(p, c->id.p, c->id.n);
    c->id.p = p;
    c->meta = to;
    c->body = b->data;
    c->body_len = len;
    *kept_call(b, len) = *c;
    return b;
}

/* Decides what becomes of a new call: it is sent, it waits, or it has failed. kept: NULL, or the
 * copy of a large one. 0 or AS_ENOMEM. */
static int start_call(struct as_worker *w, struct as_worker_out *o, struct as_frame_call *c,
                      const struct as_body *body, struct as_blob *kept)
{
    struct as_worker_req *p = o->parent;
    struct as_worker_link *l = p ? p->link : pick_link(w);
    struct as_list *waiting = p ? &p->children.waiting : &w->unsent;

    if (p && (!as_worker_is_awaited(p) || atomic_load_explicit(&p->cancel, memory_order_relaxed)))
        as_worker_out_end(w, o, AS_STATUS_CANCELLED, 0,
                          AS_STR("the request that makes the call was cancelled"), false);
    else if (l && !l->calls.known)
        as_worker_out_end(w, o, AS_STATUS_UNIMPLEMENTED, 0,
                          AS_STR("the server is of a version that knows no calls"), false);
    else if (!l && w->draining)
        as_worker_out_end(w, o, AS_STATUS_UNAVAILABLE, 0, AS_STR("this worker ends"), false);
    if (o->over)
        return 0;
    if (l && as_list_empty(waiting) && has_room(l, p ? &p->children : &l->calls.family)) {
        send_open(w, l, o, c, kept ? NULL : body, kept);
        return 0;
    }
    kept = kept ? as_blob_ref(kept) : as_worker_keep_call(c, body);
    if (!kept)
        return AS_ENOMEM;
    o->kept = kept;
    o->open = kept_call(kept, (size_t)c->body_len);
    as_list_push(waiting, &o->node);
    w->n_calls++;
    return 0;
}

static int open_locked(struct as_worker *w, const struct as_worker_open *v, struct as_frame_call *c,
                       struct as_blob *kept, struct as_worker_out **ret_o)
{
    struct as_worker_out *o;
    int err;

    if (v->target >= w->n_targets)
        return AS_EINVALID;
    o = as_worker_out_get(w);
    if (!o)
        return AS_ENOMEM;
    o->cost = as_frame_call_cost(c, kept ? NULL : v->body);
    o->target = v->target;
    o->flags = c->flags;
    o->slot = v->reserve ? AS_WORKER_SLOT_WANTED : AS_WORKER_SLOT_NONE;
    o->deadline = v->timeout ? as_clock_now() + v->timeout : AS_NEVER;
    o->parent = v->parent && v->parent->link ? v->parent : NULL;
    o->window = AS_MIN(v->window, AS_WORKER_OUT_MESSAGES);
    o->data = v->data;
    err = start_call(w, o, c, v->body, kept);
    if (err) {
        o->held = false;
        as_worker_out_settle(w, o);
        return err;
    }
    *ret_o = o;
    return 0;
}

int as_worker_open(struct as_worker *w, const struct as_worker_open *open,
                   struct as_worker_out **ret_o)
{
    struct as_blob *kept = NULL;
    struct as_worker_open v;
    struct as_frame_call c;
    int err;

    if (w->forked)
        return AS_EUNAVAILABLE;
    if (!as_worker_copy_struct(&v, sizeof(v), open) || !v.body ||
        !as_body_is_valid(v.body, false) || (v.n_meta && !v.meta) || (v.every && !v.stream) ||
        (v.reserve && v.stream))
        return AS_EINVALID;
    c = (struct as_frame_call){.priority = PRIORITY,
                               .target = v.target,
                               .flags = (v.stream ? AS_CALL_F_STREAM : 0) |
                                        (v.every ? AS_CALL_F_EVERY : 0) |
                                        (v.reserve ? AS_CALL_F_RESERVE : 0),
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
    err = open_locked(w, &v, &c, kept, ret_o);
    as_worker_out_send(w);
    pthread_mutex_unlock(&w->mu);
    as_blob_unref(kept);
    return err;
}

/* --- parents and links --- */

void as_worker_cancel_children(struct as_worker *w, struct as_worker_req *q, uint32_t reason)
{
    const struct as_str why = AS_STR("the request that made the call was cancelled");

    AS_LIST_EACH_ENTRY(o, struct as_worker_out, node, &q->children.waiting) {
        as_worker_out_end(w, o, reason, 0, why, false);
        as_worker_out_settle(w, o);
    }
    AS_LIST_EACH_ENTRY(o, struct as_worker_out, node, &q->children.open) {
        as_worker_out_abandon(w, o, reason, why);
    }
}

static void move_list(struct as_list *to, struct as_list *from, struct as_worker_family *family)
{
    struct as_list *n;

    while ((n = as_list_pop(from))) {
        struct as_worker_out *o = AS_LIST_ENTRY(n, struct as_worker_out, node);

        o->parent = NULL;
        o->family = family;
        as_list_push(to, n);
    }
}

void as_worker_leave_children(struct as_worker *w, struct as_worker_req *q)
{
    struct as_worker_family *f = &q->children, *to;
    bool waited = !as_list_empty(&f->waiting);

    if (!waited && as_list_empty(&f->open))
        return;
    to = &q->link->calls.family;
    move_list(&to->open, &f->open, to);
    to->used.messages += f->used.messages;
    to->used.bytes += f->used.bytes;
    f->used = (struct as_frame_window){0};
    move_list(&w->unsent, &f->waiting, NULL);
    if (waited && pick_link(w))
        as_worker_send_calls(w, pick_link(w));
}

void as_worker_fail_calls(struct as_worker *w, struct as_worker_link *l)
{
    struct as_worker_entry *e;
    uint32_t at = 0;

    while ((e = as_worker_table_pop(&l->calls.outs, &at))) {
        struct as_worker_out *o = AS_CONTAINER(e, struct as_worker_out, entry);

        as_worker_out_drop_partial(w, o);
        as_worker_out_end(w, o, AS_STATUS_UNAVAILABLE, AS_WORKER_OUT_STARTED,
                          AS_STR("the link to the server was lost while the call was open"), false);
        leave_family(o);
        o->sent = false;
        if (!o->dropped)
            count_down(w);
        as_worker_out_settle(w, o);
    }
    l->calls.known = l->calls.granted = false;
    l->calls.top_stream = 0;
    if (w->draining && !as_worker_connected(w))
        as_worker_fail_unsent(w, "this worker ends");
}

void as_worker_fail_unsent(struct as_worker *w, const char *text)
{
    while (!as_list_empty(&w->unsent)) {
        struct as_worker_out *o = AS_LIST_ENTRY(w->unsent.next, struct as_worker_out, node);

        as_worker_out_end(w, o, AS_STATUS_UNAVAILABLE, 0, as_str_of(text), false);
        as_worker_out_settle(w, o);
    }
}

void as_worker_expire_calls(struct as_worker *w)
{
    as_ns now = as_list_empty(&w->unsent) ? 0 : as_clock_now();

    AS_LIST_EACH_ENTRY(o, struct as_worker_out, node, &w->unsent) {
        if (o->deadline > now)
            continue;
        as_worker_out_end(w, o, AS_STATUS_DEADLINE_EXCEEDED, 0,
                          AS_STR("the deadline has passed before the call was sent"), false);
        as_worker_out_settle(w, o);
    }
}

/* --- the program's side --- */

void as_worker_out_cancel(struct as_worker_out *o)
{
    struct as_worker *w = o->w;

    if (w->forked)
        return;
    pthread_mutex_lock(&w->mu);
    as_worker_out_abandon(w, o, AS_STATUS_CANCELLED, AS_STR("cancelled"));
    as_worker_out_send(w);
    pthread_mutex_unlock(&w->mu);
}

void as_worker_out_free(struct as_worker_out *o)
{
    struct as_worker *w = o ? o->w : NULL;

    if (!w || w->forked)
        return;
    pthread_mutex_lock(&w->mu);
    o->held = false;
    as_worker_forget_news(w, o);
    as_worker_out_abandon(w, o, AS_STATUS_CANCELLED, AS_STR("cancelled"));
    as_worker_out_settle(w, o);
    as_worker_out_send(w);
    pthread_mutex_unlock(&w->mu);
}

void as_worker_out_detach(struct as_worker_out *o)
{
    struct as_worker *w = o->w;

    if (w->forked)
        return;
    pthread_mutex_lock(&w->mu);
    o->held = false;
    as_worker_forget_news(w, o);
    if (o->slot) /* nobody will use it */
        as_worker_out_abandon(w, o, AS_STATUS_CANCELLED, AS_STR("cancelled"));
    as_worker_out_detached(w, o);
    as_worker_out_settle(w, o);
    as_worker_out_send(w);
    pthread_mutex_unlock(&w->mu);
}

void *as_worker_out_data(const struct as_worker_out *o)
{
    return o->data;
}

struct as_worker *as_worker_out_worker(const struct as_worker_out *o)
{
    return o->w;
}
