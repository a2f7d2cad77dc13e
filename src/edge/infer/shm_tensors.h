/* edge/infer/shm_tensors.h — tensors of a request in shared memory that its client has registered.
 *
 * Inputs are copied out of it as they would be out of a socket: bounded by --max-message-bytes,
 * charged to the byte budget, and checked after the copy, which nobody can change any more. Outputs
 * are copied into it before the answer goes out. Source: Triton's system shared memory extension.
 */
#ifndef AS_EDGE_SHM_TENSORS_H
#define AS_EDGE_SHM_TENSORS_H

#include "edge/exchange/exchange.h"

/* Whose regions these are: the user of the client, who must be on this machine. 0; AS_EDENIED: the
 * option is off, or the client comes from elsewhere; AS_EIO: nobody can say who it is, or it has
 * gone. *ret_why is one line. */
int as_shm_tensors_user(struct as_exchange *x, uid_t *ret_user, const char **ret_why);

/* Reads the inputs of x->infer that have a range, and sees whether those of outputs are there; then
 * calls `then`, at once, or later when the inputs are large (edge/exchange/offload). Else the
 * request was refused. */
void as_shm_tensors_fetch(struct as_exchange *x, void (*then)(struct as_exchange *x));
/* The same, in this turn whatever their size. False: refused. */
bool as_shm_tensors_fetch_now(struct as_exchange *x);
/* Writes an output to its range. False: the request was refused. */
bool as_shm_tensors_store(struct as_exchange *x, const struct as_tensor *t,
                          const struct as_oip_shm_range *range);

/* Something of the request lies in shared memory. */
static inline bool as_shm_tensors_any(const struct as_exchange *x)
{
    return x->infer.ranges || x->infer.has_output_range;
}

#endif
