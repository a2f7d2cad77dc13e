/* /metrics: the metrics that users' code reports, each family once over all replicas. */
#include "base/utf8.h"
#include "edge/admin/metrics_internal.h"
#include "link/call/report.h"

/* The families of all replicas. */
struct families {
    struct as_report_family *at;
    size_t n, cap;
};

static void collect(void *arg, const struct as_fleet_replica *r)
{
    struct families *f = arg;
    struct as_str rest = r->reports[AS_REPORT_METRICS];
    struct as_report_family family;

    while (as_report_next_family(&rest, &family)) {
        if (f->n == f->cap) {
            f->cap = AS_MAX(2 * f->cap, (size_t)64);
            f->at = as_xrealloc(f->at, f->cap * sizeof(*f->at));
        }
        f->at[f->n++] = family;
    }
}

/* By name; families of one name in the order of the replicas. */
static int by_name(const void *x, const void *y)
{
    const struct as_report_family *a = x, *b = y;
    int c = memcmp(a->name.p, b->name.p, AS_MIN(a->name.n, b->name.n));

    if (c || a->name.n != b->name.n)
        return c ? c : a->name.n < b->name.n ? -1 : 1;
    return (a > b) - (a < b);
}

static uint32_t hex4(const char *p)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++)
        v = v << 4 | (uint32_t)AS_MAX(as_hex_digit(p[i]), 0);
    return v;
}

static bool is_surrogate(uint32_t c, uint32_t first)
{
    return c >= first && c < first + 0x400;
}

/* The help of a family: a JSON string becomes a text of Prometheus, in which only \ and line ends
 * are escaped. */
static void put_help(struct as_buf *o, struct as_str json)
{
    static const char from[] = "\"\\/bfnrt", *const to[] = {"\"", "\\\\", "/", "",
                                                            "",   "\\n",  "",  " "};
    const char *p = json.p + 1, *end = json.p + json.n - 1;

    for (; p < end; p++) {
        const char *at = p + 1 < end && *p == '\\' ? memchr(from, p[1], AS_COUNT(to)) : NULL;
        uint8_t utf8[4];

        if (*p != '\\') {
            as_buf_add(o, p, 1);
        } else if (at) {
            as_buf_str(o, to[at - from]);
            p++;
        } else if (end - p > 5 && p[1] == 'u') {
            uint32_t c = hex4(p + 2);

            p += 5;
            if (is_surrogate(c, 0xd800) && end - p > 6 && p[1] == '\\' && p[2] == 'u' &&
                is_surrogate(hex4(p + 3), 0xdc00)) {
                c = 0x10000 + ((c & 0x3ff) << 10) + (hex4(p + 3) & 0x3ff);
                p += 6;
            } else if (c >= 0xd800 && c < 0xe000) {
                c = 0xfffd; /* half of a pair */
            }
            if (c == '\n' || c == '\\')
                as_buf_str(o, c == '\n' ? "\\n" : "\\\\");
            else if (c >= ' ')
                as_buf_add(o, utf8, as_utf8_put(utf8, c));
        }
    }
}

static void put_series(struct as_buf *o, struct as_str rest)
{
    struct as_report_series s;

    while (as_report_next_series(&rest, &s))
        as_buf_printf(o, "%.*s%.*s %.*s\n", AS_STR_FMT(s.name), AS_STR_FMT(s.labels),
                      AS_STR_FMT(s.value));
}

/* Of two families of one name and different kinds the first counts, as Prometheus demands. */
void as_metrics_reports(struct as_status_page *b, struct as_buf *out)
{
    struct families f = {0};
    const struct as_report_family *first = NULL;

    as_fleet_each_replica(b->fleet, collect, &f);
    if (f.n)
        qsort(f.at, f.n, sizeof(*f.at), by_name);
    for (size_t i = 0; i < f.n; i++) {
        if (!first || !as_str_eq(first->name, f.at[i].name)) {
            first = &f.at[i];
            as_buf_printf(out, "# HELP %.*s ", AS_STR_FMT(first->name));
            put_help(out, first->help);
            as_buf_printf(out, "\n# TYPE %.*s %.*s\n", AS_STR_FMT(first->name),
                          AS_STR_FMT(first->kind));
        }
        if (as_str_eq(first->kind, f.at[i].kind))
            put_series(out, f.at[i].series);
    }
    free(f.at);
}
