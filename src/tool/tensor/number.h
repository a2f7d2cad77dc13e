/* tool/tensor/number.h — parses and prints one element of a fixed-size datatype.
 *
 * Integers are parsed exactly. Floats are parsed by strtof and strtod, and rounded once more for
 * FP16 and BF16. The printed text is the shortest that parses to the same bits. Pure; needs the C
 * locale.
 */
#ifndef AS_TOOL_NUMBER_H
#define AS_TOOL_NUMBER_H

#include "base/buf.h"
#include "base/tensor.h"

#define AS_NUMBER_TEXT 32u

/* Decimal or 0x… for whole numbers; decimal, hexadecimal, inf, nan for floats; true, false, 1, 0
 * for BOOL. `out` gets as_dtype_size(t) bytes. 0; AS_EINVALID: not such a text; AS_ETOOBIG: out of
 * the datatype's range. */
int as_number_read(enum as_dtype t, struct as_str text, uint8_t out[8]);
/* Appends the reason for an error of as_number_read: "is not a whole number", "is outside -128 …
 * 127".
 */
void as_number_why(enum as_dtype t, int err, struct as_buf *why);
/* Prints the element at p, ended by a NUL. json: NaN and infinities are in quotes. */
void as_number_write(enum as_dtype t, const uint8_t *p, bool json, char out[AS_NUMBER_TEXT]);

#endif
