/* The command line: plan_sim [--seeds N] [--first S] [--verbose]. */
#include "plan.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

static uint64_t current; /* for the message when core asserts */

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

/* A figure near zero means that the scenarios miss something. */
static void add(struct tally *sum, const struct tally *t)
{
    sum->events += t->events;
    sum->starts += t->starts;
    sum->deaths += t->deaths;
    sum->kills += t->kills;
    sum->updates += t->updates;
    sum->scales += t->scales;
    sum->rollbacks += t->rollbacks;
    sum->recoveries += t->recoveries;
    sum->adopted += t->adopted;
    sum->moves += t->moves;
    sum->refused += t->refused;
    sum->disconnects += t->disconnects;
    sum->settled += t->settled;
    sum->given_up += t->given_up;
    sum->duplicates += t->duplicates;
    sum->slowest = AS_MAX(sum->slowest, t->slowest);
}

static void print(const struct tally *t)
{
    printf("%" PRIu64 " events; %" PRIu64 " starts, %" PRIu64 " deaths, %" PRIu64
           " killed for a fault, %" PRIu64 " given up\n",
           t->events, t->starts, t->deaths, t->kills, t->given_up);
    printf("%" PRIu64 " updates, %" PRIu64 " scalings, %" PRIu64 " rolled back, %" PRIu64
           " times settled, %" PRIu64 " ranks moved, %" PRIu64 " configures refused\n",
           t->updates, t->scales, t->rollbacks, t->settled, t->moves, t->refused);
    printf("%" PRIu64 " recoveries of the controller, %" PRIu64 " processes adopted, %" PRIu64
           " impossible ones found, %" PRIu64 " deaths of the dispatcher\n",
           t->recoveries, t->adopted, t->duplicates, t->disconnects);
    printf("slowest convergence after the last fault: %" PRIu64 " ms\n", t->slowest / AS_MS);
}

static bool run_seed(uint64_t seed, bool verbose, struct tally *sum)
{
    static struct sim s; /* large, and cleared by the page */
    bool ok;

    memset(&s, 0, offsetof(struct sim, procs));
    s.n_procs = 0;
    memset(&s.n_alive, 0, sizeof(s) - offsetof(struct sim, n_alive));
    s.seed = seed;
    s.verbose = verbose;
    s.rand.s = seed * 0x9e3779b97f4a7c15u + 1;
    ok = run(&s);
    add(sum, &s.tally);
    return ok;
}

#define PATIENCE 60u /* seconds for one seed, which takes a millisecond */

static void on_signal(int sig)
{
    char line[64];
    int n = snprintf(line, sizeof(line), "seed %" PRIu64 ": core %s\n", current,
                     sig == SIGABRT ? "asserted" : "does not end");

    (void)!write(STDOUT_FILENO, line, (size_t)AS_MAX(n, 0));
    _exit(1);
}

static int usage(void)
{
    fprintf(stderr, "usage: plan_sim [--seeds N] [--first S] [--verbose]\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 1000, first = 1, passed = 0, failed = 0;
    struct tally sum = {0};
    bool verbose = false;

    for (int i = 1; i < argc; i++) {
        struct as_str arg = as_str_of(argv[i]);
        struct as_str value = as_str_of(i + 1 < argc ? argv[i + 1] : "");

        if (as_str_eq(arg, AS_STR("--verbose")))
            verbose = true;
        else if (as_str_eq(arg, AS_STR("--seeds")) && !as_str_u64(value, &seeds))
            i++;
        else if (as_str_eq(arg, AS_STR("--first")) && !as_str_u64(value, &first))
            i++;
        else
            return usage();
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGABRT, on_signal);
    signal(SIGALRM, on_signal);
    for (current = first; current - first < seeds && failed < 20; current++) {
        alarm(PATIENCE);
        if (run_seed(current, verbose, &sum)) {
            passed++;
            continue;
        }
        if (++failed == 1 && !verbose) {
            printf("trace of seed %" PRIu64 ":\n", current);
            run_seed(current, true, &sum);
        }
    }
    print(&sum);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
    return failed ? 1 : 0;
}
