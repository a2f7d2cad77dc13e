/* wire/triton/classify.h — the k best classes of an output, for Triton's classification extension.
 *
 * The result is a BYTES tensor with the best class first. An element is the text "VALUE:INDEX", or
 * "VALUE:INDEX:LABEL" if the class has a label. The first dimension of the output is the batch:
 * each item has its own k best. The other dimensions are the classes, numbered row by row. An
 * output with one dimension, or none, is a single item. VALUE is the shortest text that reads back
 * as the same number. NaN is worse than any number; of equal values the lower index comes first.
 * Pure.
 */
#ifndef AS_WIRE_CLASSIFY_H
#define AS_WIRE_CLASSIFY_H

#include "base/err.h"
#include "base/memory/arena.h"
#include "base/tensor.h"

#define AS_CLASSIFY_MAX (1u << 20) /* elements of a result */
#define AS_CLASSIFY_BYTES                                                                          \
    (64u << 20) /* bytes of a result, as if all labels were as long as the longest */

/* The result has the shape [batch, k], or [k] for a single item. k must be > 0; it is limited to
 * the number of classes. labels[i] is the label of class i; there may be fewer than classes. The
 * data of `t` must have the size of its shape; `t` and *ret_t must be different. The result is in
 * the arena, but its name is t's. 0; AS_EINVALID: BYTES and BOOL have no order; AS_ETOOBIG: over a
 * limit above; AS_ENOMEM. */
int as_classify(const struct as_tensor *t, const struct as_str *labels, uint32_t n_labels,
                uint32_t k, struct as_arena *a, struct as_tensor *ret_t);

#endif
