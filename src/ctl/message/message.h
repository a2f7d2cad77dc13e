/* ctl/message/message.h — what supervisor, dispatcher and controller say to each other.
 *
 * One message is one datagram of a SOCK_SEQPACKET control socket. The supervisor has one socket to
 * each of the two others: what they say to each other passes through it, by the table, and it looks
 * into none of it. Both are told all that the supervisor knows when they start, then TOLD: only
 * then may the dispatcher accept workers, whose tokens it would not know before, and the controller
 * decide. Decoding trusts no byte: the dispatcher talks to the network.
 */
#ifndef AS_CTL_MESSAGE_H
#define AS_CTL_MESSAGE_H

#include "base/err.h"
#include "base/str.h"
#include "wire/frame/frame.h"

#define AS_CTL_MESSAGE_MAX 63488u /* bytes of a datagram */
#define AS_CTL_NAME_MAX    255u   /* bytes of replica, deployment and token */
#define AS_CTL_TEXT_MAX    61440u /* what a worker is started with must fit: ctl/message/spawn.h */

/* Nobody says that its loops turn to a supervisor that has so much to read: one that is stopped for
 * long must find room for the rest. */
#define AS_CTL_UNREAD_MAX 16384u

/* Of a datagram. During an upgrade two versions talk: new rows go to the end of the table, and a
 * row that means something else is another format, between which there is no upgrade. */
#define AS_CTL_FORMAT 3u

/* Who may say a message, and who hears it. */
#define AS_CTL_S 1u /* supervisor */
#define AS_CTL_D 2u /* dispatcher */
#define AS_CTL_C 4u /* controller */

/* name, said by, heard by; the fields that count */
#define AS_CTL_MESSAGE_TABLE(X)                                                                    \
    X(TOKEN, S, D)   /* replica, deployment, token: a worker may come; before it is started */     \
    X(REPLICA, S, D) /* replica, deployment, state, pid, restarts, text = reason: status page */   \
    X(FORGET, S, D)  /* token, kind: that worker is dead, and how it ended; its link ends */       \
    X(TOLD, S, DC)   /* all has been said; to the controller: number 1 once COMPLETE was said; to  \
                        a dispatcher: number of workers to wait for that are not ours; id 1: for   \
                        as long as it takes, until it is said again with 0 */                      \
    X(DRAIN, S, DC)  /* no new work; end when the rest is answered */                              \
    X(SERVING, DC,                                                                                 \
      S) /* listens and knows how to serve; has said its first decisions. Then again               \
            and again, with number 1: its event loops turn (core/replicas/heartbeat.h) */          \
    /* dispatcher */                                                                               \
    X(READY, D, SC) /* replica, token, text = "model:version …": it is registered, has slots */  \
    X(GONE, D, SC)  /* replica, token, text: its link ended; the process may live */               \
    X(KILL, DC, S)  /* token, text: it hangs or breaks the protocol: end it; counts as a crash */  \
    X(DRAINED, D, S)                                                                               \
    X(RETIRED, D, C) /* replica, token: nothing of it is unanswered since RETIRE */                \
    X(ANSWER, D, C)  /* replica, token, id, number = an AS_E… or 0, text: to ASK */              \
    /* controller */                                                                               \
    X(SPAWN, C,                                                                                    \
      S) /* replica, deployment, token, restarts, text = what to run (ctl/message/spawn.h) */      \
    X(SIGNAL, C, S) /* token, number = signal (0: none), ns until SIGKILL: it is asked to end */   \
    X(NOTE, C, SD) /* replica, deployment, text: ctl/message/replica_facts; given back by RUNS, to \
                      the next one */                                                              \
    X(PLACE, C, S) /* replica, deployment, restarts, state, text = reason: has no process now */   \
    X(REMOVE, C, SD)  /* replica: there is no such place any more; it has no process */            \
    X(DOWN, C, SD)    /* deployment, text: all given up; its requests are refused */               \
    X(UP, C, SD)      /* deployment: one is READY again; takes DOWN back */                        \
    X(STATUS, C, SD)  /* replica = its application, deployment ("": of the application), text =    \
                         status, trigger, message with a space between, "": there is none any      \
                         more; ns: since when; of a deployment id 1, number = replicas that there  \
                         are to be; id 0: they are not told */                                     \
    X(COMPLETE, C, S) /* number = replicas that are READY, id = that there are to be: all, or what \
                         is not has failed, for the first time */                                  \
    X(FATAL, C, S)    /* replica, number = exit code, text = reason: nothing can be served */      \
    X(DELETE, C, SD)  /* deployment: is served no longer; number: 1, no replica of it is left */   \
    X(RETIRE, C, D)   /* replica, token: takes no new requests; RETIRED is the answer */           \
    X(ASK, C, D)      /* replica, token, id, text = question and body: as_ctl_parse_ask     */     \
    /* to the controller */                                                                        \
    X(RUNS, S, C)       /* replica, deployment, token, state, pid, restarts, text = note; number:  \
                           1 when an EXITED follows, about which nobody has decided */             \
    X(STAYS, S, C)      /* deployment: DOWN was said, and not taken back; behind RUNS */           \
    X(SPAWNED, S, C)    /* replica, token, pid */                                                  \
    X(EXITED, S, C)     /* replica, token, pid, number = wait status, kind, text = reason, last    \
                           lines */                                                                \
    X(DISPATCHER, S, C) /* state: READY, or LOST */                                                \
    X(REVIVE, S, C)     /* given-up replicas rest no longer */                                     \
    /* one dispatcher relieves another */                                                          \
    X(YIELD, S, D)  /* to the former one; number 0: workers go to the other one, MOVED is the      \
                       answer; 1: clients do; it ends when the rest is answered. A descriptor may  \
                       come with it: a socket for clients, edge/conn/connection_handover.h. With   \
                       TOLD: its other end                                                         \
                       */                                                                          \
    X(MOVED, D, S)  /* lets no worker in any more; number: those that will come to the other one   \
                       and are not ours; id 1: some come only when it has ended, so it ends now */ \
    X(OPENED, D, S) /* clients are let in */                                                       \
    X(LEGACY, D, S) /* of the former one, for the other, who hears it: a worker of the management  \
                       service: replica, token = its address, id = its epoch, text = REGISTER */   \
    X(FEWER, D, S)  /* as well: so many requests of it are still in hand: replica, id, number */   \
    X(RELIEVED, S, D) /* the former one has ended */                                               \
    X(ADMIT, S, D)    /* before TOLD: clients are let in, though nobody can serve them yet */

enum as_ctl_type {
    AS_CTL_NONE,
#define X(name, from, to) AS_CTL_##name,
    AS_CTL_MESSAGE_TABLE(X)
#undef X
        AS_CTL_TYPES
};

/* The life of a replica. */
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
    uint32_t number; /* what it means is said in the table */
    uint32_t kind;   /* an as_exit_kind of core/replicas/restart.h; EXITED, FORGET */
    uint64_t id;
    as_ns ns;
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
/* Bytes that the other end has not read yet, with what the kernel adds to each datagram. */
size_t as_ctl_unread(int fd);
/* As as_ctl_send; a duplicate of the descriptor `passed` goes along. */
int as_ctl_send_fd(int fd, const struct as_ctl_message *m, int passed);
/* 0, AS_EAGAIN (nothing there), AS_EOF (the other end is gone), AS_EPROTO (skip it). Strings point
 * into `buf`. Descriptors that a peer attaches are closed by the kernel (none are asked for). */
int as_ctl_receive(int fd, uint8_t buf[AS_CTL_MESSAGE_MAX], struct as_ctl_message *ret_m);
/* As well; *ret_fd, set with 0 only, is the descriptor that came along, the caller's from here on,
 * or -1. */
int as_ctl_receive_fd(int fd, uint8_t buf[AS_CTL_MESSAGE_MAX], struct as_ctl_message *ret_m,
                      int *ret_fd);

/* The text of ASK: 0 and its body, which points into it, or AS_EUNIMPLEMENTED for a question that
 * there is not. */
int as_ctl_parse_ask(struct as_str text, enum as_control_op *ret_op, struct as_str *ret_body);
/* AS_CTL_S, _D, _C together. */
uint32_t as_ctl_senders(enum as_ctl_type type);
uint32_t as_ctl_receivers(enum as_ctl_type type);
const char *as_ctl_type_name(enum as_ctl_type type);    /* "TOKEN" */
const char *as_ctl_state_name(enum as_ctl_state state); /* "ready" */

#endif
