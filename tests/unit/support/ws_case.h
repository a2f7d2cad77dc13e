/* tests/unit/support/ws_case.h — a session of wire/ws/ws whose owner writes down what happens, and
 * frames as a client makes them.
 *
 * seen: "T(text)" and "B(bytes)" for messages, above 32 bytes only their number; "C(code reason)"
 * for the client's close, "F(code fault)" for a fault. sent: the frames, as they are.
 */
#ifndef AS_TESTS_WS_CASE_H
#define AS_TESTS_WS_CASE_H

#include "base/buf.h"
#include "wire/ws/ws.h"

struct ws_case {
    struct as_ws *w;
    struct as_buf seen, sent;
    unsigned pause_after; /* messages; 0: never */
    unsigned n_messages;
};

static inline void ws_on_message(void *owner, const struct as_ws_message *m)
{
    struct ws_case *c = owner;

    AS_ASSERT(m->opcode == AS_WS_TEXT || m->opcode == AS_WS_BINARY);
    AS_ASSERT(!m->n || (m->p >= m->blob->data && m->p + m->n <= m->blob->data + m->blob->n));
    as_buf_str(&c->seen, m->opcode == AS_WS_TEXT ? "T(" : "B(");
    if (m->n > 32)
        as_buf_printf(&c->seen, "%zu", m->n);
    else if (m->n)
        as_buf_add(&c->seen, m->p, m->n);
    as_buf_str(&c->seen, ")");
    if (++c->n_messages == c->pause_after)
        as_ws_pause(c->w, true);
}

static inline void ws_on_close(void *owner, uint32_t code, struct as_str reason, const char *fault)
{
    struct ws_case *c = owner;

    as_buf_printf(&c->seen, "%s(%u %.*s)", fault ? "F" : "C", code, AS_STR_FMT(reason));
}

static inline void ws_send(void *owner, const uint8_t *p, size_t n)
{
    struct ws_case *c = owner;

    AS_ASSERT(n <= AS_WS_CONTROL);
    as_buf_add(&c->sent, p, n);
}

static inline int ws_open(struct ws_case *c, const struct as_ws_conf *conf,
                          struct as_account *account)
{
    static const struct as_ws_ops ops = {ws_on_message, ws_on_close, ws_send};

    return as_ws_new(&c->w, conf, &ops, c, account);
}

static inline void ws_close(struct ws_case *c)
{
    as_ws_free(c->w);
    as_buf_fini(&c->seen);
    as_buf_fini(&c->sent);
}

/* Appends a masked frame. first: FIN, reserved bits and opcode. */
static inline void ws_frame(struct as_buf *out, uint8_t first, const void *p, size_t n)
{
    static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    uint8_t head[AS_WS_HEAD], *to;
    size_t k = as_ws_put_head(head, 0, n);

    head[0] = first;
    head[1] |= 0x80;
    as_buf_add(out, head, k);
    as_buf_add(out, mask, sizeof(mask));
    to = as_buf_reserve(out, n);
    for (size_t i = 0; i < n; i++)
        to[i] = ((const uint8_t *)p)[i] ^ mask[i % 4];
    out->n += n;
}

#endif
