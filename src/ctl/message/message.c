#include "ctl/message/message.h"

#include "io/socket/rights.h"
#include "wire/protobuf/pb.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define AS_CTL_DC (AS_CTL_D | AS_CTL_C)
#define AS_CTL_SC (AS_CTL_S | AS_CTL_C)
#define AS_CTL_SD (AS_CTL_S | AS_CTL_D)

static const struct {
    const char *name;
    uint32_t from, to;
} types[AS_CTL_TYPES] = {[AS_CTL_NONE] = {.name = "NONE"},
#define X(name, from, to) [AS_CTL_##name] = {#name, AS_CTL_##from, AS_CTL_##to},
                         AS_CTL_MESSAGE_TABLE(X)
#undef X
};

static const char *const state_names[AS_CTL_STATES] = {
#define X(name, text) [AS_CTL_##name##_STATE] = (text),
    AS_CTL_STATE_TABLE(X)
#undef X
};

/* Also for a type that came over the socket: "?" instead of a read past the table. */
const char *as_ctl_type_name(enum as_ctl_type type)
{
    return type < AS_CTL_TYPES ? types[type].name : "?";
}

uint32_t as_ctl_senders(enum as_ctl_type type)
{
    return type < AS_CTL_TYPES ? types[type].from : 0;
}

uint32_t as_ctl_receivers(enum as_ctl_type type)
{
    return type < AS_CTL_TYPES ? types[type].to : 0;
}

const char *as_ctl_state_name(enum as_ctl_state state)
{
    return state < AS_CTL_STATES ? state_names[state] : "?";
}

/* The numbers of proto/state.proto. */
enum {
    TYPE = 1,
    STATE,
    PID,
    RESTARTS,
    NUMBER,
    KIND,
    ID,
    NS,
    REPLICA,
    DEPLOYMENT,
    TOKEN,
    TEXT,
    END
};

size_t as_ctl_encode(const struct as_ctl_message *m, uint8_t out[AS_CTL_MESSAGE_MAX])
{
    const uint64_t numbers[] = {
        [TYPE] = m->type,     [STATE] = m->state, [PID] = m->pid, [RESTARTS] = m->restarts,
        [NUMBER] = m->number, [KIND] = m->kind,   [ID] = m->id,   [NS] = (uint64_t)m->ns};
    struct as_str s[] = {m->replica, m->deployment, m->token, m->text};
    uint8_t *p = out;

    AS_ASSERT(m->type > AS_CTL_NONE && m->type < AS_CTL_TYPES && m->state < AS_CTL_STATES);
    for (uint32_t i = TYPE; i < REPLICA; i++) {
        if (!numbers[i])
            continue;
        *p++ = AS_PB_TAG(i, AS_PB_VARINT);
        p = as_pb_put_varint(p, numbers[i]);
    }
    /* only the text may be cut: a part of a token would be another token */
    s[3].n = AS_MIN(s[3].n, AS_CTL_TEXT_MAX);
    for (uint32_t i = REPLICA; i < END; i++) {
        AS_ASSERT(i == TEXT || s[i - REPLICA].n <= AS_CTL_NAME_MAX);
        p = as_pb_put_opt(p, i, s[i - REPLICA]);
    }
    if (m->unknown.n && m->unknown.n <= AS_CTL_MESSAGE_MAX - (size_t)(p - out)) {
        memcpy(p, m->unknown.p, m->unknown.n);
        p += m->unknown.n;
    }
    AS_ASSERT((size_t)(p - out) <= AS_CTL_MESSAGE_MAX);
    return (size_t)(p - out);
}

/* A state of a later version counts as the first one. */
static enum as_ctl_state state_of(uint64_t number)
{
    return number < AS_CTL_STATES ? (enum as_ctl_state)number : AS_CTL_STARTING_STATE;
}

int as_ctl_decode(const uint8_t *p, size_t n, struct as_ctl_message *ret_m)
{
    struct as_pb r = as_pb_of((struct as_str){(const char *)p, n});
    uint64_t numbers[REPLICA] = {0};
    struct as_str s[END - REPLICA] = {{0}}, unknown = {0};
    struct as_pb_field f;
    int rc;

    if (n > AS_CTL_MESSAGE_MAX)
        return AS_EPROTO;
    if (n && p[0] == AS_CTL_FORMER_FORMAT)
        return as_ctl_former_decode(p, n, ret_m);
    for (const uint8_t *at = r.p; (rc = as_pb_next(&r, &f)) > 0; at = r.p) {
        if (f.number < REPLICA && f.wire == AS_PB_VARINT) {
            numbers[f.number] = f.v;
        } else if (f.number >= REPLICA && f.number < END && f.wire == AS_PB_LEN) {
            if (f.s.n > (f.number == TEXT ? AS_CTL_TEXT_MAX : AS_CTL_NAME_MAX))
                return AS_EPROTO;
            s[f.number - REPLICA] = f.s;
        } else if (!unknown.n) { /* numbers ascend: those behind it are not known either */
            unknown = (struct as_str){(const char *)at, (size_t)(p + n - at)};
        }
    }
    if (rc < 0 || !numbers[TYPE])
        return AS_EPROTO;
    if (numbers[TYPE] >= AS_CTL_TYPES)
        return AS_EUNIMPLEMENTED;
    /* after all checks: on an error the caller's message is not changed */
    *ret_m = (struct as_ctl_message){.type = (enum as_ctl_type)numbers[TYPE],
                                     .state = state_of(numbers[STATE]),
                                     .pid = (uint32_t)numbers[PID],
                                     .restarts = (uint32_t)numbers[RESTARTS],
                                     .number = (uint32_t)numbers[NUMBER],
                                     .kind = (uint32_t)numbers[KIND],
                                     .id = numbers[ID],
                                     .ns = (as_ns)numbers[NS],
                                     .replica = s[0],
                                     .deployment = s[1],
                                     .token = s[2],
                                     .text = s[3],
                                     .unknown = unknown};
    return 0;
}

int as_ctl_send_bytes(int fd, const uint8_t *p, size_t n)
{
    for (;;) {
        if (send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        /* ENOBUFS, ENOMEM: the kernel has no memory for it at the moment */
        if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
            return AS_EAGAIN;
        if (errno != EINTR)
            return AS_EOF;
    }
}

int as_ctl_send(int fd, const struct as_ctl_message *m)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];

    return as_ctl_send_bytes(fd, buf, as_ctl_encode(m, buf));
}

size_t as_ctl_unread(int fd)
{
    int n;

    return ioctl(fd, SIOCOUTQ, &n) < 0 || n < 0 ? 0 : (size_t)n;
}

int as_ctl_receive_fd(int fd, uint8_t buf[AS_CTL_MESSAGE_MAX], struct as_ctl_message *ret_m,
                      int *ret_fd)
{
    int fds[AS_RIGHTS_MAX];
    uint32_t n_fds = 0;
    bool lost;
    int64_t n = as_rights_receive(fd, buf, AS_CTL_MESSAGE_MAX, fds, &n_fds, &lost);
    int rc = n < 0 ? (int)n : as_ctl_decode(buf, (size_t)n, ret_m);

    /* the first one is used: no more are sent */
    for (uint32_t i = 0; i < n_fds; i++) {
        if (rc < 0 || i)
            close(fds[i]);
    }
    if (!rc)
        *ret_fd = n_fds ? fds[0] : -1;
    return rc;
}

int as_ctl_receive(int fd, uint8_t buf[AS_CTL_MESSAGE_MAX], struct as_ctl_message *ret_m)
{
    ssize_t n;

    do {
        /* MSG_TRUNC: returns the real length, so that a datagram that is too long is refused */
        n = recv(fd, buf, AS_CTL_MESSAGE_MAX, MSG_DONTWAIT | MSG_TRUNC);
    } while (n < 0 && errno == EINTR);
    if (n < 0) /* out of memory is temporary: the socket stays readable */
        return errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS ? AS_EAGAIN : AS_EOF;
    /* 0 is the end: an empty datagram is never sent */
    return n == 0 ? AS_EOF : as_ctl_decode(buf, (size_t)n, ret_m);
}

int as_ctl_parse_ask(struct as_str text, enum as_control_op *ret_op, struct as_str *ret_body)
{
    static const struct {
        const char *word;
        enum as_control_op op;
    } known[] = {{"reconfigure", AS_CONTROL_RECONFIGURE},
                 {"health", AS_CONTROL_HEALTH},
                 {"scaling", AS_CONTROL_SCALING}};
    const char *space = text.n ? memchr(text.p, ' ', text.n) : NULL;
    struct as_str word = {text.p, space ? (size_t)(space - text.p) : text.n};

    for (size_t i = 0; i < AS_COUNT(known); i++) {
        if (!as_str_eq(word, as_str_of(known[i].word)))
            continue;
        *ret_op = known[i].op;
        *ret_body = space ? (struct as_str){space + 1, text.n - word.n - 1} : (struct as_str){0};
        return 0;
    }
    return AS_EUNIMPLEMENTED;
}
