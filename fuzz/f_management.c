/* Any bytes as a request of the management service, in both forms: no crash, a refused request has
 * a line with the reason, and an accepted one is as the header promises.
 */
#include "base/err.h"
#include "wire/management/management.h"
#include "wire/name_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_labels(const struct as_tensor_spec *s, bool outputs)
{
    AS_ASSERT(outputs || !s->n_labels);
    AS_ASSERT(s->n_labels <= AS_MANAGEMENT_LABELS);
    for (uint32_t i = 0; i < s->n_labels; i++)
        AS_ASSERT(as_name_check_line(s->labels[i]) && s->labels[i].n <= AS_MANAGEMENT_LABEL);
}

static void check_side(const struct as_tensor_spec *s, uint32_t n, bool outputs)
{
    AS_ASSERT(n <= AS_MANAGEMENT_TENSORS);
    for (uint32_t i = 0; i < n; i++) {
        AS_ASSERT(s[i].name.n && s[i].name.n <= AS_MANAGEMENT_NAME_MAX);
        AS_ASSERT(as_name_check_utf8(s[i].name));
        AS_ASSERT(s[i].dtype > AS_DT_INVALID && s[i].dtype < AS_DT_COUNT);
        AS_ASSERT(s[i].ndim == AS_ANY_RANK || (s[i].ndim && s[i].ndim <= AS_MAX_DIMS));
        for (uint32_t k = 0; s[i].ndim != AS_ANY_RANK && k < s[i].ndim; k++)
            AS_ASSERT(s[i].shape[k] >= -1);
        check_labels(&s[i], outputs);
    }
    AS_ASSERT(!as_name_check_duplicate(s, sizeof(*s), n));
}

static void check(int err, const struct as_management_request *q, const char *why)
{
    if (err) {
        AS_ASSERT(err == AS_EINVALID && why[0]);
        return;
    }
    AS_ASSERT(as_name_check_utf8(q->model) && as_name_check_utf8(q->version) &&
              as_name_check_utf8(q->address) && as_name_check_utf8(q->worker) &&
              as_name_check_utf8(q->platform));
    check_side(q->inputs, q->n_inputs, false);
    check_side(q->outputs, q->n_outputs, true);
    AS_ASSERT(q->n_models <= AS_MANAGEMENT_MODELS);
    for (uint32_t i = 0; i < q->n_models; i++)
        AS_ASSERT(as_name_check_utf8(q->models[i]));
}

/* Fields of a later version after a message: one of each wire type, and nested groups. */
static const uint8_t later[] = "\x78\x01"
                               "\x79"
                               "12345678"
                               "\x7a\x02xy"
                               "\x7d"
                               "1234"
                               "\x7b\x83\x01\x7a\x01\xff\x84\x01\x08\x05\x7c";

/* They do not change what is read. */
static void check_later(enum as_management_rpc rpc, const uint8_t *data, size_t size, int err,
                        const struct as_management_request *q)
{
    struct as_management_request with = {0};
    struct as_buf b = {0};
    char why[128] = "";
    struct as_arena a;

    if (err) /* an incomplete field may be completed by what follows */
        return;
    as_arena_init(&a, NULL, 0);
    if (size)
        as_buf_add(&b, data, size);
    as_buf_add(&b, later, sizeof(later) - 1);
    AS_ASSERT(!as_management_parse(rpc, as_buf_slice(&b), &a, &with, why, sizeof(why)));
    AS_ASSERT(as_str_eq(q->model, with.model) && as_str_eq(q->version, with.version) &&
              as_str_eq(q->address, with.address) && as_str_eq(q->worker, with.worker) &&
              as_str_eq(q->platform, with.platform));
    AS_ASSERT(q->epoch == with.epoch && q->max_ongoing == with.max_ongoing &&
              q->max_queued == with.max_queued && q->idempotent == with.idempotent &&
              q->n_inputs == with.n_inputs && q->n_outputs == with.n_outputs &&
              q->n_models == with.n_models);
    as_buf_fini(&b);
    as_arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_json *j = as_json_new();
    uint8_t *text = calloc(1, size + AS_JSON_PADDING);

    AS_ASSERT(j && text);
    if (size)
        memcpy(text, data, size);
    for (int rpc = 0; rpc < 2 * AS_MANAGEMENT_RPCS; rpc++) {
        enum as_management_rpc call = (enum as_management_rpc)(rpc / 2);
        struct as_management_request q = {0};
        char why[128] = "";
        struct as_arena a;
        int err;

        as_arena_init(&a, NULL, 0);
        if (rpc % 2)
            err = as_management_parse_json(call, (struct as_str){(char *)text, size}, j, &a, &q,
                                           why, sizeof(why));
        else
            err = as_management_parse(call, (struct as_str){(const char *)data, size}, &a, &q, why,
                                      sizeof(why));
        check(err, &q, why);
        if (rpc % 2 == 0)
            check_later(call, data, size, err, &q);
        as_arena_fini(&a);
    }
    free(text);
    as_json_free(j);
    return 0;
}
