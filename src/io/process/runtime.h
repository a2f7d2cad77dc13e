/* io/process/runtime.h — finds the servers that run on this machine by their runtime folders.
 *
 * <runtime-dir>/<port>/ holds `lock` (an advisory lock and the supervisor's pid), `link.sock` for
 * workers, `status.sock` for commands, `management.sock` for workers that register, `control.sock`
 * for the control API, `join-token`, `upgrade`, `reload`, the folder `workers` for the sockets of
 * registered workers, and `logs` with the newest output of each process (ctl/output/journal.h).
 * This is the side of commands and of workers that join; the server's side is
 * ctl/state/runtime_dir.h. Blocking calls without libuv. Any thread, as far as the environment does
 * not change.
 */
#ifndef AS_IO_RUNTIME_H
#define AS_IO_RUNTIME_H

#include "base/buf.h"
#include "base/err.h"

/* Locked by flock, which the kernel releases however the server ends: a stale file does no harm. */
#define AS_RUNTIME_LOCK      "lock"
#define AS_RUNTIME_LINK      "link.sock"
#define AS_RUNTIME_STATUS    "status.sock"
#define AS_RUNTIME_MANAGE    "management.sock"
#define AS_RUNTIME_CONTROL   "control.sock"
#define AS_RUNTIME_TOKEN     "join-token"
#define AS_RUNTIME_DRIVER    "driver-token" /* of programs that open calls; as join-token */
#define AS_RUNTIME_UPGRADE   "upgrade"      /* the result of the last upgrade */
#define AS_RUNTIME_RELOAD    "reload"       /* the same of `anyserve reload` */
#define AS_RUNTIME_WORKERS   "workers"
#define AS_RUNTIME_LOGS      "logs"
#define AS_RUNTIME_PATH_MAX  108u /* of a socket, with its NUL */
#define AS_RUNTIME_TOKEN_LEN 64u  /* hex digits of join-token */
#define AS_RUNTIME_BASE_MAX  80u  /* bytes of a --runtime-dir, as in the table of options */

/* A folder by the XDG base directory specification: `option`; when that is empty,
 * $variable/anyserve (unless $variable is a relative path), `for_root` for root, else `otherwise`.
 * NULL: `otherwise` is NULL. The caller frees it. */
char *as_runtime_xdg_folder(const char *option, const char *variable, const char *for_root,
                            const char *otherwise);
/* The --runtime-dir of a server: `option`; when that is empty, $XDG_RUNTIME_DIR/anyserve,
 * /run/anyserve for root, else /tmp/anyserve-UID. The caller frees it. */
char *as_runtime_base(const char *option);
/* The same for a server in the background, which outlives the login. The folder of a login,
 * /run/user/UID, is removed when the user logs out, and old files in /tmp are removed, too.
 * Therefore: /run/anyserve for root, else $XDG_STATE_HOME/anyserve/run or
 * ~/.local/state/anyserve/run. */
char *as_runtime_persistent_base(const char *option);

#define AS_RUNTIME_BASES   64u
#define AS_RUNTIME_SERVERS 256u

/* The servers that run on this machine, and the one that a command addresses. */
struct as_runtime_search {
    char *bases[AS_RUNTIME_BASES]; /* folders that were searched; the first is the default one */
    uint32_t n_bases;
    struct as_runtime_server {
        const char *base;
        uint16_t port;
    } servers[AS_RUNTIME_SERVERS], chosen;
    uint32_t n;          /* servers */
    uint32_t n_matching; /* servers that the command may mean (as_runtime_matches) */
    bool chosen_runs;    /* exactly one server matches, and it is `chosen` */
};
/* Searches only `option` when that is not empty. Otherwise all folders that servers of this user
 * use (as_runtime_base, as_runtime_persistent_base) and that of system services, /run/anyserve; for
 * root, when no server there matches, also /run/user/UID/anyserve and /tmp/anyserve-UID of all
 * users. A folder of the wrong owner is ignored, since anybody can make one in /tmp. The servers on
 * `port` match, or all servers when the port was not `given`. Unless exactly one matches, `chosen`
 * is `port` in the first folder. */
void as_runtime_find(struct as_runtime_search *f, const char *option, bool given, uint16_t port);
/* May a command with this port, if it was `given`, mean the server? */
bool as_runtime_matches(const struct as_runtime_server *s, bool given, uint16_t port);
void as_runtime_search_fini(struct as_runtime_search *f);
/* Appends a line for each folder with servers: the ports that can be chosen. */
void as_runtime_put_servers(const struct as_runtime_search *f, struct as_buf *out);

/* The path of a file of the server on `port`. 0; AS_EINVALID: it is too long for a socket. */
int as_runtime_path(char ret_path[AS_RUNTIME_PATH_MAX], const char *base, uint16_t port,
                    const char *name);

/* Reads join-token, or the token in the file `name`. 0; AS_ENOTFOUND: there is no token;
 * AS_EINVALID: the path is too long; AS_EPROTO: the file does not hold a token. */
int as_runtime_read_token(const char *base, uint16_t port,
                          char ret_token[AS_RUNTIME_TOKEN_LEN + 1]);
int as_runtime_read_token_of(const char *base, uint16_t port, const char *name,
                             char ret_token[AS_RUNTIME_TOKEN_LEN + 1]);

/* Does the server on `port` run? Its lock is held then. */
bool as_runtime_is_running(const char *base, uint16_t port);
/* The supervisor's pid as written in the lock file; 0: none. Only for messages:
 * app/client/server_process.h finds the process for certain. */
int as_runtime_supervisor_pid(const char *base, uint16_t port);

#endif
