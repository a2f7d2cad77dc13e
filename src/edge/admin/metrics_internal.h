/* edge/admin/metrics_internal.h — what the files of /metrics share; nobody else includes it.
 *
 * metrics.c: the server, its deployments and models; metrics_workers.c: their workers.
 */
#ifndef AS_EDGE_METRICS_INTERNAL_H
#define AS_EDGE_METRICS_INTERNAL_H

#include "edge/admin/status_page.h"

/* The two lines in front of a metric's series. */
void as_metrics_header(struct as_buf *o, const char *name, const char *type, const char *help);

void as_metrics_workers(struct as_status_page *b, struct as_buf *out);

#endif
