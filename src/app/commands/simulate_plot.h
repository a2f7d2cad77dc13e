/* app/commands/simulate_plot.h — the figure of a simulation, drawn by matplotlib in the Python
 * interpreter that workers would have.
 */
#ifndef AS_APP_SIMULATE_PLOT_H
#define AS_APP_SIMULATE_PLOT_H

#include "conf/option/option.h"

/* Does the file's name end like a figure that can be drawn? */
bool as_simulate_plot_can_draw(const char *path);
/* Draws the result, as tool/simulate/simulation_report.h has it in JSON, and replaces the file.
 * python: the value of --python. Blocks until it is done. Returns an exit code; on failure stderr
 * says why. */
int as_simulate_plot_draw(const char *python, const char *path, struct as_str json);

#endif
