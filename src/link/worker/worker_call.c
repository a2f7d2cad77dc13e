/* Calling a handler with a request, and building its answer. */
#include "base/utf8.h"
#include "link/worker/worker_internal.h"
#include "wire/frame/body.h"

#include <string.h>

#define FIRST_BYTES 8192u /* outputs up to this size need no heap */
#define TEXT_MAX    512u

struct as_worker_call {
    struct as_worker *w;
    struct as_worker_req *q;     /* NULL: answered */
    struct as_worker_req *input; /* the last input that was received; NULL: the first message */
    struct as_worker_executor *hand;
    struct as_tensor *tensors;
    struct as_param *params;
    uint32_t n_tensors, cap_tensors, n_params, cap_params;
    struct as_tensor_param *tensor_params; /* in the order of the outputs */
    uint32_t n_tensor_params, cap_tensor_params;
    uint32_t status; /* gRPC status set by the handler; 0: none */
    char text[TEXT_MAX];
    struct as_blob *answer; /* of a call, laid out; NULL: none so far */
    struct as_arena arena;
    uint8_t first[FIRST_BYTES] __attribute__((aligned(16)));
};

struct as_worker_executor {
    struct as_worker *w;
    struct as_worker_call **calls; /* one for each request of the batch */
    uint32_t n, cap;
};

/* --- memory that is reused --- */

static struct as_worker_call *call_new(struct as_worker_executor *h)
{
    struct as_worker_call *c = as_xalloc(sizeof(*c));

    c->w = h->w;
    c->hand = h;
    as_arena_init(&c->arena, c->first, sizeof(c->first));
    return c;
}

struct as_worker_executor *as_worker_executor_new(struct as_worker *w)
{
    struct as_worker_executor *h = as_xalloc(sizeof(*h));

    h->w = w;
    return h;
}

void as_worker_executor_free(struct as_worker_executor *h)
{
    if (!h)
        return;
    for (uint32_t i = 0; i < h->cap; i++) {
        as_arena_fini(&h->calls[i]->arena);
        free(h->calls[i]->tensors);
        free(h->calls[i]->params);
        free(h->calls[i]->tensor_params);
        free(h->calls[i]);
    }
    free(h->calls);
    free(h);
}

static struct as_worker_call *add_call(struct as_worker_executor *h, struct as_worker_req *q)
{
    struct as_worker_call *c;

    if (h->n == h->cap) {
        h->calls = as_xrealloc(h->calls, (h->cap + 1) * sizeof(struct as_worker_call *));
        h->calls[h->cap++] = call_new(h);
    }
    c = h->calls[h->n++];
    c->q = q;
    c->input = NULL;
    c->status = 0;
    c->text[0] = 0;
    return c;
}

static void clear_answer(struct as_worker_call *c)
{
    c->n_tensors = c->n_params = c->n_tensor_params = 0;
    as_blob_unref(c->answer);
    c->answer = NULL;
    as_arena_reset(&c->arena);
}

/* --- what the client sent --- */

const struct as_msg *as_worker_call_msg(const struct as_worker_call *call)
{
    return as_worker_req_msg(call->input ? call->input : call->q);
}

const struct as_tensor *as_worker_call_input(const struct as_worker_call *call, const char *name)
{
    const struct as_msg *m = as_worker_call_msg(call);
    struct as_str s = as_str_of(name);

    for (uint32_t i = 0; i < m->n_tensors; i++) {
        if (as_str_eq(m->tensors[i].name, s))
            return &m->tensors[i];
    }
    return NULL;
}

const struct as_tensor_param *as_worker_call_tensor_params(const struct as_worker_call *call,
                                                           uint32_t *ret_n)
{
    return as_worker_req_tensor_params(call->input ? call->input : call->q, ret_n);
}

uint32_t as_worker_call_model(const struct as_worker_call *call)
{
    return as_worker_req_model(call->q);
}

bool as_worker_call_cancelled(const struct as_worker_call *call)
{
    return as_worker_req_cancelled(call->q);
}

as_ns as_worker_call_deadline(const struct as_worker_call *call)
{
    return as_worker_req_deadline(call->q);
}

struct as_worker_req *as_worker_call_req(const struct as_worker_call *call)
{
    return call->input ? call->input : call->q;
}

uint32_t as_worker_call_count(const struct as_worker_call *call)
{
    return call->hand->n;
}

struct as_worker_call *as_worker_call_member(struct as_worker_call *call, uint32_t i)
{
    return i < call->hand->n ? call->hand->calls[i] : NULL;
}

/* --- the answer --- */

int as_worker_call_fail(struct as_worker_call *call, uint32_t status, const char *text)
{
    struct as_str shown = as_utf8_cut(as_str_of(text), TEXT_MAX - 1);

    call->status = status >= 1 && status <= 16 ? status : AS_STATUS_INTERNAL;
    snprintf(call->text, sizeof(call->text), "%.*s", AS_STR_FMT(shown));
    return AS_EHANDLER;
}

/* The handler misused the API: the client gets INTERNAL, since it did nothing wrong. */
static int fail_misuse(struct as_worker_call *c, int err, const char *why)
{
    (void)as_worker_call_fail(c, AS_STATUS_INTERNAL, why);
    return err;
}

/* The array with room for one more than its n elements; it was moved if it was full. NULL: out of
 * memory, the array is as it was. */
static void *with_room(void *array, uint32_t n, uint32_t *cap, size_t size)
{
    uint32_t more = *cap ? 2 * *cap : 8;

    if (n < *cap)
        return array;
    array = realloc(array, more * size);
    if (array)
        *cap = more;
    return array;
}

int as_worker_call_put(struct as_worker_call *call, const struct as_tensor *t)
{
    struct as_tensor *to;
    uint64_t n;

    if (!t->name.n || t->dtype <= AS_DT_INVALID || t->dtype >= AS_DT_COUNT ||
        t->ndim > AS_MAX_DIMS || as_tensor_elements(t->dtype, t->shape, t->ndim, &n))
        return fail_misuse(call, AS_EINVALID,
                           "the handler made an output without name, datatype or shape");
    if (t->dtype == AS_DT_BYTES ? as_tensor_check_bytes(t->data, t->nbytes, n) != 0
                                : t->nbytes != n * as_dtype_size(t->dtype))
        return fail_misuse(call, AS_EINVALID, "the bytes of an output do not fit its shape");
    to = call->n_tensors < AS_WORKER_TENSORS
             ? with_room(call->tensors, call->n_tensors, &call->cap_tensors, sizeof(*to))
             : NULL;
    if (!to)
        return fail_misuse(call, AS_ENOMEM, "the handler made too many outputs");
    call->tensors = to;
    to[call->n_tensors++] = *t;
    return 0;
}

void *as_worker_call_output(struct as_worker_call *call, const char *name, enum as_dtype dtype,
                            uint32_t ndim, const int64_t *shape)
{
    struct as_tensor t = {.dtype = dtype, .ndim = ndim};
    size_t size = as_dtype_size(dtype);
    int64_t *copy;
    uint8_t *data;
    uint64_t n;

    if (!size || !name || ndim > AS_MAX_DIMS || as_tensor_elements(dtype, shape, ndim, &n)) {
        (void)fail_misuse(call, 0, "the handler made an output without name, datatype or shape");
        return NULL;
    }
    t.nbytes = (size_t)(n * size);
    t.name = (struct as_str){as_arena_dup(&call->arena, as_str_of(name)), strlen(name)};
    copy = as_arena_alloc(&call->arena, ndim * sizeof(*copy), 8);
    data = as_arena_alloc(&call->arena, t.nbytes, AS_FRAME_ALIGN);
    if (!t.name.p || !copy || !data) {
        (void)fail_misuse(call, 0, "no memory for an output");
        return NULL;
    }
    if (ndim)
        memcpy(copy, shape, ndim * sizeof(*copy));
    t.shape = copy;
    t.data = data;
    return as_worker_call_put(call, &t) ? NULL : data;
}

int as_worker_call_param(struct as_worker_call *call, const struct as_param *p)
{
    struct as_param *to;

    if (!p->name.n || call->n_params + call->n_tensor_params == AS_WORKER_PARAMS)
        return fail_misuse(call, AS_EINVALID,
                           "the handler made a parameter without name, or too many");
    to = with_room(call->params, call->n_params, &call->cap_params, sizeof(*to));
    if (!to)
        return fail_misuse(call, AS_ENOMEM, "no memory for a parameter");
    call->params = to;
    to[call->n_params++] = *p;
    return 0;
}

/* Inserts an entry behind those of outputs up to `tensor`. NULL: out of memory. */
static struct as_tensor_param *insert_tensor_param(struct as_worker_call *c, uint32_t tensor)
{
    uint32_t at = c->n_tensor_params;
    struct as_tensor_param *p = with_room(c->tensor_params, at, &c->cap_tensor_params, sizeof(*p));

    if (!p)
        return NULL;
    c->tensor_params = p;
    for (; at && p[at - 1].tensor > tensor; at--)
        p[at] = p[at - 1];
    c->n_tensor_params++;
    return &p[at];
}

int as_worker_call_tensor_param(struct as_worker_call *call, const char *output,
                                const struct as_param *p)
{
    struct as_tensor_param *to;
    uint32_t i = 0;

    while (i < call->n_tensors && !as_str_eq(call->tensors[i].name, as_str_of(output)))
        i++;
    if (i == call->n_tensors)
        return fail_misuse(call, AS_EINVALID,
                           "the handler gave a parameter to an output that is not there");
    if (as_tensor_param_reserved(p->name))
        return fail_misuse(call, AS_EINVALID,
                           "the handler gave an output a parameter whose name is the server's own");
    if (!p->name.n || p->type < AS_PARAM_BOOL || p->type > AS_PARAM_UINT64 ||
        call->n_params + call->n_tensor_params == AS_WORKER_PARAMS)
        return fail_misuse(call, AS_EINVALID,
                           "the handler made a parameter without name or type, or too many");
    to = insert_tensor_param(call, i);
    if (!to)
        return fail_misuse(call, AS_ENOMEM, "no memory for a parameter");
    *to = (struct as_tensor_param){*p, i};
    return 0;
}

static struct as_msg answer_msg(const struct as_worker_call *c)
{
    return (struct as_msg){.tensors = c->tensors,
                           .params = c->params,
                           .n_tensors = c->n_tensors,
                           .n_params = c->n_params};
}

/* --- several messages --- */

int as_worker_call_send(struct as_worker_call *call)
{
    const struct as_worker_served_model *m = &call->w->models[as_worker_req_model(call->q)];
    struct as_msg msg = answer_msg(call);
    int err;

    if (!m->reg.decoupled)
        return fail_misuse(call, AS_EINVALID, "the model is not decoupled: it gives one answer");
    call->q->output_params = (struct as_tensor_params){call->tensor_params, call->n_tensor_params};
    do {
        err = as_worker_await_room(call->w, call->q);
        if (!err)
            err = as_worker_part(call->w, call->q, &msg);
    } while (err == AS_EAGAIN); /* another thread used the credit */
    if (err == AS_ETOOBIG)
        return fail_misuse(call, err, "the answer is larger than the server accepts");
    clear_answer(call);
    return err;
}

static void release_input(struct as_worker_call *c)
{
    if (c->input)
        as_worker_drop_input(c->w, c->q, c->input);
    c->input = NULL;
}

int as_worker_call_receive(struct as_worker_call *call)
{
    const struct as_worker_served_model *m = &call->w->models[as_worker_req_model(call->q)];
    int err;

    if (!m->reg.streams_inputs)
        return fail_misuse(call, AS_EINVALID, "the model takes one message");
    release_input(call);
    while ((err = as_worker_next_input(call->w, call->q, &call->input)) == AS_EAGAIN)
        as_worker_await_input(call->w, call->q);
    return err;
}

/* --- calls --- */

const struct as_body *as_worker_call_body(const struct as_worker_call *call)
{
    return as_worker_req_body(call->q);
}

bool as_worker_call_streams(const struct as_worker_call *call)
{
    return as_worker_req_streams(call->q);
}

int as_worker_call_answer(struct as_worker_call *call, const struct as_body *body)
{
    if (!as_worker_req_body(call->q) || !as_body_is_valid(body, true))
        return fail_misuse(call, AS_EINVALID, "the handler gave a malformed answer");
    as_blob_unref(call->answer);
    call->answer = as_worker_lay_out(body, as_body_len(body));
    return call->answer ? 0 : fail_misuse(call, AS_ENOMEM, "no memory for an answer");
}

static int send_part(struct as_worker_call *call, const struct as_body *body,
                     struct as_blob *laid_out)
{
    int err;

    if (!as_worker_call_streams(call))
        return fail_misuse(call, AS_EINVALID, "the call takes one answer");
    do {
        err = as_worker_await_room(call->w, call->q);
        if (!err)
            err = as_worker_part_laid_out(call->w, call->q, body, laid_out);
    } while (err == AS_EAGAIN); /* another thread used the credit */
    if (err == AS_ETOOBIG)
        return fail_misuse(call, err, "the answer is larger than the server accepts");
    return err == AS_EINVALID ? fail_misuse(call, err, "the handler gave a malformed answer") : err;
}

int as_worker_call_send_body(struct as_worker_call *call, const struct as_body *body)
{
    return send_part(call, body, NULL);
}

int as_worker_call_open(struct as_worker_call *call, const struct as_worker_open *open,
                        struct as_worker_out **ret_o)
{
    struct as_worker_open v;

    if (!as_worker_copy_struct(&v, sizeof(v), open))
        return AS_EINVALID;
    v.size = sizeof(v);
    v.parent = call->q;
    return as_worker_open(call->w, &v, ret_o);
}

/* Of a call whose handler returned 0. 0: q is answered. */
static int answer_call(struct as_worker_call *c, struct as_worker_req *q)
{
    int err;

    if (c->answer && as_worker_req_streams(q)) {
        err = send_part(c, NULL, c->answer);
        if (err)
            return err;
    } else if (c->answer) {
        return as_worker_answer_laid_out(c->w, q, NULL, c->answer);
    }
    as_worker_finish(c->w, q); /* without an answer it fails, if it must have one */
    return 0;
}

/* --- the end --- */

static void send_failure(struct as_worker_call *c, uint32_t status, const char *text)
{
    struct as_worker_req *q = c->q;

    release_input(c);
    c->q = NULL;
    as_worker_fail(c->w, q, status, as_str_of(text));
}

/* The handler returned 0. */
static void send_answer(struct as_worker_call *c)
{
    struct as_worker_req *q = c->q;
    struct as_msg msg = answer_msg(c);
    int err;

    release_input(c);
    if (q->is_call) {
        err = answer_call(c, q);
        if (!err) {
            c->q = NULL;
            return;
        }
    } else if (c->w->models[as_worker_req_model(q)].reg.decoupled) {
        err = c->n_tensors || c->n_params ? as_worker_call_send(c) : 0;
        if (!err) {
            c->q = NULL;
            as_worker_finish(c->w, q);
            return;
        }
    } else {
        q->output_params = (struct as_tensor_params){c->tensor_params, c->n_tensor_params};
        err = as_worker_answer(c->w, q, &msg);
        if (!err) {
            c->q = NULL;
            return;
        }
    }
    send_failure(c, as_err_grpc(err),
                 err == AS_ETOOBIG ? "the answer is larger than the server accepts"
                                   : as_err_text(err));
}

static void finish_call(struct as_worker_call *c, int result)
{
    if (c->status)
        send_failure(c, c->status, c->text);
    else if (result < 0)
        send_failure(c, as_err_grpc(result), as_err_text(result));
    else if (result)
        send_failure(c, AS_STATUS_INTERNAL, as_err_text(AS_EHANDLER));
    else
        send_answer(c);
    clear_answer(c);
}

void as_worker_execute(struct as_worker_executor *h, struct as_worker_req *q)
{
    const struct as_worker_served_model *m = &h->w->models[as_worker_req_model(q)];
    struct as_worker_req *o = q;
    int result;

    h->n = 0;
    (void)add_call(h, q);
    while (m->reg.batching.max_size && (o = as_worker_next_member(h->w, o)))
        (void)add_call(h, o);
    result = m->handler ? m->handler(h->calls[0], m->ctx)
                        : as_worker_call_fail(h->calls[0], AS_STATUS_UNIMPLEMENTED,
                                              "the model has no handler");
    for (uint32_t i = 0; i < h->n; i++)
        finish_call(h->calls[i], result);
}
