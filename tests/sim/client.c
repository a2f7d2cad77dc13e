/* The clients: calls come, and some leave. */
#include "sim.h"

/* May core's answer to a submit differ from the expected one? A call like one that ended a worker
 * may be refused, or wait for a replica of its own; mirrored copies are refused then. */
static bool may_differ(struct sim *s, struct call *c, int want, int got, bool was_full)
{
    bool prefers = may_prefer(s) && got == AS_EFULL;

    if (!may_be_suspect(s) && !prefers)
        return false;
    if (!want)
        note_refused(s, c);
    s->expected.quarantined += got == AS_EPOISON;
    if (got == AS_EPOISON)
        return may_be_refused(s, c);
    return got == AS_EFULL && (was_full || c->q.is_mirror);
}

void client_submit(struct sim *s, uint32_t n)
{
    struct call *c = &s->calls[n];
    int want, got;
    bool is_full =
        s->scenario.max_queued >= 0 &&
        (s->scenario.n_tenants ||
         as_deployment_queued(s->d) + as_deployment_prefetched(s->d) >= s->scenario.max_queued);

    trace(s, "call %u comes, model %u, priority %u, tenant %llu%s", n, c->q.model, c->q.priority,
          (unsigned long long)c->q.tenant, c->reserves ? ", reserves" : "");
    s->reserves = s->reserves || c->reserves;
    want = expect_submit(s, c);
    if (!want)
        note_accepted(s, c);
    s->submitting = c;
    s->hedged_before = false;
    got = as_deployment_submit(s->d, &c->q, s->now);
    s->submitting = NULL;
    if (got != want && may_differ(s, c, want, got, is_full))
        want = got;
    if (c->q.is_mirror) {
        s->expected.mirrored += want != AS_EFULL;
        s->expected.mirror_dropped += want == AS_EFULL;
    } else {
        s->expected.refused += want == AS_EFULL;
    }
    if (want == AS_EDEADLINE) { /* counted like one that expires later */
        s->expected.accepted++;
        s->expected.expired++;
    }
    if (got != want)
        fail(s, "submit of call %u returned %s instead of %s", n, as_err_name(got),
             as_err_name(want));
    if (!got && s->hedged_before)
        fail(s, "another call is hedged, and call %u waits", n);
    if (got && c->q.state != AS_REQ_DONE)
        fail(s, "call %u is refused and not DONE", n);
}

void client_leave(struct sim *s, uint32_t n)
{
    struct call *c = &s->calls[n];

    if (c->second && !c->second->released && !c->second->answered && !c->second->cancelled &&
        (c->answered || c->cancelled))
        c = c->second; /* its client waits for that one alone */
    if (!c->accepted || c->released)
        return;
    trace(s, "client of call %u leaves", n);
    if (!c->answered && !c->cancelled) {
        c->cancelled = true;
        s->expected.cancelled++;
        if (c->twin) {
            c->twin->cancelled = true;
            c->twin = c->twin->twin = NULL;
        }
    }
    as_deployment_cancel(s->d, &c->q, s->now);
}
