#include "tool/simulate/pattern.h"

#include "tool/simulate/quantity.h"

#include <math.h>

#define PI 3.14159265358979323846

static int refuse(struct as_buf *err, struct as_str text, const char *why)
{
    as_buf_printf(err, "'%.*s' %s", AS_STR_CUT(text, 200), why);
    return AS_EINVALID;
}

static int read_time(struct as_str text, as_ns *ret_ns, struct as_buf *err)
{
    if (as_quantity_duration(text, AS_PATTERN_TIME_MAX, ret_ns) < 0)
        return refuse(err, text, "is not a time of at most 24h, as 10ms or 1.5s");
    return 0;
}

static int read_rate(struct as_str text, double *ret_rate, struct as_buf *err)
{
    if (as_quantity_number(text, AS_PATTERN_RATE_MAX, ret_rate) < 0)
        return refuse(err, text, "is not a rate: requests per second, at most 1000000");
    return 0;
}

/* The part before the next ':'. False: nothing is left. */
static bool next_part(struct as_str *rest, struct as_str *ret_part)
{
    if (!rest->p)
        return false;
    for (size_t i = 0; i < rest->n; i++) {
        if (rest->p[i] == ':') {
            *ret_part = (struct as_str){rest->p, i};
            *rest = (struct as_str){rest->p + i + 1, rest->n - i - 1};
            return true;
        }
    }
    *ret_part = *rest;
    *rest = (struct as_str){0};
    return true;
}

#define PARTS_MAX 4u

/* Splits "KIND:A:B:C"; the number of parts behind the kind, -1: too many. */
static int split(struct as_str text, struct as_str *ret_kind, struct as_str parts[PARTS_MAX])
{
    struct as_str rest = text, part;
    int n = 0;

    if (!next_part(&rest, ret_kind))
        return -1;
    while (next_part(&rest, &part)) {
        if (n == (int)PARTS_MAX)
            return -1;
        parts[n++] = part;
    }
    return n;
}

/* --- service times --- */

#define SERVICE_FORM "is none of constant:TIME, exponential:TIME, lognormal:MEAN:CV"

int as_service_pattern_parse(struct as_service_pattern *ret_p, struct as_str text,
                             struct as_buf *err)
{
    static const char *const kinds[] = {"constant", "exponential", "lognormal"};
    struct as_service_pattern p = {0};
    struct as_str kind = {0}, parts[PARTS_MAX];
    int n = split(text, &kind, parts), rc;
    double cv = 0;
    as_ns mean;

    while (p.kind < AS_COUNT(kinds) && !as_str_eq(kind, as_str_of(kinds[p.kind])))
        p.kind++;
    if (p.kind == AS_COUNT(kinds) || n != 1 + (p.kind == AS_SERVICE_LOGNORMAL))
        return refuse(err, text, SERVICE_FORM);
    rc = read_time(parts[0], &mean, err);
    if (rc < 0)
        return rc;
    if (n == 2 && as_quantity_number(parts[1], AS_PATTERN_CV_MAX, &cv) < 0)
        return refuse(err, parts[1], "is not a coefficient of variation from 0 to 100");
    p.mean = (double)mean;
    if (p.kind == AS_SERVICE_LOGNORMAL) {
        p.sigma = sqrt(log1p(cv * cv));
        p.mu = log(AS_MAX(p.mean, 1.0)) - p.sigma * p.sigma / 2;
    }
    *ret_p = p;
    return 0;
}

as_ns as_service_pattern_draw(const struct as_service_pattern *p, struct as_rand *rand)
{
    double ns = p->mean, u, v;

    if (p->kind == AS_SERVICE_EXPONENTIAL) {
        ns *= -log(as_rand_unit(rand));
    } else if (p->kind == AS_SERVICE_LOGNORMAL) {
        u = as_rand_unit(rand);
        v = as_rand_unit(rand);
        /* Box and Muller: a normal variate from two uniform ones */
        ns = exp(p->mu + p->sigma * sqrt(-2 * log(u)) * cos(2 * PI * v));
    }
    return (as_ns)AS_MIN(ns + 0.5, (double)AS_PATTERN_TIME_MAX);
}

/* --- arrivals --- */

#define ARRIVAL_FORM                                                                               \
    "is none of constant:RATE, poisson:RATE, steps:RATE@TIME,…, sine:LOW:HIGH:PERIOD"

static int parse_steps(struct as_arrival_pattern *p, struct as_str text, struct as_buf *err)
{
    as_ns end = 0, lasts;
    int rc;

    while (text.n) {
        struct as_str rest = as_str_split(&text, ','), rate = as_str_split(&rest, '@');

        if (p->n_steps == AS_PATTERN_STEPS)
            return refuse(err, rate, "is step 65; there may be 64");
        rc = read_rate(rate, &p->steps[p->n_steps].rate, err);
        if (rc == 0)
            rc = read_time(rest, &lasts, err);
        if (rc < 0)
            return rc;
        end += lasts;
        p->steps[p->n_steps].end = end;
        p->high = AS_MAX(p->high, p->steps[p->n_steps].rate);
        p->n_steps++;
    }
    return 0;
}

int as_arrival_pattern_parse(struct as_arrival_pattern *ret_p, struct as_str text,
                             struct as_buf *err)
{
    static const struct {
        const char *name;
        int n;
    } kinds[] = {{"constant", 1}, {"poisson", 1}, {"steps", 1}, {"sine", 3}};
    struct as_arrival_pattern p = {0};
    struct as_str kind = {0}, parts[PARTS_MAX];
    int n = split(text, &kind, parts), rc;

    while (p.kind < AS_COUNT(kinds) && !as_str_eq(kind, as_str_of(kinds[p.kind].name)))
        p.kind++;
    if (p.kind == AS_COUNT(kinds) || n != kinds[p.kind].n)
        return refuse(err, text, ARRIVAL_FORM);
    if (p.kind == AS_ARRIVAL_STEPS)
        rc = parse_steps(&p, parts[0], err);
    else
        rc = read_rate(parts[0], &p.low, err);
    if (rc == 0 && p.kind != AS_ARRIVAL_STEPS)
        p.high = p.low;
    if (rc == 0 && p.kind == AS_ARRIVAL_SINE)
        rc = read_rate(parts[1], &p.high, err);
    if (rc == 0 && p.kind == AS_ARRIVAL_SINE)
        rc = read_time(parts[2], &p.period, err);
    if (rc < 0)
        return rc;
    if (p.high < 1e-6 || p.high < p.low || (p.kind == AS_ARRIVAL_SINE && !p.period))
        return refuse(err, text,
                      "has no rate above 0, the high one below the low one, or no period");
    *ret_p = p;
    return 0;
}

/* Requests per second at a time; negative: behind the last step. */
static double rate_at(const struct as_arrival_pattern *p, double ns)
{
    double middle = (p->low + p->high) / 2;

    if (p->kind == AS_ARRIVAL_SINE)
        return middle + (p->high - middle) * sin(2 * PI * ns / (double)p->period);
    if (p->kind != AS_ARRIVAL_STEPS)
        return p->high;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (ns < (double)p->steps[i].end)
            return p->steps[i].rate;
    }
    return -1;
}

as_ns as_arrival_pattern_next(struct as_arrival_pattern *p, struct as_rand *rand)
{
    double rate = p->high;

    if (p->kind == AS_ARRIVAL_CONSTANT) {
        p->last = (double)p->n++ * (double)AS_SEC / p->high + 0.5;
        return p->last > (double)AS_PATTERN_ARRIVAL_MAX ? AS_NEVER : (as_ns)p->last;
    }
    /* a rate that changes: of arrivals at the highest one, the part that belongs to the rate at
     * that time */
    do {
        p->last -= log(as_rand_unit(rand)) * (double)AS_SEC / p->high;
        rate = rate_at(p, p->last);
    } while (rate >= 0 && rate < p->high && as_rand_unit(rand) * p->high >= rate);
    p->n++;
    return rate < 0 || p->last > (double)AS_PATTERN_ARRIVAL_MAX ? AS_NEVER : (as_ns)p->last;
}
