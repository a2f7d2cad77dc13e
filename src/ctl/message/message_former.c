/* What processes of earlier versions read, whose dispatcher still runs after an upgrade: names in
 * place of ids; and the format of datagrams before proto/state.proto, to be removed with the
 * version after this one. */
#include "ctl/message/message.h"

#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the order of the bytes of a datagram");

/* How a datagram begins. The bytes of the strings follow, and nothing behind them. */
struct head {
    uint16_t format, type;
    uint32_t state, pid, restarts, number, kind;
    uint64_t id, ns;
    uint16_t n[4]; /* lengths of replica, deployment, token, text */
};

static_assert(sizeof(struct head) == 48, "without padding");

/* A model's name, which `replica` may be, and an application's are no ids. */
struct as_ctl_message as_ctl_plain(const struct as_ctl_message *m)
{
    struct as_ctl_message plain = *m;

    plain.replica = as_id_name(m->replica);
    plain.deployment = as_id_name(m->deployment);
    return plain;
}

size_t as_ctl_former_encode(const struct as_ctl_message *m, uint8_t out[AS_CTL_MESSAGE_MAX])
{
    struct as_str s[4] = {m->replica, m->deployment, m->token, m->text};
    struct head h = {.format = AS_CTL_FORMER_FORMAT,
                     .type = (uint16_t)m->type,
                     .state = (uint32_t)m->state,
                     .pid = m->pid,
                     .restarts = m->restarts,
                     .number = m->number,
                     .kind = m->kind,
                     .id = m->id,
                     .ns = (uint64_t)m->ns};
    size_t n = sizeof(h);

    AS_ASSERT(m->type > AS_CTL_NONE && m->type < AS_CTL_TYPES && m->state < AS_CTL_STATES);
    /* only the text may be cut: a part of a token would be another token */
    s[3].n = AS_MIN(s[3].n, AS_CTL_TEXT_MAX);
    for (size_t i = 0; i < AS_COUNT(s); i++) {
        AS_ASSERT(i == 3 || s[i].n <= AS_CTL_NAME_MAX);
        h.n[i] = (uint16_t)s[i].n;
        if (s[i].n)
            memcpy(out + n, s[i].p, s[i].n);
        n += s[i].n;
    }
    memcpy(out, &h, sizeof(h));
    AS_ASSERT(n <= AS_CTL_MESSAGE_MAX);
    return n;
}

int as_ctl_former_decode(const uint8_t *p, size_t n, struct as_ctl_message *ret_m)
{
    struct as_ctl_message m;
    struct as_str *const s[4] = {&m.replica, &m.deployment, &m.token, &m.text};
    size_t at = sizeof(struct head);
    struct head h;

    if (n < sizeof(h) || n > AS_CTL_MESSAGE_MAX)
        return AS_EPROTO;
    memcpy(&h, p, sizeof(h));
    if (h.format != AS_CTL_FORMER_FORMAT || h.type == AS_CTL_NONE || h.type >= AS_CTL_TYPES ||
        h.state >= AS_CTL_STATES)
        return AS_EPROTO;
    m = (struct as_ctl_message){.type = (enum as_ctl_type)h.type,
                                .state = (enum as_ctl_state)h.state,
                                .pid = h.pid,
                                .restarts = h.restarts,
                                .number = h.number,
                                .kind = h.kind,
                                .id = h.id,
                                .ns = (as_ns)h.ns};
    for (size_t i = 0; i < AS_COUNT(s); i++) {
        if (h.n[i] > (i == 3 ? AS_CTL_TEXT_MAX : AS_CTL_NAME_MAX) || h.n[i] > n - at)
            return AS_EPROTO;
        *s[i] = (struct as_str){(const char *)p + at, h.n[i]};
        at += h.n[i];
    }
    /* bytes behind the last string were not written by as_ctl_encode */
    if (at != n)
        return AS_EPROTO;
    /* after all checks: on an error the caller's message is not changed */
    *ret_m = m;
    return 0;
}
