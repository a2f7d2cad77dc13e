/* edge/infer/shm_tensors.h — tensors of a request in shared memory that the client has registered.
 *
 * Inputs are copied out, as if they had come by the socket: limited by --max-message-bytes, charged
 * to the byte budget, and checked after the copy, which the client cannot change. Outputs are
 * copied in before the answer is sent. Source: Triton's system shared memory extension. Thread: the
 * loop's.
 */
#ifndef AS_EDGE_SHM_TENSORS_H
#define AS_EDGE_SHM_TENSORS_H

#include "edge/exchange/exchange.h"

/* The owner of the client's regions: the user of the client's process on this machine. 0, or
 *
 *   AS_EDENIED  --allow-client-shm is off, or the client is on another machine
 *   AS_EIO      the user cannot be found out, or the client has gone
 *
 * with a line in *ret_why. */
int as_shm_tensors_user(struct as_exchange *x, uid_t *ret_user, const char **ret_why);

/* Copies the inputs of x->infer that have a range, and checks the ranges of outputs. Then calls
 * `then`, at once or, for large inputs, later (edge/exchange/offload.h); or fails the request. */
void as_shm_tensors_fetch(struct as_exchange *x, void (*then)(struct as_exchange *x));
/* The same, at once for any size. False: the request was failed. */
bool as_shm_tensors_fetch_now(struct as_exchange *x);
/* Writes an output to its range. False: the request was failed. */
bool as_shm_tensors_store(struct as_exchange *x, const struct as_tensor *t,
                          const struct as_oip_shm_range *range);

/* True: the request has inputs or outputs in shared memory. */
static inline bool as_shm_tensors_any(const struct as_exchange *x)
{
    return x->infer.ranges || x->infer.has_output_range;
}

#endif
