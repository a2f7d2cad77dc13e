#include "edge/watch.h"

#include "edge/stream.h"

#define SERVER      "inference.GRPCInferenceService"
#define REQUEST_MAX 65536u /* bytes of a Watch's message */

/* --- states --- */

static enum as_health status_if(bool serving)
{
    return serving ? AS_HEALTH_SERVING : AS_HEALTH_NOT_SERVING;
}

static enum as_health status_of_model(struct as_edge *e, const struct as_model *m)
{
    return status_if(!e->draining && as_fleet_model_ready(e->client.fleet, m->deployment));
}

enum as_health as_watch_status(struct as_edge *e, struct as_str service)
{
    const char *colon = service.n ? memrchr(service.p, ':', service.n) : NULL;
    struct as_str version = {0};
    const struct as_model *m;

    if (!service.p || !service.n || as_str_eq(service, AS_STR(SERVER)))
        return status_if(!e->draining && as_fleet_ready(e->client.fleet));
    if (colon) { /* names hold none */
        version = (struct as_str){colon + 1, service.n - (size_t)(colon + 1 - service.p)};
        service.n = (size_t)(colon - service.p);
        if (!version.n)
            return AS_HEALTH_SERVICE_UNKNOWN;
    }
    m = as_registry_find(e->client.registry, service, version, NULL);
    return m ? status_of_model(e, m) : AS_HEALTH_SERVICE_UNKNOWN;
}

/* --- Check and List --- */

void as_watch_check(struct as_exchange *x)
{
    struct as_buf service = {0}, out = {0};
    enum as_health status;

    if (as_health_parse(x->body, x->body_len, &service)) {
        as_exchange_fail(x, AS_EINVALID, "malformed request message");
        return;
    }
    status = as_watch_status(x->edge, as_buf_slice(&service));
    if (status == AS_HEALTH_SERVICE_UNKNOWN) {
        as_exchange_fail(x, x->edge->client.settling ? AS_EUNAVAILABLE : AS_ENOTFOUND,
                         "unknown service '%.*s'%s", (int)AS_MIN(service.n, (size_t)AS_NAME_MAX),
                         (const char *)service.p,
                         x->edge->client.settling ? ": workers are starting" : "");
    } else {
        as_health_put(&out, status);
        as_exchange_reply(x, &out);
    }
    as_buf_fini(&service);
    as_buf_fini(&out);
}

/* Name and "NAME:VERSION" of a model, each a row; the name only once. */
static size_t put_rows(struct as_edge *e, struct as_health_row *rows, const struct as_model *m,
                       const struct as_model *before)
{
    struct as_buf name = {0};
    size_t n = 0;

    if (!before || !as_str_eq(before->name, m->name)) {
        struct as_str default_version = {0};

        rows[n++] = (struct as_health_row){
            as_str_dup(m->name), status_of_model(e, as_registry_find(e->client.registry, m->name,
                                                                     default_version, NULL))};
    }
    as_buf_printf(&name, "%.*s:%.*s", AS_STR_FMT(m->name), AS_STR_FMT(m->version));
    rows[n++] = (struct as_health_row){as_str_dup(as_buf_slice(&name)), status_of_model(e, m)};
    as_buf_fini(&name);
    return n;
}

void as_watch_list(struct as_exchange *x)
{
    struct as_edge *e = x->edge;
    const struct as_registry *g = e->client.registry;
    enum as_health server = as_watch_status(e, AS_STR(""));
    uint32_t count = as_registry_count(g);
    struct as_health_row *rows = as_xalloc((2 + 2 * (size_t)count) * sizeof(*rows));
    struct as_buf out = {0};
    size_t n = 0;

    rows[n++] = (struct as_health_row){as_str_dup(AS_STR("")), server};
    rows[n++] = (struct as_health_row){as_str_dup(AS_STR(SERVER)), server};
    for (uint32_t i = 0; i < count; i++)
        n += put_rows(e, rows + n, as_registry_at(g, i), i ? as_registry_at(g, i - 1) : NULL);
    as_health_put_list(&out, rows, n);
    as_exchange_reply(x, &out);
    as_buf_fini(&out);
    for (size_t i = 0; i < n; i++)
        free(rows[i].service);
    free(rows);
}

/* --- Watch --- */

struct watch {
    struct as_buf service;
    bool asked;          /* the request has come */
    enum as_health told; /* what the client knows; UNKNOWN: nothing */
};

/* Tells the client what it does not know yet; a slow one hears of the newest state only. */
static void tell(struct as_stream *s)
{
    struct watch *w = s->owner;
    struct as_buf out = {0};
    enum as_health now;

    if (!w->asked || !as_stream_has_room(s))
        return;
    now = as_watch_status(s->x->edge, as_buf_slice(&w->service));
    if (now == w->told)
        return;
    w->told = now;
    as_health_put(&out, now);
    as_stream_send(s, &out);
    as_buf_fini(&out);
}

static void on_message(struct as_stream *s, struct as_message *m)
{
    struct watch *w = s->owner;

    if (w->asked) {
        as_exchange_fail(s->x, AS_EUNIMPLEMENTED, "more than one message on Watch");
    } else if (as_health_parse(m->p, m->n, &w->service)) {
        as_exchange_fail(s->x, AS_EINVALID, "malformed request message");
    } else {
        w->asked = true;
        tell(s);
    }
    as_message_drop(s->x->edge, m);
}

static void on_end(struct as_stream *s)
{
    if (!((struct watch *)s->owner)->asked)
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
        .on_room = tell,
        .on_change = tell,
        .on_close = on_close,
    };

    as_stream_open(x, &ops, as_xalloc(sizeof(struct watch)), REQUEST_MAX);
}
