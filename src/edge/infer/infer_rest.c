/* POST …/infer: JSON, the binary tensor data extension, raw binary requests. */
#include "edge/infer/infer.h"
#include "edge/infer/infer_json.h"
#include "edge/rest/rest.h"

#define JSON_LENGTH "inference-header-content-length"

/* --- the request --- */

/* Reads how many bytes of the body are JSON. The header is present if binary data follows; 0 is a
 * raw binary request. False: the request was failed. */
static bool read_json_length(struct as_exchange *x, uint64_t *ret_json, bool *ret_raw)
{
    struct as_str s = as_http_head_find(x->head, AS_STR(JSON_LENGTH));

    *ret_json = x->body.len;
    *ret_raw = false;
    if (!s.p)
        return true;
    if (as_str_u64(s, ret_json)) {
        as_exchange_fail(x, AS_EINVALID,
                         "Inference-Header-Content-Length '%.*s' is not a number of bytes",
                         AS_STR_CUT(s, 32));
        return false;
    }
    if (*ret_json > x->body.len) {
        as_exchange_fail(x, AS_EINVALID,
                         "Inference-Header-Content-Length is %lu, the body has %zu bytes",
                         *ret_json, x->body.len);
        return false;
    }
    *ret_raw = *ret_json == 0;
    return true;
}

static void send_reply(struct as_exchange *x, const struct as_oip_response *r);

static void start_call(struct as_exchange *x)
{
    as_infer_begin(x, send_reply);
}

void as_infer_rest(struct as_exchange *x, const struct as_rest_match *m)
{
    uint64_t json;
    bool raw;

    if (as_exchange_find_model_to_infer(x, m->model, m->version) &&
        read_json_length(x, &json, &raw))
        as_infer_json_read(x, raw ? AS_FORM_RAW : AS_FORM_JSON, (size_t)json, start_call);
}

/* --- the answer --- */

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

/* Sends the JSON; binary outputs that were not copied behind it are sent from where they lie. */
static void send_text(struct as_exchange *x, const struct as_infer_json_text *t)
{
    bool any = as_oip_json_any_binary(&x->infer, t->r.n_outputs);
    struct as_http_piece pieces[AS_EXCHANGE_PIECES] = {{t->p, t->n, t->blob}};
    uint32_t n = 1;

    for (uint32_t i = 0; any && !t->copies && i < t->r.n_outputs; i++) {
        const struct as_tensor *o = &t->r.outputs[i];

        if (as_oip_json_is_binary(&x->infer, i) && o->nbytes)
            pieces[n++] = (struct as_http_piece){o->data, o->nbytes, as_infer_owner(x, o)};
    }
    send_pieces(x, pieces, n, any ? t->json : 0);
}

static void send_reply(struct as_exchange *x, const struct as_oip_response *r)
{
    as_infer_json_write(x, r, AS_FORM_JSON, send_text);
}
