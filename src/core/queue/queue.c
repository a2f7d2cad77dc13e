#include "core/queue/queue.h"

void as_queue_init(struct as_queue *u)
{
    *u = (struct as_queue){.share = {.every = AS_SHARE_DEFAULT}};
    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&u->fifo[p]);
    as_list_init(&u->active);
}

static void free_lane(struct as_lane *l)
{
    if (l && l->batching) {
        for (uint32_t i = 0; i < l->batching->n_kinds; i++)
            free(l->batching->kinds[i]);
        free(l->batching);
    }
    free(l);
}

void as_queue_fini(struct as_queue *u)
{
    AS_ASSERT(u->n == 0);
    for (uint32_t i = 0; i < u->n_lanes; i++)
        free_lane(u->lanes[i]);
    free(u->lanes);
    as_fair_free(u->fair);
    *u = (struct as_queue){0};
}

/* The lane in which q waits; for a model without batching also where it would wait. NULL: the FIFO.
 */
static struct as_lane *lane_of(const struct as_queue *u, const struct as_request *q)
{
    if (q->lane)
        return q->lane;
    return q->model < u->n_lanes ? u->lanes[q->model] : NULL;
}

static struct as_request *fifo_front(const struct as_list *fifo)
{
    return as_list_empty(fifo) ? NULL : as_request_of(fifo->next);
}

/* Walks from `near` (a node of the list, or its head), to the place of q. */
static struct as_list *find_place(struct as_list *fifo, struct as_list *near,
                                  const struct as_request *q)
{
    if (near != fifo && as_request_is_older(q, as_request_of(near))) {
        while (near != fifo && as_request_is_older(q, as_request_of(near)))
            near = near->prev;
        return near;
    }
    while (near->next != fifo && as_request_is_older(as_request_of(near->next), q))
        near = near->next;
    return near;
}

/* Requests that one request has made come in a row. So each is looked for beside the one before. */
static void insert_by_age(struct as_queue *u, struct as_list *fifo, struct as_request *q)
{
    struct as_list *at = fifo->prev;
    const struct as_request *last = u->inserted;

    if (at != fifo && as_request_is_older(q, as_request_of(at))) {
        bool beside = last && last->priority == q->priority && lane_of(u, last) == lane_of(u, q) &&
                      !as_request_is_older(q, as_request_of(fifo->next));

        at = find_place(fifo, beside ? (struct as_list *)(uintptr_t)&last->node : fifo, q);
        u->inserted = q;
    }
    as_list_insert_after(at, &q->node);
}

/* --- lanes of a model with batching --- */

/* Must be called after the contents of l changed. */
static void update_holding(struct as_queue *u, struct as_lane *l)
{
    bool holding =
        l->n && !l->ready && !l->one_by_one && l->items < as_batch_enough(&l->batching->conf);

    if (holding == l->held_back)
        return;
    l->held_back = holding;
    if (holding)
        u->n_held_back++;
    else
        u->n_held_back--;
}

static void add_to_batching(struct as_queue *u, struct as_lane *l, struct as_request *q)
{
    l->items += q->items;
    if (!q->hold_until)
        l->ready++;
    else
        l->next_due = AS_MIN(l->next_due, q->hold_until);
    update_holding(u, l);
}

static void remove_from_batching(struct as_queue *u, struct as_lane *l, struct as_request *q)
{
    q->lane = NULL;
    l->items -= q->items;
    l->ready -= !q->hold_until;
    if (!l->n)
        l->next_due = AS_NEVER;
    update_holding(u, l);
}

static struct as_lane *lane_new(uint32_t model, uint32_t cap)
{
    struct as_lane *l = as_xalloc(sizeof(*l));

    l->model = model;
    l->cap = cap;
    l->next_due = AS_NEVER;
    as_list_init(&l->node);
    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&l->fifo[p]);
    return l;
}

struct as_lane *as_queue_lane_for(struct as_queue *u, const struct as_request *q)
{
    struct as_lane *others = u->lanes[q->model], *empty = NULL;
    struct as_batching *b = others->batching;

    for (uint32_t i = 0; i < b->n_kinds; i++) {
        struct as_lane *l = b->kinds[i];

        if (!l->n)
            empty = l;
        else if (l->kind == q->kind)
            return !u->alike || u->alike(as_lane_first(l), q) ? l : others;
    }
    if (!empty) {
        if (b->n_kinds == AS_QUEUE_KINDS_MAX)
            return others;
        empty = b->kinds[b->n_kinds++] = lane_new(q->model, others->cap);
        empty->batching = b;
    }
    empty->kind = q->kind;
    return empty;
}

bool as_lane_is_due_with(const struct as_lane *l, const struct as_request *q)
{
    return l->one_by_one || l->ready || !q->hold_until ||
           (uint64_t)l->items + q->items >= as_batch_enough(&l->batching->conf);
}

/* A lane that is held back contains less than one batch, so the walk is short. */
void as_lane_update_due(struct as_queue *u, struct as_lane *l, as_ns now)
{
    if (!l->held_back || l->next_due > now)
        return;
    l->next_due = AS_NEVER;
    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        struct as_request *q = NULL;

        while ((q = as_queue_next(&l->fifo[p], q))) {
            if (q->hold_until <= now) {
                q->hold_until = 0;
                l->ready++;
            } else {
                l->next_due = AS_MIN(l->next_due, q->hold_until);
            }
        }
    }
    update_holding(u, l);
}

void as_queue_update_due(struct as_queue *u, as_ns now)
{
    AS_LIST_EACH(n, &u->active)
    {
        as_lane_update_due(u, AS_LIST_ENTRY(n, struct as_lane, node), now);
    }
}

as_ns as_queue_next_release(const struct as_queue *u)
{
    as_ns next = AS_NEVER;

    AS_LIST_EACH_ENTRY(l, const struct as_lane, node, &u->active) {
        if (l->held_back)
            next = AS_MIN(next, l->next_due);
    }
    return next;
}

/* --- in and out --- */

static struct as_list *list_of(struct as_queue *u, struct as_lane *l, const struct as_request *q)
{
    return l ? &l->fifo[q->priority] : &u->fifo[q->priority];
}

void as_queue_push(struct as_queue *u, struct as_request *q)
{
    struct as_lane *l = lane_of(u, q);

    if (l && l->batching)
        l = as_queue_lane_for(u, q);
    if (l && l->batching)
        q->lane = l;
    if (u->fair)
        as_fair_insert(u->fair, list_of(u, l, q), q);
    else
        insert_by_age(u, list_of(u, l, q), q);
    u->n++;
    u->n_of[q->priority]++;
    if (!l)
        return;
    if (l->n++ == 0)
        as_list_push(&u->active, &l->node);
    if (l->batching)
        add_to_batching(u, l, q);
}

void as_queue_remove(struct as_queue *u, struct as_request *q)
{
    struct as_lane *l = lane_of(u, q);

    AS_ASSERT(u->n > 0 && !as_list_empty(&q->node));
    if (u->fair)
        as_fair_remove(u->fair, list_of(u, l, q), q);
    else
        as_list_remove(&q->node);
    if (u->inserted == q)
        u->inserted = NULL;
    u->n--;
    u->n_of[q->priority]--;
    if (!l)
        return;
    if (--l->n == 0)
        as_list_remove(&l->node);
    if (l->batching)
        remove_from_batching(u, l, q);
}

void as_queue_take(struct as_queue *u, struct as_request *q)
{
    if (u->fair)
        as_fair_charge(u->fair, q);
    as_queue_remove(u, q);
}

static void push_all(struct as_queue *u, struct as_list *all)
{
    struct as_list *n;

    while ((n = as_list_pop(all)))
        as_queue_push(u, as_request_of(n));
}

void as_queue_set_fair(struct as_queue *u, bool on, enum as_fair_cost cost)
{
    struct as_list all;

    if (u->fair && on)
        u->fair->cost = cost;
    if ((u->fair != NULL) == on)
        return;
    as_list_init(&all);
    as_queue_pop_all(u, &all);
    as_fair_free(u->fair);
    u->fair = on ? as_fair_new(cost) : NULL;
    push_all(u, &all);
}

struct as_request *as_queue_next(const struct as_list *fifo, const struct as_request *q)
{
    const struct as_flow *w = q ? q->flow : NULL;
    const struct as_list *n;

    if (!q)
        return fifo_front(fifo);
    if (w && w->first == q && !as_list_empty(&w->rest))
        return as_request_of(w->rest.next);
    n = q->node.next;
    if (w && n == &w->rest)
        n = w->first->node.next;
    return n == fifo ? NULL : as_request_of(n);
}

static void grow_lanes(struct as_queue *u, uint32_t model)
{
    if (model < u->n_lanes)
        return;
    u->lanes = as_xrealloc(u->lanes, (model + 1) * sizeof(struct as_lane *));
    while (u->n_lanes <= model)
        u->lanes[u->n_lanes++] = NULL;
}

static struct as_lane *add_lane(struct as_queue *u, uint32_t model, uint32_t cap)
{
    grow_lanes(u, model);
    AS_ASSERT(!u->lanes[model]);
    return u->lanes[model] = lane_new(model, cap);
}

void as_queue_add_lane(struct as_queue *u, uint32_t model, uint32_t cap)
{
    struct as_lane *l;
    struct as_list all;

    as_list_init(&all);
    if (u->fair)
        as_queue_pop_all(u, &all);
    l = add_lane(u, model, cap);
    push_all(u, &all);
    for (uint32_t p = 0; p < AS_PRIORITIES && !u->fair; p++) {
        AS_LIST_EACH(n, &u->fifo[p])
        {
            if (as_request_of(n)->model != model)
                continue;
            as_list_remove(n);
            as_list_push(&l->fifo[p], n);
            if (l->n++ == 0)
                as_list_push(&u->active, &l->node);
        }
    }
}

void as_queue_remove_lane(struct as_queue *u, uint32_t model)
{
    if (model >= u->n_lanes)
        return;
    AS_ASSERT(!u->lanes[model] || !as_queue_first_of_model(u, model));
    free_lane(u->lanes[model]);
    u->lanes[model] = NULL;
}

void as_queue_add_batching(struct as_queue *u, uint32_t model, uint32_t cap,
                           const struct as_batch_conf *conf)
{
    struct as_lane *l = model < u->n_lanes ? u->lanes[model] : NULL;

    if (!l)
        l = add_lane(u, model, cap);
    AS_ASSERT(!l->n && !l->batching);
    l->one_by_one = true;
    l->batching = as_xalloc(sizeof(*l->batching));
    l->batching->conf = *conf;
}

/* --- the first --- */

struct as_request *as_lane_first(const struct as_lane *l)
{
    struct as_request *q = NULL;

    for (uint32_t p = 0; !q && p < AS_PRIORITIES; p++)
        q = fifo_front(&l->fifo[p]);
    return q;
}

/* The first request of priority p that fits t, in the FIFO and all lanes, or `best` if that is
 * older; NULL: none. held: search lanes that are held back, too. */
static struct as_request *find_in_class(const struct as_queue *u,
                                        const struct as_replica_capacity *t, uint32_t p, bool held,
                                        struct as_request *best)
{
    struct as_request *q = t->may_execute ? fifo_front(&u->fifo[p]) : NULL;

    if (q && (!best || as_request_is_older(q, best)))
        best = q;
    AS_LIST_EACH_ENTRY(l, const struct as_lane, node, &u->active) {
        q = l->held_back && !held ? NULL : fifo_front(&l->fifo[p]);
        if (q && (!best || as_request_is_older(q, best)) &&
            (!t->of_model || as_lane_can_send(l, t)))
            best = q;
    }
    return best;
}

void as_queue_find(const struct as_queue *u, const struct as_replica_capacity *t,
                   struct as_request *best[AS_PRIORITIES])
{
    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        if (u->n_of[p])
            best[p] = find_in_class(u, t, p, false, best[p]);
    }
}

struct as_request *as_queue_choose(const struct as_queue *u,
                                   struct as_request *const best[AS_PRIORITIES])
{
    uint32_t classes = 0;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        classes |= best[p] ? 1u << p : 0;
    return classes ? best[as_share_choose(&u->share, classes)] : NULL;
}

struct as_request *as_queue_first_for(const struct as_queue *u, const struct as_replica_capacity *t)
{
    struct as_request *best[AS_PRIORITIES] = {0};

    as_queue_find(u, t, best);
    return as_queue_choose(u, best);
}

struct as_request *as_queue_first_of_lane(const struct as_queue *u, const struct as_lane *l)
{
    struct as_request *best[AS_PRIORITIES];

    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        best[p] = fifo_front(&l->fifo[p]);
    return as_queue_choose(u, best);
}

bool as_queue_has_lower(const struct as_queue *u, uint32_t priority,
                        const struct as_replica_capacity *t)
{
    bool lower = false;

    for (uint32_t p = priority + 1; !lower && p < AS_PRIORITIES; p++)
        lower = u->n_of[p] && find_in_class(u, t, p, false, NULL);
    return lower;
}

struct as_request *as_queue_front(const struct as_queue *u)
{
    static const struct as_replica_capacity any = {.may_execute = true};
    struct as_request *q = NULL;

    for (uint32_t p = 0; !q && p < AS_PRIORITIES; p++)
        q = u->n_of[p] ? find_in_class(u, &any, p, true, NULL) : NULL;
    return q;
}

struct as_request *as_queue_first_of_model(const struct as_queue *u, uint32_t model)
{
    const struct as_lane *l = u->lanes[model];
    struct as_request *q = as_lane_first(l);

    for (uint32_t k = 0; !q && l->batching && k < l->batching->n_kinds; k++)
        q = as_lane_first(l->batching->kinds[k]);
    return q;
}

void as_queue_pop_all(struct as_queue *u, struct as_list *all)
{
    struct as_request *q;

    while ((q = as_queue_front(u))) {
        as_queue_remove(u, q);
        as_list_push(all, &q->node);
    }
}

/* --- invariants --- */

static bool fifo_ok(const struct as_list *fifo, uint32_t p, const struct as_lane *l,
                    const struct as_queue *u, uint32_t *n)
{
    const struct as_request *before = NULL, *q = NULL;
    uint32_t in_flows = 0, had = *n;

    for (; (q = as_queue_next(fifo, q)); before = q, ++*n) {
        if (q->state != AS_REQ_QUEUED || q->priority != p || lane_of(u, q) != l)
            return false;
        if (before && !u->fair && !as_request_is_older(before, q))
            return false;
    }
    return !u->fair || (as_fair_ok(u->fair, fifo, &in_flows) && in_flows == *n - had);
}

/* The sums of a lane with batching must match its requests, which may all share a call. */
static bool batching_ok(const struct as_queue *u, const struct as_lane *l)
{
    const struct as_batch_conf *conf = &l->batching->conf;
    uint32_t items = 0, ready = 0;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        const struct as_request *q = NULL;

        while ((q = as_queue_next(&l->fifo[p], q))) {
            if (q->items > conf->max_size || (q->hold_until && q->hold_until < l->next_due))
                return false;
            if (!l->one_by_one &&
                (q->kind != l->kind || (u->alike && !u->alike(as_lane_first(l), q))))
                return false;
            items += q->items;
            ready += !q->hold_until;
        }
    }
    return items == l->items && ready == l->ready &&
           l->held_back == (l->n && !ready && !l->one_by_one && items < as_batch_enough(conf));
}

static bool lane_ok(const struct as_queue *u, const struct as_lane *l, uint32_t model,
                    uint32_t *total, uint32_t *holding)
{
    uint32_t n = 0;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        if (!fifo_ok(&l->fifo[p], p, l, u, &n))
            return false;
    }
    *total += n;
    *holding += l->held_back;
    return n == l->n && l->model == model && as_list_empty(&l->node) == (n == 0) &&
           (!l->batching || batching_ok(u, l));
}

bool as_queue_ok(const struct as_queue *u)
{
    uint32_t total = 0, holding = 0, of_all = 0;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        of_all += u->n_of[p];
        if (!fifo_ok(&u->fifo[p], p, NULL, u, &total))
            return false;
    }
    for (uint32_t i = 0; i < u->n_lanes; i++) {
        const struct as_batching *b = as_queue_batching(u, i);

        if (u->lanes[i] && !lane_ok(u, u->lanes[i], i, &total, &holding))
            return false;
        for (uint32_t k = 0; b && k < b->n_kinds; k++) {
            if (!lane_ok(u, b->kinds[k], i, &total, &holding))
                return false;
        }
    }
    return total == u->n && of_all == u->n && holding == u->n_held_back;
}
