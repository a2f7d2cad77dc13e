/* app/options/conf.h — builds the configurations of the dispatcher's and controller's parts from
 * options.
 *
 * The options have passed the parser and are those of AS_SCOPE_DISPATCHER unless a function says
 * otherwise. Strings in a configuration point into the options. Units are those of each
 * configuration's own header. Any thread.
 */
#ifndef AS_APP_CONF_H
#define AS_APP_CONF_H

#include "conf/option/option.h"
#include "edge/edge.h"
#include "io/shm.h"
#include "link/fleet/fleet.h"

#define AS_CONF_DEBUGGING ((as_ns)3650 * 86400 * AS_SEC) /* with --debug: practically never */

struct as_fleet_conf as_conf_fleet(const struct as_option_set *o); /* with a random seed */
/* For one event loop: it gets an equal part of --max-connections and --max-requests, rounded up.
 * The caller sets what the loops share (shm, control, log). */
struct as_edge_conf as_conf_edge(const struct as_option_set *o);
/* For the management service, where workers register, and for the control API (options of
 * AS_SCOPE_CONTROLLER). The caller sets the tokens. */
struct as_edge_conf as_conf_management(const struct as_option_set *o);
struct as_edge_conf as_conf_control(const struct as_option_set *o);
/* For the status page. The caller sets the page. */
struct as_edge_conf as_conf_status(const struct as_option_set *o);
struct as_edge_budgets as_conf_budgets(const struct as_option_set *o);
struct as_edge_budgets as_conf_status_budgets(void); /* beside those of clients and workers */
struct as_shm_conf as_conf_shm(const struct as_option_set *o);
/* --core-dumps of this process, with the options of any scope that has it. Call it before secrets
 * are read, while there is one thread. */
void as_conf_limit_core_dumps(const struct as_option_set *o);

#endif
