/* wire/triton/classify.h — the k best classes of an output, as the classification extension has them.
 *
 * The answer is a BYTES tensor: each element is the text "VALUE:INDEX", or
 * "VALUE:INDEX:LABEL" where the class has a label, best first. The first
 * dimension of the output is its batch, and every item of it is classified for itself; what is left
 * are the classes, numbered row by row. An output of one dimension, or none, is one item. VALUE is
 * the shortest text that reads back as the same number. NaN is worse than any number; of equal
 * values the lower index comes first. Pure.
 */
#ifndef AS_WIRE_CLASSIFY_H
#define AS_WIRE_CLASSIFY_H

#include "base/memory/arena.h"
#include "base/err.h"
#include "base/tensor.h"

#define AS_CLASSIFY_MAX (1u << 20) /* elements of an answer */
#define AS_CLASSIFY_BYTES                                                                          \
    (64u << 20) /* what they may take, were all labels as long as the longest */

/* Shape [batch, k], or [k] for one item; k > 0 is cut down to the number of classes. labels:
 * n_labels of them, by class. `t` is well formed (its data has the size of its shape) and another
 * than *ret_t. Everything lies in the arena but the name. 0; AS_EINVALID: BYTES and BOOL have no
 * order; AS_ETOOBIG: more than one of the limits above; AS_ENOMEM. */
int as_classify(const struct as_tensor *t, const struct as_str *labels, uint32_t n_labels,
                uint32_t k, struct as_arena *a, struct as_tensor *ret_t);

#endif
