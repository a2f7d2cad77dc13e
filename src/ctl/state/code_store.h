/* ctl/state/code_store.h — copies of code, by what is in them: a folder beside the state (0700).
 *
 * An entry is called by the SHA-256 of its content and never changes; today each is a folder, the
 * code of an application as it was deployed. It is made under a temporary name, which begins with
 * AS_CODE_STORE_TEMPORARY, and renamed when it is whole and on disk: a name of 64 digits stands for
 * a whole copy. Who makes it is the describing process (python/anyserve/pin.py), because only
 * Python knows what a module imports; it alone writes, one at a time for each server. Here it is
 * found, and what nobody needs is removed. What is served names a copy as the key `code` does:
 * "sha256:HEX", with "/FILE" behind it when the target is a file. Blocking calls; any thread.
 */
#ifndef AS_CTL_CODE_STORE_H
#define AS_CTL_CODE_STORE_H

#include "base/buf.h"
#include "base/err.h"

#define AS_CODE_STORE_FOLDER    "code"  /* in the folder of the state */
#define AS_CODE_STORE_TEMPORARY ".tmp-" /* begins the name of one that is being made … */
#define AS_CODE_STORE_DISCARDED ".old-" /* … or is to be removed */
#define AS_CODE_STORE_HEX       64u     /* digits of a name */
/* Bytes of the path of a store: with a name it is part of what a worker is started with. */
#define AS_CODE_STORE_PATH_MAX 400u

/* Does the value of `code` (may be NULL) name a copy? Else its files are used as they are. */
bool as_code_store_is_copy(const char *code);
/* The folder of the copy, with a NUL. */
void as_code_store_path(const char *store, const char *code, struct as_buf *path);
/* `target` (FILE or MODULE, perhaps with ":ATTRIBUTE") as it is called in the copy, with a NUL. */
void as_code_store_target(const char *code, const char *target, struct as_buf *text);
/* The worker's option that says what the copy was made of, with a NUL: of a module the folder `dir`
 * (may be NULL: cwd), of a FILE its path from there. */
void as_code_store_source(const char *cwd, const char *dir, const char *code, const char *target,
                          struct as_buf *text);

/* 0; AS_ENOTFOUND: the copy is not there, which `err` says. */
int as_code_store_check(const char *store, const char *code, struct as_buf *err);

/* Names of copies, each once. */
struct as_code_store_names {
    char (*all)[AS_CODE_STORE_HEX + 1];
    uint32_t n;
};
/* That of `code`, if that names one. */
void as_code_store_names_add(struct as_code_store_names *names, const char *code);
void as_code_store_names_fini(struct as_code_store_names *names);

/* Gives all copies but these another name, and what was left half made: they are no copies from
 * then on, and as_code_store_remove_discarded removes them. Nobody makes one meanwhile. How many;
 * AS_EIO: with one it was not possible, which `err` says. */
int as_code_store_discard(const char *store, const struct as_code_store_names *keep,
                          struct as_buf *err);
/* Takes as long as there are files to remove. A copy may be made meanwhile. As
 * as_code_store_discard. */
int as_code_store_remove_discarded(const char *store, struct as_buf *err);
/* The store with all that is in it, as far as possible. */
void as_code_store_clear(const char *store);

#endif
