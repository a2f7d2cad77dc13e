#include "edge/grpc/reflection.h"

#include "edge/exchange/key_access.h"
#include "edge/grpc/stream.h"
#include "wire/grpc/grpc_reflection.h"

#define SERVICES_MAX 1024u /* of the user, that are listed */
#define SETS_MAX     1024u /* of descriptors of the user: one for each application */

/* The services of the user; each once. */
struct users_services {
    struct as_str sets[SETS_MAX], services[SERVICES_MAX];
    uint32_t n_sets, n_services;
};

static bool is_listed(const struct users_services *u, struct as_str service)
{
    for (uint32_t i = 0; i < u->n_services; i++) {
        if (as_str_eq(u->services[i], service))
            return true;
    }
    return false;
}

static bool has_set(const struct users_services *u, struct as_str set)
{
    for (uint32_t i = 0; i < u->n_sets; i++) {
        if (as_str_eq(u->sets[i], set))
            return true;
    }
    return false;
}

static void add_set(struct users_services *u, const struct as_service_set *s)
{
    if (!s->descriptors.n || u->n_sets == SETS_MAX || has_set(u, s->descriptors))
        return;
    u->sets[u->n_sets++] = s->descriptors;
    for (uint32_t i = 0; i < s->n && u->n_services < SERVICES_MAX; i++) {
        struct as_str service = as_service_of(s->methods[i].path);

        if (!is_listed(u, service))
            u->services[u->n_services++] = service;
    }
}

static int answer(const struct as_exchange *x, const struct as_stream_message *m,
                  struct as_buf *out)
{
    struct as_edge *e = x->edge;
    bool management = e->conf.interface == AS_INTERFACE_MANAGEMENT;
    const struct as_service_table *t = management ? NULL : as_registry_services(e->client.registry);
    struct as_grpc_reflection_source from = {.set = management ? AS_GRPC_REFLECTION_MANAGEMENT
                                                               : AS_GRPC_REFLECTION_CLIENTS};
    struct users_services *u = t ? calloc(1, sizeof(*u)) : NULL;
    int err = t && !u ? AS_ENOMEM : 0;

    for (uint32_t i = 0; u && i < t->n; i++) {
        if (as_key_access_lists_application(x, t->at[i].application))
            add_set(u, t->at[i].set);
    }
    if (u) {
        from.sets = u->sets;
        from.n_sets = u->n_sets;
        from.services = u->services;
        from.n_services = u->n_services;
    }
    if (!err)
        err = as_grpc_reflection_answer(&from, m->p, m->n, out);
    free(u);
    return err;
}

static void on_message(struct as_stream *s, struct as_stream_message *m)
{
    struct as_buf out = {0};
    int err = answer(s->x, m, &out);

    if (err == AS_ENOMEM)
        as_exchange_fail(s->x, err, "no memory for the answer");
    else if (err)
        as_exchange_fail(s->x, AS_EINVALID, "malformed request message");
    else
        as_stream_send(s, &out);
    as_buf_fini(&out);
    as_stream_message_free(m);
    if (!as_stream_has_room(s))
        as_stream_pause(s);
}

static void on_close(struct as_stream *s AS_UNUSED)
{
}

void as_reflection_open(struct as_exchange *x)
{
    static const struct as_stream_ops ops = {
        .on_message = on_message,
        .on_end = as_stream_finish,
        .on_room = as_stream_resume,
        .on_close = on_close,
    };

    as_stream_open(x, &ops, NULL, AS_GRPC_REFLECTION_REQUEST_MAX);
}
