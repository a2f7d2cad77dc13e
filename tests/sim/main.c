/* The simulator's command line: sim [--seeds N] [--first S] [--verbose]. */
#include "sim.h"

#include <inttypes.h>
#include <stdarg.h>

/* Sums over all runs. */
static struct expected_stats sum;
static uint64_t events;

void trace(struct sim *s, const char *fmt, ...)
{
    va_list ap;

    if (!s->verbose)
        return;
    printf("%10" PRIu64 ".%03" PRIu64 " us  ", (s->now / 1000), (s->now % 1000));
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
    printf("seed %" PRIu64 ", %" PRIu64 " ns, event %" PRIu64 ": ", s->seed, s->now, s->steps);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

/* A number near zero means that the scenarios do not cover something. */
static void add(const struct expected_stats *b)
{
    sum.accepted += b->accepted;
    sum.refused += b->refused;
    sum.dispatched += b->dispatched;
    sum.completed += b->completed;
    sum.failed += b->failed;
    sum.expired += b->expired;
    sum.cancelled += b->cancelled;
    sum.replayed += b->replayed;
    sum.recalled += b->recalled;
    sum.lost += b->lost;
    sum.deaths += b->deaths;
    sum.batches += b->batches;
    sum.members += b->members;
    sum.mirrored += b->mirrored;
    sum.mirror_dropped += b->mirror_dropped;
    sum.trials += b->trials;
    sum.quarantined += b->quarantined;
    sum.crashes += b->crashes;
    sum.unhealthy += b->unhealthy;
    sum.refused_suspects += b->refused_suspects;
    sum.ejected += b->ejected;
    sum.probed += b->probed;
    sum.closed += b->closed;
    sum.beyond += b->beyond;
    sum.shed += b->shed;
    sum.warmed += b->warmed;
    sum.reserved += b->reserved;
    sum.used += b->used;
    sum.hedges += b->hedges;
    sum.hedges_won += b->hedges_won;
}

static void print(void)
{
    const struct expected_stats *b = &sum;

    printf("%" PRIu64 " events; calls: %" PRIu64 " accepted, %" PRIu64 " refused, %" PRIu64
           " completed, %" PRIu64 " failed, %" PRIu64 " expired, %" PRIu64 " cancelled\n",
           events, b->accepted, b->refused, b->completed, b->failed, b->expired, b->cancelled);
    printf("%" PRIu64 " sent, %" PRIu64 " replayed, %" PRIu64 " recalled, %" PRIu64
           " lost with their worker, %" PRIu64 " deaths\n",
           b->dispatched, b->replayed, b->recalled, b->lost, b->deaths);
    printf("%" PRIu64 " calls of models with batching, %" PRIu64 " requests shared one\n",
           b->batches, b->members);
    printf("%" PRIu64 " requests executed beyond the slots, %" PRIu64 " shed; %" PRIu64
           " events with a replica that had one slot of several\n",
           b->beyond, b->shed, b->warmed);
    printf("%" PRIu64 " slots reserved, %" PRIu64 " of them used\n", b->reserved, b->used);
    printf("%" PRIu64 " hedges, %" PRIu64 " of them were faster\n", b->hedges, b->hedges_won);
    printf("%" PRIu64 " copies taken, %" PRIu64 " not\n", b->mirrored, b->mirror_dropped);
    printf("%" PRIu64 " workers crashed, %" PRIu64 " unhealthy; %" PRIu64 " trials, %" PRIu64
           " refused as poison, %" PRIu64 " for want of a replica\n",
           b->crashes, b->unhealthy, b->trials, b->quarantined, b->refused_suspects);
    printf("%" PRIu64 " replicas taken out, %" PRIu64 " probed, %" PRIu64 " in again\n", b->ejected,
           b->probed, b->closed);
}

static bool run_seed(uint64_t seed, bool verbose)
{
    struct sim *s = as_xalloc(sizeof(*s));
    bool ok;

    s->seed = seed;
    s->verbose = verbose;
    s->rand.s = seed * 0x9e3779b97f4a7c15u + 1;
    ok = run(s);
    events += s->steps;
    add(&s->expected);
    free(s);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct seeds seeds = {"sim", run_seed, print};

    return seeds_main(&seeds, argc, argv);
}
