#include "seeds.h"

#include "base/str.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define SEED_SECONDS 60u /* seconds for one seed; one usually takes a millisecond */
#define FAILURES_MAX 20u

static uint64_t current; /* for the message if core asserts */

static void on_signal(int sig)
{
    char line[64];
    int n = snprintf(line, sizeof(line), "seed %" PRIu64 ": core %s\n", current,
                     sig == SIGABRT ? "asserted" : "does not end");

    (void)!write(STDOUT_FILENO, line, (size_t)AS_MAX(n, 0));
    _exit(1);
}

struct order {
    uint64_t seeds, first;
    bool verbose;
};

static bool read_order(int argc, char **argv, struct order *ret_o)
{
    for (int i = 1; i < argc; i++) {
        struct as_str arg = as_str_of(argv[i]);
        struct as_str value = as_str_of(i + 1 < argc ? argv[i + 1] : "");

        if (as_str_eq(arg, AS_STR("--verbose")))
            ret_o->verbose = true;
        else if (as_str_eq(arg, AS_STR("--seeds")) && !as_str_u64(value, &ret_o->seeds))
            i++;
        else if (as_str_eq(arg, AS_STR("--first")) && !as_str_u64(value, &ret_o->first))
            i++;
        else
            return false;
    }
    return true;
}

int seeds_main(const struct seeds *s, int argc, char **argv)
{
    struct order o = {.seeds = 1000, .first = 1};
    uint64_t passed = 0, failed = 0;

    if (!read_order(argc, argv, &o)) {
        fprintf(stderr, "usage: %s [--seeds N] [--first S] [--verbose]\n", s->name);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGABRT, on_signal);
    signal(SIGALRM, on_signal);
    for (current = o.first; current - o.first < o.seeds && failed < FAILURES_MAX; current++) {
        alarm(SEED_SECONDS);
        if (s->run_seed(current, o.verbose)) {
            passed++;
            continue;
        }
        if (++failed == 1 && !o.verbose) {
            printf("trace of seed %" PRIu64 ":\n", current);
            s->run_seed(current, true);
        }
    }
    s->print();
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
    return failed ? 1 : 0;
}
