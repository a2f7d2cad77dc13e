#include "core/route/sticky.h"

#include "core/route/hash.h"

struct as_sticky_entry {
    uint64_t key;
    struct as_sticky_member *member;
    as_ns used;
    struct as_list by_use, of_member;
    UT_hash_handle hh;
};

void as_sticky_init(struct as_sticky *t, uint32_t max, as_ns ttl)
{
    AS_ASSERT(max > 0);
    *t = (struct as_sticky){.max = max, .ttl = ttl};
    as_list_init(&t->by_use);
}

static void remove_entry(struct as_sticky *t, struct as_sticky_entry *e)
{
    HASH_DEL(t->by_key, e);
    as_list_remove(&e->by_use);
    as_list_remove(&e->of_member);
    free(e);
    t->n--;
}

void as_sticky_fini(struct as_sticky *t)
{
    AS_LIST_EACH(n, &t->by_use)
    {
        remove_entry(t, AS_LIST_ENTRY(n, struct as_sticky_entry, by_use));
    }
}

static struct as_sticky_entry *find_entry(const struct as_sticky *t, uint64_t key)
{
    struct as_sticky_entry *e;

    HASH_FIND(hh, t->by_key, &key, sizeof(key), e);
    return e;
}

struct as_sticky_member *as_sticky_find(struct as_sticky *t, uint64_t key, as_ns now)
{
    struct as_sticky_entry *e = find_entry(t, key);

    if (e && e->used + t->ttl <= now) {
        remove_entry(t, e);
        return NULL;
    }
    return e ? e->member : NULL;
}

void as_sticky_put(struct as_sticky *t, uint64_t key, struct as_sticky_member *m, as_ns now)
{
    struct as_sticky_entry *e = find_entry(t, key);

    if (!e) {
        if (t->n == t->max)
            remove_entry(t, AS_LIST_ENTRY(t->by_use.next, struct as_sticky_entry, by_use));
        e = as_xalloc(sizeof(*e));
        e->key = key;
        as_list_init(&e->by_use);
        as_list_init(&e->of_member);
        HASH_ADD(hh, t->by_key, key, sizeof(key), e);
        t->n++;
    }
    e->used = now;
    as_list_remove(&e->by_use);
    as_list_push(&t->by_use, &e->by_use);
    if (e->member == m)
        return;
    e->member = m;
    as_list_remove(&e->of_member);
    as_list_push(&m->keys, &e->of_member);
}

void as_sticky_forget(struct as_sticky *t, struct as_sticky_member *m)
{
    AS_LIST_EACH(n, &m->keys)
    {
        remove_entry(t, AS_LIST_ENTRY(n, struct as_sticky_entry, of_member));
    }
}
