/* edge/infer/infer_output.h — outputs that a client asked for in another form than as tensors.
 *
 * classification=k: the best classes as text (wire/triton/classify.h). shared_memory_region: into a
 * region of the client's (edge/infer/shm_tensors.h); the answer says where, and carries no bytes.
 * And the parameters of outputs.
 */
#ifndef AS_EDGE_INFER_OUTPUT_H
#define AS_EDGE_INFER_OUTPUT_H

#include "edge/exchange/exchange.h"

/* There are such outputs. */
static inline bool as_infer_output_any(const struct as_exchange *x)
{
    return x->infer.has_output_range || x->infer.has_classification;
}

/* The outputs of r are those of x->infer.outputs, in that order. Changes r->outputs to copies and
 * sets r->ranges. False: the request was refused. */
bool as_infer_output_apply(struct as_exchange *x, struct as_oip_response *r);
/* Gives r the parameters that the worker's message `res` has for its single outputs, of which there
 * is one at least: in the order of r's outputs, without names that are the server's own, and
 * without those of outputs that became classes, of which they are not true. False: the request
 * failed. */
bool as_infer_output_add_params(struct as_exchange *x, const struct as_msg *res,
                                const struct as_tensor_params *own, struct as_oip_response *r);

#endif
