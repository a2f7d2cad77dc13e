/* tool/bench/bench.h — `anyserve bench`: load on one model, and how it was answered. */
#ifndef AS_TOOL_BENCH_H
#define AS_TOOL_BENCH_H

#include "conf/option.h"

/* opts: parsed for AS_SCOPE_BENCH, one argument, the model. Returns the exit code: 0 every call was
 * answered; 1 some failed, were never answered or never sent; else as as_infer_command_main: the
 * first call, before the load, went wrong. */
int as_bench_main(struct as_option_set *opts);

#endif
