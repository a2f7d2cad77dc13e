/* bench/json_libraries/json_speed.h — one JSON library under test: each json_*.c[c] is one,
 * json_speed.c drives it. */
#ifndef AS_BENCH_JSON_SPEED_H
#define AS_BENCH_JSON_SPEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPEED_PADDING 64 /* readable bytes behind a body */

/* An inference request of one FP32 or FP64 input; its elements into `out`; how many there were. */
size_t speed_parse(const char *body, size_t n, bool fp64, void *out);
/* An inference answer with one output of n elements; bytes of the text, which is thrown away.
 * 0: the library does not print. */
size_t speed_print(const void *data, size_t n, bool fp64);

#ifdef __cplusplus
}
#endif

#endif
