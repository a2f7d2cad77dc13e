/* A request to a model over plain HTTP: JSON, the binary tensor data extension, raw binary. */
#include "edge/infer.h"
#include "edge/rest.h"
#include "wire/oip_json.h"

#define WHY_MAX     512
#define JSON_LENGTH "inference-header-content-length"

/* --- the request --- */

/* How much of the body is JSON. The header says so where binary data follows, and 0 for a raw
 * request. False: answered. */
static bool split(struct as_exchange *x, uint64_t *ret_json, bool *ret_raw)
{
    struct as_str s = as_rest_header(x, JSON_LENGTH);

    *ret_json = x->body_len;
    *ret_raw = false;
    if (!s.p)
        return true;
    if (as_str_u64(s, ret_json)) {
        as_exchange_fail(x, AS_EINVALID, "Inference-Header-Content-Length '%.*s' is no length",
                         (int)AS_MIN(s.n, (size_t)32), s.p);
        return false;
    }
    if (*ret_json > x->body_len) {
        as_exchange_fail(x, AS_EINVALID,
                         "Inference-Header-Content-Length is %lu, the body has %zu bytes",
                         *ret_json, x->body_len);
        return false;
    }
    *ret_raw = *ret_json == 0;
    return true;
}

struct as_json *as_rest_reader(struct as_exchange *x)
{
    if (!x->edge->json)
        x->edge->json = as_json_new();
    if (!x->edge->json)
        as_exchange_fail(x, AS_ENOMEM, "no memory to read JSON");
    return x->edge->json;
}

static void send_reply(struct as_exchange *x, const struct as_oip_response *r);

void as_infer_rest(struct as_exchange *x, const struct as_rest_match *m)
{
    struct as_json *j = as_rest_reader(x);
    char why[WHY_MAX] = "";
    uint64_t json;
    bool raw;
    int err;

    if (!j || !as_exchange_find(x, m->model, m->version) || !split(x, &json, &raw))
        return;
    if (raw)
        err = as_oip_json_parse_raw(x->model->inputs, x->model->n_inputs, x->body, x->body_len,
                                    &x->arena, &x->infer, why, sizeof(why));
    else
        err = as_oip_json_parse_infer(j, x->body, (size_t)json, x->body_len, &x->arena, &x->infer,
                                      why, sizeof(why));
    if (err) {
        as_exchange_fail(x, err, "%s", why[0] ? why : as_err_text(err));
        return;
    }
    x->inputs = x->infer.blob;
    x->infer.model = x->model->name;
    x->infer.version = x->model->version;
    if (as_infer_charge(x))
        as_infer_begin(x, send_reply);
}

/* --- the answer --- */

/* The outputs that travel as bytes. */
static uint64_t binary_len(const struct as_exchange *x, const struct as_oip_response *r)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < r->n_outputs; i++)
        n += as_oip_json_binary(&x->infer, i) ? r->outputs[i].nbytes : 0;
    return n;
}

/* Memory for `n` bytes that go out: of the arena, or a blob of the exchange's. */
static uint8_t *room_for(struct as_exchange *x, size_t n)
{
    if (n <= AS_COPY_MAX)
        return as_arena_alloc(&x->arena, n, 1);
    x->text = as_blob_new(n);
    return x->text ? x->text->data : NULL;
}

static void send_pieces(struct as_exchange *x, const struct as_http_piece *pieces, uint32_t n,
                        size_t json)
{
    char number[24];
    struct as_http_header h = {AS_STR(JSON_LENGTH),
                               {number, (size_t)snprintf(number, sizeof(number), "%zu", json)}};
    struct as_rest_reply reply = {.status = 200, .body = pieces, .n_body = n};

    if (json) {
        reply.content_type = AS_STR("application/octet-stream");
        reply.extra = &h;
        reply.n_extra = 1;
    }
    as_rest_send(x, &reply);
}

/* `max`: bytes that the JSON may take. Binary outputs are sent from where they lie, when that is
 * not the arena, and copied behind the JSON else. */
static void send_json(struct as_exchange *x, const struct as_oip_response *r, size_t max)
{
    bool any = as_oip_json_any_binary(&x->infer, r->n_outputs);
    bool refer = x->call.result_blob && r->n_outputs < AS_EXCHANGE_PIECES;
    uint8_t *p = room_for(x, max + (any && !refer ? (size_t)binary_len(x, r) : 0));
    struct as_http_piece pieces[AS_EXCHANGE_PIECES];
    uint32_t n = 1;
    size_t json;

    if (!p) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the answer");
        return;
    }
    json = as_oip_json_put_response(p, r, &x->infer);
    pieces[0] = (struct as_http_piece){p, json, x->text};
    for (uint32_t i = 0; any && i < r->n_outputs; i++) {
        const struct as_tensor *t = &r->outputs[i];

        if (!as_oip_json_binary(&x->infer, i) || !t->nbytes)
            continue;
        if (refer) {
            pieces[n++] = (struct as_http_piece){t->data, t->nbytes, as_infer_owner(x, t)};
        } else {
            memcpy(p + pieces[0].n, t->data, t->nbytes);
            pieces[0].n += t->nbytes;
        }
    }
    send_pieces(x, pieces, n, any ? json : 0);
}

static void send_reply(struct as_exchange *x, const struct as_oip_response *r)
{
    char why[WHY_MAX] = "";
    uint64_t max;
    int err = as_oip_json_response_max(r, &x->infer, &max, why, sizeof(why));

    if (err)
        as_exchange_fail(x, err, "%s", why);
    else if (max > INT32_MAX)
        as_exchange_fail(x, AS_EINVALID,
                         "the answer is over 2147483647 bytes as JSON: ask for "
                         "binary data");
    else
        send_json(x, r, (size_t)max);
}
