/* ModelInfer over gRPC: parses the request message and writes the response message. */
#include "edge/infer/infer.h"

#define WHY_MAX 512

/* Sends prefix, message and tensors as one piece, copied. */
static void send_copied(struct as_exchange *x, const struct as_oip_response *r, size_t len)
{
    struct as_blob *b;
    uint8_t *p = as_exchange_answer_room(x, AS_GRPC_PREFIX + len, &b);
    struct as_http_piece piece = {p, AS_GRPC_PREFIX + len, b};

    if (!p)
        return;
    as_grpc_prefix(p, (uint32_t)len);
    as_oip_put_response(p + AS_GRPC_PREFIX, r);
    x->answer.tensors = b; /* kept until the stream is closed: HTTP/2 refers to it */
    as_exchange_send_message(x, &piece, 1);
}

/* Sends the tensors from where they lie: a head, then for each output a raw head and its bytes. */
static void send_by_reference(struct as_exchange *x, const struct as_oip_response *r, size_t len)
{
    struct as_http_piece pieces[AS_EXCHANGE_PIECES];
    size_t head = as_oip_response_head_len(r);
    uint8_t *p = as_exchange_alloc(
        x, AS_GRPC_PREFIX + head + (size_t)r->n_outputs * AS_OIP_RAW_HEAD_MAX, 1, "the answer");
    uint32_t n = 0;

    if (!p)
        return;
    as_grpc_prefix(p, (uint32_t)len);
    as_oip_put_response_head(p + AS_GRPC_PREFIX, r);
    pieces[n++] = (struct as_http_piece){p, AS_GRPC_PREFIX + head, NULL};
    p += AS_GRPC_PREFIX + head;
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        size_t k = as_oip_put_raw_head(p, r->outputs[i].nbytes);

        pieces[n++] = (struct as_http_piece){p, k, NULL};
        pieces[n++] = (struct as_http_piece){r->outputs[i].data, r->outputs[i].nbytes,
                                             as_infer_owner(x, &r->outputs[i])};
        p += k;
    }
    as_exchange_send_message(x, pieces, n);
}

static void send_message(struct as_exchange *x, const struct as_oip_response *r)
{
    uint64_t len = as_oip_response_len(r);

    if (len > INT32_MAX)
        as_exchange_fail(x, AS_ETOOBIG, "the answer is over 2147483647 bytes");
    else if (!x->call.outcome.result.blob || 1 + 2 * r->n_outputs > AS_EXCHANGE_PIECES)
        send_copied(x, r, (size_t)len);
    else
        send_by_reference(x, r, (size_t)len);
}

bool as_infer_grpc_parse(struct as_exchange *x)
{
    char why[WHY_MAX];
    int err;

    why[0] = 0;
    err = as_oip_parse_infer(x->body.p, x->body.len, &x->arena, &x->infer, why, sizeof(why));
    return as_exchange_is_parsed(x, err, why[0] ? why : "malformed ModelInferRequest") &&
           as_infer_charge(x);
}

void as_infer_grpc(struct as_exchange *x)
{
    if (as_infer_grpc_parse(x))
        as_infer_begin(x, send_message);
}
