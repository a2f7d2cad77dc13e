/* Two links at a time, while another dispatcher takes over (an upgrade of the server).
 *
 * The dispatcher sends MOVE. The runner then opens a second link, since the runner's thread must
 * own the lock of its page, and does not wait: the greeting continues as frames arrive. From then
 * on both links are served. Each has all slots; together they execute as many requests as there are
 * slots, those of the older link first. The older link ends when its dispatcher does. If the second
 * link fails, the older one stays as it was, and when it ends the worker connects again as usual.
 */
#include "link/worker/worker_internal.h"

static struct as_worker_link *free_link(struct as_worker *w)
{
    AS_WORKER_LINKS(w, l)
    {
        if (l != w->newest && !as_transport_is_open(l->transport))
            return l;
    }
    return NULL;
}

void as_worker_handover_start(struct as_worker *w)
{
    struct as_worker_link *former = w->newest, *l = free_link(w);

    atomic_store(&w->handover_requested, false);
    if (!l || former->state != AS_WORKER_LIVE || w->draining)
        return;
    w->newest = l;
    l->is_second = true;
    if (as_worker_open_link(w, l) == 0) {
        as_worker_arm_guard(w);
        return;
    }
    as_worker_close_link(w, l, "cannot connect to the other dispatcher");
    l->is_second = false; /* without a socket, close_link changes nothing */
    w->newest = former;
}

bool as_worker_is_greeted(const struct as_worker *w, const struct as_worker_link *l)
{
    return l->greeted && l->n_registered == w->n_models &&
           (!as_worker_is_driver(w) || l->calls.granted);
}

/* Further calls go over the new link: the former dispatcher may end when it has answered. */
static void leave_former(struct as_worker *w, const struct as_worker_link *l)
{
    AS_WORKER_LINKS(w, former)
    {
        if (former != l && former->state == AS_WORKER_LIVE)
            as_frame_put_text(&former->out, AS_FRAME_DRAIN, (struct as_str){0});
    }
    as_worker_send(w);
}

void as_worker_handover_step(struct as_worker *w, struct as_worker_link *l)
{
    if (!l->is_second || l->state != AS_WORKER_GREETING)
        return;
    if (l->refusal) {
        as_worker_close_link(w, l, "the other dispatcher refused a model");
        return;
    }
    if (as_worker_is_greeted(w, l)) {
        l->is_second = false;
        as_worker_go_live(w, l);
        if (as_worker_is_driver(w))
            leave_former(w, l);
    }
}
