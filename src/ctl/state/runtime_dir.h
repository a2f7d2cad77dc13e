/* ctl/state/runtime_dir.h — the folder by which commands and workers find a server: the server's
 * side.
 *
 * What is in it, and how it is found, is said in io/process/runtime.h. The folders are 0700 and
 * ours; a symlink or a foreign owner is refused, because who can write here can talk to workers.
 * Blocking calls.
 */
#ifndef AS_CTL_RUNTIME_DIR_H
#define AS_CTL_RUNTIME_DIR_H

#include "base/buf.h"
#include "base/err.h"
#include "io/process/runtime.h"

struct as_runtime_dir {
    char *base; /* the --runtime-dir */
    char *path; /* base/port */
    int lock;   /* held while the server lives, -1 before */
};

/* Makes and locks the folder, removes what a killed server left. 0; AS_EEXISTS: another server
 * holds it; AS_EDENIED, AS_EINVALID, AS_EIO: the reason is in `err`. */
int as_runtime_dir_open(struct as_runtime_dir *d, const char *base, uint16_t port,
                        struct as_buf *err);
void as_runtime_dir_close(struct as_runtime_dir *d); /* removes the files and the port's folder */
/* Only the removing, without memory: for a process that must end at once. The lock must be held. */
void as_runtime_dir_remove(const struct as_runtime_dir *d);

/* The folder below which sockets of registered workers lie: `option`, made when it is missing, or,
 * when that is empty, `workers` in the port's folder. It must be ours, and nobody else may write
 * there. What workers left in it stays: they may register again. 0 and the absolute path, which the
 * caller frees; AS_EDENIED, AS_EINVALID, AS_EIO: the reason is in `err`. */
int as_runtime_dir_workers(const struct as_runtime_dir *d, const char *option, char **ret_path,
                           struct as_buf *err);

/* join-token: a new one of 32 random bytes as hex, file mode 0600. */
int as_runtime_dir_write_token(const struct as_runtime_dir *d, struct as_buf *err);

/* n <= 128 random bytes of the kernel as 2 n hex digits and a NUL. Without them there is no secret:
 * the process ends (base/fatal.h). */
void as_runtime_dir_random_hex(char *out, size_t n);

#endif
