#include "core/autoscale/autoscale_config.h"

#include <math.h>

struct number {
    const char *key;
    size_t offset;
    double def, most;
    bool zero, whole;
};

static const struct number numbers[] = {
#define X(key, field, def, most, zero, whole)                                                      \
    {key, offsetof(struct as_autoscale_config, field), def, most, zero, whole},
    AS_AUTOSCALE_NUMBER_TABLE(X)
#undef X
};

static const char *const aggregations[] = {
    [AS_LOAD_MEAN] = "mean", [AS_LOAD_MAX] = "max", [AS_LOAD_MIN] = "min"};

static double *field_of(struct as_autoscale_config *c, const struct number *n)
{
    return (double *)(void *)((char *)c + n->offset);
}

void as_autoscale_config_init(struct as_autoscale_config *c, bool automatic)
{
    *c = (struct as_autoscale_config){0};
    for (size_t i = 0; i < AS_COUNT(numbers); i++)
        *field_of(c, &numbers[i]) = numbers[i].def;
    if (automatic)
        c->max_replicas = AS_AUTOSCALE_AUTO_MAX;
}

static int refuse(const struct number *n, double v, struct as_buf *why)
{
    as_buf_printf(why, "%s must be a %snumber ", n->key, n->whole ? "whole " : "");
    if (n->whole)
        as_buf_printf(why, "from %d to ", n->zero ? 0 : 1);
    else
        as_buf_printf(why, "%s 0 and at most ", n->zero ? "of at least" : "above");
    as_buf_printf(why, "%.10g, not %.10g", n->most, v);
    return AS_EINVALID;
}

int as_autoscale_config_set(struct as_autoscale_config *c, struct as_str key, double v,
                            struct as_buf *why)
{
    for (size_t i = 0; i < AS_COUNT(numbers); i++) {
        const struct number *n = &numbers[i];

        if (!as_str_eq(key, as_str_of(n->key)))
            continue;
        /* a NaN fails each comparison */
        if (!(v >= 0 && v <= n->most) || (v <= 0 && !n->zero) || (n->whole && v != floor(v)))
            return refuse(n, v, why);
        *field_of(c, n) = v;
        return 0;
    }
    return AS_ENOTFOUND;
}

bool as_autoscale_config_set_aggregation(struct as_autoscale_config *c, struct as_str name)
{
    for (size_t i = 0; i < AS_COUNT(aggregations); i++) {
        if (as_str_eq(name, as_str_of(aggregations[i]))) {
            c->aggregation = (enum as_load_aggregation)i;
            return true;
        }
    }
    return false;
}

const char *as_autoscale_aggregation_name(enum as_load_aggregation a)
{
    return aggregations[a];
}

int as_autoscale_config_check(const struct as_autoscale_config *c, struct as_buf *why)
{
    if (c->max_replicas < c->min_replicas) {
        as_buf_printf(why, "max_replicas (%g) must be at least min_replicas (%g)", c->max_replicas,
                      c->min_replicas);
        return AS_EINVALID;
    }
    if (c->initial_replicas >= 0 &&
        (c->initial_replicas < c->min_replicas || c->initial_replicas > c->max_replicas)) {
        as_buf_printf(why,
                      "initial_replicas (%g) must be from min_replicas (%g) to max_replicas (%g)",
                      c->initial_replicas, c->min_replicas, c->max_replicas);
        return AS_EINVALID;
    }
    for (uint32_t i = 0; i < c->schedule.n; i++) {
        if (c->schedule.entry[i].min_replicas > c->max_replicas) {
            as_buf_printf(why,
                          "min_replicas (%u) of schedule[%u] must be at most max_replicas (%g)",
                          c->schedule.entry[i].min_replicas, i, c->max_replicas);
            return AS_EINVALID;
        }
    }
    return 0;
}

static as_ns seconds(double s)
{
    return (as_ns)(s * (double)AS_SEC + 0.5);
}

uint32_t as_autoscale_initial(const struct as_autoscale_config *c)
{
    return (uint32_t)(c->initial_replicas >= 0 ? c->initial_replicas : c->min_replicas);
}

static double factor(double now, double former, double all)
{
    if (now >= 0)
        return now;
    return former >= 0 ? former : all;
}

double as_autoscale_up_factor(const struct as_autoscale_config *c)
{
    return factor(c->upscaling_factor, c->upscale_smoothing_factor, c->smoothing_factor);
}

double as_autoscale_down_factor(const struct as_autoscale_config *c)
{
    return factor(c->downscaling_factor, c->downscale_smoothing_factor, c->smoothing_factor);
}

as_ns as_autoscale_up_delay(const struct as_autoscale_config *c)
{
    return seconds(c->upscale_delay_s);
}

as_ns as_autoscale_down_delay(const struct as_autoscale_config *c, bool to_zero)
{
    return seconds(to_zero && c->downscale_to_zero_delay_s >= 0 ? c->downscale_to_zero_delay_s
                                                                : c->downscale_delay_s);
}

as_ns as_autoscale_look_back(const struct as_autoscale_config *c)
{
    return seconds(c->look_back_period_s);
}
