/* app/server/resume.h — `anyserve resume FD [check]`, hidden: what an upgrade executes
 * (ctl/supervise/supervisor.h), and `anyserve upgrade`, which asks for it.
 *
 * What a command that supervises knows beside its supervisor goes through here in both directions.
 */
#ifndef AS_APP_RESUME_H
#define AS_APP_RESUME_H

#include "conf/option.h"
#include "ctl/message/reexec_state.h"
#include "ctl/state/runtime_dir.h"
#include "io/socket/notify.h"

struct as_resume {
    const char *command; /* whose options these are: "run", "start" */
    const struct as_option_set *opts;
    const struct as_runtime_dir *dir;
    const struct as_notify *notify;
    int hold; /* stays open (app/server/run.h); -1: there is none */
};

void as_resume_write_state(void *resume, struct as_reexec_writer *c); /* for as_supervisor_conf */
void as_resume_write_outcome(void *resume, struct as_str outcome); /* for as_upgrade_main to read */

/* The path of this program, as it was started: absolute, symlinks kept, so that whatever lies there
 * later is what an upgrade executes. The caller frees; NULL: it cannot be found. */
char *as_resume_find_program(void);

int as_resume_main(struct as_option_set *opts);  /* FD [check] */
int as_upgrade_main(struct as_option_set *opts); /* --runtime-dir, --port */

#endif
