/* io/runtime.h — finding a server that runs on this machine, by the folder that it keeps.
 *
 * <runtime-dir>/<port>/ holds `lock` (an advisory lock and the supervisor's pid), `link.sock` for
 * workers, `status.sock` for commands, `management.sock` for workers that register, `control.sock`
 * for who says what is to be served, `join-token`, `upgrade`, the folder `workers` for their
 * sockets, and `logs` with the newest output of each process (ctl/journal.h). The server's side of
 * it is ctl/runtime_dir.h; this one is for those who look: commands, and workers that join.
 * Blocking calls, without libuv.
 */
#ifndef AS_IO_RUNTIME_H
#define AS_IO_RUNTIME_H

#include "base/err.h"

/* flock: let go by the kernel however the server ends, so that no stale file blocks a start */
#define AS_RUNTIME_LOCK      "lock"
#define AS_RUNTIME_LINK      "link.sock"
#define AS_RUNTIME_STATUS    "status.sock"
#define AS_RUNTIME_MANAGE    "management.sock"
#define AS_RUNTIME_CONTROL   "control.sock"
#define AS_RUNTIME_TOKEN     "join-token"
#define AS_RUNTIME_UPGRADE   "upgrade" /* how the last upgrade ended */
#define AS_RUNTIME_WORKERS   "workers"
#define AS_RUNTIME_LOGS      "logs"
#define AS_RUNTIME_PATH_MAX  108u /* of a socket, with its NUL */
#define AS_RUNTIME_TOKEN_LEN 64u  /* hex digits of join-token */

/* A folder of ours by the XDG base directory specification: `option`, or when that is empty
 * $variable/anyserve (a relative path is to be ignored, it says), `of_root` for root, else
 * `otherwise`, which may be NULL: then there is none. The caller frees. */
char *as_runtime_folder(const char *option, const char *variable, const char *of_root,
                        const char *otherwise);
/* Where servers are: `option`, or when that is empty $XDG_RUNTIME_DIR/anyserve, /run/anyserve for
 * root, else /tmp/anyserve-UID. The caller frees. */
char *as_runtime_base(const char *option);
/* The path of a file of the server on `port`. 0, or AS_EINVALID when it is too long for a socket.
 */
int as_runtime_path(char ret_path[AS_RUNTIME_PATH_MAX], const char *base, uint16_t port,
                    const char *name);

/* AS_ENOTFOUND, AS_EINVALID (path), AS_EPROTO: not as it is written. */
int as_runtime_read_token(const char *base, uint16_t port,
                          char ret_token[AS_RUNTIME_TOKEN_LEN + 1]);

/* Ports under `base` whose server lives (lock held), ascending; returns how many, at most `cap`. */
uint32_t as_runtime_ports(const char *base, uint16_t *out, uint32_t cap);
/* Whether that on `port` does. */
bool as_runtime_lives(const char *base, uint16_t port);
/* Which of these a command means: `port` when that was given, else the only one, else `port`. */
uint16_t as_runtime_choose(bool given, uint16_t port, const uint16_t *ports, uint32_t n);

#endif
