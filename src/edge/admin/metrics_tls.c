/* /metrics: TLS of the client port. */
#include "edge/admin/metrics_internal.h"

void as_metrics_tls(struct as_status_page *b, struct as_buf *o)
{
    static const char done[] = "anyserve_tls_handshakes_total";

    as_metrics_header(o, done, "counter", "TLS handshakes that are done, by kind.");
    as_metrics_put_by(o, done, "kind", "full",
                      as_status_page_sum(b, offsetof(struct as_edge_stat, tls_full)));
    as_metrics_put_by(o, done, "kind", "resumed",
                      as_status_page_sum(b, offsetof(struct as_edge_stat, tls_resumed)));
    as_metrics_put(o, "anyserve_tls_handshakes_in_progress", "gauge", "TLS handshakes in progress.",
                   as_status_page_sum(b, offsetof(struct as_edge_stat, handshakes)));
    as_metrics_put(o, "anyserve_tls_certificate_expires_seconds", "gauge",
                   "When the first certificate expires, in Unix time; 0: none is loaded.",
                   b->tls ? (uint64_t)as_tls_server_not_after(b->tls) : 0);
}
