#include "core/dispatch/choice/group.h"

#include "core/dispatch/deployment_internal.h"

void as_group_init(struct as_group *g, struct as_replica *only)
{
    *g = (struct as_group){.replica = only};
    as_list_init(&g->waited);
    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&g->line[p]);
}

static bool is_free_for(const struct as_replica *r, const struct as_request *q)
{
    return r->free_at != AS_NOWHERE && as_replica_can_execute(r, q);
}

struct as_replica *as_group_find_free(struct as_group *g, const struct as_request *q)
{
    struct as_replica *best = NULL;
    uint32_t n = AS_MIN(g->n_members, AS_GROUP_SCAN);

    if (g->replica)
        return is_free_for(g->replica, q) ? g->replica : NULL;
    for (uint32_t i = 0; i < n; i++) {
        struct as_replica *r = g->members[(g->next + i) % g->n_members]->replica;

        if (is_free_for(r, q) && (!best || r->unanswered < best->unanswered))
            best = r;
    }
    if (n == AS_GROUP_SCAN)
        g->next = (g->next + n) % g->n_members;
    return best;
}

void as_group_enter(struct as_deployment *d, struct as_preference_link *l)
{
    const struct as_request *q = l->preference->request;
    struct as_list *line = &l->group->line[q->priority], *at = line->prev;

    while (at != line &&
           as_request_is_older(
               q, AS_LIST_ENTRY(at, struct as_preference_link, node)->preference->request))
        at = at->prev;
    as_list_insert_after(at, &l->node);
    if (!l->group->replica && !l->group->n) {
        as_list_push(&d->waited, &l->group->waited);
        d->n_waited++;
    }
    l->group->n++;
    l->waits = true;
}

void as_group_leave(struct as_deployment *d, struct as_preference_link *l)
{
    struct as_group *g = l->group;

    l->waits = false;
    as_list_remove(&l->node);
    g->n--;
    if (!g->replica && !g->n) {
        as_list_remove(&g->waited);
        d->n_waited--;
    }
    if (g->n <= AS_LINE_SCAN && g->cut) { /* what was out of sight may fit a free replica */
        g->cut = false;
        d->pulls = true;
    }
}

bool as_group_ok(const struct as_group *g)
{
    uint32_t n = 0;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        const struct as_request *before = NULL;

        for (const struct as_list *it = g->line[p].next; it != &g->line[p]; it = it->next, n++) {
            const struct as_preference_link *l =
                AS_LIST_ENTRY((struct as_list *)(uintptr_t)it, struct as_preference_link, node);

            if (l->group != g || !l->waits || l->preference->request->priority != p ||
                (before && as_request_is_older(l->preference->request, before)))
                return false;
            before = l->preference->request;
        }
    }
    return n == g->n;
}
