/* Answers that are given as a whole, and nghttp2's callbacks for sent frames. */
#include "wire/h2/h2_internal.h"

#include "base/err.h"
#include "wire/http/http_field.h"

/* The largest DATA frame that is sent, whatever the client allows: other streams get their turn. */
#define FRAME_MAX 262144
/* Bodies of this size and more take turns, frame by frame; nghttp2 sends shorter ones as a whole,
 * one after the other. */
#define TURNS_MIN   65536
#define FRAME_HEAD  9u
#define NV_ON_STACK 32
#define NO_COPY     (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)

/* Appends the next n bytes of the body; nghttp2 has chosen n by the windows. */
static void append_body(struct as_outq *q, struct as_h2_stream *s, size_t n)
{
    s->body_left -= n;
    s->body_sent += n;
    as_http_pieces_send(&s->pieces, q, n, false);
}

static int send_data(nghttp2_session *session AS_UNUSED, nghttp2_frame *frame AS_UNUSED,
                     const uint8_t *framehd, size_t length, nghttp2_data_source *source, void *user)
{
    struct as_h2 *h = user;
    struct as_h2_stream *s = source->ptr;

    /* as_h2_response_cache_put_trailers relies on this, too */
    AS_ASSERT(length == ((size_t)framehd[0] << 16 | (size_t)framehd[1] << 8 | framehd[2]));
    AS_ASSERT(!s->cached_trailers || framehd[4] == NGHTTP2_FLAG_END_STREAM);
    if (length || !s->cached_trailers) {
        uint8_t *head = as_outq_alloc(h->q, FRAME_HEAD);

        memcpy(head, framehd, FRAME_HEAD);
        if (s->cached_trailers)
            head[4] = NGHTTP2_FLAG_NONE; /* the trailers carry END_STREAM */
    }
    if (s->streamed)
        as_h2_streamed_body_append(h, s, length);
    else
        append_body(h->q, s, length);
    if (s->cached_trailers)
        as_h2_response_cache_put_trailers(h, s);
    return h->q->bytes >= h->max ? NGHTTP2_ERR_PAUSE : 0;
}

/* For the last DATA frame of a body: sees to the trailers, if there are any. 0 or nghttp2's error.
 */
static int end_body(struct as_h2 *h, struct as_h2_stream *s, uint32_t *flags)
{
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!s->n_trailers)
        return 0;
    s->cached_trailers = as_h2_response_cache_has_trailers(h, s);
    if (s->cached_trailers)
        return 0;
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return nghttp2_submit_trailer(h->session, (int32_t)s->id, s->trailers, s->n_trailers);
}

/* Tells nghttp2 how much of the body the next DATA frame carries; send_data appends the bytes. */
static ssize_t read_body(nghttp2_session *session AS_UNUSED, int32_t id AS_UNUSED,
                         uint8_t *buf AS_UNUSED, size_t length, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    struct as_h2_stream *s = source->ptr;
    size_t n = AS_MIN(length, s->body_left);
    bool more = s->streamed && !s->streamed->finished;

    if (!n && more) {
        s->streamed->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == s->body_left && !more && end_body(user, s, flags))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return (ssize_t)n;
}

/* nghttp2 grows its buffer to this length, although send_data does not use the buffer: so it is
 * limited to the rest of the body. */
static ssize_t frame_length(nghttp2_session *session AS_UNUSED, uint8_t type AS_UNUSED, int32_t id,
                            int32_t conn_window AS_UNUSED, int32_t stream_window AS_UNUSED,
                            uint32_t max_frame, void *user)
{
    const struct as_h2_stream *s = as_h2_find_stream(user, id);
    size_t most = AS_MIN(max_frame, (uint32_t)FRAME_MAX);

    if (s && s->body_left < most)
        most = AS_MAX(s->body_left, (size_t)1);
    return (ssize_t)most;
}

/* Counts a reset that the client has provoked: the request may have been started already
 * (MadeYouReset). */
static void count_reset(struct as_h2 *h, const nghttp2_frame *frame)
{
    const struct as_h2_stream *s = as_h2_find_stream(h, frame->hd.stream_id);

    if (frame->rst_stream.error_code == NGHTTP2_NO_ERROR || (s && s->reset))
        return;
    if (frame->rst_stream.error_code == NGHTTP2_REFUSED_STREAM)
        as_h2_guard_stream_refused(&h->guard, h->now);
    else
        as_h2_guard_stream_fault(&h->guard, h->now);
    as_h2_check_guard(h);
}

/* The last frame of an answer is sent: resets the stream if the client has not ended its side. A
 * reset that is submitted earlier would make nghttp2 drop the trailers. 0 or nghttp2's error. */
static int on_last_frame(struct as_h2 *h, const nghttp2_frame *frame)
{
    bool trailers = frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_HEADERS;
    struct as_h2_stream *s;

    if (!trailers && !h->n_early)
        return 0;
    s = as_h2_find_stream(h, frame->hd.stream_id);
    if (!s)
        return 0;
    if (trailers)
        as_h2_response_cache_learn_trailers(h, s);
    if (s->early && nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                              NGHTTP2_NO_ERROR))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return 0;
}

static void on_head(struct as_h2 *h, int32_t id)
{
    struct as_h2_stream *s = as_h2_find_stream(h, id);

    if (s && s->head_encoding)
        as_h2_response_cache_head_encoded(h, s);
}

static int on_frame_send(nghttp2_session *session AS_UNUSED, const nghttp2_frame *frame, void *user)
{
    struct as_h2 *h = user;

    if (frame->hd.type <= NGHTTP2_HEADERS) {
        as_h2_guard_answer_sent(&h->guard);
        if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_RESPONSE)
            on_head(h, frame->hd.stream_id);
        if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
            return on_last_frame(h, frame);
    } else if (frame->hd.type == NGHTTP2_RST_STREAM) {
        count_reset(h, frame);
    } else if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR) {
        h->over = true;
        if (!h->breach && !h->ended_by_owner)
            h->breach = AS_H2_PROTOCOL;
    }
    return 0;
}

/* nghttp2 drops a header block above its limit silently: the stream is reset, so that the client
 * does not wait. */
static int on_frame_not_send(nghttp2_session *session AS_UNUSED, const nghttp2_frame *frame,
                             int why AS_UNUSED, void *user)
{
    struct as_h2 *h = user;

    if (frame->hd.type == NGHTTP2_HEADERS)
        as_h2_reset(h, (uint32_t)frame->hd.stream_id, NGHTTP2_INTERNAL_ERROR);
    return 0;
}

void as_h2_set_send_callbacks(nghttp2_session_callbacks *cb)
{
    nghttp2_session_callbacks_set_send_data_callback(cb, send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(cb, frame_length);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
}

/* Gives consumed bytes back to the connection's window, once per turn for all streams. Out of
 * memory: the window would never open again. */
static void return_window(struct as_h2 *h)
{
    if (h->unreturned && !h->dead && nghttp2_session_consume_connection(h->session, h->unreturned))
        h->dead = true;
    h->unreturned = 0;
}

int as_h2_send(struct as_h2 *h, struct as_outq *q, size_t max)
{
    const uint8_t *p;
    ssize_t n = 0;

    h->q = q;
    h->max = max;
    return_window(h);
    /* DATA does not come through here: send_data appends it during the call. */
    while (!h->dead && !h->over && q->bytes < max &&
           (n = nghttp2_session_mem_send(h->session, &p)) != 0) {
        if (n < 0) {
            h->dead = true;
            break;
        }
        as_h2_response_cache_put_frame(h, p, (size_t)n);
    }
    if (h->dead && !h->breach)
        h->breach = AS_H2_PROTOCOL;
    h->q = NULL;
    if (!as_list_empty(&h->drained))
        as_h2_streamed_body_notify(h);
    return h->dead || h->over ? AS_EPROTO : 0;
}

/* Copies fields into the stream, where nghttp2 reads them when it encodes the frame; invalid fields
 * are left out. */
static bool copy_fields(struct as_h2_stream *s, const struct as_http_header *f, uint32_t n,
                        nghttp2_nv *to, uint32_t *ret_n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct as_str name, value;

        if (!as_http_field_is_valid(&f[i]))
            continue;
        name = as_h2_store(s, f[i].name);
        value = as_h2_store(s, f[i].value);
        if (!name.p || !value.p)
            return false;
        to[kept++] = (nghttp2_nv){(uint8_t *)(uintptr_t)name.p, (uint8_t *)(uintptr_t)value.p,
                                  name.n, value.n, NO_COPY};
    }
    *ret_n = kept;
    return true;
}

bool as_h2_copy_trailers(struct as_h2_stream *s, const struct as_http_header *trailers, uint32_t n)
{
    s->trailers = as_h2_alloc(s, n * sizeof(*s->trailers), _Alignof(nghttp2_nv));
    return s->trailers && copy_fields(s, trailers, n, s->trailers, &s->n_trailers);
}

static bool store_body(struct as_h2_stream *s, const struct as_http_answer *a)
{
    struct as_http_piece *to = s->inline_pieces;

    if (a->n_body > AS_H2_INLINE_PIECES)
        to = as_h2_alloc(s, a->n_body * sizeof(*to), _Alignof(struct as_http_piece));
    if (!to)
        return false;
    for (uint32_t i = 0; i < a->n_body; i++) {
        to[i] = a->body[i];
        s->body_left += to[i].n;
    }
    s->pieces.p = to;
    s->pieces.n = a->n_body;
    return true;
}

int as_h2_submit_answer(struct as_h2 *h, struct as_h2_stream *s, const struct as_http_answer *a,
                        bool has_body)
{
    nghttp2_data_provider body = {.source = {.ptr = s}, .read_callback = read_body};
    nghttp2_nv stack[NV_ON_STACK], *nv = stack;
    const nghttp2_extpri turns = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    uint32_t n = a->n_headers + 1, kept;

    s->status[0] = (char)('0' + a->status / 100);
    s->status[1] = (char)('0' + a->status / 10 % 10);
    s->status[2] = (char)('0' + a->status % 10);
    if (s->body_left >= TURNS_MIN || s->streamed)
        nghttp2_session_change_extpri_stream_priority(h->session, (int32_t)s->id, &turns, 1);
    if (has_body && as_h2_response_cache_use_head(h, s, a))
        return nghttp2_submit_response(h->session, (int32_t)s->id, NULL, 0, &body);
    if (n > NV_ON_STACK)
        nv = as_h2_alloc(s, n * sizeof(*nv), _Alignof(nghttp2_nv));
    if (!nv || !copy_fields(s, a->headers, a->n_headers, nv + 1, &kept))
        return NGHTTP2_ERR_NOMEM;
    nv[0] = (nghttp2_nv){(uint8_t *)(uintptr_t) ":status", (uint8_t *)s->status, 7, 3, NO_COPY};
    return nghttp2_submit_response(h->session, (int32_t)s->id, nv, kept + 1,
                                   has_body ? &body : NULL);
}

void as_h2_mark_early(struct as_h2 *h, struct as_h2_stream *s)
{
    if (s->ended)
        return;
    s->early = true;
    h->n_early++;
}

void as_h2_answer(struct as_h2 *h, uint32_t stream, const struct as_http_answer *a)
{
    struct as_h2_stream *s = h->dead ? NULL : as_h2_find_stream(h, (int32_t)stream);

    AS_ASSERT(a->status >= 200 && a->status <= 999);
    if (!s || s->answered || s->streamed)
        return;
    s->answered = true;
    as_h2_mark_early(h, s);
    if (!store_body(s, a) ||
        (a->n_trailers && !as_h2_copy_trailers(s, a->trailers, a->n_trailers)) ||
        as_h2_submit_answer(h, s, a, s->body_left || s->n_trailers))
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
}
