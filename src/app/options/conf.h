/* app/options/conf.h — options of the command line as the configurations of the dispatcher's parts.
 *
 * The options are checked before and are those of AS_SCOPE_DISPATCHER; texts stay with them. Units
 * are those of the configuration's header. Any thread.
 */
#ifndef AS_APP_CONF_H
#define AS_APP_CONF_H

#include "conf/option.h"
#include "edge/edge.h"
#include "io/shm.h"
#include "link/fleet/fleet.h"

#define AS_CONF_DEBUGGING ((as_ns)3650 * 86400 * AS_SEC) /* stands for never, with --debug */

struct as_fleet_conf as_conf_fleet(const struct as_option_set *o); /* with a seed of its own */
/* Of one loop: each gets its part of the connections and requests, rounded up. What the loops share
 * (shm, control, log) is for the caller to add. */
struct as_edge_conf as_conf_edge(const struct as_option_set *o);
/* Of the interface where workers register, of the one where what is served is changed (options of
 * AS_SCOPE_CONTROLLER); the tokens are for the caller to add. */
struct as_edge_conf as_conf_management(const struct as_option_set *o);
struct as_edge_conf as_conf_control(const struct as_option_set *o);
struct as_edge_budgets as_conf_budgets(const struct as_option_set *o);
struct as_shm_conf as_conf_shm(const struct as_option_set *o);

#endif
