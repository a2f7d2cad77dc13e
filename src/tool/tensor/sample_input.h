/* tool/tensor/sample_input.h — random values for an input that a model declares.
 *
 * Numbers are whole and from 0 to 99, which every numeric datatype can represent; BYTES are short
 * words.
 * The same random state gives the same values.
 */
#ifndef AS_TOOL_SAMPLE_INPUT_H
#define AS_TOOL_SAMPLE_INPUT_H

#include "base/rand.h"
#include "tool/tensor/input.h"

#define AS_SAMPLE_INPUT_MAX ((uint64_t)INT32_MAX) /* bytes of one tensor */

/* any_size replaces sizes of -1. 0, or AS_EINVALID with a sentence in `why`: the datatype is
 * unknown, or the tensor is larger than AS_SAMPLE_INPUT_MAX. `in` must be zero-initialised; call
 * as_input_fini, also after an error. */
int as_sample_input_make(const struct as_tensor_spec *spec, uint64_t any_size, struct as_rand *r,
                         struct as_input *in, struct as_buf *why);

#endif
