/* Batches: the requests of one lane that go to a replica as one call. */
#include "core/dispatch/dispatch.h"

/* Counts the requests of the calls that wait, from the tail of `sent`. */
uint32_t as_dispatch_count_waiting(const struct as_replica *r)
{
    uint32_t calls = as_replica_front_calls(r) - r->slots, n = 0;
    const struct as_batch *last = NULL;

    for (const struct as_list *it = r->sent.prev; it != &r->sent; it = it->prev, n++) {
        const struct as_request *q = as_request_of(it);

        if (q->beyond) {
            n--;
            continue;
        }
        if ((!q->batch || q->batch != last) && calls-- == 0)
            break;
        last = q->batch;
    }
    return n;
}

static struct as_batch *acquire_batch(struct as_deployment *d)
{
    struct as_list *n = as_list_pop(&d->batch_pool);
    struct as_batch *b = n ? AS_LIST_ENTRY(n, struct as_batch, node) : as_xalloc(sizeof(*b));

    as_list_init(&b->node);
    b->n = b->items = 0;
    b->learned = b->counted = false;
    return b;
}

void as_dispatch_update_lane(struct as_deployment *d, struct as_lane *l, as_ns now)
{
    as_lane_update_due(&d->queue, l, now);
    if (l->held_back)
        d->ops.wake(d->ctx, l->next_due);
}

void as_dispatch_update_lanes(struct as_deployment *d, as_ns now)
{
    AS_LIST_EACH(n, &d->queue.active)
    {
        as_dispatch_update_lane(d, AS_LIST_ENTRY(n, struct as_lane, node), now);
    }
}

/* Ends requests of the lane whose deadline has passed before the timer fired. True: there were
 * some, so another lane may come first now. */
static bool expire_lane(struct as_deployment *d, struct as_lane *l, as_ns now)
{
    const struct as_due *due = as_due_heap_first(&d->deadlines);
    bool some = false, more = due && due->at <= now;

    while (more) { /* with fairness a walk may miss some that change their place */
        more = false;
        for (uint32_t p = 0; p < AS_PRIORITIES; p++) {
            struct as_request *q = as_queue_next(&l->fifo[p], NULL), *next;

            for (; q; q = next) {
                next = as_queue_next(&l->fifo[p], q);
                if (q->deadline > now)
                    continue;
                as_dispatch_dequeue(d, q, now);
                (void)as_dispatch_check_deadline(d, q, now);
                some = true;
                more = d->queue.fair != NULL;
            }
        }
    }
    return some;
}

/* Moves q and then the first requests of its lane to `to`, in order, until the next one does not
 * fit. */
static uint32_t collect_batch(struct as_deployment *d, struct as_lane *l, struct as_request *q,
                              struct as_list *to, uint32_t *ret_items)
{
    uint32_t limit = l->one_by_one ? 1 : as_batch_limit(&l->batching->conf, l->items), n = 0;

    *ret_items = 0;
    do {
        as_queue_take(&d->queue, q);
        as_list_push(to, &q->node);
        *ret_items += q->items;
        n++;
    } while ((q = as_lane_first(l)) && *ret_items + q->items <= limit);
    return n;
}

void as_dispatch_send_batch(struct as_replica *r, struct as_lane *l, struct as_request *first,
                            as_ns now)
{
    struct as_deployment *d = r->deployment;
    struct as_batch *b;
    struct as_list members, *it;
    uint32_t n, items;

    if (expire_lane(d, l, now) || as_dispatch_shed(d, first, now))
        return;
    as_dispatch_note_turn(r, first);
    as_list_init(&members);
    n = collect_batch(d, l, first, &members, &items);
    as_dispatch_update_lane(d, l, now);
    d->stat.batches++;
    as_hist_add(&d->stat.batch, items * AS_US);
    if (n == 1) {
        as_dispatch_send_call(r, as_request_of(as_list_pop(&members)), now);
        return;
    }
    b = acquire_batch(d);
    d->ops.batch(d->ctx, r, n);
    while ((it = as_list_pop(&members))) {
        struct as_request *q = as_request_of(it);

        q->batch = b;
        b->items += q->items;
        if (b->n++ == 0) {
            as_dispatch_send_call(r, q, now);
        } else {
            r->slotless++;
            d->ongoing++;
            as_dispatch_bind(r, q, now);
        }
    }
}

void as_dispatch_send_lane(struct as_deployment *d, struct as_lane *l, as_ns now)
{
    while (as_lane_is_due(l)) {
        struct as_request *q = as_queue_first_of_lane(&d->queue, l);
        struct as_replica *r = as_dispatch_find_free(d, q);

        if (!r)
            return;
        as_dispatch_send_batch(r, l, q, now);
    }
}
