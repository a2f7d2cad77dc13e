/* io/loop/loop.h — one event loop of one thread, on libuv: turns, time, deferred work, timers.
 *
 * A turn is one sleep and the callbacks after it. Work that should happen once per turn, whatever
 * came (writing out what was queued), is deferred: it runs when all callbacks of the turn have.
 * Time is read at most once per turn. Thread: the loop's own, save for as_mbox_post
 * (io/loop/mbox.h).
 */
#ifndef AS_IO_LOOP_LOOP_H
#define AS_IO_LOOP_LOOP_H

#include "base/list.h"

#include <uv.h>

struct as_task {
    struct as_list node;
    void (*run)(struct as_task *t);
};

/* Counters of one loop (base/counter.h); exported as metrics. */
struct as_loop_stat {
    uint64_t wakes;  /* times that the loop came back from sleeping or looking */
    uint64_t reads;  /* read system calls on sockets */
    uint64_t writes; /* write system calls on sockets */
    uint64_t accepts;
};

struct as_loop {
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle; /* runs while `next_turn` is not empty */
    struct as_list tasks, next_turn;
    as_ns now; /* of this turn; 0: not read yet */
    struct as_loop_stat stat;
    uint32_t index; /* 0 … threads-1 */
};

/* Before the first loop of the process: libuv, which would abort without a word, ends like we do
 * when memory is out (base/fatal.h). */
void as_loop_set_allocator(void);
int as_loop_new(struct as_loop **ret_l, uint32_t index);
void as_loop_free(struct as_loop *l); /* runs the loop until every closed handle is gone */
void as_loop_run(struct as_loop *l);  /* until as_loop_stop */
void as_loop_stop(struct as_loop *l);
as_ns as_loop_now(struct as_loop *l); /* CLOCK_MONOTONIC at this turn's first question */

void as_task_init(struct as_task *t, void (*run)(struct as_task *t));
/* Runs t at the end of this turn; deferring it again before that changes nothing. */
void as_loop_defer(struct as_loop *l, struct as_task *t);
/* The same, ahead of all others: for what somebody who has nothing to do is waiting for. */
void as_loop_defer_first(struct as_loop *l, struct as_task *t);
/* Runs t in the next turn, which comes at once: sockets are looked at in between. For work that is
 * cut into slices; a timer of no time would run again in the same turn. */
void as_loop_defer_next_turn(struct as_loop *l, struct as_task *t);
static inline bool as_task_is_pending(const struct as_task *t) /* deferred, or for the next turn */
{
    return !as_list_empty(&t->node);
}
void as_task_cancel(struct as_task *t);

/* A timer for one moment. Fires once, at or up to 1 ms after it; setting it again moves it. */
struct as_timer {
    uv_timer_t uv;
    struct as_loop *loop;
    as_ns at; /* AS_NEVER: not set */
    void (*fire)(struct as_timer *t);
};
void as_timer_init(struct as_timer *t, struct as_loop *l, void (*fire)(struct as_timer *t));
void as_timer_set(struct as_timer *t, as_ns at); /* AS_NEVER: stops it */
/* Asynchronous: `closed` (may be NULL) is called when the memory may go. */
void as_timer_close(struct as_timer *t, void (*closed)(struct as_timer *t));

#endif
