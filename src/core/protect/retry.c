#include "core/protect/retry.h"

enum as_retry as_retry_rule(enum as_loss loss, enum as_progress progress, bool idempotent)
{
    static const enum as_retry started[AS_LOSSES] = {
        [AS_LOSS_KILLED] = AS_RETRY_UNCOUNTED, [AS_LOSS_CRASHED] = AS_RETRY_ALONE,
        [AS_LOSS_UNKNOWN] = AS_RETRY_COUNTED,  [AS_LOSS_LINK] = AS_RETRY_BUDGET,
        [AS_LOSS_PENDING] = AS_RETRY_PENDING,  [AS_LOSS_UNHEALTHY] = AS_RETRY_ALONE,
    };

    AS_ASSERT((size_t)loss < AS_LOSSES);
    switch (progress) {
    case AS_PROGRESS_SENT:
        return AS_RETRY_UNCOUNTED;
    case AS_PROGRESS_STARTED:
        return idempotent ? started[loss] : AS_RETRY_NEVER;
    default:
        return AS_RETRY_NEVER;
    }
}

uint32_t as_retry_budget(const struct as_retry_conf *conf, uint64_t requests)
{
    uint64_t n = requests * conf->percent / 100;

    return (uint32_t)AS_MIN(AS_MAX(n, conf->least), UINT32_MAX);
}

enum as_loss as_loss_from_exit(uint32_t kind)
{
    switch (kind) {
    case AS_EXIT_CODE:
    case AS_EXIT_CRASH:
    case AS_EXIT_OOM:
        return AS_LOSS_CRASHED;
    case AS_EXIT_KILLED:
    case AS_EXIT_STOPPED:
        return AS_LOSS_KILLED;
    default:
        return AS_LOSS_UNKNOWN;
    }
}
