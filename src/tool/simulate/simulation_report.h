/* tool/simulate/simulation_report.h — the result of a simulation as text for people and as JSON for
 * programs. Pure.
 */
#ifndef AS_TOOL_SIMULATE_SIMULATION_REPORT_H
#define AS_TOOL_SIMULATE_SIMULATION_REPORT_H

#include "tool/simulate/simulation.h"

struct as_simulation_report {
    const struct as_simulation_conf *conf;
    const struct as_simulation_result *result;
    const char *router; /* its name */
    uint64_t skipped;   /* rows of the trace for other deployments */
    uint32_t rows;      /* of the table over time, at most */
};

void as_simulation_report_text(const struct as_simulation_report *p, struct as_buf *b);
/* One object in one line; docs/guide/simulate.md describes it. */
void as_simulation_report_json(const struct as_simulation_report *p, struct as_buf *b);

#endif
