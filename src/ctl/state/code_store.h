/* ctl/state/code_store.h — the copies of applications' code, in a folder (0700) beside the state.
 *
 * Each copy is a folder with the code of an application as it was deployed. Its name is the SHA-256
 * of its content in hex, and it never changes. The describing process makes it
 * (python/anyserve/code/pin.py), because only Python knows what a module imports: under a temporary
 * name, which is renamed when the copy is complete and on disk; one process at a time for each
 * server. This module finds copies, and removes those that are not used. The key `code` of a spec
 * names a copy: "sha256:HEX", with "/FILE" behind it when the target is a file. Blocking calls; any
 * thread.
 */
#ifndef AS_CTL_CODE_STORE_H
#define AS_CTL_CODE_STORE_H

#include "base/buf.h"
#include "base/err.h"

#define AS_CODE_STORE_FOLDER    "code"  /* name of the folder in the state folder */
#define AS_CODE_STORE_TEMPORARY ".tmp-" /* prefix of the name of a copy that is being made … */
#define AS_CODE_STORE_DISCARDED ".old-" /* … or of one that is to be removed */
#define AS_CODE_STORE_HEX       64u     /* digits of a copy's name */
/* Bytes of the path of a store, which is part of the SPAWN text. */
#define AS_CODE_STORE_PATH_MAX 400u

/* Whether the value of the key `code` (may be NULL) names a copy. Else the files are used in place.
 */
bool as_code_store_is_copy(const char *code);
/* Appends the folder of the copy, with a NUL. */
void as_code_store_path(const char *store, const char *code, struct as_buf *path);
/* Appends `target` (FILE or MODULE, perhaps with ":ATTRIBUTE") as it is named in the copy, with a
 * NUL. */
void as_code_store_target(const char *code, const char *target, struct as_buf *text);
/* Appends the worker's option --source, with a NUL: what the copy was made from. For a module that
 * is the folder `dir` (NULL: cwd), for a FILE its path from there. */
void as_code_store_source(const char *cwd, const char *dir, const char *code, const char *target,
                          struct as_buf *text);

/* 0, or AS_ENOTFOUND: the copy is missing, with a sentence in `err`. */
int as_code_store_check(const char *store, const char *code, struct as_buf *err);

/* A set of names of copies. */
struct as_code_store_names {
    char (*all)[AS_CODE_STORE_HEX + 1];
    uint32_t n;
};
/* Adds the copy that `code` names, if it names one. */
void as_code_store_names_add(struct as_code_store_names *names, const char *code);
void as_code_store_names_fini(struct as_code_store_names *names);

/* Renames all copies but `keep`, and incomplete ones, so that they are not found any more;
 * as_code_store_remove_discarded removes them. Not while a copy is being made. Returns how many
 * there are, or AS_EIO: one could not be renamed, `err` says why. */
int as_code_store_discard(const char *store, const struct as_code_store_names *keep,
                          struct as_buf *err);
/* Removes the discarded copies, which may take long. A copy may be made meanwhile. Returns as
 * as_code_store_discard. */
int as_code_store_remove_discarded(const char *store, struct as_buf *err);
/* Removes the store with everything in it, as far as possible. */
void as_code_store_clear(const char *store);

#endif
