/* link/call/report.h — what workers report about themselves (REPORT, docs/protocol/link.md,
 * section 16): checked when it comes, so that pages and metrics can print it as it is.
 *
 * The user's metrics are lines: "F NAME KIND HELP" begins a family, with HELP a JSON string; then
 * come its series, "S NAME {LABELS} VALUE", in the text format of Prometheus. The other kinds are
 * JSON. Pure, except that one reader of JSON is made for each check.
 */
#ifndef AS_LINK_REPORT_H
#define AS_LINK_REPORT_H

#include "wire/frame/frame_call.h"

/* 0, or AS_EINVALID with the reason in `why` (at most cap bytes, with a NUL): the line or byte
 * where the text is wrong. */
int as_report_check(uint32_t kind, struct as_str text, char *why, size_t cap);

/* For AS_REPORT_AUTOSCALING: an object of at most max_names finite numbers (true and false are 1
 * and 0), whose names are not empty. 0, or AS_EINVALID and the reason, which names the value. */
int as_report_check_stats(struct as_str text, uint32_t max_names, char *why, size_t cap);

struct as_report_family {
    struct as_str name, kind; /* kind: "counter", "gauge", "histogram" */
    struct as_str help;       /* a JSON string, with its quotes */
    struct as_str series;     /* its lines, each with a line end */
};
/* Takes the next family from the front of a checked text of metrics. False: there is none. */
bool as_report_next_family(struct as_str *rest, struct as_report_family *ret_f);

struct as_report_series {
    struct as_str name, labels, value; /* labels with their braces */
};
/* Takes the next series from the front of a family's. False: there is none. */
bool as_report_next_series(struct as_str *rest, struct as_report_series *ret_s);

#endif
