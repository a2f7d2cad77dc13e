#include "core/protect/retry.h"

enum as_replay as_replay_rule(enum as_loss loss, enum as_progress progress, bool idempotent)
{
    static const enum as_replay started[AS_LOSSES] = {
        [AS_LOSS_KILLED] = AS_REPLAY_FREE,     [AS_LOSS_CRASHED] = AS_REPLAY_ALONE,
        [AS_LOSS_UNKNOWN] = AS_REPLAY_COUNTED, [AS_LOSS_LINK] = AS_REPLAY_BUDGET,
        [AS_LOSS_UNTOLD] = AS_REPLAY_LATER,    [AS_LOSS_CONDEMNED] = AS_REPLAY_ALONE,
    };

    AS_ASSERT((size_t)loss < AS_LOSSES);
    switch (progress) {
    case AS_PROGRESS_SENT:
        return AS_REPLAY_FREE;
    case AS_PROGRESS_STARTED:
        return idempotent ? started[loss] : AS_REPLAY_NEVER;
    default:
        return AS_REPLAY_NEVER;
    }
}

uint32_t as_replay_budget(const struct as_replay_conf *conf, uint64_t requests)
{
    uint64_t n = requests * conf->percent / 100;

    return (uint32_t)AS_MIN(AS_MAX(n, conf->least), UINT32_MAX);
}

enum as_loss as_loss_of(uint32_t kind)
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
