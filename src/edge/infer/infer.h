/* edge/infer/infer.h — one request to a model, by any protocol.
 *
 * The protocol fills x->infer: names, tensors (in x->body.p, the arena, or a blob), parameters, and
 * the requested outputs. infer.c finds the model, checks the inputs against its signature, copies
 * the client's metadata and submits a call to the fleet. The call ends with an error, or with a
 * response that the protocol's `send` writes. Protocols: infer_grpc.c (ModelInfer), infer_rest.c
 * (REST), infer_generate.c (generate), infer_stream.c (ModelStreamInfer). Thread: the loop's.
 */
#ifndef AS_EDGE_INFER_H
#define AS_EDGE_INFER_H

#include "edge/exchange/exchange.h"

/* Writes the answer. r has the requested outputs in the requested order; their bytes lie in
 * x->call.outcome.result.blob, or in the arena if that is NULL. r is valid during the call. */
typedef void (*as_infer_send)(struct as_exchange *x, const struct as_oip_response *r);

/* Starts the request. The model is x->model, or the one that x->infer names if that is NULL. */
void as_infer_begin(struct as_exchange *x, as_infer_send send);

static inline bool as_infer_lies_in(const struct as_blob *b, const struct as_tensor *t)
{
    return t->data >= b->data && t->data < b->data + b->n;
}
/* True: the bytes of all n tensors lie in b. */
static inline bool as_infer_all_lie_in(const struct as_blob *b, const struct as_tensor *t,
                                       uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (t[i].nbytes && !as_infer_lies_in(b, &t[i]))
            return false;
    }
    return true;
}

/* The blob that holds an output's bytes; NULL: they lie in the exchange. */
static inline struct as_blob *as_infer_owner(const struct as_exchange *x, const struct as_tensor *t)
{
    struct as_blob *b =
        x->call.outcome.result.blob ? x->call.outcome.result.blob : x->answer.tensors;

    return b && as_infer_lies_in(b, t) ? b : NULL;
}

/* Fills the parts of the call that depend on the model; its inputs are in x->infer. on_part, and
 * whether more inputs follow: of a decoupled model. False: the request was failed. */
bool as_infer_set_model(struct as_exchange *x, void (*on_part)(struct as_call *, struct as_part *),
                        bool takes_inputs);

/* Charges the memory of values that were converted while the request was parsed. False: the request
 * was failed. */
bool as_infer_charge(struct as_exchange *x);

void as_infer_rest(struct as_exchange *x, const struct as_rest_match *m); /* POST …/infer */
/* For protocols that can carry several responses to a request. */
struct as_infer_parts {
    /* Writes one response. Large outputs lie in `blob` if it is not NULL; take a reference to use
     * them later. False: the client has no room now; call as_infer_credit when it has. */
    bool (*part)(struct as_exchange *x, const struct as_oip_response *r, struct as_blob *blob);
    void (*end)(struct as_exchange *x); /* after the last response */
};
/* As as_infer_begin, and allows decoupled models. */
void as_infer_begin_parts(struct as_exchange *x, as_infer_send send,
                          const struct as_infer_parts *parts);
void as_infer_credit(struct as_exchange *x); /* the client has room again */
/* Sends x as one more input of the call `to`, whose model streams its inputs. `released` is called
 * with the owner x when it was sent, or was too late. False: x was failed. */
bool as_infer_input(struct as_exchange *x, struct as_exchange *to,
                    void (*released)(struct as_input *in));

/* Handlers of edge/rest/rest.h. generate: the model must give exactly one response.
 * generate_stream: each response is a server-sent event, and so is an error after the first one. */
void as_infer_generate(struct as_exchange *x, const struct as_rest_match *m);
void as_infer_generate_stream(struct as_exchange *x, const struct as_rest_match *m);

/* Parses x->body, a ModelInferRequest, into x->infer and charges its memory. False: failed. */
bool as_infer_grpc_parse(struct as_exchange *x);
void as_infer_grpc(struct as_exchange *x); /* ModelInfer; the message is complete */

#endif
