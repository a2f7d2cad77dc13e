/* tool/simulate/timeline.h — what a simulation counts over time, in bounded memory.
 *
 * Time is divided into cells of equal length. When a run becomes longer than AS_TIMELINE_CELLS of
 * them, ten neighbours become one cell. Pure.
 */
#ifndef AS_TOOL_SIMULATE_TIMELINE_H
#define AS_TOOL_SIMULATE_TIMELINE_H

#include "base/defs.h"

#define AS_TIMELINE_CELLS 10000u
#define AS_TIMELINE_FIRST AS_MS /* length of the cells at first */

struct as_timeline_levels {
    uint32_t queued;   /* requests that wait for a slot */
    uint32_t running;  /* slots in which a handler executes */
    uint32_t slots;    /* of the replicas that serve, or finish what they have */
    uint32_t replicas; /* that serve */
    uint32_t starting; /* that start */
};

struct as_timeline_cell {
    uint64_t arrived, answered, failed;
    /* levels × ns */
    double queued, running, slots, replicas, starting;
    uint32_t most_queued, most_replicas;
    as_ns covered; /* ns of the run that are in this cell */
};

struct as_timeline {
    as_ns interval; /* of a cell */
    as_ns now;
    struct as_timeline_cell *cells; /* AS_TIMELINE_CELLS */
    uint32_t n;                     /* cells in use */
};

void as_timeline_init(struct as_timeline *t);
void as_timeline_fini(struct as_timeline *t);
/* The levels were these since the last call; the time is `now` from here on. */
void as_timeline_advance(struct as_timeline *t, as_ns now, const struct as_timeline_levels *levels);
/* The cell that ends at the present, or contains it, to count in. */
struct as_timeline_cell *as_timeline_now(struct as_timeline *t);
/* How many neighbours to show as one, so that at most `rows` rows show the run: 1, 2, 5, 10, 20 …
 */
uint32_t as_timeline_group(const struct as_timeline *t, uint32_t rows);
/* The sum of the cells first … first + n - 1. */
struct as_timeline_cell as_timeline_sum(const struct as_timeline *t, uint32_t first, uint32_t n);

#endif
