/* app/server/resume.h — upgrades: `anyserve upgrade`, and the hidden `anyserve resume FD [check]`,
 * which the supervisor executes for it (ctl/supervise/supervisor.h).
 *
 * The state of `run` and `start` beside the supervisor's own (options, runtime folder, notify
 * socket) is written and read here. Blocking calls.
 */
#ifndef AS_APP_RESUME_H
#define AS_APP_RESUME_H

#include "conf/option/option.h"
#include "ctl/message/reexec_state.h"
#include "ctl/state/runtime_dir.h"
#include "io/socket/notify.h"

struct as_resume {
    const char *command; /* the command of these options: "run", "start" */
    const struct as_option_set *opts;
    const struct as_runtime_dir *dir;
    const struct as_notify *notify;
    int hold; /* a descriptor that stays open (app/server/run.h); -1: none */
};

void as_resume_write_state(void *resume, As__Supervisor *state);   /* for as_supervisor_conf */
void as_resume_write_outcome(void *resume, struct as_str outcome); /* for as_upgrade_main to read */

/* The path by which this program was started: absolute, with symlinks, so that an upgrade executes
 * the program that is at this path then. The caller frees it; NULL: it cannot be found. */
char *as_resume_find_program(void);

int as_resume_main(struct as_option_set *opts);  /* FD [check] */
int as_upgrade_main(struct as_option_set *opts); /* --runtime-dir, --port */

#endif
