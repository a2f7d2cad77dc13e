/* app/server/run.h — `anyserve run`: everything before the supervisor's loop, in order, with its messages.
 */
#ifndef AS_APP_RUN_H
#define AS_APP_RUN_H

#include "conf/option.h"

/* A server of another kind: whose desired state is not the command line's. */
struct as_run_kind {
    /* Called when the ports are taken and the folder is there; decides what is served. `banner`
     * gets the lines that say it. *ret_hold: a descriptor that is kept, over upgrades too, until
     * the server has ended; set as soon as there is one. An exit code, with a text in `err` unless
     * it was told. */
    int (*prepare)(struct as_option_set *opts, const char *python, int end_fd, int *ret_hold,
                   struct as_buf *banner, struct as_buf *err);
};
/* kind NULL: `run`. Returns the exit code. */
int as_run_server(struct as_option_set *opts, const struct as_run_kind *kind);

/* opts: parsed for AS_SCOPE_RUN, one argument. Changes ports and paths in it to the final ones.
 * Returns the exit code. */
int as_run_main(struct as_option_set *opts);

#endif
