/* fuzz/f_trace.c — any bytes as a trace: refused with one line that begins with the place, or rows
 * whose times rise and are within their bounds. */
#include "tool/simulate/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(int rc, const struct as_buf *err)
{
    AS_ASSERT(rc == AS_EINVALID && err->n > 2 && memcmp(err->p, "t:", 2) == 0);
    for (size_t i = 0; i < err->n; i++)
        AS_ASSERT(err->p[i] >= ' ');
}

static void check_row(const struct as_trace_row *row, as_ns last)
{
    AS_ASSERT(row->arrival >= last && row->arrival <= AS_TRACE_ARRIVAL_MAX);
    AS_ASSERT(row->service <= AS_TRACE_TIME_MAX || row->service == AS_NEVER);
    AS_ASSERT(row->deadline <= AS_TRACE_TIME_MAX || row->deadline == AS_NEVER);
    AS_ASSERT(row->priority < 3);
    for (size_t i = 0; i < row->deployment.n; i++)
        AS_ASSERT(row->deployment.p[i] != '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct as_trace *t = as_trace_new("t");
    struct as_buf err = {0};
    as_ns last = 0;
    int rc = 0;

    for (size_t at = 0; at < size && rc >= 0;) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t n = end ? (size_t)(end - data) - at : size - at;
        /* exactly as large as promised, so that a sanitizer sees a read beyond it */
        char *line = as_xalloc(n + AS_TRACE_PADDING);
        struct as_trace_row row;

        memcpy(line, data + at, n);
        rc = as_trace_line(t, (struct as_str){line, n}, &row, &err);
        if (rc > 0) {
            check_row(&row, last);
            last = row.arrival;
        } else if (rc < 0) {
            check_refusal(rc, &err);
        }
        free(line);
        at += n + 1;
    }
    as_trace_free(t);
    as_buf_fini(&err);
    return 0;
}
