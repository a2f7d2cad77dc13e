/* ctl/message/channel.h — one end of a control socket: the supervisor's, or the controller's.
 *
 * Messages that the socket does not take wait in an outbox. Who lets it fill up is hung: the
 * channel ends. Thread: the loop's.
 */
#ifndef AS_CTL_CHANNEL_H
#define AS_CTL_CHANNEL_H

#include "ctl/message/message.h"
#include "io/loop/sock.h"

struct as_channel;

struct as_channel_ops {
    void (*on_message)(void *ctx, const struct as_ctl_message *m);
    void (*on_end)(void *ctx); /* once; the channel is closed already */
};

/* A pair of sockets: ours becomes the channel, *ret_fd (close-on-exec) is for the child. */
int as_channel_open(struct as_channel **ret_c, struct as_loop *loop,
                    const struct as_channel_ops *ops, void *ctx, int *ret_fd);
/* The child's side: `fd` becomes the channel, or is closed. 0, AS_EIO. */
int as_channel_attach(struct as_channel **ret_c, struct as_loop *loop, int fd,
                      const struct as_channel_ops *ops, void *ctx);
void as_channel_send(struct as_channel *c, const struct as_ctl_message *m); /* c may be NULL */
/* As well; a duplicate of `fd` goes along, unless the message has to wait: then it goes without. */
void as_channel_send_fd(struct as_channel *c, const struct as_ctl_message *m, int fd);
/* Over an exec: everything that was said has been taken by the socket, which is this one. */
bool as_channel_is_idle(const struct as_channel *c);
int as_channel_fd(const struct as_channel *c);
void as_channel_close(struct as_channel *c); /* no callback comes any more; NULL is fine */

#endif
