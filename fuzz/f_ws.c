/* A hostile websocket client. The first byte chooses: even, the bytes are frames; odd, they are the
 * head of an HTTP/1.1 request whose handshake is checked. Checked: frames cut into any pieces make
 * the same events and the same output, pauses change nothing, no message is above the limits or is
 * text that is not UTF-8, and no event follows the end; a handshake that is accepted has a key.
 */
#include "base/utf8.h"
#include "wire/h1/h1.h"
#include "wire/ws/ws.h"
#include "wire/ws/ws_handshake.h"

#include "base/buf.h"

#define MAX_MESSAGE   3000u
#define MAX_FRAGMENTS 8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct session {
    struct as_ws *w;
    struct as_buf events;
    bool ended, pauses;
};

static void on_message(void *owner, const struct as_ws_message *m)
{
    struct session *s = owner;

    AS_ASSERT(!s->ended && m->n <= MAX_MESSAGE);
    for (size_t i = 0, len; m->opcode == AS_WS_TEXT && i < m->n; i += len) {
        len = as_utf8_len(m->p + i, m->n - i);
        AS_ASSERT(len);
    }
    as_buf_printf(&s->events, "<%u %zu>", m->opcode, m->n);
    if (m->n)
        as_buf_add(&s->events, m->p, m->n);
    as_ws_pause(s->w, s->pauses);
}

static void on_close(void *owner, uint32_t code, struct as_str reason, const char *fault)
{
    struct session *s = owner;

    AS_ASSERT(!s->ended && (as_ws_is_close_code(code) || code == AS_WS_NO_CODE));
    s->ended = true;
    as_buf_printf(&s->events, "<close %u %d>%.*s", code, fault != NULL, AS_STR_FMT(reason));
}

static void send_frame(void *owner, const uint8_t *p, size_t n)
{
    struct session *s = owner;

    AS_ASSERT(n >= 2 && n <= AS_WS_CONTROL && p[1] == n - 2);
    as_buf_str(&s->events, "<send>");
    as_buf_add(&s->events, p, n);
}

static void read_frames(const uint8_t *p, size_t n, size_t step, bool pauses, struct as_buf *out)
{
    static const struct as_ws_ops ops = {on_message, on_close, send_frame};
    const struct as_ws_conf conf = {MAX_MESSAGE, MAX_FRAGMENTS};
    struct session s = {.pauses = pauses};

    AS_ASSERT(as_ws_new(&s.w, &conf, &ops, &s, NULL) == 0);
    for (size_t at = 0; at < n; at += step) {
        size_t k = AS_MIN(step, n - at), taken = as_ws_recv(s.w, p + at, k);

        while (taken < k) {
            AS_ASSERT(pauses);
            as_ws_pause(s.w, false);
            taken += as_ws_recv(s.w, p + at + taken, k - taken);
        }
        as_ws_pause(s.w, false);
        as_ws_recv(s.w, p, 0);
    }
    AS_ASSERT(s.ended == as_ws_is_closed(s.w));
    as_ws_free(s.w);
    *out = s.events;
}

static void check_frames(const uint8_t *p, size_t n)
{
    struct as_buf whole, cut;

    read_frames(p, n, n + 1, false, &whole);
    for (size_t step = 1; step < 8; step += 2) {
        read_frames(p, n, step, step & 2, &cut);
        AS_ASSERT(as_str_eq(as_buf_slice(&whole), as_buf_slice(&cut)));
        as_buf_fini(&cut);
    }
    as_buf_fini(&whole);
}

/* --- handshakes --- */

static void *on_request(void *conn, uint32_t stream AS_UNUSED, const struct as_http_head *head)
{
    char text[AS_WS_ACCEPT];
    const char *why;
    uint32_t status = as_ws_handshake_check(head, &why);

    AS_ASSERT(!status == !why && (!status || status == 400 || status == 426));
    if (!status && head->wants_websocket)
        AS_ASSERT(as_ws_handshake_accept(head, text) && text[AS_WS_ACCEPT - 1] == '=');
    as_ws_handshake_offers(head, AS_STR("chat"));
    return conn;
}

static void on_data(void *conn AS_UNUSED, void *req AS_UNUSED, const uint8_t *p AS_UNUSED,
                    size_t n AS_UNUSED)
{
}

static void on_end(void *conn AS_UNUSED, void *req AS_UNUSED)
{
}

static void on_closed(void *conn AS_UNUSED, void *req AS_UNUSED, uint32_t code AS_UNUSED)
{
}

static void check_handshake(const uint8_t *p, size_t n)
{
    static const struct as_http_ops ops = {
        .on_request = on_request, .on_data = on_data, .on_end = on_end, .on_close = on_closed};
    const struct as_h1_conf conf = {.max_line = 256,
                                    .max_header_bytes = 2048,
                                    .max_headers = 16,
                                    .max_chunk_ext = 16,
                                    .max_unread = 1024};
    struct as_h1 *h;
    size_t taken;
    int owner;

    AS_ASSERT(as_h1_new(&h, &conf, &ops, &owner) == 0);
    as_h1_recv(h, p, n, 0, &taken);
    as_h1_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size)
        (data[0] & 1 ? check_handshake : check_frames)(data + 1, size - 1);
    return 0;
}
