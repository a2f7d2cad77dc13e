/* The policies, and the free replicas in the orders that they need. */
#include "core/dispatch/choice/router.h"

#include "core/dispatch/choice/multiplex.h"
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"

#define SAMPLE    16u /* replicas with equally few requests of which one is drawn */
#define NEAR_SCAN 64u /* free replicas that are looked at for a near one */

/* --- which replicas are free --- */

static void grow_by_load(struct as_deployment *d, uint32_t load)
{
    uint32_t old = d->cap_load;
    struct as_list *all;

    d->cap_load = AS_MAX(2 * old, (load | 15u) + 1);
    all = as_xalloc(d->cap_load * sizeof(*all));
    for (uint32_t i = 0; i < d->cap_load; i++)
        as_list_init(&all[i]);
    for (uint32_t i = 0; i < old; i++) {
        struct as_list *n;

        while ((n = as_list_pop(&d->by_load[i])))
            as_list_push(&all[i], n);
    }
    free(d->by_load);
    d->by_load = all;
}

void as_dispatch_move_free(struct as_replica *r)
{
    struct as_deployment *d = r->deployment;
    uint32_t load = r->unanswered;

    if (load >= d->cap_load)
        grow_by_load(d, load);
    as_list_remove(&r->by_load);
    as_list_push(&d->by_load[load], &r->by_load);
    r->free_load = load;
    d->least_load = AS_MIN(d->least_load, load);
    /* those below have none, so that the next search does not look at them */
    while (as_list_empty(&d->by_load[d->least_load]))
        d->least_load++;
}

void as_dispatch_set_free(struct as_replica *r, bool is_free)
{
    struct as_deployment *d = r->deployment;

    d->free_bits[r->index / 64] ^= (uint64_t)1 << r->index % 64;
    if (is_free) {
        as_dispatch_move_free(r);
        r->free_at = d->n_free;
        d->free[d->n_free++] = r;
    } else {
        struct as_replica *last = d->free[--d->n_free];

        as_list_remove(&r->by_load);

        d->free[r->free_at] = last;
        last->free_at = r->free_at;
        r->free_at = AS_NOWHERE;
    }
}

void as_dispatch_update_free_bits(struct as_deployment *d)
{
    memset(d->free_bits, 0, sizeof(d->free_bits));
    for (uint32_t i = 0; i < d->n_free; i++)
        d->free_bits[d->free[i]->index / 64] |= (uint64_t)1 << d->free[i]->index % 64;
}

/* --- among free replicas --- */

/* The first in the order of the lists by load that can execute q, behind at most `skip` that can.
 */
static struct as_replica *least_loaded(const struct as_deployment *d, const struct as_request *q,
                                       uint32_t skip)
{
    struct as_replica *last = NULL;
    uint32_t seen = 0;

    for (uint32_t load = d->least_load; seen < d->n_free && load < d->cap_load; load++) {
        AS_LIST_EACH_ENTRY(r, struct as_replica, by_load, &d->by_load[load]) {
            seen++;
            if (!as_replica_can_execute(r, q))
                continue;
            if (last && r->unanswered != last->unanswered)
                return last;
            last = r;
            if (!skip--)
                return last;
        }
    }
    return last;
}

static struct as_replica *late_binding(struct as_deployment *d, const struct as_request *q)
{
    return least_loaded(d, q, 0);
}

static struct as_replica *least_ongoing(struct as_deployment *d, const struct as_request *q)
{
    return least_loaded(d, q, (uint32_t)as_rand_below(&d->rand, AS_MIN(d->n_free, SAMPLE)));
}

static struct as_replica *pow_2(struct as_deployment *d, const struct as_request *q)
{
    uint32_t n = d->n_free, i, j;

    if (n <= 2)
        return least_loaded(d, q, 0);
    i = (uint32_t)as_rand_below(&d->rand, n);
    j = (uint32_t)as_rand_below(&d->rand, n - 1);
    j += j >= i;
    if (as_replica_can_execute(d->free[i], q) && as_replica_can_execute(d->free[j], q))
        return d->free[i]->unanswered < d->free[j]->unanswered ? d->free[i] : d->free[j];
    return least_loaded(d, q, 0);
}

/* The first free replica from index `from` on; NULL: none up to the end. */
static struct as_replica *next_free(const struct as_deployment *d, uint32_t from)
{
    uint32_t words = (d->n_replicas + 63) / 64;

    for (uint32_t w = from / 64; w < words; w++) {
        uint64_t bits = d->free_bits[w];

        if (w == from / 64)
            bits &= UINT64_MAX << (from % 64);
        if (bits)
            return d->replicas[w * 64 + (uint32_t)__builtin_ctzll(bits)];
    }
    return NULL;
}

static struct as_replica *round_robin(struct as_deployment *d, const struct as_request *q)
{
    uint32_t from = d->next_turn < d->n_replicas ? d->next_turn : 0;
    struct as_replica *r;

    for (uint32_t i = 0; i < d->n_free; i++) {
        r = next_free(d, from);
        if (!r)
            r = next_free(d, 0);
        if (as_replica_can_execute(r, q))
            return r;
        from = r->index + 1 < d->n_replicas ? r->index + 1 : 0;
    }
    return NULL;
}

static void round_robin_routed(struct as_deployment *d, const struct as_request *q AS_UNUSED,
                               struct as_replica *r, as_ns now AS_UNUSED)
{
    d->next_turn = r->index + 1;
}

/* Of the least loaded ones the nearest: on the node of the request, in its zone, anywhere. */
static struct as_replica *nearest(const struct as_deployment *d, const struct as_request *q)
{
    struct as_replica *best = NULL;
    uint32_t best_distance = UINT32_MAX, seen = 0;

    for (uint32_t load = d->least_load; seen < AS_MIN(d->n_free, NEAR_SCAN); load++) {
        AS_LIST_EACH_ENTRY(r, struct as_replica, by_load, &d->by_load[load]) {
            bool same_zone = q->place.zone && r->place.zone == q->place.zone;
            uint32_t distance = r->place.node == q->place.node ? 0 : same_zone ? 1 : 2;

            if (distance < best_distance && as_replica_can_execute(r, q)) {
                best = r;
                best_distance = distance;
            }
            if (!best_distance || ++seen == NEAR_SCAN)
                return best;
        }
    }
    return best;
}

struct as_replica *as_router_pick(struct as_deployment *d, const struct as_request *q)
{
    struct as_replica *r = d->conf.router.prefer_near && q->place.node ? nearest(d, q) : NULL;

    return r ? r : d->router->pick(d, q);
}

/* --- consistent_hash --- */

static void ring_add(struct as_deployment *d, struct as_replica *r)
{
    as_ring_add(&d->ring, r, r->id, d->conf.router.virtual_nodes);
}

static void ring_remove(struct as_deployment *d, struct as_replica *r)
{
    as_ring_remove(&d->ring, r);
}

static bool takes_requests(const struct as_replica *r, const struct as_request *q)
{
    return r->width && as_replica_serves(r, q->model);
}

/* More than its slots, and more than its share of all requests with the tolerance. */
static bool is_overloaded(const struct as_deployment *d, const struct as_replica *r)
{
    uint64_t total = (uint64_t)d->ongoing + d->queue.n + d->n_preferring + 1;
    uint64_t load = (uint64_t)r->unanswered + r->own.n + 1;

    return load > r->slots && load * 100 * d->n_replicas > total * d->conf.router.bound;
}

static void consistent_hash_prefer(struct as_deployment *d, const struct as_request *q,
                                   struct as_preference *t, as_ns now)
{
    const struct as_router_conf *c = &d->conf.router;
    void *on_ring[AS_PREFERENCE_LINKS];
    uint32_t n = as_ring_find(&d->ring, q->session_key, on_ring,
                              AS_MIN(c->fallbacks + 1, AS_PREFERENCE_LINKS));
    uint32_t first = 0;

    while (first < n && (!takes_requests(on_ring[first], q) || is_overloaded(d, on_ring[first])))
        first++;
    if (first == n)
        return;
    for (uint32_t i = first; i < n; i++) {
        struct as_replica *r = on_ring[i];

        if (takes_requests(r, q))
            as_preference_add(t, &r->own, i == first ? now : now + c->max_wait, i);
    }
    t->any_from = now + 2 * c->max_wait;
}

/* --- session --- */

/* Would q wait there for longer than max_wait, as far as one can know? */
static bool is_too_busy(const struct as_deployment *d, const struct as_replica *r)
{
    return r->free_at == AS_NOWHERE && r->service &&
           (r->own.n + 1) * (r->service / AS_MAX(r->slots, 1)) > d->conf.router.max_wait;
}

static void session_prefer(struct as_deployment *d, const struct as_request *q,
                           struct as_preference *t, as_ns now)
{
    struct as_sticky_member *m = as_sticky_find(&d->sticky, q->session_key, now);
    struct as_replica *r = m ? AS_CONTAINER(m, struct as_replica, sessions) : NULL;

    if (!r || !takes_requests(r, q) || is_too_busy(d, r))
        return;
    as_preference_add(t, &r->own, now, 0);
    t->any_from = now + d->conf.router.max_wait;
}

static void session_routed(struct as_deployment *d, const struct as_request *q,
                           struct as_replica *r, as_ns now)
{
    if (q->session_key)
        as_sticky_put(&d->sticky, q->session_key, &r->sessions, now);
}

static void session_removed(struct as_deployment *d, struct as_replica *r)
{
    as_sticky_forget(&d->sticky, &r->sessions);
}

/* --- the table --- */

static const struct as_router_ops routers[AS_ROUTERS] = {
    [AS_ROUTER_LATE_BINDING] = {"late_binding", late_binding, NULL, NULL, NULL, NULL},
    [AS_ROUTER_LEAST_ONGOING] = {"least_ongoing", least_ongoing, NULL, NULL, NULL, NULL},
    [AS_ROUTER_POW_2] = {"pow_2", pow_2, NULL, NULL, NULL, NULL},
    [AS_ROUTER_ROUND_ROBIN] = {"round_robin", round_robin, NULL, round_robin_routed, NULL, NULL},
    [AS_ROUTER_CONSISTENT_HASH] = {"consistent_hash", late_binding, consistent_hash_prefer, NULL,
                                   ring_add, ring_remove},
    [AS_ROUTER_SESSION] = {"session", late_binding, session_prefer, session_routed, NULL,
                           session_removed},
};

int as_router_of(const char *name)
{
    for (size_t i = 0; i < AS_COUNT(routers); i++) {
        if (as_str_eq(as_str_of(routers[i].name), as_str_of(name)))
            return (int)i;
    }
    return -1;
}

const char *as_router_name(enum as_router r)
{
    return (size_t)r < AS_COUNT(routers) ? routers[r].name : "?";
}

int as_router_check(const struct as_router_conf *c)
{
    bool ok = (size_t)c->policy < AS_ROUTERS && c->virtual_nodes > 0 && c->virtual_nodes <= 1000 &&
              c->fallbacks < AS_PREFERENCE_LINKS && c->bound >= 100 && c->max_sessions > 0 &&
              c->max_wait <= 3600 * AS_SEC && c->ask_factor >= 100 &&
              (!c->asks || (c->ask_timeout && c->ask_again_first));

    return ok ? 0 : AS_EINVALID;
}

void as_router_start(struct as_deployment *d)
{
    d->router = &routers[d->conf.router.policy];
    as_ring_init(&d->ring);
    as_sticky_init(&d->sticky, d->conf.router.max_sessions, d->conf.router.session_ttl);
    for (uint32_t i = 0; d->router->on_replica_added && i < d->n_replicas; i++)
        d->router->on_replica_added(d, d->replicas[i]);
    as_deployment_update_preferences(d);
}

void as_router_stop(struct as_deployment *d)
{
    as_ring_fini(&d->ring);
    as_sticky_fini(&d->sticky);
}
