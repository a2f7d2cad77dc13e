#include "core/replicas/restart.h"

#include <signal.h>
#include <sys/wait.h>

void as_restart_started(struct as_restart *s)
{
    s->ready = false;
}

void as_restart_ready(struct as_restart *s, as_ns now)
{
    s->ready = true;
    s->ready_at = now;
    s->unready = 0;
}

/* base × 2^(failures-1), or base without failures; at most max; ±20 %. */
static as_ns backoff(const struct as_restart *s, const struct as_restart_conf *conf,
                     struct as_rand *rand)
{
    as_ns d = AS_MIN(conf->base, conf->max);

    for (uint32_t i = 1; i < s->failures && d < conf->max; i++)
        d = d > conf->max / 2 ? conf->max : 2 * d;
    return d - d / 5 + as_rand_below(rand, 2 * (d / 5) + 1);
}

struct as_restart_verdict as_restart_died(struct as_restart *s, const struct as_restart_conf *conf,
                                          enum as_exit_kind kind, struct as_rand *rand, as_ns now)
{
    bool ready = s->ready;

    s->ready = false;
    if (kind == AS_EXIT_STOPPED)
        return (struct as_restart_verdict){.at = now};
    if (ready && now - s->ready_at >= conf->healthy)
        s->failures = 0;
    if (ready && (kind == AS_EXIT_KILLED || kind == AS_EXIT_OOM))
        return (struct as_restart_verdict){.restart = true, .at = now};
    if (kind == AS_EXIT_KILLED)
        return (struct as_restart_verdict){.restart = true, .at = now + backoff(s, conf, rand)};
    if (s->failures < UINT32_MAX)
        s->failures++;
    if (!ready && s->unready < UINT32_MAX)
        s->unready++;
    if (conf->give_up && s->unready >= conf->give_up)
        return (struct as_restart_verdict){.gave_up = true, .at = now};
    return (struct as_restart_verdict){.restart = true, .at = now + backoff(s, conf, rand)};
}

enum as_exit_kind as_exit_kind_of(int wait_status, bool stopping)
{
    if (stopping)
        return AS_EXIT_STOPPED;
    if (!WIFSIGNALED(wait_status))
        return AS_EXIT_CODE;
    switch (WTERMSIG(wait_status)) {
    case SIGSEGV:
    case SIGBUS:
    case SIGABRT:
    case SIGILL:
    case SIGFPE:
        return AS_EXIT_CRASH;
    default:
        return AS_EXIT_KILLED;
    }
}
