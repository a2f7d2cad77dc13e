/* app/controller/code_sweeper.h — removes copies of code that are not needed, without blocking the
 * loop.
 *
 * A copy that is not needed is renamed at once (as_code_store_discard); a thread of its own then
 * removes the files. All functions are called on the loop's thread.
 */
#ifndef AS_APP_CODE_SWEEPER_H
#define AS_APP_CODE_SWEEPER_H

#include "base/buf.h"
#include "base/log.h"
#include "ctl/state/code_store.h"
#include "io/loop/loop.h"

#include <pthread.h>
#include <stdatomic.h>

struct as_code_sweeper {
    const char *store; /* the folder of the copies; the owner's */
    const struct as_log *log;
    struct as_loop *loop;
    struct as_timer timer; /* checks whether the thread is done */
    pthread_t thread;
    bool running;
    bool again; /* there is more to remove since the thread began */
    atomic_bool done;
    struct as_buf err; /* the thread's, until it is done */
};

void as_code_sweeper_init(struct as_code_sweeper *s, struct as_loop *loop, const char *store,
                          const struct as_log *log);
/* Removes all copies but these. No copy may be under way. */
void as_code_sweeper_sweep(struct as_code_sweeper *s, const struct as_code_store_names *keep);
/* Waits for the thread. The loop must run once more before the memory goes. */
void as_code_sweeper_close(struct as_code_sweeper *s);

#endif
