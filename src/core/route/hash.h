/* core/route/hash.h — uthash, whose tables grow with memory from the allocator that never fails.
 * The keys of these tables are hashes with a secret seed already, so one multiplication spreads
 * them. */
#ifndef AS_CORE_ROUTE_HASH_H
#define AS_CORE_ROUTE_HASH_H

#include "base/defs.h"

#define HASH_NONFATAL_OOM 0
#define uthash_malloc(n)  as_xalloc(n)
#define HASH_FUNCTION(keyptr, keylen, hashv)                                                       \
    do {                                                                                           \
        uint64_t as_hash_key;                                                                      \
        memcpy(&as_hash_key, (keyptr), sizeof(as_hash_key));                                       \
        (hashv) = (unsigned)((as_hash_key * 0x9e3779b97f4a7c15u) >> 32);                           \
    } while (0)
#include <uthash.h>

#endif
