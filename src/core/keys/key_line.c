#include "core/keys/key_line.h"

#include "base/suggest.h"

#define DAY 86400u

static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* --- the text of a key --- */

void as_key_text(const uint8_t bytes[AS_KEY_BYTES], char ret_text[AS_KEY_TEXT + 1])
{
    char *p = ret_text;

    memcpy(p, "as_", 3);
    p += 3;
    for (size_t bit = 0; bit < (size_t)AS_KEY_BYTES * 8; bit += 6) {
        uint32_t two = (uint32_t)bytes[bit / 8] << 8;

        if (bit / 8 + 1 < AS_KEY_BYTES)
            two |= bytes[bit / 8 + 1];
        *p++ = base64url[two >> (10 - bit % 8) & 63];
    }
    *p = 0;
}

bool as_key_text_has_form(struct as_str text)
{
    return text.n == AS_KEY_TEXT && memcmp(text.p, "as_", 3) == 0;
}

/* --- values --- */

static bool is_visible(char c)
{
    return c > ' ' && c < 0x7f;
}

int as_key_line_parse_name(struct as_str text, struct as_buf *err)
{
    bool valid = text.n >= 1 && text.n <= AS_KEY_NAME_MAX;

    for (size_t i = 0; valid && i < text.n; i++)
        valid = is_visible(text.p[i]) && !strchr("#=,\"'\\", text.p[i]);
    if (valid)
        return 0;
    as_buf_printf(err,
                  "must be 1 to %u visible ASCII characters without space, comma, #, =, quotation "
                  "mark and backslash",
                  AS_KEY_NAME_MAX);
    return AS_EINVALID;
}

int as_key_line_parse_patterns(struct as_str text, struct as_buf *err)
{
    bool valid = text.n > 0 && text.p[text.n - 1] != ',';
    struct as_str rest = text;

    for (size_t i = 0; valid && i < text.n; i++)
        valid = is_visible(text.p[i]);
    while (valid && rest.n)
        valid = as_str_split(&rest, ',').n > 0;
    if (valid)
        return 0;
    as_buf_str(err, "must be names or patterns with * and ?, separated by commas, without spaces");
    return AS_EINVALID;
}

int as_key_line_parse_count(struct as_str text, uint32_t most, uint32_t *ret_n, struct as_buf *err)
{
    uint64_t n;

    if (as_str_u64(text, &n) || n < 1 || n > most) {
        as_buf_printf(err, "must be a whole number from 1 to %u", most);
        return AS_EINVALID;
    }
    *ret_n = (uint32_t)n;
    return 0;
}

int as_key_line_parse_rate(struct as_str text, struct as_key_line *k, struct as_buf *err)
{
    struct as_buf none = {0};
    uint32_t n = 0, period = 0;

    if (text.n > 2 && text.p[text.n - 2] == '/') {
        char unit = text.p[text.n - 1];

        period = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
        text.n -= 2;
    }
    if (period && as_key_line_parse_count(text, AS_KEY_RATE_MAX, &n, &none))
        period = 0;
    as_buf_fini(&none);
    if (!period) {
        as_buf_printf(err, "must be N/s, N/m or N/h with N from 1 to %u, like 10/s",
                      AS_KEY_RATE_MAX);
        return AS_EINVALID;
    }
    k->rate = n;
    k->rate_period = period;
    k->burst = AS_MAX(n / period, 1u);
    return 0;
}

/* --- times --- */

/* A number of n digits at *p, not above `most`. */
static bool read_digits(const char **p, const char *end, unsigned n, uint32_t most, uint32_t *ret_v)
{
    uint32_t v = 0;

    if ((size_t)(end - *p) < n)
        return false;
    for (; n; n--, (*p)++) {
        if (**p < '0' || **p > '9')
            return false;
        v = 10 * v + (uint32_t)(**p - '0');
    }
    *ret_v = v;
    return v <= most;
}

static bool read_char(const char **p, const char *end, const char *set)
{
    return *p < end && **p && strchr(set, *(*p)++);
}

static bool is_leap(uint32_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static uint32_t days_of_month(uint32_t year, uint32_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return (uint32_t)days[month - 1] + (month == 2 && is_leap(year) ? 1u : 0u);
}

/* Days from 1970-01-01 to the first of January. */
static uint64_t days_before_year(uint32_t year)
{
    uint64_t y = year - 1;

    return 365 * y + y / 4 - y / 100 + y / 400 - 719162;
}

static bool read_date(const char **p, const char *end, uint64_t *ret_days)
{
    uint32_t year, month, day;

    if (!read_digits(p, end, 4, 9999, &year) || !read_char(p, end, "-") ||
        !read_digits(p, end, 2, 12, &month) || !read_char(p, end, "-") ||
        !read_digits(p, end, 2, 31, &day) || year < 1971 || !month || !day ||
        day > days_of_month(year, month))
        return false;
    *ret_days = days_before_year(year) + day - 1;
    for (uint32_t m = 1; m < month; m++)
        *ret_days += days_of_month(year, m);
    return true;
}

/* RFC 3339 §5.6: partial-time and time-offset; a part of a second is dropped. */
static bool read_time(const char **p, const char *end, int64_t *ret_s)
{
    uint32_t hour, minute, second, offset_hour = 0, offset_minute = 0;
    char sign;

    if (!read_digits(p, end, 2, 23, &hour) || !read_char(p, end, ":") ||
        !read_digits(p, end, 2, 59, &minute) || !read_char(p, end, ":") ||
        !read_digits(p, end, 2, 59, &second))
        return false;
    if (*p < end && **p == '.') {
        const char *from = ++*p;

        while (*p < end && **p >= '0' && **p <= '9')
            (*p)++;
        if (*p == from)
            return false;
    }
    if (!read_char(p, end, "Zz+-"))
        return false;
    sign = (*p)[-1];
    if ((sign == '+' || sign == '-') &&
        (!read_digits(p, end, 2, 23, &offset_hour) || !read_char(p, end, ":") ||
         !read_digits(p, end, 2, 59, &offset_minute)))
        return false;
    *ret_s = 3600 * (int64_t)hour + 60 * (int64_t)minute + second;
    *ret_s -= (sign == '-' ? -60 : 60) * (60 * (int64_t)offset_hour + offset_minute);
    return true;
}

int as_key_line_parse_time(struct as_str text, uint64_t *ret_s, struct as_buf *err)
{
    const char *p = text.p, *end = text.p + text.n;
    uint64_t days;
    int64_t s = 0;

    if (!text.n || !read_date(&p, end, &days) ||
        (p < end && (!read_char(&p, end, "Tt") || !read_time(&p, end, &s))) || p != end) {
        as_buf_str(err, "must be a date like 2027-01-31 or a time like 2027-01-31T12:00:00Z, from "
                        "1971 on");
        return AS_EINVALID;
    }
    *ret_s = days * DAY + (uint64_t)s; /* days is above that of a negative s */
    return 0;
}

void as_key_line_put_time(uint64_t s, struct as_buf *out)
{
    uint64_t days = s / DAY, left = s % DAY;
    uint32_t year = 1970, month = 1;

    while (days >= days_before_year(year + 1))
        year++;
    days -= days_before_year(year);
    while (days >= days_of_month(year, month))
        days -= days_of_month(year, month++);
    as_buf_printf(out, "%04u-%02u-%02uT%02u:%02u:%02uZ", year, month, (unsigned)days + 1,
                  (unsigned)(left / 3600), (unsigned)(left / 60 % 60), (unsigned)(left % 60));
}

/* --- fields --- */

enum field {
    FIELD_NAME,
    FIELD_SHA256,
    FIELD_TENANT,
    FIELD_MODELS,
    FIELD_APPLICATIONS,
    FIELD_RATE,
    FIELD_BURST,
    FIELD_IN_FLIGHT,
    FIELD_EXPIRES,
    FIELDS
};

static const char *const field_names[FIELDS] = {
    "name", "sha256", "tenant", "models", "applications", "rate", "burst", "in-flight", "expires"};

/* FIELDS: it is none, and err says so; without the name, which may be a key in the wrong place. */
static enum field find_field(struct as_str name, struct as_buf *err)
{
    struct as_suggest near = {.key = name};
    struct as_str best;

    for (uint32_t i = 0; i < FIELDS; i++) {
        if (as_str_eq(name, as_str_of(field_names[i])))
            return (enum field)i;
    }
    for (uint32_t i = 0; i < FIELDS; i++)
        as_suggest_offer(&near, as_str_of(field_names[i]));
    best = as_suggest_best(&near);
    if (best.n)
        as_buf_printf(err, "unknown field; did you mean '%.*s'?", AS_STR_FMT(best));
    else
        as_buf_str(err, "unknown field; the fields are name, sha256, tenant, models, applications, "
                        "rate, burst, in-flight, expires");
    return FIELDS;
}

static int read_digest(struct as_str text, uint8_t ret_digest[AS_SHA256_BYTES], struct as_buf *err)
{
    if (!as_sha256_is_hex(text)) {
        as_buf_printf(err, "must be %u hexadecimal digits in lower case", AS_SHA256_HEX);
        return AS_EINVALID;
    }
    for (size_t i = 0; i < AS_SHA256_BYTES; i++)
        ret_digest[i] =
            (uint8_t)(as_hex_digit(text.p[2 * i]) * 16 + as_hex_digit(text.p[2 * i + 1]));
    return 0;
}

static int read_value(enum field field, struct as_str v, struct as_key_line *k, struct as_buf *err)
{
    switch (field) {
    case FIELD_NAME:
        k->name = v;
        return as_key_line_parse_name(v, err);
    case FIELD_SHA256:
        return read_digest(v, k->digest, err);
    case FIELD_TENANT:
        k->tenant = v;
        return as_key_line_parse_name(v, err);
    case FIELD_MODELS:
        k->models = v;
        return as_key_line_parse_patterns(v, err);
    case FIELD_APPLICATIONS:
        k->applications = v;
        return as_key_line_parse_patterns(v, err);
    case FIELD_RATE:
        return as_key_line_parse_rate(v, k, err);
    case FIELD_BURST:
        return as_key_line_parse_count(v, AS_KEY_RATE_MAX, &k->burst, err);
    case FIELD_IN_FLIGHT:
        return as_key_line_parse_count(v, AS_KEY_LIMIT_MAX, &k->in_flight, err);
    case FIELD_EXPIRES:
        return as_key_line_parse_time(v, &k->expires, err);
    case FIELDS:
    default:
        return AS_EINVALID;
    }
}

bool as_key_line_is_comment(struct as_str line)
{
    line = as_str_trim(line);
    return !line.n || line.p[0] == '#';
}

/* The text up to the next space or tab; *rest becomes what follows the spaces. */
static struct as_str next_word(struct as_str *rest)
{
    struct as_str word = *rest;
    size_t n = 0;

    while (n < rest->n && rest->p[n] != ' ' && rest->p[n] != '\t')
        n++;
    word.n = n;
    rest->p += n;
    rest->n -= n;
    *rest = as_str_trim(*rest);
    return word;
}

static int read_field(struct as_str word, struct as_key_line *k, uint32_t *seen, struct as_buf *err)
{
    const char *equals = memchr(word.p, '=', word.n);
    struct as_str name = {word.p, equals ? (size_t)(equals - word.p) : word.n}, value;
    struct as_buf why = {0};
    enum field field;
    int rc;

    if (!equals) {
        as_buf_str(err, "a line is made of NAME=VALUE, and one of its words has no '='");
        return AS_EINVALID;
    }
    field = find_field(name, err);
    if (field == FIELDS)
        return AS_EINVALID;
    if (*seen & 1u << field) {
        as_buf_printf(err, "'%s' is given twice", field_names[field]);
        return AS_EINVALID;
    }
    *seen |= 1u << field;
    value = (struct as_str){equals + 1, (size_t)(word.p + word.n - equals) - 1};
    rc = read_value(field, value, k, &why);
    if (rc)
        as_buf_printf(err, "'%s' %.*s", field_names[field], AS_STR_FMT(as_buf_slice(&why)));
    as_buf_fini(&why);
    return rc;
}

int as_key_line_parse(struct as_str line, struct as_key_line *ret_k, struct as_buf *err)
{
    struct as_key_line k = {.models = AS_STR("*"), .applications = AS_STR("*")};
    struct as_str rest = as_str_trim(line);
    uint32_t seen = 0, burst;

    if (line.n > AS_KEY_LINE_MAX) {
        as_buf_printf(err, "the line is longer than %u bytes", AS_KEY_LINE_MAX);
        return AS_EINVALID;
    }
    while (rest.n) {
        burst = seen & 1u << FIELD_BURST ? k.burst : 0;
        if (read_field(next_word(&rest), &k, &seen, err))
            return AS_EINVALID;
        if (burst) /* it stands before the rate */
            k.burst = burst;
    }
    if (!(seen & 1u << FIELD_NAME))
        as_buf_str(err, "'name' is missing");
    else if (!(seen & 1u << FIELD_SHA256))
        as_buf_str(err, "'sha256' is missing");
    else if (seen & 1u << FIELD_BURST && !k.rate)
        as_buf_str(err, "'burst' is given without 'rate'");
    else
        *ret_k = k;
    return (seen & 3u) == 3u && !(seen & 1u << FIELD_BURST && !k.rate) ? 0 : AS_EINVALID;
}

static void put_patterns(const char *name, struct as_str patterns, struct as_buf *out)
{
    if (!as_str_eq(patterns, AS_STR("*")))
        as_buf_printf(out, " %s=%.*s", name, AS_STR_FMT(patterns));
}

void as_key_line_put_rate(const struct as_key_line *k, struct as_buf *out)
{
    as_buf_printf(out, "%u/%c", k->rate,
                  k->rate_period == 1    ? 's'
                  : k->rate_period == 60 ? 'm'
                                         : 'h');
}

void as_key_line_put(const struct as_key_line *k, struct as_buf *out)
{
    as_buf_printf(out, "name=%.*s sha256=", AS_STR_FMT(k->name));
    for (size_t i = 0; i < AS_SHA256_BYTES; i++)
        as_buf_printf(out, "%02x", k->digest[i]);
    if (k->tenant.n)
        as_buf_printf(out, " tenant=%.*s", AS_STR_FMT(k->tenant));
    put_patterns("models", k->models, out);
    put_patterns("applications", k->applications, out);
    if (k->rate) {
        as_buf_str(out, " rate=");
        as_key_line_put_rate(k, out);
        if (k->burst != AS_MAX(k->rate / k->rate_period, 1u))
            as_buf_printf(out, " burst=%u", k->burst);
    }
    if (k->in_flight)
        as_buf_printf(out, " in-flight=%u", k->in_flight);
    if (k->expires) {
        as_buf_str(out, " expires=");
        as_key_line_put_time(k->expires, out);
    }
    as_buf_str(out, "\n");
}
