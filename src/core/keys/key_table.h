/* core/keys/key_table.h — the API keys of one reading of the file, found by their digests.
 *
 * It is filled by one thread, and then does not change: any number of threads share it. A later
 * reading fills a new table, which shares the keys whose lines are the same.
 */
#ifndef AS_CORE_KEY_TABLE_H
#define AS_CORE_KEY_TABLE_H

#include "core/keys/key.h"

struct as_key_table;

/* An empty table for at most `most` keys. NULL: no memory. */
struct as_key_table *as_key_table_new(uint32_t most);
/* former: the table that this one will replace, or NULL. 0; AS_EINVALID: the name or the digest is
 * in the table already; AS_EFULL: it has `most` keys; AS_ENOMEM; `err` gets a sentence. */
int as_key_table_add(struct as_key_table *t, const struct as_key_line *line,
                     const struct as_key_table *former, struct as_buf *err);
/* Frees what only as_key_table_add needs. */
void as_key_table_seal(struct as_key_table *t);
/* Marks the keys of `former` that are not in t as retired; both may be NULL. Any thread. */
void as_key_table_retire(const struct as_key_table *former, const struct as_key_table *t);

struct as_key_table *as_key_table_ref(struct as_key_table *t);
void as_key_table_unref(struct as_key_table *t); /* NULL is fine */

uint32_t as_key_table_count(const struct as_key_table *t);
/* NULL: none. No reference is added. */
struct as_key *as_key_table_find(const struct as_key_table *t,
                                 const uint8_t digest[AS_SHA256_BYTES]);

#endif
