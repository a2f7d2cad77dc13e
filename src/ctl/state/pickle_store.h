/* ctl/state/pickle_store.h — the pickled code of programs that call `serve.run`, in a folder (0700)
 * beside the copies of code (ctl/state/code_store.h).
 *
 * Each is a file (0600) whose name is the SHA-256 of its content in hex; it never changes. The key
 * `code` of a spec names it: "pickle:HEX". Only workers unpickle it. This module checks the name,
 * stores, finds and removes. Blocking calls; any thread. as_pickle_store_put may run beside all
 * others but as_pickle_store_clean.
 */
#ifndef AS_CTL_PICKLE_STORE_H
#define AS_CTL_PICKLE_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/digest/sha256.h"

#define AS_PICKLE_STORE_FOLDER "pickles" /* name of the folder in the state folder */

/* Whether the value of the key `code` (may be NULL) names a pickle. */
bool as_pickle_store_is_pickle(const char *code);
/* Its name in hex; `code` names a pickle. */
struct as_str as_pickle_store_name(const char *code);
/* Appends the path of the pickle, with a NUL. copies: the folder of the copies of code, beside
 * which the store is. */
void as_pickle_store_path(const char *copies, struct as_str hex, struct as_buf *path);
/* Appends the worker's target for it, "pickle:PATH", with a NUL. */
void as_pickle_store_target(const char *copies, const char *code, struct as_buf *text);

/* 0, or AS_ENOTFOUND: the pickle is missing, with a sentence in `err`. */
int as_pickle_store_check(const char *copies, const char *code, struct as_buf *err);

/* Stores `content` as `hex`; when it returns 0, it is whole and on disk. AS_EINVALID: `hex` is not
 * its SHA-256; AS_EDENIED, AS_EIO: `err` says what failed. */
int as_pickle_store_put(const char *copies, struct as_str hex, struct as_str content,
                        struct as_buf *err);

/* A set of names. */
struct as_pickle_store_names {
    char (*all)[AS_SHA256_HEX + 1];
    uint32_t n;
};
bool as_pickle_store_names_have(const struct as_pickle_store_names *names, struct as_str hex);
/* Adds a name unless it is there. */
void as_pickle_store_names_add(struct as_pickle_store_names *names, struct as_str hex);
/* Removes the name at index i; those behind it move up. */
void as_pickle_store_names_remove(struct as_pickle_store_names *names, uint32_t i);
void as_pickle_store_names_fini(struct as_pickle_store_names *names);

/* Removes all pickles but `keep`. AS_EIO: one could not be removed, `err` says why. */
int as_pickle_store_sweep(const char *copies, const struct as_pickle_store_names *keep,
                          struct as_buf *err);
/* Removes what as_pickle_store_put had not finished when a former process ended. */
void as_pickle_store_clean(const char *copies);

#endif
