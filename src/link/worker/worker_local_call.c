/* Local calls: requests that the program itself makes, before the worker is connected. They warm a
 * model up, or test it. Requests and answers are checked by the code that the server uses, and run
 * through the same handlers. Local calls are in none of the worker's lists: only the caller refers
 * to them. */
#include "base/utf8.h"
#include "core/registry/registry.h"
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"

#include <string.h>

#define WHY 512u

struct as_worker_local_call {
    struct as_worker_local conf; /* msg is not valid: the caller owns it */
    struct as_model model;       /* as the server registers it */
    uint32_t status;             /* of the first failure … */
    char why[WHY];               /* … and its text */
};

static struct as_model model_of(const struct as_frame_register *r)
{
    return (struct as_model){.name = r->name,
                             .version = r->version,
                             .has_inputs = r->has_inputs,
                             .has_outputs = r->has_outputs,
                             .inputs = r->inputs,
                             .outputs = r->outputs,
                             .n_inputs = r->n_inputs,
                             .n_outputs = r->n_outputs,
                             .batching.max_size = r->batching.max_size};
}

/* --- creating --- */

static struct as_param copy_param(struct as_arena *a, struct as_param p)
{
    p.name = as_arena_xdup(a, p.name);
    if (p.type == AS_PARAM_STRING)
        p.str = as_arena_xdup(a, p.str);
    return p;
}

/* Copies everything; the tensors' bytes are aligned as those that come over a link. */
static int copy_msg(struct as_worker_req *q, const struct as_msg *msg,
                    const struct as_tensor_params *own)
{
    struct as_arena *a = &q->arena;
    struct as_tensor *t = as_arena_xalloc(a, msg->n_tensors * sizeof(*t));
    struct as_param *p = as_arena_xalloc(a, msg->n_params * sizeof(*p));
    struct as_meta *m = as_arena_xalloc(a, msg->n_meta * sizeof(*m));
    struct as_tensor_param *tp = as_arena_xalloc(a, own->n * sizeof(*tp));

    q->body = as_worker_copy_tensors(msg, t, as_frame_body_len(msg->tensors, msg->n_tensors));
    if (!q->body)
        return AS_ENOMEM;
    q->head = q->body;
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        int64_t *shape = as_arena_xalloc(a, t[i].ndim * sizeof(*shape));

        if (t[i].ndim)
            memcpy(shape, t[i].shape, t[i].ndim * sizeof(*shape));
        t[i].shape = shape;
        t[i].name = as_arena_xdup(a, t[i].name);
    }
    for (uint32_t i = 0; i < msg->n_params; i++)
        p[i] = copy_param(a, msg->params[i]);
    for (uint32_t i = 0; i < msg->n_meta; i++)
        m[i] = (struct as_meta){as_arena_xdup(a, msg->meta[i].key),
                                as_arena_xdup(a, msg->meta[i].value)};
    for (uint32_t i = 0; i < own->n; i++)
        tp[i] = (struct as_tensor_param){copy_param(a, own->at[i].param), own->at[i].tensor};
    q->msg = (struct as_msg){
        as_arena_xdup(a, msg->id), t, p, m, msg->n_tensors, msg->n_params, msg->n_meta};
    q->tensor_params = (struct as_tensor_params){tp, own->n};
    return 0;
}

/* Whether the bytes fit datatype and shape. The server checks this before the signature, too. */
static int check_data(const struct as_msg *msg, char *why, size_t cap)
{
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];
        size_t size = as_dtype_size(t->dtype);
        uint64_t n;

        if ((size || t->dtype == AS_DT_BYTES) && t->ndim <= AS_MAX_DIMS &&
            !as_tensor_elements(t->dtype, t->shape, t->ndim, &n) &&
            (size ? n * size == t->nbytes : !as_tensor_check_bytes(t->data, t->nbytes, n)))
            continue;
        snprintf(why, cap, "input '%.*s': its bytes are not of this datatype and shape",
                 AS_STR_CUT(t->name, 100));
        return AS_EINVALID;
    }
    return 0;
}

static int check_tensor_params(const struct as_msg *msg, const struct as_tensor_params *own,
                               char *why, size_t cap)
{
    if (!as_tensor_params_ordered(own, msg->n_tensors)) {
        snprintf(why, cap, "parameters of inputs are not in the order of the inputs");
        return AS_EINVALID;
    }
    for (uint32_t i = 0; i < own->n; i++) {
        struct as_str name = own->at[i].param.name;

        if (!as_tensor_param_reserved(name))
            continue;
        snprintf(why, cap, "input '%.*s': parameter '%.*s' is the server's own",
                 AS_STR_CUT(msg->tensors[own->at[i].tensor].name, 100), AS_STR_FMT(name));
        return AS_EINVALID;
    }
    if (msg->n_params + own->n <= AS_FRAME_PARAMS)
        return 0;
    snprintf(why, cap, "parameters: more than %u entries, those of inputs included",
             AS_FRAME_PARAMS);
    return AS_EINVALID;
}

/* Checks a message as the server does: bytes, parameters, signature. */
static int check_message(const struct as_model *m, const struct as_msg *msg,
                         const struct as_tensor_params *own, char *why, size_t cap)
{
    int err = check_data(msg, why, cap);

    if (!err)
        err = check_tensor_params(msg, own, why, cap);
    return err ? err : as_model_check_inputs(m, msg->tensors, msg->n_tensors, why, cap);
}

/* Makes a request, or a further input. With the lock held. */
static int make_message(struct as_worker *w, uint32_t model, const struct as_msg *msg,
                        const struct as_tensor_params *own, struct as_worker_req **ret_q)
{
    struct as_worker_req *q = as_worker_req_get(w, NULL);
    int err = q ? copy_msg(q, msg, own) : AS_ENOMEM;

    if (err) {
        if (q)
            as_worker_req_put(w, q);
        return err;
    }
    q->stream = 0;
    q->model = model;
    q->complete = true;
    q->deadline = AS_NEVER;
    q->started_at = as_clock_now();
    q->input_credit = q->owed_credit =
        (struct as_frame_window){0}; /* unused: there is no flow control of inputs */
    q->cost = 0;                     /* it used no credit */
    *ret_q = q;
    return 0;
}

static int start_local(struct as_worker *w, uint32_t model, struct as_worker_local_call *r,
                       const struct as_msg *msg, const struct as_tensor_params *own,
                       struct as_worker_req **ret_q)
{
    struct as_worker_req *q;
    int err = make_message(w, model, msg, own, &q);

    if (err)
        return err;
    q->inputs_over = !r->conf.more;
    q->part_credit = (struct as_frame_window){r->conf.room ? r->conf.room : INT32_MAX, INT64_MAX};
    q->local_call = r;
    *ret_q = q;
    return 0;
}

static bool accepts_local(const struct as_worker *w, uint32_t model,
                          const struct as_worker_local *c)
{
    return model < w->n_models && !as_worker_connected(w) && !w->models[model].reg.opaque &&
           (!c->more || w->models[model].reg.streams_inputs);
}

int as_worker_local(struct as_worker *w, uint32_t model, const struct as_worker_local *local,
                    struct as_worker_req **ret_q)
{
    struct as_worker_local_call *r;
    struct as_worker_local conf;
    struct as_tensor_params own;
    char why[WHY] =
        "there is no such model, or it takes calls or one message only, or the worker is connected";
    uint32_t items;
    int err = AS_EINVALID;

    if (!as_worker_copy_struct(&conf, sizeof(conf), local))
        return err;
    pthread_mutex_lock(&w->mu);
    if (!accepts_local(w, model, &conf)) {
        as_worker_set_error(w, as_str_of(why));
        pthread_mutex_unlock(&w->mu);
        return err;
    }
    r = as_xalloc(sizeof(*r));
    *r = (struct as_worker_local_call){.conf = conf, .model = model_of(&w->models[model].reg)};
    own = (struct as_tensor_params){conf.tensor_params, conf.n_tensor_params};
    err = check_message(&r->model, conf.msg, &own, why, sizeof(why));
    if (!err && r->model.batching.max_size)
        err = as_model_items(&r->model, conf.msg->tensors, conf.msg->n_tensors, why, sizeof(why),
                             &items);
    if (err)
        as_worker_set_error(w, as_str_of(why));
    else
        err = start_local(w, model, r, conf.msg, &own, ret_q);
    pthread_mutex_unlock(&w->mu);
    if (err)
        free(r);
    return err;
}

int as_worker_rehearse(struct as_worker *w, uint32_t model, const struct as_msg *msg,
                       void (*done)(void *ctx, uint32_t status, struct as_str text), void *ctx,
                       struct as_worker_req **ret_q)
{
    struct as_worker_local local = {.size = sizeof(local), .msg = msg, .done = done, .ctx = ctx};

    return as_worker_local(w, model, &local, ret_q);
}

/* --- while it executes --- */

int as_worker_local_input(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg,
                          const struct as_tensor_param *params, uint32_t n_params, bool *ret_wanted)
{
    const struct as_tensor_params own = {params, n_params};
    struct as_worker_req *in = NULL;
    char why[WHY] = "the request takes no further message";
    int err = AS_EINVALID;

    pthread_mutex_lock(&w->mu);
    if (!q->inputs_over)
        err = msg ? check_message(&q->local_call->model, msg, &own, why, sizeof(why)) : 0;
    if (err)
        as_worker_set_error(w, as_str_of(why));
    else if (msg)
        err = make_message(w, q->model, msg, &own, &in);
    if (in) {
        in->is_input = true;
        as_list_push(&q->inputs, &in->node);
    }
    if (!err) {
        q->inputs_over = !msg;
        *ret_wanted = as_worker_wake_handler(w, q, AS_WANT_INPUT);
    }
    pthread_mutex_unlock(&w->mu);
    return err;
}

const struct as_tensor_param *as_worker_local_tensor_params(const struct as_worker_req *q,
                                                            uint32_t *ret_n)
{
    *ret_n = q->output_params.n;
    return q->output_params.at;
}

bool as_worker_local_room(struct as_worker *w, struct as_worker_req *q, uint32_t parts)
{
    bool wanted;

    pthread_mutex_lock(&w->mu);
    q->part_credit.messages = AS_MIN(q->part_credit.messages + (int64_t)parts, (int64_t)INT32_MAX);
    wanted = as_worker_wake_handler(w, q, AS_WANT_ROOM);
    pthread_mutex_unlock(&w->mu);
    return wanted;
}

void as_worker_local_cancel(struct as_worker *w, struct as_worker_req *q)
{
    pthread_mutex_lock(&w->mu);
    atomic_store_explicit(&q->cancel, as_err_grpc(AS_ECANCELLED), memory_order_relaxed);
    as_worker_wake_handler(w, q, AS_WANT_ROOM | AS_WANT_INPUT);
    pthread_mutex_unlock(&w->mu);
}

/* --- its answer --- */

/* Stores the first failure; its text is cut, but not inside a UTF-8 character. */
static void record_failure(struct as_worker_local_call *r, uint32_t status, struct as_str why)
{
    if (r->status)
        return;
    r->status = status;
    why = as_utf8_cut(why, sizeof(r->why) - 1);
    snprintf(r->why, sizeof(r->why), "%.*s", AS_STR_FMT(why));
}

static bool check_answer(struct as_worker_local_call *r, const struct as_msg *msg)
{
    char why[WHY];

    if (!as_model_check_outputs(&r->model, msg->tensors, msg->n_tensors, why, sizeof(why)))
        return true;
    record_failure(r, as_err_grpc(AS_EHANDLER), as_str_of(why));
    return false;
}

static void deliver_part(struct as_worker_local_call *r, const struct as_msg *msg)
{
    if (r->conf.part && !r->status)
        r->conf.part(r->conf.ctx, msg);
}

/* Uses the credit for one part. 0, AS_EAGAIN or AS_ECANCELLED. */
static int use_room(struct as_worker *w, struct as_worker_req *q)
{
    int r = as_worker_room(w, q);

    if (r || !q->local_call->conf.room) /* no limit was given */
        return r;
    pthread_mutex_lock(&w->mu);
    q->part_credit.messages--;
    pthread_mutex_unlock(&w->mu);
    return 0;
}

/* A part that does not fit the signature ends the call. */
int as_worker_local_call_part(struct as_worker *w, struct as_worker_req *q,
                              const struct as_msg *msg)
{
    int err = use_room(w, q);

    if (err)
        return err;
    if (check_answer(q->local_call, msg)) {
        deliver_part(q->local_call, msg);
        q->output_params.n = 0;
        return 0;
    }
    atomic_store_explicit(&q->cancel, as_err_grpc(AS_EHANDLER), memory_order_relaxed);
    return AS_ECANCELLED;
}

void as_worker_local_call_end(struct as_worker *w, struct as_worker_req *q, uint32_t status,
                              struct as_str why)
{
    struct as_worker_local_call *r = q->local_call;

    if (status)
        record_failure(r, status, why);
    pthread_mutex_lock(&w->mu);
    as_worker_stream_stop(w, q);
    as_worker_req_put(w, q);
    pthread_mutex_unlock(&w->mu);
    r->conf.done(r->conf.ctx, r->status, as_str_of(r->why));
    free(r);
}

void as_worker_local_call_answer(struct as_worker *w, struct as_worker_req *q,
                                 const struct as_msg *msg)
{
    if (check_answer(q->local_call, msg))
        deliver_part(q->local_call, msg);
    as_worker_local_call_end(w, q, 0, (struct as_str){0});
}

void as_worker_local_call_input_taken(struct as_worker_req *q)
{
    struct as_worker_local_call *r = q->local_call;

    if (r->conf.took)
        r->conf.took(r->conf.ctx);
}
