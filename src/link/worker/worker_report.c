/* TARGET and REPORT: what the server is told besides models, over each link. */
#include "link/worker/worker_internal.h"

#include <string.h>

#define TARGETS_FIRST 16u

/* --- targets --- */

static bool is_new_target(const struct as_worker *w, struct as_str application,
                          struct as_str deployment, uint32_t *ret_number)
{
    for (uint32_t i = 0; i < w->n_targets; i++) {
        if (as_str_eq(w->targets[i].deployment, deployment) &&
            as_str_eq(w->targets[i].application, application)) {
            *ret_number = i;
            return false;
        }
    }
    return true;
}

/* With the lock held. 0, AS_EINVALID or AS_EFULL. */
static int add_target(struct as_worker *w, const struct as_frame_target *t)
{
    struct as_outq probe;
    int err;

    if (w->n_targets == AS_WORKER_TARGETS)
        return AS_EFULL;
    as_outq_init(&probe);
    err = as_frame_put_target(&probe, t);
    as_outq_fini(&probe);
    if (err)
        return AS_EINVALID;
    if (w->n_targets == w->cap_targets) {
        w->cap_targets = w->cap_targets ? 2 * w->cap_targets : TARGETS_FIRST;
        w->targets = as_xrealloc(w->targets, w->cap_targets * sizeof(*w->targets));
    }
    w->targets[w->n_targets] =
        (struct as_frame_target){.number = w->n_targets,
                                 .application = as_arena_xdup(&w->arena, t->application),
                                 .deployment = as_arena_xdup(&w->arena, t->deployment)};
    AS_WORKER_LINKS(w, l)
    {
        if (l->state == AS_WORKER_LIVE && l->calls.known)
            (void)as_frame_put_target(&l->out, &w->targets[w->n_targets]);
    }
    w->n_targets++;
    return 0;
}

int as_worker_target(struct as_worker *w, const char *application, const char *deployment,
                     uint32_t *ret_number)
{
    struct as_frame_target t = {
        .application = as_str_of(application && application[0] ? application : "default"),
        .deployment = as_str_of(deployment)};
    int err = 0;

    pthread_mutex_lock(&w->mu);
    if (is_new_target(w, t.application, t.deployment, &t.number)) {
        t.number = w->n_targets;
        err = add_target(w, &t);
    }
    pthread_mutex_unlock(&w->mu);
    if (!err)
        *ret_number = t.number;
    return err;
}

/* --- reports --- */

static void put_report(struct as_worker_link *l, uint32_t kind, const struct as_blob *text,
                       size_t n)
{
    struct as_frame_report r = {kind, {(const char *)text->data, n}};

    as_frame_put_report(&l->out, &r);
}

int as_worker_report(struct as_worker *w, enum as_worker_report kind, struct as_str text)
{
    struct as_blob *b;

    if (kind < AS_WORKER_REPORT_METRICS || kind >= AS_WORKER_REPORT_END ||
        (w->conf.flags & AS_WORKER_DRIVER))
        return AS_EINVALID;
    if (text.n > AS_WORKER_REPORT_BYTES)
        return AS_ETOOBIG;
    b = as_blob_new(text.n ? text.n : 1);
    if (!b)
        return AS_ENOMEM;
    if (text.n)
        memcpy(b->data, text.p, text.n);
    pthread_mutex_lock(&w->mu);
    as_blob_unref(w->reports[kind].text);
    w->reports[kind].text = b;
    w->reports[kind].n = text.n;
    AS_WORKER_LINKS(w, l)
    {
        if (l->state == AS_WORKER_LIVE && l->calls.known)
            put_report(l, kind, b, text.n);
    }
    as_worker_send(w);
    pthread_mutex_unlock(&w->mu);
    return 0;
}

void as_worker_send_targets(struct as_worker *w, struct as_worker_link *l)
{
    if (!l->calls.known)
        return;
    for (uint32_t i = 0; i < w->n_targets; i++)
        (void)as_frame_put_target(&l->out, &w->targets[i]);
    for (uint32_t i = 0; i < AS_WORKER_REPORT_END; i++) {
        if (w->reports[i].text)
            put_report(l, i, w->reports[i].text, w->reports[i].n);
    }
}

void as_worker_reports_free(struct as_worker *w)
{
    for (uint32_t i = 0; i < AS_WORKER_REPORT_END; i++)
        as_blob_unref(w->reports[i].text);
    free(w->targets);
}
