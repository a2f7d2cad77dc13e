/* edge/infer/infer_output.h — outputs in another form than tensors, and parameters of outputs.
 *
 * classification=k: the k best classes as text (wire/triton/classify.h). shared_memory_region: the
 * bytes are written to a region of the client (edge/infer/shm_tensors.h), and the answer has only
 * the place. Thread: the loop's.
 */
#ifndef AS_EDGE_INFER_OUTPUT_H
#define AS_EDGE_INFER_OUTPUT_H

#include "edge/exchange/exchange.h"

/* True: the request asks for such outputs. */
static inline bool as_infer_output_any(const struct as_exchange *x)
{
    return x->infer.has_output_range || x->infer.has_classification;
}

/* r must have the outputs of x->infer.outputs, in that order. Replaces r->outputs by changed copies
 * and sets r->ranges. False: the request was failed. */
bool as_infer_output_apply(struct as_exchange *x, struct as_oip_response *r);
/* Sets r's parameters of outputs, from those of the worker's message `res`, in the order of r's
 * outputs; own must not be empty. Leaves out names that are reserved by the server, and parameters
 * of outputs that were replaced by classes. False: the request was failed. */
bool as_infer_output_add_params(struct as_exchange *x, const struct as_msg *res,
                                const struct as_tensor_params *own, struct as_oip_response *r);

#endif
