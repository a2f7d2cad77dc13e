/* Writes inference messages as JSON: first computes how much memory they take, then writes. */
#include "wire/name_check.h"
#include "wire/oip/oip_json.h"
#include "wire/oip/oip_parse.h"

/* If p is NULL the bytes are only counted, else they are written: the same code does both. */
struct json_text {
    uint8_t *p;
    uint64_t n;
};

static void add_text(struct json_text *t, const char *z)
{
    size_t n = strlen(z);

    if (t->p)
        memcpy(t->p + t->n, z, n);
    t->n += n;
}

static void add_string(struct json_text *t, struct as_str s)
{
    t->n += t->p ? as_json_copy_string(t->p + t->n, s) : as_json_string_len(s);
}

/* Printed into a small buffer first: there are few numbers outside tensors. */
static void add_number(struct json_text *t, const struct as_param *m)
{
    char text[48];

    if (m->type == AS_PARAM_UINT64)
        snprintf(text, sizeof(text), "%llu", (unsigned long long)m->u64);
    else
        snprintf(text, sizeof(text), "%lld", (long long)m->i64);
    add_text(t, text);
}

static void add_double(struct json_text *t, double v)
{
    uint8_t text[64];
    size_t n = as_json_put_elements(text, AS_DT_FP64, (const uint8_t *)&v, sizeof(v));

    if (t->p)
        memcpy(t->p + t->n, text, n);
    t->n += n;
}

static void add_param(struct json_text *t, const struct as_param *m)
{
    add_string(t, m->name);
    add_text(t, ":");
    switch (m->type) {
    case AS_PARAM_BOOL:
        add_text(t, m->b ? "true" : "false");
        break;
    case AS_PARAM_STRING:
        add_string(t, m->str);
        break;
    case AS_PARAM_DOUBLE:
        add_double(t, m->f64);
        break;
    case AS_PARAM_INT64:
    case AS_PARAM_UINT64:
    default:
        add_number(t, m);
    }
}

static void add_params(struct json_text *t, const struct as_oip_response *r)
{
    for (uint32_t i = 0; i < r->n_params; i++) {
        add_text(t, i ? "," : "");
        add_param(t, &r->params[i]);
    }
}

static void add_shape(struct json_text *t, const struct as_tensor *x)
{
    for (uint32_t i = 0; i < x->ndim; i++) {
        struct as_param m = {.type = AS_PARAM_INT64, .i64 = x->shape[i]};

        add_text(t, i ? "," : "");
        add_number(t, &m);
    }
}

/* Sets t->n to UINT64_MAX for BYTES that are not UTF-8. */
static void add_elements(struct json_text *t, const struct as_tensor *x)
{
    uint64_t n;

    if (t->p) {
        t->n += as_json_put_elements(t->p + t->n, x->dtype, x->data, x->nbytes);
        return;
    }
    n = as_json_elements_max(x->dtype, x->data, x->nbytes);
    t->n = n == UINT64_MAX ? n : t->n + n;
}

/* Where the tensor's bytes are sent. */
enum tensor_place { IN_TEXT, IN_BINARY, IN_REGION };

/* Writes the parameters of the i-th tensor. *at is the first of them; it is moved to the first of
 * the next tensor. `size`: the parameter binary_data_size, or NULL. */
static void add_tensor_params(struct json_text *t, const struct as_oip_response *r, uint32_t i,
                              uint32_t *at, const struct as_param *size)
{
    const struct as_tensor_params *params = &r->tensor_params;
    bool any = false;

    if (!size && (*at == params->n || params->at[*at].tensor != i))
        return;
    add_text(t, ",\"parameters\":{");
    if (size) {
        add_param(t, size);
        any = true;
    }
    for (; *at < params->n && params->at[*at].tensor == i; ++*at) {
        add_text(t, any ? "," : "");
        add_param(t, &params->at[*at].param);
        any = true;
    }
    add_text(t, "}");
}

/* False: BYTES that are not UTF-8, which only binary data can carry. An output in shared memory has
 * no parameters: Triton does not send any (the client has chosen the region), and its C++ client
 * fails at an output that has parameters without binary_data_size. */
static bool add_tensor(struct json_text *t, const struct as_oip_response *r, uint32_t i,
                       uint32_t *at, enum tensor_place tensor_place)
{
    const struct as_tensor *x = &r->outputs[i];
    struct as_param size = {
        .name = AS_STR("binary_data_size"), .type = AS_PARAM_UINT64, .u64 = x->nbytes};

    add_text(t, "{\"name\":");
    add_string(t, x->name);
    add_text(t, ",\"datatype\":\"");
    add_text(t, as_dtype_name(x->dtype));
    add_text(t, "\",\"shape\":[");
    add_shape(t, x);
    add_text(t, "]");
    if (tensor_place == IN_REGION) {
        while (*at < r->tensor_params.n && r->tensor_params.at[*at].tensor == i)
            ++*at;
        add_text(t, "}");
        return true;
    }
    add_tensor_params(t, r, i, at, tensor_place == IN_BINARY ? &size : NULL);
    if (tensor_place == IN_BINARY) {
        add_text(t, "}");
        return true;
    }
    add_text(t, ",\"data\":[");
    add_elements(t, x);
    if (t->n == UINT64_MAX)
        return false;
    add_text(t, "]}");
    return true;
}

/* *ret_n: what was counted, unless the i-th tensor cannot be written. */
static int set_count(const struct json_text *t, const struct as_oip_response *r, uint32_t i,
                     const char *what, uint64_t *ret_n, char *why, size_t cap)
{
    *ret_n = t->n;
    if (i == r->n_outputs)
        return 0;
    snprintf(why, cap, "%s '%.*s': BYTES that are not UTF-8 cannot be sent as JSON; %s", what,
             AS_OIP_SHOWN(r->outputs[i].name),
             what[0] == 'o' ? "request it with binary_data" : "send it as binary data");
    return AS_EINVALID;
}

/* --- responses --- */

bool as_oip_json_any_binary(const struct as_oip_infer *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (as_oip_json_is_binary(q, i))
            return true;
    }
    return false;
}

/* Keys in the order in which Triton writes them. */
static void add_model_names(struct json_text *t, const struct as_oip_response *r)
{
    if (r->id.n) {
        add_text(t, "\"id\":");
        add_string(t, r->id);
        add_text(t, ",");
    }
    add_text(t, "\"model_name\":");
    add_string(t, r->model);
    add_text(t, ",\"model_version\":");
    add_string(t, r->version);
}

static enum tensor_place output_place(const struct as_oip_response *r, const struct as_oip_infer *q,
                                      uint32_t i)
{
    if (r->ranges && r->ranges[i].region.n)
        return IN_REGION;
    return as_oip_json_is_binary(q, i) ? IN_BINARY : IN_TEXT;
}

/* Returns n_outputs, or the index of the output that cannot be written. */
static uint32_t add_response(struct json_text *t, const struct as_oip_response *r,
                             const struct as_oip_infer *q)
{
    uint32_t at = 0;

    add_text(t, "{");
    add_model_names(t, r);
    if (r->n_params) {
        add_text(t, ",\"parameters\":{");
        add_params(t, r);
        add_text(t, "}");
    }
    add_text(t, ",\"outputs\":[");
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        add_text(t, i ? "," : "");
        if (!add_tensor(t, r, i, &at, output_place(r, q, i)))
            return i;
    }
    add_text(t, "]}");
    return r->n_outputs;
}

int as_oip_json_response_max(const struct as_oip_response *r, const struct as_oip_infer *q,
                             uint64_t *ret_n, char *why, size_t cap)
{
    struct json_text t = {0};
    uint32_t i = add_response(&t, r, q);

    return set_count(&t, r, i, "output", ret_n, why, cap);
}

size_t as_oip_json_put_response(uint8_t *out, const struct as_oip_response *r,
                                const struct as_oip_infer *q)
{
    struct json_text t = {.p = out};

    add_response(&t, r, q);
    return (size_t)t.n;
}

/* --- generate --- */

static bool has_output(const struct as_oip_response *r, const char *name)
{
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        if (as_str_eq(r->outputs[i].name, as_str_of(name)))
            return true;
    }
    return false;
}

static void add_unless_output(struct json_text *t, const struct as_oip_response *r,
                              const char *name, struct as_str value)
{
    if (has_output(r, name))
        return;
    add_text(t, t->n > 1 ? ",\"" : "\"");
    add_text(t, name);
    add_text(t, "\":");
    add_string(t, value);
}

static uint32_t add_generate(struct json_text *t, const struct as_oip_response *r)
{
    add_text(t, "{");
    if (r->id.n)
        add_unless_output(t, r, "id", r->id);
    add_unless_output(t, r, "model_name", r->model);
    add_unless_output(t, r, "model_version", r->version);
    if (r->n_params && !has_output(r, "parameters")) {
        add_text(t, t->n > 1 ? ",\"parameters\":{" : "\"parameters\":{");
        add_params(t, r);
        add_text(t, "}");
    }
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        const struct as_tensor *x = &r->outputs[i];
        uint64_t n = 0;

        as_tensor_elements(x->dtype, x->shape, x->ndim, &n);
        add_text(t, t->n > 1 ? "," : "");
        add_string(t, x->name);
        add_text(t, n == 1 ? ":" : ":[");
        add_elements(t, x);
        if (t->n == UINT64_MAX)
            return i;
        add_text(t, n == 1 ? "" : "]");
    }
    add_text(t, "}");
    return r->n_outputs;
}

int as_oip_json_generate_max(const struct as_oip_response *r, uint64_t *ret_n, char *why,
                             size_t cap)
{
    struct json_text t = {0};
    uint32_t i = add_generate(&t, r);

    return set_count(&t, r, i, "output", ret_n, why, cap);
}

size_t as_oip_json_put_generate(uint8_t *out, const struct as_oip_response *r)
{
    struct json_text t = {.p = out};

    add_generate(&t, r);
    return (size_t)t.n;
}

/* --- requests --- */

static uint32_t add_request(struct json_text *t, const struct as_oip_json_request *q)
{
    const struct as_oip_response *r = &q->r.head;
    bool asks = q->binary_output && !q->r.n_outputs;
    uint32_t at = 0;

    add_text(t, "{");
    if (r->id.n) {
        add_text(t, "\"id\":");
        add_string(t, r->id);
        add_text(t, ",");
    }
    if (r->n_params || asks) {
        add_text(t, "\"parameters\":{");
        add_params(t, r);
        if (asks)
            add_text(t,
                     r->n_params ? ",\"binary_data_output\":true" : "\"binary_data_output\":true");
        add_text(t, "},");
    }
    add_text(t, "\"inputs\":[");
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        add_text(t, i ? "," : "");
        if (!add_tensor(t, r, i, &at, q->binary ? IN_BINARY : IN_TEXT))
            return i;
    }
    add_text(t, "]");
    for (uint32_t i = 0; i < q->r.n_outputs; i++) {
        add_text(t, i ? "," : ",\"outputs\":[");
        add_text(t, "{\"name\":");
        add_string(t, q->r.outputs[i].name);
        add_text(t, q->r.outputs[i].binary ? ",\"parameters\":{\"binary_data\":true}}" : "}");
    }
    add_text(t, q->r.n_outputs ? "]}" : "}");
    return r->n_outputs;
}

int as_oip_json_request_max(const struct as_oip_json_request *r, uint64_t *ret_n, char *why,
                            size_t cap)
{
    struct json_text t = {0};
    uint32_t i = add_request(&t, r);

    return set_count(&t, &r->r.head, i, "input", ret_n, why, cap);
}

size_t as_oip_json_put_request(uint8_t *out, const struct as_oip_json_request *r)
{
    struct json_text t = {.p = out};

    add_request(&t, r);
    return (size_t)t.n;
}

/* --- metadata --- */

void as_oip_json_put_server(struct as_buf *b, const struct as_oip_server *s)
{
    as_json_put_open(b, '{');
    as_json_put_member_string(b, "name", s->name);
    as_json_put_member_string(b, "version", s->version);
    as_json_put_member_open(b, "extensions", '[');
    for (uint32_t i = 0; i < s->n_extensions; i++)
        as_json_put_string(b, s->extensions[i]);
    as_json_put_close(b, ']');
    as_json_put_close(b, '}');
}

static void put_specs(struct as_buf *b, const char *key, const struct as_tensor_spec *s, uint32_t n)
{
    as_json_put_key(b, key);
    as_json_put_open(b, '[');
    for (uint32_t i = 0; i < n; i++) {
        as_json_put_open(b, '{');
        as_json_put_member_string(b, "name", s[i].name);
        as_json_put_member_text(b, "datatype", as_dtype_name(s[i].dtype));
        as_json_put_member_shape(b, "shape", &s[i]);
        as_json_put_close(b, '}');
    }
    as_json_put_close(b, ']');
}

void as_oip_json_put_model(struct as_buf *b, const struct as_oip_model *m)
{
    as_json_put_open(b, '{');
    as_json_put_member_string(b, "name", m->name);
    as_json_put_member_open(b, "versions", '[');
    for (uint32_t i = 0; i < m->n_versions; i++)
        as_json_put_string(b, m->versions[i]);
    as_json_put_close(b, ']');
    as_json_put_member_string(b, "platform", m->platform);
    put_specs(b, "inputs", m->inputs, m->n_inputs);
    put_specs(b, "outputs", m->outputs, m->n_outputs);
    as_json_put_close(b, '}');
}
