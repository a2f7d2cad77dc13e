/* tool/simulate/quantity.h — reads the decimal numbers of traces and patterns, exactly.
 *
 * A number has digits, and may have a point and an exponent: "12", "0.25", "1.5e-3". It has no
 * sign, so NaN, infinities and negative numbers are refused like other texts. Pure.
 */
#ifndef AS_TOOL_SIMULATE_QUANTITY_H
#define AS_TOOL_SIMULATE_QUANTITY_H

#include "base/err.h"
#include "base/str.h"

/* The number times `unit` (> 0), rounded. AS_EINVALID: not such a number; AS_ETOOBIG: the result is
 * above `max`. */
int as_quantity_read(struct as_str text, uint64_t unit, uint64_t max, uint64_t *ret_v);
/* A duration as options have it: a suffix ns, us, ms, s, m or h; a bare number is seconds. Errors
 * as above. */
int as_quantity_duration(struct as_str text, as_ns max, as_ns *ret_ns);
/* A number from 0 to max, in billionths at the finest. */
int as_quantity_number(struct as_str text, double max, double *ret_d);

#endif
