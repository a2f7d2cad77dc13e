#include "io/process/core_dump.h"

#include "base/defs.h"

#include <sys/resource.h>

static struct rlimit former;
static bool is_forbidden;

void as_core_dump_forbid(void)
{
    struct rlimit none;

    if (is_forbidden || getrlimit(RLIMIT_CORE, &former) < 0)
        return;
    none = (struct rlimit){.rlim_cur = AS_MIN((rlim_t)1, former.rlim_max),
                           .rlim_max = former.rlim_max};
    is_forbidden = setrlimit(RLIMIT_CORE, &none) == 0;
}

bool as_core_dump_restore(void)
{
    bool was_forbidden = is_forbidden;

    if (is_forbidden)
        (void)setrlimit(RLIMIT_CORE, &former); /* not above the hard limit: it does not fail */
    is_forbidden = false;
    return was_forbidden;
}
