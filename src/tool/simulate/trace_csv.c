/* Lines of CSV (RFC 4180), except that a field ends with its line. */
#include "tool/simulate/trace_internal.h"

/* Reads the field that begins at *i, and moves *i to the comma or the end behind it. *quoted: the
 * field's text is in t->text. */
static int read_field(struct as_trace_place *at, struct as_str line, size_t *i,
                      struct as_str *ret_text)
{
    struct as_trace *t = at->trace;
    size_t from = *i;

    at->column = from + 1;
    if (*i == line.n || line.p[*i] != '"') {
        while (*i < line.n && line.p[*i] != ',')
            (*i)++;
        *ret_text = as_str_trim((struct as_str){line.p + from, *i - from});
        return 0;
    }
    t->text.n = 0;
    for ((*i)++; *i < line.n; (*i)++) {
        if (line.p[*i] == '"') {
            if (*i + 1 == line.n || line.p[*i + 1] != '"')
                break;
            (*i)++;
        }
        as_buf_add(&t->text, line.p + *i, 1);
    }
    if (*i == line.n)
        return as_trace_refuse(at, "a quote is not closed in this line");
    (*i)++;
    if (*i < line.n && line.p[*i] != ',')
        return as_trace_refuse(at, "something follows a closing quote");
    *ret_text = as_buf_slice(&t->text);
    return 0;
}

static int read_names(struct as_trace *t, struct as_str line, struct as_buf *err)
{
    struct as_trace_place at = {.trace = t, .err = err};
    uint32_t seen = 0;
    struct as_str name = {0};

    for (size_t i = 0; i <= line.n; i++) {
        enum as_trace_column c = AS_TRACE_ARRIVAL;
        int rc = read_field(&at, line, &i, &name);

        if (rc == 0)
            rc = as_trace_find_column(&at, name, seen, &c);
        if (rc < 0)
            return rc;
        t->field[t->n_fields++] = c;
        seen |= 1u << c;
    }
    at.column = 1;
    if (!(seen >> AS_TRACE_ARRIVAL & 1u))
        return as_trace_refuse(&at, "the column arrival_s is missing");
    return 0;
}

int as_trace_csv_line(struct as_trace *t, struct as_str line, struct as_trace_row *row,
                      uint32_t *seen, struct as_buf *err)
{
    struct as_trace_place at = {.trace = t, .err = err};
    uint32_t n = 0;
    struct as_str text = {0};

    if (!t->n_fields)
        return read_names(t, line, err);
    for (size_t i = 0; i <= line.n; i++, n++) {
        int rc;

        at.name = NULL;
        rc = read_field(&at, line, &i, &text);
        if (rc == 0 && n == t->n_fields)
            rc = as_trace_refuse(&at, "there are more fields than columns (%u)", t->n_fields);
        if (rc == 0 && text.n) { /* an empty field is one that the row does not have */
            at.name = as_trace_names[t->field[n]];
            rc = as_trace_set(&at, t->field[n], text, row);
            *seen |= 1u << t->field[n];
        }
        if (rc < 0)
            return rc;
    }
    at.name = NULL;
    at.column = line.n + 1;
    if (n < t->n_fields)
        return as_trace_refuse(&at, "there are fewer fields than columns (%u)", t->n_fields);
    return 1;
}
