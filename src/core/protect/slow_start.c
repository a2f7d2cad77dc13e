#include "core/protect/slow_start.h"

uint32_t as_slow_start_width(uint32_t slots, as_ns age, as_ns duration)
{
    if (age >= duration)
        return slots;
    return AS_MIN(slots, AS_MAX((uint32_t)(slots * age / duration), 1));
}

as_ns as_slow_start_next(uint32_t slots, as_ns age, as_ns duration)
{
    uint32_t width = as_slow_start_width(slots, age, duration);

    if (width == slots)
        return AS_NEVER;
    return ((width + 1) * duration + slots - 1) / slots;
}
