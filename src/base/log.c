#include "base/log.h"

#include <stdarg.h>

/* Leaves room for a process name and a time in front, so that a line is still one atomic write to a
 * pipe (PIPE_BUF: 4096 bytes on Linux). */
#define LINE_MAX_BYTES 4000

static const char *const level_names[] = {"error", "warn", "info", "debug"};

const char *as_log_level_name(enum as_log_level level)
{
    return level_names[level];
}

/* Relaxed: one line more or less while the level changes does not matter. */
void as_log_set_level(struct as_log *log, enum as_log_level level)
{
    __atomic_store_n(&log->level, level, __ATOMIC_RELAXED);
}

enum as_log_level as_log_get_level(const struct as_log *log)
{
    return __atomic_load_n(&log->level, __ATOMIC_RELAXED);
}

bool as_log_is_plain(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = (uint8_t)s.p[i];

        if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\')
            return false;
    }
    return s.n > 0;
}

const char *as_log_quote(char *out, size_t cap, struct as_str s)
{
    size_t k = 0;

    AS_ASSERT(cap >= 8);
    if (as_log_is_plain(s)) {
        size_t n = AS_MIN(s.n, cap - 1);

        memcpy(out, s.p, n);
        out[n] = 0;
        return out;
    }
    out[k++] = '"';
    for (size_t i = 0; i < s.n && k + 6 < cap; i++) {
        uint8_t c = (uint8_t)s.p[i];

        if (c == '"' || c == '\\') {
            out[k++] = '\\';
            out[k++] = (char)c;
        } else if (c == '\n') {
            out[k++] = '\\';
            out[k++] = 'n';
        } else if (c < 0x20 || c == 0x7f) {
            k += (size_t)snprintf(out + k, cap - k, "\\x%02x", c);
        } else {
            out[k++] = (char)c;
        }
    }
    out[k++] = '"';
    out[k] = 0;
    return out;
}

void as_log_event(const struct as_log *log, enum as_log_level level, const char *event,
                  const char *fields, ...)
{
    char line[LINE_MAX_BYTES];
    size_t n;
    int k;
    va_list ap;

    if (!log || !log->sink || level > as_log_get_level(log))
        return;
    k = snprintf(line, sizeof(line), "level=%s event=%s ", level_names[level], event);
    n = AS_MIN((size_t)k, sizeof(line) - 2);
    va_start(ap, fields);
    k = vsnprintf(line + n, sizeof(line) - 1 - n, fields, ap);
    va_end(ap);
    n = AS_MIN(n + (size_t)AS_MAX(k, 0), sizeof(line) - 2);
    line[n++] = '\n';
    line[n] = 0;
    log->sink(log->ctx, level, line, n);
}

bool as_log_ratelimit_allows(struct as_log_ratelimit *q, as_ns now, as_ns interval,
                             uint64_t *ret_skipped)
{
    if (now < q->until) {
        q->skipped++;
        return false;
    }
    q->until = now + interval;
    *ret_skipped = q->skipped;
    q->skipped = 0;
    return true;
}
