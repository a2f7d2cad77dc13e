/* io/loop/helper.h — one thread beside a loop, for work that would keep the loop from everybody
 * else.
 *
 * Jobs are done one after the other, in the order in which they came, so that what one needs to
 * work (memory above all) is needed once per loop. A job is over in a turn of the loop after the
 * one that gave it. The thread is started by the first job; where the system has none to give, the
 * loop does the work itself. Thread: the loop's, but for `work`.
 */
#ifndef AS_IO_LOOP_HELPER_H
#define AS_IO_LOOP_HELPER_H

#include "io/loop/mbox.h"

#include <pthread.h>

struct as_helper_job {
    /* On the helper's thread: nobody else touches what it uses until `done`. */
    void (*work)(struct as_helper_job *j);
    void (*done)(struct as_helper_job *j); /* on the loop; owns the job from then on */
    /* the helper's own */
    struct as_letter letter;
    struct as_list node;
    atomic_bool cancelled;
};

struct as_helper {
    struct as_loop *loop;
    struct as_mbox mbox;
    uint32_t jobs; /* that are not done */
    bool started;
    pthread_t thread;
    pthread_mutex_t lock; /* over what follows */
    pthread_cond_t wake;
    struct as_list queue;
    bool stop;
};

/* 0 or AS_EIO. */
int as_helper_open(struct as_helper *h, struct as_loop *l);
/* Waits for the thread, which has nothing to do any more; as as_mbox_close. */
void as_helper_close(struct as_helper *h);
void as_helper_submit(struct as_helper *h, struct as_helper_job *j);
/* Nobody wants it any more: unless it is being worked on already, `work` is left out. */
void as_helper_cancel(struct as_helper_job *j);

#endif
