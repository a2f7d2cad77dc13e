/* tool/bench/tally.h — the counts and latencies of a measurement.
 *
 * Every call that was due is counted once: ok, failed (by gRPC status), unanswered or unsent.
 * Latencies are those of ok calls, and of unanswered and unsent ones with the time that they had
 * waited at the end: without the slowest calls the server would look better than it is. The latency
 * of a stream is that of the whole call; its responses are counted as they come, even if the call
 * fails later. Pure.
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
    struct as_tally_times latency;               /* from when the call was due */
    struct as_tally_times error_latency;         /* of failed calls, which are not in `latency` */
    uint64_t status[AS_TALLY_STATUSES];          /* calls by status; 0: ok */
    char text[AS_TALLY_STATUSES][AS_TALLY_TEXT]; /* the first error text of each status */
    uint64_t unanswered;                         /* calls that were sent and not answered */
    uint64_t unsent;                             /* calls that were due, but no stream was free */
    uint64_t late;           /* calls that were sent more than 1 ms after they were due */
    struct as_loghist delay; /* open loop: how long after it was due a call was sent */
    uint64_t in_window;      /* ok calls that ended during the measurement, whenever sent */
    /* Of streams: */
    struct as_tally_times first;   /* from when the call was due to its first response */
    struct as_tally_times between; /* between two responses of a call */
    uint64_t responses_in_window;  /* responses that came during the measurement */
};

void as_tally_answer(struct as_tally *t, as_ns latency, uint32_t status, const char *text);
void as_tally_unanswered(struct as_tally *t, as_ns waited);
void as_tally_unsent(struct as_tally *t, as_ns waited);
uint64_t as_tally_failed(const struct as_tally *t); /* answered with an error */
uint64_t as_tally_due(const struct as_tally *t);    /* all calls */
/* Counts a response of a stream. ago: time since the response before it; if `first`, since the call
 * was due. */
void as_tally_response(struct as_tally *t, bool first, as_ns ago);

#endif
