/* io/loop/loop.h — the event loop of one thread, on libuv: turns, time, deferred tasks, timers.
 *
 * A turn is one sleep and the callbacks after it. Work that should happen once per turn, such as
 * writing all queued output, is deferred: it runs after the callbacks of the turn. The clock is
 * read at most once per turn. Thread: only the loop's own; other threads use as_mbox_post
 * (io/loop/mbox.h).
 */
#ifndef AS_IO_LOOP_H
#define AS_IO_LOOP_H

#include "base/container/list.h"

#include <uv.h>

struct as_task {
    struct as_list node;
    void (*run)(struct as_task *t);
};

/* Counters of one loop (base/counter.h); exported as metrics. */
struct as_loop_stat {
    uint64_t wakes;  /* turns: times that the loop returned from polling */
    uint64_t reads;  /* read system calls on sockets */
    uint64_t writes; /* write system calls on sockets */
};

struct as_loop {
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;                  /* active while `next_turn` is not empty */
    struct as_list tasks, next_turn; /* to run at the end of this turn; in the next turn */
    as_ns now;                       /* of this turn; 0: not read yet */
    struct as_loop_stat stat;
    uint32_t index; /* 0 … threads-1 */
};

/* Makes libuv end the process with as_fatal_memory (base/fatal.h) when memory is out; by itself it
 * would abort without a message. Call it before the first loop of the process. */
void as_loop_set_allocator(void);
int as_loop_new(struct as_loop **ret_l, uint32_t index); /* 0 or AS_EIO */
void as_loop_free(struct as_loop *l); /* runs the loop until every closed handle is gone */
void as_loop_run(struct as_loop *l);  /* until as_loop_stop */
void as_loop_stop(struct as_loop *l);
as_ns as_loop_now(struct as_loop *l); /* CLOCK_MONOTONIC, when it was first asked in this turn */

void as_task_init(struct as_task *t, void (*run)(struct as_task *t));
/* Runs t at the end of this turn. A task that is pending already is not deferred again. */
void as_loop_defer(struct as_loop *l, struct as_task *t);
/* The same, ahead of all other tasks: for output that an idle peer waits for. */
void as_loop_defer_first(struct as_loop *l, struct as_task *t);
/* Runs t in the next turn, which comes at once but polls the sockets first. For long work that is
 * cut into slices. (A timer of 0 ms would run again in the same turn.) */
void as_loop_defer_next_turn(struct as_loop *l, struct as_task *t);
static inline bool as_task_is_pending(const struct as_task *t) /* for this turn or the next one */
{
    return !as_list_empty(&t->node);
}
void as_task_cancel(struct as_task *t);

/* A one-shot timer. It fires at its time or up to 1 ms later. */
struct as_timer {
    uv_timer_t uv;
    struct as_loop *loop;
    as_ns at; /* CLOCK_MONOTONIC; AS_NEVER: not set */
    void (*fire)(struct as_timer *t);
};
void as_timer_init(struct as_timer *t, struct as_loop *l, void (*fire)(struct as_timer *t));
void as_timer_set(struct as_timer *t, as_ns at); /* replaces the time before; AS_NEVER: stops it */
/* Asynchronous: `closed` (may be NULL) is called when the memory may be freed. */
void as_timer_close(struct as_timer *t, void (*closed)(struct as_timer *t));

#endif
