/* ctl/message/message.h — messages between supervisor, dispatcher and controller.
 *
 * One message is one datagram of a SOCK_SEQPACKET control socket. The supervisor has a socket to
 * each of the two others, and passes messages between them by the table, unchanged. When one of
 * them starts, it is sent the whole state, then TOLD. Only then may the dispatcher accept workers,
 * whose tokens it would not know before, and the controller decide. Decoding trusts no byte: the
 * dispatcher talks to the network.
 */
#ifndef AS_CTL_MESSAGE_H
#define AS_CTL_MESSAGE_H

#include "base/err.h"
#include "base/id.h"
#include "wire/frame/frame.h"

#define AS_CTL_MESSAGE_MAX 63488u /* bytes of a datagram */
#define AS_CTL_NAME_MAX    288u   /* bytes of replica, deployment and token; ids of replicas fit */
#define AS_CTL_TEXT_MAX    61440u /* bytes of text; a worker's SPAWN must fit: ctl/message/spawn.h */

/* Bytes of what is declared, with AS_CTL_DECLARED_ROW for each model. With what workers have
 * registered (ctl/supervise/model_cache.h) a dispatcher's outbox takes it. */
#define AS_CTL_DECLARED_MAX ((size_t)4 << 20)
#define AS_CTL_DECLARED_ROW 128u

/* No heartbeat is sent to a supervisor with so many unread bytes: one that is stopped for long must
 * still have room for other messages. */
#define AS_CTL_UNREAD_MAX 16384u

/* A datagram is a Control of proto/state.proto. During an upgrade two versions exchange messages:
 * new rows go to the end of the table, new fields of as_ctl_message get the next number there. If a
 * row changes its meaning, the format changes, and there is no upgrade between the two. */
#define AS_CTL_FORMAT 5u
#define AS_CTL_PLAIN_FORMAT                                                                        \
    4u /* the same, with names in place of ids: they were unique in a server */
#define AS_CTL_FORMER_FORMAT 3u /* likewise, before the protobuf; its first byte is this number */

/* Who may send a message, and who receives it. */
#define AS_CTL_S 1u /* supervisor */
#define AS_CTL_D 2u /* dispatcher */
#define AS_CTL_C 4u /* controller */

/* The messages, and the fields of as_ctl_message that each uses. Deployments and replicas are ids
 * (base/id.h).
 *
 * The supervisor sends:
 *   TOKEN      replica, deployment, token: a worker with this token may connect. Sent before the
 *              worker is started.
 *   REPLICA    replica, deployment, state, pid, restarts, text = reason: for the status page.
 *   FORGET     token, kind: the worker is dead, and how it ended. Close its link.
 *   TOLD       The whole state was sent. To the controller: number 1 if COMPLETE came before. To a
 *              dispatcher: number of workers to wait for that are not ours; id 1: wait until TOLD
 *              comes again with id 0.
 *   DRAIN      Accept no new work; end when the requests are answered.
 *   RUNS       replica, deployment, token, state, pid, restarts, text = NOTE's: a replica, for a
 *              new controller. number 1: EXITED follows, since nobody has decided about its end.
 *              id 1: the dispatcher has sent LEAVES.
 *   STAYS      deployment: DOWN was sent, and no UP since. After the RUNS.
 *   TARGET     deployment, number: its target number of replicas as STATUS said it last. After the
 *              RUNS.
 *   SPAWNED    replica, token, pid: answers SPAWN.
 *   EXITED     replica, token, pid, number = wait status, kind, text = reason and last lines.
 *   DISPATCHER state: READY or LOST.
 *   REVIVE     Start the replicas again that were given up.
 *   YIELD      An upgrade, to the former dispatcher. number 0: hand the workers over to the other
 *              one; answered by MOVED. number 1: hand the clients over, and end when the rest is
 *              answered. May come with a descriptor: the socket for client connections of
 *              edge/conn/connection_handover.h, whose other end comes with TOLD.
 *   RELIEVED   An upgrade: the former dispatcher has ended.
 *   RELOAD     number: read certificates and API keys again; the outcome goes to the runtime
 * folder. Answered by RELOADED. A dispatcher that has not answered when it ends leaves it to the
 * next one. ADMIT      Before TOLD: accept clients already, although nothing can be served yet.
 *   KNOWN      Before TOLD: what MODEL said to the supervisor before, or, with id 1, what DECLARE
 *              said of a deployment of which no worker has registered a model. The latter also
 *              later; text "" with a model: it is not declared any more.
 *
 * The dispatcher sends:
 *   SERVING    It is set up, and can serve. Later with number 1: a heartbeat
 *              (core/replicas/heartbeat.h).
 *   READY      replica, token, text = "model:version …": the worker has registered.
 *   GONE       replica, token, text: the worker's link has ended; its process may live.
 *   KILL       token, text = why: the worker hangs or breaks the protocol. Counts as a crash.
 *   DRAINED    The drain is over: it ends.
 *   RETIRED    replica, token: answers RETIRE when every request of the replica is answered.
 *   ANSWER     replica, token, id, number = AS_E… or 0, text: answers ASK.
 *   MOVED      An upgrade: no worker is accepted any more. number: workers that are not ours, and
 *              will connect to the other one; id 1: some connect only when this one has ended, so
 *              it ends now.
 *   OPENED     An upgrade: clients are accepted.
 *   LEGACY     An upgrade, from the former dispatcher for the other one: a worker of the management
 *              service. replica, token = its address, id = its epoch, text = REGISTER.
 *   FEWER      An upgrade, likewise: replica, id, number of its requests that are not answered.
 *   MODEL      deployment, replica = "NAME:VERSION", text = REGISTER: a worker has registered this
 *              model; kept for the next dispatcher. text "": no worker has it any more. replica "":
 *              text = OPTIONS and TRAFFIC, the deployment's own; number 1: every model was said.
 *
 * The controller sends:
 *   SERVING    Its first decisions were sent. Later with number 1: a heartbeat.
 *   KILL       As the dispatcher's.
 *   SPAWN      replica, deployment, token, restarts, text of ctl/message/spawn.h: start a worker.
 *   SIGNAL     token, number = signal (0: none), ns until SIGKILL: end a worker.
 *   NOTE       replica, deployment, text of ctl/message/replica_facts.h: stored; RUNS gives it to
 *              the next controller.
 *   PLACE      replica, deployment, restarts, state, text = reason: it has no process now.
 *   REMOVE     replica: it is removed; it has no process.
 *   DOWN       deployment, text = why: every replica is given up. Its requests are refused.
 *   UP         deployment: a replica is READY again. Ends DOWN.
 *   STATUS     replica = application, deployment ("": the application's own status), text =
 *              "STATUS TRIGGER MESSAGE" ("": it was removed), ns: since when. Of a deployment:
 *              id 1, number = its target number of replicas; id 0: that is not known.
 *   COMPLETE   number of READY replicas, id = target number: for the first time every replica is
 *              READY, or has failed in a server that goes on without it.
 *   FATAL      replica, number = exit code, text = reason: the server cannot start.
 *   DELETE     deployment: it is being removed. number 1: no replica of it is left.
 *   DECLARE    deployment, replica = "NAME:VERSION", text = REGISTER: its code has this model, as
 *              the controller was told before a worker was started. replica "": text as MODEL's,
 *              number likewise; the models said since the last one with replica "" replace those
 *              before. At most AS_CTL_DECLARED_MAX bytes in all. A deployment that was declared to
 *              the supervisor, and is not before SERVING, is forgotten.
 *   RETIRE     replica, token: send it no new requests. Answered by RETIRED.
 *   COUNT      deployment, number 1: send LOAD now, then when its counts change, at most once in
 *              ns; id: AS_CTL_COUNT_… . number 0: no more. To be sent to each new dispatcher.
 *   ASK        replica, token, id, text: an operation and its body (as_ctl_parse_ask).
 *   REFUSED    number: what the control API has refused since the last one, for the metrics.
 *   ROUTE      deployment, text = prefix: requests of HTTP below it go there; "": none do. The
 *              supervisor keeps it for the next dispatcher. What a controller does not repeat
 * before SERVING is forgotten. CONFIRM    id: answer with CONFIRMED when all messages before this
 * one have their effect on requests.
 *
 * The dispatcher sends:
 *   CONFIRMED  id: answers CONFIRM.
 *   LEAVES     replica, token: the worker has begun to drain by itself, since somebody has sent it
 *              SIGTERM. It takes no new requests, and ends when it has answered those that it has.
 *   LOAD       deployment, number of requests that wait, id = number of those that are executed,
 *              text of ctl/message/load.h: after COUNT.
 *   RELOADED   number: answers RELOAD, and those before it.
 *   STATS      replica, token, ns = Unix time, text: what its record_autoscaling_stats has returned
 *              then, a JSON object of numbers; after COUNT with AS_CTL_COUNT_STATS, and LOAD.
 */
/* The id of COUNT. */
#define AS_CTL_COUNT_TIMES 0x1u /* LOAD has service times */
#define AS_CTL_COUNT_STATS 0x2u /* send STATS, too */

/* name, sender, receivers; in the order of their numbers */
#define AS_CTL_MESSAGE_TABLE(X)                                                                    \
    X(TOKEN, S, D)                                                                                 \
    X(REPLICA, S, D)                                                                               \
    X(FORGET, S, D)                                                                                \
    X(TOLD, S, DC)                                                                                 \
    X(DRAIN, S, DC)                                                                                \
    X(SERVING, DC, S)                                                                              \
    X(READY, D, SC)                                                                                \
    X(GONE, D, SC)                                                                                 \
    X(KILL, DC, S)                                                                                 \
    X(DRAINED, D, S)                                                                               \
    X(RETIRED, D, C)                                                                               \
    X(ANSWER, D, C)                                                                                \
    X(SPAWN, C, S)                                                                                 \
    X(SIGNAL, C, S)                                                                                \
    X(NOTE, C, SD)                                                                                 \
    X(PLACE, C, S)                                                                                 \
    X(REMOVE, C, SD)                                                                               \
    X(DOWN, C, SD)                                                                                 \
    X(UP, C, SD)                                                                                   \
    X(STATUS, C, SD)                                                                               \
    X(COMPLETE, C, S)                                                                              \
    X(FATAL, C, S)                                                                                 \
    X(DELETE, C, SD)                                                                               \
    X(RETIRE, C, D)                                                                                \
    X(ASK, C, D)                                                                                   \
    X(RUNS, S, C)                                                                                  \
    X(STAYS, S, C)                                                                                 \
    X(SPAWNED, S, C)                                                                               \
    X(EXITED, S, C)                                                                                \
    X(DISPATCHER, S, C)                                                                            \
    X(REVIVE, S, C)                                                                                \
    X(YIELD, S, D)                                                                                 \
    X(MOVED, D, S)                                                                                 \
    X(OPENED, D, S)                                                                                \
    X(LEGACY, D, S)                                                                                \
    X(FEWER, D, S)                                                                                 \
    X(RELIEVED, S, D)                                                                              \
    X(ADMIT, S, D)                                                                                 \
    X(MODEL, D, S)                                                                                 \
    X(KNOWN, S, D)                                                                                 \
    X(DECLARE, C, S)                                                                               \
    X(REFUSED, C, D)                                                                               \
    X(ROUTE, C, SD)                                                                                \
    X(CONFIRM, C, D)                                                                               \
    X(CONFIRMED, D, C)                                                                             \
    X(LEAVES, D, SC)                                                                               \
    X(TARGET, S, C)                                                                                \
    X(COUNT, C, D)                                                                                 \
    X(LOAD, D, C)                                                                                  \
    X(STATS, D, C)                                                                                 \
    X(RELOAD, S, D)                                                                                \
    X(RELOADED, D, S)

enum as_ctl_type {
    AS_CTL_NONE,
#define X(name, from, to) AS_CTL_##name,
    AS_CTL_MESSAGE_TABLE(X)
#undef X
        AS_CTL_TYPES
};

/* The life of a replica. */
#define AS_CTL_STATE_TABLE(X)                                                                      \
    X(STARTING, "starting") /* the process runs, and is not READY yet */                           \
    X(READY, "ready")                                                                              \
    X(LOST, "lost")         /* the process runs, without a link (the dispatcher restarts) */       \
    X(WAITING, "waiting")   /* no process; it is to be started after a delay */                    \
    X(STOPPING, "stopping") /* it was asked to end */                                              \
    X(DOWN, "down")         /* no process; given up for a while, or stopped */

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
    uint32_t number; /* its meaning is that of the message */
    uint32_t kind;   /* an as_exit_kind of core/replicas/restart.h; EXITED, FORGET */
    uint64_t id;
    as_ns ns;
    struct as_str replica, deployment, token; /* at most AS_CTL_NAME_MAX */
    struct as_str text;                       /* the encoder cuts it at AS_CTL_TEXT_MAX */
    /* fields of a later version, to be passed on; left out if they do not fit into the datagram */
    struct as_str unknown;
};

/* Writes one datagram and returns its length. Asserts that the names are short enough. */
size_t as_ctl_encode(const struct as_ctl_message *m, uint8_t out[AS_CTL_MESSAGE_MAX]);

/* Strings of `ret_m` point into p. 0; AS_EUNIMPLEMENTED: a type of a later version, to be skipped;
 * AS_EPROTO: no message of ours. On an error `ret_m` is not changed. */
int as_ctl_decode(const uint8_t *p, size_t n, struct as_ctl_message *ret_m);

/* For a process of an earlier version, which runs while it is replaced: what it reads instead. */
struct as_ctl_message as_ctl_plain(const struct as_ctl_message *m);
/* The former format. as_ctl_decode reads both. */
size_t as_ctl_former_encode(const struct as_ctl_message *m, uint8_t out[AS_CTL_MESSAGE_MAX]);
int as_ctl_former_decode(const uint8_t *p, size_t n, struct as_ctl_message *ret_m);

/* One datagram on a non-blocking socket: 0, AS_EAGAIN (the socket is full), AS_EOF. */
int as_ctl_send(int fd, const struct as_ctl_message *m);
int as_ctl_send_bytes(int fd, const uint8_t *p, size_t n); /* a message that is encoded already */
/* Bytes that the other end has not read yet, including the kernel's overhead for each datagram. */
size_t as_ctl_unread(int fd);
/* 0, AS_EAGAIN (nothing there), AS_EOF (the other end is gone), or as as_ctl_decode. Strings point
 * into `buf`. Descriptors that a peer attaches are closed by the kernel (none are asked for). */
int as_ctl_receive(int fd, uint8_t buf[AS_CTL_MESSAGE_MAX], struct as_ctl_message *ret_m);
/* The same; on 0, *ret_fd is the descriptor that came with the message, which the caller must
 * close, or -1. */
int as_ctl_receive_fd(int fd, uint8_t buf[AS_CTL_MESSAGE_MAX], struct as_ctl_message *ret_m,
                      int *ret_fd);

/* Parses the text of ASK: 0 with the operation and its body, which points into the text;
 * AS_EUNIMPLEMENTED: an unknown operation. */
int as_ctl_parse_ask(struct as_str text, enum as_control_op *ret_op, struct as_str *ret_body);
/* A set of AS_CTL_S, _D, _C. */
uint32_t as_ctl_senders(enum as_ctl_type type);
uint32_t as_ctl_receivers(enum as_ctl_type type);
const char *as_ctl_type_name(enum as_ctl_type type);    /* "TOKEN" */
const char *as_ctl_state_name(enum as_ctl_state state); /* "ready" */

#endif
