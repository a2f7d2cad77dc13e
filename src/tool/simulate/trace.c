#include "tool/simulate/trace.h"

#include "base/suggest.h"
#include "core/queue/request.h"
#include "tool/simulate/quantity.h"
#include "tool/simulate/trace_internal.h"
#include "wire/json/json.h"

#define SHOWN 60 /* bytes of a wrong value in an error */

const char *const as_trace_names[AS_TRACE_COLUMN_COUNT] = {
#define X(id, name, csv) name,
    AS_TRACE_COLUMNS(X)
#undef X
};

static const bool of_csv[AS_TRACE_COLUMN_COUNT] = {
#define X(id, name, csv) csv,
    AS_TRACE_COLUMNS(X)
#undef X
};

struct as_trace *as_trace_new(const char *name)
{
    struct as_trace *t = as_xalloc(sizeof(*t));

    t->name = as_str_dup(as_str_of(name));
    as_arena_init(&t->arena, t->first, sizeof(t->first));
    return t;
}

void as_trace_free(struct as_trace *t)
{
    if (!t)
        return;
    as_json_free(t->json);
    as_arena_fini(&t->arena);
    as_buf_fini(&t->text);
    free(t->name);
    free(t);
}

uint64_t as_trace_lines(const struct as_trace *t)
{
    return t->line;
}

uint64_t as_trace_rows(const struct as_trace *t)
{
    return t->rows;
}

uint32_t as_trace_columns(const struct as_trace *t)
{
    return t->seen;
}

void as_trace_put_place(const struct as_trace *t, struct as_buf *err)
{
    as_buf_printf(err, "%s:%llu: ", t->name, (unsigned long long)t->line);
}

int as_trace_refuse(const struct as_trace_place *at, const char *fmt, ...)
{
    va_list ap;

    as_buf_printf(at->err, "%s:%llu:", at->trace->name, (unsigned long long)at->trace->line);
    if (at->column)
        as_buf_printf(at->err, "%zu:", at->column);
    as_buf_str(at->err, " ");
    if (at->name)
        as_buf_printf(at->err, "%s: ", at->name);
    va_start(ap, fmt);
    as_buf_vprintf(at->err, fmt, ap);
    va_end(ap);
    return AS_EINVALID;
}

/* --- values --- */

/* The text in quotes as an error shows it: cut, and without control characters. */
static struct as_str shown(struct as_str text, char room[SHOWN + 1])
{
    size_t n = AS_MIN(text.n, (size_t)SHOWN);

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text.p[i];

        room[i] = (char)(c < ' ' || c >= 0x7f ? '.' : c);
    }
    return (struct as_str){room, n};
}

int as_trace_find_column(const struct as_trace_place *at, struct as_str name, uint32_t seen,
                         enum as_trace_column *ret_c)
{
    bool csv = at->trace->format == AS_TRACE_CSV;
    struct as_suggest near = {.key = name};
    char room[SHOWN + 1];
    struct as_str best, cut;

    for (uint32_t c = 0; c < AS_TRACE_COLUMN_COUNT; c++) {
        if ((csv && !of_csv[c]) || !as_str_eq(name, as_str_of(as_trace_names[c])))
            continue;
        if (seen >> c & 1u)
            return as_trace_refuse(at, "%s comes twice", as_trace_names[c]);
        *ret_c = (enum as_trace_column)c;
        return 0;
    }
    for (uint32_t c = 0; c < AS_TRACE_COLUMN_COUNT && name.n <= SHOWN; c++) {
        if (!csv || of_csv[c])
            as_suggest_offer(&near, as_str_of(as_trace_names[c]));
    }
    best = as_suggest_best(&near);
    cut = shown(name, room);
    if (best.n)
        return as_trace_refuse(at, "'%.*s' is not a column of a trace; did you mean '%.*s'?",
                               AS_STR_FMT(cut), AS_STR_FMT(best));
    return as_trace_refuse(at,
                           "'%.*s' is not a column of a trace: these are arrival_s, service_ms, "
                           "deployment, model_id, session_id, tenant, priority, deadline_ms",
                           AS_STR_FMT(cut));
}

static int set_time(const struct as_trace_place *at, struct as_str text, as_ns unit, as_ns max,
                    as_ns *ret_ns)
{
    char room[SHOWN + 1];
    struct as_str cut = shown(text, room);
    int rc = as_quantity_read(text, unit, max, ret_ns);

    if (rc == AS_ETOOBIG)
        return as_trace_refuse(at, "%.*s is above the maximum %llu", AS_STR_FMT(cut),
                               (unsigned long long)(max / unit));
    if (rc < 0)
        return as_trace_refuse(at, "'%.*s' is not a number that is at least 0", AS_STR_FMT(cut));
    return 0;
}

/* As the parameter of requests: 1 is the most urgent, 0 the default. */
static int set_priority(const struct as_trace_place *at, struct as_str text,
                        struct as_trace_row *row)
{
    char room[SHOWN + 1];
    struct as_str cut = shown(text, room);
    uint64_t v;

    if (as_str_u64(text, &v) < 0)
        return as_trace_refuse(at, "'%.*s' is not a whole number that is at least 0",
                               AS_STR_FMT(cut));
    if (v)
        row->priority = (uint8_t)(AS_MIN(v, (uint64_t)AS_PRIORITIES) - 1);
    return 0;
}

/* 0 stands for "none". */
static uint64_t key_of(struct as_str text)
{
    uint64_t h = text.n ? as_str_hash(text) : 0;

    return text.n && !h ? 1 : h;
}

int as_trace_set(const struct as_trace_place *at, enum as_trace_column c, struct as_str text,
                 struct as_trace_row *row)
{
    switch (c) {
    case AS_TRACE_ARRIVAL:
        return set_time(at, text, AS_SEC, AS_TRACE_ARRIVAL_MAX, &row->arrival);
    case AS_TRACE_TIMESTAMP:
        return set_time(at, text, AS_MS, AS_TRACE_ARRIVAL_MAX, &row->arrival);
    case AS_TRACE_SERVICE:
        return set_time(at, text, AS_MS, AS_TRACE_TIME_MAX, &row->service);
    case AS_TRACE_DEADLINE:
        return set_time(at, text, AS_MS, AS_TRACE_TIME_MAX, &row->deadline);
    case AS_TRACE_PRIORITY:
        return set_priority(at, text, row);
    case AS_TRACE_DEPLOYMENT:
        row->deployment = as_arena_xdup(&at->trace->arena, text);
        return 0;
    case AS_TRACE_MODEL:
        row->model_key = key_of(text);
        return 0;
    case AS_TRACE_SESSION:
    case AS_TRACE_HASH_IDS:
        row->session_key = key_of(text);
        return 0;
    case AS_TRACE_TENANT:
        row->tenant_key = key_of(text);
        return 0;
    default:
        return 0; /* it is not used */
    }
}

/* --- lines --- */

static bool is_blank(struct as_str line)
{
    return as_str_trim(line).n == 0;
}

static int check_row(struct as_trace *t, const struct as_trace_row *row, uint32_t seen,
                     struct as_buf *err)
{
    struct as_trace_place at = {.trace = t, .err = err};

    if (!(seen & (1u << AS_TRACE_ARRIVAL | 1u << AS_TRACE_TIMESTAMP)))
        return as_trace_refuse(&at, "arrival_s is missing");
    if (t->rows && row->arrival < t->last)
        return as_trace_refuse(&at, "it arrives before the request of the row before; a trace is "
                                    "sorted by the times of arrival");
    t->last = row->arrival;
    t->seen |= seen;
    t->rows++;
    return 1;
}

int as_trace_line(struct as_trace *t, struct as_str line, struct as_trace_row *ret_row,
                  struct as_buf *err)
{
    static const char mark[] = "\xef\xbb\xbf"; /* some programs write it in front of a text */
    struct as_trace_row row = {.service = AS_NEVER, .deadline = AS_NEVER, .priority = 1};
    uint32_t seen = 0;
    int rc;

    t->line++;
    as_arena_reset(&t->arena);
    if (t->line == 1 && line.n >= 3 && memcmp(line.p, mark, 3) == 0)
        line = (struct as_str){line.p + 3, line.n - 3};
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (is_blank(line))
        return 0;
    if (t->format == AS_TRACE_UNKNOWN)
        t->format = as_str_trim(line).p[0] == '{' ? AS_TRACE_JSON : AS_TRACE_CSV;
    rc = t->format == AS_TRACE_CSV ? as_trace_csv_line(t, line, &row, &seen, err)
                                   : as_trace_json_line(t, line, &row, &seen, err);
    if (rc <= 0)
        return rc;
    rc = check_row(t, &row, seen, err);
    if (rc > 0)
        *ret_row = row;
    return rc;
}
