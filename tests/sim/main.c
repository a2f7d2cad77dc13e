/* The simulator's command line: sim [--seeds N] [--first S] [--verbose]. */
#include "sim.h"

#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

static uint64_t current; /* for the message when core asserts */

void trace(struct sim *s, const char *fmt, ...)
{
    va_list ap;

    if (!s->verbose)
        return;
    printf("%10llu.%03llu us  ", (unsigned long long)(s->now / 1000),
           (unsigned long long)(s->now % 1000));
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
    printf("seed %llu, %llu ns, event %llu: ", (unsigned long long)s->seed,
           (unsigned long long)s->now, (unsigned long long)s->steps);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

static bool run_seed(uint64_t seed, bool verbose, uint64_t *steps)
{
    struct sim *s = as_xalloc(sizeof(*s));
    bool ok;

    s->seed = seed;
    s->verbose = verbose;
    s->rand.s = seed * 0x9e3779b97f4a7c15u + 1;
    ok = run(s);
    *steps += s->steps;
    free(s);
    return ok;
}

static void on_abort(int sig AS_UNUSED)
{
    char line[64];
    int n =
        snprintf(line, sizeof(line), "core asserted at seed %llu\n", (unsigned long long)current);

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
    signal(SIGABRT, on_abort);
    for (current = first; current - first < seeds && failed < 20; current++) {
        if (run_seed(current, verbose, &steps)) {
            passed++;
            continue;
        }
        if (++failed == 1 && !verbose) {
            printf("trace of seed %llu:\n", (unsigned long long)current);
            run_seed(current, true, &steps);
        }
    }
    printf("%llu events\n", (unsigned long long)steps);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed ? 1 : 0;
}
