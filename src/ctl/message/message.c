#include "ctl/message/message.h"

#include "io/socket/rights.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Little-endian: u16 format, u16 type, u32 state, u32 pid, u32 restarts, u32 number, u32 kind, u64
 * id, u64 ns, four times u16 length, then the bytes of the four strings, nothing behind
 * them. */
#define LENGTHS 40u
#define FIXED   48u

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

static void put16(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void put32(uint8_t *p, uint32_t v)
{
    put16(p, v);
    put16(p + 2, v >> 16);
}

static void put64(uint8_t *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) | get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

size_t as_ctl_encode(const struct as_ctl_message *m, uint8_t out[AS_CTL_MESSAGE_MAX])
{
    struct as_str s[4] = {m->replica, m->deployment, m->token, m->text};
    size_t n = FIXED;

    AS_ASSERT(m->type > AS_CTL_NONE && m->type < AS_CTL_TYPES && m->state < AS_CTL_STATES);
    put16(out, AS_CTL_FORMAT);
    put16(out + 2, (uint32_t)m->type);
    put32(out + 4, (uint32_t)m->state);
    put32(out + 8, m->pid);
    put32(out + 12, m->restarts);
    put32(out + 16, m->number);
    put32(out + 20, m->kind);
    put64(out + 24, m->id);
    put64(out + 32, (uint64_t)m->ns);
    /* only the text may be cut: a part of a token would be another token */
    s[3].n = AS_MIN(s[3].n, AS_CTL_TEXT_MAX);
    for (size_t i = 0; i < AS_COUNT(s); i++) {
        AS_ASSERT(i == 3 || s[i].n <= AS_CTL_NAME_MAX);
        put16(out + LENGTHS + 2 * i, (uint32_t)s[i].n);
        if (s[i].n)
            memcpy(out + n, s[i].p, s[i].n);
        n += s[i].n;
    }
    AS_ASSERT(n <= AS_CTL_MESSAGE_MAX);
    return n;
}

int as_ctl_decode(const uint8_t *p, size_t n, struct as_ctl_message *ret_m)
{
    struct as_ctl_message m = {0};
    struct as_str *const s[4] = {&m.replica, &m.deployment, &m.token, &m.text};
    size_t at = FIXED;
    uint32_t type, state;

    if (n < FIXED || n > AS_CTL_MESSAGE_MAX || get16(p) != AS_CTL_FORMAT)
        return AS_EPROTO;
    type = get16(p + 2);
    state = get32(p + 4);
    if (type == AS_CTL_NONE || type >= AS_CTL_TYPES || state >= AS_CTL_STATES)
        return AS_EPROTO;
    m.type = (enum as_ctl_type)type;
    m.state = (enum as_ctl_state)state;
    m.pid = get32(p + 8);
    m.restarts = get32(p + 12);
    m.number = get32(p + 16);
    m.kind = get32(p + 20);
    m.id = get64(p + 24);
    m.ns = get64(p + 32);
    for (size_t i = 0; i < AS_COUNT(s); i++) {
        size_t len = get16(p + LENGTHS + 2 * i);

        if (len > (i == 3 ? AS_CTL_TEXT_MAX : AS_CTL_NAME_MAX) || len > n - at)
            return AS_EPROTO;
        *s[i] = (struct as_str){(const char *)p + at, len};
        at += len;
    }
    /* bytes behind the last string were not written by as_ctl_encode */
    if (at != n)
        return AS_EPROTO;
    /* after all checks: on an error the caller's message is not changed */
    *ret_m = m;
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

int as_ctl_send_fd(int fd, const struct as_ctl_message *m, int passed)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];

    return as_rights_send(fd, buf, as_ctl_encode(m, buf), &passed, 1);
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
    } known[] = {{"reconfigure", AS_CONTROL_RECONFIGURE}, {"health", AS_CONTROL_HEALTH}};
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
