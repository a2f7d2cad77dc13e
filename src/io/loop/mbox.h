/* io/loop/mbox.h — letters between loops: any thread posts, one loop receives.
 *
 * An intrusive stack with one atomic head: posting is one compare-and-swap, receiving takes all at
 * once and puts them in order of posting. The receiver is woken only when the box was empty.
 * Release on post and acquire on take make the letter's contents visible.
 */
#ifndef AS_IO_LOOP_MBOX_H
#define AS_IO_LOOP_MBOX_H

#include "io/loop/loop.h"

#include <stdatomic.h>

struct as_letter {
    struct as_letter *next;
    void (*open)(struct as_letter *l, void *to); /* on the receiver's loop; owns the letter */
};

struct as_mbox {
    _Atomic(struct as_letter *) head;
    uv_async_t wake;
    struct as_loop *loop;
    void *to; /* handed to each letter */
};

int as_mbox_open(struct as_mbox *m, struct as_loop *l, void *to);
/* Any thread. The letter must not be posted again before it was opened. */
void as_mbox_post(struct as_mbox *m, struct as_letter *l);
/* Asynchronous: the memory may go when the loop was freed. Letters not opened stay with their
 * owners. */
void as_mbox_close(struct as_mbox *m);

#endif
