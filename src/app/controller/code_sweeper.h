/* app/controller/code_sweeper.h — removes copies of code that nobody needs, beside the loop.
 *
 * What is not needed loses its name at once (as_code_store_discard); the files are removed by a
 * thread that lives as long as there are any. Thread: the loop's.
 */
#ifndef AS_APP_SWEEPER_H
#define AS_APP_SWEEPER_H

#include "base/buf.h"
#include "base/log.h"
#include "ctl/state/code_store.h"
#include "io/loop/loop.h"

#include <pthread.h>
#include <stdatomic.h>

struct as_code_sweeper {
    const char *store; /* the owner's */
    const struct as_log *log;
    struct as_loop *loop;
    struct as_timer timer; /* looks whether the thread is done */
    pthread_t thread;
    bool running, again; /* there is more since it began */
    atomic_bool done;
    struct as_buf err; /* the thread's until it is done */
};

void as_code_sweeper_init(struct as_code_sweeper *s, struct as_loop *loop, const char *store,
                          const struct as_log *log);
/* All but these go. Nobody makes a copy just now. */
void as_code_sweeper_sweep(struct as_code_sweeper *s, const struct as_code_store_names *keep);
/* Waits for the thread. The loop must run once more before the memory goes. */
void as_code_sweeper_close(struct as_code_sweeper *s);

#endif
