#include "wire/model_config.h"

#include "base/err.h"
#include "wire/json.h"

#include <open_inference.pb-c.h>

static const char *const type_names[AS_DT_COUNT] = {
    "TYPE_INVALID", "TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32",
    "TYPE_UINT64",  "TYPE_INT8", "TYPE_INT16", "TYPE_INT32",  "TYPE_INT64",
    "TYPE_FP16",    "TYPE_FP32", "TYPE_FP64",  "TYPE_STRING", "TYPE_BF16",
};

const char *as_model_config_type_name(enum as_dtype t)
{
    return type_names[(uint32_t)t < AS_DT_COUNT ? t : AS_DT_INVALID];
}

/* Both enumerations have the same numbers, BYTES being STRING there. */
static Inference__DataType type_of(enum as_dtype t)
{
    return (Inference__DataType)t;
}

static uint32_t dims_of(const struct as_tensor_spec *s)
{
    return s->ndim == AS_ANY_RANK ? 0 : s->ndim;
}

/* n messages of `size` bytes and the array of pointers to them, which comes first; NULL: no memory.
 */
static void **make_many(struct as_arena *a, uint32_t n, size_t size)
{
    void **at = as_arena_alloc(a, n * (sizeof(void *) + size) + 1, 8);

    for (uint32_t i = 0; at && i < n; i++)
        at[i] = (uint8_t *)(at + n) + i * size;
    return at;
}

static bool fill_inputs(Inference__ModelConfig *m, const struct as_model_config *c,
                        struct as_arena *a)
{
    m->n_input = c->n_inputs;
    m->input = (Inference__ModelInput **)make_many(a, c->n_inputs, sizeof(Inference__ModelInput));
    for (uint32_t i = 0; m->input && i < c->n_inputs; i++) {
        Inference__ModelInput *t = m->input[i];

        inference__model_input__init(t);
        t->name = as_arena_dup(a, c->inputs[i].name);
        t->data_type = type_of(c->inputs[i].dtype);
        t->n_dims = dims_of(&c->inputs[i]);
        t->dims = (int64_t *)(uintptr_t)c->inputs[i].shape;
        t->allow_ragged_batch = c->ragged;
        if (!t->name)
            return false;
    }
    return m->input;
}

static bool fill_outputs(Inference__ModelConfig *m, const struct as_model_config *c,
                         struct as_arena *a)
{
    m->n_output = c->n_outputs;
    m->output =
        (Inference__ModelOutput **)make_many(a, c->n_outputs, sizeof(Inference__ModelOutput));
    for (uint32_t i = 0; m->output && i < c->n_outputs; i++) {
        Inference__ModelOutput *t = m->output[i];

        inference__model_output__init(t);
        t->name = as_arena_dup(a, c->outputs[i].name);
        t->data_type = type_of(c->outputs[i].dtype);
        t->n_dims = dims_of(&c->outputs[i]);
        t->dims = (int64_t *)(uintptr_t)c->outputs[i].shape;
        if (!t->name)
            return false;
    }
    return m->output;
}

int as_model_config_put(const struct as_model_config *c, struct as_arena *a, struct as_buf *out)
{
    Inference__ModelConfigResponse r = INFERENCE__MODEL_CONFIG_RESPONSE__INIT;
    Inference__ModelConfig m;
    Inference__ModelVersionPolicy policy = INFERENCE__MODEL_VERSION_POLICY__INIT;
    Inference__ModelVersionPolicy__All all = INFERENCE__MODEL_VERSION_POLICY__ALL__INIT;
    Inference__ModelDynamicBatching batching = INFERENCE__MODEL_DYNAMIC_BATCHING__INIT;
    Inference__ModelTransactionPolicy transaction = INFERENCE__MODEL_TRANSACTION_POLICY__INIT;
    static char backend[] = "anyserve";
    uint8_t *p;

    inference__model_config__init(&m);
    policy.policy_choice_case = INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_ALL;
    policy.all = &all;
    m.name = as_arena_dup(a, c->name);
    m.platform = as_arena_dup(a, c->platform);
    m.backend = backend;
    m.version_policy = &policy;
    m.max_batch_size = (int32_t)AS_MIN(c->max_batch_size, (uint32_t)INT32_MAX);
    if (c->batching) {
        batching.n_preferred_batch_size = c->n_preferred;
        batching.preferred_batch_size = (int32_t *)(uintptr_t)c->preferred;
        batching.max_queue_delay_microseconds = c->max_delay_us;
        batching.priority_levels = AS_MODEL_CONFIG_PRIORITIES;
        batching.default_priority_level = AS_MODEL_CONFIG_PRIORITY_DEFAULT;
        m.dynamic_batching = &batching;
    }
    transaction.decoupled = c->decoupled;
    m.model_transaction_policy = &transaction;
    r.config = &m;
    if (!m.name || !m.platform || !fill_inputs(&m, c, a) || !fill_outputs(&m, c, a))
        return AS_ENOMEM;
    p = as_buf_try_reserve(out, inference__model_config_response__get_packed_size(&r));
    if (!p)
        return AS_ENOMEM;
    out->n += inference__model_config_response__pack(&r, p);
    return 0;
}

/* --- JSON --- */

static void json_tensors(struct as_buf *b, const char *key, const struct as_tensor_spec *s,
                         uint32_t n, bool input, bool ragged)
{
    as_json_put_key(b, key);
    as_json_put_open(b, '[');
    for (uint32_t i = 0; i < n; i++) {
        as_json_put_open(b, '{');
        as_json_put_key(b, "name");
        as_json_put_string(b, s[i].name);
        as_json_put_key(b, "data_type");
        as_json_put_text(b, as_model_config_type_name(s[i].dtype));
        as_json_put_key(b, "dims");
        as_json_put_open(b, '[');
        for (uint32_t k = 0; k < dims_of(&s[i]); k++)
            as_json_put_i64(b, s[i].shape[k]);
        as_json_put_close(b, ']');
        if (input) {
            as_json_put_key(b, "allow_ragged_batch");
            as_json_put_bool(b, ragged);
            as_json_put_key(b, "optional");
            as_json_put_bool(b, false);
        }
        as_json_put_close(b, '}');
    }
    as_json_put_close(b, ']');
}

static void json_batching(struct as_buf *b, const struct as_model_config *c)
{
    as_json_put_key(b, "dynamic_batching");
    as_json_put_open(b, '{');
    as_json_put_key(b, "preferred_batch_size");
    as_json_put_open(b, '[');
    for (uint32_t i = 0; i < c->n_preferred; i++)
        as_json_put_u64(b, c->preferred[i]);
    as_json_put_close(b, ']');
    as_json_put_key(b, "max_queue_delay_microseconds");
    as_json_put_u64(b, c->max_delay_us);
    as_json_put_key(b, "preserve_ordering");
    as_json_put_bool(b, false);
    as_json_put_key(b, "priority_levels");
    as_json_put_u64(b, AS_MODEL_CONFIG_PRIORITIES);
    as_json_put_key(b, "default_priority_level");
    as_json_put_u64(b, AS_MODEL_CONFIG_PRIORITY_DEFAULT);
    as_json_put_close(b, '}');
}

void as_model_config_json(const struct as_model_config *c, struct as_buf *b)
{
    as_json_put_open(b, '{');
    as_json_put_key(b, "name");
    as_json_put_string(b, c->name);
    as_json_put_key(b, "platform");
    as_json_put_string(b, c->platform);
    as_json_put_key(b, "backend");
    as_json_put_text(b, "anyserve");
    as_json_put_key(b, "version_policy");
    as_json_put_open(b, '{');
    as_json_put_key(b, "all");
    as_json_put_open(b, '{');
    as_json_put_close(b, '}');
    as_json_put_close(b, '}');
    as_json_put_key(b, "max_batch_size");
    as_json_put_u64(b, c->max_batch_size);
    json_tensors(b, "input", c->inputs, c->n_inputs, true, c->ragged);
    json_tensors(b, "output", c->outputs, c->n_outputs, false, false);
    if (c->batching)
        json_batching(b, c);
    as_json_put_key(b, "model_transaction_policy");
    as_json_put_open(b, '{');
    as_json_put_key(b, "decoupled");
    as_json_put_bool(b, c->decoupled);
    as_json_put_close(b, '}');
    as_json_put_close(b, '}');
}
