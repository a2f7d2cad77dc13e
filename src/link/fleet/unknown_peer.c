#include "link/fleet/unknown_peer.h"

static void tell(const struct as_stranger *s, const struct as_log *log, enum as_log_level level,
                 uint64_t times)
{
    char quoted[256];

    as_log_event(log, level, "worker_gone", "replica=? pid=%u unanswered=0 times=%lu reason=%s",
                 s->pid, times, as_log_quote(quoted, sizeof(quoted), as_str_of(s->reason)));
}

static void tell_rest(struct as_stranger *s, const struct as_log *log)
{
    if (s->times)
        tell(s, log, AS_LOG_WARN, s->times);
    s->times = 0;
}

void as_stranger_gone(struct as_stranger *s, const struct as_log *log, enum as_log_level level,
                      uint32_t pid, const char *reason, as_ns now)
{
    bool same = s->reason[0] && strncmp(s->reason, reason, sizeof(s->reason) - 1) == 0;

    if (same && now < s->until) {
        s->pid = pid;
        s->times++;
        return;
    }
    tell_rest(s, log);
    snprintf(s->reason, sizeof(s->reason), "%s", reason);
    s->pid = pid;
    s->until = now + AS_STRANGER_EVERY;
    tell(s, log, level, 1);
}

void as_stranger_tick(struct as_stranger *s, const struct as_log *log, as_ns now)
{
    if (!s->times || now < s->until)
        return;
    tell_rest(s, log);
    s->until = now + AS_STRANGER_EVERY; /* they may still come */
}
