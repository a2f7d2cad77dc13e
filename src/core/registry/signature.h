/* core/registry/signature.h — the declared input or output tensors of a model: checking, comparing,
 * copying.
 *
 * Workers declare them, so everything is checked before it is stored. as_model_check_inputs and
 * as_model_check_outputs (core/registry/registry.h) compare the tensors of a request with them.
 * Pure. Thread: any.
 */
#ifndef AS_CORE_SIGNATURE_H
#define AS_CORE_SIGNATURE_H

#include "base/tensor.h"

/* NULL, or what is wrong (static text): too many entries, an entry without a name, a duplicate
 * name, an unknown datatype, too many dimensions, a size below -1. */
const char *as_signature_check(const struct as_tensor_spec *s, uint32_t n);
/* The same entries in the same order, with the same labels. */
bool as_signature_eq(const struct as_tensor_spec *a, const struct as_tensor_spec *b, uint32_t n);

/* The size of a copy in bytes, and the copy into `at` (8-byte aligned, of that size), which
 * includes names, shapes and labels. */
size_t as_signature_size(const struct as_tensor_spec *s, uint32_t n);
struct as_tensor_spec *as_signature_copy(const struct as_tensor_spec *s, uint32_t n, uint8_t *at);

#endif
