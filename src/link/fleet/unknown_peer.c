#include "link/fleet/unknown_peer.h"

static void log_ends(const struct as_unknown_peer *s, const struct as_log *log,
                     enum as_log_level level, uint64_t times)
{
    char quoted[256];

    as_log_event(log, level, "worker_gone", "replica=? pid=%u unanswered=0 times=%lu reason=%s",
                 s->pid, times, as_log_quote(quoted, sizeof(quoted), as_str_of(s->reason)));
}

static void log_counted(struct as_unknown_peer *s, const struct as_log *log)
{
    if (s->times)
        log_ends(s, log, AS_LOG_WARN, s->times);
    s->times = 0;
}

void as_unknown_peer_log(struct as_unknown_peer *s, const struct as_log *log,
                         enum as_log_level level, uint32_t pid, const char *reason, as_ns now)
{
    bool same = s->reason[0] && strncmp(s->reason, reason, sizeof(s->reason) - 1) == 0;

    if (same && now < s->until) {
        s->pid = pid;
        s->times++;
        return;
    }
    log_counted(s, log);
    snprintf(s->reason, sizeof(s->reason), "%s", reason);
    s->pid = pid;
    s->until = now + AS_UNKNOWN_PEER_INTERVAL;
    log_ends(s, log, level, 1);
}

void as_unknown_peer_tick(struct as_unknown_peer *s, const struct as_log *log, as_ns now)
{
    if (!s->times || now < s->until)
        return;
    log_counted(s, log);
    s->until = now + AS_UNKNOWN_PEER_INTERVAL; /* they may still come */
}
