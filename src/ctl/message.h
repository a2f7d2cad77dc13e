/* ctl/message.h — what supervisor and dispatcher say to each other.
 *
 * One message is one datagram of the SOCK_SEQPACKET control socket. The supervisor repeats every
 * TOKEN, REPLICA and DOWN to a new dispatcher and then says TOLD: only then may the dispatcher
 * accept workers, whose tokens it would not know before. Decoding trusts no byte: the dispatcher
 * talks to the network.
 */
#ifndef AS_CTL_MESSAGE_H
#define AS_CTL_MESSAGE_H

#include "base/err.h"
#include "base/str.h"

#define AS_CTL_MESSAGE_MAX 8192u /* bytes of a datagram */
#define AS_CTL_NAME_MAX    255u  /* bytes of replica, deployment and token */
#define AS_CTL_TEXT_MAX    6144u

/* name, the fields that count */
#define AS_CTL_MESSAGE_TABLE(X)                                                                    \
    /* supervisor to dispatcher */                                                                 \
    X(TOKEN)   /* replica, deployment, token: a worker may come; told before it is started */      \
    X(REPLICA) /* replica, deployment, state, pid, restarts, text = reason: for the status page */ \
    X(FORGET)  /* token: that worker is dead; its link ends */                                     \
    X(DOWN)    /* deployment, text: all given up; its requests are refused */                      \
    X(UP)      /* deployment: one is READY again; takes DOWN back */                               \
    X(TOLD)    /* all of the above has been said: workers may be let in (no HELLO before it) */    \
    X(DRAIN)   /* no new work; end when the rest is answered */                                    \
    /* dispatcher to supervisor */                                                                 \
    X(SERVING) /* listens and knows how to serve */                                                \
    X(READY)   /* replica, token, text = "model:version …": it is registered and has slots */    \
    X(GONE)    /* replica, token, text: its link ended; the process may live */                    \
    X(DRAINED) /* everything is answered */                                                        \
    X(KILL)    /* replica, token, text: it hangs or breaks the protocol: end it */

enum as_ctl_type {
    AS_CTL_NONE,
#define X(name) AS_CTL_##name,
    AS_CTL_MESSAGE_TABLE(X)
#undef X
        AS_CTL_TYPES
};

/* The life of a replica as the supervisor sees it. */
#define AS_CTL_STATE_TABLE(X)                                                                      \
    X(STARTING, "starting") /* the process runs, not READY yet */                                  \
    X(READY, "ready")                                                                              \
    X(LOST, "lost")         /* the process runs, its link does not (dispatcher restarted) */       \
    X(WAITING, "waiting")   /* dead, to be started after a delay */                                \
    X(STOPPING, "stopping") /* told to end */                                                      \
    X(DOWN, "down")         /* dead and given up for a while, or stopped */

enum as_ctl_state {
#define X(name, text) AS_CTL_##name##_STATE,
    AS_CTL_STATE_TABLE(X)
#undef X
        AS_CTL_STATES
};

struct as_ctl_message {
    enum as_ctl_type type;
    enum as_ctl_state state;
    uint32_t pid; /* also the worker's process group */
    uint32_t restarts;
    struct as_str replica, deployment, token; /* at most AS_CTL_NAME_MAX */
    struct as_str text;                       /* cut at AS_CTL_TEXT_MAX by the encoder */
};

/* Writes one datagram and returns its length. The names are ours and short: asserted. */
size_t as_ctl_encode(const struct as_ctl_message *m, uint8_t out[AS_CTL_MESSAGE_MAX]);

/* Strings of `ret_m` point into p. 0, or AS_EPROTO for anything that encode does not make: `ret_m`
 * is untouched. */
int as_ctl_decode(const uint8_t *p, size_t n, struct as_ctl_message *ret_m);

/* One datagram on a non-blocking socket: 0, AS_EAGAIN (the socket is full), AS_EOF. */
int as_ctl_send(int fd, const struct as_ctl_message *m);
int as_ctl_send_bytes(int fd, const uint8_t *p, size_t n); /* one that is encoded already */
/* 0, AS_EAGAIN (nothing there), AS_EOF (the other end is gone), AS_EPROTO (skip it). Strings point
 * into `buf`. Descriptors that a peer attaches are closed by the kernel (none are asked for). */
int as_ctl_receive(int fd, uint8_t buf[AS_CTL_MESSAGE_MAX], struct as_ctl_message *ret_m);

const char *as_ctl_type_name(enum as_ctl_type type);    /* "TOKEN" */
const char *as_ctl_state_name(enum as_ctl_state state); /* "ready" */

#endif
