#include "core/dispatch/choice/group.h"

#include "core/dispatch/deployment_internal.h"

void as_group_init(struct as_group *g, struct as_replica *only)
{
    *g = (struct as_group){.replica = only};
    as_list_init(&g->waited);
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

static struct as_preference_link *link_of(struct as_tree_node *n)
{
    return n ? AS_CONTAINER(n, struct as_preference_link, node) : NULL;
}

struct as_preference_link *as_group_first(const struct as_group *g, uint32_t priority)
{
    return link_of(g->line[priority].first);
}

struct as_preference_link *as_group_next(const struct as_preference_link *l)
{
    return link_of(as_tree_next(&l->node));
}

static const struct as_request *request_of(const struct as_tree_node *n)
{
    return link_of((struct as_tree_node *)(uintptr_t)n)->preference->request;
}

static bool is_older(const struct as_tree_node *a, const struct as_tree_node *b)
{
    return as_request_is_older(request_of(a), request_of(b));
}

void as_group_enter(struct as_deployment *d, struct as_preference_link *l)
{
    as_tree_insert(&l->group->line[l->preference->request->priority], &l->node, is_older);
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
    as_tree_remove(&g->line[l->preference->request->priority], &l->node);
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

        for (const struct as_preference_link *l = as_group_first(g, p); l;
             l = as_group_next(l), n++) {
            if (l->group != g || !l->waits || l->preference->request->priority != p ||
                (before && as_request_is_older(l->preference->request, before)))
                return false;
            before = l->preference->request;
        }
    }
    return n == g->n;
}
