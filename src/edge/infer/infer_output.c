#include "edge/infer/infer_output.h"

#include "edge/infer/shm_tensors.h"
#include "wire/triton/classify.h"

static bool classify_output(struct as_exchange *x, struct as_tensor *t, uint32_t k)
{
    const struct as_tensor_spec *s =
        as_tensor_spec_find(x->model->outputs, x->model->n_outputs, t->name);
    struct as_tensor texts;
    int err = as_classify(t, s ? s->labels : NULL, s ? s->n_labels : 0, k, &x->arena, &texts);

    if (err == AS_EINVALID)
        as_exchange_fail(x, err, "output '%.*s': there are no classes in %s", AS_STR_FMT(t->name),
                         as_dtype_name(t->dtype));
    else if (err == AS_ETOOBIG)
        as_exchange_fail(x, AS_EINVALID,
                         "output '%.*s': classification asks for more than %u texts or %u bytes",
                         AS_STR_FMT(t->name), AS_CLASSIFY_MAX, AS_CLASSIFY_BYTES);
    else if (err)
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
    else
        *t = texts;
    return !err;
}

/* Writes an output to shared memory; the answer keeps only its range. */
static bool store_output(struct as_exchange *x, struct as_tensor *t, struct as_oip_shm_range *range)
{
    if (!as_shm_tensors_store(x, t, range))
        return false;
    range->size = t->nbytes;
    t->data = NULL;
    t->nbytes = 0;
    return true;
}

bool as_infer_output_apply(struct as_exchange *x, struct as_oip_response *r)
{
    size_t size = r->n_outputs * sizeof(struct as_tensor);
    struct as_tensor *t = as_exchange_alloc(x, size, 8, "the answer");
    struct as_oip_shm_range *ranges =
        t ? as_exchange_alloc(x, r->n_outputs * sizeof(*ranges), 8, "the answer") : NULL;

    if (!ranges)
        return false;
    memcpy(t, r->outputs, size);
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        const struct as_oip_requested_output *o = &x->infer.outputs[i];

        ranges[i] = o->range;
        if (o->classification && !classify_output(x, &t[i], o->classification))
            return false;
        if (o->range.region.n && !store_output(x, &t[i], &ranges[i]))
            return false;
    }
    r->outputs = t;
    r->ranges = ranges;
    return true;
}

/* --- parameters --- */

static bool has_reserved(const struct as_tensor_params *own)
{
    for (uint32_t i = 0; i < own->n; i++) {
        if (as_tensor_param_reserved(own->at[i].param.name))
            return true;
    }
    return false;
}

/* Appends the parameters of the worker's output `name` to the first n of x->answer.params, as those
 * of output i. Returns the new n. */
static uint32_t append_params(struct as_exchange *x, const struct as_msg *res,
                              const struct as_tensor_params *own, struct as_str name, uint32_t i,
                              uint32_t n)
{
    for (uint32_t k = 0; k < own->n; k++) {
        const struct as_tensor_param *p = &own->at[k];

        if (as_str_eq(res->tensors[p->tensor].name, name) &&
            !as_tensor_param_reserved(p->param.name))
            x->answer.params[n++] = (struct as_tensor_param){p->param, i};
    }
    return n;
}

bool as_infer_output_add_params(struct as_exchange *x, const struct as_msg *res,
                                const struct as_tensor_params *own, struct as_oip_response *r)
{
    uint32_t n = 0;

    if (!x->infer.n_outputs && !has_reserved(own)) {
        r->tensor_params = *own;
        return true;
    }
    if (x->answer.params_cap < own->n) { /* reused by all responses of a stream */
        x->answer.params =
            as_exchange_alloc(x, own->n * sizeof(*x->answer.params), 8, "the answer");
        x->answer.params_cap = x->answer.params ? own->n : 0;
    }
    if (!x->answer.params)
        return false;
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        if (!x->infer.n_outputs || !x->infer.outputs[i].classification)
            n = append_params(x, res, own, r->outputs[i].name, i, n);
    }
    r->tensor_params = (struct as_tensor_params){x->answer.params, n};
    return true;
}
