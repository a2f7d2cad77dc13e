/* The list of workers: `anyserve workers`. */
#include "edge/admin/status_page.h"
#include "wire/json/json.h"

/* A row of the list. */
struct worker {
    struct as_str id, kind, deployment, state, address;
    uint32_t pid, slots, ongoing;
    uint64_t epoch;
    as_ns heard; /* the last heartbeat; 0: none are required */
};

struct list {
    struct as_status_page *b;
    as_ns now;
    struct as_buf *out;
    void (*put)(struct list *l, const struct worker *w);
    uint32_t n;
};

struct search {
    struct as_str name;
    bool found;
};

static void match_name(void *arg, const struct as_fleet_replica *r)
{
    struct search *s = arg;

    s->found = s->found || as_str_eq(r->name, s->name);
}

static void put_replica(void *arg, const struct as_fleet_replica *r)
{
    struct list *l = arg;
    const struct worker w = {.id = r->name,
                             .kind = r->kind,
                             .deployment = r->deployment,
                             .state = r->state,
                             .address = r->address,
                             .pid = r->pid,
                             .slots = r->slots,
                             .ongoing = r->ongoing,
                             .epoch = r->epoch,
                             .heard = r->heard};

    if (!r->name.n && !r->pid)
        return; /* a connection that has not registered */
    l->put(l, &w);
    l->n++;
}

/* The fleet knows connected workers; the others are processes that start, are lost or down. */
static void put_workers(struct list *l)
{
    as_fleet_each_replica(l->b->fleet, put_replica, l);
    AS_LIST_EACH_ENTRY(p, struct as_status_page_process, node, &l->b->processes) {
        struct search s = {as_str_of(p->replica), false};
        const struct worker w = {.id = s.name,
                                 .kind = AS_STR("native"),
                                 .deployment = as_str_of(p->deployment),
                                 .state = as_str_of(p->state),
                                 .pid = p->pid};

        as_fleet_each_replica(l->b->fleet, match_name, &s);
        if (s.found)
            continue;
        l->put(l, &w);
        l->n++;
    }
}

static double heartbeat_age(const struct list *l, const struct worker *w)
{
    return (double)(l->now - w->heard) / (double)AS_SEC;
}

static void put_json(struct list *l, const struct worker *w)
{
    as_json_put_open(l->out, '{');
    as_json_put_member_string(l->out, "worker", as_id_name(w->id));
    as_json_put_member_string(l->out, "kind", w->kind);
    as_json_put_member_string(l->out, "deployment", as_id_name(w->deployment));
    as_json_put_member_string(l->out, "application", as_id_application(w->deployment));
    as_json_put_member_string(l->out, "state", w->state);
    as_json_put_member_string(l->out, "address", w->address);
    as_buf_printf(l->out,
                  ",\"pid\":%u,\"slots\":%u,\"ongoing\":%u,\"epoch\":%lu,"
                  "\"heartbeat_age_seconds\":",
                  w->pid, w->slots, w->ongoing, (unsigned long)w->epoch);
    if (w->heard)
        as_buf_printf(l->out, "%.3f}", heartbeat_age(l, w));
    else
        as_buf_str(l->out, "null}");
}

void as_status_page_workers_json(struct as_status_page *b, as_ns now, struct as_buf *out)
{
    struct list l = {b, now, out, put_json, 0};

    as_buf_str(out, "{\"workers\":[");
    put_workers(&l);
    as_buf_str(out, "]}\n");
}

static void put_text(struct list *l, const struct worker *w)
{
    as_buf_printf(l->out, "%-24.*s %-7.*s %-24.*s %-9.*s %5u %8u %6lu ",
                  AS_STR_FMT(as_id_shown(w->id)), AS_STR_FMT(w->kind),
                  AS_STR_FMT(as_id_shown(w->deployment)), AS_STR_FMT(w->state), w->slots,
                  w->ongoing, (unsigned long)w->epoch);
    if (w->heard)
        as_buf_printf(l->out, "%6.1f s  ", heartbeat_age(l, w));
    else
        as_buf_str(l->out, "       -  ");
    if (w->address.n)
        as_buf_printf(l->out, "%.*s\n", AS_STR_FMT(w->address));
    else
        as_buf_printf(l->out, "pid %u\n", w->pid);
}

void as_status_page_workers_text(struct as_status_page *b, as_ns now, struct as_buf *out)
{
    struct list l = {b, now, out, put_text, 0};

    as_buf_str(out, "WORKER                   KIND    DEPLOYMENT               STATE     SLOTS  "
                    "ONGOING  EPOCH HEARTBEAT AT\n");
    put_workers(&l);
    if (!l.n)
        as_buf_str(out, "(none)\n");
}
