/* Two links at a time: the server is upgraded, and another dispatcher takes over from the one that
 * is there.
 *
 * MOVE says so. The runner connects once more, since the page's lock must be its own, and does not
 * wait for the answer: the greeting goes on with what is read. Both links are served from then on,
 * each with all its slots; what executes is bounded by the slots in sum, and the former one's
 * requests are started first. The former link ends when its dispatcher does. If the second one
 * cannot be made the former one is as before, and after its end the worker connects as always.
 */
#include "link/worker/worker_internal.h"

static struct as_worker_link *free_link(struct as_worker *w)
{
    AS_WORKER_LINKS(w, l)
    {
        if (l != w->l && l->sock < 0)
            return l;
    }
    return NULL;
}

void as_worker_handover_start(struct as_worker *w)
{
    struct as_worker_link *former = w->l, *l = free_link(w);

    atomic_store(&w->moving, false);
    if (!l || former->state != AS_WORKER_LIVE || w->draining)
        return;
    w->l = l;
    l->beside = true;
    if (as_worker_open_link(w, l) == 0) {
        as_worker_arm_guard(w);
        return;
    }
    as_worker_close_link(w, l, "cannot connect to the other dispatcher");
    l->beside = false; /* there may have been no socket */
    w->l = former;
}

void as_worker_handover_step(struct as_worker *w, struct as_worker_link *l)
{
    if (!l->beside || l->state != AS_WORKER_GREETING)
        return;
    if (l->refused) {
        as_worker_close_link(w, l, "the other dispatcher refused a model");
        return;
    }
    if (l->greeted && l->n_registered == w->n_models) {
        l->beside = false;
        as_worker_go_live(w, l);
    }
}
