#include "ctl/supervise/model_cache.h"

#define OVERHEAD AS_CTL_DECLARED_ROW /* of a model's message, and of its place here */

struct model {
    struct as_list node;
    uint64_t hash; /* of its name */
    char *name;    /* "NAME:VERSION" */
    struct as_buf frames;
};

void as_model_cache_init(struct as_model_cache *c)
{
    *c = (struct as_model_cache){0};
    as_list_init(&c->models);
}

static size_t size_of(const struct model *m)
{
    return OVERHEAD + strlen(m->name) + m->frames.n;
}

static void remove_model(struct as_model_cache *c, struct model *m)
{
    c->bytes -= size_of(m);
    as_list_remove(&m->node);
    as_buf_fini(&m->frames);
    free(m->name);
    free(m);
}

void as_model_cache_fini(struct as_model_cache *c)
{
    AS_LIST_EACH(n, &c->models) remove_model(c, AS_LIST_ENTRY(n, struct model, node));
    as_buf_fini(&c->settings);
}

static struct model *find_model(const struct as_model_cache *c, struct as_str name, uint64_t hash)
{
    AS_LIST_EACH_ENTRY(m, struct model, node, &c->models) {
        if (m->hash == hash && as_str_eq(as_str_of(m->name), name))
            return m;
    }
    return NULL;
}

static void set_settings(struct as_model_cache *c, const struct as_ctl_message *m, size_t room)
{
    c->whole = m->number != 0;
    c->bytes -= c->settings.n;
    as_buf_drop(&c->settings, c->settings.n);
    if (c->bytes + m->text.n > room)
        return;
    as_buf_add(&c->settings, m->text.p, m->text.n);
    c->bytes += c->settings.n;
}

void as_model_cache_set(struct as_model_cache *c, const struct as_ctl_message *m, size_t room)
{
    uint64_t hash = as_str_hash(m->replica);
    struct model *old, *new;

    if (!m->replica.n) {
        set_settings(c, m, room);
        return;
    }
    old = find_model(c, m->replica, hash);
    if (old)
        remove_model(c, old);
    if (!m->text.n)
        return;
    if (c->bytes + OVERHEAD + m->replica.n + m->text.n > room) {
        c->full = true;
        return;
    }
    new = as_xalloc(sizeof(*new));
    new->hash = hash;
    new->name = as_str_dup(m->replica);
    as_buf_init(&new->frames);
    as_buf_add(&new->frames, m->text.p, m->text.n);
    as_list_push(&c->models, &new->node);
    c->bytes += size_of(new);
}

size_t as_model_cache_bytes(const struct as_model_cache *c)
{
    return c->bytes;
}

static void send_model(const struct model *m, struct as_str frames, struct as_str deployment,
                       bool declared, struct as_channel *dispatcher)
{
    as_channel_send(dispatcher, &(struct as_ctl_message){.type = AS_CTL_KNOWN,
                                                         .deployment = deployment,
                                                         .replica = as_str_of(m->name),
                                                         .id = declared,
                                                         .text = frames});
}

static bool is_whole(const struct as_model_cache *c)
{
    return c->whole && !c->full;
}

static void send_settings(const struct as_model_cache *c, struct as_str deployment, bool declared,
                          struct as_channel *dispatcher)
{
    if (c->settings.n)
        as_channel_send(dispatcher, &(struct as_ctl_message){.type = AS_CTL_KNOWN,
                                                             .deployment = deployment,
                                                             .number = is_whole(c),
                                                             .id = declared,
                                                             .text = as_buf_slice(&c->settings)});
}

void as_model_cache_send(const struct as_model_cache *c, struct as_str deployment, bool declared,
                         struct as_channel *dispatcher)
{
    AS_LIST_EACH_ENTRY(m, const struct model, node, &c->models) {
        send_model(m, as_buf_slice(&m->frames), deployment, declared, dispatcher);
    }
    send_settings(c, deployment, declared, dispatcher);
}

static bool has_same(const struct as_model_cache *c, const struct model *m)
{
    const struct model *own = find_model(c, as_str_of(m->name), m->hash);

    return own && as_str_eq(as_buf_slice(&own->frames), as_buf_slice(&m->frames));
}

void as_model_cache_send_changes(const struct as_model_cache *c,
                                 const struct as_model_cache *former, struct as_str deployment,
                                 struct as_channel *dispatcher)
{
    AS_LIST_EACH_ENTRY(m, const struct model, node, &former->models) {
        if (!has_same(c, m))
            send_model(m, AS_STR(""), deployment, true, dispatcher);
    }
    AS_LIST_EACH_ENTRY(m, const struct model, node, &c->models) {
        if (!has_same(former, m))
            send_model(m, as_buf_slice(&m->frames), deployment, true, dispatcher);
    }
    if (is_whole(c) != is_whole(former) ||
        !as_str_eq(as_buf_slice(&c->settings), as_buf_slice(&former->settings)))
        send_settings(c, deployment, true, dispatcher);
}

void as_model_cache_move(struct as_model_cache *c, struct as_model_cache *from)
{
    struct as_list *n;

    as_model_cache_fini(c);
    as_model_cache_init(c);
    while ((n = as_list_pop(&from->models)))
        as_list_push(&c->models, n);
    c->settings = from->settings;
    c->bytes = from->bytes;
    c->whole = from->whole;
    c->full = from->full;
    as_model_cache_init(from);
}

void as_model_cache_save(const struct as_model_cache *c, As__Deployment *state)
{
    AS_LIST_EACH_ENTRY(m, const struct model, node, &c->models) {
        As__Model *to = as_reexec_new(&as__model__descriptor);

        to->name = as_str_dup(as_str_of(m->name));
        to->frames = as_reexec_bytes(as_buf_slice(&m->frames));
        AS_REEXEC_APPEND(state, models, to);
    }
    state->settings = as_reexec_bytes(as_buf_slice(&c->settings));
    state->whole = is_whole(c);
}

void as_model_cache_restore(struct as_model_cache *c, const As__Deployment *state, size_t room)
{
    for (size_t i = 0; i < state->n_models; i++)
        as_model_cache_set(
            c,
            &(struct as_ctl_message){.replica = as_str_of(state->models[i]->name),
                                     .text = as_reexec_str(state->models[i]->frames)},
            room);
    as_model_cache_set(c,
                       &(struct as_ctl_message){.number = state->whole != 0,
                                                .text = as_reexec_str(state->settings)},
                       room);
}
