/* app/server/run.h — `anyserve run`: starts a server: checks, ports, folders, banner, and then the
 * supervisor's loop. `anyserve start` shares this. One thread.
 */
#ifndef AS_APP_RUN_H
#define AS_APP_RUN_H

#include "conf/option/option.h"

/* What differs for a server whose desired state does not come from the command line. */
struct as_run_kind {
    /* Called when the ports are bound and the runtime folder exists; decides what is served and
     * appends the lines about it to `banner`. *ret_hold: a descriptor that stays open until the
     * server has ended, also over upgrades; set as soon as it exists. Returns an exit code, with a
     * text in `err` unless the error was printed. */
    int (*prepare)(struct as_option_set *opts, const char *python, int end_fd, int *ret_hold,
                   struct as_buf *banner, struct as_buf *err);
};
/* Runs a server; kind NULL: `run`. Returns the exit code. */
int as_run_server(struct as_option_set *opts, const struct as_run_kind *kind);

/* opts: parsed for AS_SCOPE_RUN, at most one argument; ports and paths are set to the final ones.
 * Returns the exit code. */
int as_run_main(struct as_option_set *opts);

#endif
