#include "conf/option/option_row.h"

struct unit {
    const char *name;
    int64_t factor;
};

/* Largest unit first: a value is written with the largest unit that divides it. */
static const struct unit sizes[] = {{"T", (int64_t)1 << 40},
                                    {"G", (int64_t)1 << 30},
                                    {"M", (int64_t)1 << 20},
                                    {"K", (int64_t)1 << 10},
                                    {"", 1}};
static const struct unit times[] = {{"h", 3600 * (int64_t)AS_SEC}, {"m", 60 * (int64_t)AS_SEC},
                                    {"s", (int64_t)AS_SEC},        {"ms", (int64_t)AS_MS},
                                    {"us", (int64_t)AS_US},        {"ns", 1}};

struct as_str as_option_word(const char *words, size_t i)
{
    const char *p = words;

    for (;;) {
        const char *end = strchr(p, '|');
        size_t n = end ? (size_t)(end - p) : strlen(p);

        if (i == 0)
            return (struct as_str){p, n};
        if (!end)
            return (struct as_str){NULL, 0};
        p = end + 1;
        i--;
    }
}

int64_t as_option_find_word(const char *words, struct as_str word)
{
    for (size_t i = 0; as_option_word(words, i).p; i++) {
        if (as_str_eq(as_option_word(words, i), word))
            return (int64_t)i;
    }
    return -1;
}

void as_option_put_words(const char *words, const char *between, struct as_buf *out)
{
    for (size_t i = 0; as_option_word(words, i).p; i++)
        as_buf_printf(out, "%s%.*s", i ? between : "", AS_STR_FMT(as_option_word(words, i)));
}

static bool is_number(enum as_option_type type)
{
    return type == AS_OPTION_INT || type == AS_OPTION_SIZE || type == AS_OPTION_DURATION;
}

/* Writes `v` with a unit, for messages and for the parser. */
static void write_number(const struct as_option_row *row, int64_t v, struct as_buf *out)
{
    const struct unit *u = row->type == AS_OPTION_SIZE ? sizes : times;
    size_t n = row->type == AS_OPTION_SIZE ? AS_COUNT(sizes) : AS_COUNT(times);

    if (v == 0 && row->words[0]) {
        as_buf_str(out, row->words);
        return;
    }
    if (row->type == AS_OPTION_INT || v == 0) {
        as_buf_printf(out, "%lld%s", (long long)v, row->type == AS_OPTION_DURATION ? "s" : "");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (v % u[i].factor == 0) {
            as_buf_printf(out, "%lld%s", (long long)(v / u[i].factor), u[i].name);
            return;
        }
    }
}

/* Digits with an optional sign and, for sizes and times, a unit. */
static int read_number(const struct as_option_row *row, const char *text, int64_t *ret_v)
{
    const struct unit *u = row->type == AS_OPTION_SIZE ? sizes : times;
    size_t n = row->type == AS_OPTION_SIZE ? AS_COUNT(sizes) : AS_COUNT(times);
    const char *p = text;
    bool neg = *p == '-';
    int64_t v = 0, factor = 0;

    if (neg)
        p++;
    if (*p < '0' || *p > '9')
        return AS_EINVALID;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
            v = INT64_MAX; /* above all bounds; the loop still skips the other digits */
    }
    if (row->type == AS_OPTION_INT) {
        factor = *p ? 0 : 1;
    } else if (row->type == AS_OPTION_DURATION && !*p) {
        factor = (int64_t)AS_SEC;
    } else {
        for (size_t i = 0; i < n; i++) {
            if (strcmp(p, u[i].name) == 0)
                factor = u[i].factor;
        }
    }
    if (factor == 0)
        return AS_EINVALID;
    if (__builtin_mul_overflow(v, factor, &v))
        v = INT64_MAX;
    *ret_v = neg ? -v : v;
    return 0;
}

static const char *const expected[] = {
    [AS_OPTION_BOOL] = "on or off",
    [AS_OPTION_INT] = "a whole number",
    [AS_OPTION_SIZE] = "a size (bytes, or with K, M, G, T)",
    [AS_OPTION_DURATION] = "a time (seconds, or with ns, us, ms, s, m, h)",
};

static int check_number(const struct as_option_row *row, int64_t v, struct as_buf *err)
{
    if (v < row->min) {
        as_buf_str(err, "is below the minimum ");
        write_number(row, row->min, err);
        return AS_EINVALID;
    }
    if (v > row->max) {
        as_buf_str(err, "is above the maximum ");
        write_number(row, row->max, err);
        return AS_EINVALID;
    }
    return 0;
}

static int read_string(const struct as_option_row *row, const char *text,
                       struct as_option_value *ret_v, struct as_buf *err)
{
    size_t n = strlen(text);

    if ((int64_t)n < row->min || (int64_t)n > row->max) {
        as_buf_printf(err, "must have %lld to %lld bytes", (long long)row->min,
                      (long long)row->max);
        return AS_EINVALID;
    }
    ret_v->s = text;
    return 0;
}

static int read_word(const struct as_option_row *row, const char *text,
                     struct as_option_value *ret_v, struct as_buf *err)
{
    int64_t i = as_option_find_word(row->words, as_str_of(text));

    if (i < 0) {
        as_buf_str(err, "is not one of ");
        as_option_put_words(row->words, ", ", err);
        return AS_EINVALID;
    }
    ret_v->i = i;
    ret_v->s = text;
    return 0;
}

static int read_bool(const char *text, struct as_option_value *ret_v, struct as_buf *err)
{
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes", "0", "1"};

    for (size_t i = 0; i < AS_COUNT(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            ret_v->i = (int64_t)(i % 2);
            return 0;
        }
    }
    as_buf_printf(err, "is not %s", expected[AS_OPTION_BOOL]);
    return AS_EINVALID;
}

int as_option_read(const struct as_option_row *row, const char *text, struct as_option_value *ret_v,
                   struct as_buf *err)
{
    int64_t v;
    int rc;

    switch (row->type) {
    case AS_OPTION_STRING:
    case AS_OPTION_LIST:
        return read_string(row, text, ret_v, err);
    case AS_OPTION_ENUM:
        return read_word(row, text, ret_v, err);
    case AS_OPTION_BOOL:
        return read_bool(text, ret_v, err);
    case AS_OPTION_INT:
    case AS_OPTION_SIZE:
    case AS_OPTION_DURATION:
        break;
    }
    if (row->words[0] && strcmp(text, row->words) == 0) {
        ret_v->i = 0;
        return 0;
    }
    if (read_number(row, text, &v) < 0) {
        as_buf_printf(err, "is not %s", expected[row->type]);
        return AS_EINVALID;
    }
    rc = check_number(row, v, err);
    if (rc == 0)
        ret_v->i = v;
    return rc;
}

void as_option_write(const struct as_option_row *row, const struct as_option_value *v,
                     struct as_buf *out)
{
    struct as_str w;

    if (is_number(row->type)) {
        write_number(row, v->i, out);
    } else if (row->type == AS_OPTION_STRING || row->type == AS_OPTION_LIST) {
        as_buf_str(out, v->s);
    } else if (row->type == AS_OPTION_BOOL) {
        as_buf_str(out, v->i ? "on" : "off");
    } else {
        w = as_option_word(row->words, (size_t)v->i);
        as_buf_add(out, w.p, w.n);
    }
}

const char *as_option_placeholder(const struct as_option_row *row)
{
    switch (row->type) {
    case AS_OPTION_BOOL:
        return "";
    case AS_OPTION_INT:
        return "N";
    case AS_OPTION_SIZE:
        return "SIZE";
    case AS_OPTION_DURATION:
        return "TIME";
    case AS_OPTION_STRING:
    case AS_OPTION_ENUM:
    case AS_OPTION_LIST:
        break;
    }
    return row->words;
}
