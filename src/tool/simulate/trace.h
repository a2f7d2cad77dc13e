/* tool/simulate/trace.h — a trace: one request per line, as CSV or as JSON Lines.
 *
 * CSV begins with a line of names; JSON Lines has an object per line. Both have the same names,
 * docs/guide/simulate.md lists them. A JSON line with `timestamp` instead of `arrival_s` is one of
 * Mooncake's traces. An unknown name, a number that is none, or a time before the one of the row
 * before is an error with line and column: a wrong trace would give a wrong answer.
 *
 * Pure, line by line, so the length of a trace does not matter. The lines may be hostile.
 */
#ifndef AS_TOOL_SIMULATE_TRACE_H
#define AS_TOOL_SIMULATE_TRACE_H

#include "base/buf.h"
#include "base/err.h"

#define AS_TRACE_LINE_MAX    (1u << 20)          /* bytes */
#define AS_TRACE_ARRIVAL_MAX ((uint64_t)4 << 60) /* ns: 146 years, so that Unix times fit */
#define AS_TRACE_TIME_MAX    ((uint64_t)7 * 86400 * AS_SEC) /* a service time, a deadline */
#define AS_TRACE_PADDING     64u                            /* readable bytes behind a line */

struct as_trace_row {
    as_ns arrival;
    as_ns service;    /* AS_NEVER: the row has none */
    as_ns deadline;   /* after the arrival; AS_NEVER: the row has none */
    uint8_t priority; /* as core has it: 0 … AS_PRIORITIES-1 */
    /* hashes of the texts; 0: the row has none */
    uint64_t model_key, session_key, tenant_key;
    struct as_str deployment; /* a part of the line; empty: the row has none */
};

struct as_trace;

/* name: of the file, for errors; it is copied. */
struct as_trace *as_trace_new(const char *name);
void as_trace_free(struct as_trace *t);
/* Reads the next line, which is given without its end and has AS_TRACE_PADDING readable bytes
 * behind it. 1: a row; it is valid until the line changes. 0: no row (names, an empty line).
 * AS_EINVALID: `err` gets "NAME:LINE:COLUMN: what is wrong". */
int as_trace_line(struct as_trace *t, struct as_str line, struct as_trace_row *ret_row,
                  struct as_buf *err);
/* Appends "NAME:LINE: " of the last line. */
void as_trace_put_place(const struct as_trace *t, struct as_buf *err);
uint64_t as_trace_lines(const struct as_trace *t); /* that were read */
uint64_t as_trace_rows(const struct as_trace *t);
/* Which rows had which columns: bits of enum as_trace_column. */
uint32_t as_trace_columns(const struct as_trace *t);

/* id, name, of CSV too */
#define AS_TRACE_COLUMNS(X)                                                                        \
    X(ARRIVAL, "arrival_s", true)                                                                  \
    X(SERVICE, "service_ms", true)                                                                 \
    X(DEPLOYMENT, "deployment", true)                                                              \
    X(MODEL, "model_id", true)                                                                     \
    X(SESSION, "session_id", true)                                                                 \
    X(TENANT, "tenant", true)                                                                      \
    X(PRIORITY, "priority", true)                                                                  \
    X(DEADLINE, "deadline_ms", true)                                                               \
    X(TIMESTAMP, "timestamp", false)                                                               \
    X(HASH_IDS, "hash_ids", false)                                                                 \
    X(INPUT_LENGTH, "input_length", false)                                                         \
    X(OUTPUT_LENGTH, "output_length", false)

enum as_trace_column {
#define X(id, name, csv) AS_TRACE_##id,
    AS_TRACE_COLUMNS(X)
#undef X
        AS_TRACE_COLUMN_COUNT
};

#endif
