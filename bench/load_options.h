/* bench/load_options.h — the command line of the load generator. */
#ifndef AS_BENCH_LOAD_OPTIONS_H
#define AS_BENCH_LOAD_OPTIONS_H

#include "load_h2.h"

#define AS_LOAD_WATCH_MAX 16u

struct as_load_command {
    struct as_load_options shape; /* authority is the caller's to set */
    const char *host, *port;
    uint32_t connections;
    double seconds, warmup;
    uint64_t requests; /* 0: by time */
    uint64_t rate;     /* calls a second; 0: closed loop */
    bool is_poisson;
    uint64_t seed;
    uint32_t n_watch;
    int watch[AS_LOAD_WATCH_MAX]; /* process ids */
};

/* Exits with the usage when the arguments make no sense. */
void as_load_command_parse(struct as_load_command *c, int argc, char **argv);

#endif
