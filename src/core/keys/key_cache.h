/* core/keys/key_cache.h — finds an API key by its text, without SHA-256 for the texts that it has
 * seen.
 *
 * Each loop has one. A text that was found is remembered by its SipHash of 128 bits under a secret
 * of the process, never by itself: no text of a key stays in memory for longer than its request,
 * and nobody without the secret can make two texts that are taken for each other. A text that is no
 * key is not remembered, so it costs one SHA-256 and no memory. Thread: its loop's.
 */
#ifndef AS_CORE_KEY_CACHE_H
#define AS_CORE_KEY_CACHE_H

#include "base/digest/siphash.h"
#include "core/keys/key_table.h"

/* One line of the processor's cache. */
#define AS_KEY_CACHE_WAYS 2u
struct as_key_cache_set {
    struct as_siphash hashes[AS_KEY_CACHE_WAYS];
    struct as_key *keys[AS_KEY_CACHE_WAYS]; /* the table's; NULL: unused */
} __attribute__((aligned(64)));

struct as_key_cache {
    struct as_key_table *table; /* one reference; NULL: no text is a key */
    uint8_t secret[AS_SIPHASH_SECRET];
    struct as_key_cache_set *sets; /* NULL: no memory for them */
    uint32_t n_sets;               /* a power of two */
    uint32_t turn;                 /* which way of a full set is replaced next */
};

#define AS_KEY_CACHE_SETS 32768u /* at most: 2 MB for a loop */

/* The cache is zeroed. secret: random. */
void as_key_cache_init(struct as_key_cache *c, const uint8_t secret[AS_SIPHASH_SECRET]);
void as_key_cache_fini(struct as_key_cache *c);
/* Takes a reference to the table, and forgets all texts. */
void as_key_cache_set_table(struct as_key_cache *c, struct as_key_table *t);
/* NULL: it is no key. Valid as long as the table. */
struct as_key *as_key_cache_find(struct as_key_cache *c, struct as_str text);

#endif
