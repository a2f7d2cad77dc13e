/* base/log.h — one log line: an event name and key=value fields.
 *
 * Lower layers return errors; only edge, ctl and app log. Level `error` means that a human must
 * act. This module formats a line and hands it to the sink in one piece; app decides where the sink
 * writes. Values with spaces, quotes or control bytes are quoted and escaped.
 */
#ifndef AS_BASE_LOG_H
#define AS_BASE_LOG_H

#include "base/str.h"

enum as_log_level { AS_LOG_ERROR, AS_LOG_WARN, AS_LOG_INFO, AS_LOG_DEBUG };

struct as_log {
    enum as_log_level level; /* less severe lines are dropped; changed by as_log_set_level once
                              * threads run */
    /* Gets one whole line with its newline. Called on any thread that has the log. */
    void (*sink)(void *ctx, enum as_log_level level, const char *line, size_t n);
    void *ctx;
};

/* as_log_event(log, AS_LOG_WARN, "worker_gone", "replica=%s code=%d", name, code): the format
 * holds the fields. A value that may need quotes is passed through as_log_quote. */
void as_log_event(const struct as_log *log, enum as_log_level level, const char *event,
                  const char *fields, ...) AS_PRINTF(4, 5);

/* True when `s` needs no quotes as a value: one word of printable ASCII without '"', '=', '\\'. */
bool as_log_is_plain(struct as_str s);
/* Writes `s` as a value, in quotes unless it is plain; cut to `cap` (at least 8). Returns `out`. */
const char *as_log_quote(char *out, size_t cap, struct as_str s);

/* Limits one kind of line to one per interval. Starts zeroed; one thread. */
struct as_log_ratelimit {
    as_ns until;      /* no line before this time */
    uint64_t skipped; /* lines that were not written since the last one */
};
/* True: write a line now; *ret_skipped says how many were skipped since the last one. */
bool as_log_ratelimit_allows(struct as_log_ratelimit *q, as_ns now, as_ns interval,
                             uint64_t *ret_skipped);

/* Both: any thread, at any time. */
void as_log_set_level(struct as_log *log, enum as_log_level level);
enum as_log_level as_log_get_level(const struct as_log *log);

const char *as_log_level_name(enum as_log_level level);

#endif
