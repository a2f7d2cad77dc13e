/* wire/json/json_cxx.h — what JSON needs of C++: simdjson's index, Dragonbox, from_chars and
 * to_chars.
 *
 * Private to json*.c. No exception leaves json_cxx.cc: it is compiled without them.
 */
#ifndef AS_WIRE_JSON_CXX_H
#define AS_WIRE_JSON_CXX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AS_JSON_CXX_RETAIN_MAX (256u << 10) /* bytes of text whose index is kept for the next one  \
                                             */

struct as_json_cxx;

struct as_json_cxx *as_json_cxx_new(void); /* NULL when memory is out */
void as_json_cxx_free(struct as_json_cxx *x);

/* Positions where tokens begin: brackets, colons, commas, strings, and everything else that is no
 * white space. The text is valid UTF-8, its strings are closed and have no control characters.
 * p has SIMDJSON_PADDING readable bytes behind n. 0: fine; 1: memory is out; -1: *ret_why (static)
 * says what is wrong. The index lives until the next call. */
int as_json_cxx_index(struct as_json_cxx *x, const uint8_t *p, size_t n, const uint32_t **ret_at,
                      uint32_t *ret_n, const char **ret_why);
void as_json_cxx_trim(struct as_json_cxx *x); /* memory above AS_JSON_CXX_RETAIN_MAX goes back */

/* The number of the JSON grammar from p to end, correctly rounded; infinite when it overflows. */
double as_json_cxx_double(const char *p, const char *end);

/* m × 10^e, correctly rounded. False: it cannot tell, or has no such function. */
bool as_json_cxx_scaled(uint64_t m, int32_t e, bool negative, double *ret_d);

/* The shortest digits that read back as |v|, the nearest to it of those: digits × 10^exponent. They
 * may end with zeros. v is finite, and not 0. */
struct as_json_decimal {
    uint64_t digits; /* at most 17 of them; of a float 9 */
    int32_t exponent;
};
struct as_json_decimal as_json_cxx_double_digits(double v);
struct as_json_decimal as_json_cxx_float_digits(float v);

/* Bytes of the longest text of a double and of a float. */
#define AS_JSON_CXX_DOUBLE 24u
#define AS_JSON_CXX_FLOAT  15u
/* Shortest text of a finite number, without a NUL; returns its end. */
char *as_json_cxx_put_double(char *out, double v);

#ifdef __cplusplus
}
#endif

#endif
