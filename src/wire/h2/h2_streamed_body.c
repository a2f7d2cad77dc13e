/* Answers whose body comes over time: written pieces wait here for the client's windows. */
#include "base/err.h"
#include "wire/h2/h2_internal.h"

/* The stream, if it has an open answer that is not finished; else NULL. */
static struct as_h2_stream *find_open_answer(struct as_h2 *h, uint32_t stream)
{
    struct as_h2_stream *s = h->dead ? NULL : as_h2_find_stream(h, (int32_t)stream);

    return s && s->streamed && !s->answered ? s : NULL;
}

/* Makes nghttp2 ask again for a body that had no bytes when it asked. */
static void resume_body(struct as_h2 *h, struct as_h2_stream *s)
{
    if (!s->streamed->is_deferred)
        return;
    s->streamed->is_deferred = false;
    /* Out of memory: nghttp2 would never ask for the rest. */
    if (nghttp2_is_fatal(nghttp2_session_resume_data(h->session, (int32_t)s->id)))
        h->dead = true;
}

void as_h2_begin(struct as_h2 *h, uint32_t stream, const struct as_http_answer *a)
{
    struct as_h2_stream *s = h->dead ? NULL : as_h2_find_stream(h, (int32_t)stream);

    if (!s || s->answered || s->streamed)
        return;
    s->streamed = calloc(1, sizeof(*s->streamed));
    if (!s->streamed) {
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    s->streamed->s = s;
    as_list_init(&s->streamed->drained);
    if (as_h2_submit_answer(h, s, a, true))
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
}

void as_h2_write(struct as_h2 *h, uint32_t stream, const struct as_http_piece *piece)
{
    struct as_h2_stream *s = find_open_answer(h, stream);

    AS_ASSERT(piece->owner);
    if (!s || !piece->n)
        return;
    if (!as_http_pieces_reserve(&s->streamed->pieces, 1, NULL)) {
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    s->streamed->pieces.p[s->streamed->pieces.n++] = *piece;
    as_blob_ref(piece->owner);
    s->body_left += piece->n;
    resume_body(h, s);
}

void as_h2_finish(struct as_h2 *h, uint32_t stream, const struct as_http_header *trailers,
                  uint32_t n_trailers)
{
    struct as_h2_stream *s = find_open_answer(h, stream);

    if (!s)
        return;
    s->answered = true;
    s->streamed->finished = true;
    as_h2_mark_early(h, s);
    if (n_trailers && !as_h2_copy_trailers(s, trailers, n_trailers)) {
        as_h2_reset(h, stream, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    resume_body(h, s);
}

void as_h2_streamed_body_append(struct as_h2 *h, struct as_h2_stream *s, size_t n)
{
    struct as_h2_streamed_body *l = s->streamed;
    bool was_high = s->body_left > AS_H2_LOW_WATER;

    s->body_left -= n;
    s->body_sent += n;
    as_http_pieces_send(&l->pieces, h->q, n, true);
    if (!l->finished && (was_high || !s->body_left) && s->body_left <= AS_H2_LOW_WATER &&
        as_list_empty(&l->drained))
        as_list_push(&h->drained, &l->drained);
}

void as_h2_streamed_body_notify(struct as_h2 *h)
{
    struct as_list due, *n;

    /* an owner that writes more in the callback, and whose bytes are sent at once, is notified by
     * the next as_h2_send */
    as_list_init(&due);
    while ((n = as_list_pop(&h->drained)))
        as_list_push(&due, n);
    while ((n = as_list_pop(&due))) {
        struct as_h2_stream *s = AS_LIST_ENTRY(n, struct as_h2_streamed_body, drained)->s;

        if (s->req && !s->answered)
            h->ops->on_drained(h->conn, s->req);
    }
}

void as_h2_streamed_body_free(struct as_h2_stream *s)
{
    struct as_h2_streamed_body *l = s->streamed;

    as_list_remove(&l->drained);
    as_http_pieces_drop(&l->pieces, true);
    free(l->pieces.p);
    free(l);
    s->streamed = NULL;
}
