/* ctl/front.h — the dispatcher's process, as the supervisor has it: a child with a control socket.
 *
 * Each life gets copies of the same listeners, so that its death refuses no connection: the kernel
 * queues them until the next life accepts. Thread: the loop's.
 */
#ifndef AS_CTL_FRONT_H
#define AS_CTL_FRONT_H

#include "base/log.h"
#include "ctl/channel.h"
#include "ctl/child.h"
#include "ctl/handover.h"
#include "ctl/option.h"

struct as_front;

struct as_front_conf {
    const char *program; /* what is executed: "/proc/self/exe" */
    const struct as_option_set *opts;
    struct as_handover listeners; /* closed by as_front_drain or as_front_close */
    struct as_child_conf child;
};

struct as_front_ops {
    /* A new life; all that is said now is there before it starts to look. NULL: it is dead. */
    void (*on_channel)(void *ctx, struct as_channel *channel);
    void (*on_serving)(void *ctx);
    void (*on_message)(void *ctx, const struct as_ctl_message *m); /* the rest */
    void (*on_down)(void *ctx, bool gave_up); /* no life comes any more; deferred */
};

int as_front_new(struct as_front **ret_f, struct as_loop *loop, const struct as_front_conf *conf,
                 const struct as_front_ops *ops, void *ctx, const struct as_log *log);
void as_front_close(struct as_front *f); /* the loop must run once more before as_front_free */
void as_front_free(struct as_front *f);

void as_front_start(struct as_front *f);
/* DRAIN, and no new connection: on_down when it has ended, at the latest after `timeout`. */
void as_front_drain(struct as_front *f, as_ns timeout);
void as_front_stop(struct as_front *f); /* SIGKILL */
bool as_front_has(const struct as_front *f, pid_t pid);

#endif
