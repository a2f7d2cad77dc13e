#include "core/protect/outlier.h"

#include <stdlib.h>

void as_median_add(struct as_median *m, as_ns sample)
{
    bool up = sample > m->value;
    as_ns least = m->value / 16 + 1;

    m->n++;
    if (!m->value) {
        m->value = AS_MAX(sample, 1);
        m->step = sample / 8 + 1;
        return;
    }
    if (sample == m->value)
        return;
    /* it would overshoot in a quarter of the steps, so a step is never larger than the distance */
    m->step = up == m->up ? m->step + m->step / 2 : AS_MAX(m->step / 4, least);
    m->up = up;
    if (up)
        m->value += AS_MIN(m->step, sample - m->value);
    else
        m->value -= AS_MIN(m->step, m->value - sample);
    m->step = AS_MIN(m->step, m->value);
    m->value = AS_MAX(m->value, 1);
}

void as_slow_share_add(struct as_slow_share *s, bool slow)
{
    int64_t to = slow ? 65536 : 0;

    s->n += s->n < AS_SLOW_SAMPLES;
    s->share = (uint32_t)(s->share + (to - s->share) / s->n);
}

bool as_slow_share_is_high(const struct as_slow_share *s)
{
    return s->n == AS_SLOW_SAMPLES && s->share > 32768;
}

bool as_outlier_may_eject(const struct as_outlier_conf *conf, uint32_t n, uint32_t out)
{
    uint32_t most = (uint32_t)((uint64_t)n * conf->percent / 100);

    return out < AS_MAX(most, 1) && out + 1 < n;
}

static int by_size(const void *a, const void *b)
{
    as_ns x = *(const as_ns *)a, y = *(const as_ns *)b;

    return (x > y) - (x < y);
}

as_ns as_outlier_median(as_ns *values, uint32_t n)
{
    if (!n)
        return 0;
    qsort(values, n, sizeof(*values), by_size);
    return values[n / 2];
}

bool as_outlier_is_slow(const struct as_outlier_conf *conf, as_ns own, as_ns *peers, uint32_t n)
{
    if (!conf->factor || !n)
        return false;
    return own / conf->factor > as_outlier_median(peers, n);
}

bool as_outlier_is_failing(uint32_t streak, const uint32_t *peers, uint32_t n)
{
    uint32_t well = 0;

    for (uint32_t i = 0; i < n; i++)
        well += peers[i] < (streak + 1) / 2;
    return 2 * well > n;
}
