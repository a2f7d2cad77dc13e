/* core/registry/signature.h — the declared tensors of one side of a model: valid, equal, copied.
 *
 * Workers declare them, so everything is checked before it is kept. What a request holds against
 * them is as_model_check_inputs and _outputs in core/registry/registry.h.
 */
#ifndef AS_CORE_SIGNATURE_H
#define AS_CORE_SIGNATURE_H

#include "base/tensor.h"

/* NULL, or why it is none (static text): too many entries, an unnamed one, a name given twice, an
 * unknown datatype, too many dimensions, a size below -1. */
const char *as_signature_check(const struct as_tensor_spec *s, uint32_t n);
/* Same entries in the same order, with the same labels. */
bool as_signature_eq(const struct as_tensor_spec *a, const struct as_tensor_spec *b, uint32_t n);

/* Bytes that a copy takes, and the copy into `at` (8-byte aligned, that many bytes), which holds
 * names, shapes and labels too. */
size_t as_signature_size(const struct as_tensor_spec *s, uint32_t n);
struct as_tensor_spec *as_signature_copy(const struct as_tensor_spec *s, uint32_t n, uint8_t *at);

#endif
