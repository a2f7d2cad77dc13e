/* ctl/supervise/workers_internal.h — the table of workers; only its own files include this.
 *
 * workers.c handles messages, and starts and ends processes; workers_table.c finds rows, and saves
 * and restores the table for an upgrade's exec.
 */
#ifndef AS_CTL_WORKERS_INTERNAL_H
#define AS_CTL_WORKERS_INTERNAL_H

#include "ctl/supervise/launch.h"
#include "ctl/supervise/spares.h"
#include "ctl/supervise/status_cache.h"
#include "ctl/supervise/workers.h"

/* One replica. The row exists from the first message about it until REMOVE; its processes come and
 * go. */
struct as_workers_row {
    struct as_list node;
    struct as_workers *all;
    struct as_process *process; /* NULL: it waits, is given up, or has just died */
    enum as_ctl_state state;
    bool in_former; /* the former dispatcher may have requests of it */
    bool leaves;    /* its process drains by itself: LEAVES */
    uint32_t restarts;
    char *name, *deployment;
    char *token;          /* of the process, or of the last one it had */
    char *note;           /* the controller's NOTE */
    struct as_buf spawn;  /* the text of its last SPAWN */
    struct as_buf reason; /* how the last process ended; empty once the next one is ready */
    /* PLACE's text: why there is no process; empty: `reason` counts. Not kept over an exec: the
     * next controller sends it again. */
    struct as_buf wait_reason;
    struct {
        bool undecided; /* a process has ended, and the controller has not decided about it */
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
    struct as_channel *dispatcher, *controller; /* NULL: it does not run */
    struct as_channel *former; /* during an upgrade: the dispatcher that hands over */
    struct as_list workers;
    struct as_status_cache status_cache;
    struct as_task stopped;
    struct as_launcher launcher;
    struct as_spares *spares;
    bool controller_ready; /* dispatchers may be sent TOLD */
    bool stopping;
};

extern const struct as_process_ops as_workers_process_ops; /* ctx: the row */

struct as_workers_row *as_workers_find(const struct as_workers *all, struct as_str name);
/* The row whose process has this token. A message about an earlier process finds none. */
struct as_workers_row *as_workers_find_running(const struct as_workers *all, struct as_str token);
/* The row of m's replica, made if there is none. */
struct as_workers_row *as_workers_find_or_add(struct as_workers *all,
                                              const struct as_ctl_message *m);
/* The reason of its state, for people; valid until the row changes. */
struct as_str as_workers_reason(const struct as_workers_row *w);
void as_workers_free_row(struct as_workers_row *w);
bool as_workers_any_running(const struct as_workers *all);
void as_workers_set_text(char **text, struct as_str s);

/* Its process has ended, or could not be started. */
void as_workers_process_ended(struct as_workers_row *w, int status, enum as_exit_kind kind,
                              struct as_str reason);

#endif
