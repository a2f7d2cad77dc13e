/* Calls of a link on their way to the fleet, and their answers. */
#include "base/err.h"
#include "link/native/caller.h"
#include "link/native/link.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 512

/* --- to the fleet --- */

/* Finds the deployment anew if the one that was found last is gone. NULL: there is none, or it has
 * no target of calls. */
static const struct as_fleet_model *resolve(struct as_fleet *f, struct as_caller_target *t,
                                            struct as_fleet_deployment **ret_d)
{
    struct as_fleet_deployment *d =
        t->number == UINT32_MAX ? NULL : as_fleet_deployment_by_number(f, t->number);
    const struct as_fleet_model *m = d ? as_fleet_find_model(d, t->model) : NULL;

    if (!m || m->gone || !m->opaque || d->deleted) {
        d = as_fleet_find_deployment(f, as_str_of(t->id));
        m = d && !d->deleted ? as_fleet_call_target(d) : NULL;
        t->number = m ? d->number : UINT32_MAX;
        t->model = m ? m->index : UINT32_MAX;
    }
    *ret_d = d;
    return m;
}

/* "Deployment(name='B', app='a')" of the id "a#B". */
static size_t describe(char *text, const char *id)
{
    const char *name = strchr(id, '#');
    int n = snprintf(text, TEXT_MAX, "Deployment(name='%s', app='%.*s')", name ? name + 1 : id,
                     name ? (int)(name - id) : 0, id);

    return (size_t)AS_MIN(n, TEXT_MAX - 1);
}

void as_caller_fail_described(struct as_caller_call *c, int err, const char *what)
{
    char text[TEXT_MAX];
    size_t n = describe(text, c->link->caller->targets[c->target].id);

    snprintf(text + n, sizeof(text) - n, "%s", what);
    as_caller_fail(c, err, as_str_of(text));
}

static void refuse_unknown(struct as_fleet *f, struct as_caller_call *c,
                           const struct as_fleet_deployment *d)
{
    bool pending = !as_fleet_flag(&f->accepting) ||
                   (d && as_fleet_flag(&d->expected) && !as_fleet_flag(&d->registered));

    if (d && !d->deleted && as_fleet_flag(&d->down))
        as_caller_fail_described(c, AS_EUNAVAILABLE,
                                 " is unavailable because it failed to deploy.");
    else if (pending)
        as_caller_fail_described(c, AS_EUNAVAILABLE,
                                 " is not known yet: its replicas are starting.");
    else
        as_caller_fail_described(c, AS_ENOTFOUND, " does not exist.");
    as_caller_free(c);
}

void as_caller_submit(struct as_caller_call *c)
{
    struct as_fleet *f = c->link->up.fleet;
    struct as_caller_target *t = &c->link->caller->targets[c->target];
    struct as_fleet_deployment *d;
    const struct as_fleet_model *m = resolve(f, t, &d);

    if (!m) {
        refuse_unknown(f, c, d);
        return;
    }
    if (c->to_every) {
        as_caller_submit_every(c, d, m);
        return;
    }
    c->call.deployment = d->number;
    c->call.core.model = m->index;
    c->call.core.idempotent = c->call.core.idempotent || m->idempotent;
    c->submitted = true;
    as_fleet_client_submit(&f->callers, &c->call);
}

/* --- back to the caller --- */

static void put_error(struct as_caller_call *c, uint32_t status, uint32_t flags, struct as_str text)
{
    struct as_frame_error e = {.code = status, .flags = flags, .message = text};
    struct as_link *l = c->link;

    as_frame_put_error(&l->out, c->number, &e);
    as_caller_detach(c);
    as_link_schedule_flush(l);
}

void as_caller_fail(struct as_caller_call *c, int err, struct as_str text)
{
    size_t had = c->link->out.bytes;
    struct as_link *l = c->link;

    put_error(c, as_err_grpc(err), 0, text.n ? text : as_str_of(as_err_text(err)));
    as_link_count_reply(l, had); /* the caller chooses how many of them there are */
}

/* Whether the callee's code has run, or may have. */
static bool may_have_run(const struct as_call *call)
{
    return call->outcome.err == AS_EMAYHAVERUN || call->outcome.err == AS_EHUNG ||
           (call->outcome.err == AS_EHANDLER && call->outcome.started);
}

static void send_outcome_error(struct as_caller_call *c)
{
    const struct as_outcome *o = &c->call.outcome;

    put_error(c, o->status ? o->status : as_err_grpc(o->err),
              may_have_run(&c->call) ? AS_ERROR_F_STARTED : 0,
              o->message.n ? o->message : as_str_of(as_err_text(o->err)));
}

static int put_answer(const struct as_caller_call *c, const struct as_payload *p, bool more)
{
    struct as_frame_call m = {
        .more = more, .body_len = p->body.n, .body = (const uint8_t *)p->body.p};

    return as_frame_put_call(&c->link->out, AS_FRAME_DATA, c->number, &m, NULL, p->blob);
}

void as_caller_on_answer(struct as_call *call)
{
    struct as_caller_call *c = AS_CONTAINER(call, struct as_caller_call, call);
    struct as_link *l = c->link;
    struct as_blob *blob = call->outcome.result.blob;
    int err;

    call->outcome.result.blob = NULL;
    if (!l) { /* the link has ended */
        as_blob_unref(blob);
        return;
    }
    if (call->outcome.err) {
        send_outcome_error(c);
    } else {
        if (call->stream) {
            as_frame_put_end(&l->out, c->number, 0);
        } else {
            err = put_answer(c, &call->outcome.result, false);
            AS_ASSERT(!err); /* it was checked when it came */
        }
        as_caller_detach(c);
        as_link_schedule_flush(l);
    }
    as_blob_unref(blob);
}

void as_caller_on_release(struct as_call *call)
{
    as_caller_free(AS_CONTAINER(call, struct as_caller_call, call));
}

void as_caller_on_part(struct as_call *call, struct as_part *p)
{
    struct as_caller_call *c = AS_CONTAINER(call, struct as_caller_call, call);
    struct as_link *l = c->link;
    int err;

    if (!l)
        return;
    if (p->dropped) {
        as_caller_fail(c, AS_EUNTAKEN, AS_STR(""));
        as_fleet_client_cancel(&l->up.fleet->callers, call);
        return;
    }
    as_frame_window_consume(&c->credit, p->cost);
    err = put_answer(c, &p->payload, true);
    AS_ASSERT(!err);
    as_link_schedule_flush(l);
}
