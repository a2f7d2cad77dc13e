#include "base/be.h"
#include "base/err.h"
#include "wire/h2/h2_client_internal.h"

#define CONTROL_MAX 65536u /* bytes of answers that a server may provoke and not read */

/* One frame without its head and padding. */
struct frame {
    uint8_t type, flags;
    uint32_t id;
    const uint8_t *p;
    size_t n;
    size_t flow; /* bytes that count for the windows */
};

/* False: the server has used a stream that no request has opened. */
static bool is_known(struct as_h2_client *h, uint32_t id)
{
    if ((id & 1) && id < h->next_id)
        return true;
    as_h2_client_fail(h, NGHTTP2_PROTOCOL_ERROR);
    return false;
}

/* END_STREAM has come. */
static void end_answer(struct as_h2_client *h, struct as_h2_client_stream *s)
{
    if (s->content_length != AS_H2_CLIENT_NO_LENGTH && s->received != s->content_length) {
        as_h2_client_abort(h, s, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    s->whole = true;
    if (s->is_sent)
        as_h2_client_close(h, s, NGHTTP2_NO_ERROR);
}

/* --- headers --- */

static void end_block(struct as_h2_client *h, struct as_h2_client_stream *s)
{
    if (!s || s->is_reset)
        return;
    if (s->has_head ? !h->block_ends : !h->has_status || (h->is_interim && h->block_ends))
        h->is_malformed = true;
    if (h->is_malformed) {
        as_h2_client_abort(h, s, NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    if (h->is_interim)
        return;
    s->has_head = true;
    if (h->block_ends)
        end_answer(h, s);
}

/* Bytes of the header block of a stream. is_first: no frame of the block came before. */
static void take_block(struct as_h2_client *h, uint32_t id, bool is_first, bool is_end,
                       const uint8_t *p, size_t n)
{
    struct as_h2_client_stream *s = as_h2_client_lookup(h, id);

    if (s ? s->whole || !s->is_begun : !is_known(h, id)) {
        as_h2_client_fail(h, s && s->whole ? NGHTTP2_STREAM_CLOSED : NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    if (!as_h2_client_decode(h, s, p, n, is_first && is_end, is_end)) {
        as_h2_client_fail(h, NGHTTP2_COMPRESSION_ERROR);
        return;
    }
    h->block_id = is_end ? 0 : id;
    if (is_end)
        end_block(h, s);
}

static inline void take_headers(struct as_h2_client *h, uint32_t id, uint8_t flags,
                                const uint8_t *p, size_t n)
{
    h->block_ends = flags & NGHTTP2_FLAG_END_STREAM;
    h->has_status = h->has_regular = h->is_interim = h->is_malformed = false;
    take_block(h, id, true, flags & NGHTTP2_FLAG_END_HEADERS, p, n);
}

/* --- data --- */

/* Gives window back in large portions. False: the server has used more than it had. */
static bool give_window(struct as_h2_client *h, uint32_t id, uint32_t *unreturned, uint32_t window)
{
    if (*unreturned > window)
        return false;
    as_be_put32(as_h2_client_control(h, NGHTTP2_WINDOW_UPDATE, 0, id, 4), *unreturned);
    *unreturned = 0;
    return true;
}

/* 0, or the error of the stream. */
static uint32_t check_data(struct as_h2_client *h, struct as_h2_client_stream *s, bool is_end)
{
    if (s->whole)
        return NGHTTP2_STREAM_CLOSED;
    if (!s->has_head || s->received > s->content_length)
        return NGHTTP2_PROTOCOL_ERROR;
    if (s->unreturned >= h->conf.stream_window / 2 &&
        (!is_end || s->unreturned > h->conf.stream_window) &&
        !give_window(h, s->id, &s->unreturned, h->conf.stream_window))
        return NGHTTP2_FLOW_CONTROL_ERROR;
    return NGHTTP2_NO_ERROR;
}

/* flow: bytes that count for the windows, with padding. */
static inline void take_data(struct as_h2_client *h, uint32_t id, bool is_end, const uint8_t *p,
                             size_t n, size_t flow)
{
    struct as_h2_client_stream *s = as_h2_client_lookup(h, id);
    uint32_t code;

    if (!s && !is_known(h, id))
        return;
    h->unreturned += (uint32_t)flow;
    if (h->unreturned >= h->conf.conn_window / 2 &&
        !give_window(h, 0, &h->unreturned, h->conf.conn_window))
        as_h2_client_fail(h, NGHTTP2_FLOW_CONTROL_ERROR);
    if (!s || s->is_reset)
        return;
    s->unreturned += (uint32_t)flow;
    s->received += n;
    code = check_data(h, s, is_end);
    if (code) {
        as_h2_client_abort(h, s, code);
        return;
    }
    if (n)
        h->ops->on_data(h->conn, s->call, p, n);
    if (is_end && !s->is_reset)
        end_answer(h, s);
}

static void take_window(struct as_h2_client *h, const struct frame *f)
{
    uint32_t more = as_be_get32(f->p) & AS_H2_CLIENT_ID_MAX;
    struct as_h2_client_stream *s;

    if (f->id == 0) {
        h->window += more;
        if (!more || h->window > AS_H2_CLIENT_ID_MAX)
            as_h2_client_fail(h, more ? NGHTTP2_FLOW_CONTROL_ERROR : NGHTTP2_PROTOCOL_ERROR);
        return;
    }
    if (!is_known(h, f->id) || !(s = as_h2_client_lookup(h, f->id)))
        return;
    s->window += more;
    if (!more || s->window > AS_H2_CLIENT_ID_MAX)
        as_h2_client_abort(h, s, more ? NGHTTP2_FLOW_CONTROL_ERROR : NGHTTP2_PROTOCOL_ERROR);
    else
        as_h2_client_resume(h, s);
}

/* --- the connection --- */

/* A change counts for open streams, too, and may make their windows negative (RFC 9113 §6.9.2). */
static void change_windows(struct as_h2_client *h, uint32_t value)
{
    int64_t more = (int64_t)value - h->stream_window;

    h->stream_window = value;
    AS_LIST_EACH_ENTRY(s, struct as_h2_client_stream, node, &h->open) {
        s->window += more;
        if (s->window > AS_H2_CLIENT_ID_MAX)
            as_h2_client_fail(h, NGHTTP2_FLOW_CONTROL_ERROR);
        if (s->is_begun && s->window <= 0 && !s->is_reset)
            as_list_remove(&s->todo);
        as_h2_client_resume(h, s);
    }
}

static void take_setting(struct as_h2_client *h, uint32_t key, uint32_t value)
{
    switch (key) {
    case NGHTTP2_SETTINGS_HEADER_TABLE_SIZE:
        h->has_no_table = h->has_no_table || value < NGHTTP2_DEFAULT_HEADER_TABLE_SIZE;
        break;
    case NGHTTP2_SETTINGS_ENABLE_PUSH:
        if (value)
            as_h2_client_fail(h, NGHTTP2_PROTOCOL_ERROR);
        break;
    case NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS:
        h->max_streams = value;
        break;
    case NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE:
        if (value > AS_H2_CLIENT_ID_MAX)
            as_h2_client_fail(h, NGHTTP2_FLOW_CONTROL_ERROR);
        else
            change_windows(h, value);
        break;
    case NGHTTP2_SETTINGS_MAX_FRAME_SIZE: /* we send no frames above the default */
        if (value < AS_H2_CLIENT_FRAME_MAX || value >= 1u << 24)
            as_h2_client_fail(h, NGHTTP2_PROTOCOL_ERROR);
        break;
    default:
        break;
    }
}

static void take_settings(struct as_h2_client *h, const struct frame *f)
{
    if (f->flags & NGHTTP2_FLAG_ACK)
        return;
    if (!h->ready)
        h->max_streams = UINT32_MAX; /* unless the server limits them */
    h->ready = true;
    for (size_t i = 0; i < f->n; i += 6)
        take_setting(h, (uint32_t)(f->p[i] << 8 | f->p[i + 1]), as_be_get32(f->p + i + 2));
    as_h2_client_control(h, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, 0);
}

/* What the server has not begun, it will not begin (RFC 9113 §6.8). */
static void take_goaway(struct as_h2_client *h, const struct frame *f)
{
    uint32_t last = as_be_get32(f->p) & AS_H2_CLIENT_ID_MAX;

    h->goaway = true;
    AS_LIST_EACH_ENTRY(s, struct as_h2_client_stream, node, &h->open) {
        if (s->id > last || !s->is_begun)
            as_h2_client_close(h, s, NGHTTP2_REFUSED_STREAM);
    }
}

static void take_reset(struct as_h2_client *h, const struct frame *f)
{
    struct as_h2_client_stream *s;

    if (!is_known(h, f->id) || !(s = as_h2_client_lookup(h, f->id)))
        return;
    if (s->is_begun)
        as_h2_client_close(h, s, as_be_get32(f->p));
    else
        as_h2_client_fail(h, NGHTTP2_PROTOCOL_ERROR);
}

/* The error of a frame whose size or stream number is wrong, else NO_ERROR. */
static uint32_t check_shape(const struct frame *f)
{
    bool on_stream = f->id != 0, has_size = true;

    switch (f->type) {
    case NGHTTP2_DATA:
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
        return on_stream ? NGHTTP2_NO_ERROR : NGHTTP2_PROTOCOL_ERROR;
    case NGHTTP2_PUSH_PROMISE: /* push is off */
        return NGHTTP2_PROTOCOL_ERROR;
    case NGHTTP2_RST_STREAM:
        has_size = f->n == 4;
        on_stream = !on_stream;
        break;
    case NGHTTP2_SETTINGS:
        has_size = f->flags & NGHTTP2_FLAG_ACK ? f->n == 0 : f->n % 6 == 0;
        break;
    case NGHTTP2_PING:
        has_size = f->n == 8;
        break;
    case NGHTTP2_GOAWAY:
        has_size = f->n >= 8;
        break;
    case NGHTTP2_WINDOW_UPDATE:
        has_size = f->n == 4;
        on_stream = false;
        break;
    default:
        return NGHTTP2_NO_ERROR;
    }
    return !has_size   ? NGHTTP2_FRAME_SIZE_ERROR
           : on_stream ? NGHTTP2_PROTOCOL_ERROR
                       : NGHTTP2_NO_ERROR;
}

/* Takes away padding and the fields of a priority. False: there are more of them than bytes. */
static bool unpad(struct frame *f)
{
    size_t skip = 0, pad = 0;

    if (f->type != NGHTTP2_DATA && f->type != NGHTTP2_HEADERS)
        return true;
    if (f->flags & NGHTTP2_FLAG_PADDED) {
        pad = f->n ? f->p[0] : 0;
        skip = 1;
    }
    if (f->type == NGHTTP2_HEADERS && (f->flags & NGHTTP2_FLAG_PRIORITY))
        skip += 5;
    if (skip + pad > f->n)
        return false;
    f->p += skip;
    f->n -= skip + pad;
    return true;
}

/* A header block must not be interrupted, and SETTINGS come first. */
static bool is_in_order(const struct as_h2_client *h, const struct frame *f)
{
    if (h->block_id || f->type == NGHTTP2_CONTINUATION)
        return f->type == NGHTTP2_CONTINUATION && f->id == h->block_id;
    return h->ready || (f->type == NGHTTP2_SETTINGS && !(f->flags & NGHTTP2_FLAG_ACK));
}

/* A frame that has to be checked, or is seldom. */
static void take_other(struct as_h2_client *h, struct frame *f)
{
    uint32_t code = check_shape(f);

    if (!code && (!is_in_order(h, f) || !unpad(f)))
        code = NGHTTP2_PROTOCOL_ERROR;
    if (code) {
        as_h2_client_fail(h, code);
        return;
    }
    switch (f->type) {
    case NGHTTP2_DATA:
        take_data(h, f->id, f->flags & NGHTTP2_FLAG_END_STREAM, f->p, f->n, f->flow);
        break;
    case NGHTTP2_HEADERS:
        take_headers(h, f->id, f->flags, f->p, f->n);
        break;
    case NGHTTP2_CONTINUATION:
        take_block(h, f->id, false, f->flags & NGHTTP2_FLAG_END_HEADERS, f->p, f->n);
        break;
    case NGHTTP2_RST_STREAM:
        take_reset(h, f);
        break;
    case NGHTTP2_SETTINGS:
        take_settings(h, f);
        break;
    case NGHTTP2_PING:
        if (!(f->flags & NGHTTP2_FLAG_ACK))
            memcpy(as_h2_client_control(h, NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, 8), f->p, 8);
        break;
    case NGHTTP2_GOAWAY:
        take_goaway(h, f);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        take_window(h, f);
        break;
    default: /* PRIORITY, and what we do not know (RFC 9113 §5.5) */
        break;
    }
    if (h->control.n > CONTROL_MAX)
        as_h2_client_fail(h, NGHTTP2_ENHANCE_YOUR_CALM);
}

/* One whole frame. Most are DATA and HEADERS with nothing to check or to take away. */
static inline void take_frame(struct as_h2_client *h, const uint8_t *head, size_t n)
{
    const uint8_t *p = head + AS_H2_CLIENT_FRAME_HEAD;
    uint32_t id = as_be_get32(head + 5) & AS_H2_CLIENT_ID_MAX;
    uint8_t type = head[3], flags = head[4];

    if (type > NGHTTP2_HEADERS || !id || !h->ready || h->block_id ||
        (flags & (NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY)))
        take_other(
            h, &(struct frame){.type = type, .flags = flags, .id = id, .p = p, .n = n, .flow = n});
    else if (type == NGHTTP2_DATA)
        take_data(h, id, flags & NGHTTP2_FLAG_END_STREAM, p, n, n);
    else
        take_headers(h, id, flags, p, n);
}

/* Bytes of the frame at p with its head; n: how many are there. 0: its head is not whole;
 * SIZE_MAX: it is longer than allowed. */
static size_t frame_size(const uint8_t *p, size_t n)
{
    size_t len;

    if (n < AS_H2_CLIENT_FRAME_HEAD)
        return 0;
    len = as_be_get32(p) >> 8;
    return len > AS_H2_CLIENT_FRAME_MAX ? SIZE_MAX : AS_H2_CLIENT_FRAME_HEAD + len;
}

/* Adds bytes to a frame that came in pieces; returns how many. */
static size_t add_part(struct as_h2_client *h, const uint8_t *p, size_t n)
{
    size_t size = frame_size(h->part.p, h->part.n);
    size_t k = AS_MIN(n, (size ? size : AS_H2_CLIENT_FRAME_HEAD) - h->part.n);

    as_buf_add(&h->part, p, k);
    size = frame_size(h->part.p, h->part.n);
    if (size == SIZE_MAX) {
        as_h2_client_fail(h, NGHTTP2_FRAME_SIZE_ERROR);
    } else if (size == h->part.n) {
        h->part.n = 0; /* its bytes stay until more are added */
        take_frame(h, h->part.p, size - AS_H2_CLIENT_FRAME_HEAD);
    }
    return k;
}

int as_h2_client_recv(struct as_h2_client *h, const uint8_t *p, size_t n)
{
    size_t size;

    while (h->part.n && n && !h->over) {
        size = add_part(h, p, n);
        p += size;
        n -= size;
    }
    while (!h->over && (size = frame_size(p, n)) && size <= n) {
        take_frame(h, p, size - AS_H2_CLIENT_FRAME_HEAD);
        p += size;
        n -= size;
    }
    while (n && !h->over) { /* the beginning of a frame */
        size = add_part(h, p, n);
        p += size;
        n -= size;
    }
    return h->over ? AS_EPROTO : 0;
}
