/* edge/admin/metrics_internal.h — shared by metrics.c (the server, deployments, models),
 * metrics_hedges.c (hedges of deployments) and metrics_workers.c (workers) only.
 */
#ifndef AS_EDGE_METRICS_INTERNAL_H
#define AS_EDGE_METRICS_INTERNAL_H

#include "edge/admin/status_page.h"

/* The # HELP and # TYPE lines of a metric. */
void as_metrics_header(struct as_buf *o, const char *name, const char *type, const char *help);
/* A metric that has one series, without labels. */
void as_metrics_put(struct as_buf *o, const char *name, const char *type, const char *help,
                    uint64_t v);
/* One series of a metric, with one label; value: needs no escape. */
void as_metrics_put_by(struct as_buf *o, const char *name, const char *label, const char *value,
                       uint64_t v);

/* The labels application and deployment, and, unless it is empty, replica, without braces. */
void as_metrics_put_ids(struct as_buf *o, struct as_str deployment, struct as_str replica);

void as_metrics_hedges(struct as_status_page *b, struct as_buf *out);
void as_metrics_tls(struct as_status_page *b, struct as_buf *out);
void as_metrics_workers(struct as_status_page *b, struct as_buf *out);
void as_metrics_reports(struct as_status_page *b, struct as_buf *out);

#endif
