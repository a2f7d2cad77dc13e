/* link/native/death_watch.h — tells of a worker's death at once, however large the process is.
 *
 * The kernel closes a dead process's descriptors only after it has torn down its memory (tens of
 * milliseconds per gigabyte); a robust lock is marked before that. One thread sleeps in futex_waitv
 * on the lock words of all status pages and posts a letter for each that is marked. Where the
 * kernel lacks the call (before 5.16), and for workers beyond AS_DEATH_WATCH_MAX, pidfd remains.
 * Thread: made, used and freed by one loop; the watching thread is internal.
 */
#ifndef AS_LINK_DEATHWATCH_H
#define AS_LINK_DEATHWATCH_H

#include "io/loop/mbox.h"

#define AS_DEATH_WATCH_MAX 127u /* the kernel's limit of 128, less our own wake word */

struct as_death_watch;

/* NULL in *ret_w and AS_EUNIMPLEMENTED where the kernel cannot do it. */
int as_death_watch_new(struct as_death_watch **ret_w);
void as_death_watch_free(struct as_death_watch *w); /* joins the thread; nothing may be watched */

/* Posts `letter` to `box` once when the owner of the robust lock at `word` dies. False: the watch
 * is full. The word stays mapped until removed. */
bool as_death_watch_add(struct as_death_watch *w, const uint32_t *word, struct as_mbox *box,
                        struct as_letter *letter);
/* The word is not looked at any more when this returns. True: the letter was posted and is still to
 * be opened (or was): the caller knows which. */
bool as_death_watch_remove(struct as_death_watch *w, const uint32_t *word);

#endif
