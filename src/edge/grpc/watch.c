#include "edge/grpc/watch.h"

#include "edge/exchange/key_access.h"
#include "edge/grpc/stream.h"
#include "wire/management/management.h"

#define SERVER      "inference.GRPCInferenceService"
#define REQUEST_MAX 65536u /* bytes of a Watch's message */

/* --- states --- */

static enum as_grpc_health status_if(bool serving)
{
    return serving ? AS_GRPC_HEALTH_SERVING : AS_GRPC_HEALTH_NOT_SERVING;
}

/* A gRPC service of an application that the client may use: served if a deployment that has it is
 * ready. Another application's service is none, so that it is answered as a name that nobody has.
 */
static bool is_of_user(const struct as_exchange *x, struct as_str service, bool *ret_serving)
{
    struct as_edge *e = x->edge;
    const struct as_service_table *t = as_registry_services(e->client.registry);
    bool found = false;

    *ret_serving = false;
    for (uint32_t i = 0; t && i < t->n; i++) {
        if (!as_service_set_has(t->at[i].set, service) ||
            !as_key_access_lists_application(x, t->at[i].application))
            continue;
        found = true;
        *ret_serving =
            *ret_serving ||
            (!e->shutting_down && as_fleet_deployment_ready(e->client.fleet, t->at[i].deployment));
    }
    return found;
}

static bool is_server(struct as_str service)
{
    return !service.n || as_str_eq(service, AS_STR(SERVER));
}

static enum as_grpc_health status_of(const struct as_exchange *x, struct as_str service)
{
    struct as_edge *e = x->edge;
    const char *colon = service.n ? memrchr(service.p, ':', service.n) : NULL;
    struct as_str version = {0};
    const struct as_model *m;
    bool serving;

    if (is_server(service))
        return status_if(as_edge_is_ready(e));
    if (e->conf.interface == AS_INTERFACE_MANAGEMENT &&
        as_str_eq(service, AS_STR(AS_MANAGEMENT_SERVICE)))
        return status_if(!e->draining);
    if (e->conf.interface == AS_INTERFACE_CLIENTS && is_of_user(x, service, &serving))
        return status_if(serving);
    if (colon) { /* model names have no colon */
        version = (struct as_str){colon + 1, service.n - (size_t)(colon + 1 - service.p)};
        service.n = (size_t)(colon - service.p);
        if (!version.n)
            return AS_GRPC_HEALTH_SERVICE_UNKNOWN;
    }
    m = as_registry_find(e->client.registry, service, version, NULL);
    return m ? status_if(as_edge_is_model_ready(e, m)) : AS_GRPC_HEALTH_SERVICE_UNKNOWN;
}

/* --- what a client may ask about --- */

/* The server as a whole may be asked about without an API key. False: failed. */
static bool check_key(struct as_exchange *x, struct as_str service)
{
    const char *colon = service.n ? memrchr(service.p, ':', service.n) : NULL;
    struct as_str model = {service.p, colon ? (size_t)(colon - service.p) : service.n};
    bool serving;

    if (!x->edge->conf.api_keys || is_server(service) || as_key_access_lists_model(x, model) ||
        is_of_user(x, service, &serving))
        return true;
    as_key_access_refuse(x);
    return false;
}

/* --- Check and List --- */

void as_watch_check(struct as_exchange *x)
{
    uint8_t room[AS_GRPC_HEALTH_RESPONSE_MAX];
    struct as_buf service = {0}, out = {.p = room};
    enum as_grpc_health status;

    if (!as_exchange_is_parsed(x, as_grpc_health_parse(x->body.p, x->body.len, &service),
                               "malformed request message"))
        return;
    if ((!is_server(as_buf_slice(&service)) && !as_key_access_check_late(x)) ||
        !check_key(x, as_buf_slice(&service))) {
        as_buf_fini(&service);
        return;
    }
    status = status_of(x, as_buf_slice(&service));
    if (status == AS_GRPC_HEALTH_SERVICE_UNKNOWN) {
        as_exchange_fail(x, x->edge->client.models_pending ? AS_EUNAVAILABLE : AS_ENOTFOUND,
                         "unknown service '%.*s'%s",
                         AS_STR_CUT(as_buf_slice(&service), AS_NAME_MAX),
                         x->edge->client.models_pending ? ": workers are starting" : "");
    } else {
        out.n = as_grpc_health_put(room, status);
        as_exchange_reply(x, &out);
    }
    as_buf_fini(&service);
}

/* "NAME" or "NAME:VERSION", in the arena; NULL: out of memory. */
static char *row_name(struct as_arena *a, struct as_str name, struct as_str version)
{
    size_t n = name.n + 1 + version.n + 1;
    char *p = as_arena_alloc(a, n, 1);

    if (p)
        snprintf(p, n, version.n ? "%.*s:%.*s" : "%.*s", AS_STR_FMT(name), AS_STR_FMT(version));
    return p;
}

/* Rows for the name of a model and for "NAME:VERSION"; the name only for the first version of it.
 * 0: out of memory. */
static size_t put_rows(struct as_exchange *x, struct as_grpc_health_entry *rows, uint32_t row)
{
    struct as_edge *e = x->edge;
    const struct as_registry *g = e->client.registry;
    const struct as_model *m = as_registry_at(g, row);
    struct as_str no_version = {0};
    size_t n = 0;

    if (as_registry_is_first(g, row)) {
        const struct as_model *first = as_registry_find(g, m->name, no_version, NULL);

        rows[n++] = (struct as_grpc_health_entry){row_name(&x->arena, m->name, no_version),
                                                  status_if(as_edge_is_model_ready(e, first))};
    }
    rows[n++] = (struct as_grpc_health_entry){row_name(&x->arena, m->name, m->version),
                                              status_if(as_edge_is_model_ready(e, m))};
    return rows[0].service && rows[n - 1].service ? n : 0;
}

/* How many rows services of the user have at most. */
static size_t count_services(const struct as_service_table *t)
{
    size_t n = 0;

    for (uint32_t i = 0; t && i < t->n; i++)
        n += t->at[i].set->n;
    return n;
}

/* Rows for the services of the user, each once. False: out of memory. */
static bool put_services(struct as_exchange *x, struct as_grpc_health_entry *rows, size_t *n)
{
    const struct as_service_table *t = as_registry_services(x->edge->client.registry);
    size_t first = *n;

    for (uint32_t i = 0; t && i < t->n; i++) {
        if (!as_key_access_lists_application(x, t->at[i].application))
            continue;
        for (uint32_t k = 0; k < t->at[i].set->n; k++) {
            struct as_str service = as_service_of(t->at[i].set->methods[k].path);
            size_t at = first;
            bool serving;

            while (at < *n && !as_str_eq(as_str_of(rows[at].service), service))
                at++;
            if (at < *n)
                continue;
            (void)is_of_user(x, service, &serving);
            rows[at].service = as_arena_dup(&x->arena, service);
            rows[at].status = status_if(serving);
            if (!rows[(*n)++].service)
                return false;
        }
    }
    return true;
}

/* 0: out of memory. */
static size_t all_rows(struct as_exchange *x, struct as_grpc_health_entry *rows)
{
    static char server[] = SERVER, nothing[] = "", management[] = AS_MANAGEMENT_SERVICE;
    enum as_grpc_health status = status_of(x, AS_STR(""));
    uint32_t count = as_registry_count(x->edge->client.registry);
    size_t n = 0;

    rows[n++] = (struct as_grpc_health_entry){nothing, status};
    rows[n++] = (struct as_grpc_health_entry){server, status};
    if (x->edge->conf.interface == AS_INTERFACE_MANAGEMENT)
        rows[n++] =
            (struct as_grpc_health_entry){management, status_of(x, AS_STR(AS_MANAGEMENT_SERVICE))};
    for (uint32_t i = 0; i < count; i++) {
        size_t k;

        if (!as_key_access_lists_model(x, as_registry_at(x->edge->client.registry, i)->name))
            continue;
        k = put_rows(x, rows + n, i);
        if (!k)
            return 0;
        n += k;
    }
    if (x->edge->conf.interface == AS_INTERFACE_CLIENTS && !put_services(x, rows, &n))
        return 0;
    return n;
}

void as_watch_list(struct as_exchange *x)
{
    const struct as_registry *g = x->edge->client.registry;
    size_t most = 3 + 2 * (size_t)as_registry_count(g) + count_services(as_registry_services(g));
    struct as_grpc_health_entry *rows = as_arena_alloc(&x->arena, most * sizeof(*rows), 8);
    size_t n = rows ? all_rows(x, rows) : 0;
    struct as_buf out = {0};

    if (!n || as_grpc_health_put_list(&out, rows, n))
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
    else
        as_exchange_reply(x, &out);
    as_buf_fini(&out);
}

/* --- Watch --- */

struct watch {
    struct as_buf service;
    bool has_request;                /* the request was received */
    enum as_grpc_health sent_status; /* the last one; UNKNOWN: none */
};

/* Sends the status if it has changed. A slow client gets only the newest one. */
static void send_status(struct as_stream *s)
{
    struct watch *w = s->owner;
    uint8_t room[AS_GRPC_HEALTH_RESPONSE_MAX];
    struct as_buf out = {.p = room};
    enum as_grpc_health now;

    if (!w->has_request || !as_stream_has_room(s))
        return;
    now = status_of(s->x, as_buf_slice(&w->service));
    if (now == w->sent_status)
        return;
    w->sent_status = now;
    out.n = as_grpc_health_put(room, now);
    as_stream_send(s, &out);
}

static void on_message(struct as_stream *s, struct as_stream_message *m)
{
    struct watch *w = s->owner;

    if (w->has_request) {
        as_exchange_fail(s->x, AS_EUNIMPLEMENTED, "more than one message on Watch");
    } else if (as_exchange_is_parsed(s->x, as_grpc_health_parse(m->p, m->n, &w->service),
                                     "malformed request message")) {
        w->has_request = true;
        if (check_key(s->x, as_buf_slice(&w->service)))
            send_status(s);
    }
    as_stream_message_free(m);
}

static void on_end(struct as_stream *s)
{
    if (!((struct watch *)s->owner)->has_request)
        as_exchange_fail(s->x, AS_EUNIMPLEMENTED, "Watch needs one message, got none");
}

static void on_close(struct as_stream *s)
{
    struct watch *w = s->owner;

    as_buf_fini(&w->service);
    free(w);
}

void as_watch_open(struct as_exchange *x)
{
    static const struct as_stream_ops ops = {
        .on_message = on_message,
        .on_end = on_end,
        .on_room = send_status,
        .on_change = send_status,
        .on_close = on_close,
    };

    struct watch *w = calloc(1, sizeof(*w));

    if (!w)
        as_exchange_fail(x, AS_ENOMEM, "no memory for the request");
    else if (!as_stream_open(x, &ops, w, REQUEST_MAX))
        free(w);
}
