/* tool/simulate/pattern.h — generated load: when requests arrive, and for how long they execute.
 *
 * Both are given as text, "KIND:NUMBER:…". Pure: the random state is a parameter, so that equal
 * seeds give equal loads.
 */
#ifndef AS_TOOL_SIMULATE_PATTERN_H
#define AS_TOOL_SIMULATE_PATTERN_H

#include "base/buf.h"
#include "base/err.h"
#include "base/rand.h"

#define AS_PATTERN_STEPS       64u
#define AS_PATTERN_RATE_MAX    1e6                        /* requests per second */
#define AS_PATTERN_TIME_MAX    ((uint64_t)86400 * AS_SEC) /* of a step, a period, a service time */
#define AS_PATTERN_CV_MAX      100.0
#define AS_PATTERN_ARRIVAL_MAX ((uint64_t)4 << 60) /* ns: no request arrives later */

/* --- service times --- */

enum as_service_kind { AS_SERVICE_CONSTANT, AS_SERVICE_EXPONENTIAL, AS_SERVICE_LOGNORMAL };

struct as_service_pattern {
    enum as_service_kind kind;
    double mean;      /* ns */
    double mu, sigma; /* LOGNORMAL: of the logarithm of ns */
};

/* "constant:10ms", "exponential:10ms", "lognormal:MEAN:CV" ("lognormal:10ms:2"; CV: the standard
 * deviation divided by the mean). AS_EINVALID: `err` says what is wrong. */
int as_service_pattern_parse(struct as_service_pattern *ret_p, struct as_str text,
                             struct as_buf *err);
/* A service time, at most AS_PATTERN_TIME_MAX. */
as_ns as_service_pattern_draw(const struct as_service_pattern *p, struct as_rand *rand);

/* --- arrivals --- */

enum as_arrival_kind { AS_ARRIVAL_CONSTANT, AS_ARRIVAL_POISSON, AS_ARRIVAL_STEPS, AS_ARRIVAL_SINE };

struct as_arrival_pattern {
    enum as_arrival_kind kind;
    double low, high; /* requests per second; equal except for SINE; high: the most */
    as_ns period;     /* SINE */
    struct {
        double rate;
        as_ns end; /* since the beginning */
    } steps[AS_PATTERN_STEPS];
    uint32_t n_steps;
    uint64_t n;  /* times that were drawn */
    double last; /* the last one, ns */
};

/* "constant:RATE" (equal distances), "poisson:RATE", "steps:RATE@TIME,RATE@TIME…",
 * "sine:LOW:HIGH:PERIOD" (from the middle up first). Rates are requests per second; all but
 * `constant` arrive at random, as from independent clients. AS_EINVALID: `err` says what is wrong.
 */
int as_arrival_pattern_parse(struct as_arrival_pattern *ret_p, struct as_str text,
                             struct as_buf *err);
/* The next time, ns since the beginning, never before the last one; AS_NEVER: the steps are over,
 * or it would be after AS_PATTERN_ARRIVAL_MAX. */
as_ns as_arrival_pattern_next(struct as_arrival_pattern *p, struct as_rand *rand);

#endif
