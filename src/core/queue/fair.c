#include "core/queue/fair.h"

struct as_fair *as_fair_new(enum as_fair_cost cost)
{
    struct as_fair *f = as_xalloc(sizeof(*f));

    f->cost = cost;
    as_list_init(&f->unused);
    for (uint32_t i = 0; i < AS_FAIR_ROWS; i++)
        as_list_init(&f->tenants[i].flows);
    return f;
}

void as_fair_free(struct as_fair *f)
{
    struct as_list *n;

    if (!f)
        return;
    while ((n = as_list_pop(&f->unused)))
        free(AS_LIST_ENTRY(n, struct as_flow, node));
    free(f);
}

/* --- tenants --- */

/* It says nothing: a new tenant begins at the same place. */
static bool is_spent(const struct as_fair *f, const struct as_tenant *t)
{
    for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
        if (t->served[p] > f->now[p])
            return false;
    }
    return !t->waiting;
}

/* The row of a tenant. NULL: it has none and needs one. */
static struct as_tenant *find_row(const struct as_fair *f, uint64_t key)
{
    uint32_t first = (uint32_t)(key % (AS_FAIR_ROWS / AS_FAIR_WAYS)) * AS_FAIR_WAYS;

    for (uint32_t i = first; i < first + AS_FAIR_WAYS; i++) {
        if (f->tenants[i].key == key)
            return (struct as_tenant *)(uintptr_t)&f->tenants[i];
    }
    return NULL;
}

static struct as_tenant *get_row(struct as_fair *f, uint64_t key)
{
    uint32_t first = (uint32_t)(key % (AS_FAIR_ROWS / AS_FAIR_WAYS)) * AS_FAIR_WAYS;
    struct as_tenant *t = find_row(f, key);

    for (uint32_t i = first; !t && i < first + AS_FAIR_WAYS; i++) {
        if (!is_spent(f, &f->tenants[i]))
            continue;
        t = &f->tenants[i];
        t->key = key;
    }
    return t ? t : &f->tenants[first + (key >> 32) % AS_FAIR_WAYS];
}

uint32_t as_fair_waiting(const struct as_fair *f, uint64_t tenant)
{
    const struct as_tenant *t = find_row(f, tenant);

    return t ? t->waiting : 0;
}

uint64_t as_fair_tag(const struct as_fair *f, const struct as_request *q)
{
    const struct as_tenant *t = find_row(f, q->tenant);
    uint64_t now = f->now[q->priority];

    return t ? AS_MAX(t->served[q->priority], now) : now;
}

/* --- flows --- */

static struct as_flow *find_flow(const struct as_tenant *t, const struct as_list *fifo)
{
    AS_LIST_EACH_ENTRY(w, struct as_flow, node, &t->flows) {
        if (w->fifo == fifo)
            return w;
    }
    return NULL;
}

static struct as_flow *add_flow(struct as_fair *f, struct as_tenant *t, const struct as_list *fifo)
{
    struct as_list *n = as_list_pop(&f->unused);
    struct as_flow *w = n ? AS_LIST_ENTRY(n, struct as_flow, node) : as_xalloc(sizeof(*w));

    w->tenant = t;
    w->fifo = fifo;
    as_list_init(&w->rest);
    as_list_push(&t->flows, &w->node);
    return w;
}

/* Most new tags are near one end: that of an idle tenant is the present, the others come after
 * those of the tenants that were served less. */
static void set_first(struct as_fair *f, struct as_list *fifo, struct as_flow *w,
                      struct as_request *q, uint64_t tag)
{
    struct as_list *at = fifo->prev;

    w->first = q;
    q->tag = tag;
    if (tag > f->now[q->priority]) {
        while (at != fifo && as_request_is_older(q, as_request_of(at)))
            at = at->prev;
    } else {
        at = fifo;
        while (at->next != fifo && !as_request_is_older(q, as_request_of(at->next)))
            at = at->next;
    }
    as_list_insert_after(at, &q->node);
}

static void insert_by_age(struct as_list *rest, struct as_request *q)
{
    struct as_list *at = rest->prev;

    while (at != rest && as_request_is_older(q, as_request_of(at)))
        at = at->prev;
    as_list_insert_after(at, &q->node);
}

static bool came_before(const struct as_request *q, const struct as_request *other)
{
    return q->root != other->root ? q->root < other->root : q->order < other->order;
}

void as_fair_insert(struct as_fair *f, struct as_list *fifo, struct as_request *q)
{
    struct as_tenant *t = get_row(f, q->tenant);
    struct as_flow *w = find_flow(t, fifo);
    struct as_request *first = w ? w->first : NULL;

    t->waiting++;
    if (!first) {
        q->flow = w = add_flow(f, t, fifo);
        set_first(f, fifo, w, q, AS_MAX(f->now[q->priority], t->served[q->priority]));
        return;
    }
    q->flow = w;
    if (!came_before(q, first)) {
        insert_by_age(&w->rest, q);
        return;
    }
    as_list_remove(&first->node); /* q is a retry, or was made by an older request */
    set_first(f, fifo, w, q, first->tag);
    first->tag = 0;
    insert_by_age(&w->rest, first);
}

void as_fair_remove(struct as_fair *f, struct as_list *fifo, struct as_request *q)
{
    struct as_flow *w = q->flow;
    uint64_t tag = AS_MAX(q->tag, f->now[q->priority]);
    struct as_list *next;

    AS_ASSERT(w && w->fifo == fifo && w->tenant->waiting > 0);
    as_list_remove(&q->node);
    w->tenant->waiting--;
    q->flow = NULL;
    q->tag = 0;
    if (w->first != q)
        return;
    next = as_list_pop(&w->rest);
    if (next) {
        set_first(f, fifo, w, as_request_of(next), tag);
        return;
    }
    as_list_remove(&w->node);
    as_list_push(&f->unused, &w->node);
}

static uint32_t cost_of(const struct as_fair *f, const struct as_request *q)
{
    switch (f->cost) {
    case AS_FAIR_COST_ITEMS:
        return q->items;
    case AS_FAIR_COST_SAID:
        return AS_MIN(q->cost, AS_FAIR_COST_MAX);
    case AS_FAIR_COST_REQUEST:
    default:
        return 1;
    }
}

void as_fair_charge(struct as_fair *f, struct as_request *q)
{
    struct as_tenant *t = q->flow ? q->flow->tenant : get_row(f, q->tenant);
    uint64_t *served = &t->served[q->priority], *now = &f->now[q->priority];
    bool is_first = q->flow && q->flow->first == q;

    if (is_first)
        *now = AS_MAX(*now, q->tag);
    if (q->charged)
        return;
    q->charged = true;
    *served = AS_MAX(*served, is_first ? q->tag : *now) + cost_of(f, q);
    if (!q->flow) /* it went for all that wait elsewhere, too */
        *now = AS_MAX(*now, *served - cost_of(f, q));
    if (is_first)
        q->tag = *served; /* for the next one: as_fair_remove */
}

/* --- invariants --- */

static bool flow_ok(const struct as_flow *w, const struct as_list *fifo, uint32_t *ret_n)
{
    const struct as_request *before = w->first;

    for (const struct as_list *it = w->rest.next; it != &w->rest; it = it->next, ++*ret_n) {
        const struct as_request *q = as_request_of(it);

        if (q->flow != w || q->tag || !came_before(before, q))
            return false;
        before = q;
    }
    ++*ret_n;
    return w->fifo == fifo && find_flow(w->tenant, fifo) == w;
}

bool as_fair_ok(const struct as_fair *f, const struct as_list *fifo, uint32_t *ret_n)
{
    const struct as_request *before = NULL;

    for (const struct as_list *it = fifo->next; it != fifo; it = it->next) {
        const struct as_request *q = as_request_of(it);

        if (!q->flow || q->flow->first != q || !flow_ok(q->flow, fifo, ret_n))
            return false;
        if (q->flow->tenant < f->tenants || q->flow->tenant >= f->tenants + AS_FAIR_ROWS)
            return false;
        if (before && as_request_is_older(q, before))
            return false;
        before = q;
    }
    return true;
}
