/* Requests that wait for certain replicas. */
#include "core/dispatch/choice/preference.h"

#include "core/dispatch/choice/group.h"
#include "core/dispatch/choice/multiplex.h"
#include "core/dispatch/deployment_internal.h"
#include "core/dispatch/dispatch.h"

/* q may be the next of its priority. */
static void consider(const struct as_deployment *d, struct as_request *q,
                     struct as_request *best[AS_PRIORITIES])
{
    struct as_request **old = &best[q->priority];

    if (*old == q)
        return;
    q->tag = d->queue.fair ? as_fair_tag(d->queue.fair, q) : 0;
    if (*old && !as_request_is_older(q, *old)) {
        q->tag = 0;
        return;
    }
    if (*old && (*old)->preference)
        (*old)->tag = 0;
    *old = q;
}

/* With fairness the next of a line may be behind others: it looks at AS_LINE_SCAN requests. */
static void find_in_group(const struct as_replica *r, struct as_group *g,
                          struct as_request *best[AS_PRIORITIES])
{
    for (uint32_t p = 0; g->n && p < AS_PRIORITIES; p++) {
        uint32_t left = AS_LINE_SCAN;
        bool some = false;

        for (const struct as_preference_link *l = as_group_first(g, p); l; l = as_group_next(l)) {
            if (as_replica_can_execute(r, l->preference->request)) {
                consider(r->deployment, l->preference->request, best);
                some = true;
                if (!r->deployment->queue.fair)
                    break;
            }
            if (!--left) {
                g->cut = g->cut || !some;
                break;
            }
        }
    }
}

void as_preference_find(struct as_replica *r, struct as_request *best[AS_PRIORITIES])
{
    const struct as_deployment *d = r->deployment;
    const struct as_holding *h, *next;

    find_in_group(r, &r->own, best);
    if (d->n_waited < r->n_held) {
        AS_LIST_EACH_ENTRY(g, struct as_group, waited, &d->waited) {
            if (as_multiplex_is_member(r, g))
                find_in_group(r, g, best);
        }
        return;
    }
    HASH_ITER(hh, r->held, h, next)
    {
        find_in_group(r, h->group, best);
    }
}

void as_preference_forget(struct as_request *const best[AS_PRIORITIES])
{
    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        if (best[p] && best[p]->preference)
            best[p]->tag = 0;
    }
}

bool as_preference_has_for(const struct as_replica *r)
{
    struct as_request *best[AS_PRIORITIES] = {0};

    as_preference_find((struct as_replica *)(uintptr_t)r, best);
    as_preference_forget(best);
    return best[0] || best[1] || best[2];
}

/* --- routes --- */

bool as_preference_applies(const struct as_deployment *d, const struct as_request *q)
{
    if (q->is_mirror || as_queue_batching(&d->queue, q->model))
        return false;
    return d->conf.router.asks || as_multiplex_applies(d, q) ||
           (d->router->prefer && q->session_key);
}

void as_preference_add(struct as_preference *t, struct as_group *g, as_ns from, uint32_t rank)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->links[i].group == g)
            return;
    }
    if (t->n < AS_PREFERENCE_LINKS)
        t->links[t->n++] = (struct as_preference_link){
            .node = {0}, .group = g, .preference = t, .from = from, .rank = rank};
}

static struct as_preference *acquire_preference(struct as_deployment *d, struct as_request *q)
{
    struct as_list *n = as_list_pop(&d->preference_pool);
    struct as_preference *t =
        n ? AS_LIST_ENTRY(n, struct as_preference, pool) : as_xalloc(sizeof(*t));

    *t = (struct as_preference){.request = q,
                                .due = {AS_NEVER, SIZE_MAX},
                                .any_from = AS_NEVER,
                                .ask_at = AS_NEVER,
                                .ask_until = AS_NEVER};
    as_list_init(&t->pool);
    q->preference = t;
    return t;
}

static void leave_lines(struct as_deployment *d, struct as_preference *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->links[i].waits)
            as_group_leave(d, &t->links[i]);
    }
}

/* Puts q to the user's router. True: its choice is in *ret. */
static bool ask(struct as_deployment *d, struct as_preference *t, struct as_router_choice *ret,
                as_ns now)
{
    const struct as_router_conf *c = &d->conf.router;

    t->ask_at = AS_NEVER;
    t->ask_gap = t->ask_gap ? AS_MIN(t->ask_gap * c->ask_factor / 100, c->ask_again_max)
                            : c->ask_again_first;
    ret->n = 0;
    if (d->ops.ask(d->ctx, t->request, ret))
        return true;
    t->asking = true;
    t->ask_until = now + c->ask_timeout;
    return false;
}

static void stop_asking(struct as_deployment *d, struct as_preference *t)
{
    if (!t->asking)
        return;
    t->asking = false;
    t->ask_until = AS_NEVER;
    d->ops.unask(d->ctx, t->request);
}

/* The preference that the deployment's own rules give. */
static void fill_by_policy(struct as_deployment *d, struct as_preference *t, as_ns now)
{
    struct as_request *q = t->request;

    leave_lines(d, t);
    t->n = 0;
    t->ask_at = AS_NEVER;
    t->any_from = now;
    t->of_model = as_multiplex_applies(d, q);
    if (t->of_model)
        as_multiplex_prefer(d, q, t, now);
    else if (d->router->prefer && q->session_key)
        d->router->prefer(d, q, t, now);
}

/* The preference that the user's router has chosen: any of these replicas, whichever is free first.
 */
static void fill_by_choice(struct as_deployment *d, struct as_preference *t,
                           const struct as_router_choice *choice, as_ns now)
{
    leave_lines(d, t);
    t->n = 0;
    t->of_model = false;
    t->any_from = AS_NEVER;
    for (uint32_t i = 0; i < AS_MIN(choice->n, AS_PREFERENCE_LINKS); i++) {
        AS_ASSERT(choice->of[i].replica->deployment == d);
        as_preference_add(t, &choice->of[i].replica->own, now, choice->of[i].rank);
    }
    if (!t->n) {
        d->stat.router_fallbacks++;
        fill_by_policy(d, t, now);
        return;
    }
    t->ask_at = now + t->ask_gap;
}

/* Among the groups that are valid now: by rank, then by the number of requests. */
static struct as_replica *find_preferred(const struct as_preference *t, as_ns now)
{
    struct as_replica *best = NULL;
    uint32_t rank = 0;

    for (uint32_t i = 0; i < t->n; i++) {
        const struct as_preference_link *l = &t->links[i];
        struct as_replica *r;

        if (best && l->rank != rank)
            break;
        if (!l->group || l->from > now)
            continue;
        r = as_group_find_free(l->group, t->request);
        if (r && (!best || r->unanswered < best->unanswered)) {
            best = r;
            rank = l->rank;
        }
    }
    return best;
}

/* A free replica for a request for which any will do. */
static struct as_replica *find_any(struct as_deployment *d, const struct as_request *q)
{
    return as_multiplex_applies(d, q) ? as_multiplex_pick(d, q) : as_dispatch_find_free(d, q);
}

void as_preference_end(struct as_deployment *d, struct as_request *q)
{
    struct as_preference *t = q->preference;

    if (!t)
        return;
    stop_asking(d, t);
    leave_lines(d, t);
    as_due_heap_remove(&d->routes, &t->due);
    q->preference = NULL;
    as_list_push(&d->preference_pool, &t->pool);
}

/* Finds a replica, or decides that q waits in the common queue; q->preference is NULL then. */
static struct as_replica *decide(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_preference *t = q->preference;
    struct as_replica *r;

    if (t->any_from <= now && !t->of_model && as_multiplex_applies(d, q))
        fill_by_policy(d, t, now); /* models count since it began to wait */
    r = find_preferred(t, now);
    if (!r && t->any_from <= now) {
        if (as_multiplex_applies(d, q) && !as_multiplex_become_loader(d, q)) {
            t->overdue = true;
            return NULL;
        }
        r = find_any(d, q);
        as_preference_end(d, q);
    } else if (r) {
        as_preference_end(d, q);
    }
    return r;
}

static void begin_preference(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_preference *t = acquire_preference(d, q);
    struct as_router_choice choice;

    if (!d->conf.router.asks)
        fill_by_policy(d, t, now);
    else if (ask(d, t, &choice, now))
        fill_by_choice(d, t, &choice, now);
}

struct as_replica *as_preference_begin(struct as_deployment *d, struct as_request *q, as_ns now)
{
    begin_preference(d, q, now);
    return decide(d, q, now);
}

/* --- waiting --- */

static void set_due(struct as_deployment *d, struct as_preference *t, as_ns now)
{
    as_ns next = AS_MIN(t->ask_at, t->ask_until);

    if (!t->overdue)
        next = AS_MIN(next, t->any_from);
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->links[i].group && !t->links[i].waits)
            next = AS_MIN(next, t->links[i].from);
    }
    as_due_heap_remove(&d->routes, &t->due);
    t->due.at = next;
    if (next == AS_NEVER)
        return;
    as_due_heap_push(&d->routes, &t->due);
    d->ops.wake(d->ctx, AS_MAX(next, now + 1));
}

static void enter_lines(struct as_deployment *d, struct as_preference *t, as_ns now)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->links[i].group && !t->links[i].waits && t->links[i].from <= now)
            as_group_enter(d, &t->links[i]);
    }
}

void as_preference_wait(struct as_deployment *d, struct as_request *q, as_ns now)
{
    AS_ASSERT(q->state == AS_REQ_QUEUED && q->preference);
    as_list_push(&d->preferring, &q->node);
    d->n_preferring++;
    enter_lines(d, q->preference, now);
    set_due(d, q->preference, now);
}

void as_preference_enter(struct as_deployment *d, struct as_request *q, as_ns now)
{
    begin_preference(d, q, now);
    as_preference_wait(d, q, now);
    as_preference_hurry(d, q->preference);
}

void as_preference_dequeue(struct as_deployment *d, struct as_request *q)
{
    as_list_remove(&q->node);
    d->n_preferring--;
    as_preference_end(d, q);
}

/* q waits for its groups: decides again. */
static void advance(struct as_deployment *d, struct as_request *q, as_ns now)
{
    struct as_preference *t = q->preference;
    struct as_replica *r;

    if (q->deadline <= now) { /* its timer is late */
        as_preference_dequeue(d, q);
        as_deployment_fail(d, q, AS_EDEADLINE);
        return;
    }
    r = decide(d, q, now);
    if (q->preference) {
        enter_lines(d, t, now);
        set_due(d, t, now);
        return;
    }
    as_list_remove(&q->node);
    d->n_preferring--;
    if (r)
        as_dispatch_send_preferring(r, q, now);
    else
        as_dispatch_enqueue_anywhere(d, q, now);
}

void as_preference_hurry(struct as_deployment *d, struct as_preference *t)
{
    t->overdue = false;
    as_due_heap_remove(&d->routes, &t->due);
    t->due.at = 0;
    as_due_heap_push(&d->routes, &t->due);
}

/* Removes the link to r alone, if there is one. True: nothing is left that it waits for. */
static bool drop_link(struct as_preference *t, struct as_replica *r)
{
    bool dropped = false, waits = false;

    for (uint32_t i = 0; i < t->n; i++) {
        struct as_preference_link *l = &t->links[i];

        if (l->group == &r->own) {
            dropped = true;
            if (l->waits)
                as_group_leave(r->deployment, l);
            l->group = NULL;
        }
        waits = waits || l->waits;
    }
    return dropped && !waits;
}

void as_preference_release(struct as_replica *r)
{
    struct as_deployment *d = r->deployment;

    AS_LIST_EACH(n, &d->preferring)
    {
        struct as_preference *t = as_request_of(n)->preference;
        bool others = false;

        if (!drop_link(t, r))
            continue;
        for (uint32_t i = 0; i < t->n; i++) { /* the next ones will do at once */
            t->links[i].from = 0;
            others = others || t->links[i].group;
        }
        if (!others && t->any_from != AS_NEVER)
            t->any_from = 0;
        else if (!others && !t->asking)
            t->ask_at = 0;
        as_preference_hurry(d, t);
    }
    as_multiplex_on_closed(r);
}

void as_preference_release_all(struct as_deployment *d)
{
    AS_LIST_EACH(n, &d->preferring)
    {
        struct as_request *q = as_request_of(n);

        if (q->preference->of_model)
            continue;
        as_preference_dequeue(d, q);
        as_queue_push(&d->queue, q);
    }
}

static void ask_again(struct as_deployment *d, struct as_preference *t, as_ns now)
{
    struct as_router_choice choice;

    if (!d->conf.router.asks)
        fill_by_policy(d, t, now);
    else if (ask(d, t, &choice, now))
        fill_by_choice(d, t, &choice, now);
}

void as_preference_expire(struct as_deployment *d, as_ns now)
{
    struct as_due *due;

    while ((due = as_due_heap_first(&d->routes)) && due->at <= now) {
        struct as_preference *t = AS_CONTAINER(due, struct as_preference, due);

        as_due_heap_remove(&d->routes, due);
        if (t->asking && t->ask_until <= now) {
            stop_asking(d, t);
            d->stat.router_late++;
            fill_by_policy(d, t, now);
        } else if (!t->asking && t->ask_at <= now) {
            ask_again(d, t, now);
        }
        advance(d, t->request, now);
    }
}

static bool is_due(const struct as_deployment *d, as_ns now)
{
    const struct as_due *due = as_due_heap_first(&d->routes);

    return d->pulls || !as_list_empty(&d->to_pull) || (due && due->at <= now);
}

static void pull(struct as_replica *r, as_ns now)
{
    as_list_remove(&r->pull);
    if (r->n_held || r->own.n)
        as_dispatch_pull(r, now);
}

static void pull_all(struct as_deployment *d, as_ns now)
{
    d->pulls = false;
    for (uint32_t i = 0; i < d->n_replicas; i++)
        pull(d->replicas[i], now);
}

static void run_due(struct as_deployment *d, as_ns now)
{
    while (is_due(d, now)) {
        as_preference_expire(d, now);
        if (d->pulls)
            pull_all(d, now);
        else if (!as_list_empty(&d->to_pull))
            pull(AS_LIST_ENTRY(d->to_pull.next, struct as_replica, pull), now);
    }
}

void as_preference_pull_later(struct as_replica *r)
{
    if (as_list_empty(&r->pull))
        as_list_push(&r->deployment->to_pull, &r->pull);
}

void as_preference_run(struct as_deployment *d, as_ns now)
{
    while (is_due(d, now)) {
        run_due(d, now);
        if (d->n_suspects) /* turns_owed may have become 0 */
            as_quarantine_schedule(d, now);
    }
}

void as_deployment_routed(struct as_deployment *d, struct as_request *q,
                          const struct as_router_choice *choice, as_ns now)
{
    struct as_preference *t = q->preference;

    if (!t || !t->asking)
        return;
    t->asking = false;
    t->ask_until = AS_NEVER;
    fill_by_choice(d, t, choice, now);
    advance(d, q, now);
    if (d->n_suspects) /* turns_owed may have become 0 */
        as_quarantine_schedule(d, now);
    as_dispatch_balance(d, now);
}

void as_preference_fini(struct as_deployment *d)
{
    struct as_list *n;

    AS_ASSERT(!d->n_preferring && !d->routes.n);
    while ((n = as_list_pop(&d->preference_pool)))
        free(AS_LIST_ENTRY(n, struct as_preference, pool));
    as_due_heap_fini(&d->routes);
}

/* --- invariants --- */

static bool preference_is_ok(const struct as_deployment *d, const struct as_preference *t)
{
    const struct as_request *q = t->request;
    bool hope = t->asking || t->overdue || t->due.index != SIZE_MAX;

    if (q->preference != t || q->state != AS_REQ_QUEUED || q->lane || !as_request_ok(q) || !hope)
        return false;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct as_preference_link *l = &t->links[i];

        if (l->preference != t || (l->waits && !l->group))
            return false;
        if (l->waits && l->group->n_members < AS_GROUP_SCAN && l->group->n <= AS_LINE_SCAN &&
            as_group_find_free(l->group, q) && t->due.at != 0)
            return false; /* rule 1 */
    }
    return d->prefers;
}

bool as_preference_ok(const struct as_deployment *d)
{
    const struct as_holding *h, *next;
    uint32_t n = 0;

    for (const struct as_list *it = d->preferring.next; it != &d->preferring; it = it->next, n++) {
        if (!preference_is_ok(d, as_request_of(it)->preference))
            return false;
    }
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        const struct as_replica *r = d->replicas[i];

        if (!as_group_ok(&r->own))
            return false;
        HASH_ITER(hh, r->held, h, next)
        {
            if (!as_group_ok(h->group))
                return false;
        }
    }
    return n == d->n_preferring && as_due_heap_ok(&d->routes) && as_multiplex_ok(d);
}
