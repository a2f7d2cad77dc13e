/* /metrics: the counters of workers, and the registered workers. */
#include "base/counter.h"
#include "edge/admin/metrics_internal.h"
#include "link/simple/simple.h"

#define CLOSED    "anyserve_simple_connections_closed_total"
#define REFUSED   "anyserve_management_refused_total"
#define DECISIONS "anyserve_router_decisions_total"

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
    as_buf_printf(e->out, "%s{", e->m->name);
    as_metrics_put_ids(e->out, r->deployment, r->name);
    if (e->m->kind)
        as_buf_printf(e->out, ",kind=\"%s\"", e->m->kind);
    as_buf_printf(e->out, "} %lu\n", *(const uint64_t *)(const void *)(s + e->m->offset));
}

static void put_router(void *arg, struct as_str deployment, const uint64_t *counts,
                       const char *const *names)
{
    struct as_buf *o = arg;

    for (uint32_t i = 0; names[i]; i++) {
        as_buf_str(o, DECISIONS "{");
        as_metrics_put_ids(o, deployment, AS_STR(""));
        as_buf_printf(o, ",outcome=\"%s\"} %lu\n", names[i], counts[i]);
    }
}

static void put_routers(struct as_status_page *b, struct as_buf *o)
{
    as_metrics_header(o, DECISIONS, "counter",
                      "Questions to a router of the user's own, by how they ended; but for "
                      "\"chosen\" and \"left\" the server decided.");
    as_fleet_each_router(b->fleet, put_router, o);
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

static void put_payloads(struct as_status_page *b, struct as_buf *o)
{
    static const char name[] = "anyserve_payloads_refused_total";
    uint64_t calls[2] = {0};

    for (uint32_t i = 0; i < b->n_edges; i++) {
        calls[0] += as_counter_read(&as_edge_stat(b->edges[i])->calls_refused[0]);
        calls[1] += as_counter_read(&as_edge_stat(b->edges[i])->calls_refused[1]);
    }
    as_metrics_header(o, name, "counter",
                      "Refusals of what may be pickled, or leads to it, by where it came from.");
    as_metrics_put_by(o, name, "from", "rest", calls[0]);
    as_metrics_put_by(o, name, "from", "grpc", calls[1]);
    as_metrics_put_by(o, name, "from", "control", b->control_refusals);
    for (uint32_t why = 0; why < AS_FLEET_REFUSED_KINDS; why++)
        as_metrics_put_by(o, name, "from", as_fleet_refused_name((enum as_fleet_refused)why),
                          as_fleet_refused_payloads(b->fleet, (enum as_fleet_refused)why));
}

static void put_keys(struct as_status_page *b, struct as_buf *o)
{
    static const char name[] = "anyserve_api_key_refusals_total";

    as_metrics_header(o, name, "counter",
                      "Requests that were refused for their API key, by reason.");
    for (uint32_t why = AS_KEY_MISSING; why < AS_KEY_REFUSALS; why++) {
        uint64_t n = 0;

        for (uint32_t i = 0; i < b->n_edges; i++)
            n += as_counter_read(&as_edge_stat(b->edges[i])->keys_refused[why]);
        as_metrics_put_by(o, name, "reason", as_key_refusal_name((enum as_key_refusal)why), n);
    }
}

struct drivers {
    uint32_t n;
    uint64_t calls;
};

static void count_driver(void *arg, const struct as_fleet_driver *d)
{
    struct drivers *all = arg;

    all->n++;
    all->calls += d->calls;
}

static void put_drivers(struct as_status_page *b, struct as_buf *o)
{
    struct drivers all = {0};

    as_fleet_each_driver(b->fleet, count_driver, &all);
    as_metrics_put(o, "anyserve_drivers", "gauge", "Connected programs that make calls.", all.n);
    as_metrics_put(o, "anyserve_driver_calls", "gauge", "Calls of theirs that are open.",
                   all.calls);
}

void as_metrics_workers(struct as_status_page *b, struct as_buf *out)
{
    put_payloads(b, out);
    put_keys(b, out);
    put_drivers(b, out);
    put_routers(b, out);
    put_workers(b, out);
    put_registered(b, out);
}
