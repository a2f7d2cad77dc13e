/* edge/admin/status.h — the read-only interface of /status, /workers, /metrics and the probes.
 *
 * For curl, Prometheus and `anyserve status`, on --status-host and on a unix socket; one request
 * per connection. What each path answers: edge/admin/status_page.h. /status and /workers are JSON,
 * or text with ?format=text. Thread: the dispatch loop, but where said otherwise.
 */
#ifndef AS_EDGE_STATUS_H
#define AS_EDGE_STATUS_H

#include "edge/rest/rest.h"

void as_status_metrics(struct as_exchange *x, const struct as_rest_match *m);
/* /metrics on the port of clients, from any loop. */
void as_status_client_metrics(struct as_exchange *x, const struct as_rest_match *m);
void as_status_server(struct as_exchange *x, const struct as_rest_match *m);
void as_status_workers(struct as_exchange *x, const struct as_rest_match *m);
void as_status_health(struct as_exchange *x, const struct as_rest_match *m);
void as_status_routes(struct as_exchange *x, const struct as_rest_match *m);

#endif
