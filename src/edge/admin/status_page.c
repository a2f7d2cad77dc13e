#include "edge/admin/status_page.h"

#include "base/counter.h"
#include "base/memory/live.h"
#include "base/memory/pages.h"
#include "io/process/proc.h"
#include "wire/json/json.h"

#include <unistd.h>

struct as_status_page_process *as_status_page_find(const struct as_status_page *b,
                                                   struct as_str replica)
{
    AS_LIST_EACH_ENTRY(p, struct as_status_page_process, node, &b->processes) {
        if (as_str_eq(as_str_of(p->replica), replica))
            return p;
    }
    return NULL;
}

/* The process is a child of the supervisor, like this one. */
static void set_pid(struct as_status_page_process *p, uint32_t pid)
{
    if (p->pid == pid)
        return;
    if (p->pidfd >= 0)
        close(p->pidfd);
    p->pid = pid;
    p->pidfd = as_proc_open_pidfd((pid_t)pid, getppid());
}

static void free_process(struct as_status_page_process *p)
{
    set_pid(p, 0);
    as_list_remove(&p->node);
    free(p->replica);
    free(p->deployment);
    free(p->state);
    free(p->reason);
    free(p);
}

/* `application` is only compared if deployment is "". */
static struct as_status_page_status *
find_status(const struct as_status_page *b, struct as_str application, struct as_str deployment)
{
    AS_LIST_EACH_ENTRY(s, struct as_status_page_status, node, &b->statuses) {
        if (as_str_eq(as_str_of(s->deployment), deployment) &&
            (deployment.n || as_str_eq(as_str_of(s->application), application)))
            return s;
    }
    return NULL;
}

static void free_status(struct as_status_page_status *s)
{
    as_list_remove(&s->node);
    free(s->application);
    free(s->deployment);
    free(s->status);
    free(s->trigger);
    free(s->message);
    free(s);
}

void as_status_page_init(struct as_status_page *b, struct as_fleet *fleet,
                         const struct as_edge_budgets *budgets, as_ns now)
{
    *b = (struct as_status_page){.fleet = fleet, .budgets = budgets, .started = now};
    as_list_init(&b->processes);
    as_list_init(&b->statuses);
}

void as_status_page_fini(struct as_status_page *b)
{
    AS_LIST_EACH(n, &b->processes)
    free_process(AS_LIST_ENTRY(n, struct as_status_page_process, node));
    AS_LIST_EACH(n, &b->statuses) free_status(AS_LIST_ENTRY(n, struct as_status_page_status, node));
}

void as_status_page_set_process(struct as_status_page *b, struct as_str replica,
                                struct as_str deployment, struct as_str state, struct as_str reason,
                                uint32_t pid, uint32_t restarts)
{
    struct as_status_page_process *p = as_status_page_find(b, replica);

    if (!p) {
        p = as_xalloc(sizeof(*p));
        p->pidfd = -1;
        p->replica = as_str_dup(replica);
        as_list_push(&b->processes, &p->node);
    } else {
        free(p->deployment);
        free(p->state);
        free(p->reason);
    }
    p->deployment = as_str_dup(deployment);
    p->state = as_str_dup(state);
    p->reason = as_str_dup(reason);
    set_pid(p, pid);
    p->restarts = restarts;
}

void as_status_page_remove(struct as_status_page *b, struct as_str replica)
{
    struct as_status_page_process *p = as_status_page_find(b, replica);

    if (p)
        free_process(p);
}

void as_status_page_set_rank(struct as_status_page *b, struct as_str replica, uint32_t rank,
                             uint32_t world_size)
{
    struct as_status_page_process *p = as_status_page_find(b, replica);

    if (!p)
        return;
    p->ranked = true;
    p->rank = rank;
    p->world_size = world_size;
}

/* Copies the first word of *text and removes it. */
static char *split_word(struct as_str *text)
{
    const char *space = text->n ? memchr(text->p, ' ', text->n) : NULL;
    struct as_str word = {text->p, space ? (size_t)(space - text->p) : text->n};
    size_t n = word.n + (space ? 1 : 0);

    *text = (struct as_str){text->p + n, text->n - n};
    return as_str_dup(word);
}

void as_status_page_set_status(struct as_status_page *b, struct as_str application,
                               struct as_str deployment, struct as_str text, as_ns since,
                               int64_t wanted)
{
    struct as_status_page_status *s = find_status(b, application, deployment);

    if (s)
        free_status(s);
    if (!text.n)
        return;
    s = as_xalloc(sizeof(*s));
    s->application = as_str_dup(application);
    s->deployment = as_str_dup(deployment);
    s->status = split_word(&text);
    s->trigger = split_word(&text);
    s->message = as_str_dup(text);
    s->since = since;
    s->wanted = wanted;
    as_list_push(&b->statuses, &s->node);
}

/* --- deployments as they are displayed --- */

struct deployments {
    struct as_status_page *b;
    void (*fn)(void *arg, const struct as_status_page_deployment *d);
    void *arg;
};

/* Shows the controller's status. But if that is HEALTHY and no replica is ready, the controller
 * does not know it yet, or hangs: UNHEALTHY. */
static void report_deployment(const struct deployments *k, struct as_status_page_deployment *d)
{
    const struct as_status_page_status *s = d->status;
    char text[64];

    d->wanted = s ? s->wanted : AS_STATUS_PAGE_UNKNOWN;
    d->shown_status = s ? s->status : "";
    d->shown_message = s ? s->message : "";
    if (d->wanted > 0 && !d->ready && strcmp(d->shown_status, "HEALTHY") == 0) {
        snprintf(text, sizeof(text), "no replica is ready, %lld %s wanted", (long long)d->wanted,
                 d->wanted == 1 ? "is" : "are");
        d->shown_status = "UNHEALTHY";
        d->shown_message = text;
    }
    k->fn(k->arg, d);
}

static void report_registered(void *arg, struct as_deployment *deploy, bool down)
{
    struct as_status_page_status *s;
    const struct deployments *k = arg;
    struct as_status_page_deployment d = {.deploy = deploy,
                                          .name = as_deployment_name(deploy),
                                          .down = down,
                                          .ready = as_deployment_ready(deploy),
                                          .connected = as_deployment_replicas(deploy)};

    d.status = s = find_status(k->b, AS_STR(""), d.name);
    if (s)
        s->is_listed = true;
    report_deployment(k, &d);
}

void as_status_page_each_deployment(struct as_status_page *b,
                                    void (*fn)(void *arg,
                                               const struct as_status_page_deployment *d),
                                    void *arg)
{
    struct deployments k = {.b = b, .fn = fn, .arg = arg};

    AS_LIST_EACH(n, &b->statuses)
    AS_LIST_ENTRY(n, struct as_status_page_status, node)->is_listed = false;
    as_fleet_each_deployment(b->fleet, report_registered, &k);
    AS_LIST_EACH_ENTRY(s, const struct as_status_page_status, node, &b->statuses) {
        struct as_status_page_deployment d = {.status = s, .name = as_str_of(s->deployment)};

        if (d.name.n && !s->is_listed)
            report_deployment(&k, &d);
    }
}

/* --- JSON --- */

struct json {
    struct as_status_page *b;
    as_ns now;
    struct as_buf *out;
};

/* What an id is to people; `name`: what its last part is called. */
static void json_id(const struct json *j, const char *name, struct as_str id)
{
    as_json_put_member_string(j->out, name, as_id_name(id));
    as_json_put_member_string(j->out, "application", as_id_application(id));
}

/* How its replicas are chosen, and how well that went. */
static void json_router(struct json *j, struct as_deployment *d)
{
    const struct as_stat *s = as_deployment_stat(d);

    as_json_put_member_open(j->out, "router", '{');
    as_json_put_member_text(j->out, "policy", as_router_name(as_deployment_router(d)->policy));
    as_json_put_member_u64(j->out, "waiting_for_preferred", as_deployment_preferring(d));
    as_json_put_member_u64(j->out, "model_hits", s->model_hits);
    as_json_put_member_u64(j->out, "model_misses", s->model_misses);
    as_json_put_member_u64(j->out, "late", s->router_late);
    as_json_put_member_u64(j->out, "fallbacks", s->router_fallbacks);
    as_json_put_close(j->out, '}');
}

/* Calls of models with batching; sizes[i] of them had more than 2^(i-1) and up to 2^i items. */
static void json_batches(struct json *j, const struct as_stat *s)
{
    as_buf_printf(j->out, ",\"batches\":{\"calls\":%lu,\"items\":%lu,\"sizes\":[", s->batches,
                  s->batch.sum / AS_US);
    for (uint32_t i = 0; i < AS_STAT_BATCH_BUCKETS; i++)
        as_buf_printf(j->out, i ? ",%lu" : "%lu", s->batch.bucket[i]);
    as_buf_str(j->out, "]}");
}

static void json_status(const struct json *j, const struct as_status_page_status *s,
                        const char *word, const char *message)
{
    as_buf_printf(j->out, ",\"status\":\"%s\",\"status_trigger\":\"%s\",\"status_s\":%.3f", word,
                  s->trigger, j->now > s->since ? (double)(j->now - s->since) / (double)AS_SEC : 0);
    as_json_put_member_text(j->out, "message", message);
}

static void json_deploy(void *arg, const struct as_status_page_deployment *k)
{
    static const struct as_stat none = {0};
    struct json *j = arg;
    struct as_deployment *d = k->deploy;
    const struct as_stat *s = d ? as_deployment_stat(d) : &none;

    as_json_put_open(j->out, '{');
    json_id(j, "name", k->name);
    as_json_put_member_bool(j->out, "down", k->down);
    as_json_put_key(j->out, "wanted");
    if (k->wanted == AS_STATUS_PAGE_UNKNOWN)
        as_json_put_null(j->out);
    else
        as_json_put_i64(j->out, k->wanted);
    as_buf_printf(j->out,
                  ",\"replicas\":%u,\"connected\":%u,\"ready\":%u,\"queued\":%u,\"prefetched\":%u,"
                  "\"ongoing\":%u,\"beyond\":%u,\"counts\":{\"accepted\":%lu,\"refused\":%lu,"
                  "\"dispatched\":%lu,\"completed\":%lu,\"failed\":%lu,\"expired\":%lu,"
                  "\"cancelled\":%lu,\"replayed\":%lu,\"recalled\":%lu,\"lost\":%lu,"
                  "\"deaths\":%lu}",
                  k->connected, k->connected, k->ready, d ? as_deployment_queued(d) : 0,
                  d ? as_deployment_prefetched(d) : 0, d ? as_deployment_ongoing(d) : 0,
                  d ? as_deployment_beyond(d) : 0, s->accepted, s->refused, s->dispatched,
                  s->completed, s->failed, s->expired, s->cancelled, s->replayed, s->recalled,
                  s->lost, s->deaths);
    json_batches(j, s);
    if (d)
        json_router(j, d);
    if (k->status)
        json_status(j, k->status, k->shown_status, k->shown_message);
    as_buf_str(j->out, "}");
}

/* An application is not better than its worst deployment. */
static void note_worst_status(void *arg, const struct as_status_page_deployment *d)
{
    const struct as_status_page *b = arg;
    struct as_status_page_status *s;

    if (!d->status || strcmp(d->shown_status, d->status->status) == 0)
        return;
    s = find_status(b, as_str_of(d->status->application), AS_STR(""));
    if (s && strcmp(s->status, "RUNNING") == 0)
        s->worst = d->shown_status;
}

static void json_application(struct json *j, const struct as_status_page_status *s)
{
    as_json_put_open(j->out, '{');
    as_json_put_member_text(j->out, "name", s->application);
    json_status(j, s, s->worst ? s->worst : s->status, s->message);
    as_buf_str(j->out, "}");
}

static void json_models(struct json *j)
{
    const struct as_registry *g = as_fleet_registry(j->b->fleet);

    as_json_put_member_open(j->out, "models", '[');
    for (uint32_t i = 0; i < as_registry_count(g); i++) {
        const struct as_model *m = as_registry_at(g, i);

        as_json_put_open(j->out, '{');
        as_json_put_member_string(j->out, "name", m->name);
        as_json_put_member_string(j->out, "version", m->version);
        as_json_put_member_bool(j->out, "ready",
                                as_fleet_deployment_ready(j->b->fleet, m->deployment));
        as_json_put_close(j->out, '}');
    }
    as_json_put_close(j->out, ']');
}

/* JSON that the worker has reported, and that was checked when it came. */
static void json_report(struct json *j, const struct as_fleet_replica *r, uint32_t kind,
                        const char *name)
{
    if (r->reports[kind].n)
        as_buf_printf(j->out, ",\"%s\":%.*s", name, AS_STR_FMT(r->reports[kind]));
}

static void json_driver(void *arg, const struct as_fleet_driver *d)
{
    struct json *j = arg;

    as_json_put_open(j->out, '{');
    as_json_put_member_string(j->out, "name", d->name);
    as_json_put_member_string(j->out, "peer", d->peer);
    as_json_put_member_u64(j->out, "pid", d->pid);
    as_json_put_member_u64(j->out, "open_calls", d->calls);
    as_json_put_member_u64(j->out, "epoch", d->epoch);
    as_json_put_close(j->out, '}');
}

static void json_replica(void *arg, const struct as_fleet_replica *r)
{
    struct json *j = arg;
    const struct as_status_page_process *p = as_status_page_find(j->b, r->name);

    as_json_put_open(j->out, '{');
    as_json_put_member_string(j->out, "name", as_id_name(r->name));
    json_id(j, "deployment", r->deployment);
    as_buf_printf(j->out,
                  ",\"kind\":\"%.*s\",\"state\":\"%.*s\",\"breaker\":\"%s\",\"pid\":%u,"
                  "\"slots\":%u,\"ongoing\":%u,\"beyond\":%u,"
                  "\"unanswered\":%u,\"service_us\":%.3f,\"epoch\":%lu,\"restarts\":%u",
                  AS_STR_FMT(r->kind), AS_STR_FMT(r->state), as_breaker_state_name(r->breaker),
                  r->pid, r->slots, r->ongoing, r->beyond, r->unanswered, (double)r->service / 1e3,
                  (unsigned long)r->epoch, p ? p->restarts : 0);
    as_json_put_member_u64(j->out, "open_calls", r->calls);
    as_json_put_member_u64(j->out, "multiplexed_models", r->models);
    json_report(j, r, AS_REPORT_MODEL_IDS, "multiplexed_model_ids");
    json_report(j, r, AS_REPORT_ROUTING, "routing_stats");
    json_report(j, r, AS_REPORT_AUTOSCALING, "autoscaling_stats");
    as_buf_printf(j->out,
                  ",\"worker\":{\"wakes\":%lu,\"reads\":%lu,\"writes\":%lu,\"waits\":%lu,"
                  "\"other_syscalls\":%lu,\"calls\":%lu,\"cancels\":%lu,\"live_bytes\":%lu}}",
                  r->worker.wakes, r->worker.reads, r->worker.writes, r->worker.waits,
                  r->worker.others, r->worker.calls, r->worker.cancels, r->worker.live);
}

static void json_processes(struct json *j)
{
    as_json_put_member_open(j->out, "processes", '[');
    AS_LIST_EACH_ENTRY(p, struct as_status_page_process, node, &j->b->processes) {
        as_json_put_open(j->out, '{');
        as_json_put_member_string(j->out, "replica", as_id_name(as_str_of(p->replica)));
        json_id(j, "deployment", as_str_of(p->deployment));
        as_json_put_member_text(j->out, "state", p->state);
        as_json_put_member_u64(j->out, "pid", p->pid);
        as_json_put_member_u64(j->out, "restarts", p->restarts);
        as_json_put_member_text(j->out, "reason", p->reason);
        if (p->ranked) {
            as_json_put_member_u64(j->out, "rank", p->rank);
            as_json_put_member_u64(j->out, "world_size", p->world_size);
        }
        as_json_put_close(j->out, '}');
    }
    as_json_put_close(j->out, ']');
}

uint64_t as_status_page_sum(const struct as_status_page *b, size_t offset)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < b->n_edges; i++) {
        const char *s = (const char *)as_edge_stat(b->edges[i]);

        n += as_counter_read((const uint64_t *)(const void *)(s + offset));
    }
    return n;
}

uint64_t as_status_page_connections(const struct as_status_page *b)
{
    return as_status_page_sum(b, offsetof(struct as_edge_stat, accepted)) -
           as_status_page_sum(b, offsetof(struct as_edge_stat, closed));
}

uint64_t as_status_page_closed_for(const struct as_status_page *b, uint32_t why)
{
    return as_status_page_sum(b, offsetof(struct as_edge_stat, closed_for[why]));
}

/* Connections that were closed because of their client, by reason. */
static void json_closings(struct json *j)
{
    as_json_put_member_open(j->out, "clients_closed", '{');
    for (uint32_t why = AS_CLOSE_EVICTED; why < AS_CLOSE_REASONS; why++) {
        uint64_t n = as_close_reason_name(why) ? as_status_page_closed_for(j->b, why) : 0;

        if (n)
            as_json_put_member_u64(j->out, as_close_reason_name(why), n);
    }
    as_json_put_close(j->out, '}');
}

bool as_status_page_is_ready(const struct as_status_page *b)
{
    return !b->draining && (b->n_loops ? as_edge_is_ready(b->edges[0]) : as_fleet_ready(b->fleet));
}

void as_status_page_json(struct as_status_page *b, as_ns now, struct as_buf *out)
{
    struct json j = {b, now, out};

    as_buf_printf(
        out,
        "{\"server\":{\"name\":\"anyserve\",\"version\":\"" AS_VERSION "\",\"pid\":%d,"
        "\"uptime_seconds\":%.3f,\"ready\":%s,\"draining\":%s,\"threads\":%u,"
        "\"connections\":%lu,\"inflight_bytes\":%lu,\"answer_bytes\":%lu,\"unanswered\":%u,"
        "\"exchanges\":%lu,\"pooled_exchanges\":%lu,\"live_bytes\":%lu,\"kept_bytes\":%lu}",
        (int)getpid(), (double)(now - b->started) / 1e9,
        as_status_page_is_ready(b) ? "true" : "false", b->draining ? "true" : "false", b->n_loops,
        as_status_page_connections(b), (unsigned long)as_budget_used(&b->budgets->requests),
        (unsigned long)as_budget_used(&b->budgets->answers), as_fleet_unanswered(b->fleet),
        as_status_page_sum(b, offsetof(struct as_edge_stat, exchanges)),
        as_status_page_sum(b, offsetof(struct as_edge_stat, pooled)),
        (unsigned long)as_live_bytes(), (unsigned long)as_pages_cached());
    as_json_put_member_open(out, "exposure", '{');
    as_json_put_member_bool(out, "beyond_loopback", b->exposure.beyond_loopback);
    as_json_put_member_bool(out, "clear_text", b->exposure.clear_text);
    as_json_put_member_bool(out, "anybody", b->exposure.anybody);
    as_json_put_member_bool(out, "status_anybody", b->exposure.status_anybody);
    as_json_put_close(out, '}');
    json_closings(&j);
    json_models(&j);
    as_json_put_member_open(out, "deployments", '[');
    as_status_page_each_deployment(b, json_deploy, &j);
    as_json_put_close(out, ']');
    as_json_put_member_open(out, "applications", '[');
    AS_LIST_EACH(n, &b->statuses)
    AS_LIST_ENTRY(n, struct as_status_page_status, node)->worst = NULL;
    as_status_page_each_deployment(b, note_worst_status, b);
    AS_LIST_EACH_ENTRY(s, const struct as_status_page_status, node, &b->statuses) {
        if (!s->deployment[0])
            json_application(&j, s);
    }
    as_json_put_close(out, ']');
    as_json_put_member_open(out, "replicas", '[');
    as_fleet_each_replica(b->fleet, json_replica, &j);
    as_json_put_close(out, ']');
    as_json_put_member_open(out, "drivers", '[');
    as_fleet_each_driver(b->fleet, json_driver, &j);
    as_json_put_close(out, ']');
    json_processes(&j);
    as_buf_str(out, "}\n");
}
