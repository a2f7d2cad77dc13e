#include "wire/triton/model_config.h"

#include "base/err.h"
#include "wire/triton/message_json.h"

#include <open_inference.pb-c.h>

/* Both enumerations have the same numbers; BYTES is called STRING in protobuf. */
static Inference__DataType type_of(enum as_dtype t)
{
    return (Inference__DataType)t;
}

static uint32_t dims_of(const struct as_tensor_spec *s)
{
    return s->ndim == AS_ANY_RANK ? 0 : s->ndim;
}

static bool fill_input(void *row, const void *from, struct as_arena *a)
{
    const struct as_tensor_spec *s = from;
    Inference__ModelInput *t = row;

    inference__model_input__init(t);
    t->name = as_arena_dup(a, s->name);
    t->data_type = type_of(s->dtype);
    t->n_dims = dims_of(s);
    t->dims = (int64_t *)(uintptr_t)s->shape;
    return t->name;
}

static bool fill_output(void *row, const void *from, struct as_arena *a)
{
    const struct as_tensor_spec *s = from;
    Inference__ModelOutput *t = row;

    inference__model_output__init(t);
    t->name = as_arena_dup(a, s->name);
    t->data_type = type_of(s->dtype);
    t->n_dims = dims_of(s);
    t->dims = (int64_t *)(uintptr_t)s->shape;
    return t->name;
}

static bool fill_tensors(Inference__ModelConfig *m, const struct as_model_config *c,
                         struct as_arena *a)
{
    m->n_input = c->n_inputs;
    m->n_output = c->n_outputs;
    m->input = (Inference__ModelInput **)as_pb_pack_rows(
        c->inputs, c->n_inputs, sizeof(c->inputs[0]), sizeof(Inference__ModelInput), fill_input, a);
    m->output =
        (Inference__ModelOutput **)as_pb_pack_rows(c->outputs, c->n_outputs, sizeof(c->outputs[0]),
                                                   sizeof(Inference__ModelOutput), fill_output, a);
    for (uint32_t i = 0; m->input && i < c->n_inputs; i++)
        m->input[i]->allow_ragged_batch = c->ragged;
    return m->input && m->output;
}

/* The labels of an output's classes become a parameter "OUTPUT.labels", whose value is the content
 * of a Triton label file. The configuration's own field has only a file's name, which a client
 * could not open. */
static void put_labels(struct as_buf *b, const struct as_tensor_spec *s)
{
    for (uint32_t i = 0; i < s->n_labels; i++) {
        as_buf_add(b, s->labels[i].p, s->labels[i].n);
        as_buf_str(b, "\n");
    }
}

struct parameter {
    Inference__ModelConfig__ParametersEntry entry;
    Inference__ModelParameter value;
};

static bool fill_labels(void *row, const void *from, struct as_arena *a)
{
    const struct as_tensor_spec *s = from;
    struct parameter *v = row;
    struct as_buf text = {0};

    inference__model_config__parameters_entry__init(&v->entry);
    inference__model_parameter__init(&v->value);
    v->entry.value = &v->value;
    as_buf_add(&text, s->name.p, s->name.n);
    as_buf_str(&text, ".labels");
    v->entry.key = as_arena_dup(a, as_buf_slice(&text));
    text.n = 0;
    put_labels(&text, s);
    v->value.string_value = as_arena_dup(a, as_buf_slice(&text));
    as_buf_fini(&text);
    return v->entry.key && v->value.string_value;
}

/* Only outputs with labels have a parameter. */
static bool fill_parameters(Inference__ModelConfig *m, const struct as_model_config *c,
                            struct as_arena *a)
{
    struct as_tensor_spec *labelled = as_arena_alloc(a, c->n_outputs * sizeof(*labelled) + 1, 8);
    uint32_t n = 0;

    for (uint32_t i = 0; labelled && i < c->n_outputs; i++) {
        if (c->outputs[i].n_labels)
            labelled[n++] = c->outputs[i];
    }
    m->n_parameters = n;
    m->parameters =
        labelled ? (Inference__ModelConfig__ParametersEntry **)as_pb_pack_rows(
                       labelled, n, sizeof(*labelled), sizeof(struct parameter), fill_labels, a)
                 : NULL;
    return m->parameters;
}

int as_model_config_put(const struct as_model_config *c, struct as_arena *a, bool json,
                        struct as_buf *out)
{
    Inference__ModelConfigResponse r = INFERENCE__MODEL_CONFIG_RESPONSE__INIT;
    Inference__ModelConfig m;
    Inference__ModelVersionPolicy policy = INFERENCE__MODEL_VERSION_POLICY__INIT;
    Inference__ModelVersionPolicy__All all = INFERENCE__MODEL_VERSION_POLICY__ALL__INIT;
    Inference__ModelDynamicBatching batching = INFERENCE__MODEL_DYNAMIC_BATCHING__INIT;
    Inference__ModelTransactionPolicy transaction = INFERENCE__MODEL_TRANSACTION_POLICY__INIT;
    static char backend[] = "anyserve";

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
    if (!m.name || !m.platform || !fill_tensors(&m, c, a) || !fill_parameters(&m, c, a))
        return AS_ENOMEM;
    return as_message_put(json ? &m.base : &r.base, json, out);
}
