#include "edge/infer/mirror.h"

#include "base/counter.h"
#include "core/registry/traffic.h"
#include "edge/infer/infer.h"

#define WHY_MAX 512

/* --- copying a message --- */

static bool copy_str(struct as_arena *a, struct as_str *s)
{
    char *p = s->n ? as_arena_alloc(a, s->n, 1) : NULL;

    if (!s->n)
        return true;
    if (!p)
        return false;
    memcpy(p, s->p, s->n);
    s->p = p;
    return true;
}

/* Copies n rows of `size` bytes. NULL: no memory, or n is 0. */
static void *copy_rows(struct as_arena *a, const void *rows, uint32_t n, size_t size)
{
    void *p = n ? as_arena_alloc(a, n * size, 8) : NULL;

    if (p)
        memcpy(p, rows, n * size);
    return p;
}

static bool copy_params(struct as_arena *a, struct as_msg *m)
{
    struct as_param *p = copy_rows(a, m->params, m->n_params, sizeof(*p));

    m->params = p;
    for (uint32_t i = 0; p && i < m->n_params; i++) {
        if (!copy_str(a, &p[i].name) || (p[i].type == AS_PARAM_STRING && !copy_str(a, &p[i].str)))
            return false;
    }
    return p || !m->n_params;
}

static bool copy_tensor_params(struct as_arena *a, struct as_tensor_params *own)
{
    struct as_tensor_param *p = copy_rows(a, own->at, own->n, sizeof(*p));

    own->at = p;
    for (uint32_t i = 0; p && i < own->n; i++) {
        struct as_param *m = &p[i].param;

        if (!copy_str(a, &m->name) || (m->type == AS_PARAM_STRING && !copy_str(a, &m->str)))
            return false;
    }
    return p || !own->n;
}

static bool copy_meta(struct as_arena *a, struct as_msg *m)
{
    struct as_meta *p = copy_rows(a, m->meta, m->n_meta, sizeof(*p));

    m->meta = p;
    for (uint32_t i = 0; p && i < m->n_meta; i++) {
        if (!copy_str(a, &p[i].key) || !copy_str(a, &p[i].value))
            return false;
    }
    return p || !m->n_meta;
}

/* Copies tensors and their bytes to `to`, each aligned to 64 bytes; NULL: the bytes are shared. */
static bool copy_tensors(struct as_arena *a, struct as_msg *m, uint8_t *to)
{
    struct as_tensor *t = copy_rows(a, m->tensors, m->n_tensors, sizeof(*t));

    m->tensors = t;
    for (uint32_t i = 0; t && i < m->n_tensors; i++) {
        int64_t *shape = copy_rows(a, t[i].shape, t[i].ndim, sizeof(*shape));

        if (!copy_str(a, &t[i].name) || (t[i].ndim && !shape))
            return false;
        t[i].shape = shape;
        if (!to || !t[i].nbytes)
            continue;
        memcpy(to, t[i].data, t[i].nbytes);
        t[i].data = to;
        to += AS_ALIGN(t[i].nbytes, AS_BLOB_ALIGN);
    }
    return t || !m->n_tensors;
}

static uint64_t tensors_size(const struct as_msg *m)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < m->n_tensors; i++)
        n += AS_ALIGN(m->tensors[i].nbytes, AS_BLOB_ALIGN);
    return n;
}

/* Copies the message of a call; tensors in its blob are shared. False: no memory. */
static bool copy_message(struct as_exchange *m, const struct as_call *of, uint64_t size)
{
    struct as_msg *msg = &m->call.payload.msg;
    uint8_t *to = NULL;

    *msg = of->payload.msg;
    m->call.payload.tensor_params = of->payload.tensor_params;
    m->call.payload.blob = of->payload.blob     ? as_blob_ref(of->payload.blob)
                           : size > AS_COPY_MAX ? as_blob_new(size)
                                                : NULL;
    m->body.blob = m->call.payload.blob; /* the exchange owns it */
    if (!of->payload.blob && size > 0) {
        to = m->body.blob ? m->body.blob->data : as_arena_alloc(&m->arena, size, AS_BLOB_ALIGN);
        if (!to || (size > AS_COPY_MAX && !m->body.blob))
            return false;
    }
    return copy_str(&m->arena, &msg->id) && copy_params(&m->arena, msg) &&
           copy_tensor_params(&m->arena, &m->call.payload.tensor_params) &&
           copy_meta(&m->arena, msg) && copy_tensors(&m->arena, msg, to);
}

/* --- the call of a copy: its answers are discarded --- */

static void on_answer(struct as_call *c)
{
    as_blob_unref(c->outcome.result.blob);
    c->outcome.result.blob = NULL;
}

static void on_part(struct as_call *c, struct as_part *p)
{
    as_fleet_client_credit(c->client, c, 1, p->cost);
}

static void on_release(struct as_call *c)
{
    as_exchange_released(AS_CONTAINER(c, struct as_exchange, call));
}

static bool ignore_part(struct as_exchange *x AS_UNUSED, const struct as_oip_response *r AS_UNUSED,
                        struct as_blob *blob AS_UNUSED)
{
    return true;
}

static bool init_call(struct as_exchange *m, const struct as_exchange *x,
                      const struct as_model *model)
{
    static const struct as_infer_parts parts = {.part = ignore_part};
    struct as_call *c = &m->call;
    char why[WHY_MAX];

    m->registry = as_registry_ref(x->registry);
    m->model = model;
    m->infer.inputs = x->infer.inputs;
    m->infer.n_inputs = x->infer.n_inputs;
    if (as_model_check_inputs(model, m->infer.inputs, m->infer.n_inputs, why, sizeof(why)) ||
        !as_infer_set_model(m, on_part, false))
        return false;
    c->core.priority = AS_PRIORITIES - 1;
    c->core.deadline = x->call.core.deadline;
    c->core.is_mirror = true;
    c->payer = m->budget.answers;
    c->is_fallback = false;
    c->on_answer = on_answer;
    c->on_release = on_release;
    m->answer.parts = c->stream ? &parts : NULL; /* so that dispatch_arena is reset */
    return true;
}

static struct as_exchange *copy_exchange(struct as_exchange *x, const struct as_model *model)
{
    uint64_t size =
        x->call.payload.blob ? x->call.payload.blob->n : tensors_size(&x->call.payload.msg);
    struct as_exchange *m = NULL;

    if (as_account_try_charge(x->budget.requests, size)) {
        m = as_exchange_shadow(x);
        if (!m)
            as_account_uncharge(x->budget.requests, size);
        else
            m->budget.reserved = size;
    }
    if (m && init_call(m, x, model) && copy_message(m, &x->call, size))
        return m;
    if (m)
        as_exchange_released(m);
    as_counter_add(&x->edge->stat.mirrors_skipped, 1);
    return NULL;
}

struct as_exchange *as_mirror_copy(struct as_exchange *x)
{
    const struct as_model *m = NULL;
    struct as_exchange *copies = NULL;
    uint32_t point;

    if (x->model->streams_inputs || !as_traffic_mirror(x->registry, x->model, 0, NULL))
        return NULL;
    point = as_traffic_point(x->model->name, AS_STR(""), &x->edge->mirror_turn);
    while ((m = as_traffic_mirror(x->registry, x->model, point, m))) {
        struct as_exchange *c = copy_exchange(x, m);

        if (c) {
            c->next_free = copies;
            copies = c;
        }
    }
    return copies;
}

void as_mirror_send(struct as_exchange *copies)
{
    while (copies) {
        struct as_exchange *m = copies;

        copies = m->next_free;
        m->in_fleet = true;
        as_fleet_client_submit(&m->edge->client, &m->call);
    }
}
