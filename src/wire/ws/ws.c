#include "wire/ws/ws.h"

#include "base/err.h"
#include "base/memory/slab.h"
#include "base/utf8.h"

#define CONTINUATION    0u
#define PING            9u
#define PONG            10u
#define FIN             0x80u
#define RESERVED        0x70u
#define MASKED          0x80u
#define CODE_PROTOCOL   1002u
#define CODE_NOT_UTF8   1007u
#define CODE_TOO_BIG    1009u
#define CODE_INTERNAL   1011u
#define CODE_TRY_LATER  1013u
#define CONTROL_PAYLOAD 125u
#define HEAD_MAX        14u   /* bytes before the payload of a frame of the client */
#define FIRST_ROOM      1024u /* for a message of unknown length */

enum ws_state { OPEN, CLOSING, CLOSED };

struct as_ws {
    struct as_ws_conf conf;
    const struct as_ws_ops *ops;
    void *owner;
    struct as_account *account;
    enum ws_state state;
    bool paused;
    /* the frame that is being read: first its head is collected, then `in_payload` */
    uint8_t head[HEAD_MAX];
    uint32_t n_head;
    bool in_payload, fin;
    uint32_t frame_opcode;
    uint64_t left;   /* bytes of the payload that are missing */
    uint8_t mask[4]; /* rotated: its first byte is for the next byte of the payload */
    /* the message that is incomplete */
    uint32_t opcode; /* 0: there is none */
    uint32_t n_frames;
    struct as_blob *blob; /* its first `n` bytes; NULL while n is 0 */
    size_t n;
    uint8_t control[CONTROL_PAYLOAD];
    size_t n_control;
};

static bool is_control(uint32_t opcode)
{
    return opcode & 8;
}

int as_ws_new(struct as_ws **ret_w, const struct as_ws_conf *conf, const struct as_ws_ops *ops,
              void *owner, struct as_account *account)
{
    struct as_ws *w = as_slab_get(sizeof(*w));

    if (!w)
        return AS_ENOMEM;
    *w = (struct as_ws){.conf = *conf, .ops = ops, .owner = owner, .account = account};
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
        send_control(w, PING, NULL, 0);
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

static bool is_utf8(const uint8_t *p, size_t n)
{
    size_t i = 0, len;

    while (i < n) {
        uint64_t word;

        if (n - i >= sizeof(word)) {
            memcpy(&word, p + i, sizeof(word));
            if (!(word & 0x8080808080808080u)) {
                i += sizeof(word);
                continue;
            }
        }
        len = as_utf8_len(p + i, n - i);
        if (!len)
            return false;
        i += len;
    }
    return true;
}

static void end_message(struct as_ws *w)
{
    struct as_ws_message m = {.opcode = (enum as_ws_opcode)w->opcode, .n = w->n, .blob = w->blob};

    if (m.blob)
        m.p = m.blob->data;
    if (m.opcode == AS_WS_TEXT && !is_utf8(m.p, m.n)) {
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

/* Copies k bytes of the payload without their mask. */
static void unmask(struct as_ws *w, uint8_t *to, const uint8_t *p, size_t k)
{
    uint8_t next[4];
    uint64_t mask, word;
    size_t i = 0;

    memcpy(&mask, w->mask, 4);
    memcpy((uint8_t *)&mask + 4, w->mask, 4);
    for (; i + sizeof(word) <= k; i += sizeof(word)) {
        memcpy(&word, p + i, sizeof(word));
        word ^= mask;
        memcpy(to + i, &word, sizeof(word));
    }
    for (; i < k; i++)
        to[i] = p[i] ^ w->mask[i % 4];
    for (i = 0; i < 4; i++)
        next[i] = w->mask[(k + i) % 4];
    memcpy(w->mask, next, 4);
}

/* Adds k bytes; w->left is what is missing behind them. */
static void add_to_message(struct as_ws *w, const uint8_t *p, size_t k)
{
    int err;

    if (w->state != OPEN) /* dropped */
        return;
    err = k ? reserve(w, k, w->fin ? w->n + k + (size_t)w->left : 0) : 0;
    if (err) {
        fail(w, CODE_TRY_LATER, "there is no room for the message");
        return;
    }
    if (k)
        unmask(w, w->blob->data + w->n, p, k);
    w->n += k;
    if (!w->left && w->fin)
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
        if (!is_utf8(w->control + 2, reason.n)) {
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

static void add_to_control(struct as_ws *w, const uint8_t *p, size_t k)
{
    if (k)
        unmask(w, w->control + w->n_control, p, k);
    w->n_control += k;
    if (w->left)
        return;
    if (w->frame_opcode == AS_WS_CLOSE)
        end_close(w);
    else if (w->frame_opcode == PING && w->state == OPEN)
        send_control(w, PONG, w->control, w->n_control);
    w->n_control = 0;
}

/* --- frames --- */

/* How many bytes the head has, by its first two. */
static size_t head_size(const uint8_t head[2])
{
    uint32_t n = head[1] & 0x7fu;

    return 2 + (n == 127 ? 8u : n == 126 ? 2u : 0u) + (head[1] & MASKED ? 4u : 0u);
}

/* False: it is not the shortest form, or above 2^63 - 1. */
static bool read_length(const uint8_t *head, uint64_t *ret_n)
{
    uint32_t n = head[1] & 0x7fu, width = n == 127 ? 8 : n == 126 ? 2 : 0;

    *ret_n = width ? 0 : n;
    for (uint32_t i = 0; i < width; i++)
        *ret_n = *ret_n << 8 | head[2 + i];
    return !width || (width == 2 ? *ret_n >= 126 : *ret_n > UINT16_MAX && *ret_n <= INT64_MAX);
}

/* What is wrong with the first two bytes of a head; NULL: nothing. */
static const char *kind_fault(const struct as_ws *w, const uint8_t head[2])
{
    uint32_t opcode = head[0] & 0x0fu;

    if (!(head[1] & MASKED))
        return "a frame without a mask";
    if (head[0] & RESERVED)
        return "a frame with a reserved bit";
    if (is_control(opcode) && (!(head[0] & FIN) || (head[1] & 0x7fu) > CONTROL_PAYLOAD))
        return "a control frame that is too long or a fragment";
    if (opcode > PONG || (opcode > AS_WS_BINARY && !is_control(opcode)))
        return "a frame with a reserved opcode";
    if (is_control(opcode) || w->state == CLOSING)
        return NULL; /* behind our close a message is dropped, whatever it is */
    if (opcode == CONTINUATION && !w->opcode)
        return "a continuation without a message";
    if (opcode != CONTINUATION && w->opcode)
        return "a message inside another one";
    return NULL;
}

static const char *size_fault(const struct as_ws *w)
{
    if (is_control(w->frame_opcode) || w->state == CLOSING)
        return NULL;
    if (w->n_frames >= w->conf.max_fragments)
        return "a message of too many fragments";
    return w->left > w->conf.max_message - w->n ? "a message that is too big" : NULL;
}

/* The head is complete. */
static void begin_frame(struct as_ws *w)
{
    const char *fault;

    w->fin = w->head[0] & FIN;
    w->frame_opcode = w->head[0] & 0x0fu;
    memcpy(w->mask, w->head + w->n_head - 4, 4);
    if (!read_length(w->head, &w->left)) {
        fail(w, CODE_PROTOCOL, "the length of a frame is malformed");
        return;
    }
    fault = size_fault(w);
    if (fault) {
        fail(w, CODE_TOO_BIG, fault);
        return;
    }
    w->in_payload = true;
    w->n_head = 0;
    if (w->state == OPEN && !is_control(w->frame_opcode)) {
        w->n_frames++;
        if (w->frame_opcode != CONTINUATION)
            w->opcode = w->frame_opcode;
    }
}

/* Reads bytes of a head; returns how many. */
static size_t read_head(struct as_ws *w, const uint8_t *p, size_t n)
{
    size_t want = w->n_head < 2 ? 2 : head_size(w->head), k = AS_MIN(want - w->n_head, n);
    const char *fault;

    memcpy(w->head + w->n_head, p, k);
    w->n_head += (uint32_t)k;
    if (w->n_head < want)
        return k;
    if (want == 2) { /* with a mask it is longer */
        fault = kind_fault(w, w->head);
        if (fault)
            fail(w, CODE_PROTOCOL, fault);
    } else {
        begin_frame(w);
    }
    return k;
}

static size_t read_payload(struct as_ws *w, const uint8_t *p, size_t n)
{
    size_t k = (size_t)AS_MIN((uint64_t)n, w->left);

    w->left -= k;
    w->in_payload = w->left > 0;
    if (is_control(w->frame_opcode))
        add_to_control(w, p, k);
    else
        add_to_message(w, p, k);
    return k;
}

size_t as_ws_recv(struct as_ws *w, const uint8_t *p, size_t n)
{
    size_t at = 0;

    /* an empty payload is read without a further byte */
    while ((at < n || (w->in_payload && !w->left)) &&
           (w->state == CLOSING || (w->state == OPEN && !w->paused)))
        at += w->in_payload ? read_payload(w, p + at, n - at) : read_head(w, p + at, n - at);
    return w->state == CLOSED ? n : at;
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
