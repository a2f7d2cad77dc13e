#include "ctl/supervise/status_cache.h"

#include "base/buf.h"
#include "core/replicas/condition.h"
#include "ctl/supervise/model_cache.h"

struct deployment { /* named "": the status of an application itself */
    struct as_list node;
    char *name, *application; /* name: its id */
    bool down;                /* every replica was given up */
    struct as_buf why, status, route;
    as_ns since;                          /* of the status */
    struct as_model_cache models;         /* as its workers have registered them */
    struct as_model_cache declared, next; /* by the controller; `next` is not complete yet */
    bool has_old_route;                   /* `route` was said by a former controller */
    bool is_outdated; /* it was declared by a former controller; see _end_declarations */
    bool has_target;  /* `target` is known */
    uint32_t target;  /* its target number of replicas */
};

static void send_down(struct as_channel *channel, const struct deployment *d)
{
    enum as_ctl_type type = d->down ? AS_CTL_DOWN : AS_CTL_UP;

    as_channel_send(channel, &(struct as_ctl_message){.type = type,
                                                      .deployment = as_str_of(d->name),
                                                      .text = as_buf_slice(&d->why)});
}

static void send_status(struct as_channel *channel, const struct deployment *d)
{
    as_channel_send(channel, &(struct as_ctl_message){.type = AS_CTL_STATUS,
                                                      .replica = as_str_of(d->application),
                                                      .deployment = as_str_of(d->name),
                                                      .ns = d->since,
                                                      .id = d->has_target,
                                                      .number = d->target,
                                                      .text = as_buf_slice(&d->status)});
}

static struct deployment *find_deployment(const struct as_status_cache *s,
                                          const struct as_ctl_message *m)
{
    AS_LIST_EACH_ENTRY(d, struct deployment, node, &s->deployments) {
        if (as_str_eq(as_str_of(d->name), m->deployment) &&
            (m->deployment.n || as_str_eq(as_str_of(d->application), m->replica)))
            return d;
    }
    return NULL;
}

static struct deployment *find_or_add_deployment(struct as_status_cache *s,
                                                 const struct as_ctl_message *m)
{
    struct deployment *d = find_deployment(s, m);

    if (d)
        return d;
    d = as_xalloc(sizeof(*d));
    d->name = as_str_dup(m->deployment);
    d->application =
        as_str_dup(m->type == AS_CTL_STATUS ? m->replica : as_id_application(m->deployment));
    as_model_cache_init(&d->models);
    as_model_cache_init(&d->declared);
    as_model_cache_init(&d->next);
    as_list_push(&s->deployments, &d->node);
    return d;
}

struct as_str as_status_cache_application(const struct as_status_cache *s, struct as_str name)
{
    AS_LIST_EACH_ENTRY(d, const struct deployment, node, &s->deployments) {
        if (name.n && as_str_eq(as_id_name(as_str_of(d->name)), name))
            return as_str_of(d->application);
    }
    return AS_STR("");
}

static void free_deployment(struct as_status_cache *s, struct deployment *d)
{
    as_list_remove(&d->node);
    s->model_bytes -= as_model_cache_bytes(&d->models);
    s->declared_bytes -= as_model_cache_bytes(&d->declared);
    as_model_cache_fini(&d->models);
    as_model_cache_fini(&d->declared);
    as_model_cache_fini(&d->next);
    as_buf_fini(&d->why);
    as_buf_fini(&d->status);
    as_buf_fini(&d->route);
    free(d->name);
    free(d->application);
    free(d);
}

static void set_down(struct as_status_cache *s, const struct as_ctl_message *m,
                     struct as_channel *dispatcher)
{
    struct deployment *d = find_or_add_deployment(s, m);

    d->down = m->type == AS_CTL_DOWN;
    as_buf_set(&d->why, m->text);
    send_down(dispatcher, d);
}

static void set_status(struct as_status_cache *s, const struct as_ctl_message *m,
                       struct as_channel *dispatcher)
{
    struct deployment *d = find_or_add_deployment(s, m);

    if (!as_str_eq(as_str_of(d->application), m->replica)) {
        free(d->application);
        d->application = as_str_dup(m->replica);
    }
    d->since = m->ns;
    d->has_target = m->id == 1;
    d->target = m->number;
    as_buf_set(&d->status, m->text);
    send_status(dispatcher, d);
}

/* A dispatcher of an earlier version knows no routes: the next one is told. */
static void send_route(struct as_channel *dispatcher, const struct deployment *d)
{
    if (dispatcher && as_channel_format(dispatcher) == AS_CTL_FORMAT)
        as_channel_send(dispatcher, &(struct as_ctl_message){.type = AS_CTL_ROUTE,
                                                             .deployment = as_str_of(d->name),
                                                             .text = as_buf_slice(&d->route)});
}

static void set_route(struct as_status_cache *s, const struct as_ctl_message *m,
                      struct as_channel *dispatcher)
{
    struct deployment *d = m->text.n ? find_or_add_deployment(s, m) : find_deployment(s, m);

    if (!d)
        return;
    d->has_old_route = false;
    as_buf_set(&d->route, m->text);
    send_route(dispatcher, d);
}

static void set_model(struct as_status_cache *s, const struct as_ctl_message *m)
{
    struct deployment *d = find_or_add_deployment(s, m);
    size_t before = as_model_cache_bytes(&d->models);

    as_model_cache_set(&d->models, m, AS_MODEL_CACHE_MAX - (s->model_bytes - before));
    s->model_bytes += as_model_cache_bytes(&d->models) - before;
}

/* Replaces what is declared of d by d->next. A dispatcher of an earlier version does not know what
 * that is: the next one is told. */
static void replace_declared(struct as_status_cache *s, struct deployment *d,
                             struct as_channel *dispatcher)
{
    if (dispatcher && as_channel_format(dispatcher) != AS_CTL_FORMER_FORMAT &&
        !as_model_cache_has_models(&d->models))
        as_model_cache_send_changes(&d->next, &d->declared, as_str_of(d->name), dispatcher);
    s->declared_bytes += as_model_cache_bytes(&d->next) - as_model_cache_bytes(&d->declared);
    as_model_cache_move(&d->declared, &d->next);
    d->is_outdated = false;
}

static void declare(struct as_status_cache *s, const struct as_ctl_message *m,
                    struct as_channel *dispatcher)
{
    struct deployment *d = find_or_add_deployment(s, m);

    as_model_cache_set(&d->next, m,
                       AS_CTL_DECLARED_MAX -
                           (s->declared_bytes - as_model_cache_bytes(&d->declared)));
    if (!m->replica.n)
        replace_declared(s, d, dispatcher);
}

void as_status_cache_begin_declarations(struct as_status_cache *s)
{
    AS_LIST_EACH_ENTRY(d, struct deployment, node, &s->deployments) {
        as_model_cache_fini(&d->next);
        as_model_cache_init(&d->next);
        d->is_outdated = as_model_cache_bytes(&d->declared) > 0;
        d->has_old_route = d->route.n > 0;
    }
}

void as_status_cache_end_declarations(struct as_status_cache *s, struct as_channel *dispatcher)
{
    AS_LIST_EACH_ENTRY(d, struct deployment, node, &s->deployments) {
        if (d->is_outdated)
            replace_declared(s, d, dispatcher);
        if (d->has_old_route)
            set_route(s, &(struct as_ctl_message){.deployment = as_str_of(d->name)}, dispatcher);
    }
}

void as_status_cache_init(struct as_status_cache *s)
{
    s->model_bytes = s->declared_bytes = 0;
    as_list_init(&s->deployments);
}

void as_status_cache_fini(struct as_status_cache *s)
{
    AS_LIST_EACH_ENTRY(d, struct deployment, node, &s->deployments)
        free_deployment(s, d);
}

/* A deployment that was deleted, or an application without deployments. */
static void remove_deployment(struct as_status_cache *s, const struct as_ctl_message *m,
                              struct as_channel *dispatcher)
{
    struct deployment *d = find_deployment(s, m);

    if (d)
        free_deployment(s, d);
    as_channel_send(dispatcher, m);
}

void as_status_cache_update(struct as_status_cache *s, const struct as_ctl_message *m,
                            struct as_channel *dispatcher)
{
    if (m->type == AS_CTL_DELETE || (m->type == AS_CTL_STATUS && !m->text.n))
        remove_deployment(s, m, dispatcher);
    else if (m->type == AS_CTL_STATUS)
        set_status(s, m, dispatcher);
    else if (m->type == AS_CTL_MODEL)
        set_model(s, m);
    else if (m->type == AS_CTL_DECLARE)
        declare(s, m, dispatcher);
    else if (m->type == AS_CTL_ROUTE)
        set_route(s, m, dispatcher);
    else
        set_down(s, m, dispatcher);
}

/* Its replicas drain: DELETE was sent, and another one follows when the last replica has gone.
 * Until then the controller says so in its status ("STATUS TRIGGER text"). */
static bool is_being_removed(const struct deployment *d)
{
    struct as_str rest = as_buf_slice(&d->status);

    as_str_split(&rest, ' ');
    return as_str_eq(as_str_split(&rest, ' '),
                     as_str_of(as_condition_trigger_name(AS_TRIGGER_DELETING)));
}

void as_status_cache_send_all(const struct as_status_cache *s, struct as_channel *channel)
{
    AS_LIST_EACH_ENTRY(d, const struct deployment, node, &s->deployments) {
        if (is_being_removed(d))
            as_channel_send(channel, &(struct as_ctl_message){.type = AS_CTL_DELETE,
                                                              .deployment = as_str_of(d->name)});
        /* else requests would queue for workers that nobody starts */
        if (d->down)
            send_down(channel, d);
        if (d->status.n)
            send_status(channel, d);
        if (d->route.n && !is_being_removed(d))
            send_route(channel, d);
        if (as_model_cache_has_models(&d->models) || !as_model_cache_bytes(&d->declared))
            as_model_cache_send(&d->models, as_str_of(d->name), false, channel);
        else
            as_model_cache_send(&d->declared, as_str_of(d->name), true, channel);
    }
}

void as_status_cache_send_to_controller(const struct as_status_cache *s, struct as_channel *channel)
{
    AS_LIST_EACH_ENTRY(d, const struct deployment, node, &s->deployments) {
        if (d->down)
            as_channel_send(channel, &(struct as_ctl_message){.type = AS_CTL_STAYS,
                                                              .deployment = as_str_of(d->name)});
        if (d->has_target)
            as_channel_send(channel, &(struct as_ctl_message){.type = AS_CTL_TARGET,
                                                              .deployment = as_str_of(d->name),
                                                              .number = d->target});
    }
}

void as_status_cache_save(const struct as_status_cache *s, As__Supervisor *state)
{
    AS_LIST_EACH_ENTRY(d, const struct deployment, node, &s->deployments) {
        As__Deployment *m = as_reexec_new(&as__deployment__descriptor);

        m->name = as_str_dup(as_id_name(as_str_of(d->name)));
        m->application = as_str_dup(as_str_of(d->application));
        m->down = d->down;
        m->why = as_reexec_bytes(as_buf_slice(&d->why));
        m->status = as_reexec_bytes(as_buf_slice(&d->status));
        m->since = d->since;
        m->has_target = d->has_target;
        m->target = d->target;
        m->route = as_reexec_bytes(as_buf_slice(&d->route));
        as_model_cache_save(&d->models, m);
        if (as_model_cache_bytes(&d->declared)) {
            m->declared = as_reexec_new(&as__deployment__descriptor);
            as_model_cache_save(&d->declared, m->declared);
        }
        AS_REEXEC_APPEND(state, deployments, m);
    }
}

void as_status_cache_restore(struct as_status_cache *s, const As__Supervisor *state)
{
    for (size_t i = 0; i < state->n_deployments; i++) {
        const As__Deployment *m = state->deployments[i];
        struct as_str application = as_str_of(m->application[0] ? m->application : AS_ID_DEFAULT);
        struct as_id id;
        struct deployment *d = find_or_add_deployment(
            s, &(struct as_ctl_message){
                   .type = AS_CTL_STATUS,
                   .deployment =
                       m->name[0] ? as_id_make(&id, application, as_str_of(m->name)) : AS_STR(""),
                   .replica = application});

        d->down = m->down;
        as_buf_set(&d->why, as_reexec_str(m->why));
        as_buf_set(&d->status, as_reexec_str(m->status));
        d->since = m->since;
        d->has_target = m->has_target;
        d->target = m->target;
        as_buf_set(&d->route, as_reexec_str(m->route));
        as_model_cache_restore(&d->models, m, AS_MODEL_CACHE_MAX - s->model_bytes);
        s->model_bytes += as_model_cache_bytes(&d->models);
        if (m->declared)
            as_model_cache_restore(&d->declared, m->declared,
                                   AS_CTL_DECLARED_MAX - s->declared_bytes);
        s->declared_bytes += as_model_cache_bytes(&d->declared);
    }
}
