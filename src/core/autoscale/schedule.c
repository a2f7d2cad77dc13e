#include "core/autoscale/schedule.h"

#define DAYS  7u
#define DAILY 0x7fu

static const char *const day_names[DAYS] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};

static bool equals_lower(struct as_str s, const char *name)
{
    if (s.n != strlen(name))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if ((c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c) != name[i])
            return false;
    }
    return true;
}

static bool parse_day(struct as_str s, uint32_t *ret_day)
{
    for (uint32_t i = 0; i < DAYS; i++) {
        if (equals_lower(s, day_names[i])) {
            *ret_day = i;
            return true;
        }
    }
    return false;
}

/* The part of *rest before the separator, which is removed. */
static struct as_str take_until(struct as_str *rest, char separator)
{
    const char *at = rest->n ? memchr(rest->p, separator, rest->n) : NULL;
    struct as_str part = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
    size_t used = part.n + (at != NULL);

    *rest = (struct as_str){rest->p + used, rest->n - used};
    return part;
}

static bool parse_range(struct as_str part, uint8_t *days)
{
    struct as_str last = part, first = take_until(&last, '-');
    uint32_t from, to;

    if (!parse_day(first, &from))
        return false;
    to = from;
    if (first.n < part.n && !parse_day(last, &to))
        return false;
    for (uint32_t i = from;; i = (i + 1) % DAYS) {
        *days = (uint8_t)(*days | 1u << i);
        if (i == to)
            return true;
    }
}

bool as_schedule_parse_days(struct as_str text, uint8_t *ret_days)
{
    struct as_str rest = text;
    uint8_t days = 0;

    if (equals_lower(text, "daily")) {
        *ret_days = DAILY;
        return true;
    }
    if (!text.n || text.p[text.n - 1] == ',')
        return false;
    while (rest.n) {
        if (!parse_range(take_until(&rest, ','), &days))
            return false;
    }
    *ret_days = days;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool as_schedule_parse_time(struct as_str text, uint16_t *ret_minute)
{
    uint32_t hour, minute;

    if (text.n != 5 || text.p[2] != ':' || !is_digit(text.p[0]) || !is_digit(text.p[1]) ||
        !is_digit(text.p[3]) || !is_digit(text.p[4]))
        return false;
    hour = (uint32_t)(10 * (text.p[0] - '0') + text.p[1] - '0');
    minute = (uint32_t)(10 * (text.p[3] - '0') + text.p[4] - '0');
    if (minute > 59 || 60 * hour + minute > AS_DAY_MINUTES)
        return false;
    *ret_minute = (uint16_t)(60 * hour + minute);
    return true;
}

static bool holds(const struct as_schedule_entry *e, const struct as_wall_time *t)
{
    uint32_t yesterday = (t->day + DAYS - 1) % DAYS;

    if (e->start < e->end)
        return (e->days >> t->day & 1) && t->minute >= e->start && t->minute < e->end;
    return ((e->days >> t->day & 1) && t->minute >= e->start) ||
           ((e->days >> yesterday & 1) && t->minute < e->end);
}

uint32_t as_schedule_minimum(const struct as_schedule *s, const struct as_wall_time *t)
{
    uint32_t least = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        if (holds(&s->entry[i], t))
            least = AS_MAX(least, s->entry[i].min_replicas);
    }
    return least;
}
