/* io/loop/helper.h — a thread beside a loop, for work that would block the loop for too long.
 *
 * Jobs run one after the other, in the order in which they were submitted, so that only one job per
 * loop needs memory at a time. A job is done in a later turn of the loop than the one that
 * submitted it. The first job starts the thread; when no thread can be started, the loop does the
 * work itself. Thread: the loop's, except for `work`.
 */
#ifndef AS_IO_HELPER_H
#define AS_IO_HELPER_H

#include "io/loop/mbox.h"

#include <pthread.h>

struct as_helper_job {
    /* On the helper's thread. No other thread touches what it uses before `done`. */
    void (*work)(struct as_helper_job *j);
    void (*done)(struct as_helper_job *j); /* on the loop; it owns the job from then on */
    /* used by the helper only */
    struct as_letter letter;
    struct as_list node;
    atomic_bool cancelled;
};

struct as_helper {
    struct as_loop *loop;
    struct as_mbox mbox;
    uint32_t jobs; /* submitted and not done */
    bool started;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t wake;
    struct as_list queue;
    bool stop;
};

/* 0 or AS_EIO. */
int as_helper_open(struct as_helper *h, struct as_loop *l);
/* Every job must be done. Waits for the thread to end. Asynchronous as as_mbox_close. */
void as_helper_close(struct as_helper *h);
void as_helper_submit(struct as_helper *h, struct as_helper_job *j);
/* Skips the job's `work`, unless that is running already; `done` is called in any case. */
void as_helper_cancel(struct as_helper_job *j);

#endif
