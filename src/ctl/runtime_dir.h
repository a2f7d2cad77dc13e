/* ctl/runtime_dir.h — the folder by which commands and workers find a server.
 *
 * <runtime-dir>/<port>/ holds `lock` (an advisory lock and the supervisor's pid), `link.sock` for
 * workers, `status.sock` for commands, `management.sock` for workers that register, and
 * `join-token`, and the folder `workers` for their sockets. The folders are 0700 and ours; a
 * symlink or a foreign owner is refused, because who can write here can talk to workers. Blocking
 * calls.
 */
#ifndef AS_CTL_RUNTIME_DIR_H
#define AS_CTL_RUNTIME_DIR_H

#include "base/buf.h"
#include "base/err.h"

#define AS_RUNTIME_LINK      "link.sock"
#define AS_RUNTIME_STATUS    "status.sock"
#define AS_RUNTIME_MANAGE    "management.sock"
#define AS_RUNTIME_TOKEN     "join-token"
#define AS_RUNTIME_WORKERS   "workers"
#define AS_RUNTIME_PATH_MAX  108u /* of a socket, with its NUL */
#define AS_RUNTIME_TOKEN_LEN 64u  /* hex digits of join-token */

struct as_runtime_dir {
    char *base; /* the --runtime-dir */
    char *path; /* base/port */
    int lock;   /* held while the server lives, -1 before */
};

/* Where servers are: `option`, or when that is empty $XDG_RUNTIME_DIR/anyserve, /run/anyserve for
 * root, else /tmp/anyserve-UID. The caller frees. */
char *as_runtime_base(const char *option);
/* The path of a file of the server on `port`. 0, or AS_EINVALID when it is too long for a socket.
 */
int as_runtime_path(char ret_path[AS_RUNTIME_PATH_MAX], const char *base, uint16_t port,
                    const char *name);

/* Makes and locks the folder, removes what a killed server left. 0; AS_EEXISTS: another server
 * holds it; AS_EDENIED, AS_EINVALID, AS_EIO: the reason is in `err`. */
int as_runtime_open(struct as_runtime_dir *d, const char *base, uint16_t port, struct as_buf *err);
void as_runtime_close(struct as_runtime_dir *d); /* removes the files and the port's folder */
/* Only the removing, without memory: for a process that must end at once. The lock must be held. */
void as_runtime_remove(const struct as_runtime_dir *d);

/* The folder below which sockets of registered workers lie: `option`, made when it is missing, or,
 * when that is empty, `workers` in the port's folder. It must be ours, and nobody else may write
 * there. What workers left in it stays: they may register again. 0 and the absolute path, which the
 * caller frees; AS_EDENIED, AS_EINVALID, AS_EIO: the reason is in `err`. */
int as_runtime_workers(const struct as_runtime_dir *d, const char *option, char **ret_path,
                       struct as_buf *err);

/* join-token: a new one of 32 random bytes as hex, file mode 0600. */
int as_runtime_write_token(const struct as_runtime_dir *d, struct as_buf *err);
int as_runtime_read_token(const char *base, uint16_t port,
                          char ret_token[AS_RUNTIME_TOKEN_LEN + 1]);

/* n <= 128 random bytes of the kernel as 2 n hex digits and a NUL. Without them there is no secret:
 * the process ends (base/fatal.h). */
void as_runtime_random_hex(char *out, size_t n);

/* Ports under `base` whose server lives (lock held), ascending; returns how many, at most `cap`. */
uint32_t as_runtime_ports(const char *base, uint16_t *out, uint32_t cap);
/* Which of these a command means: `port` when that was given, else the only one, else `port`. */
uint16_t as_runtime_choose(bool given, uint16_t port, const uint16_t *ports, uint32_t n);

#endif
