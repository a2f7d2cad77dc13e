#include "core/registry/registry.h"

#include "base/err.h"
#include "core/registry/signature.h"

/* One model, shared by all snapshots that contain it. Its strings and signatures follow it in the
 * same allocation. */
struct shared_model {
    struct as_model m;
    atomic_uint refs;
};

/* The versions of one name: a range of the sorted array. */
struct group {
    uint64_t hash;
    uint32_t first, n;
    uint32_t preferred; /* index of the default version */
};

struct as_registry {
    atomic_uint refs;
    uint32_t n, n_groups, mask;
    struct shared_model **at;          /* by name, then version in natural order */
    struct group *groups;              /* in the same order */
    struct as_service_table *services; /* NULL: there are none */
    uint32_t *slots; /* open addressing: number of a group + 1, 0 free; mask + 1 of them */
};

/* --- shared models --- */

static struct as_str copy_str(struct as_str s, uint8_t **at)
{
    struct as_str copy = {(const char *)*at, s.n};

    if (s.n)
        memcpy(*at, s.p, s.n);
    *at += AS_ALIGN(s.n, 8);
    return copy;
}

static struct shared_model *shared_model_new(const struct as_model *m)
{
    size_t in = as_signature_size(m->inputs, m->n_inputs);
    size_t out = as_signature_size(m->outputs, m->n_outputs);
    struct shared_model *b =
        as_xalloc(AS_ALIGN(sizeof(*b), 8) + in + out + AS_ALIGN(m->name.n, 8) +
                  AS_ALIGN(m->version.n, 8) + AS_ALIGN(m->platform.n, 8) +
                  AS_ALIGN(m->served_by.n, 8) + AS_ALIGN(m->traffic.fallback.n, 8));
    uint8_t *at = (uint8_t *)b + AS_ALIGN(sizeof(*b), 8);

    b->m = *m;
    b->m.inputs = as_signature_copy(m->inputs, m->n_inputs, at);
    at += in;
    b->m.outputs = as_signature_copy(m->outputs, m->n_outputs, at);
    at += out;
    b->m.name = copy_str(m->name, &at);
    b->m.version = copy_str(m->version, &at);
    b->m.platform = copy_str(m->platform, &at);
    b->m.served_by = copy_str(m->served_by, &at);
    b->m.traffic.fallback = copy_str(m->traffic.fallback, &at);
    atomic_init(&b->refs, 1);
    return b;
}

static struct shared_model *shared_model_ref(struct shared_model *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

static void shared_model_unref(struct shared_model *b)
{
    if (atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        free(b);
}

/* --- snapshots --- */

/* services: takes over the reference. */
static struct as_registry *snapshot_new(uint32_t room, struct as_service_table *services)
{
    struct as_registry *g = as_xalloc(sizeof(*g));

    atomic_init(&g->refs, 1);
    g->at = as_xalloc(room * sizeof(struct shared_model *));
    g->n = 0; /* the caller fills `at` in order */
    g->services = services;
    return g;
}

/* Sets the default version: of the versions that are not awaited (of all, if all are) those that
 * are no canaries (likewise), of these the last integer, else the last in natural order. */
static void choose_default(const struct as_registry *g, struct group *u)
{
    uint32_t best = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        const struct as_model *m = &g->at[i]->m;
        uint32_t rank =
            1u + as_registry_is_integer(m->version) + 2u * !m->traffic.is_canary + 4u * !m->awaited;

        if (rank < best)
            continue;
        best = rank;
        u->preferred = i;
    }
}

/* Sets `routed` in the models of a name. */
static void mark_routed(struct as_registry *g, const struct group *u)
{
    bool routed = false;

    for (uint32_t i = u->first; i < u->first + u->n; i++)
        routed = routed || as_traffic_any(&g->at[i]->m.traffic);
    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        struct shared_model *b = g->at[i];

        if (b->m.routed == routed)
            continue;
        g->at[i] = shared_model_new(&b->m); /* other snapshots hold the old one */
        g->at[i]->m.routed = routed;
        shared_model_unref(b);
    }
}

static void add_slot(struct as_registry *g, uint32_t group)
{
    uint32_t i = (uint32_t)g->groups[group].hash & g->mask;

    while (g->slots[i])
        i = (i + 1) & g->mask;
    g->slots[i] = group + 1;
}

/* Builds the groups and the hash table from the sorted array. */
static struct as_registry *build_index(struct as_registry *g)
{
    uint32_t size = 8, n = g->n;
    struct group *last = NULL;

    while (size < 2 * n)
        size *= 2;
    g->mask = size - 1;
    g->slots = as_xalloc(size * sizeof(g->slots[0]));
    g->groups = as_xalloc(n * sizeof(g->groups[0]));
    for (uint32_t i = 0; i < n; i++) {
        if (!last || !as_str_eq(g->at[i - 1]->m.name, g->at[i]->m.name)) {
            last = &g->groups[g->n_groups++];
            *last = (struct group){.hash = as_str_hash(g->at[i]->m.name), .first = i};
        }
        last->n++;
    }
    for (uint32_t i = 0; i < g->n_groups; i++) {
        choose_default(g, &g->groups[i]);
        mark_routed(g, &g->groups[i]);
        add_slot(g, i);
    }
    return g;
}

struct as_registry *as_registry_new(void)
{
    return build_index(snapshot_new(0, NULL));
}

struct as_registry *as_registry_ref(struct as_registry *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void as_registry_unref(struct as_registry *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < g->n; i++)
        shared_model_unref(g->at[i]);
    as_service_table_unref(g->services);
    free(g->at);
    free(g->groups);
    free(g->slots);
    free(g);
}

static int compare(const struct as_model *a, struct as_str name, struct as_str version)
{
    size_t n = AS_MIN(a->name.n, name.n);
    int c = n ? memcmp(a->name.p, name.p, n) : 0;

    if (c)
        return c;
    if (a->name.n != name.n)
        return a->name.n < name.n ? -1 : 1;
    return as_str_compare_natural(a->version, version);
}

/* The index of the first of at[from..to) that is not before name:version; `to` if there is none. */
static uint32_t lower_bound(const struct as_registry *g, uint32_t from, uint32_t to,
                            struct as_str name, struct as_str version)
{
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;

        if (compare(&g->at[mid]->m, name, version) < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* Has every tensor a first dimension of -1, which counts items? */
static bool has_items(const struct as_tensor_spec *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (s[i].ndim != AS_ANY_RANK && (s[i].ndim == 0 || s[i].shape[0] != -1))
            return false;
    }
    return true;
}

static int check_model(const struct as_model *m, const char **ret_why)
{
    int err = as_registry_check_name(m->name, ret_why);

    if (!err)
        err = as_registry_check_version(m->version, ret_why);
    if (err)
        return err;
    *ret_why = as_signature_check(m->inputs, m->n_inputs);
    if (!*ret_why)
        *ret_why = as_signature_check(m->outputs, m->n_outputs);
    if (!*ret_why)
        *ret_why = as_batch_check(&m->batching);
    if (!*ret_why && m->batching.max_size &&
        !(has_items(m->inputs, m->n_inputs) && has_items(m->outputs, m->n_outputs)))
        *ret_why = "with batching the first size of every shape must be -1";
    return *ret_why ? AS_EINVALID : 0;
}

/* m has the name and version of `old`, which is registered: are they the same? */
static int check_again(const struct as_model *old, const struct as_model *m, const char **ret_why)
{
    *ret_why = NULL;
    if (old->deployment != m->deployment)
        *ret_why = "another deployment serves this model and version";
    else if (old->has_inputs != m->has_inputs || old->n_inputs != m->n_inputs ||
             !as_signature_eq(old->inputs, m->inputs, m->n_inputs))
        *ret_why = "the model is served with other inputs";
    else if (old->has_outputs != m->has_outputs || old->n_outputs != m->n_outputs ||
             !as_signature_eq(old->outputs, m->outputs, m->n_outputs))
        *ret_why = "the model is served with other outputs";
    else if (!as_batch_eq(&old->batching, &m->batching))
        *ret_why = "the model is served with other batching";
    else if (old->idempotent != m->idempotent)
        *ret_why = "the model is served with another setting of idempotent";
    else if (old->decoupled != m->decoupled || old->streams_inputs != m->streams_inputs)
        *ret_why = "the model is served with another kind of streaming";
    return *ret_why ? AS_EEXISTS : 0;
}

int as_registry_with_model(struct as_registry *g, const struct as_model *m,
                           struct as_registry **ret_g, const char **ret_why)
{
    struct as_registry *next;
    uint32_t at;
    int err = check_model(m, ret_why);

    if (err)
        return err;
    at = lower_bound(g, 0, g->n, m->name, m->version);
    if (at < g->n && compare(&g->at[at]->m, m->name, m->version) == 0) {
        err = check_again(&g->at[at]->m, m, ret_why);
        if (!err)
            *ret_g = as_registry_ref(g);
        return err;
    }
    if (g->n == AS_REGISTRY_MAX) {
        *ret_why = "too many models: at most 16384";
        return AS_EFULL;
    }
    next = snapshot_new(g->n + 1, as_service_table_ref(g->services));
    for (uint32_t i = 0; i < at; i++)
        next->at[next->n++] = shared_model_ref(g->at[i]);
    next->at[next->n++] = shared_model_new(m);
    for (uint32_t i = at; i < g->n; i++)
        next->at[next->n++] = shared_model_ref(g->at[i]);
    *ret_g = build_index(next);
    return 0;
}

static struct as_registry *remove_models(struct as_registry *g, uint32_t deployment, bool all,
                                         uint32_t index)
{
    struct as_registry *next = snapshot_new(g->n, as_service_table_ref(g->services));

    for (uint32_t i = 0; i < g->n; i++) {
        const struct as_model *m = &g->at[i]->m;

        if (m->deployment != deployment || !(all || m->index == index))
            next->at[next->n++] = shared_model_ref(g->at[i]);
    }
    if (next->n < g->n)
        return build_index(next);
    as_registry_unref(next);
    return as_registry_ref(g);
}

static bool has_services(const struct as_registry *g, uint32_t deployment)
{
    for (uint32_t i = 0; g->services && i < g->services->n; i++) {
        if (g->services->at[i].deployment == deployment)
            return true;
    }
    return false;
}

struct as_registry *as_registry_set_services(struct as_registry *g, uint32_t deployment,
                                             struct as_str application, struct as_service_set *set)
{
    struct as_registry *next;

    if (!set && !has_services(g, deployment))
        return as_registry_ref(g);
    next = snapshot_new(g->n, as_service_table_with(g->services, deployment, application, set));
    for (; next->n < g->n; next->n++)
        next->at[next->n] = shared_model_ref(g->at[next->n]);
    return build_index(next);
}

struct as_registry *as_registry_without_deployment(struct as_registry *g, uint32_t deployment)
{
    struct as_registry *with_models = as_registry_set_services(g, deployment, AS_STR(""), NULL);
    struct as_registry *next = remove_models(with_models, deployment, true, 0);

    as_registry_unref(with_models);
    return next;
}

struct as_registry *as_registry_without_model(struct as_registry *g, uint32_t deployment,
                                              uint32_t index)
{
    return remove_models(g, deployment, false, index);
}

/* `change` changes a copy of each model; false: it is as it was. */
static struct as_registry *change_models(struct as_registry *g,
                                         bool (*change)(const void *arg, struct as_model *m),
                                         const void *arg)
{
    struct as_registry *next = snapshot_new(g->n, as_service_table_ref(g->services));
    bool same = true;

    for (; next->n < g->n; next->n++) {
        struct as_model m = g->at[next->n]->m;
        bool changed = change(arg, &m);

        /* other snapshots hold the old one */
        next->at[next->n] = changed ? shared_model_new(&m) : shared_model_ref(g->at[next->n]);
        same = same && !changed;
    }
    if (!same)
        return build_index(next);
    as_registry_unref(next);
    return as_registry_ref(g);
}

struct deployment_traffic {
    uint32_t deployment;
    const struct as_traffic *traffic;
};

static bool change_traffic(const void *arg, struct as_model *m)
{
    const struct deployment_traffic *t = arg;

    if (m->deployment != t->deployment || as_traffic_eq(&m->traffic, t->traffic))
        return false;
    m->traffic = *t->traffic;
    return true;
}

struct as_registry *as_registry_set_traffic(struct as_registry *g, uint32_t deployment,
                                            const struct as_traffic *t)
{
    return change_models(g, change_traffic, &(struct deployment_traffic){deployment, t});
}

struct deployment_model {
    uint32_t deployment, index;
};

static bool change_awaited(const void *arg, struct as_model *m)
{
    const struct deployment_model *d = arg;

    if (!m->awaited || m->deployment != d->deployment || m->index != d->index)
        return false;
    m->awaited = false;
    return true;
}

struct as_registry *as_registry_set_served(struct as_registry *g, uint32_t deployment,
                                           uint32_t index)
{
    return change_models(g, change_awaited, &(struct deployment_model){deployment, index});
}

/* --- lookup --- */

static const struct group *group_of(const struct as_registry *g, struct as_str name)
{
    uint64_t hash;

    if (name.n == 0 || name.n > AS_NAME_MAX) /* names that are too long are not hashed */
        return NULL;
    hash = as_str_hash(name);
    for (uint32_t i = (uint32_t)hash & g->mask; g->slots[i]; i = (i + 1) & g->mask) {
        const struct group *u = &g->groups[g->slots[i] - 1];

        if (u->hash == hash && as_str_eq(g->at[u->first]->m.name, name))
            return u;
    }
    return NULL;
}

const struct as_model *as_registry_find(const struct as_registry *g, struct as_str name,
                                        struct as_str version, bool *ret_known)
{
    const struct group *u = group_of(g, name);
    uint32_t i;

    if (ret_known)
        *ret_known = u != NULL;
    if (!u)
        return NULL;
    if (version.n == 0)
        return &g->at[u->preferred]->m;
    if (version.n > AS_VERSION_MAX)
        return NULL;
    i = lower_bound(g, u->first, u->first + u->n, name, version);
    if (i == u->first + u->n || !as_str_eq(g->at[i]->m.version, version))
        return NULL;
    return &g->at[i]->m;
}

uint32_t as_registry_versions(const struct as_registry *g, struct as_str name,
                              const struct as_model **ret, uint32_t cap)
{
    const struct group *u = group_of(g, name);

    if (!u)
        return 0;
    for (uint32_t i = 0; i < u->n && i < cap; i++)
        ret[i] = &g->at[u->first + i]->m;
    return u->n;
}

struct model_load {
    struct as_str name;
    bool loaded;
};

static bool change_load(const void *arg, struct as_model *m)
{
    const struct model_load *l = arg;

    if (m->unloaded == !l->loaded || !as_str_eq(m->name, l->name))
        return false;
    m->unloaded = !l->loaded;
    return true;
}

struct as_registry *as_registry_set_loaded(struct as_registry *g, struct as_str name, bool loaded)
{
    return group_of(g, name) ? change_models(g, change_load, &(struct model_load){name, loaded})
                             : NULL;
}

const struct as_service_table *as_registry_services(const struct as_registry *g)
{
    return g->services;
}

uint32_t as_registry_count(const struct as_registry *g)
{
    return g->n;
}

const struct as_model *as_registry_at(const struct as_registry *g, uint32_t i)
{
    AS_ASSERT(i < g->n);
    return &g->at[i]->m;
}

bool as_registry_is_first(const struct as_registry *g, uint32_t i)
{
    return i == 0 || !as_str_eq(as_registry_at(g, i - 1)->name, as_registry_at(g, i)->name);
}
