#include "core/protect/blame.h"

static struct as_blame_entry *entry_of(struct as_list *n)
{
    return AS_LIST_ENTRY(n, struct as_blame_entry, node);
}

void as_blame_init(struct as_blame *b, const struct as_blame_conf *conf)
{
    *b = (struct as_blame){.conf = *conf};
    as_list_init(&b->entries);
}

static void remove_entry(struct as_blame *b, struct as_blame_entry *e)
{
    AS_ASSERT(!e->n_requests && !e->in_quarantine);
    as_list_remove(&e->node);
    b->n--;
    free(e);
}

void as_blame_fini(struct as_blame *b)
{
    AS_LIST_EACH(n, &b->entries) remove_entry(b, entry_of(n));
}

bool as_blame_may_match(const struct as_blame *b, uint32_t model, uint64_t size)
{
    for (const struct as_list *n = b->entries.next; n != &b->entries; n = n->next) {
        const struct as_blame_entry *e =
            AS_LIST_ENTRY((struct as_list *)(uintptr_t)n, struct as_blame_entry, node);

        if (e->fingerprint.size == size && e->fingerprint.model == model)
            return true;
    }
    return false;
}

struct as_blame_entry *as_blame_find_similar(struct as_blame *b, const struct as_fingerprint *p)
{
    AS_LIST_EACH(n, &b->entries)
    {
        struct as_blame_entry *e = entry_of(n);

        if (e->fingerprint.sample == p->sample && e->fingerprint.size == p->size &&
            e->fingerprint.model == p->model)
            return e;
    }
    return NULL;
}

static void renew_entry(struct as_blame *b, struct as_blame_entry *e, as_ns now)
{
    as_list_remove(&e->node);
    as_list_push(&b->entries, &e->node);
    e->until = now + b->conf.ttl;
}

/* If its time is over: poison becomes a suspect for as long again, and a suspect is removed unless
 * it is in use. True: it was removed. */
static bool expire_entry(struct as_blame *b, struct as_blame_entry *e, as_ns now)
{
    if (e->until > now)
        return false;
    if (e->state == AS_BLAME_POISON || e->n_requests) {
        e->state = AS_BLAME_SUSPECT;
        e->proven = false;
        renew_entry(b, e, now);
        return false;
    }
    remove_entry(b, e);
    return true;
}

/* The list is in the order of `until`. */
void as_blame_expire(struct as_blame *b, as_ns now)
{
    while (b->n && entry_of(b->entries.next)->until <= now)
        (void)expire_entry(b, entry_of(b->entries.next), now);
}

struct as_blame_entry *as_blame_find(struct as_blame *b, const struct as_fingerprint *p, as_ns now)
{
    AS_LIST_EACH(n, &b->entries)
    {
        struct as_blame_entry *e = entry_of(n);

        if (as_fingerprint_eq(&e->fingerprint, p))
            return expire_entry(b, e, now) ? NULL : e;
    }
    return NULL;
}

/* Removes the oldest unused entry; a suspect first, since it may be harmless. */
static bool evict_one(struct as_blame *b)
{
    for (int state = AS_BLAME_SUSPECT; state <= AS_BLAME_POISON; state++) {
        AS_LIST_EACH(n, &b->entries)
        {
            struct as_blame_entry *e = entry_of(n);

            if (e->state == (enum as_blame_state)state && !e->n_requests) {
                remove_entry(b, e);
                return true;
            }
        }
    }
    return false;
}

struct as_blame_entry *as_blame_add_suspect(struct as_blame *b, const struct as_fingerprint *p,
                                            as_ns now)
{
    struct as_blame_entry *e;

    as_blame_expire(b, now);
    e = as_blame_find(b, p, now);
    if (!e) {
        if (!b->conf.max || (b->n >= b->conf.max && !evict_one(b)))
            return NULL;
        e = as_xalloc(sizeof(*e));
        e->fingerprint = *p;
        as_list_init(&e->node);
        b->n++;
    }
    renew_entry(b, e, now);
    return e;
}

struct as_blame_entry *as_blame_add(struct as_blame *b, const struct as_fingerprint *p, bool alone,
                                    as_ns ran, as_ns now)
{
    struct as_blame_entry *e = as_blame_add_suspect(b, p, now);

    if (!e)
        return NULL;
    e->deaths_caused++;
    e->longest_run = AS_MAX(e->longest_run, ran);
    e->proven = e->proven || alone;
    if (e->proven && e->deaths_caused > 1)
        e->state = AS_BLAME_POISON;
    return e;
}

void as_blame_remove(struct as_blame *b, struct as_blame_entry *e)
{
    remove_entry(b, e);
}

void as_blame_forget_model(struct as_blame *b, uint32_t model)
{
    AS_LIST_EACH(n, &b->entries)
    {
        if (entry_of(n)->fingerprint.model == model)
            remove_entry(b, entry_of(n));
    }
}

uint32_t as_blame_poisons(const struct as_blame *b)
{
    uint32_t n = 0;

    for (const struct as_list *i = b->entries.next; i != &b->entries; i = i->next)
        n += AS_LIST_ENTRY((struct as_list *)(uintptr_t)i, struct as_blame_entry, node)->state ==
             AS_BLAME_POISON;
    return n;
}

bool as_blame_ok(const struct as_blame *b)
{
    uint32_t n = 0;

    for (const struct as_list *i = b->entries.next; i != &b->entries; i = i->next, n++) {
        const struct as_blame_entry *e =
            AS_LIST_ENTRY((struct as_list *)(uintptr_t)i, struct as_blame_entry, node);

        if ((!e->deaths_caused && !e->n_requests) || (e->in_quarantine && !e->n_requests))
            return false;
    }
    return n == b->n && n <= b->conf.max;
}
