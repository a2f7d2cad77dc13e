/* tool/tensor/number.h — one element of a fixed-size datatype as text, exactly, both ways.
 *
 * Whole numbers are read digit by digit (no detour over a double), floats by strtof and strtod with
 * one more rounding for FP16 and BF16; what is written is the shortest text that reads back as the
 * same bits. Pure; the C locale is expected.
 */
#ifndef AS_TOOL_NUMBER_H
#define AS_TOOL_NUMBER_H

#include "base/buf.h"
#include "base/tensor.h"

#define AS_NUMBER_TEXT 32u

/* Decimal or 0x… for whole numbers; decimal, hexadecimal, inf, nan for floats; true, false, 1, 0
 * for BOOL. `out` gets as_dtype_size(t) bytes. 0; AS_EINVALID: not of this kind; AS_ETOOBIG: of
 * this kind, but out of the datatype's range. */
int as_number_read(enum as_dtype t, struct as_str text, uint8_t out[8]);
/* Why as_number_read refused, as the end of a sentence ("is not a whole number", "is outside
 * -128 … 127"). */
void as_number_why(enum as_dtype t, int err, struct as_buf *why);
/* The element at p as text with a NUL; `json`: what JSON has no number for is in quotes. */
void as_number_write(enum as_dtype t, const uint8_t *p, bool json, char out[AS_NUMBER_TEXT]);

#endif
