/* ctl/supervise/workers_internal.h — the insides of the workers' table; only its own files include
 * this.
 *
 * workers.c starts, ends and tells; workers_table.c finds, and takes the table over an exec.
 */
#ifndef AS_CTL_WORKERS_INTERNAL_H
#define AS_CTL_WORKERS_INTERNAL_H

#include "ctl/supervise/launch.h"
#include "ctl/supervise/spares.h"
#include "ctl/supervise/status_cache.h"
#include "ctl/supervise/workers.h"

/* One replica: its place is for as long as the controller wants it, its processes come and go. */
struct as_workers_row {
    struct as_list node;
    struct as_workers *all;
    struct as_process *process; /* NULL: waits, is given up, or has just died */
    enum as_ctl_state state;
    bool in_former; /* the former dispatcher may have requests of it */
    uint32_t restarts;
    char *name, *deployment;
    char *token;          /* of the process, or of the last one */
    char *note;           /* the controller's */
    struct as_buf spawn;  /* what its process was started by */
    struct as_buf reason; /* how the last process ended; empty once the next one is ready */
    /* Why there is none, in the controller's words; empty: `reason` says it. Not over an exec: the
     * next controller says it anew. */
    struct as_buf wait_reason;
    struct {
        bool undecided; /* one has ended, and the controller has not said what comes then */
        pid_t pid;
        int status;
        enum as_exit_kind kind;
    } last_exit;
};

struct as_workers {
    struct as_workers_conf conf;
    struct as_loop *loop;
    struct as_console *console;
    const struct as_log *log;
    struct as_channel *dispatcher, *controller; /* NULL: not there */
    struct as_channel *former;                  /* the dispatcher that was relieved */
    struct as_list workers;
    struct as_status_cache status_cache;
    struct as_task stopped;
    struct as_launcher launcher;
    struct as_spares *spares;
    bool controller_ready; /* dispatchers may be told that they were told all */
    bool stopping;
};

extern const struct as_process_ops as_workers_process_ops; /* ctx: the row */

struct as_workers_row *as_workers_find(const struct as_workers *all, struct as_str name);
/* The one whose process has this token: a word about an earlier life finds nobody. */
struct as_workers_row *as_workers_find_running(const struct as_workers *all, struct as_str token);
/* That of m's replica, which may be new. */
struct as_workers_row *as_workers_find_or_add(struct as_workers *all,
                                              const struct as_ctl_message *m);
/* What people are told about its state; valid until something happens to it. */
struct as_str as_workers_reason(const struct as_workers_row *w);
void as_workers_free_row(struct as_workers_row *w);
bool as_workers_any_running(const struct as_workers *all);
void as_workers_set_text(char **text, struct as_str s);
void as_workers_set_bytes(struct as_buf *b, struct as_str s);

/* Its process is dead; also of one that could not even be started. */
void as_workers_process_ended(struct as_workers_row *w, int status, enum as_exit_kind kind,
                              struct as_str reason);

#endif
