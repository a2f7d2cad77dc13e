/* edge/infer/infer.h — a request to a model, whatever protocol it came by.
 *
 * The protocol fills x->infer: names, tensors (in x->body, the arena, or x->blob), parameters, the
 * outputs that are asked for. Here the model is found, the inputs are checked against its
 * signature, the client's headers taken, the call submitted; its verdict comes back as an error, or
 * as the response that the protocol's own `send` writes. infer_grpc.c: ModelInfer; infer_rest.c:
 * plain HTTP. Thread: the loop's.
 */
#ifndef AS_EDGE_INFER_H
#define AS_EDGE_INFER_H

#include "edge/exchange/exchange.h"

/* Writes the answer. The outputs are those that were asked for, in that order; their bytes lie in
 * x->call.result_blob when it is not NULL, else in the arena. `r` is gone after the call. */
typedef void (*as_infer_send)(struct as_exchange *x, const struct as_oip_response *r);

/* The model is looked up by x->infer's names unless x->model is set already. */
void as_infer_begin(struct as_exchange *x, as_infer_send send);

/* Who keeps an output's bytes: the worker's answer, or NULL where they are the exchange's own. */
static inline struct as_blob *as_infer_owner(const struct as_exchange *x, const struct as_tensor *t)
{
    struct as_blob *b = x->call.result_blob ? x->call.result_blob : x->answer;

    return b && t->data >= b->data && t->data < b->data + b->n ? b : NULL;
}

/* Values that were converted while they were read take memory of their own: it is charged to the
 * budget. False: answered. */
bool as_infer_charge(struct as_exchange *x);

void as_infer_rest(struct as_exchange *x, const struct as_rest_match *m); /* POST …/infer */
/* For protocols that can carry several responses to a request. */
struct as_infer_parts {
    /* One of them. Large outputs lie in `blob` when it is not NULL: who keeps bytes takes a
     * reference. False: the client takes no more now; as_infer_credit when it does. */
    bool (*part)(struct as_exchange *x, const struct as_oip_response *r, struct as_blob *blob);
    void (*end)(struct as_exchange *x); /* there will be no further one */
};
/* As as_infer_begin, for decoupled models too. */
void as_infer_begin_parts(struct as_exchange *x, as_infer_send send,
                          const struct as_infer_parts *parts);
void as_infer_credit(struct as_exchange *x); /* what the client had not taken, it has now */
/* One more message for a call whose model streams its inputs; released when it was sent, or came
 * too late. False: x was failed. */
bool as_infer_input(struct as_exchange *x, struct as_exchange *to,
                    void (*released)(struct as_call *c));

/* Handlers of edge/rest/rest.h. Of generate a model gives exactly one response; of generate_stream
 * each is an event (text/event-stream), an error behind the first of them too. */
void as_infer_generate(struct as_exchange *x, const struct as_rest_match *m);
void as_infer_generate_stream(struct as_exchange *x, const struct as_rest_match *m);

void as_infer_grpc(struct as_exchange *x); /* ModelInfer; its message is complete */

#endif
