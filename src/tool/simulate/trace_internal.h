/* tool/simulate/trace_internal.h — the parts of the reader of traces: columns, CSV, JSON. */
#ifndef AS_TOOL_SIMULATE_TRACE_INTERNAL_H
#define AS_TOOL_SIMULATE_TRACE_INTERNAL_H

#include "base/memory/arena.h"
#include "tool/simulate/trace.h"

struct as_json;

enum as_trace_format { AS_TRACE_UNKNOWN, AS_TRACE_CSV, AS_TRACE_JSON };

struct as_trace {
    char *name;
    enum as_trace_format format;
    uint64_t line, rows;
    as_ns last;    /* arrival of the row before */
    uint32_t seen; /* bits of columns */
    /* CSV: the column of each field, as the line of names has them; none comes twice */
    enum as_trace_column field[AS_TRACE_COLUMN_COUNT];
    uint32_t n_fields;
    struct as_buf text; /* CSV: a field whose quotes were removed */
    struct as_json *json;
    struct as_arena arena; /* of one line */
    _Alignas(16) uint8_t first[512];
};

struct as_trace_place { /* of a value, for errors */
    struct as_trace *trace;
    size_t column;    /* in bytes, from 1; 0: not known */
    const char *name; /* of the value; NULL: it has none */
    struct as_buf *err;
};

extern const char *const as_trace_names[AS_TRACE_COLUMN_COUNT];

/* Appends "NAME:LINE:COLUMN: KEY: " and the reason; AS_EINVALID. */
int as_trace_refuse(const struct as_trace_place *at, const char *fmt, ...) AS_PRINTF(2, 3);
/* The column with that name; an error if there is none, or it came before (`seen`). */
int as_trace_find_column(const struct as_trace_place *at, struct as_str name, uint32_t seen,
                         enum as_trace_column *ret_c);
/* Puts the text of a value into its place in the row. */
int as_trace_set(const struct as_trace_place *at, enum as_trace_column c, struct as_str text,
                 struct as_trace_row *row);

/* A line of the format. As as_trace_line, without the checks of the whole row; *seen: which columns
 * have a value. */
int as_trace_csv_line(struct as_trace *t, struct as_str line, struct as_trace_row *row,
                      uint32_t *seen, struct as_buf *err);
int as_trace_json_line(struct as_trace *t, struct as_str line, struct as_trace_row *row,
                       uint32_t *seen, struct as_buf *err);

#endif
