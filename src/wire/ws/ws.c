#include "wire/ws/ws.h"

#include "base/err.h"
#include "base/memory/slab.h"
#include "base/utf8.h"
#include "wire/name_check.h"

#include <wslay/wslay.h>

#define FIN             0x80u
#define CODE_PROTOCOL   1002u
#define CODE_NOT_UTF8   1007u
#define CODE_TOO_BIG    1009u
#define CODE_INTERNAL   1011u
#define CODE_TRY_LATER  1013u
#define CONTROL_PAYLOAD 125u
#define HEAD_MIN        6u    /* bytes before the payload of a frame with a mask */
#define FIRST_ROOM      1024u /* for a message of unknown length */

enum ws_state { OPEN, CLOSING, CLOSED };

struct as_ws {
    struct as_ws_conf conf;
    const struct as_ws_ops *ops;
    void *owner;
    struct as_account *account;
    enum ws_state state;
    bool paused;
    wslay_frame_context_ptr decoder; /* between two frames it holds no byte */
    const uint8_t *in;               /* what it may read, n_in bytes; during as_ws_recv only */
    size_t n_in;
    /* the frame that is being read */
    bool in_payload;
    uint32_t n_given; /* bytes that the decoder got of it before in_payload */
    uint64_t left;    /* in_payload: bytes of the payload that are missing */
    /* the message that is incomplete */
    uint32_t opcode; /* 0: there is none */
    uint32_t n_frames;
    struct as_blob *blob; /* its first `n` bytes; NULL while n is 0 */
    size_t n;
    uint8_t control[CONTROL_PAYLOAD];
    size_t n_control;
};

/* Gives the decoder bytes of the client, never one beyond the frame: it would keep it, and a pause
 * leaves what follows a message to the caller. */
static ssize_t give(uint8_t *to, size_t max, int flags AS_UNUSED, void *user)
{
    struct as_ws *w = user;
    size_t k = AS_MIN(max, w->n_in);

    if (w->in_payload) {
        k = (size_t)AS_MIN((uint64_t)k, w->left);
    } else { /* how long the head is, and the payload, is not known yet */
        k = AS_MIN(k, w->n_given < HEAD_MIN ? HEAD_MIN - w->n_given : 1);
        w->n_given += (uint32_t)k;
    }
    if (!k)
        return -1;
    memcpy(to, w->in, k);
    w->in += k;
    w->n_in -= k;
    return (ssize_t)k;
}

int as_ws_new(struct as_ws **ret_w, const struct as_ws_conf *conf, const struct as_ws_ops *ops,
              void *owner, struct as_account *account)
{
    static const struct wslay_frame_callbacks callbacks = {.recv_callback = give};
    struct as_ws *w = as_slab_get(sizeof(*w));

    if (!w)
        return AS_ENOMEM;
    *w = (struct as_ws){.conf = *conf, .ops = ops, .owner = owner, .account = account};
    if (wslay_frame_context_init(&w->decoder, &callbacks, w)) {
        as_slab_put(w);
        return AS_ENOMEM;
    }
    *ret_w = w;
    return 0;
}

static void drop_message(struct as_ws *w)
{
    as_blob_unref(w->blob);
    w->blob = NULL;
    w->n = 0;
    w->opcode = w->n_frames = 0;
}

void as_ws_free(struct as_ws *w)
{
    if (!w)
        return;
    drop_message(w);
    wslay_frame_context_free(w->decoder);
    as_slab_put(w);
}

/* --- to the client --- */

size_t as_ws_put_head(uint8_t ret_head[AS_WS_HEAD], uint32_t opcode, uint64_t n)
{
    size_t width = n < 126 ? 0 : n <= UINT16_MAX ? 2 : 8;

    ret_head[0] = (uint8_t)(FIN | opcode);
    ret_head[1] = (uint8_t)(width == 0 ? n : width == 2 ? 126 : 127);
    for (size_t i = 0; i < width; i++)
        ret_head[2 + i] = (uint8_t)(n >> 8 * (width - 1 - i));
    return 2 + width;
}

static void send_control(struct as_ws *w, uint32_t opcode, const uint8_t *p, size_t n)
{
    uint8_t frame[AS_WS_HEAD + CONTROL_PAYLOAD];
    size_t head = as_ws_put_head(frame, opcode, n);

    if (n)
        memcpy(frame + head, p, n);
    w->ops->send(w->owner, frame, head + n);
}

bool as_ws_is_close_code(uint32_t code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

static void send_close(struct as_ws *w, uint32_t code, struct as_str reason)
{
    uint8_t payload[CONTROL_PAYLOAD] = {(uint8_t)(code >> 8), (uint8_t)code};

    if (code == AS_WS_NO_CODE) {
        send_control(w, AS_WS_CLOSE, NULL, 0);
        return;
    }
    reason = as_utf8_cut(reason, AS_WS_REASON);
    if (reason.n)
        memcpy(payload + 2, reason.p, reason.n);
    send_control(w, AS_WS_CLOSE, payload, 2 + reason.n);
}

void as_ws_close(struct as_ws *w, uint32_t code, struct as_str reason)
{
    if (w->state != OPEN)
        return;
    w->state = CLOSING;
    drop_message(w);
    send_close(w, as_ws_is_close_code(code) || code == AS_WS_NO_CODE ? code : CODE_INTERNAL,
               reason);
}

void as_ws_ping(struct as_ws *w)
{
    if (w->state == OPEN)
        send_control(w, WSLAY_PING, NULL, 0);
}

/* The client broke a rule or a limit. */
static void fail(struct as_ws *w, uint32_t code, const char *fault)
{
    bool tell = w->state == OPEN;

    w->state = CLOSED;
    drop_message(w);
    if (!tell)
        return;
    send_close(w, code, as_str_of(fault));
    w->ops->on_close(w->owner, code, as_str_of(fault), fault);
}

/* --- messages --- */

static void end_message(struct as_ws *w)
{
    struct as_ws_message m = {.opcode = (enum as_ws_opcode)w->opcode, .n = w->n, .blob = w->blob};

    if (m.blob)
        m.p = m.blob->data;
    if (m.opcode == AS_WS_TEXT && !as_name_check_utf8((struct as_str){(const char *)m.p, m.n})) {
        fail(w, CODE_NOT_UTF8, "a text is not UTF-8");
        return;
    }
    w->blob = NULL;
    drop_message(w);
    w->ops->on_message(w->owner, &m);
    as_blob_unref(m.blob);
}

/* Makes room for k more bytes of the message. `whole`: all bytes that it will have, 0: not known.
 * An announcement alone takes little memory. 0, AS_EFULL, AS_ENOMEM. */
static int reserve(struct as_ws *w, size_t k, size_t whole)
{
    size_t need = w->n + k, to;

    if (!w->blob) {
        to = AS_MAX(need, whole ? AS_MIN(whole, AS_BLOB_FIRST) : (size_t)FIRST_ROOM);
        return as_blob_new_charged(w->account, to, &w->blob);
    }
    if (need <= w->blob->n)
        return 0;
    to = w->blob->n * (whole ? AS_BLOB_GROWTH : 2);
    to = AS_MIN(to, whole ? whole : (size_t)w->conf.max_message);
    return as_blob_grow(&w->blob, AS_MAX(need, to));
}

static void add_to_message(struct as_ws *w, const struct wslay_frame_iocb *f)
{
    size_t k = f->data_length;
    int err;

    if (w->state != OPEN) /* dropped */
        return;
    err = k ? reserve(w, k, f->fin ? w->n + k + (size_t)w->left : 0) : 0;
    if (err) {
        fail(w, CODE_TRY_LATER, "there is no room for the message");
        return;
    }
    if (k)
        memcpy(w->blob->data + w->n, f->data, k);
    w->n += k;
    if (!w->left && f->fin)
        end_message(w);
}

/* --- control frames --- */

static void end_close(struct as_ws *w)
{
    uint32_t code = AS_WS_NO_CODE;
    struct as_str reason = {0};

    if (w->n_control == 1) {
        fail(w, CODE_PROTOCOL, "a close of one byte");
        return;
    }
    if (w->n_control) {
        code = (uint32_t)w->control[0] << 8 | w->control[1];
        reason = (struct as_str){(const char *)w->control + 2, w->n_control - 2};
        if (!as_ws_is_close_code(code)) {
            fail(w, CODE_PROTOCOL, "a close code that may not be sent");
            return;
        }
        if (!as_name_check_utf8(reason)) {
            fail(w, CODE_NOT_UTF8, "the reason of a close is not UTF-8");
            return;
        }
    }
    if (w->state == OPEN) {
        w->state = CLOSED;
        drop_message(w);
        send_close(w, code, (struct as_str){0});
        w->ops->on_close(w->owner, code, reason, NULL);
    }
    w->state = CLOSED;
}

static void add_to_control(struct as_ws *w, const struct wslay_frame_iocb *f)
{
    if (f->data_length)
        memcpy(w->control + w->n_control, f->data, f->data_length);
    w->n_control += f->data_length;
    if (w->left)
        return;
    if (f->opcode == WSLAY_CONNECTION_CLOSE)
        end_close(w);
    else if (f->opcode == WSLAY_PING && w->state == OPEN)
        send_control(w, WSLAY_PONG, w->control, w->n_control);
    w->n_control = 0;
}

/* --- frames --- */

/* What is wrong with a frame by its kind; NULL: nothing. */
static const char *kind_fault(const struct as_ws *w, const struct wslay_frame_iocb *f)
{
    if (!f->mask)
        return "a frame without a mask";
    if (f->rsv)
        return "a frame with a reserved bit";
    if (f->opcode > WSLAY_PONG ||
        (f->opcode > WSLAY_BINARY_FRAME && !wslay_is_ctrl_frame(f->opcode)))
        return "a frame with a reserved opcode";
    if (wslay_is_ctrl_frame(f->opcode) || w->state == CLOSING)
        return NULL; /* behind our close a message is dropped, whatever it is */
    if (f->opcode == WSLAY_CONTINUATION_FRAME && !w->opcode)
        return "a continuation without a message";
    if (f->opcode != WSLAY_CONTINUATION_FRAME && w->opcode)
        return "a message inside another one";
    return NULL;
}

static const char *size_fault(const struct as_ws *w, const struct wslay_frame_iocb *f)
{
    if (wslay_is_ctrl_frame(f->opcode) || w->state == CLOSING)
        return NULL;
    if (w->n_frames >= w->conf.max_fragments)
        return "a message of too many fragments";
    return f->payload_length > w->conf.max_message - w->n ? "a message that is too big" : NULL;
}

/* False: it has ended the websocket. */
static bool begin_frame(struct as_ws *w, const struct wslay_frame_iocb *f)
{
    const char *kind = kind_fault(w, f), *size = kind ? NULL : size_fault(w, f);

    if (kind || size) {
        fail(w, kind ? CODE_PROTOCOL : CODE_TOO_BIG, kind ? kind : size);
        return false;
    }
    w->n_given = 0;
    w->left = f->payload_length;
    if (w->state == OPEN && !wslay_is_ctrl_frame(f->opcode)) {
        w->n_frames++;
        if (f->opcode != WSLAY_CONTINUATION_FRAME)
            w->opcode = f->opcode;
    }
    return true;
}

/* Bytes of a frame's payload; none, if it has none. */
static void on_payload(struct as_ws *w, const struct wslay_frame_iocb *f)
{
    if (!w->in_payload && !begin_frame(w, f))
        return;
    w->left -= f->data_length;
    w->in_payload = w->left > 0;
    if (wslay_is_ctrl_frame(f->opcode))
        add_to_control(w, f);
    else
        add_to_message(w, f);
}

size_t as_ws_recv(struct as_ws *w, const uint8_t *p, size_t n)
{
    struct wslay_frame_iocb f;
    ssize_t got;

    w->in = p;
    w->n_in = n;
    while (w->n_in && (w->state == CLOSING || (w->state == OPEN && !w->paused))) {
        got = wslay_frame_recv(w->decoder, &f);
        if (got >= 0)
            on_payload(w, &f);
        else if (got != WSLAY_ERR_WANT_READ) /* a long or cut control frame; the form of a length */
            fail(w, CODE_PROTOCOL, "the head of a frame is malformed");
    }
    return w->state == CLOSED ? n : n - w->n_in;
}

void as_ws_pause(struct as_ws *w, bool paused)
{
    w->paused = paused;
}

bool as_ws_is_closing(const struct as_ws *w)
{
    return w->state != OPEN;
}

bool as_ws_is_closed(const struct as_ws *w)
{
    return w->state == CLOSED;
}
