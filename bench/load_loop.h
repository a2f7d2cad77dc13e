/* bench/load_loop.h — all connections of the load generator, driven by one thread and one epoll.
 *
 * Closed loop: every stream starts its next call when its last is answered; the thread sleeps in
 * between. Open loop: calls begin when a schedule says so, whatever the answers do. The thread then
 * never sleeps, so that a call leaves when it is due. A call that finds no free stream waits, and
 * its latency counts from when it was due
 * ("coordinated omission" is thus avoided).
 */
#ifndef AS_BENCH_LOAD_LOOP_H
#define AS_BENCH_LOAD_LOOP_H

#include "load_h2.h"
#include "tool/bench/arrival_schedule.h"

struct as_load_loop {
    int epoll;
    uint32_t n, n_open; /* connections; those that still live */
    struct as_load_conn **conns;
    as_ns now; /* read once per turn and after each read: calls of one turn share their start */
    struct as_load_tally *tally;
};

/* When calls are due. */
struct as_load_schedule {
    struct as_arrival_schedule times; /* of all connections together */
    as_ns due;                        /* the next call */
    uint32_t conn;                    /* that gets it */
    struct as_loghist late; /* due until it was handed to a connection; of calls that count */
};

/* Connects to host:port or exits with a message. */
void as_load_loop_init(struct as_load_loop *l, const char *host, const char *port,
                       uint32_t connections, const struct as_load_shape *shape,
                       struct as_load_tally *t);
void as_load_loop_fini(struct as_load_loop *l);

/* Answers are taken, and in a closed loop calls started, until `end` or until `finished` calls have
 * been answered. */
void as_load_loop_run(struct as_load_loop *l, as_ns end, uint64_t finished);

/* Open loop until the clock says `end`; no call begins that is due later. */
void as_load_loop_run_open(struct as_load_loop *l, struct as_load_schedule *s, as_ns end);

/* After that: the calls that were due before `end` and found no free stream. Returns how many had
 * to be left out when the clock said `give_up`, or the last connection was lost. */
uint64_t as_load_loop_catch_up(struct as_load_loop *l, struct as_load_schedule *s, as_ns end,
                               as_ns give_up);

#endif
