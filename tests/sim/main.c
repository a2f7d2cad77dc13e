/* The simulator's command line: sim [--seeds N] [--first S] [--verbose]. */
#include "sim.h"

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

/* What all runs together have met: a figure near zero means that the scenarios miss something. */
static void add(struct books *sum, const struct books *b)
{
    sum->accepted += b->accepted;
    sum->refused += b->refused;
    sum->dispatched += b->dispatched;
    sum->completed += b->completed;
    sum->failed += b->failed;
    sum->expired += b->expired;
    sum->cancelled += b->cancelled;
    sum->replayed += b->replayed;
    sum->recalled += b->recalled;
    sum->lost += b->lost;
    sum->deaths += b->deaths;
    sum->batches += b->batches;
    sum->members += b->members;
}

static void print(const struct books *b, uint64_t events)
{
    printf("%" PRIu64 " events; calls: %" PRIu64 " accepted, %" PRIu64 " refused, %" PRIu64
           " completed, %" PRIu64 " failed, %" PRIu64 " expired, %" PRIu64 " cancelled\n",
           events, b->accepted, b->refused, b->completed, b->failed, b->expired, b->cancelled);
    printf("%" PRIu64 " sent, %" PRIu64 " replayed, %" PRIu64 " recalled, %" PRIu64
           " lost with their worker, %" PRIu64 " deaths\n",
           b->dispatched, b->replayed, b->recalled, b->lost, b->deaths);
    printf("%" PRIu64 " calls of models with batching, %" PRIu64 " requests shared one\n",
           b->batches, b->members);
}

static bool run_seed(uint64_t seed, bool verbose, uint64_t *steps, struct books *sum)
{
    struct sim *s = as_xalloc(sizeof(*s));
    bool ok;

    s->seed = seed;
    s->verbose = verbose;
    s->rand.s = seed * 0x9e3779b97f4a7c15u + 1;
    ok = run(s);
    *steps += s->steps;
    add(sum, &s->books);
    free(s);
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
    fprintf(stderr, "usage: sim [--seeds N] [--first S] [--verbose]\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 1000, first = 1, passed = 0, failed = 0, steps = 0;
    struct books sum = {0};
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
        if (run_seed(current, verbose, &steps, &sum)) {
            passed++;
            continue;
        }
        if (++failed == 1 && !verbose) {
            printf("trace of seed %" PRIu64 ":\n", current);
            run_seed(current, true, &steps, &sum);
        }
    }
    print(&sum, steps);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
    return failed ? 1 : 0;
}
