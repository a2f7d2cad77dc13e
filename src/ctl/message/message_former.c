/* The format of datagrams before proto/state.proto, whose dispatcher still runs after an upgrade
 * from it. To be removed with the version after this one. */
#include "ctl/message/message.h"

#include <string.h>

/* Little-endian: u16 format, u16 type, u32 state, u32 pid, u32 restarts, u32 number, u32 kind, u64
 * id, u64 ns, four times u16 length, then the bytes of the four strings, nothing behind
 * them. */
#define LENGTHS 40u
#define FIXED   48u

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

size_t as_ctl_former_encode(const struct as_ctl_message *m, uint8_t out[AS_CTL_MESSAGE_MAX])
{
    struct as_str s[4] = {m->replica, m->deployment, m->token, m->text};
    size_t n = FIXED;

    AS_ASSERT(m->type > AS_CTL_NONE && m->type < AS_CTL_TYPES && m->state < AS_CTL_STATES);
    put16(out, AS_CTL_FORMER_FORMAT);
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

int as_ctl_former_decode(const uint8_t *p, size_t n, struct as_ctl_message *ret_m)
{
    struct as_ctl_message m = {0};
    struct as_str *const s[4] = {&m.replica, &m.deployment, &m.token, &m.text};
    size_t at = FIXED;
    uint32_t type, state;

    if (n < FIXED || n > AS_CTL_MESSAGE_MAX || get16(p) != AS_CTL_FORMER_FORMAT)
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
