/* io/loop/death_watch.h — reports the death of a process at once, however large the process is.
 *
 * The kernel closes a dead process's descriptors only after it has freed its memory, which takes
 * tens of milliseconds per gigabyte; it marks robust locks before that. One thread sleeps in
 * futex_waitv on the lock words of all status pages and posts a letter for each word that the
 * kernel marks. If the kernel lacks futex_waitv (before 5.16), and for workers beyond
 * AS_DEATH_WATCH_MAX, the dispatcher relies on pidfd. Thread: all functions are called on one loop;
 * the watching thread is internal.
 */
#ifndef AS_IO_DEATH_WATCH_H
#define AS_IO_DEATH_WATCH_H

#include "io/loop/mbox.h"

#define AS_DEATH_WATCH_MAX 127u /* the kernel's limit of 128, minus our own wake word */

struct as_death_watch;

/* 0, AS_EIO, or AS_EUNIMPLEMENTED if the kernel lacks the call; *ret_w is NULL after an error. */
int as_death_watch_new(struct as_death_watch **ret_w);
void as_death_watch_free(
    struct as_death_watch *w); /* joins the thread; all words must be removed before */

/* Posts `letter` to `box` once when the owner of the robust lock at `word` dies. The word must stay
 * mapped until it is removed. False: the watch is full. */
bool as_death_watch_add(struct as_death_watch *w, const uint32_t *word, struct as_mbox *box,
                        struct as_letter *letter);
/* From now on the word is not read any more. True: its letter was posted, and may still be in the
 * mailbox. */
bool as_death_watch_remove(struct as_death_watch *w, const uint32_t *word);

#endif
