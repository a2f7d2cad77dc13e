/* Creating a worker: its configuration and models are checked, completed with defaults, and copied.
 */
#include "link/worker/worker_internal.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PREFETCH    256u
#define MAX_MESSAGE ((uint64_t)1 << 62) /* no limit: the dispatcher bounds it */

static_assert(AS_WORKER_NAME == AS_FRAME_NAME, "public limit");
static_assert(AS_WORKER_TENSORS == AS_FRAME_TENSORS, "public limit");
static_assert(AS_WORKER_PARAMS == AS_FRAME_PARAMS, "public limit");
static_assert(AS_WORKER_PREFERRED == AS_FRAME_PREFERRED, "public limit");
static_assert(AS_WORKER_TENSORS == 4096 && AS_WORKER_SLOTS == 65535 && AS_WORKER_PREFERRED == 16,
              "the error texts below name these limits");

bool as_worker_copy_struct(void *to, size_t known, const void *from)
{
    size_t size;

    memcpy(&size, from, sizeof(size));
    if (size < sizeof(size) || size > 16 * known)
        return false;
    for (size_t i = known; i < size; i++) {
        if (((const uint8_t *)from)[i])
            return false;
    }
    memset(to, 0, known);
    memcpy(to, from, AS_MIN(size, known));
    return true;
}

static const char *copy_text(struct as_worker *w, const char *s)
{
    return s ? as_arena_xdup(&w->arena, as_str_of(s)).p : NULL;
}

/* --- the configuration --- */

static bool is_short(const char *s)
{
    return !s || strlen(s) <= AS_WORKER_NAME;
}

static void find_defaults(struct as_worker_conf *c, char replica[32])
{
    const char *link = getenv("ANYSERVE_LINK");
    bool driver = c->flags & AS_WORKER_DRIVER; /* the variables are those of a worker */

    if (!c->path && link && link[0] && !c->runtime_dir && !c->port && !driver) {
        c->path = link;
        c->token = getenv("ANYSERVE_TOKEN");
    }
    if (!c->replica && !driver)
        c->replica = getenv("ANYSERVE_REPLICA");
    if (!c->replica) {
        snprintf(replica, 32, "%s-%d", driver ? "driver" : "worker", (int)getpid());
        c->replica = replica;
    }
    if (!c->peer)
        c->peer = "anyserve-c " AS_VERSION;
    if (!c->threads)
        c->threads = 1;
    if (!c->slots)
        c->slots = c->threads;
    if (!c->max_prefetch)
        c->max_prefetch = PREFETCH;
    if (!c->input_messages)
        c->input_messages = AS_WORKER_INPUTS;
    if (!c->input_bytes)
        c->input_bytes = AS_WORKER_INPUT_BYTES;
    if (!c->max_message)
        c->max_message = MAX_MESSAGE;
    if (c->check_health || c->reconfigure)
        c->flags |= AS_WORKER_ASKS;
}

static void copy_conf(struct as_worker *w, const struct as_worker_conf *c)
{
    w->conf = *c;
    w->slots = c->slots;
    w->inputs = (struct as_frame_window){(int64_t)c->input_messages, (int64_t)c->input_bytes};
    w->conf.path = copy_text(w, c->path);
    w->conf.runtime_dir = copy_text(w, c->runtime_dir);
    w->conf.token = copy_text(w, c->token);
    w->conf.replica = copy_text(w, c->replica);
    w->conf.deployment = copy_text(w, c->deployment);
    w->conf.peer = copy_text(w, c->peer);
}

static void init_worker(struct as_worker *w)
{
    as_arena_init(&w->arena, NULL, 0);
    pthread_mutex_init(&w->mu, NULL);
    pthread_cond_init(&w->changed, NULL);
    as_list_init(&w->running);
    as_list_init(&w->cancelled);
    as_list_init(&w->ready);
    as_list_init(&w->pool);
    as_list_init(&w->asks);
    as_list_init(&w->policy.queue);
    as_list_init(&w->outs);
    as_list_init(&w->unsent);
    as_list_init(&w->news);
    as_list_init(&w->out_pool);
    w->newest = w->links;
    AS_WORKER_LINKS(w, l)
    {
        as_list_init(&l->waiting);
        as_worker_family_init(&l->calls.family);
        as_outq_init(&l->out);
        l->page.fd = -1;
        as_worker_socket_init(&l->socket, w);
        l->transport = &l->socket.transport;
        l->number = ++w->n_links;
    }
    w->wake_fd = w->ep_fd = w->timer_fd = w->guard_fd = -1;
}

int as_worker_new(struct as_worker **ret_w, const struct as_worker_conf *conf)
{
    struct epoll_event ev = {.events = EPOLLIN};
    struct as_worker_conf c;
    struct as_worker *w;
    char replica[32];

    if (!as_worker_copy_struct(&c, sizeof(c), conf))
        return AS_EINVALID;
    find_defaults(&c, replica);
    if (!is_short(c.token) || !is_short(c.replica) || !is_short(c.deployment) ||
        c.slots > AS_WORKER_SLOTS || c.threads > c.slots || c.port > UINT16_MAX ||
        c.max_queued < -1 || c.input_messages > AS_FRAME_CREDIT_MESSAGES ||
        c.input_bytes > AS_FRAME_CREDIT_BYTES)
        return AS_EINVALID;
    w = as_xalloc(sizeof(*w));
    init_worker(w);
    copy_conf(w, &c);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->ep_fd = epoll_create1(EPOLL_CLOEXEC);
    if (w->wake_fd < 0 || w->ep_fd < 0 || epoll_ctl(w->ep_fd, EPOLL_CTL_ADD, w->wake_fd, &ev) < 0 ||
        as_worker_guard_start(w)) {
        as_worker_destroy(w);
        return AS_EIO;
    }
    *ret_w = w;
    return 0;
}

/* --- models --- */

static const struct as_str *copy_labels(struct as_worker *w, const struct as_str *s, uint32_t n)
{
    struct as_str *labels = as_arena_xalloc(&w->arena, n * sizeof(*labels));

    for (uint32_t i = 0; i < n; i++)
        labels[i] = as_arena_xdup(&w->arena, s[i]);
    return labels;
}

static const struct as_tensor_spec *copy_specs(struct as_worker *w, const struct as_tensor_spec *s,
                                               uint32_t n)
{
    struct as_tensor_spec *t = as_arena_xalloc(&w->arena, n * sizeof(*t));

    for (uint32_t i = 0; i < n; i++) {
        t[i] = s[i];
        t[i].name = as_arena_xdup(&w->arena, s[i].name);
        if (s[i].ndim && s[i].ndim != AS_ANY_RANK) {
            int64_t *shape = as_arena_xalloc(&w->arena, s[i].ndim * sizeof(*shape));

            memcpy(shape, s[i].shape, s[i].ndim * sizeof(*shape));
            t[i].shape = shape;
        }
        t[i].labels = copy_labels(w, s[i].labels, s[i].n_labels);
    }
    return t;
}

static const char *check_specs(const struct as_tensor_spec *s, uint32_t n)
{
    if (n > AS_WORKER_TENSORS)
        return "the signature has more than 4096 entries";
    if (n && !s)
        return "the signature is missing";
    for (uint32_t i = 0; i < n; i++) {
        if (!s[i].name.n || !s[i].name.p)
            return "an entry of the signature has no name";
        if (!as_dtype_size(s[i].dtype) && s[i].dtype != AS_DT_BYTES)
            return "an entry of the signature has no datatype";
        if (s[i].n_labels && !s[i].labels)
            return "an entry of the signature has no labels";
        if (s[i].ndim == AS_ANY_RANK)
            continue;
        if (s[i].ndim > AS_MAX_DIMS)
            return "an entry of the signature has too many dimensions";
        if (s[i].ndim && !s[i].shape)
            return "an entry of the signature has no shape";
    }
    return NULL;
}

static const char *check_model(const struct as_worker *w, const struct as_worker_model *m)
{
    const char *why;

    if (w->models_fixed)
        return "a model cannot be added after the first connect";
    if (!m->name || !m->name[0])
        return "a model has no name";
    if (m->max_ongoing > AS_WORKER_SLOTS)
        return "max_ongoing is over 65535";
    if (as_worker_is_driver(w))
        return "a driver has no models";
    if (m->opaque && (m->has_inputs || m->has_outputs || m->max_batch || m->decoupled))
        return "a model of calls has no signature, no batching, and is not decoupled";
    if (m->http && (!m->opaque || m->handler))
        return "a model that takes requests of HTTP is one of calls, and has no handler";
    if (m->streams_inputs && !m->decoupled)
        return "streams_inputs needs decoupled";
    if (m->n_preferred > AS_WORKER_PREFERRED)
        return "there are more than 16 preferred sizes";
    if (!m->max_batch && (m->max_wait || m->ragged || m->n_preferred))
        return "max_wait, ragged and preferred sizes need max_batch";
    why = m->has_inputs ? check_specs(m->inputs, m->n_inputs) : NULL;
    return why || !m->has_outputs ? why : check_specs(m->outputs, m->n_outputs);
}

static void fill_register(struct as_worker *w, const struct as_worker_model *m,
                          struct as_frame_register *r)
{
    *r = (struct as_frame_register){
        .model = w->n_models,
        .name = as_str_of(copy_text(w, m->name)),
        .version = as_str_of(copy_text(w, m->version ? m->version : "1")),
        .platform = as_str_of(copy_text(w, m->platform ? m->platform : "c")),
        .max_ongoing = m->max_ongoing ? m->max_ongoing : w->conf.slots,
        .idempotent = m->idempotent,
        .decoupled = m->decoupled,
        .streams_inputs = m->streams_inputs,
        .opaque = m->opaque,
        .http = m->http,
        .has_inputs = m->has_inputs,
        .has_outputs = m->has_outputs,
        .max_queued = w->conf.max_queued,
        .budget = w->conf.slots,
        .batching = {.max_size = m->max_batch,
                     .max_wait = m->max_wait,
                     .ragged = m->ragged,
                     .n_preferred = m->n_preferred},
    };
    memcpy(r->batching.preferred, m->preferred, sizeof(m->preferred));
    if (m->has_inputs) {
        r->n_inputs = m->n_inputs;
        r->inputs = copy_specs(w, m->inputs, m->n_inputs);
    }
    if (m->has_outputs) {
        r->n_outputs = m->n_outputs;
        r->outputs = copy_specs(w, m->outputs, m->n_outputs);
    }
}

int as_worker_add(struct as_worker *w, const struct as_worker_model *model)
{
    struct as_worker_served_model *s;
    struct as_worker_model m;
    const char *why =
        "the size of struct as_worker_model is not one that this version of the library knows";

    if (as_worker_copy_struct(&m, sizeof(m), model))
        why = check_model(w, &m);
    if (why) {
        as_worker_set_error(w, as_str_of(why));
        return AS_EINVALID;
    }
    w->models = as_xrealloc(w->models, (w->n_models + 1) * sizeof(*w->models));
    s = &w->models[w->n_models];
    *s = (struct as_worker_served_model){.handler = m.handler, .ctx = m.ctx};
    fill_register(w, &m, &s->reg);
    s->cap = s->reg.max_ongoing < w->conf.slots ? s->reg.max_ongoing : UINT32_MAX;
    w->capped = w->capped || s->cap != UINT32_MAX;
    w->n_models++;
    return 0;
}

int as_worker_registration(struct as_worker *w, uint32_t model, void **ret_p, size_t *ret_n)
{
    struct as_buf frame = {0};
    struct as_outq q;

    as_outq_init(&q);
    if (model < w->n_models && as_frame_put_register(&q, &w->models[model].reg) == 0)
        as_outq_peek(&q, &frame);
    as_outq_fini(&q);
    if (frame.n && w->models[model].reg.opaque && w->services.n)
        as_buf_add(&frame, w->services.p, w->services.n);
    *ret_p = frame.p;
    *ret_n = frame.n;
    return frame.n ? 0 : AS_EINVALID;
}

/* --- version and health --- */

const char *as_worker_version(void)
{
    return AS_VERSION;
}

void as_worker_set_health(struct as_worker *w, uint32_t status, const char *text)
{
    pthread_mutex_lock(&w->mu);
    w->health = status;
    snprintf(w->health_text, sizeof(w->health_text), "%s", text ? text : "");
    pthread_mutex_unlock(&w->mu);
}
