#include "core/keys/key_cache.h"

#include "base/digest/secret.h"

#include <stdlib.h>

void as_key_cache_init(struct as_key_cache *c, const uint8_t secret[AS_SIPHASH_SECRET])
{
    memcpy(c->secret, secret, sizeof(c->secret));
}

void as_key_cache_fini(struct as_key_cache *c)
{
    as_key_table_unref(c->table);
    free(c->entries);
    c->table = NULL;
    c->entries = NULL;
}

void as_key_cache_set_table(struct as_key_cache *c, struct as_key_table *t)
{
    uint32_t n = 16;

    as_key_cache_fini(c);
    c->table = as_key_table_ref(t);
    while (n < AS_KEY_CACHE_SETS && n * AS_KEY_CACHE_WAYS < 2 * as_key_table_count(t))
        n *= 2;
    c->n_sets = n;
    c->entries = calloc((size_t)n * AS_KEY_CACHE_WAYS, sizeof(*c->entries));
}

struct as_key *as_key_cache_find(struct as_key_cache *c, struct as_str text)
{
    uint8_t digest[AS_SHA256_BYTES];
    struct as_key_cache_entry *set = NULL, *unused = NULL;
    struct as_siphash hash;
    struct as_key *k;

    if (!c->table || !as_key_text_is_valid(text))
        return NULL;
    hash = as_siphash(c->secret, text);
    if (c->entries)
        set = &c->entries[(hash.low & (c->n_sets - 1)) * AS_KEY_CACHE_WAYS];
    for (uint32_t i = 0; set && i < AS_KEY_CACHE_WAYS; i++) {
        if (!set[i].key)
            unused = &set[i];
        else if (as_secret_equal(&set[i].hash, &hash, sizeof(hash)))
            return set[i].key;
    }
    as_sha256(text, digest);
    k = as_key_table_find(c->table, digest);
    if (k && set) {
        if (!unused)
            unused = &set[c->turn++ % AS_KEY_CACHE_WAYS];
        *unused = (struct as_key_cache_entry){hash, k};
    }
    return k;
}
