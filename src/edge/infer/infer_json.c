#include "edge/infer/infer_json.h"

#include "edge/infer/infer.h"
#include "edge/rest/rest.h"

#define WHY_MAX 512
/* Bytes of tensors whose JSON has about AS_OFFLOAD_MIN bytes. */
#define WRITE_MIN (AS_OFFLOAD_MIN / 4)

/* --- parsing --- */

struct read_job {
    struct as_offload offload;
    enum as_infer_json_form form;
    size_t json;
    struct as_json *reader;
    void (*then)(struct as_exchange *x);
    int err;
    char why[WHY_MAX];
};

static void parse_body(struct read_job *r)
{
    struct as_exchange *x = r->offload.x;
    const struct as_model *m = x->model;

    r->why[0] = 0;
    if (r->form == AS_FORM_RAW)
        r->err = as_oip_json_parse_raw(m->inputs, m->n_inputs, x->body.p, x->body.len, &x->arena,
                                       &x->infer, r->why, WHY_MAX);
    else if (r->form == AS_FORM_GENERATE)
        r->err = as_oip_json_parse_generate(r->reader, x->body.p, x->body.len, m->inputs,
                                            m->n_inputs, &x->arena, &x->infer, r->why, WHY_MAX);
    else
        r->err = as_oip_json_parse_infer(r->reader, x->body.p, r->json, x->body.len, &x->arena,
                                         &x->infer, r->why, WHY_MAX);
    if (!r->err) /* owned by the exchange from here on */
        x->body.inputs = x->infer.blob;
}

static void finish_reading(struct read_job *r)
{
    struct as_exchange *x = r->offload.x;

    if (r->err) {
        as_exchange_fail(x, r->err, "%s", r->why[0] ? r->why : as_err_text(r->err));
        return;
    }
    x->infer.model = x->model->name;
    x->infer.version = x->model->version;
    if (as_infer_charge(x))
        r->then(x);
}

static void parse_on_helper(struct as_offload *a)
{
    parse_body(AS_CONTAINER(a, struct read_job, offload));
}

static void on_parsed(struct as_offload *a)
{
    finish_reading(AS_CONTAINER(a, struct read_job, offload));
}

/* Bytes that parsing has to read. Of raw binary requests only BYTES inputs are parsed. */
static size_t bytes_to_parse(const struct as_exchange *x, enum as_infer_json_form form, size_t json)
{
    if (form != AS_FORM_RAW)
        return json;
    return x->model->n_inputs == 1 && x->model->inputs->dtype == AS_DT_BYTES ? x->body.len : 0;
}

void as_infer_json_read(struct as_exchange *x, enum as_infer_json_form form, size_t json,
                        void (*then)(struct as_exchange *x))
{
    bool large = bytes_to_parse(x, form, json) > AS_OFFLOAD_MIN;
    struct read_job now, *r = &now;

    if (large && !(r = as_exchange_alloc(x, sizeof(*r), 16, "the request")))
        return;
    r->offload.x = x;
    r->form = form;
    r->json = json;
    r->then = then;
    r->reader = as_rest_json_reader(x, large);
    if (!r->reader)
        return;
    if (!large) {
        parse_body(r);
        finish_reading(r);
        return;
    }
    r->offload.work = parse_on_helper;
    r->offload.done = on_parsed;
    as_offload_start(&r->offload);
}

/* --- writing --- */

struct write_job {
    struct as_offload offload;
    struct as_infer_json_text text;
    void (*then)(struct as_exchange *x, const struct as_infer_json_text *t);
    size_t room; /* most bytes of the text */
    int err;
    char why[WHY_MAX];
};

/* Bytes of the outputs that are sent as binary data. */
static uint64_t binary_len(const struct as_exchange *x, const struct as_oip_response *r)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < r->n_outputs; i++)
        n += as_oip_json_is_binary(&x->infer, i) ? r->outputs[i].nbytes : 0;
    return n;
}

/* Bytes of the outputs that are written as JSON. */
static uint64_t text_len(const struct as_exchange *x, const struct as_infer_json_text *t)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < t->r.n_outputs; i++)
        n += t->form == AS_FORM_JSON && as_oip_json_is_binary(&x->infer, i)
                 ? 0
                 : t->r.outputs[i].nbytes;
    return n;
}

int as_infer_json_max(const struct as_oip_response *r, const struct as_oip_infer *q,
                      enum as_infer_json_form form, uint64_t *ret_max, char *why, size_t n_why)
{
    int err = form == AS_FORM_GENERATE ? as_oip_json_generate_max(r, ret_max, why, n_why)
                                       : as_oip_json_response_max(r, q, ret_max, why, n_why);

    if (err || *ret_max <= INT32_MAX)
        return err;
    snprintf(why, n_why, "the answer is over 2147483647 bytes as JSON%s",
             form == AS_FORM_GENERATE ? "" : ": ask for binary data");
    return AS_EINVALID;
}

static void print_response(struct write_job *w)
{
    struct as_infer_json_text *t = &w->text;
    struct as_exchange *x = w->offload.x;
    uint64_t max, room;

    w->why[0] = 0;
    w->err = as_infer_json_max(&t->r, &x->infer, t->form, &max, w->why, WHY_MAX);
    if (w->err)
        return;
    room = max + (t->copies ? binary_len(x, &t->r) : 0);
    if (room > AS_COPY_MAX)
        w->err = as_blob_new_charged(x->budget.answers, (size_t)room, &t->blob);
    w->room = (size_t)room;
    x->answer.text = t->blob;
    t->p = t->blob               ? t->blob->data
           : room <= AS_COPY_MAX ? as_arena_alloc(&x->arena, (size_t)room, 1)
                                 : NULL;
    if (!t->p) {
        w->err = w->err ? w->err : AS_ENOMEM;
        return;
    }
    t->json = t->form == AS_FORM_GENERATE ? as_oip_json_put_generate(t->p, &t->r)
                                          : as_oip_json_put_response(t->p, &t->r, &x->infer);
    t->n = t->json;
    for (uint32_t i = 0; t->copies && i < t->r.n_outputs; i++) {
        const struct as_tensor *o = &t->r.outputs[i];

        if (!as_oip_json_is_binary(&x->infer, i) || !o->nbytes)
            continue;
        memcpy(t->p + t->n, o->data, o->nbytes);
        t->n += o->nbytes;
    }
    if (t->blob) /* it was sized for the longest possible text */
        as_blob_truncate(t->blob, t->n);
}

static void finish_writing(struct write_job *w)
{
    struct as_exchange *x = w->offload.x;

    if (w->err && w->why[0])
        as_exchange_fail(x, w->err, "%s", w->why);
    else if (w->err)
        as_exchange_fail_answer(x, w->err, w->room);
    else
        w->then(x, &w->text);
}

static void print_on_helper(struct as_offload *a)
{
    print_response(AS_CONTAINER(a, struct write_job, offload));
}

static void on_printed(struct as_offload *a)
{
    finish_writing(AS_CONTAINER(a, struct write_job, offload));
}

static void init_write_job(struct write_job *w, struct as_exchange *x,
                           const struct as_infer_json_text *t,
                           void (*then)(struct as_exchange *x, const struct as_infer_json_text *t))
{
    w->offload.x = x;
    w->text = *t;
    w->then = then;
    w->room = 0;
}

void as_infer_json_write(struct as_exchange *x, const struct as_oip_response *r,
                         enum as_infer_json_form form,
                         void (*then)(struct as_exchange *x, const struct as_infer_json_text *t))
{
    struct as_infer_json_text t = {.r = *r, .form = form};
    struct write_job now, *w;

    t.copies = form == AS_FORM_JSON && as_oip_json_any_binary(&x->infer, r->n_outputs) &&
               (!x->call.outcome.result.blob || r->n_outputs >= AS_EXCHANGE_PIECES);
    /* tensors outside of a blob are small, and only valid in this turn */
    w = x->call.outcome.result.blob && text_len(x, &t) > WRITE_MIN
            ? as_arena_alloc(&x->arena, sizeof(*w), 16)
            : NULL;
    if (!w) {
        init_write_job(&now, x, &t, then);
        print_response(&now);
        finish_writing(&now);
        return;
    }
    init_write_job(w, x, &t, then);
    w->offload.work = print_on_helper;
    w->offload.done = on_printed;
    as_offload_start(&w->offload);
}
