#include "core/queue.h"

static struct as_request *request_of(const struct as_list *n)
{
    return AS_LIST_ENTRY((struct as_list *)(uintptr_t)n, struct as_request, node);
}

void as_queue_init(struct as_queue *u)
{
    *u = (struct as_queue){0};
    for (uint32_t p = 0; p < AS_PRIORITIES; p++)
        as_list_init(&u->fifo[p]);
    as_list_init(&u->active);
}

void as_queue_fini(struct as_queue *u)
{
    AS_ASSERT(u->n == 0);
    for (uint32_t i = 0; i < u->n_lanes; i++)
        free(u->lanes[i]);
    free(u->lanes);
    *u = (struct as_queue){0};
}

static struct as_lane *lane_of(const struct as_queue *u, const struct as_request *q)
{
    return q->model < u->n_lanes ? u->lanes[q->model] : NULL;
}

static void insert(struct as_list *fifo, struct as_request *q)
{
    struct as_list *at = fifo->prev;

    if (at != fifo && request_of(at)->order > q->order) {
        at = fifo;
        while (request_of(at->next)->order < q->order)
            at = at->next;
    }
    as_list_insert_after(at, &q->node);
}

static void lane_in(struct as_queue *u, struct as_lane *l)
{
    if (l->n++ == 0)
        as_list_push(&u->active, &l->node);
}

void as_queue_push(struct as_queue *u, struct as_request *q)
{
    struct as_lane *l = lane_of(u, q);

    insert(l ? &l->fifo[q->priority] : &u->fifo[q->priority], q);
    if (l)
        lane_in(u, l);
    u->n++;
}

void as_queue_remove(struct as_queue *u, struct as_request *q)
{
    struct as_lane *l = lane_of(u, q);

    AS_ASSERT(u->n > 0 && !as_list_empty(&q->node));
    as_list_remove(&q->node);
    if (l && --l->n == 0)
        as_list_remove(&l->node);
    u->n--;
}

static void make_room(struct as_queue *u, uint32_t model)
{
    if (model < u->n_lanes)
        return;
    u->lanes = as_xrealloc(u->lanes, (model + 1) * sizeof(struct as_lane *));
    while (u->n_lanes <= model)
        u->lanes[u->n_lanes++] = NULL;
}

void as_queue_restrict(struct as_queue *u, uint32_t model, uint32_t cap)
{
    struct as_lane *l = as_xalloc(sizeof(*l));

    make_room(u, model);
    AS_ASSERT(!u->lanes[model]);
    u->lanes[model] = l;
    l->model = model;
    l->cap = cap;
    as_list_init(&l->node);
    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        as_list_init(&l->fifo[p]);
        AS_LIST_EACH(n, &u->fifo[p])
        {
            if (request_of(n)->model != model)
                continue;
            as_list_remove(n);
            as_list_push(&l->fifo[p], n);
            lane_in(u, l);
        }
    }
}

static struct as_request *first_of(const struct as_list *fifo)
{
    return as_list_empty(fifo) ? NULL : request_of(fifo->next);
}

struct as_request *as_queue_first(const struct as_queue *u, const uint32_t *of_model,
                                  uint32_t slots)
{
    for (uint32_t p = 0; u->n && p < AS_PRIORITIES; p++) {
        struct as_request *best = first_of(&u->fifo[p]);

        AS_LIST_EACH(n, &u->active)
        {
            const struct as_lane *l = AS_LIST_ENTRY(n, struct as_lane, node);
            struct as_request *q = first_of(&l->fifo[p]);

            if (q && (!best || q->order < best->order) && as_lane_fits(l, of_model, slots))
                best = q;
        }
        if (best)
            return best;
    }
    return NULL;
}

struct as_request *as_queue_any(const struct as_queue *u)
{
    return as_queue_first(u, NULL, 0);
}

static bool fifo_ok(const struct as_list *fifo, uint32_t p, const struct as_lane *l,
                    const struct as_queue *u, uint32_t *n)
{
    uint64_t order = 0;

    for (const struct as_list *it = fifo->next; it != fifo; it = it->next, ++*n) {
        const struct as_request *q = request_of(it);

        if (q->state != AS_REQ_QUEUED || q->priority != p || lane_of(u, q) != l)
            return false;
        if (it != fifo->next && q->order <= order)
            return false;
        order = q->order;
    }
    return true;
}

bool as_queue_ok(const struct as_queue *u)
{
    uint32_t total = 0;

    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        if (!fifo_ok(&u->fifo[p], p, NULL, u, &total))
            return false;
    }
    for (uint32_t i = 0; i < u->n_lanes; i++) {
        const struct as_lane *l = u->lanes[i];
        uint32_t n = 0;

        if (!l)
            continue;
        for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
            if (!fifo_ok(&l->fifo[p], p, l, u, &n))
                return false;
        }
        if (n != l->n || l->model != i || as_list_empty(&l->node) != (n == 0))
            return false;
        total += n;
    }
    return total == u->n;
}
