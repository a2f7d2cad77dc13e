#include "core/replicas/start_limit.h"

void as_starts_init(struct as_starts *a, uint32_t max)
{
    *a = (struct as_starts){.max = max};
    as_list_init(&a->line);
}

void as_start_init(struct as_start *s, bool (*may)(struct as_start *s, as_ns now),
                   void (*go)(struct as_start *s, as_ns now))
{
    *s = (struct as_start){.may = may, .go = go};
    as_list_init(&s->place);
}

void as_starts_ask(struct as_starts *a, struct as_start *s)
{
    AS_ASSERT(!s->counted && !as_start_waits(s));
    as_list_push(&a->line, &s->place);
}

void as_starts_count(struct as_starts *a, struct as_start *s)
{
    AS_ASSERT(!s->counted && !as_start_waits(s));
    s->counted = true;
    a->n++;
}

void as_starts_leave(struct as_starts *a, struct as_start *s)
{
    as_list_remove(&s->place);
    a->n -= s->counted;
    s->counted = false;
}

void as_starts_admit(struct as_starts *a, as_ns now)
{
    AS_LIST_EACH(node, &a->line)
    {
        struct as_start *s = AS_LIST_ENTRY(node, struct as_start, place);

        if (a->n >= a->max)
            return;
        if (!s->may(s, now))
            continue;
        as_list_remove(node);
        as_starts_count(a, s);
        s->go(s, now);
    }
}
