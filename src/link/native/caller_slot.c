/* Calls that reserve a slot first. The OPEN with RESERVE waits in the fleet as any call; then a
 * second OPEN on its stream says what is to be executed in the slot. The reservation may have ended
 * meanwhile, so that frames of the caller cross its ERROR: these are dropped. */
#include "base/err.h"
#include "link/native/caller.h"
#include "link/native/link.h"

void as_caller_on_reserved(struct as_call *call, struct as_str replica)
{
    struct as_caller_call *c = AS_CONTAINER(call, struct as_caller_call, call);
    struct as_link *l = c->link;

    c->slot = AS_CALLER_SLOT_HELD;
    if (!l) /* it is being cancelled */
        return;
    as_frame_put_reserved(&l->out, c->number, replica);
    as_link_schedule_flush(l);
}

/* The bytes of the first OPEN are not needed any more. */
static void drop_first(struct as_caller_call *c)
{
    as_blob_unref(c->blob);
    c->blob = NULL;
    c->body_len = c->received = 0;
    if (c->charged)
        as_account_uncharge(c->owner->requests, c->charged);
    c->charged = 0;
    c->call.payload = (struct as_payload){.kind = AS_FRAME_CALL};
}

void as_caller_use_slot(struct as_caller_call *c)
{
    struct as_fleet_client *client = &c->link->up.fleet->callers;

    c->slot = AS_CALLER_SLOT_NONE; /* from now on it is as any other */
    as_fleet_client_use_slot(client, &c->call);
}

/* The call is made in the context of the reservation: it has its parent, priority and place. */
static void fill(struct as_link *l, struct as_caller_call *c, const struct as_frame_call *m)
{
    const struct as_call *parent = c->parent ? as_link_find_call(l, c->parent) : NULL;
    as_ns now = as_loop_now(l->up.fleet->loop);
    struct as_request *q = &c->call.core;

    c->slot = AS_CALLER_SLOT_FILLED;
    as_caller_change_cost(c, m->cost);
    if (m->timeout && m->timeout < AS_NEVER - now)
        q->deadline_then = AS_MIN(q->deadline_then, now + m->timeout);
    as_caller_set_payload(c, m, parent);
}

void as_caller_on_use(struct as_link *l, const struct as_frame *f)
{
    struct as_caller_call *c = as_caller_find(l, f->stream);
    struct as_frame_call m;
    const char *why;
    int err = 0;

    if (!l->caller || f->stream >= l->caller->next_stream) {
        as_link_protocol_error(l, "OPEN in a slot of a stream that is not open");
        return;
    }
    if (!c)
        return;
    if (c->slot != AS_CALLER_SLOT_HELD) {
        as_link_protocol_error(l, "OPEN in a slot that was not reserved");
        return;
    }
    drop_first(c);
    why = as_caller_decode_open(c, f, &m, &err);
    if (!why && !err)
        why = as_caller_check_open(l, f, &m);
    if (!why && !err && m.target != c->target)
        why = "OPEN in a slot of another target";
    if (!why && !err)
        fill(l, c, &m);
    if (!why && !err && m.body)
        why = as_caller_set_body(c, m.body, m.body_len);
    if (why)
        as_link_protocol_error(l, why);
    else if (err)
        as_caller_fail_for_room(c, err, f->n);
    else if (m.body)
        as_caller_use_slot(c);
    else
        as_caller_begin_large(l, c, &m);
}
