/* app/orders.h — what people ask of a server, carried out by its controller and kept.
 *
 * The desired state is a deployment file (ctl/spec.h): what the code declares, with --workers, and
 * what was asked for since. A change is stored (ctl/store.h) before it is done, so that the next
 * controller is after the same. `run` stores in the server's folder below --runtime-dir: that ends
 * with the server. Blocking writes of a few milliseconds, for changes only. Thread: the
 * controller's loop.
 */
#ifndef AS_APP_ORDERS_H
#define AS_APP_ORDERS_H

#include "ctl/crew.h"
#include "ctl/option.h"
#include "ctl/store.h"
#include "edge/control.h"

#define AS_ORDERS_APPLICATION "default" /* of a server that `run` started */

struct as_orders {
    struct as_control api; /* for the edge */
    struct as_crew *crew;
    const struct as_option_set *opts;
    const struct as_app *app;
    const struct as_log *log;
    struct as_store *store; /* NULL: nothing was ever changed */
    char *folder;
};

/* What an earlier controller was asked for is asked of the crew, which has heard nothing yet. All
 * pointers are kept. Without the stored state it goes on with what the command line says, and logs
 * that. */
void as_orders_open(struct as_orders *o, const struct as_option_set *opts, const struct as_app *app,
                    struct as_crew *crew, const struct as_log *log);
void as_orders_close(struct as_orders *o);

#endif
