/* ctl/supervise/handover.h — the list of inherited descriptors: "grpc:3,grpc:4,link:5,control:6".
 *
 * The supervisor writes it as --fds=, its child parses it. Each entry has a kind of the table below
 * and the number of a descriptor.
 */
#ifndef AS_CTL_HANDOVER_H
#define AS_CTL_HANDOVER_H

#include "base/buf.h"
#include "base/err.h"

#define AS_HANDOVER_TABLE(X)                                                                       \
    X(GRPC, "grpc")             /* listener for clients, TCP or unix */                            \
    X(GRPC_TLS, "grpc-tls")     /* the same, whose clients speak TLS */                            \
    X(STATUS, "status")         /* listener for /metrics and /status, TCP or unix */               \
    X(STATUS_TLS, "status-tls") /* the same, by TLS */                                             \
    X(LINK, "link")             /* unix listener for workers */                                    \
    X(MANAGEMENT, "management") /* listener for workers that register, TCP or unix */              \
    X(API, "api")               /* listener of the control API, TCP or unix */                     \
    X(APP, "app")               /* memfd: the initial state, for the controller */                 \
    X(CONTROL, "control")       /* the socket to the supervisor */                                 \
    X(LOG, "log")               /* where log lines go */

enum as_handover_kind {
#define X(id, name) AS_HANDOVER_##id,
    AS_HANDOVER_TABLE(X)
#undef X
        AS_HANDOVER_KINDS
};

#define AS_HANDOVER_MAX       96u
#define AS_HANDOVER_LISTENERS 16u /* of one kind */

struct as_handover {
    enum as_handover_kind kind[AS_HANDOVER_MAX];
    int fd[AS_HANDOVER_MAX];
    uint32_t n;
};

const char *as_handover_name(enum as_handover_kind kind);                     /* "grpc" */
int as_handover_kind_of(struct as_str name, enum as_handover_kind *ret_kind); /* 0, AS_EINVALID */

void as_handover_add(struct as_handover *h, enum as_handover_kind kind, int fd);
void as_handover_close(struct as_handover *h); /* closes all of its descriptors */
/* Appends the text for a child that gets h->fd[i] as descriptor 3 + i. */
void as_handover_write(const struct as_handover *h, struct as_buf *b);
/* 0, or AS_EINVALID: an unknown kind, a number out of range, too many entries. */
int as_handover_parse(struct as_handover *ret_h, const char *text);

#endif
