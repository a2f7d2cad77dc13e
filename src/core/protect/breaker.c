#include "core/protect/breaker.h"

static void set_state(struct as_breaker *b, enum as_breaker_state to)
{
    static const uint8_t arrows[] = {
        [AS_BREAKER_CLOSED] = 1u << AS_BREAKER_OPEN,
        [AS_BREAKER_OPEN] = 1u << AS_BREAKER_HALF_OPEN,
        [AS_BREAKER_HALF_OPEN] = 1u << AS_BREAKER_OPEN | 1u << AS_BREAKER_CLOSED,
    };

    AS_ASSERT(arrows[b->state] >> to & 1u);
    b->state = to;
    b->streak = 0;
}

void as_breaker_trip(struct as_breaker *b, const struct as_breaker_conf *conf, as_ns now)
{
    as_ns time = conf->open;

    if (b->state == AS_BREAKER_CLOSED && now >= b->until)
        b->opened = 0;
    for (uint32_t i = 0; i < b->opened && time < conf->open_max; i++)
        time = time > conf->open_max / 2 ? conf->open_max : 2 * time;
    if (b->opened < UINT32_MAX)
        b->opened++;
    set_state(b, AS_BREAKER_OPEN);
    b->until = now + AS_MIN(time, conf->open_max);
}

bool as_breaker_on_answer(struct as_breaker *b, const struct as_breaker_conf *conf, bool failed,
                          as_ns now)
{
    switch (b->state) {
    case AS_BREAKER_CLOSED:
        b->streak = failed ? b->streak + (b->streak < UINT32_MAX) : 0;
        return false;
    case AS_BREAKER_HALF_OPEN:
        if (failed) {
            as_breaker_trip(b, conf, now);
            return true;
        }
        if (++b->streak < conf->probes)
            return false;
        set_state(b, AS_BREAKER_CLOSED);
        b->until = now + conf->open_max;
        return true;
    default: /* answers to requests from before it opened tell nothing new */
        return false;
    }
}

bool as_breaker_tick(struct as_breaker *b, as_ns now)
{
    if (b->state != AS_BREAKER_OPEN || now < b->until)
        return false;
    set_state(b, AS_BREAKER_HALF_OPEN);
    return true;
}

const char *as_breaker_state_name(enum as_breaker_state s)
{
    static const char *const names[] = {"closed", "open", "half_open"};

    return (size_t)s < AS_COUNT(names) ? names[s] : "?";
}
