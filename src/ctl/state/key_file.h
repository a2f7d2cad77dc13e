/* ctl/state/key_file.h — the file of API keys (--api-keys): reads it into a table, and changes it.
 *
 * The file is text, one key a line (core/keys/key_line.h), and only its owner may read it
 * (ctl/state/secret_file.h). It has digests of the keys, never the keys. A change writes a new file
 * beside it, which then takes its place, so that a server reads the old one or the new one, and
 * never a part. Comments and other lines stay as they are. Blocking calls.
 */
#ifndef AS_CTL_KEY_FILE_H
#define AS_CTL_KEY_FILE_H

#include "core/keys/key_table.h"

/* Reads the file as it is now: some 2 s for a million keys, which take 0.2 GB. most: keys that it
 * may have. former: the table that the new one will replace, or NULL; it is only read. 0 with a
 * table that the caller owns; an AS_E… with a sentence in `err`, which names the file, the line and
 * what is wrong. */
int as_key_file_load(const char *path, uint32_t most, const struct as_key_table *former,
                     struct as_key_table **ret_t, struct as_buf *err);

/* Calls `each` for every key of the file, in their order. 0, or as as_key_file_load. */
int as_key_file_list(const char *path, void (*each)(const struct as_key_line *k, void *ctx),
                     void *ctx, struct as_buf *err);
/* Changes are made one after the other: `wait` bounds the time for which another one is waited for.
 * Links stay, and the file that they lead to is changed. */
#define AS_KEY_FILE_LOCK_WAIT (5 * AS_SEC)
/* Appends a key; makes the file, which only its owner may use, if there is none. 0; AS_EEXISTS: the
 * name is taken; AS_EAGAIN: another change is not done in time; else as as_key_file_load. */
int as_key_file_add(const char *path, const struct as_key_line *k, as_ns wait, struct as_buf *err);
/* Removes the key of this name; lines that cannot be read stay. 0; AS_ENOTFOUND: there is none;
 * else as as_key_file_add. */
int as_key_file_revoke(const char *path, struct as_str name, as_ns wait, struct as_buf *err);

#endif
