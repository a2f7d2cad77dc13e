/* io/loop/mbox.h — the mailbox of a loop: any thread posts a letter (a message), the loop opens it.
 *
 * Letters are embedded in the objects that they are about, and opened in the order of posting. An
 * atomic stack holds them: posting is one compare-and-swap, and the loop takes all letters at once.
 * Only a letter for an empty mailbox wakes the loop. Posting releases and opening acquires memory,
 * so that the contents of a letter are visible to the loop.
 */
#ifndef AS_IO_MBOX_H
#define AS_IO_MBOX_H

#include "io/loop/loop.h"

#include <stdatomic.h>

struct as_letter {
    struct as_letter *next;
    void (*open)(struct as_letter *l, void *to); /* on the mailbox's loop; owns the letter */
};

struct as_mbox {
    _Atomic(struct as_letter *) head;
    uv_async_t wake;
    struct as_loop *loop;
    void *to; /* argument of each letter's `open` */
};

/* 0 or AS_EIO. */
int as_mbox_open(struct as_mbox *m, struct as_loop *l, void *to);
/* Any thread. A letter must not be posted again before it was opened. */
void as_mbox_post(struct as_mbox *m, struct as_letter *l);
/* Asynchronous: the mailbox may be freed after the loop. Letters that were not opened stay with
 * their owners. */
void as_mbox_close(struct as_mbox *m);

#endif
