/* The command line: plan_sim [--seeds N] [--first S] [--verbose]. */
#include "plan.h"

#include <inttypes.h>
#include <stdarg.h>

static struct tally sum; /* over all runs */

void trace(struct sim *s, const char *fmt, ...)
{
    va_list ap;

    if (!s->verbose)
        return;
    printf("%8" PRIu64 ".%03" PRIu64 " ms  ", s->now / AS_MS, s->now / AS_US % 1000);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

void fail(struct sim *s, const char *fmt, ...)
{
    va_list ap;

    if (s->failed)
        return;
    s->failed = true;
    printf("seed %" PRIu64 ", %" PRIu64 " us: ", s->seed, s->now / AS_US);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

/* A number near zero means that the scenarios do not cover something. */
static void add(const struct tally *t)
{
    sum.events += t->events;
    sum.starts += t->starts;
    sum.deaths += t->deaths;
    sum.kills += t->kills;
    sum.updates += t->updates;
    sum.scales += t->scales;
    sum.autoscales += t->autoscales;
    sum.rollbacks += t->rollbacks;
    sum.recoveries += t->recoveries;
    sum.adopted += t->adopted;
    sum.moves += t->moves;
    sum.refused += t->refused;
    sum.disconnects += t->disconnects;
    sum.settled += t->settled;
    sum.given_up += t->given_up;
    sum.duplicates += t->duplicates;
    sum.lacking += t->lacking;
    sum.left += t->left;
    sum.succeeded += t->succeeded;
    sum.slowest = AS_MAX(sum.slowest, t->slowest);
}

static void print(void)
{
    const struct tally *t = &sum;

    printf("%" PRIu64 " events; %" PRIu64 " starts, %" PRIu64 " deaths, %" PRIu64
           " killed for a fault, %" PRIu64 " given up\n",
           t->events, t->starts, t->deaths, t->kills, t->given_up);
    printf("%" PRIu64 " updates, %" PRIu64 " scalings (%" PRIu64 " by load), %" PRIu64
           " rolled back, %" PRIu64 " times settled, %" PRIu64 " ranks moved, %" PRIu64
           " configures refused\n",
           t->updates, t->scales, t->autoscales, t->rollbacks, t->settled, t->moves, t->refused);
    printf("%" PRIu64 " recoveries of the controller, %" PRIu64 " processes adopted, %" PRIu64
           " impossible ones found, %" PRIu64 " deaths of the dispatcher\n",
           t->recoveries, t->adopted, t->duplicates, t->disconnects);
    printf("%" PRIu64 " times replicas waited for devices; %" PRIu64 " left by themselves, %" PRIu64
           " times one became ready beside one that left\n",
           t->lacking, t->left, t->succeeded);
    printf("slowest convergence after the last fault: %" PRIu64 " ms\n", t->slowest / AS_MS);
}

static bool run_seed(uint64_t seed, bool verbose)
{
    static struct sim s; /* static because it is large; only the used parts are cleared */
    bool ok;

    memset(&s, 0, offsetof(struct sim, procs));
    s.n_procs = 0;
    memset(&s.n_alive, 0, sizeof(s) - offsetof(struct sim, n_alive));
    s.seed = seed;
    s.verbose = verbose;
    s.rand.s = seed * 0x9e3779b97f4a7c15u + 1;
    ok = run(&s);
    add(&s.tally);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct seeds seeds = {"plan_sim", run_seed, print};

    return seeds_main(&seeds, argc, argv);
}
