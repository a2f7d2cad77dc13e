#include "link/call/report.h"

#include "base/err.h"
#include "wire/json/json_text.h"
#include "wire/name_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OURS       "anyserve_" /* the names of the server's own metrics begin so */
#define NUMBER_MAX 64u         /* bytes of a value */

/* The text before the first `end`, which is taken off, too. A text without it is taken whole. */
static struct as_str take(struct as_str *rest, char end)
{
    const char *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    struct as_str s = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
    size_t used = at ? s.n + 1 : s.n;

    rest->p += used;
    rest->n -= used;
    return s;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(struct as_str s, bool colons)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!is_letter(c) && !(colons && c == ':') && !(i && c >= '0' && c <= '9'))
            return false;
    }
    return s.n > 0;
}

static bool starts_with(struct as_str s, struct as_str with)
{
    return s.n >= with.n && memcmp(s.p, with.p, with.n) == 0;
}

/* Labels at the front of *rest, with their braces: {a="text",b="text"}. Escapes: \\ \" \n. */
static bool take_labels(struct as_str *rest, struct as_str *ret)
{
    const char *p = rest->p, *end = rest->p + rest->n;

    if (p == end || *p++ != '{')
        return false;
    while (p < end && *p != '}') {
        const char *name = p;

        while (p < end && *p != '=')
            p++;
        if (!is_name((struct as_str){name, (size_t)(p - name)}, false) || end - p < 3 ||
            p[1] != '"')
            return false;
        for (p += 2; p < end && *p != '"'; p++) {
            if (*p == '\\' && (++p == end || (*p != '\\' && *p != '"' && *p != 'n')))
                return false;
        }
        if (p == end || ++p == end || (*p != ',' && *p != '}'))
            return false;
        if (*p == ',' && (++p == end || *p == '}'))
            return false;
    }
    if (p == end)
        return false;
    p++;
    *ret = (struct as_str){rest->p, (size_t)(p - rest->p)};
    rest->n = (size_t)(end - p);
    rest->p = p;
    return true;
}

static bool is_number(struct as_str s)
{
    static const char letters[] = "0123456789+-.eEnNaAiIfFtTyY"; /* inf, infinity, nan as well */
    char text[NUMBER_MAX + 1], *end;

    if (!s.n || s.n > NUMBER_MAX)
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    (void)strtod(text, &end);
    return end == text + s.n && strspn(text, letters) == s.n;
}

/* The bytes of the escape at p; 0: it is none. */
static size_t escape_len(const char *p, const char *end)
{
    if (end - p < 2)
        return 0;
    if (p[1] != 'u')
        return p[1] && strchr("\"\\/bfnrt", p[1]) ? 2 : 0;
    for (int i = 2; i < 6; i++) {
        if (p + i >= end || as_hex_digit(p[i]) < 0)
            return 0;
    }
    return 6;
}

/* A JSON string without line ends. */
static bool is_json_string(struct as_str s)
{
    const char *p = s.p + 1, *end = s.p + s.n;

    if (s.n < 2 || s.p[0] != '"')
        return false;
    while (p < end && *p != '"') {
        size_t n = *p == '\\' ? escape_len(p, end) : (unsigned char)*p >= ' ';

        if (!n)
            return false;
        p += n;
    }
    return p == end - 1;
}

static bool is_metric_kind(struct as_str s)
{
    return as_str_eq(s, AS_STR("counter")) || as_str_eq(s, AS_STR("gauge")) ||
           as_str_eq(s, AS_STR("histogram"));
}

/* NULL, or what is wrong with the line behind "F ". */
static const char *check_family(struct as_str line, struct as_report_family *ret_f)
{
    ret_f->name = take(&line, ' ');
    ret_f->kind = take(&line, ' ');
    ret_f->help = line;
    if (!is_name(ret_f->name, true))
        return "the name of the family is not one of a metric";
    if (starts_with(ret_f->name, AS_STR(OURS)))
        return "the name begins with " OURS ", as those of the server do";
    if (!is_metric_kind(ret_f->kind))
        return "the kind is neither counter, gauge nor histogram";
    return is_json_string(ret_f->help) ? NULL : "the help is not a JSON string";
}

static bool parse_series(struct as_str line, struct as_report_series *ret_s)
{
    ret_s->name = take(&line, ' ');
    if (!take_labels(&line, &ret_s->labels) || !line.n || line.p[0] != ' ')
        return false;
    ret_s->value = (struct as_str){line.p + 1, line.n - 1};
    return true;
}

static const char *check_series(struct as_str line, const struct as_report_family *f)
{
    struct as_report_series s;
    struct as_str suffix;

    if (!f->name.n)
        return "a series before its family";
    if (!parse_series(line, &s))
        return "it is not NAME {LABELS} VALUE";
    if (!is_number(s.value))
        return "the value is not a number";
    if (!starts_with(s.name, f->name))
        return "the series belongs to another family";
    suffix = (struct as_str){s.name.p + f->name.n, s.name.n - f->name.n};
    if (as_str_eq(f->kind, AS_STR("histogram")))
        return as_str_eq(suffix, AS_STR("_sum")) || as_str_eq(suffix, AS_STR("_count")) ||
                       as_str_eq(suffix, AS_STR("_bucket"))
                   ? NULL
                   : "a series of a histogram is neither _sum, _count nor _bucket";
    return !suffix.n ? NULL : "the series belongs to another family";
}

static int check_metrics(struct as_str text, char *why, size_t cap)
{
    struct as_report_family f = {0};

    if (!as_name_check_utf8(text)) { /* one such byte, and Prometheus reads nothing of the page */
        snprintf(why, cap, "the metrics are not UTF-8");
        return AS_EINVALID;
    }
    for (uint32_t n = 1; text.n; n++) {
        struct as_str line = take(&text, '\n'), rest = {line.p + 2, line.n - 2};
        const char *wrong = "it begins with neither F nor S";

        if (line.n > 2 && line.p[1] == ' ' && line.p[0] == 'F')
            wrong = check_family(rest, &f);
        else if (line.n > 2 && line.p[1] == ' ' && line.p[0] == 'S')
            wrong = check_series(rest, &f);
        if (wrong) {
            snprintf(why, cap, "line %u of the metrics: %s", n, wrong);
            return AS_EINVALID;
        }
    }
    return 0;
}

/* A whole JSON text of that type, on however many lines. */
static int check_json(struct as_str text, enum as_json_type type, char *why, size_t cap)
{
    struct as_json_value root;
    struct as_json_text t;
    int err = as_json_text_open(&t, text, &root);

    if (t.json) {
        if (!err && root.type != type)
            err = AS_EINVALID;
        if (!err)
            err = as_json_skip(t.json, &root);
        if (!err)
            err = as_json_expect_end(t.json);
        snprintf(why, cap, "%s",
                 err == AS_EINVALID
                     ? (type == AS_JSON_ARRAY ? "it is no JSON array" : "it is no JSON object")
                     : as_json_why(t.json));
    }
    as_json_text_close(&t);
    return err ? AS_EINVALID : 0;
}

int as_report_check(uint32_t kind, struct as_str text, char *why, size_t cap)
{
    if (!text.n) /* nothing any more */
        return 0;
    if (kind == AS_REPORT_METRICS)
        return check_metrics(text, why, cap);
    return check_json(text, kind == AS_REPORT_MODEL_IDS ? AS_JSON_ARRAY : AS_JSON_OBJECT, why, cap);
}

static int check_numbers(struct as_json *j, struct as_json_value *object, uint32_t max_names,
                         char *why, size_t cap)
{
    struct as_json_items it;
    uint32_t n = 0;
    double v;
    int more;

    if (object->type != AS_JSON_OBJECT || as_json_items(j, object, &it)) {
        snprintf(why, cap, "it is no JSON object");
        return AS_EINVALID;
    }
    while ((more = as_json_next(j, &it)) > 0) {
        if (++n > max_names) {
            snprintf(why, cap, "it has more than %u values (--max-scaling-stats)", max_names);
            return AS_EINVALID;
        }
        if (!it.key.n) {
            snprintf(why, cap, "a value has no name");
            return AS_EINVALID;
        }
        if (it.value.type != AS_JSON_BOOL &&
            (it.value.type != AS_JSON_NUMBER || as_json_f64(j, &it.value, &v) || !isfinite(v))) {
            snprintf(why, cap, "'%.*s' is no finite number", AS_STR_CUT(it.key, NUMBER_MAX));
            return AS_EINVALID;
        }
    }
    return more < 0 ? AS_EINVALID : 0;
}

int as_report_check_stats(struct as_str text, uint32_t max_names, char *why, size_t cap)
{
    struct as_json_value root;
    struct as_json_text t;
    int err = AS_EINVALID;

    if (!text.n) /* nothing any more */
        return 0;
    snprintf(why, cap, "it is no JSON object");
    if (as_json_text_open(&t, text, &root) == 0)
        err = check_numbers(t.json, &root, max_names, why, cap);
    if (!err && as_json_expect_end(t.json))
        err = AS_EINVALID;
    as_json_text_close(&t);
    return err;
}

bool as_report_next_family(struct as_str *rest, struct as_report_family *ret_f)
{
    struct as_str line;
    const char *from;

    if (!rest->n)
        return false;
    line = take(rest, '\n');
    (void)check_family((struct as_str){line.p + 2, line.n - 2}, ret_f);
    from = rest->p;
    while (rest->n && rest->p[0] == 'S')
        take(rest, '\n');
    ret_f->series = (struct as_str){from, (size_t)(rest->p - from)};
    return true;
}

bool as_report_next_series(struct as_str *rest, struct as_report_series *ret_s)
{
    struct as_str line;

    if (!rest->n)
        return false;
    line = take(rest, '\n');
    return parse_series((struct as_str){line.p + 2, line.n - 2}, ret_s);
}
