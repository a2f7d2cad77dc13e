/* Which replicas hold which multiplexed models. */
#include "core/dispatch/choice/multiplex.h"

#include "core/dispatch/dispatch.h"
#include "core/route/hash.h"

#define PICK_SCAN 64u /* free replicas that are looked at for the one with the fewest models */

struct as_held {
    uint64_t key;
    struct as_group group;
    struct as_replica *loading;      /* has not answered its first request of the model yet */
    const struct as_request *loader; /* may go to any replica, and waits for one */
    UT_hash_handle hh;
};

static struct as_held *find_model(const struct as_deployment *d, uint64_t key)
{
    struct as_held *m;

    HASH_FIND(hh, d->models, &key, sizeof(key), m);
    return m;
}

static struct as_held *ensure_model(struct as_deployment *d, uint64_t key)
{
    struct as_held *m = find_model(d, key);

    if (m)
        return m;
    m = as_xalloc(sizeof(*m));
    m->key = key;
    as_group_init(&m->group, NULL);
    HASH_ADD(hh, d->models, key, sizeof(m->key), m);
    return m;
}

/* Forgets a model that nobody holds, loads or waits for. */
static void forget_unused(struct as_deployment *d, struct as_held *m)
{
    if (m->group.n_members || m->group.n || m->loader)
        return;
    HASH_DEL(d->models, m);
    free(m->group.members);
    free(m);
}

static struct as_holding *find_holding(const struct as_held *m, const struct as_replica *r)
{
    struct as_holding *h;

    HASH_FIND(hh, r->held, &m->key, sizeof(m->key), h);
    return h;
}

bool as_multiplex_is_member(const struct as_replica *r, struct as_group *g)
{
    return find_holding(AS_CONTAINER(g, struct as_held, group), r) != NULL;
}

bool as_multiplex_holds(const struct as_replica *r, const struct as_request *q)
{
    const struct as_held *m = find_model(r->deployment, q->model_key);

    return m && find_holding(m, r);
}

static struct as_holding *add_holding(struct as_held *m, struct as_replica *r)
{
    struct as_holding *h = as_xalloc(sizeof(*h));
    struct as_group *g = &m->group;

    *h = (struct as_holding){.key = m->key, .group = g, .replica = r, .index = g->n_members};
    if (g->n_members == g->cap_members) {
        g->cap_members = g->cap_members ? 2 * g->cap_members : 4;
        g->members = as_xrealloc(g->members, g->cap_members * sizeof(struct as_holding *));
    }
    g->members[g->n_members++] = h;
    HASH_ADD(hh, r->held, key, sizeof(h->key), h);
    r->n_held++;
    return h;
}

/* Some of its holders take requests: they neither drain nor are ejected. */
static bool has_open_member(const struct as_held *m)
{
    for (uint32_t i = 0; i < m->group.n_members; i++) {
        if (m->group.members[i]->replica->width)
            return true;
    }
    return false;
}

/* If nobody loads the model or is about to: the first that waits for it may, when its time is over
 * or nobody holds the model. */
static void find_loader(struct as_deployment *d, struct as_held *m)
{
    if (m->loading || m->loader)
        return;
    for (uint32_t p = 0; m->group.n && p < AS_PRIORITIES; p++) {
        const struct as_preference_link *l = as_group_first(&m->group, p);
        struct as_preference *t;

        if (!l)
            continue;
        t = l->preference;
        if (!t->overdue && has_open_member(m))
            continue;
        t->any_from = 0;
        as_preference_hurry(d, t);
        return;
    }
}

static void remove_holding(struct as_deployment *d, struct as_held *m, struct as_holding *h)
{
    struct as_replica *r = h->replica;
    struct as_group *g = &m->group;

    g->members[h->index] = g->members[--g->n_members];
    g->members[h->index]->index = h->index;
    HASH_DEL(r->held, h);
    r->n_held--;
    free(h);
    if (m->loading == r)
        m->loading = NULL;
    find_loader(d, m);
    forget_unused(d, m);
}

/* --- requests --- */

void as_multiplex_prefer(struct as_deployment *d, struct as_request *q, struct as_preference *t,
                         as_ns now)
{
    struct as_held *m = ensure_model(d, q->model_key);
    as_ns wait = d->conf.router.max_wait;

    as_preference_add(t, &m->group, now, 0);
    if (has_open_member(m) || m->loader)
        t->any_from = now + wait + as_rand_below(&d->rand, wait + 1);
    else
        t->any_from = now;
}

struct as_replica *as_multiplex_pick(struct as_deployment *d, const struct as_request *q)
{
    struct as_replica *best = NULL;
    uint32_t n = AS_MIN(d->n_free, PICK_SCAN), from;

    if (!n)
        return NULL;
    from = (uint32_t)as_rand_below(&d->rand, d->n_free);
    for (uint32_t i = 0; i < n; i++) {
        struct as_replica *r = d->free[(from + i) % d->n_free];

        if (as_replica_can_execute(r, q) &&
            (!best || r->n_held < best->n_held ||
             (r->n_held == best->n_held && r->unanswered < best->unanswered)))
            best = r;
    }
    return best ? best : as_dispatch_find_free(d, q);
}

struct as_replica *as_multiplex_find_holder(const struct as_deployment *d,
                                            const struct as_request *q)
{
    const struct as_held *m = find_model(d, q->model_key);
    struct as_replica *best = NULL;

    for (uint32_t i = 0; m && i < AS_MIN(m->group.n_members, PICK_SCAN); i++) {
        struct as_replica *r = m->group.members[i]->replica;

        if (r->free_at != AS_NOWHERE && m->loading != r && as_replica_can_execute(r, q) &&
            (!best || r->unanswered < best->unanswered))
            best = r;
    }
    return best;
}

bool as_multiplex_become_loader(struct as_deployment *d, struct as_request *q)
{
    struct as_held *m = ensure_model(d, q->model_key);

    if (m->loader == q)
        return true;
    if (m->loader || m->loading)
        return false;
    m->loader = q;
    return true;
}

void as_multiplex_on_sent(struct as_replica *r, struct as_request *q)
{
    struct as_held *m = ensure_model(r->deployment, q->model_key);
    struct as_holding *h = find_holding(m, r);

    if (m->loader == q)
        m->loader = NULL;
    if (h) {
        r->deployment->stat.model_hits++;
    } else {
        h = add_holding(m, r);
        if (!m->loading)
            m->loading = r;
        if (m->group.n) /* r may have slots for those that wait */
            as_preference_pull_later(r);
        r->deployment->stat.model_misses++;
    }
    h->sent++;
    find_loader(r->deployment, m);
}

void as_multiplex_on_left(struct as_replica *r, struct as_request *q, bool answered)
{
    struct as_deployment *d = r->deployment;
    struct as_held *m = find_model(d, q->model_key);
    struct as_holding *h = m ? find_holding(m, r) : NULL;

    if (!h) /* r goes */
        return;
    AS_ASSERT(h->sent);
    h->sent--;
    if (answered && m->loading == r)
        m->loading = NULL;
    if (h->sent || h->reported)
        find_loader(d, m);
    else
        remove_holding(d, m, h);
}

void as_multiplex_on_end(struct as_deployment *d, struct as_request *q)
{
    struct as_held *m = find_model(d, q->model_key);

    if (!m)
        return;
    if (m->loader == q)
        m->loader = NULL;
    find_loader(d, m);
    forget_unused(d, m);
}

/* --- replicas --- */

/* What was sent before the first report counts like what is sent from now on. */
static void count_sent(struct as_deployment *d)
{
    for (uint32_t i = 0; i < d->n_replicas; i++) {
        struct as_replica *r = d->replicas[i];

        AS_LIST_EACH(n, &r->sent)
        {
            const struct as_request *q = as_request_of(n);
            struct as_held *m = q->model_key ? ensure_model(d, q->model_key) : NULL;
            struct as_holding *h = m ? find_holding(m, r) : NULL;

            if (m)
                (h ? h : add_holding(m, r))->sent++;
        }
    }
}

struct waiting {
    struct as_request **of;
    uint32_t n;
};

static void collect(struct waiting *w, const struct as_deployment *d, const struct as_list *fifo)
{
    struct as_request *q = NULL;

    while ((q = as_queue_next(fifo, q))) {
        if (as_multiplex_applies(d, q) && as_preference_applies(d, q))
            w->of[w->n++] = q;
    }
}

static int by_age(const void *a, const void *b)
{
    const struct as_request *x = *(struct as_request *const *)a,
                            *y = *(struct as_request *const *)b;

    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    return as_request_is_older(x, y) ? -1 : 1;
}

/* The rules for models begin to hold for what waits in the queue: it came before any replica had
 * said that it holds models, so it may go anywhere, and several replicas would load its model. */
static void place_waiting(struct as_deployment *d, as_ns now)
{
    struct waiting w = {.n = 0};

    if (!d->queue.n)
        return;
    w.of = as_xalloc(d->queue.n * sizeof(struct as_request *));
    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        collect(&w, d, &d->queue.fifo[p]);
        AS_LIST_EACH_ENTRY(l, const struct as_lane, node, &d->queue.active) {
            collect(&w, d, &l->fifo[p]);
        }
    }
    if (w.n)
        qsort(w.of, w.n, sizeof(struct as_request *), by_age); /* the oldest loads its model */
    for (uint32_t i = 0; i < w.n; i++)
        as_queue_remove(&d->queue, w.of[i]);
    for (uint32_t i = 0; i < w.n; i++)
        as_dispatch_enqueue(d, w.of[i], now);
    free(w.of);
    if (d->batched)
        as_dispatch_send_all(d, now);
    as_preference_run(d, now);
}

void as_replica_set_held(struct as_replica *r, const uint64_t *models, uint32_t n, as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct as_holding *h, *next;
    bool begins = !d->multiplexed;

    if (begins) {
        d->multiplexed = true;
        count_sent(d);
        as_deployment_update_preferences(d);
    }
    HASH_ITER(hh, r->held, h, next)
    {
        h->reported = false;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct as_held *m = ensure_model(d, models[i]);

        h = find_holding(m, r);
        if (!h)
            h = add_holding(m, r);
        h->reported = true;
    }
    HASH_ITER(hh, r->held, h, next)
    {
        if (!h->reported && !h->sent)
            remove_holding(d, AS_CONTAINER(h->group, struct as_held, group), h);
    }
    if (begins)
        place_waiting(d, now);
    as_dispatch_pull(r, now);
    as_dispatch_balance(d, now);
}

void as_multiplex_on_closed(struct as_replica *r)
{
    struct as_holding *h, *next;

    HASH_ITER(hh, r->held, h, next)
    {
        find_loader(r->deployment, AS_CONTAINER(h->group, struct as_held, group));
    }
}

void as_multiplex_remove_replica(struct as_replica *r)
{
    struct as_holding *h, *next;

    HASH_ITER(hh, r->held, h, next)
    {
        remove_holding(r->deployment, AS_CONTAINER(h->group, struct as_held, group), h);
    }
}

void as_multiplex_fini(struct as_deployment *d)
{
    AS_ASSERT(!d->models);
    (void)d;
}

bool as_multiplex_ok(const struct as_deployment *d)
{
    struct as_held *m, *next;
    uint32_t n_waited = 0;

    HASH_ITER(hh, d->models, m, next)
    {
        uint32_t n = m->group.n_members;

        n_waited += m->group.n != 0;
        if (as_list_empty(&m->group.waited) != !m->group.n)
            return false;
        for (uint32_t i = 0; i < n; i++) {
            const struct as_holding *h = m->group.members[i];

            if (h->group != &m->group || h->index != i || (!h->reported && !h->sent) ||
                find_holding(m, h->replica) != h)
                return false;
        }
        if (!n && !m->group.n && !m->loader)
            return false;
        if (m->loader && (m->loader->state != AS_REQ_QUEUED || m->loader->preference))
            return false;
        /* somebody loads it, or is about to */
        if (!n && m->group.n && !m->loader)
            return false;
    }
    return n_waited == d->n_waited;
}
