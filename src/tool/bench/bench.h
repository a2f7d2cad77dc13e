/* tool/bench/bench.h — `anyserve bench`: puts load on one model and reports the latencies. */
#ifndef AS_TOOL_BENCH_H
#define AS_TOOL_BENCH_H

#include "conf/option/option.h"

/* opts: parsed for AS_SCOPE_BENCH, with one argument, the model. Returns the exit code: 0: all
 * calls were ok; 1: some calls failed, were not answered or not sent; otherwise the first call,
 * before the load, failed, with the code that as_infer_command_main returns. */
int as_bench_main(struct as_option_set *opts);

#endif
