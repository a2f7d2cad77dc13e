/* io/process/runtime.h — finding a server that runs on this machine, by the folder that it keeps.
 *
 * <runtime-dir>/<port>/ holds `lock` (an advisory lock and the supervisor's pid), `link.sock` for
 * workers, `status.sock` for commands, `management.sock` for workers that register, `control.sock`
 * for who says what is to be served, `join-token`, `upgrade`, the folder `workers` for their
 * sockets, and `logs` with the newest output of each process (ctl/output/journal.h). The server's
 * side of it is ctl/state/runtime_dir.h; this one is for those who look: commands, and workers that
 * join. Blocking calls, without libuv.
 */
#ifndef AS_IO_PROCESS_RUNTIME_H
#define AS_IO_PROCESS_RUNTIME_H

#include "base/buf.h"
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
#define AS_RUNTIME_BASE_MAX  80u  /* bytes of a --runtime-dir, as the table of options has it */

/* A folder of ours by the XDG base directory specification: `option`, or when that is empty
 * $variable/anyserve (a relative path is to be ignored, it says), `for_root` for root, else
 * `otherwise`, which may be NULL: then there is none. The caller frees. */
char *as_runtime_xdg_folder(const char *option, const char *variable, const char *for_root,
                            const char *otherwise);
/* Where a server of ours keeps its folder: `option`, or when that is empty
 * $XDG_RUNTIME_DIR/anyserve, /run/anyserve for root, else /tmp/anyserve-UID. The caller frees. */
char *as_runtime_base(const char *option);
/* The same of a server in the background, which outlives the login: where $XDG_RUNTIME_DIR is the
 * login's, /run/user/UID, it vanishes with it, and /tmp is swept. Instead /run/anyserve for root,
 * else $XDG_STATE_HOME/anyserve/run, ~/.local/state/anyserve/run. */
char *as_runtime_persistent_base(const char *option);

#define AS_RUNTIME_BASES   64u
#define AS_RUNTIME_SERVERS 256u

/* Servers of this machine that live, and which of them a command means. */
struct as_runtime_search {
    char *bases[AS_RUNTIME_BASES]; /* where was looked; the first is where ours would be */
    uint32_t n_bases;
    struct as_runtime_server {
        const char *base;
        uint16_t port;
    } servers[AS_RUNTIME_SERVERS], chosen;
    uint32_t n;          /* servers */
    uint32_t n_matching; /* of them: those that can be meant; several: nobody has said which */
    bool chosen_runs;    /* `chosen` is one of them, and the only one that can be meant */
};
/* With an `option` there only. Else in all folders where servers of ours are (as_runtime_base,
 * as_runtime_persistent_base) and in that of system services, /run/anyserve; for root, where those
 * have none, also in /run/user/UID/anyserve and /tmp/anyserve-UID. Folders count that are whose
 * they must be: anybody can make one in /tmp. Those on `port` can be meant, or, when it was not
 * `given`, all; the only one of them is chosen. None or several: chosen is `port` in the first
 * folder. */
void as_runtime_find(struct as_runtime_search *f, const char *option, bool given, uint16_t port);
/* Whether a command that was given that can mean it. */
bool as_runtime_matches(const struct as_runtime_server *s, bool given, uint16_t port);
void as_runtime_search_fini(struct as_runtime_search *f);
/* A line for each folder that has servers: what could be chosen instead. */
void as_runtime_put_servers(const struct as_runtime_search *f, struct as_buf *out);

/* The path of a file of the server on `port`. 0, or AS_EINVALID when it is too long for a socket.
 */
int as_runtime_path(char ret_path[AS_RUNTIME_PATH_MAX], const char *base, uint16_t port,
                    const char *name);

/* AS_ENOTFOUND, AS_EINVALID (path), AS_EPROTO: not as it is written. */
int as_runtime_read_token(const char *base, uint16_t port,
                          char ret_token[AS_RUNTIME_TOKEN_LEN + 1]);

/* Whether the server on `port` chosen_runs (its lock is held). */
bool as_runtime_is_running(const char *base, uint16_t port);
/* What is written there of its supervisor, to be told only (app/client/server_process.h finds it
 * for certain). 0: nothing. */
int as_runtime_supervisor_pid(const char *base, uint16_t port);

#endif
