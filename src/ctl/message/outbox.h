/* ctl/message/outbox.h — control messages that wait until the socket takes them.
 *
 * A message that the socket does not take at once waits here, in order: a lost KILL would leave a
 * hung worker running. Each end of a socket has an outbox. The owner watches the descriptor, and
 * decides what to do when the other end reads nothing until the limit is reached. Thread: the
 * owner's loop.
 */
#ifndef AS_CTL_OUTBOX_H
#define AS_CTL_OUTBOX_H

#include "base/buf.h"
#include "ctl/message/message.h"

/* Bytes that may wait. A message has some 60 bytes, and the socket takes a few hundred of them: a
 * slow end never reaches this limit, only one that hangs. */
#define AS_OUTBOX_LIMIT ((size_t)16 << 20)

struct as_outbox {
    struct as_buf wait; /* for each message: u16 length, datagram */
    size_t limit;
    uint32_t format; /* of the other end: AS_CTL_FORMAT, or an earlier one */
};

void as_outbox_init(struct as_outbox *o, size_t limit);
void as_outbox_fini(struct as_outbox *o); /* waiting messages are dropped */

/* The datagram of a message, as the other end reads it; its length. */
size_t as_outbox_encode(const struct as_outbox *o, const struct as_ctl_message *m,
                        uint8_t out[AS_CTL_MESSAGE_MAX]);
/* 0: the socket has taken it, or it waits (then watch for writability). AS_EFULL: the limit is
 * reached; it was dropped. AS_EOF: the other end is gone. */
int as_outbox_send(struct as_outbox *o, int fd, const struct as_ctl_message *m);
/* Sends as much as the socket takes. 0, or AS_EOF: the other end is gone. */
int as_outbox_flush(struct as_outbox *o, int fd);

static inline bool as_outbox_has_pending(const struct as_outbox *o)
{
    return o->wait.n > 0;
}

#endif
