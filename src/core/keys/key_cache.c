#include "core/keys/key_cache.h"

#include <stdlib.h>

void as_key_cache_init(struct as_key_cache *c, const uint8_t secret[AS_SIPHASH_SECRET])
{
    memcpy(c->secret, secret, sizeof(c->secret));
}

void as_key_cache_fini(struct as_key_cache *c)
{
    as_key_table_unref(c->table);
    free(c->sets);
    c->table = NULL;
    c->sets = NULL;
}

void as_key_cache_set_table(struct as_key_cache *c, struct as_key_table *t)
{
    uint32_t n = 16;

    as_key_table_ref(t); /* before the former one is given up: it may be the same */
    as_key_cache_fini(c);
    c->table = t;
    while (n < AS_KEY_CACHE_SETS && n < 2 * as_key_table_count(t))
        n *= 2;
    c->n_sets = n;
    c->sets = aligned_alloc(_Alignof(struct as_key_cache_set), n * sizeof(*c->sets));
    if (c->sets)
        memset(c->sets, 0, n * sizeof(*c->sets));
}

/* Both words are compared at once: the time does not depend on how many bytes are the same. */
static bool is_equal(const struct as_siphash *a, const struct as_siphash *b)
{
    return !((a->low ^ b->low) | (a->high ^ b->high));
}

static struct as_key *find_in_table(const struct as_key_table *t, struct as_str text)
{
    uint8_t digest[AS_SHA256_BYTES];

    as_sha256(text, digest);
    return as_key_table_find(t, digest);
}

struct as_key *as_key_cache_find(struct as_key_cache *c, struct as_str text)
{
    struct as_key_cache_set *set;
    struct as_siphash hash;
    struct as_key *k;
    uint32_t at = AS_KEY_CACHE_WAYS;

    if (!c->table || !as_key_text_has_form(text))
        return NULL;
    if (!c->sets)
        return find_in_table(c->table, text);
    hash = as_siphash(c->secret, text);
    set = &c->sets[hash.low & (c->n_sets - 1)];
    for (uint32_t i = 0; i < AS_KEY_CACHE_WAYS; i++) {
        if (!set->keys[i])
            at = i;
        else if (is_equal(&set->hashes[i], &hash))
            return set->keys[i];
    }
    k = find_in_table(c->table, text);
    if (!k)
        return NULL;
    if (at == AS_KEY_CACHE_WAYS)
        at = c->turn++ % AS_KEY_CACHE_WAYS;
    set->hashes[at] = hash;
    set->keys[at] = k;
    return k;
}
