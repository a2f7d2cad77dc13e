#include "core/queue/request.h"

#define BIT(s) (1u << (s))

const uint8_t as_request_transitions[] = {
    [AS_REQ_NEW] = BIT(AS_REQ_QUEUED) | BIT(AS_REQ_DONE),
    [AS_REQ_QUEUED] = BIT(AS_REQ_SENT) | BIT(AS_REQ_DONE),
    [AS_REQ_SENT] = BIT(AS_REQ_QUEUED) | BIT(AS_REQ_ABANDONED) | BIT(AS_REQ_PARKED) |
                    BIT(AS_REQ_RETAINED) | BIT(AS_REQ_DONE),
    [AS_REQ_ABANDONED] = BIT(AS_REQ_RETAINED) | BIT(AS_REQ_DONE),
    [AS_REQ_PARKED] = BIT(AS_REQ_QUEUED) | BIT(AS_REQ_RETAINED) | BIT(AS_REQ_DONE),
    [AS_REQ_RETAINED] = BIT(AS_REQ_DONE),
    [AS_REQ_DONE] = 0,
};

void as_request_init(struct as_request *q)
{
    *q = (struct as_request){
        .priority = 1, .cost = 1, .items = 1, .deadline = AS_NEVER, .heap_index = SIZE_MAX};
    as_list_init(&q->node);
    as_list_init(&q->hedge_node);
}

bool as_request_ok(const struct as_request *q)
{
    bool held = q->state == AS_REQ_SENT || q->state == AS_REQ_ABANDONED;
    bool timed = q->state == AS_REQ_QUEUED || q->state == AS_REQ_SENT || q->state == AS_REQ_PARKED;

    if (q->priority >= AS_PRIORITIES || held != (q->replica != NULL))
        return false;
    if (!held && (q->recalled || q->started || q->batch || q->beyond))
        return false;
    if (q->beyond && (!q->on_cycle || q->recalled || q->batch))
        return false;
    if (q->reservation == AS_RESERVATION_HELD &&
        (q->state != AS_REQ_SENT || q->recalled || q->batch))
        return false;
    if (held && !q->attempts)
        return false;
    if ((q->twin || q->hedge == AS_HEDGE_WATCHED || q->hedge == AS_HEDGE_DUE) &&
        q->state != AS_REQ_SENT)
        return false;
    if (!q->items || !q->cost || ((q->lane || q->flow || q->tag) && q->state != AS_REQ_QUEUED))
        return false;
    return (q->heap_index != SIZE_MAX) == (timed && q->deadline != AS_NEVER);
}

const char *as_request_state_name(enum as_request_state s)
{
    static const char *const names[] = {"NEW",    "QUEUED",   "SENT", "ABANDONED",
                                        "PARKED", "RETAINED", "DONE"};

    return (size_t)s < AS_COUNT(names) ? names[s] : "?";
}
