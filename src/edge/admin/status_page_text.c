/* The status page as text: `anyserve status`. */
#include "edge/admin/status_page.h"

#include <unistd.h>

struct text {
    struct as_status_page *b;
    struct as_buf *out;
    bool drivers; /* one was written */
};

/* FAILED includes lost requests. */
static void text_deploy(void *arg, const struct as_status_page_deployment *k)
{
    static const struct as_stat none = {0};
    const struct text *t = arg;
    struct as_deployment *d = k->deploy;
    const struct as_stat *s = d ? as_deployment_stat(d) : &none;
    char wanted[16] = "-";

    if (k->wanted != AS_STATUS_PAGE_UNKNOWN)
        snprintf(wanted, sizeof(wanted), "%lld", (long long)k->wanted);
    as_buf_printf(t->out, "%-20.*s %6s %5u %9u %7u %8u %10lu %8lu %8lu  %s\n",
                  AS_STR_FMT(as_id_shown(k->name)), wanted, k->ready, k->connected,
                  d ? as_deployment_queued(d) + as_deployment_prefetched(d) : 0,
                  d ? as_deployment_ongoing(d) + as_deployment_beyond(d) : 0, s->completed,
                  s->failed + s->expired, s->refused, k->down ? "DOWN" : k->shown_status);
}

static void text_replica(void *arg, const struct as_fleet_replica *r)
{
    const struct text *t = arg;
    const struct as_status_page_process *p = as_status_page_find(t->b, r->name);
    struct as_str state = r->breaker ? as_str_of(as_breaker_state_name(r->breaker)) : r->state;

    as_buf_printf(t->out, "%-20.*s %-9.*s %8u %8u %7u %8u %11.1f", AS_STR_FMT(as_id_shown(r->name)),
                  AS_STR_FMT(state), r->pid, p ? p->restarts : 0, r->slots, r->ongoing,
                  (double)r->service / 1e3);
    if (p && p->ranked)
        as_buf_printf(t->out, " %5u", p->rank);
    as_buf_str(t->out, "\n");
}

/* The title is written with the first row. */
static void text_driver(void *arg, const struct as_fleet_driver *d)
{
    struct text *t = arg;

    if (!t->drivers)
        as_buf_str(t->out, "\nDRIVER                    PID    CALLS  PROGRAM\n");
    t->drivers = true;
    as_buf_printf(t->out, "%-20.*s %8u %8u  %.*s\n", AS_STR_FMT(d->name), d->pid, d->calls,
                  AS_STR_FMT(d->peer));
}

static void text_closings(const struct as_status_page *b, struct as_buf *out)
{
    bool any = false;

    for (uint32_t why = AS_CLOSE_EVICTED; why < AS_CLOSE_REASONS; why++) {
        uint64_t n = as_close_reason_name(why) ? as_status_page_closed_for(b, why) : 0;

        if (n)
            as_buf_printf(out, "%s %s %lu",
                          any ? "," : "clients closed:", as_close_reason_name(why), n);
        any = any || n;
    }
    as_buf_str(out, any ? "\n" : "");
}

static void text_process(const struct as_status_page_process *p, struct as_buf *out)
{
    if (!p->reason[0])
        return;
    /* the reason of a process that is starting is that of its predecessor */
    as_buf_printf(out, "\n%s: %s, %s%s\n", as_id_shown_z(p->replica), p->state,
                  strcmp(p->state, "starting") == 0 ? "its last process ended: " : "", p->reason);
}

static void text_message(void *arg, const struct as_status_page_deployment *d)
{
    const struct text *t = arg;

    if (d->shown_message[0])
        as_buf_printf(t->out, "\n%.*s: %s, %s\n", AS_STR_FMT(as_id_shown(d->name)), d->shown_status,
                      d->shown_message);
}

void as_status_page_describe_exposure(const struct as_status_page_exposure *e, struct as_buf *out)
{
    if (e->clear_text || e->anybody)
        as_buf_printf(
            out, "clients of other machines %s%s%s",
            e->clear_text ? "come in clear text (--tls-cert)" : "",
            e->clear_text && e->anybody ? ", and " : "",
            e->anybody ? "need neither a key nor a certificate (--api-keys, --tls-client-ca)" : "");
    if (e->status_anybody)
        as_buf_printf(out, "%swhoever reaches the status port reads what is there (--status-keys)",
                      out->n ? "; " : "");
}

void as_status_page_text(struct as_status_page *b, as_ns now, struct as_buf *out)
{
    struct text t = {b, out, false};
    const struct as_registry *g = as_fleet_registry(b->fleet);

    as_buf_printf(out, "anyserve " AS_VERSION "  pid %d  up %.0f s  %s  %lu connections\n",
                  (int)getpid(), (double)(now - b->started) / 1e9,
                  b->draining                  ? "draining"
                  : as_status_page_is_ready(b) ? "ready"
                                               : "not ready",
                  as_status_page_connections(b));
    text_closings(b, out);
    as_buf_str(out, "\nMODEL                VERSION    READY\n");
    for (uint32_t i = 0; i < as_registry_count(g); i++) {
        const struct as_model *m = as_registry_at(g, i);

        as_buf_printf(out, "%-20.*s %-10.*s %s\n", AS_STR_FMT(m->name), AS_STR_FMT(m->version),
                      as_fleet_deployment_ready(b->fleet, m->deployment) ? "yes" : "no");
    }
    as_buf_str(out, "\nDEPLOYMENT           WANTED READY CONNECTED  QUEUED  ONGOING  COMPLETED   "
                    "FAILED  REFUSED  STATUS\n");
    as_status_page_each_deployment(b, text_deploy, &t);
    as_buf_str(
        out,
        "\nREPLICA              STATE          PID RESTARTS   SLOTS  ONGOING  SERVICE_US  RANK\n");
    as_fleet_each_replica(b->fleet, text_replica, &t);
    AS_LIST_EACH(n, &b->processes)
    text_process(AS_LIST_ENTRY(n, struct as_status_page_process, node), out);
    as_fleet_each_driver(b->fleet, text_driver, &t);
    as_status_page_each_deployment(b, text_message, &t);
}
