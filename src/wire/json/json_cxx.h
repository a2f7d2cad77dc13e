/* wire/json/json_cxx.h — the C interface of the C++ libraries that JSON uses: simdjson's index,
 * Dragonbox, std::from_chars and std::to_chars.
 *
 * Private to json*.c. json_cxx.cc is compiled without exceptions.
 */
#ifndef AS_WIRE_JSON_CXX_H
#define AS_WIRE_JSON_CXX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Indexes for texts over this many bytes are freed by as_json_cxx_trim. */
#define AS_JSON_CXX_RETAIN_MAX (256u << 10)

struct as_json_cxx;

struct as_json_cxx *as_json_cxx_new(void); /* NULL: out of memory */
void as_json_cxx_free(struct as_json_cxx *x);

/* Finds where tokens begin: brackets, colons, commas, strings, and the first byte of every other
 * run without white space. Checks that the text is valid UTF-8, and that strings are closed and
 * have no control characters. SIMDJSON_PADDING bytes after the n bytes at p must be readable. 0; 1:
 * out of memory; -1: *ret_why (static) has the reason. The index is valid until the next call. */
int as_json_cxx_index(struct as_json_cxx *x, const uint8_t *p, size_t n, const uint32_t **ret_at,
                      uint32_t *ret_n, const char **ret_why);
void as_json_cxx_trim(struct as_json_cxx *x); /* frees a large index */

/* The value of the JSON number from p to end, correctly rounded; infinite when it overflows. */
double as_json_cxx_double(const char *p, const char *end);

/* m × 10^e, correctly rounded. False: use as_json_cxx_double instead (the fast algorithm is not
 * available, or does not cover this exponent). */
bool as_json_cxx_scaled(uint64_t m, int32_t e, bool negative, double *ret_d);

/* The shortest digits that read back as |v|, and of these the nearest to |v|: digits × 10^exponent.
 * `digits` may end in zeros. v must be finite and not 0. */
struct as_json_decimal {
    uint64_t digits; /* at most 17 digits for a double, 9 for a float */
    int32_t exponent;
};
struct as_json_decimal as_json_cxx_double_digits(double v);
struct as_json_decimal as_json_cxx_float_digits(float v);

/* Length of the longest text of a double and of a float. */
#define AS_JSON_CXX_DOUBLE 24u
#define AS_JSON_CXX_FLOAT  15u
/* Writes the shortest text of a finite number, without a NUL; returns its end. */
char *as_json_cxx_put_double(char *out, double v);

#ifdef __cplusplus
}
#endif

#endif
