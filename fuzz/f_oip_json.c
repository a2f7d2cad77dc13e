/* fuzz/f_oip_json.c — any bytes as REST bodies: infer with binary data, raw, generate, a response.
 *
 * The first two bytes are the length of the binary data at the end. An accepted request is as
 * wire/oip/oip_json.h promises, fits a frame of the link, and written as a response it parses to
 * the same.
 */
#include "wire/oip/oip_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct as_json *reader;
static volatile unsigned sink;

static void touch(const void *p, size_t n)
{
    const uint8_t *b = p;
    unsigned sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += b[i];
    sink = sum;
}

static void check_inputs(const struct as_oip_infer *r)
{
    for (uint32_t i = 0; i < r->n_inputs; i++) {
        const struct as_tensor *t = &r->inputs[i];
        uint64_t n;

        AS_ASSERT(t->name.n && t->dtype != AS_DT_INVALID);
        AS_ASSERT(as_tensor_elements(t->dtype, t->shape, t->ndim, &n) == 0);
        if (t->dtype == AS_DT_BYTES)
            AS_ASSERT(as_tensor_check_bytes(t->data, t->nbytes, n) == 0);
        else
            AS_ASSERT(t->nbytes == n * as_dtype_size(t->dtype));
        touch(t->data, t->nbytes);
    }
}

/* Inputs in shared memory have a size but no data: they cannot be checked here. */
static bool has_ranges(const struct as_oip_infer *r)
{
    for (uint32_t i = 0; r->ranges && i < r->n_inputs; i++) {
        if (!r->ranges[i].region.n)
            continue;
        AS_ASSERT(!r->inputs[i].data && r->inputs[i].nbytes == r->ranges[i].size);
        touch(r->ranges[i].region.p, r->ranges[i].region.n);
    }
    return r->ranges;
}

static void check_link(const struct as_oip_infer *r)
{
    struct as_msg in = {.id = r->id,
                        .tensors = r->inputs,
                        .params = r->params,
                        .n_tensors = r->n_inputs,
                        .n_params = r->n_params};
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR, .tensor_params = r->tensor_params};
    struct as_outq q;

    as_outq_init(&q);
    AS_ASSERT(as_frame_put_msg(&q, AS_FRAME_OPEN, 1, &fixed, &in, NULL) == 0);
    as_outq_fini(&q);
}

static void check_answer(const struct as_oip_infer *r, struct as_arena *a)
{
    struct as_oip_response out = {.model = AS_STR("m"),
                                  .version = AS_STR("1"),
                                  .id = r->id,
                                  .outputs = r->inputs,
                                  .n_outputs = r->n_inputs,
                                  .params = r->params,
                                  .n_params = r->n_params,
                                  .tensor_params = r->tensor_params};
    struct as_oip_infer all = {0};
    struct as_oip_response back;
    struct as_blob *blob = NULL;
    char why[128];
    uint64_t max;
    uint8_t *text;
    size_t n;

    if (as_oip_json_response_max(&out, &all, &max, why, sizeof(why)))
        return;
    text = calloc(1, max + AS_JSON_PADDING);
    n = as_oip_json_put_response(text, &out, &all);
    AS_ASSERT(n <= max);
    AS_ASSERT(as_oip_json_parse_response(reader, text, n, n, a, &back, &blob, why, sizeof(why)) ==
              0);
    free(text);
    as_blob_unref(blob);
    AS_ASSERT(back.n_outputs == r->n_inputs && back.n_params == r->n_params);
    AS_ASSERT(back.tensor_params.n == r->tensor_params.n);
    for (uint32_t i = 0; i < r->n_inputs; i++)
        AS_ASSERT(back.outputs[i].nbytes == r->inputs[i].nbytes);
}

static void accept(int err, const char *why, struct as_oip_infer *r, struct as_arena *a)
{
    if (err) {
        AS_ASSERT(err == AS_EINVALID || err == AS_ENOMEM);
        AS_ASSERT(strlen(why) > 0);
        return;
    }
    if (!has_ranges(r)) {
        check_inputs(r);
        check_link(r);
        check_answer(r, a);
    }
    as_blob_unref(r->blob);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t any[] = {-1}, pair[] = {-1, 2}, wild[] = {-1, -1}, one[] = {1};
    static const struct as_tensor_spec specs[] = {
        {{"text_input", 10}, AS_DT_BYTES, 1, one, NULL, 0},
        {{"x", 1}, AS_DT_FP32, 2, pair, NULL, 0},
        {{"y", 1}, AS_DT_INT64, 2, wild, NULL, 0},
        {{"z", 1}, AS_DT_BOOL, AS_ANY_RANK, NULL, NULL, 0},
        {{"s", 1}, AS_DT_BYTES, 1, any, NULL, 0},
    };
    struct as_oip_response answer;
    struct as_blob *blob = NULL;
    struct as_oip_infer r;
    struct as_str text;
    struct as_arena a;
    size_t n, binary;
    char why[128];
    uint8_t *p;

    if (size < 2)
        return 0;
    if (!reader)
        reader = as_json_new();
    n = size - 2;
    binary = AS_MIN((size_t)(data[0] | data[1] << 8), n);
    p = malloc(n + AS_JSON_PADDING);
    memcpy(p, data + 2, n);
    memset(p + n, data[0], AS_JSON_PADDING);
    as_arena_init(&a, NULL, 0);
    accept(as_oip_json_parse_infer(reader, p, n - binary, n, &a, &r, why, sizeof(why)), why, &r,
           &a);
    accept(
        as_oip_json_parse_generate(reader, p, n, specs, AS_COUNT(specs), &a, &r, why, sizeof(why)),
        why, &r, &a);
    for (uint32_t i = 0; i < AS_COUNT(specs); i++)
        accept(as_oip_json_parse_raw(&specs[i], 1, p, n, &a, &r, why, sizeof(why)), why, &r, &a);
    if (as_oip_json_parse_response(reader, p, n - binary, n, &a, &answer, &blob, why,
                                   sizeof(why)) == 0)
        as_blob_unref(blob);
    as_oip_json_parse_error(reader, p, n, &a, &text);
    as_arena_fini(&a);
    free(p);
    return 0;
}
