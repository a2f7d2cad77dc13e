/* The frames of a caller: TARGET, OPEN with its body, CREDIT and CANCEL. */
#include "base/err.h"
#include "base/memory/slab.h"
#include "link/native/caller.h"
#include "link/native/link.h"
#include "wire/frame/body.h"

#include <stdio.h>
#include <string.h>

#define WHY_MAX 256

static struct as_account *new_account(struct as_budget *b)
{
    struct as_account *a = as_account_new(b);

    AS_ASSERT(a); /* as as_xalloc does */
    return a;
}

static struct as_caller *get_caller(struct as_link *l)
{
    if (!l->caller) {
        l->caller = as_xalloc(sizeof(*l->caller));
        l->caller->next_stream = 2;
        l->caller->owner = as_xalloc(sizeof(*l->caller->owner));
        l->caller->owner->refs = 1;
        if (l->up.fleet->call_requests)
            l->caller->owner->requests = new_account(l->up.fleet->call_requests);
        if (l->up.fleet->call_answers)
            l->caller->owner->answers = new_account(l->up.fleet->call_answers);
    }
    return l->caller;
}

void as_caller_on_target(struct as_link *l, const struct as_frame *f)
{
    struct as_caller *k = get_caller(l);
    struct as_caller_target *t;
    struct as_frame_target in;

    if (as_frame_get_target(f, &in)) {
        as_link_protocol_error(l, "malformed TARGET");
        return;
    }
    if (in.number >= k->n_targets) {
        uint32_t n = AS_MAX(in.number + 1, 2 * k->n_targets);

        k->targets = as_xrealloc(k->targets, n * sizeof(*k->targets));
        memset(k->targets + k->n_targets, 0, (n - k->n_targets) * sizeof(*k->targets));
        k->n_targets = n;
    }
    t = &k->targets[in.number];
    // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): new targets are zero
    free(t->id);
    t->id = as_str_format("%.*s#%.*s", AS_STR_FMT(in.application), AS_STR_FMT(in.deployment));
    t->number = t->model = UINT32_MAX; /* no deployment has this number */
}

/* --- OPEN --- */

static struct as_caller_call *new_call(struct as_caller_owner *owner)
{
    struct as_caller_call *c = as_slab_get(sizeof(*c));

    if (!c)
        return NULL;
    memset(c, 0, offsetof(struct as_caller_call, first));
    as_arena_init(&c->arena, c->first, sizeof(c->first));
    c->owner = owner;
    owner->refs++;
    return c;
}

/* Room for the bytes of an OPEN. NULL: *ret_err. */
static uint8_t *open_room(struct as_caller_call *c, size_t n, int *ret_err)
{
    struct as_account *a = c->owner->requests;
    uint8_t *p;

    if (n > AS_COPY_MAX) {
        *ret_err = as_blob_new_charged(a, n, &c->blob);
        return *ret_err ? NULL : c->blob->data;
    }
    if (a && !as_account_try_charge(a, n)) {
        *ret_err = AS_EFULL;
        return NULL;
    }
    c->charged = a ? n : 0;
    p = as_arena_alloc(&c->arena, n, 8);
    *ret_err = p ? 0 : AS_ENOMEM;
    return p;
}

const char *as_caller_decode_open(struct as_caller_call *c, const struct as_frame *f,
                                  struct as_frame_call *ret_m, int *ret_err)
{
    struct as_frame copy = *f;
    const char *why = NULL;
    uint8_t *p = open_room(c, f->n, ret_err);

    if (!p) {
        AS_ASSERT(*ret_err);
        return NULL;
    }
    memcpy(p, f->p, f->n);
    copy.p = p;
    *ret_err = as_frame_get_call(&copy, &c->arena, ret_m, &why);
    if (*ret_err == AS_EPROTO)
        return why;
    return NULL;
}

static struct as_str copy_str(struct as_caller_call *c, struct as_str s)
{
    const char *p = as_arena_dup(&c->arena, s);

    return (struct as_str){p, p ? s.n : 0};
}

static bool fits(const struct as_msg *m)
{
    const struct as_frame_call c = {
        .id = m->id, .meta = m->meta, .n_meta = m->n_meta, .body_len = AS_BODY_FIXED};

    return as_frame_call_cost(&c, NULL) != UINT64_MAX;
}

static void inherit_id(struct as_caller_call *c, struct as_str id)
{
    struct as_msg *msg = &c->call.payload.msg, with = *msg;

    with.id = id;
    if (!msg->id.n && id.n && fits(&with))
        msg->id = copy_str(c, id);
}

/* Headers of a request; of one of HTTP its fields. */
static uint32_t headers_of(const struct as_payload *p, const struct as_meta **ret_meta)
{
    bool is_http = p->kind == AS_FRAME_HTTP;

    *ret_meta = is_http ? p->http->meta : p->msg.meta;
    return is_http ? p->http->n_meta : p->msg.n_meta;
}

/* Headers of the parent that the call lacks, so that it belongs to the same trace. It is sent
 * without them if there is no room for them. */
static void inherit_meta(struct as_caller_call *c, const struct as_payload *parent)
{
    static const char *const inherited[] = {"traceparent", "tracestate"};
    struct as_msg *msg = &c->call.payload.msg, own = *msg;
    const struct as_meta *from;
    uint32_t n = headers_of(parent, &from);
    struct as_meta *meta;

    if (!n || msg->n_meta + AS_COUNT(inherited) > AS_FRAME_PARAMS)
        return;
    meta = as_arena_alloc(&c->arena, (msg->n_meta + AS_COUNT(inherited)) * sizeof(*meta), 8);
    if (!meta)
        return;
    if (msg->n_meta)
        memcpy(meta, msg->meta, msg->n_meta * sizeof(*meta));
    for (uint32_t i = 0; i < n; i++) {
        const struct as_meta *m = &from[i];
        bool has = false, wanted = false;

        for (size_t k = 0; k < AS_COUNT(inherited); k++)
            wanted = wanted || as_str_eq(m->key, as_str_of(inherited[k]));
        for (uint32_t k = 0; wanted && k < msg->n_meta; k++)
            has = has || as_str_eq(meta[k].key, m->key);
        if (wanted && !has)
            meta[msg->n_meta++] = *m;
    }
    msg->meta = meta;
    if (!fits(msg))
        *msg = own;
    for (uint32_t k = own.n_meta; k < msg->n_meta; k++)
        meta[k] = (struct as_meta){copy_str(c, meta[k].key), copy_str(c, meta[k].value)};
}

/* What the caller says of the call's place in the queue. */
static void read_urgency(const struct as_fleet *f, const struct as_frame_call *m,
                         struct as_request *q)
{
    for (uint32_t i = 0; i < m->n_meta; i++) {
        struct as_str v = m->meta[i].value;

        if (as_str_eq(m->meta[i].key, AS_STR("anyserve-tenant")))
            q->tenant = as_fleet_tenant_key(f, v);
        else if (as_str_eq(m->meta[i].key, AS_STR("anyserve-priority")) && v.n == 1 &&
                 v.p[0] >= '1' && v.p[0] < '1' + (char)AS_PRIORITIES)
            q->priority = (uint8_t)(v.p[0] - '1');
    }
}

/* What the call has of the request in whose context it is made. */
static void inherit(struct as_caller_call *c, const struct as_call *parent)
{
    struct as_request *q = &c->call.core;

    q->root = parent->core.root;
    q->priority = parent->core.priority;
    q->tenant = parent->core.tenant;
    q->deadline = AS_MIN(q->deadline, parent->core.deadline);
    q->idempotent = parent->core.idempotent; /* if the parent runs again, so do its calls */
    c->call.depth = parent->depth + 1;
}

void as_caller_set_payload(struct as_caller_call *c, const struct as_frame_call *m,
                           const struct as_call *parent)
{
    c->call.payload =
        (struct as_payload){.kind = AS_FRAME_CALL,
                            .call_flags = m->flags & AS_CALL_F_STREAM,
                            .body = {(const char *)m->body, m->body ? (size_t)m->body_len : 0},
                            .msg = {.id = m->id, .meta = m->meta, .n_meta = m->n_meta},
                            .blob = m->body && m->body_len > AS_COPY_MAX ? c->blob : NULL};
    if (m->flags & AS_CALL_F_STREAM) {
        c->stream.on_part = as_caller_on_part;
        c->stream.passes_credit = true;
        c->call.stream = &c->stream;
    }
    if (!parent)
        return;
    inherit_id(c, parent->payload.msg.id);
    inherit_meta(c, &parent->payload);
}

static void fill_call(struct as_link *l, struct as_caller_call *c, const struct as_frame_call *m)
{
    const struct as_call *parent = c->parent ? as_link_find_call(l, c->parent) : NULL;
    as_ns now = as_loop_now(l->up.fleet->loop);
    struct as_call *call = &c->call;

    as_request_init(&call->core);
    call->core.priority = m->priority;
    if (m->timeout && m->timeout < AS_NEVER - now)
        call->core.deadline = now + m->timeout;
    call->owner = &c->owner->calls;
    call->payer = c->owner->answers;
    call->caller = l->up.deploy ? l->up.deploy->number : AS_CALL_NO_CALLER;
    call->arena = &c->arena;
    call->on_answer = as_caller_on_answer;
    call->on_release = as_caller_on_release;
    c->to_every = m->flags & AS_CALL_F_EVERY;
    if (m->flags & AS_CALL_F_RESERVE) {
        c->slot = AS_CALLER_SLOT_WANTED;
        call->core.reservation = AS_RESERVATION_WANTED;
        call->on_reserved = as_caller_on_reserved;
    }
    as_caller_set_payload(c, m, parent);
    if (parent)
        inherit(c, parent);
    read_urgency(l->up.fleet, m, &call->core);
}

const char *as_caller_check_open(const struct as_link *l, const struct as_frame *f,
                                 const struct as_frame_call *m)
{
    const uint32_t slot = m->flags & (AS_CALL_F_RESERVE | AS_CALL_F_USE);

    if (m->body && !(f->flags & AS_FRAME_F_END))
        return "OPEN without END: further messages of a call are reserved";
    if (m->target >= l->caller->n_targets || !l->caller->targets[m->target].id)
        return "OPEN of a target that no TARGET names";
    if (m->flags & AS_CALL_F_EVERY && !(m->flags & AS_CALL_F_STREAM))
        return "OPEN to every replica without STREAM";
    if (slot && (!(l->capabilities & AS_CAP_RESERVE) || m->flags & AS_CALL_F_EVERY ||
                 slot == (AS_CALL_F_RESERVE | AS_CALL_F_USE) ||
                 (slot == AS_CALL_F_RESERVE && m->flags & AS_CALL_F_STREAM)))
        return "OPEN with a reservation that is not as it must be";
    if (m->flags & (AS_CALL_F_BEYOND | AS_CALL_F_INPUTS) || m->priority >= AS_PRIORITIES)
        return "OPEN with flags or a priority that a caller may not set";
    if (m->parent >= l->next_stream)
        return "OPEN whose parent was never sent";
    return NULL;
}

/* Only who has a token that we have issued to a process, or is a driver. */
static bool may_call(const struct as_link *l)
{
    if (l->up.process || l->is_driver)
        return true;
    as_fleet_refuse_payload(l->up.fleet, AS_FLEET_REFUSED_CALL, l->up.name, l->pid);
    return false;
}

const char *as_caller_set_body(struct as_caller_call *c, const uint8_t *p, uint64_t n)
{
    const char *why = NULL;

    if (as_body_check(p, n, false, &why))
        return why;
    c->call.payload.body = (struct as_str){(const char *)p, (size_t)n};
    return NULL;
}

/* Answers an OPEN that is no call of the table. */
static void refuse_open(struct as_link *l, uint64_t stream, int err, const char *text)
{
    struct as_frame_error e = {.code = as_err_grpc(err),
                               .message = as_str_of(text ? text : as_err_text(err))};
    size_t had = l->out.bytes;

    as_frame_put_error(&l->out, stream, &e);
    as_link_count_reply(l, had);
    as_link_schedule_flush(l);
}

/* Why there is no room for a call of n bytes; `err` becomes AS_ETOOBIG if there never is. */
static const char *describe_lack(const struct as_caller_owner *o, uint64_t n, int *err,
                                 char why[WHY_MAX])
{
    const struct as_budget *b = o->requests ? o->requests->budget : NULL;

    if (*err != AS_EFULL || !b)
        return as_err_text(*err);
    if (n > as_budget_account_limit(b)) {
        *err = AS_ETOOBIG;
        snprintf(why, WHY_MAX,
                 "a call of %lu bytes is over what one process may hold (--connection-share %u "
                 "percent of --max-inflight-bytes %lu)",
                 (unsigned long)n, b->share, (unsigned long)b->limit);
    } else {
        snprintf(why, WHY_MAX,
                 "a call of %lu bytes does not fit into --max-inflight-bytes %lu now, of which the "
                 "calls of this process hold %lu (--connection-share %u)",
                 (unsigned long)n, (unsigned long)b->limit,
                 (unsigned long)as_account_charged(o->requests), b->share);
    }
    return why;
}

void as_caller_fail_for_room(struct as_caller_call *c, int err, uint64_t n)
{
    struct as_fleet_client *client = &c->link->up.fleet->callers;
    char text[WHY_MAX];
    const char *why = describe_lack(c->owner, n, &err, text);

    as_caller_fail(c, err, as_str_of(why));
    if (c->submitted) /* it has a slot */
        as_fleet_client_cancel(client, &c->call);
    else
        as_caller_free(c);
}

void as_caller_begin_large(struct as_link *l, struct as_caller_call *c,
                           const struct as_frame_call *m)
{
    const struct as_account *a = c->owner->requests;
    int err = m->body_len > l->up.fleet->conf.max_message ? AS_ETOOBIG : 0;

    c->body_len = m->body_len;
    if (!err && a && m->body_len > as_budget_account_limit(a->budget))
        err = AS_EFULL;
    if (!err)
        err = as_blob_new_growing(c->owner->requests, (size_t)m->body_len, &c->blob);
    if (err)
        as_caller_fail_for_room(c, err, c->body_len);
}

/* NULL, or why the caller must read answers before its calls are executed. */
static const char *check_answer_room(const struct as_caller_owner *o, char why[WHY_MAX])
{
    const struct as_budget *b = o->answers ? o->answers->budget : NULL;

    if (!b || __builtin_expect(!as_account_charged(o->answers) && as_budget_free(b), 1) ||
        as_account_has_room(o->answers, 1))
        return NULL;
    snprintf(why, WHY_MAX,
             "no room for an answer: %lu of --max-answer-bytes %lu wait for clients, %lu of them "
             "for this process (--connection-share %u)",
             (unsigned long)as_budget_used(b), (unsigned long)b->limit,
             (unsigned long)as_account_charged(o->answers), b->share);
    return why;
}

static void on_open(struct as_link *l, const struct as_frame *f)
{
    struct as_caller *k = get_caller(l);
    struct as_caller_call *c;
    const char *why = NULL, *lack;
    char text[WHY_MAX];
    struct as_frame_call m;
    int err = AS_ENOMEM;

    if (f->stream != k->next_stream) {
        as_link_protocol_error(l, "OPEN that is not the next even stream");
        return;
    }
    k->next_stream += 2;
    c = new_call(k->owner);
    if (c)
        why = as_caller_decode_open(c, f, &m, &err);
    if (!why && !err)
        why = as_caller_check_open(l, f, &m);
    if (!why && !err && m.body)
        why = as_caller_set_body(c, m.body, m.body_len);
    if (why || err) {
        if (c)
            as_caller_free(c);
        lack = why ? NULL : describe_lack(k->owner, f->n, &err, text);
        if (why)
            as_link_protocol_error(l, why);
        else
            refuse_open(l, f->stream, err, lack);
        return;
    }
    if (!may_call(l)) {
        as_caller_free(c);
        refuse_open(l, f->stream, AS_EDENIED, "a worker with the join token may not call");
        return;
    }
    lack = k->n_calls == AS_CALLER_CALLS_MAX ? "too many calls of this process are open"
                                             : check_answer_room(k->owner, text);
    if (lack) {
        as_caller_free(c);
        refuse_open(l, f->stream, AS_EFULL, lack);
        return;
    }
    c->number = f->stream;
    /* a parent that has ended: a call of its own */
    c->parent = m.parent && as_link_find_call(l, m.parent) ? m.parent : 0;
    c->target = m.target;
    c->cost = m.cost;
    if (!as_caller_add(l, c)) {
        as_caller_free(c);
        as_link_protocol_error(l, "more calls are open than CREDIT allows");
        return;
    }
    fill_call(l, c, &m);
    if (m.body)
        as_caller_submit(c);
    else
        as_caller_begin_large(l, c, &m);
}

/* --- a body in DATA frames --- */

const char *as_caller_begin_body(struct as_link *l, const struct as_frame *f)
{
    struct as_caller_call *c = as_caller_find(l, f->stream);
    size_t need;
    int err = 0;

    if (!l->caller || f->stream >= l->caller->next_stream)
        return "DATA on a stream that is not open";
    l->rx.sink_stream = f->stream;
    l->rx.sink_end = f->flags & AS_FRAME_F_END;
    if (!c) /* it was refused or cancelled, and its body was on the way */
        return NULL;
    if ((c->submitted && c->slot != AS_CALLER_SLOT_FILLED) || c->every || !c->blob ||
        f->n > c->body_len - c->received)
        return "more DATA than the message announced";
    need = (size_t)(c->received + f->n);
    if (need > as_blob_grow_at(c->blob, (size_t)c->body_len))
        err = as_blob_grow(&c->blob, as_blob_grow_to(need, (size_t)c->body_len));
    if (err) {
        as_caller_fail_for_room(c, err, c->body_len);
        return NULL;
    }
    l->rx.reader.sink = c->blob->data + c->received;
    c->received = need;
    return NULL;
}

void as_caller_on_body(struct as_link *l)
{
    struct as_caller_call *c = as_caller_find(l, l->rx.sink_stream);
    const char *why;

    if (!c || !l->rx.sink_end) {
        if (c && c->received == c->body_len)
            as_link_protocol_error(l, "a body without END");
        return;
    }
    why = c->received == c->body_len ? as_caller_set_body(c, c->blob->data, c->body_len)
                                     : "END before the body was complete";
    if (why) {
        as_link_protocol_error(l, why);
        return;
    }
    c->call.payload.blob = c->blob;
    if (c->submitted)
        as_caller_use_slot(c);
    else
        as_caller_submit(c);
}

/* --- CREDIT and CANCEL --- */

static void on_credit(struct as_link *l, struct as_caller_call *c, const struct as_frame *f)
{
    struct as_frame_credit credit;

    if (!c->call.stream || as_frame_get_credit(f, &credit) ||
        as_frame_window_add(&c->credit, &credit))
        as_link_protocol_error(l, "malformed CREDIT of a call");
    else if (c->every)
        as_caller_every_credited(c);
    else if (c->submitted && c->slot != AS_CALLER_SLOT_FILLED)
        as_fleet_client_credit(&l->up.fleet->callers, &c->call, credit.messages, credit.bytes);
    else
        c->stream.passed = c->credit;
}

static void on_cancel(struct as_link *l, struct as_caller_call *c, const struct as_frame *f)
{
    bool submitted = c->submitted;
    uint32_t reason;

    if (as_frame_get_cancel(f, &reason)) {
        as_link_protocol_error(l, "malformed CANCEL");
        return;
    }
    as_caller_fail(c, reason == AS_STATUS_DEADLINE_EXCEEDED ? AS_EDEADLINE : AS_ECANCELLED,
                   AS_STR(""));
    if (c->every)
        as_caller_every_cancel(c);
    else if (submitted)
        as_fleet_client_cancel(&l->up.fleet->callers, &c->call);
    else
        as_caller_free(c);
}

void as_caller_on_frame(struct as_link *l, const struct as_frame *f)
{
    struct as_caller_call *c;

    if (f->type == AS_FRAME_OPEN) {
        if (as_frame_call_uses_slot(f))
            as_caller_on_use(l, f);
        else
            on_open(l, f);
        return;
    }
    if (f->type != AS_FRAME_CREDIT && f->type != AS_FRAME_CANCEL) {
        as_link_protocol_error(l, "frame that a caller may not send");
        return;
    }
    if (!l->caller || f->stream >= l->caller->next_stream) {
        as_link_protocol_error(l, "frame on a stream that is not open");
        return;
    }
    c = as_caller_find(l, f->stream);
    if (!c) /* it has ended: the frames crossed */
        return;
    if (f->type == AS_FRAME_CREDIT)
        on_credit(l, c, f);
    else
        on_cancel(l, c, f);
}
