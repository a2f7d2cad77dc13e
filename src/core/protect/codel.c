#include "core/protect/codel.h"

bool as_codel_sheds(struct as_codel *c, const struct as_codel_conf *conf, as_ns waited, as_ns now)
{
    if (!conf->target)
        return false;
    if (now >= c->until) {
        c->overloaded = c->until && c->least > conf->target;
        c->until = now + conf->interval;
        c->least = waited;
    }
    c->least = AS_MIN(c->least, waited);
    return c->overloaded && waited > 2 * conf->target;
}
