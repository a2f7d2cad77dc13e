/* The verdict on an answer: is it that of this request, and whole? */
#include "ask.h"

#include <string.h>

enum { DEADLINE_EXCEEDED = 4 };

static bool wrong(struct as_buf *why, const char *what)
{
    as_buf_str(why, what);
    return false;
}

/* --- tensors --- */

/* The i-th element of what was sent, as it travels. */
static struct as_str element(const struct ask *a, uint32_t at, uint64_t i)
{
    const struct ask_input *in = &a->inputs[at];
    size_t size = as_dtype_size(a->tensors[at].dtype);
    const char *p = (const char *)in->data.p;
    uint32_t start, len;

    if (size)
        return (struct as_str){p + i * size, size};
    memcpy(&start, in->starts.p + 4 * i, 4);
    memcpy(&len, p + start, 4);
    return (struct as_str){p + start, 4 + (size_t)len};
}

/* Takes the element off the answer's bytes; false: they are not these. */
static bool next_is(struct as_str *rest, struct as_str want)
{
    if (rest->n < want.n || memcmp(rest->p, want.p, want.n) != 0)
        return false;
    rest->p += want.n;
    rest->n -= want.n;
    return true;
}

static const struct as_tensor *output(const struct as_oip_response *r, const char *name)
{
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        if (as_str_eq(r->outputs[i].name, as_str_of(name)))
            return &r->outputs[i];
    }
    return NULL;
}

/* Input `at` with its last dimension backwards, if it has one beside the items. */
static bool is_reversed(const struct ask *a, uint32_t at, const struct as_tensor *t)
{
    const struct as_tensor *x = &a->tensors[at];
    uint64_t row = x->ndim > 1 ? (uint64_t)x->shape[x->ndim - 1] : 1;
    struct as_str rest;

    if (!t || t->dtype != x->dtype || t->ndim != x->ndim ||
        memcmp(t->shape, x->shape, x->ndim * sizeof(x->shape[0])) != 0)
        return false;
    rest = (struct as_str){(const char *)t->data, t->nbytes};
    for (uint64_t i = 0; i < a->inputs[at].n; i++) {
        if (!next_is(&rest, element(a, at, i - i % row + (row - 1 - i % row))))
            return false;
    }
    return rest.n == 0;
}

/* The first element of each item of x: [items, 1]. */
static bool is_first(const struct ask *a, const struct as_tensor *t)
{
    uint64_t per_item = a->inputs[0].n / a->items;
    struct as_str rest;

    if (!t || t->dtype != a->tensors[0].dtype || t->ndim != 2 || t->shape[0] != a->items ||
        t->shape[1] != 1)
        return false;
    rest = (struct as_str){(const char *)t->data, t->nbytes};
    for (uint64_t i = 0; i < a->items; i++) {
        if (!next_is(&rest, element(a, 0, i * per_item)))
            return false;
    }
    return rest.n == 0;
}

/* --- the answer --- */

/* What it repeats: `k` of the parameters; where each is answered by itself, who it was. */
static bool are_own_params(const struct ask *a, const struct as_oip_response *r)
{
    int64_t k = 0;

    for (uint32_t i = 0; i < r->n_params; i++) {
        const struct as_param *p = &r->params[i];

        if (as_str_eq(p->name, AS_STR("k")) && p->type == AS_PARAM_INT64)
            k = p->i64;
        else if (!as_str_eq(p->name, AS_STR("who")) || p->type != AS_PARAM_STRING ||
                 !as_str_eq(p->str, as_str_of(a->id)))
            return false;
    }
    return k == a->k;
}

static bool judge_answer(const struct ask *a, const struct as_oip_response *r, struct as_buf *why)
{
    if (!as_str_eq(r->id, as_str_of(a->id)))
        return wrong(why, "it has another id");
    if (!as_str_eq(r->model, as_str_of(ask_model(a))))
        return wrong(why, "it is another model's");
    if (!are_own_params(a, r))
        return wrong(why, "it has other parameters");
    if (r->n_outputs != 1 + a->n_inputs)
        return wrong(why, "it has another number of outputs");
    if (!is_reversed(a, 0, output(r, "back")))
        return wrong(why, "output 'back' is another");
    if (!is_first(a, output(r, "first")))
        return wrong(why, "output 'first' is another");
    if (a->n_inputs > 1 && !is_reversed(a, 1, output(r, "other")))
        return wrong(why, "output 'other' is another");
    return true;
}

static bool judge_ok(const struct ask *a, struct as_model_call *call, struct as_buf *why)
{
    struct as_oip_response r;
    struct as_blob *blob;
    struct as_arena arena;
    bool ok;

    as_arena_init(&arena, NULL, 0);
    ok = as_query_parse_response(call, &arena, &r, &blob, why) == 0 && judge_answer(a, &r, why);
    as_blob_unref(blob);
    as_arena_fini(&arena);
    return ok;
}

/* --- errors --- */

static bool says(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);

    return n >= k && strcmp(text + n - k, end) == 0;
}

/* OUT_OF_RANGE over gRPC; what became of it over HTTP is told by the text. */
static bool is_own_error(const struct ask *a, const char *text)
{
    char own[64];

    switch (a->fate) {
    case ASK_BAD:
        snprintf(own, sizeof(own), "bad %s", a->id);
        return ends_with(text, own);
    case ASK_FAILS:
        return ends_with(text, a->word);
    case ASK_OVER:
        snprintf(own, sizeof(own), "input 'x': %u items, model '%s' takes 1 to %u", a->items,
                 ask_model(a), a->items - 1);
        return says(text, own);
    default:
        return false;
    }
}

bool ask_judge(const struct ask *a, struct as_model_call *call, uint32_t status, struct as_buf *why)
{
    const char *text = as_model_call_text(call);

    if (status == DEADLINE_EXCEEDED && a->timeout)
        return true;
    if (status ? is_own_error(a, text) : a->fate == ASK_FINE && judge_ok(a, call, why))
        return true;
    if (!why->n)
        as_buf_printf(why, "status %u (%s)", status, status ? text : "an answer");
    return false;
}
