/* POLICY: records for a policy process, kept until the runner takes them, and its answers. */
#include "link/worker/worker_internal.h"
#include "wire/frame/frame_policy.h"

#include <string.h>

/* Records that were not taken. No option: a dispatcher that keeps to the protocol sends at most 4
 * MiB more than it was told are read, so only one that does not ends its link here. */
#define QUEUED_MAX ((size_t)16 << 20)

static_assert(AS_WORKER_POLICY_BYTES == AS_FRAME_MAX, "one frame");

struct as_worker_policy {
    struct as_list node;
    uint64_t link_number; /* of the link that it came by */
    size_t n;
    char bytes[];
};

/* --- receiving --- */

void as_worker_on_policy(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_worker_policy *p;

    if (!w->policy.takes)
        return;
    if (w->policy.bytes + f->n > QUEUED_MAX) {
        as_worker_close_link(w, l, "the dispatcher sent more POLICY records than were read");
        return;
    }
    p = malloc(sizeof(*p) + f->n);
    if (!p) {
        as_worker_close_link(w, l, "out of memory for POLICY records");
        return;
    }
    *p = (struct as_worker_policy){.link_number = l->number, .n = f->n};
    if (f->n)
        memcpy(p->bytes, f->p, f->n);
    as_list_push(&w->policy.queue, &p->node);
    w->policy.bytes += f->n;
    atomic_fetch_add_explicit(&w->policy.n, 1, memory_order_relaxed);
}

static void unlink_policy(struct as_worker *w, struct as_worker_policy *p)
{
    as_list_remove(&p->node);
    w->policy.bytes -= p->n;
    atomic_fetch_sub_explicit(&w->policy.n, 1, memory_order_relaxed);
}

void as_worker_drop_policy(struct as_worker *w, const struct as_worker_link *l)
{
    AS_LIST_EACH_ENTRY(p, struct as_worker_policy, node, &w->policy.queue) {
        if (l && p->link_number != l->number)
            continue;
        unlink_policy(w, p);
        free(p);
    }
}

struct as_worker_policy *as_worker_next_policy(struct as_worker *w)
{
    struct as_worker_policy *p = NULL;

    if (w->policy.takes && !atomic_load_explicit(&w->policy.n, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&w->mu);
    w->policy.takes = true;
    if (!as_list_empty(&w->policy.queue)) {
        p = AS_LIST_ENTRY(w->policy.queue.next, struct as_worker_policy, node);
        unlink_policy(w, p);
    }
    pthread_mutex_unlock(&w->mu);
    return p;
}

uint64_t as_worker_policy_origin(const struct as_worker_policy *p)
{
    return p->link_number;
}

struct as_str as_worker_policy_records(const struct as_worker_policy *p)
{
    return (struct as_str){p->bytes, p->n};
}

void as_worker_policy_free(struct as_worker_policy *p)
{
    free(p);
}

/* --- sending --- */

int as_worker_send_policy(struct as_worker *w, uint64_t origin, struct as_str records)
{
    bool sent = false;

    if (!records.n || records.n > AS_WORKER_POLICY_BYTES || records.n % 8)
        return AS_EINVALID;
    pthread_mutex_lock(&w->mu);
    w->policy.takes = true; /* the server may answer before the runner looks for it */
    if (!origin)
        as_buf_set(&w->policy.greeting, records);
    AS_WORKER_LINKS(w, l)
    {
        if (l->state != AS_WORKER_LIVE || (origin && l->number != origin))
            continue;
        as_frame_put_policy(&l->out, records);
        sent = true;
    }
    if (sent)
        as_worker_send(w);
    pthread_mutex_unlock(&w->mu);
    return sent || !origin ? 0 : AS_ECANCELLED;
}

void as_worker_send_policy_greeting(struct as_worker *w, struct as_worker_link *l)
{
    if (w->policy.greeting.n)
        as_frame_put_policy(&l->out, as_buf_slice(&w->policy.greeting));
}

void as_worker_policy_fini(struct as_worker *w)
{
    as_worker_drop_policy(w, NULL);
    as_buf_fini(&w->policy.greeting);
}
