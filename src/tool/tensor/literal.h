/* tool/tensor/literal.h — the text of a tensor, "1,2,3" or "[[1,2],[3,4]]", as bytes and a shape.
 *
 * Numbers are separated by a comma, white space, or both. BYTES: text that begins with neither '['
 * nor '"' is one element as it stands; strings in lists are in quotes, with JSON's escapes and \xHH
 * for any byte. What as_print_tensor writes is read back. Every error names the value and where it
 * stands. Pure.
 */
#ifndef AS_TOOL_LITERAL_H
#define AS_TOOL_LITERAL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/tensor.h"

struct as_literal {
    struct as_buf data; /* elements as they travel (base/tensor.h) */
    uint64_t n;         /* how many */
    bool lists;         /* brackets gave the shape; else the elements are a plain row */
    uint32_t ndim;
    int64_t shape[AS_MAX_DIMS];
};

/* Zero-initialised `l`; fini also after an error. 0, or AS_EINVALID with a sentence in `why`
 * ("value 3 at position 7, '300', is outside -128 … 127 (INT8)"). */
int as_literal_read(enum as_dtype t, struct as_str text, struct as_literal *l, struct as_buf *why);
void as_literal_fini(struct as_literal *l);

#endif
