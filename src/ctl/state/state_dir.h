/* ctl/state/state_dir.h — the folder in which a server keeps what outlives it: where it is, that
 * nobody else writes there, and which server has it. */
#ifndef AS_CTL_STATE_DIR_H
#define AS_CTL_STATE_DIR_H

#include "base/buf.h"
#include "base/err.h"

#define AS_STATE_DIR_LOCK "server.lock"

/* The folder of the option, or when that is empty: $XDG_STATE_HOME/anyserve,
 * ~/.local/state/anyserve (XDG base directory specification), for root /var/lib/anyserve. NULL:
 * there is no home folder. The caller frees it. */
char *as_state_dir_path(const char *option);

/* The folder, made (0700) when it is missing, is ours alone to write to. Else AS_EDENIED, AS_EIO,
 * and `err` says why. */
int as_state_dir_make(const char *folder, struct as_buf *err);
/* The folder is a server's, from before it looks at what is kept there until it closes the
 * descriptor (close-on-exec): the lock of an open store goes with each controller that dies. 0;
 * AS_EEXISTS: it is another one's; AS_EDENIED, AS_EIO. */
int as_state_dir_lock(const char *folder, int *ret_fd, struct as_buf *err);
/* The text for `what` that another server has: which one, as far as it can be seen by `file`, which
 * that one has open. */
void as_state_dir_describe_holder(const char *what, const char *file, struct as_buf *err);

#endif
