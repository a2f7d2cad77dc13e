/* /metrics: the counters of workers, and the registered workers. */
#include "base/counter.h"
#include "edge/admin/metrics_internal.h"
#include "link/simple/simple.h"

#define CLOSED  "anyserve_simple_connections_closed_total"
#define REFUSED "anyserve_management_refused_total"

struct worker_metric {
    const char *name, *type, *help;
    const char
        *kind; /* label; NULL: none. Rows of one name are adjacent; the first one has the help */
    size_t offset; /* in as_page_stat */
};

struct each_worker {
    struct as_buf *out;
    const struct worker_metric *m;
};

static void put_worker(void *arg, const struct as_fleet_replica *r)
{
    const struct each_worker *e = arg;
    const char *s = (const char *)&r->worker;

    if (!r->name.n)
        return; /* not registered yet */
    as_buf_printf(e->out, "%s{replica=", e->m->name);
    as_buf_json(e->out, r->name);
    if (e->m->kind)
        as_buf_printf(e->out, ",kind=\"%s\"", e->m->kind);
    as_buf_printf(e->out, "} %lu\n", *(const uint64_t *)(const void *)(s + e->m->offset));
}

static void put_workers(struct as_status_page *b, struct as_buf *o)
{
#define AT(field) offsetof(struct as_page_stat, field)
    static const struct worker_metric metrics[] = {
        {"anyserve_worker_wakes_total", "counter",
         "Times that a worker's thread woke up from waiting for its link.", NULL, AT(wakes)},
        {"anyserve_worker_syscalls_total", "counter", "System calls for the link, by kind.", "read",
         AT(reads)},
        {"anyserve_worker_syscalls_total", NULL, NULL, "write", AT(writes)},
        {"anyserve_worker_syscalls_total", NULL, NULL, "wait", AT(waits)},
        {"anyserve_worker_syscalls_total", NULL, NULL, "other", AT(others)},
        {"anyserve_worker_calls_total", "counter", "Handlers started.", NULL, AT(calls)},
        {"anyserve_worker_cancels_total", "counter",
         "Requests cancelled while they were in the worker.", NULL, AT(cancels)},
        {"anyserve_worker_live_bytes", "gauge", "Bytes held for requests and answers.", NULL,
         AT(live)},
    };
#undef AT

    for (size_t i = 0; i < AS_COUNT(metrics); i++) {
        struct each_worker e = {o, &metrics[i]};

        if (e.m->help)
            as_metrics_header(o, e.m->name, e.m->type, e.m->help);
        as_fleet_each_replica(b->fleet, put_worker, &e);
    }
}

/* --- workers that register --- */

static void put_registered(struct as_status_page *b, struct as_buf *o)
{
    const struct as_simple_stat s = as_simple_stat(b->fleet);
    const struct {
        const char *reason;
        uint64_t n;
    } closed[] = {{"cancelled", s.cancelled},
                  {"idle", s.idle},
                  {"ended", s.ended},
                  {"broken", s.broken},
                  {"single", s.single},
                  {"refused", s.refused},
                  {"left", s.left}};
    const struct as_edge_stat *e = as_edge_stat(b->edges[b->n_edges - 1]);

    as_metrics_put(o, "anyserve_simple_connections_opened_total", "counter",
                   "Connections to registered workers.", s.opened);
    as_metrics_put(o, "anyserve_simple_connections_reused_total", "counter",
                   "Requests to registered workers that found an open connection.", s.reused);
    as_metrics_put(o, "anyserve_simple_connections_failed_total", "counter",
                   "Connections to registered workers that could not be made.", s.not_connected);
    as_metrics_header(o, CLOSED, "counter",
                      "Connections to registered workers that were closed, by reason.");
    for (size_t i = 0; i < AS_COUNT(closed); i++)
        as_metrics_put_by(o, CLOSED, "reason", closed[i].reason, closed[i].n);
    as_metrics_header(o, REFUSED, "counter",
                      "Refusals of the management interface: connections of other users, requests "
                      "without a valid token.");
    as_metrics_put_by(o, REFUSED, "reason", "user", as_counter_read(&e->other_users));
    as_metrics_put_by(o, REFUSED, "reason", "token", as_counter_read(&e->unauthenticated));
}

void as_metrics_workers(struct as_status_page *b, struct as_buf *out)
{
    put_workers(b, out);
    put_registered(b, out);
}
