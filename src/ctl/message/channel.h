/* ctl/message/channel.h — one end of a control socket in a loop: the supervisor's, or the
 * controller's.
 *
 * Messages that the socket does not take at once wait in an outbox. A peer that lets the outbox
 * fill up counts as hung: the channel ends. Thread: the loop's.
 */
#ifndef AS_CTL_CHANNEL_H
#define AS_CTL_CHANNEL_H

#include "ctl/message/message.h"
#include "io/loop/sock.h"

struct as_channel;

struct as_channel_ops {
    void (*on_message)(void *ctx, const struct as_ctl_message *m);
    void (*on_end)(void *ctx); /* called once; the channel is closed already */
};

/* Makes a pair of sockets: one becomes the channel, *ret_fd (close-on-exec) is the child's. 0,
 * AS_EIO. */
int as_channel_open(struct as_channel **ret_c, struct as_loop *loop,
                    const struct as_channel_ops *ops, void *ctx, int *ret_fd);
/* The child's side: takes over `fd`, also on failure. 0, AS_EIO. */
int as_channel_attach(struct as_channel **ret_c, struct as_loop *loop, int fd,
                      const struct as_channel_ops *ops, void *ctx);
void as_channel_send(struct as_channel *c, const struct as_ctl_message *m); /* c may be NULL */
/* The same with a duplicate of `fd`. A message that has to wait is sent without it. */
void as_channel_send_fd(struct as_channel *c, const struct as_ctl_message *m, int fd);
/* What the process at the other end reads: AS_CTL_FORMAT, unless an earlier version started it. */
uint32_t as_channel_format(const struct as_channel *c);
void as_channel_set_format(struct as_channel *c, uint32_t format);
/* For an upgrade's exec: whether the socket has taken every message; the socket. */
bool as_channel_is_idle(const struct as_channel *c);
int as_channel_fd(const struct as_channel *c);
void as_channel_close(struct as_channel *c); /* no callback comes any more; c may be NULL */

#endif
