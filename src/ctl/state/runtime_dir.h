/* ctl/state/runtime_dir.h — a server's runtime folder, by which commands and workers find it.
 *
 * This is the server's side: it makes, locks and removes the folder. Its files, and how clients
 * find it, are described in io/process/runtime.h. The folders are 0700 and ours; a symbolic link or
 * another owner is refused, because whoever can write here can talk to workers. Blocking calls.
 */
#ifndef AS_CTL_RUNTIME_DIR_H
#define AS_CTL_RUNTIME_DIR_H

#include "base/buf.h"
#include "base/err.h"
#include "io/process/runtime.h"

struct as_runtime_dir {
    char *base; /* the --runtime-dir */
    char *path; /* base/port */
    int lock;   /* descriptor of the locked file; -1: not locked */
};

/* Makes and locks the folder, and removes what a killed server left in it. 0; AS_EEXISTS: another
 * server has it; AS_EDENIED, AS_EINVALID, AS_EIO. `err` says why. */
int as_runtime_dir_open(struct as_runtime_dir *d, const char *base, uint16_t port,
                        struct as_buf *err);
void as_runtime_dir_close(struct as_runtime_dir *d); /* removes the files and the port's folder */
/* Only removes, without allocating memory: for a process that must end at once. The lock must be
 * held. */
void as_runtime_dir_remove(const struct as_runtime_dir *d);

/* The same for as_fatal_set_cleanup, if the lock is held. The children of a server that ends
 * without returning notice it by their sockets, and end, too. */
void as_runtime_dir_on_fatal(void *dir);

/* The folder for sockets of registered workers: `option`, which is made if it is missing, or, if
 * that is empty, `workers` in the port's folder. It must be ours, and nobody else may write there.
 * Sockets of workers that live stay: they may register again. 0 and the absolute path, which the
 * caller frees; AS_EDENIED, AS_EIO. `err` says why. */
int as_runtime_dir_workers(const struct as_runtime_dir *d, const char *option, char **ret_path,
                           struct as_buf *err);

/* Writes a new join-token, and a new driver-token: 32 random bytes as hex, file mode 0600. */
int as_runtime_dir_write_token(const struct as_runtime_dir *d, struct as_buf *err);

#endif
