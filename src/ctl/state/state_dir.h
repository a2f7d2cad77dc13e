/* ctl/state/state_dir.h — the folder with what outlives a server: its path, its permissions, and
 * the lock by which one server at a time uses it. Blocking calls.
 */
#ifndef AS_CTL_STATE_DIR_H
#define AS_CTL_STATE_DIR_H

#include "base/buf.h"
#include "base/err.h"

#define AS_STATE_DIR_LOCK "server.lock"

/* The folder of the option; if that is empty $XDG_STATE_HOME/anyserve, ~/.local/state/anyserve (XDG
 * base directory specification), for root /var/lib/anyserve. NULL: there is no home folder. The
 * caller frees it. */
char *as_state_dir_path(const char *option);

/* Makes the folder (0700) if it is missing, and checks that we own it and nobody else may write to
 * it. 0; AS_EDENIED, AS_EIO, and `err` says why. */
int as_state_dir_make(const char *folder, struct as_buf *err);
/* Checks that a folder is ours, and that nobody else may write to it; its mode is not changed.
 * what: for the sentence, "the state folder"; advice: what follows when it is another user's. As
 * above. */
int as_state_dir_check(const char *path, const char *what, const char *advice, struct as_buf *err);
/* Locks the folder for a server until it closes the descriptor (close-on-exec). The lock of the
 * open store is not enough: it ends with each controller that dies. 0; AS_EEXISTS: another server
 * has it; AS_EDENIED, AS_EIO. */
int as_state_dir_lock(const char *folder, int *ret_fd, struct as_buf *err);
/* Appends that another server uses `what`, and which one, if it can be found by `file`, which it
 * has open. */
void as_state_dir_describe_holder(const char *what, const char *file, struct as_buf *err);
/* The part of it that follows `what`: ": the one on port 8000 (…)", or nothing. */
void as_state_dir_put_holder(const char *file, struct as_buf *err);

#endif
