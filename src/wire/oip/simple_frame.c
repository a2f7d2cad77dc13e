#include "wire/oip/simple_frame.h"

#include "base/be.h"

#include <stdio.h>

int as_simple_frame_put(struct as_outq *q, const struct as_oip_request *r, struct as_blob *owner)
{
    uint64_t len = as_oip_request_len(r);
    size_t head = as_oip_request_head_len(r);
    uint8_t raw[AS_OIP_RAW_HEAD_MAX], *p;

    if (len > INT32_MAX)
        return AS_ETOOBIG;
    p = as_outq_alloc(q, AS_SIMPLE_FRAME_HEAD + head);
    as_be_put32(p, (uint32_t)len);
    as_oip_put_request_head(p + AS_SIMPLE_FRAME_HEAD, r);
    for (uint32_t i = 0; i < r->head.n_outputs; i++) {
        const struct as_tensor *t = &r->head.outputs[i];

        as_outq_copy(q, raw, as_oip_put_request_raw_head(raw, t->nbytes));
        if (owner && t->nbytes > AS_COPY_MAX)
            as_outq_ref(q, owner, t->data, t->nbytes);
        else
            as_outq_copy(q, t->data, t->nbytes);
    }
    return 0;
}

/* --- receiving --- */

static struct as_str whole_message(const struct as_simple_frame_rx *rx)
{
    return (struct as_str){(const char *)rx->blob->data, rx->n};
}

/* Makes room for n more bytes. The blob grows in steps, because the sender announces a length
 * before it sends anything. */
static int reserve(struct as_simple_frame_rx *rx, size_t n)
{
    size_t need = rx->n_received + n;

    return need > as_blob_grow_at(rx->blob, rx->n)
               ? as_blob_grow(&rx->blob, as_blob_grow_to(need, rx->n))
               : 0;
}

int as_simple_frame_receive(struct as_simple_frame_rx *rx, const uint8_t *p, size_t n, uint64_t max,
                            struct as_str *ret_message, size_t *ret_rest)
{
    size_t k = AS_MIN(n, (size_t)AS_SIMPLE_FRAME_HEAD - rx->n_head);
    int err;

    if (!rx->blob) {
        memcpy(rx->head + rx->n_head, p, k);
        rx->n_head += (uint32_t)k;
        p += k;
        n -= k;
        if (rx->n_head < AS_SIMPLE_FRAME_HEAD)
            return 0;
        rx->n = as_be_get32(rx->head);
        if (rx->n == 0)
            return AS_EPROTO;
        if (rx->n > max)
            return AS_ETOOBIG;
        if (n >= rx->n) {
            *ret_message = (struct as_str){(const char *)p, rx->n};
            *ret_rest = n - rx->n;
            return 1;
        }
        rx->n_received = 0;
        err = as_blob_new_growing(rx->payer, rx->n, &rx->blob);
        if (err)
            return err;
    }
    k = AS_MIN(n, rx->n - rx->n_received);
    err = k ? reserve(rx, k) : 0;
    if (err)
        return err;
    if (k)
        memcpy(rx->blob->data + rx->n_received, p, k);
    *ret_rest = n - k;
    return as_simple_frame_received(rx, k, ret_message);
}

uint8_t *as_simple_frame_buffer(const struct as_simple_frame_rx *rx, size_t *ret_n)
{
    if (!rx->blob)
        return NULL;
    *ret_n = as_blob_grow_at(rx->blob, rx->n) - rx->n_received;
    return rx->blob->data + rx->n_received;
}

int as_simple_frame_received(struct as_simple_frame_rx *rx, size_t n, struct as_str *ret_message)
{
    AS_ASSERT(n <= rx->n - rx->n_received);
    rx->n_received += n;
    if (rx->n_received < rx->n) /* there must be a place for the next byte */
        return reserve(rx, 1);
    *ret_message = whole_message(rx);
    return 1;
}

void as_simple_frame_reset(struct as_simple_frame_rx *rx)
{
    as_blob_unref(rx->blob);
    *rx = (struct as_simple_frame_rx){0};
}

/* --- parsing --- */

static const struct as_param *find_param(const struct as_oip_response *r, struct as_str name)
{
    for (uint32_t i = 0; i < r->n_params; i++) {
        if (as_str_eq(r->params[i].name, name))
            return &r->params[i];
    }
    return NULL;
}

static int reject(char *why, size_t cap, const char *text)
{
    snprintf(why, cap, "%s", text);
    return AS_EPROTO;
}

static int status_of(struct as_str name)
{
    char z[32];

    if (name.n >= sizeof(z) || memchr(name.p, 0, name.n))
        return -1;
    memcpy(z, name.p, name.n);
    z[name.n] = 0;
    return as_grpc_status_of(z);
}

static int read_error(const struct as_param *error, struct as_simple_answer *a, char *why,
                      size_t cap)
{
    const struct as_param *text = find_param(&a->r, AS_STR("anyserve_error_message"));
    int status;

    if (a->r.n_outputs)
        return reject(why, cap, "anyserve_error is set, but the answer has outputs");
    if (error->type != AS_PARAM_STRING || (text && text->type != AS_PARAM_STRING))
        return reject(why, cap,
                      "anyserve_error and anyserve_error_message must be string parameters");
    status = error->str.n ? status_of(error->str) : -1;
    if (status <= 0) {
        snprintf(
            why, cap,
            "anyserve_error '%.*s' is not a gRPC status name of an error (INTERNAL, UNAVAILABLE …)",
            AS_STR_CUT(error->str, 64));
        return AS_EPROTO;
    }
    a->status = (uint32_t)status;
    if (text)
        a->message = text->str;
    return 0;
}

int as_simple_frame_parse(struct as_str message, struct as_str id, struct as_arena *arena,
                          struct as_simple_answer *ret_a, char *why, size_t cap)
{
    struct as_simple_answer a = {0};
    const struct as_param *error;
    int err = as_oip_parse_response((const uint8_t *)message.p, message.n, arena, &a.r, why, cap);

    if (err)
        return err == AS_ENOMEM ? err : AS_EPROTO;
    if (a.r.has_duplicates)
        return reject(why, cap,
                      "its name, version or id is given twice, as in two answers run into one");
    a.has_id = a.r.id.n > 0;
    if (a.has_id && !as_str_eq(a.r.id, id))
        return reject(why, cap, "the id is that of another request");
    error = find_param(&a.r, AS_STR("anyserve_error"));
    err = error ? read_error(error, &a, why, cap) : 0;
    if (err)
        return err;
    *ret_a = a;
    return 0;
}
