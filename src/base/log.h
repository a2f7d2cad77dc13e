/* base/log.h — one log line: an event name and key=value fields.
 *
 * Lower layers return errors; edge, ctl and app log. Level `error` means that a human must act. A
 * line is formatted here and handed to the sink in one piece; what it writes to is app's business.
 * Values with spaces, quotes or control bytes are quoted and escaped.
 */
#ifndef AS_BASE_LOG_H
#define AS_BASE_LOG_H

#include "base/str.h"

enum as_log_level { AS_LOG_ERROR, AS_LOG_WARN, AS_LOG_INFO, AS_LOG_DEBUG };

struct as_log {
    enum as_log_level level; /* lines above it are dropped; as_log_set_level once threads run */
    /* One whole line with its newline. May be called from every thread that was given the log. */
    void (*sink)(void *ctx, enum as_log_level level, const char *line, size_t n);
    void *ctx;
};

/* as_log_event(log, AS_LOG_WARN, "worker_gone", "replica=%s code=%d", name, code): the format
 * holds the fields, values that may need quotes go through %s of as_log_quote. */
void as_log_event(const struct as_log *log, enum as_log_level level, const char *event,
                  const char *fields, ...) AS_PRINTF(4, 5);

/* It can be a value as it is: one word of printable ASCII, without quotes, '=' and '\\'. */
bool as_log_is_plain(struct as_str s);
/* `s` as a value: bare when it is plain, else in quotes; cut at what fits. Returns `out`. */
const char *as_log_quote(char *out, size_t cap, struct as_str s);

/* A kind of line that a flood of events would make a flood of lines. Zeroed; one thread. */
struct as_log_ratelimit {
    as_ns until;
    uint64_t skipped;
};
/* May one be written now? Once in an interval; ret_skipped: how many were not since the last one.
 */
bool as_log_ratelimit_allows(struct as_log_ratelimit *q, as_ns now, as_ns interval,
                             uint64_t *ret_skipped);

/* Any thread, at any time. */
void as_log_set_level(struct as_log *log, enum as_log_level level);
enum as_log_level as_log_get_level(const struct as_log *log);

const char *as_log_level_name(enum as_log_level level);
int as_log_level_of(const char *name); /* -1 when unknown */

#endif
