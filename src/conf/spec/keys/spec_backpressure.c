/* The key `backpressure_config` of Ray Serve: its JSON, read into numbers. */
#include "conf/spec/spec_internal.h"
#include "wire/json/json_text.h"

#define STATUS_TEXT "status_code is not 503 or 429"
#define RETRY_TEXT  "retry_after_s is not a number from 0 to 86400"

static const char *read_status(struct as_json *j, struct as_json_value *v,
                               struct as_spec_backpressure *b)
{
    uint64_t status;

    if (as_json_u64(j, v, &status) || (status != 429 && status != 503))
        return STATUS_TEXT;
    b->status = (uint32_t)status;
    return NULL;
}

static const char *read_retry(struct as_json *j, struct as_json_value *v,
                              struct as_spec_backpressure *b)
{
    double s;

    if (v->type == AS_JSON_NULL)
        return as_json_skip(j, v) ? RETRY_TEXT : NULL;
    if (as_json_f64(j, v, &s) || !(s >= 0 && s <= (double)AS_SPEC_DAY / AS_SEC))
        return RETRY_TEXT;
    b->has_retry = true;
    b->retry = (as_ns)(s * AS_SEC + 0.5);
    if (!b->retry && s > 0) /* it is rounded up to a second, not down to none */
        b->retry = 1;
    return NULL;
}

static const char *read_members(struct as_json *j, struct as_json_value *root,
                                struct as_spec_backpressure *b)
{
    struct as_json_items it;
    const char *why = NULL;

    if (as_json_items(j, root, &it))
        return "it is not a mapping";
    while (!why && as_json_next(j, &it) > 0) {
        if (as_str_eq(it.key, AS_STR("status_code")))
            why = read_status(j, &it.value, b);
        else if (as_str_eq(it.key, AS_STR("retry_after_s")))
            why = read_retry(j, &it.value, b);
    }
    return why;
}

const char *as_spec_read_backpressure(const char *json, struct as_spec_backpressure *ret_b)
{
    struct as_spec_backpressure b = {0};
    struct as_json_value root;
    struct as_json_text t;
    const char *why = "it is not JSON";

    if (as_json_text_open(&t, as_str_of(json), &root) == 0)
        why = read_members(t.json, &root, &b);
    as_json_text_close(&t);
    if (!why)
        *ret_b = b;
    return why;
}
