/* tests/sim/seeds.h — what the simulators have in common: the loop over seeds.
 *
 * Each seed is one complete run. The first seed that fails is run again with a trace, and the
 * program ends after 20 failures. A seed in which core asserts or that does not end is printed, and
 * ends the program.
 */
#ifndef AS_SIM_SEEDS_H
#define AS_SIM_SEEDS_H

#include "base/defs.h"

struct seeds {
    const char *name;                              /* name of the program */
    bool (*run_seed)(uint64_t seed, bool verbose); /* true: no violation */
    void (*print)(void);                           /* prints the sums over all runs */
};

/* The main function of NAME [--seeds N] [--first S] [--verbose]; returns the exit code. */
int seeds_main(const struct seeds *s, int argc, char **argv);

#endif
