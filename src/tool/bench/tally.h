/* tool/bench/tally.h — what came of the calls of a measurement.
 *
 * Every call that was due is counted once: ok, failed (by gRPC status), unanswered or unsent. The
 * latencies are those of the calls that were ok, and of those that got no answer: these enter with
 * the time that they had waited when the measurement gave up, because leaving out the slowest would
 * flatter the server. Of streams the latency is that of the whole, and the times of its responses
 * are counted as they come, whatever becomes of the call. Pure.
 */
#ifndef AS_TOOL_TALLY_H
#define AS_TOOL_TALLY_H

#include "base/buf.h"
#include "base/loghist.h"

#define AS_TALLY_STATUSES 17u
#define AS_TALLY_TEXT     200u

struct as_tally_times {
    struct as_loghist h;
    double sum; /* ns */
    as_ns min;
};
double as_tally_mean(const struct as_tally_times *t); /* ns; 0 without any */

struct as_tally {
    struct as_tally_times latency;       /* from the moment at which the call was due */
    struct as_tally_times error_latency; /* of answers with an error: not among the latencies */
    uint64_t status[AS_TALLY_STATUSES];  /* 0: ok */
    char text[AS_TALLY_STATUSES][AS_TALLY_TEXT]; /* the first of each status */
    uint64_t unanswered;                         /* sent */
    uint64_t unsent;                             /* due, but nothing was free to send it with */
    uint64_t late;                               /* sent more than 1 ms after their moment */
    uint64_t in_window; /* ok answers that came while it was measured, whenever sent */
    /* Of streams: */
    struct as_tally_times
        first; /* from the moment at which the call was due to its first response */
    struct as_tally_times between; /* of two responses of a call, one behind the other */
    uint64_t responses_in_window;  /* that came while it was measured */
};

void as_tally_answer(struct as_tally *t, as_ns latency, uint32_t status, const char *text);
void as_tally_unanswered(struct as_tally *t, as_ns waited);
void as_tally_unsent(struct as_tally *t, as_ns waited);
uint64_t as_tally_failed(const struct as_tally *t); /* answered with an error */
uint64_t as_tally_due(const struct as_tally *t);    /* all of them */
/* A response of a stream, `ago` after the one before it, or with `first` after its call was due. */
void as_tally_response(struct as_tally *t, bool first, as_ns ago);

#endif
