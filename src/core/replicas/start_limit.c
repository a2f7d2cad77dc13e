#include "core/replicas/start_limit.h"

void as_start_limit_init(struct as_start_limit *a, uint32_t max)
{
    *a = (struct as_start_limit){.max = max};
    as_list_init(&a->line);
}

void as_start_request_init(struct as_start_request *s,
                           bool (*may_start)(struct as_start_request *s, as_ns now),
                           void (*on_start)(struct as_start_request *s, as_ns now))
{
    *s = (struct as_start_request){.may_start = may_start, .on_start = on_start};
    as_list_init(&s->node);
}

void as_start_limit_enqueue(struct as_start_limit *a, struct as_start_request *s)
{
    AS_ASSERT(!s->counted && !as_start_request_is_queued(s));
    as_list_push(&a->line, &s->node);
}

void as_start_limit_count(struct as_start_limit *a, struct as_start_request *s)
{
    AS_ASSERT(!s->counted && !as_start_request_is_queued(s));
    s->counted = true;
    a->n++;
}

void as_start_limit_remove(struct as_start_limit *a, struct as_start_request *s)
{
    as_list_remove(&s->node);
    a->n -= s->counted;
    s->counted = false;
}

void as_start_limit_admit(struct as_start_limit *a, as_ns now)
{
    AS_LIST_EACH(node, &a->line)
    {
        struct as_start_request *s = AS_LIST_ENTRY(node, struct as_start_request, node);

        if (a->n >= a->max)
            return;
        if (!s->may_start(s, now))
            continue;
        as_list_remove(node);
        as_start_limit_count(a, s);
        s->on_start(s, now);
    }
}
