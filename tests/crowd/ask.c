#include "ask.h"

#include "wire/oip/oip_json.h"

#include <string.h>

#define INFER_PATH   "/inference.GRPCInferenceService/ModelInfer"
#define ANSWER_LIMIT ((size_t)64 << 20)

const char *const ask_fate_names[] = {"fine", "bad", "fails", "over"};

/* As model.py declares them. */
static const struct model {
    const char *name;
    uint32_t max; /* items of a call; 0: no batching */
    bool is_list; /* it answers each request by itself: it says who, and may refuse one */
    bool is_ragged, is_pair;
} models[] = {
    {"sync", 16, false, false, false},  {"held", 8, false, false, false},
    {"async", 16, false, false, false}, {"threads", 16, false, false, false},
    {"list", 16, true, false, false},   {"ragged", 16, true, true, false},
    {"pair", 16, false, false, true},   {"typed", 16, false, false, false},
    {"plain", 0, false, false, false},  {"list_async", 16, true, false, false},
};
#define TYPED 7u /* the one that declares its input: INT32, [-1, 3] */

const char *ask_model(const struct ask *a)
{
    return models[a->model].name;
}

static bool chance(struct as_rand *r, uint32_t in_thousand)
{
    return as_rand_below(r, 1000) < in_thousand;
}

/* --- what is asked --- */

void ask_draw_theme(struct ask_theme *t, struct as_rand *r)
{
    static const enum as_dtype dtypes[] = {AS_DT_INT64,  AS_DT_INT64,  AS_DT_FP32,   AS_DT_BYTES,
                                           AS_DT_BYTES,  AS_DT_UINT8,  AS_DT_UINT16, AS_DT_INT8,
                                           AS_DT_INT16,  AS_DT_UINT64, AS_DT_FP64,   AS_DT_FP16,
                                           AS_DT_UINT32, AS_DT_INT32,  AS_DT_BOOL};
    static const uint32_t widths[] = {1, 3, 3, 4, 8};

    for (uint32_t i = 0; i < AS_COUNT(t->models); i++)
        t->models[i] = (uint32_t)as_rand_below(r, AS_COUNT(models));
    t->is_wide = chance(r, 40);
    for (uint32_t i = 0; i < ASK_KINDS; i++) {
        t->kinds[i].dtype = dtypes[as_rand_below(r, AS_COUNT(dtypes))];
        t->kinds[i].ndim = chance(r, 700) ? 2 : 1 + (uint32_t)as_rand_below(r, 3);
        t->kinds[i].width = widths[as_rand_below(r, AS_COUNT(widths))];
        if (t->is_wide && t->kinds[i].dtype != AS_DT_BYTES)
            t->kinds[i].width = 500 + (uint32_t)as_rand_below(r, 4000);
    }
}

static void fill_bytes(struct ask_input *in, struct as_rand *r)
{
    static const char *const letters[] = {"a", "Z", "0", " ", "\"", "\\", "\n", "é", "→", "𝄞"};

    for (uint64_t i = 0; i < in->n; i++) {
        uint32_t start = (uint32_t)in->data.n, len = 0;

        as_buf_add(&in->starts, &start, 4);
        as_buf_add(&in->data, &len, 4);
        if (chance(r, 800))
            as_buf_printf(&in->data, "%llx", (unsigned long long)as_rand_next(r));
        for (uint64_t k = as_rand_below(r, 12); k > 0; k--)
            as_buf_str(&in->data, letters[as_rand_below(r, AS_COUNT(letters))]);
        len = (uint32_t)in->data.n - start - 4;
        memcpy(in->data.p + start, &len, 4);
    }
}

/* Random bits; of floats those that are numbers, of BOOL the two that there are. */
static void fill_fixed(struct ask_input *in, enum as_dtype t, struct as_rand *r)
{
    size_t size = as_dtype_size(t), n = (size_t)in->n * size;
    uint8_t *p = as_buf_reserve(&in->data, n + 8);

    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = as_rand_next(r);

        memcpy(p + i, &v, 8);
    }
    for (size_t i = 0; t == AS_DT_BOOL && i < n; i++)
        p[i] &= 1;
    if (t == AS_DT_FP16 || t == AS_DT_FP32 || t == AS_DT_FP64) {
        for (size_t i = size - 1; i < n; i += size)
            p[i] &= 0xbf; /* the exponent's highest bit */
    }
    in->data.n = n;
}

static void fill(struct ask *a, uint32_t at, const char *name, enum as_dtype dtype,
                 struct as_rand *r)
{
    struct ask_input *in = &a->inputs[at];
    struct as_tensor *t = &a->tensors[at];

    in->data.n = in->starts.n = 0;
    in->n = 1;
    for (uint32_t i = 0; i < t->ndim; i++)
        in->n *= (uint64_t)in->shape[i];
    if (dtype == AS_DT_BYTES)
        fill_bytes(in, r);
    else
        fill_fixed(in, dtype, r);
    t->name = as_str_of(name);
    t->dtype = dtype;
    t->shape = in->shape;
    t->data = in->data.p;
    t->nbytes = in->data.n;
}

static uint32_t draw_items(const struct ask *a, const struct ask_theme *t, struct as_rand *r)
{
    static const uint32_t some[] = {1, 1, 1, 1, 2, 2, 3, 5};
    uint32_t max = models[a->model].max;

    if (a->fate == ASK_OVER)
        return max + 1;
    if (t->is_wide)
        return 1 + (uint32_t)as_rand_below(r, 2);
    if (max && chance(r, 20))
        return max - (uint32_t)as_rand_below(r, 2);
    return some[as_rand_below(r, AS_COUNT(some))];
}

static void draw_inputs(struct ask *a, const struct ask_theme *t, struct as_rand *r)
{
    const struct model *m = &models[a->model];
    uint32_t kind = chance(r, 600) ? 0 : (uint32_t)as_rand_below(r, ASK_KINDS);
    enum as_dtype dtype = a->model == TYPED ? AS_DT_INT32 : t->kinds[kind].dtype;
    uint32_t ndim = a->model == TYPED ? 3 : t->kinds[kind].ndim;

    a->items = draw_items(a, t, r);
    a->n_inputs = m->is_pair ? 2 : 1;
    for (uint32_t i = 0; i < a->n_inputs; i++) {
        int64_t *shape = a->inputs[i].shape;

        shape[0] = a->items;
        shape[1] = shape[2] = t->kinds[(kind + i) % ASK_KINDS].width;
        if (m->is_ragged)
            shape[1] = shape[2] = 1 + (int64_t)as_rand_below(r, 9);
        if (ndim == 3)
            shape[1] = a->model == TYPED ? 1 + kind : 2;
        if (a->model == TYPED)
            shape[2] = 3;
        a->tensors[i].ndim = ndim;
    }
    fill(a, 0, "x", dtype, r);
    if (m->is_pair)
        fill(a, 1, "y", t->kinds[(kind + 1) % ASK_KINDS].dtype, r);
}

static void add_param(struct ask *a, const char *name, int64_t value)
{
    a->params[a->n_params++] =
        (struct as_param){.name = as_str_of(name), .type = AS_PARAM_INT64, .i64 = value};
}

/* Parameters that the handler sees, and those that are for the server. */
static void draw_params(struct ask *a, struct as_rand *r)
{
    a->n_params = 0;
    a->k = chance(r, 250) ? 1 + (int64_t)as_rand_below(r, 2) : 0;
    if (a->k)
        add_param(a, "k", a->k);
    if (a->fate == ASK_FAILS) {
        snprintf(a->word, sizeof(a->word), "told to %u", (unsigned)as_rand_below(r, 4));
        a->params[a->n_params++] = (struct as_param){
            .name = AS_STR("fail"), .type = AS_PARAM_STRING, .str = as_str_of(a->word)};
    }
    if (chance(r, 200))
        add_param(a, "priority", 1 + (int64_t)as_rand_below(r, 3));
    if (chance(r, 30)) {
        a->timeout = (1 + as_rand_below(r, 30)) * AS_MS;
        if (chance(r, 500))
            add_param(a, "timeout", (int64_t)(a->timeout / AS_US));
    }
}

static void draw_fate(struct ask *a, struct as_rand *r)
{
    const struct model *m = &models[a->model];
    uint64_t dice = as_rand_below(r, 1000);

    a->fate = ASK_FINE;
    if (m->is_list && dice < 60)
        a->fate = ASK_BAD;
    else if (dice >= 60 && dice < 80)
        a->fate = ASK_FAILS;
    else if (m->max && dice >= 80 && dice < 85)
        a->fate = ASK_OVER;
}

/* --- as it is sent --- */

static void encode(struct ask *a, enum as_model_call_protocol talk)
{
    struct as_oip_request q = {.head = {.model = as_str_of(ask_model(a)),
                                        .id = as_str_of(a->id),
                                        .outputs = a->tensors,
                                        .n_outputs = a->n_inputs,
                                        .params = a->params,
                                        .n_params = a->n_params}};
    bool binary = talk == AS_MODEL_CALL_HTTP_BINARY;
    struct as_oip_json_request j = {.r = q, .binary = binary, .binary_output = binary};
    uint64_t n;
    char why[256];

    a->message.n = a->path.n = 0;
    if (talk == AS_MODEL_CALL_GRPC) {
        as_buf_str(&a->path, INFER_PATH);
        n = as_oip_request_len(&q);
        as_oip_put_request(as_buf_reserve(&a->message, (size_t)n), &q);
        a->message.n = (size_t)n;
        return;
    }
    as_rest_call_path(&a->path, q.head.model, (struct as_str){NULL, 0}, "/infer");
    if (as_oip_json_request_max(&j, &n, why, sizeof(why)))
        AS_ASSERT(!"a request that can be written");
    a->message.n = as_oip_json_put_request(as_buf_reserve(&a->message, (size_t)n), &j);
    a->json_len = a->message.n;
    for (uint32_t i = 0; binary && i < a->n_inputs; i++)
        as_buf_add(&a->message, a->tensors[i].data, a->tensors[i].nbytes);
}

void ask_draw(struct ask *a, const struct ask_theme *t, struct as_rand *r,
              enum as_model_call_protocol talk, uint64_t number)
{
    a->number = number;
    a->model = t->models[as_rand_below(r, AS_COUNT(t->models))];
    a->timeout = 0;
    a->cancel_after = chance(r, 15) ? as_rand_below(r, 10 * AS_MS) : AS_NEVER;
    draw_fate(a, r);
    snprintf(a->id, sizeof(a->id), "%llu%s", (unsigned long long)number,
             a->fate == ASK_BAD ? "!" : "");
    draw_inputs(a, t, r);
    draw_params(a, r);
    encode(a, talk);
}

void ask_request(const struct ask *a, enum as_model_call_protocol talk,
                 struct as_model_call_request *ret_q)
{
    bool is_told = a->n_params && as_str_eq(a->params[a->n_params - 1].name, AS_STR("timeout"));

    *ret_q = (struct as_model_call_request){.method = AS_STR("POST"),
                                            .path = as_buf_slice(&a->path),
                                            .message = as_buf_slice(&a->message),
                                            .has_binary_data = talk == AS_MODEL_CALL_HTTP_BINARY,
                                            .json_len = a->json_len,
                                            .timeout = is_told ? 0 : a->timeout,
                                            .limit = ANSWER_LIMIT};
}

void ask_fini(struct ask *a)
{
    for (uint32_t i = 0; i < AS_COUNT(a->inputs); i++) {
        as_buf_fini(&a->inputs[i].data);
        as_buf_fini(&a->inputs[i].starts);
    }
    as_buf_fini(&a->path);
    as_buf_fini(&a->message);
}
