/* Answers whose body comes over time: what is written waits here for the peer's windows. */
#include "base/err.h"
#include "wire/h2/h2_internal.h"

#define PIECES_FIRST 8u

/* The stream, if it has an open answer that is not finished. */
static struct as_h2_stream *find(struct as_h2 *h, uint32_t stream)
{
    struct as_h2_stream *s = h->dead ? NULL : as_h2_find(h, (int32_t)stream);

    return s && s->later && !s->answered ? s : NULL;
}

/* nghttp2 asks again for a body that had nothing when it asked. */
static void wake(struct as_h2 *h, struct as_h2_stream *s)
{
    if (!s->later->starving)
        return;
    s->later->starving = false;
    /* Out of memory: the rest would never be asked for. */
    if (nghttp2_is_fatal(nghttp2_session_resume_data(h->session, (int32_t)s->id)))
        h->dead = true;
}

static ssize_t read_later(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
                          uint32_t *flags, nghttp2_data_source *source, void *user)
{
    struct as_h2_stream *s = source->ptr;
    size_t n = AS_MIN(length, s->body_left);

    (void)session;
    (void)id;
    (void)buf;
    if (!n && !s->later->finished) {
        s->later->starving = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (n == s->body_left && s->later->finished && as_h2_end_body(user, s, flags))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return (ssize_t)n;
}

void as_h2_begin(struct as_h2 *h, uint32_t stream, const struct as_http_answer *a)
{
    struct as_h2_stream *s = h->dead ? NULL : as_h2_find(h, (int32_t)stream);
    nghttp2_data_provider body = {.source = {.ptr = s}, .read_callback = read_later};

    if (!s || s->answered || s->later)
        return;
    s->later = calloc(1, sizeof(*s->later));
    if (!s->later) {
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    s->later->s = s;
    as_list_init(&s->later->drained);
    if (as_h2_submit(h, s, a, &body))
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
}

/* Room for one piece more, behind those that wait. */
static bool make_room(struct as_h2_later *l)
{
    struct as_http_piece *more;
    uint32_t cap = l->cap ? 2 * l->cap : PIECES_FIRST;

    if (l->n < l->cap)
        return true;
    if (l->first > l->cap / 2) {
        memmove(l->pieces, l->pieces + l->first, (l->n - l->first) * sizeof(*l->pieces));
        l->n -= l->first;
        l->first = 0;
        return true;
    }
    more = realloc(l->pieces, cap * sizeof(*more));
    if (!more)
        return false;
    l->pieces = more;
    l->cap = cap;
    return true;
}

void as_h2_write(struct as_h2 *h, uint32_t stream, const struct as_http_piece *piece)
{
    struct as_h2_stream *s = find(h, stream);

    AS_ASSERT(piece->owner);
    if (!s || !piece->n)
        return;
    if (!make_room(s->later)) {
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    s->later->pieces[s->later->n++] = *piece;
    as_blob_ref(piece->owner);
    s->body_left += piece->n;
    wake(h, s);
}

void as_h2_finish(struct as_h2 *h, uint32_t stream, const struct as_http_header *trailers,
                  uint32_t n_trailers)
{
    struct as_h2_stream *s = find(h, stream);

    if (!s)
        return;
    s->answered = true;
    s->later->finished = true;
    as_h2_note_early(h, s);
    if (n_trailers && !as_h2_keep_trailers(s, trailers, n_trailers)) {
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    wake(h, s);
}

void as_h2_later_append(struct as_h2 *h, struct as_h2_stream *s, size_t n)
{
    struct as_h2_later *l = s->later;
    bool was_high = s->body_left > AS_H2_LOW;

    s->body_left -= n;
    s->body_sent += n;
    while (n) {
        struct as_http_piece *piece = &l->pieces[l->first];
        size_t take = AS_MIN(n, piece->n - l->at);

        as_http_append_piece(h->q, piece, l->at, take);
        n -= take;
        l->at += take;
        if (l->at == piece->n) {
            as_blob_unref(piece->owner);
            l->first++;
            l->at = 0;
        }
    }
    if (l->first == l->n)
        l->first = l->n = 0;
    if (!l->finished && (was_high || !s->body_left) && s->body_left <= AS_H2_LOW &&
        as_list_empty(&l->drained))
        as_list_push(&h->drained, &l->drained);
}

void as_h2_later_tell(struct as_h2 *h)
{
    struct as_list due, *n;

    /* who writes more in the callback and sees it sent is told by the next as_h2_send */
    as_list_init(&due);
    while ((n = as_list_pop(&h->drained)))
        as_list_push(&due, n);
    while ((n = as_list_pop(&due))) {
        struct as_h2_stream *s = AS_LIST_ENTRY(n, struct as_h2_later, drained)->s;

        if (s->req && !s->answered)
            h->ops->on_drained(h->conn, s->req);
    }
}

void as_h2_later_free(struct as_h2_stream *s)
{
    struct as_h2_later *l = s->later;

    as_list_remove(&l->drained);
    for (uint32_t i = l->first; i < l->n; i++)
        as_blob_unref(l->pieces[i].owner);
    free(l->pieces);
    free(l);
    s->later = NULL;
}
