/* tool/bench/bench_report.h — prints a measurement as text and as JSON, and compares it with an
 * earlier one. Pure. */
#ifndef AS_TOOL_BENCH_REPORT_H
#define AS_TOOL_BENCH_REPORT_H

#include "base/buf.h"
#include "base/err.h"
#include "tool/bench/tally.h"

struct as_bench_report {
    struct as_str model;
    const char *address;
    const char *protocol; /* the value of --protocol */
    uint32_t connections, streams;
    uint64_t rate; /* 0: closed loop */
    bool poisson;
    bool stream; /* the report includes the times of responses */
    size_t request_bytes;
    double seconds; /* of the measurement */
    double warmup;  /* in seconds */
    uint64_t sent;  /* calls, with those of the warm-up */
    uint32_t lost;  /* connections that were lost */
    const char *why_lost;
    uint64_t reopened; /* connections that were opened again */
    const char *why_reopened;
    bool interrupted;
    const struct as_tally *tally;
};

/* The values that are compared. Those after FAILED exist for streams only. */
enum as_bench_report_row {
    AS_BENCH_REPORT_RATE,
    AS_BENCH_REPORT_MEAN,
    AS_BENCH_REPORT_P50,
    AS_BENCH_REPORT_P90,
    AS_BENCH_REPORT_P99,
    AS_BENCH_REPORT_P999,
    AS_BENCH_REPORT_MAX,
    AS_BENCH_REPORT_FAILED,
    AS_BENCH_REPORT_RESPONSES,
    AS_BENCH_REPORT_FIRST_MEAN,
    AS_BENCH_REPORT_FIRST_P50,
    AS_BENCH_REPORT_FIRST_P90,
    AS_BENCH_REPORT_FIRST_P99,
    AS_BENCH_REPORT_FIRST_P999,
    AS_BENCH_REPORT_FIRST_MAX,
    AS_BENCH_REPORT_BETWEEN_MEAN,
    AS_BENCH_REPORT_BETWEEN_P50,
    AS_BENCH_REPORT_BETWEEN_P90,
    AS_BENCH_REPORT_BETWEEN_P99,
    AS_BENCH_REPORT_BETWEEN_P999,
    AS_BENCH_REPORT_BETWEEN_MAX,
    AS_BENCH_REPORT_ROWS
};

struct as_bench_report_baseline { /* the values of an earlier `bench --json` */
    double v[AS_BENCH_REPORT_ROWS];
    bool has[AS_BENCH_REPORT_ROWS];
};

/* Parses an earlier result. 0, or AS_EINVALID with a sentence in `why`: it is not JSON, or not a
 * result of `bench --json`. May grow the buffer of `text`, but does not change the text. */
int as_bench_report_parse(struct as_buf *text, struct as_bench_report_baseline *ret_past,
                          struct as_buf *why);
/* baseline: the earlier result, or NULL. histogram: adds a histogram of the latencies. */
void as_bench_report_text(struct as_buf *b, const struct as_bench_report *r,
                          const struct as_bench_report_baseline *baseline, bool histogram);
/* One object and a newline; see docs/guide/tools.md for its members. */
void as_bench_report_json(struct as_buf *b, const struct as_bench_report *r,
                          const struct as_bench_report_baseline *baseline);

#endif
