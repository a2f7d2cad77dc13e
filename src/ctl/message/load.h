/* ctl/message/load.h — the text of LOAD: what the dispatcher counts of one deployment for the
 * autoscaling of the controller.
 *
 * Words separated by spaces: "slots=N", "accepted=N", "service_sum=NS", "service=N,N,…" and
 * "latency=N,N,…" (a number for each bucket; those at the end that are 0 are left out), and
 * "NUMBER:REQUESTS" for each replica, by its number in the deployment. A word that is not known is
 * of a later version, and skipped.
 */
#ifndef AS_CTL_LOAD_H
#define AS_CTL_LOAD_H

#include "base/buf.h"
#include "core/autoscale/service_window.h"

#define AS_CTL_LOAD_TEXT_MAX 49152u /* replicas that would make it longer are left out */

struct as_ctl_load {
    bool has_times;
    uint32_t slots;                 /* of all its replicas together */
    struct as_service_sample times; /* without `at` */
};

/* Appends the words of l. */
void as_ctl_load_put(const struct as_ctl_load *l, struct as_buf *text);
/* Appends the word of one replica, unless the text has AS_CTL_LOAD_TEXT_MAX bytes. */
void as_ctl_load_put_replica(uint32_t number, uint32_t requests, struct as_buf *text);

/* Reads a text. fn is called for each replica. What is malformed is skipped: the dispatcher talks
 * to the network, so nothing of it is trusted. */
typedef void as_ctl_load_replica_fn(void *arg, uint32_t number, uint32_t requests);
void as_ctl_load_parse(struct as_str text, struct as_ctl_load *ret_l, as_ctl_load_replica_fn *fn,
                       void *arg);

#endif
