#include "tool/bench/arrival_schedule.h"

#include <math.h>

void as_arrival_schedule_init(struct as_arrival_schedule *s, as_ns start, uint64_t rate,
                              bool poisson, uint64_t seed)
{
    *s = (struct as_arrival_schedule){
        .start = start, .rate = rate, .poisson = poisson, .rand = {seed}};
}

as_ns as_arrival_schedule_next(struct as_arrival_schedule *s)
{
    if (!s->poisson)
        return s->start + (as_ns)((as_u128)s->n++ * AS_SEC / s->rate);
    s->n++;
    s->offset -= log(as_rand_unit(&s->rand)) * (double)AS_SEC / (double)s->rate;
    return s->start + (as_ns)s->offset;
}
