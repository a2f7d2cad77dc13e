#include "core/keys/key_table.h"

#include "base/digest/secret.h"
#include "base/memory/slab.h"

#include <stdlib.h>

#define SLOTS_MIN 64u

/* Open addressing, at most half full. Digests are as good as random, so any bits of them spread. */
struct as_key_table {
    uint32_t refs, n, most, n_slots; /* n_slots: a power of two */
    struct as_key **by_digest;       /* owns a reference to each */
    struct as_key **by_name;         /* NULL when sealed */
};

static size_t place_of_digest(const struct as_key_table *t, const uint8_t *digest)
{
    uint32_t bits;

    memcpy(&bits, digest, sizeof(bits));
    return bits & (t->n_slots - 1);
}

static size_t place_of_name(const struct as_key_table *t, struct as_str name)
{
    uint64_t h = as_str_hash(name);

    return (h ^ h >> 32) & (t->n_slots - 1);
}

static void put(const struct as_key_table *t, struct as_key **slots, size_t at, struct as_key *k)
{
    while (slots[at])
        at = (at + 1) & (t->n_slots - 1);
    slots[at] = k;
}

/* From slabs: tables come and go with the file, and in malloc's heap their pages would stay. */
static struct as_key **new_slots(uint32_t n)
{
    struct as_key **slots = as_slab_get(n * sizeof(struct as_key *));

    return slots ? memset(slots, 0, n * sizeof(struct as_key *)) : NULL;
}

static bool set_slots(struct as_key_table *t, uint32_t n_slots)
{
    struct as_key **old = t->by_digest, **by_digest = new_slots(n_slots);
    struct as_key **by_name = new_slots(n_slots);
    uint32_t n_old = t->n_slots;

    if (!by_digest || !by_name) {
        as_slab_put(by_digest);
        as_slab_put(by_name);
        return false;
    }
    as_slab_put(t->by_name);
    t->by_digest = by_digest;
    t->by_name = by_name;
    t->n_slots = n_slots;
    for (uint32_t i = 0; i < n_old; i++) {
        if (!old[i])
            continue;
        put(t, by_digest, place_of_digest(t, old[i]->digest), old[i]);
        put(t, by_name, place_of_name(t, as_key_name(old[i])), old[i]);
    }
    as_slab_put(old);
    return true;
}

struct as_key_table *as_key_table_new(uint32_t most)
{
    struct as_key_table *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->refs = 1;
    t->most = most;
    if (set_slots(t, SLOTS_MIN))
        return t;
    free(t);
    return NULL;
}

struct as_key *as_key_table_find(const struct as_key_table *t,
                                 const uint8_t digest[AS_SHA256_BYTES])
{
    struct as_key *k;

    for (size_t at = place_of_digest(t, digest); (k = t->by_digest[at]) != NULL;
         at = (at + 1) & (t->n_slots - 1)) {
        if (as_secret_equal(k->digest, digest, AS_SHA256_BYTES))
            return k;
    }
    return NULL;
}

static bool has_name(const struct as_key_table *t, struct as_str name)
{
    struct as_key *k;

    for (size_t at = place_of_name(t, name); (k = t->by_name[at]) != NULL;
         at = (at + 1) & (t->n_slots - 1)) {
        if (as_str_eq(as_key_name(k), name))
            return true;
    }
    return false;
}

int as_key_table_add(struct as_key_table *t, const struct as_key_line *line,
                     const struct as_key_table *former, struct as_buf *err)
{
    struct as_key *k = former ? as_key_table_find(former, line->digest) : NULL;

    if (has_name(t, line->name)) {
        as_buf_printf(err, "there are two keys with the name '%.*s'", AS_STR_FMT(line->name));
        return AS_EINVALID;
    }
    if (as_key_table_find(t, line->digest)) {
        as_buf_str(err, "another line has the same 'sha256'");
        return AS_EINVALID;
    }
    if (t->n == t->most) {
        as_buf_printf(err, "there are more than %u keys", t->most);
        return AS_EFULL;
    }
    if (k && !as_str_eq(as_key_name(k), line->name))
        k = NULL;
    k = 2 * (t->n + 1) <= t->n_slots || set_slots(t, 2 * t->n_slots) ? as_key_new(line, k) : NULL;
    if (!k) {
        as_buf_str(err, "out of memory");
        return AS_ENOMEM;
    }
    put(t, t->by_digest, place_of_digest(t, k->digest), k);
    put(t, t->by_name, place_of_name(t, as_key_name(k)), k);
    t->n++;
    return 0;
}

void as_key_table_seal(struct as_key_table *t)
{
    as_slab_put(t->by_name);
    t->by_name = NULL;
}

void as_key_table_retire(const struct as_key_table *former, const struct as_key_table *t)
{
    for (uint32_t i = 0; former && i < former->n_slots; i++) {
        struct as_key *k = former->by_digest[i];

        if (k && (!t || as_key_table_find(t, k->digest) != k))
            __atomic_store_n(&k->retired, true, __ATOMIC_RELAXED);
    }
}

struct as_key_table *as_key_table_ref(struct as_key_table *t)
{
    __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

void as_key_table_unref(struct as_key_table *t)
{
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL))
        return;
    for (uint32_t i = 0; i < t->n_slots; i++)
        as_key_unref(t->by_digest[i]);
    as_slab_put(t->by_digest);
    as_slab_put(t->by_name);
    free(t);
}

uint32_t as_key_table_count(const struct as_key_table *t)
{
    return t->n;
}
