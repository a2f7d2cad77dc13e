/* The command line: calls_sim [--fault wait|late] [--seeds N] [--first S] [--verbose].
 *
 * With a fault it succeeds if it finds that requests wait for each other, and nothing else wrong.
 */
#include "calls.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdarg.h>

#define CAREFUL 16u /* every so many seeds all invariants are checked after each step */

static enum fault fault;
static struct tally sum; /* over all runs */
static uint64_t others;  /* violations that are no deadlocks */

void trace(const struct sim *s, const char *fmt, ...)
{
    va_list ap;

    if (!s->verbose)
        return;
    printf("%6" PRIu64 "  ", s->now);
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
    if (fault && s->deadlocked)
        return;
    printf("seed %" PRIu64 ", step %" PRIu64 ": ", s->seed, s->tally.steps);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

/* A number near zero means that the scenarios do not cover something. */
static void add(const struct tally *t)
{
    sum.steps += t->steps;
    sum.calls += t->calls;
    sum.cyclic += t->cyclic;
    sum.beyond += t->beyond;
    sum.refused += t->refused;
    sum.deep += t->deep;
    sum.deaths += t->deaths;
    sum.drains += t->drains;
    sum.left += t->left;
    sum.expired += t->expired;
    sum.replayed += t->replayed;
}

static void print(void)
{
    printf("%" PRIu64 " steps, %" PRIu64 " calls: %" PRIu64 " on cycles, %" PRIu64
           " sent beyond the slots, %" PRIu64 " refused, %" PRIu64 " too deep\n",
           sum.steps, sum.calls, sum.cyclic, sum.beyond, sum.refused, sum.deep);
    printf("%" PRIu64 " deaths, %" PRIu64 " drains, %" PRIu64 " clients left, %" PRIu64
           " expired, %" PRIu64 " sent again; %" PRIu64 " deadlocks\n",
           sum.deaths, sum.drains, sum.left, sum.expired, sum.replayed, sum.deadlocks);
}

static bool run_seed(uint64_t seed, bool verbose)
{
    struct sim *s = as_xalloc(sizeof(*s));
    bool ok;

    s->seed = seed;
    s->verbose = verbose;
    s->fault = fault;
    s->careful = seed % CAREFUL == 0;
    s->rand.s = seed * 0x9e3779b97f4a7c15u + 1;
    ok = run(s);
    add(&s->tally);
    sum.deadlocks += s->deadlocked;
    others += !ok && !s->deadlocked;
    ok = ok || (fault && s->deadlocked);
    free(s);
    return ok;
}

int main(int argc, char **argv)
{
    static const struct seeds seeds = {"calls_sim", run_seed, print};
    static const char *const names[FAULTS] = {"none", "wait", "late"};
    int rc;

    if (argc > 2 && as_str_eq(as_str_of(argv[1]), AS_STR("--fault"))) {
        while (fault < FAULTS && !as_str_eq(as_str_of(names[fault]), as_str_of(argv[2])))
            fault++;
        argc -= 2;
        argv += 2;
    }
    if (fault == FAULTS) {
        fprintf(stderr, "the faults are: none, wait, late\n");
        return 2;
    }
    rc = seeds_main(&seeds, argc, argv);
    return fault && !rc ? sum.deadlocks == 0 : rc;
}
