/* ctl/message/outbox.h — control messages on their way out of a process.
 *
 * What the control socket does not take at once waits here, in order, until it takes more: a lost
 * KILL would leave a hung worker where it is. Both ends of the socket have an outbox; the owner
 * watches the descriptor, and decides what it means when the other end reads nothing for so long
 * that the bound is reached. Thread: the owner's loop.
 */
#ifndef AS_CTL_OUTBOX_H
#define AS_CTL_OUTBOX_H

#include "base/buf.h"
#include "ctl/message/message.h"

/* Bytes that may wait. A message is some 60 bytes, a socket takes a few hundred: this is reached by
 * an end that hangs, never by one that is slow. */
#define AS_OUTBOX_LIMIT ((size_t)16 << 20)

struct as_outbox {
    struct as_buf wait; /* u16 length, datagram; again */
    size_t limit;
};

void as_outbox_init(struct as_outbox *o, size_t limit);
void as_outbox_fini(struct as_outbox *o); /* what waits is lost */

/* 0: the socket has it, or it waits (then watch for writability). AS_EFULL: dropped, there is no
 * room. AS_EOF: the other end is gone. */
int as_outbox_send(struct as_outbox *o, int fd, const struct as_ctl_message *m);
/* The socket may take more. 0: as much was sent as it took. AS_EOF: the other end is gone. */
int as_outbox_flush(struct as_outbox *o, int fd);

static inline bool as_outbox_has_pending(const struct as_outbox *o)
{
    return o->wait.n > 0;
}

#endif
