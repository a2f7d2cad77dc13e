#include "core/protect/blame.h"

static struct as_blamed *entry_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_blamed, node);
}

void as_blame_init(struct as_blame *b, const struct as_blame_conf *conf)
{
    *b = (struct as_blame){.conf = *conf};
    as_list_init(&b->entries);
}

static void drop(struct as_blame *b, struct as_blamed *e)
{
    AS_ASSERT(!e->waiting && !e->trying);
    as_list_remove(&e->node);
    b->n--;
    free(e);
}

void as_blame_fini(struct as_blame *b)
{
    AS_LIST_EACH(n, &b->entries) drop(b, entry_of(n));
}

static bool same(const struct as_print *a, const struct as_print *b)
{
    return a->lo == b->lo && a->hi == b->hi && a->size == b->size && a->model == b->model;
}

bool as_blame_may_know(const struct as_blame *b, uint32_t model, uint64_t size)
{
    for (const struct as_list *n = b->entries.next; n != &b->entries; n = n->next) {
        const struct as_blamed *e =
            AS_LIST_ENTRY((struct as_list *)(uintptr_t)n, struct as_blamed, node);

        if (e->print.size == size && e->print.model == model)
            return true;
    }
    return false;
}

struct as_blamed *as_blame_like(struct as_blame *b, const struct as_print *p)
{
    AS_LIST_EACH(n, &b->entries)
    {
        struct as_blamed *e = entry_of(n);

        if (e->print.sample == p->sample && e->print.size == p->size && e->print.model == p->model)
            return e;
    }
    return NULL;
}

static void renew(struct as_blame *b, struct as_blamed *e, as_ns now)
{
    as_list_remove(&e->node);
    as_list_push(&b->entries, &e->node);
    e->until = now + b->conf.ttl;
}

/* Its time is over: condemned, it is on probation for as long again; a suspect is forgotten. True:
 * it has gone. */
static bool age(struct as_blame *b, struct as_blamed *e, as_ns now)
{
    if (e->until > now)
        return false;
    if (e->state == AS_BLAME_CONDEMNED || e->waiting) {
        e->state = AS_BLAME_SUSPECT;
        e->proved = false;
        renew(b, e, now);
        return false;
    }
    drop(b, e);
    return true;
}

/* The list is in the order of `until`. */
void as_blame_expire(struct as_blame *b, as_ns now)
{
    while (b->n && entry_of(b->entries.next)->until <= now)
        (void)age(b, entry_of(b->entries.next), now);
}

struct as_blamed *as_blame_find(struct as_blame *b, const struct as_print *p, as_ns now)
{
    AS_LIST_EACH(n, &b->entries)
    {
        struct as_blamed *e = entry_of(n);

        if (same(&e->print, p))
            return age(b, e, now) ? NULL : e;
    }
    return NULL;
}

/* One that nobody waits as: rather a suspect, who may be innocent. */
static bool make_room(struct as_blame *b)
{
    for (int state = AS_BLAME_SUSPECT; state <= AS_BLAME_CONDEMNED; state++) {
        AS_LIST_EACH(n, &b->entries)
        {
            struct as_blamed *e = entry_of(n);

            if (e->state == (enum as_blame_state)state && !e->waiting) {
                drop(b, e);
                return true;
            }
        }
    }
    return false;
}

struct as_blamed *as_blame_suspect(struct as_blame *b, const struct as_print *p, as_ns now)
{
    struct as_blamed *e;

    as_blame_expire(b, now);
    e = as_blame_find(b, p, now);
    if (!e) {
        if (!b->conf.max || (b->n >= b->conf.max && !make_room(b))) {
            b->missed++;
            return NULL;
        }
        e = as_xalloc(sizeof(*e));
        e->print = *p;
        as_list_init(&e->node);
        b->n++;
    }
    renew(b, e, now);
    return e;
}

struct as_blamed *as_blame_add(struct as_blame *b, const struct as_print *p, bool on_trial,
                               as_ns ran, as_ns now)
{
    struct as_blamed *e = as_blame_suspect(b, p, now);

    if (!e)
        return NULL;
    e->kills++;
    e->ran = AS_MAX(e->ran, ran);
    e->proved = e->proved || on_trial;
    if (e->proved && e->kills > 1)
        e->state = AS_BLAME_CONDEMNED;
    return e;
}

void as_blame_acquit(struct as_blame *b, struct as_blamed *e)
{
    drop(b, e);
}

void as_blame_forget(struct as_blame *b, uint32_t model)
{
    AS_LIST_EACH(n, &b->entries)
    {
        if (entry_of(n)->print.model == model)
            drop(b, entry_of(n));
    }
}

uint32_t as_blame_condemned(const struct as_blame *b)
{
    uint32_t n = 0;

    for (const struct as_list *i = b->entries.next; i != &b->entries; i = i->next)
        n += AS_LIST_ENTRY((struct as_list *)(uintptr_t)i, struct as_blamed, node)->state ==
             AS_BLAME_CONDEMNED;
    return n;
}

bool as_blame_ok(const struct as_blame *b)
{
    uint32_t n = 0;

    for (const struct as_list *i = b->entries.next; i != &b->entries; i = i->next, n++) {
        const struct as_blamed *e =
            AS_LIST_ENTRY((struct as_list *)(uintptr_t)i, struct as_blamed, node);

        if ((!e->kills && !e->waiting) || (e->trying && !e->waiting))
            return false;
    }
    return n == b->n && n <= b->conf.max;
}
