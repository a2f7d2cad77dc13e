/* tool/tensor/literal.h — parses a tensor written as text, "1,2,3" or "[[1,2],[3,4]]".
 *
 * Values are separated by a comma, white space, or both. BYTES: text that begins with neither '['
 * nor
 * '"' is one element as it is. Otherwise strings are in quotes, with the escapes of JSON and \xHH
 * for any byte. The output of as_print_values can be parsed. Errors name the value and its
 * position. Pure.
 */
#ifndef AS_TOOL_LITERAL_H
#define AS_TOOL_LITERAL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/tensor.h"

struct as_literal {
    struct as_buf data; /* the elements as bytes (base/tensor.h) */
    uint64_t n;         /* number of elements */
    bool lists;         /* the text has brackets, which give the shape */
    uint32_t ndim;
    int64_t shape[AS_MAX_DIMS];
};

/* `l` must be zero-initialised; call as_literal_fini also after an error. 0, or AS_EINVALID with a
 * sentence in `why` ("value 3 at position 7, '300', is outside -128 … 127 (INT8)"). */
int as_literal_read(enum as_dtype t, struct as_str text, struct as_literal *l, struct as_buf *why);
void as_literal_fini(struct as_literal *l);

#endif
