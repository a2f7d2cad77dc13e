#include "wire/http/pieces.h"

#define CAP_FIRST 8u

bool as_http_pieces_reserve(struct as_http_pieces *q, uint32_t more,
                            const struct as_http_piece *fixed)
{
    uint32_t left = q->n - q->first, cap = AS_MAX(AS_MAX(2 * q->cap, left + more), CAP_FIRST);
    struct as_http_piece *p = q->p, *old = NULL;

    if (more <= q->cap - q->n)
        return true;
    if (q->first <= q->cap / 2 || left + more > q->cap) {
        p = malloc(cap * sizeof(*p));
        if (!p)
            return false;
        old = q->p;
        q->cap = cap;
    }
    if (left)
        memmove(p, q->p + q->first, left * sizeof(*p));
    if (old != fixed)
        free(old);
    q->p = p;
    q->n = left;
    q->first = 0;
    return true;
}

void as_http_pieces_send(struct as_http_pieces *q, struct as_outq *out, size_t n, bool owned)
{
    while (n) {
        const struct as_http_piece *piece = &q->p[q->first];
        size_t k = AS_MIN(n, piece->n - q->at);

        as_http_append_piece(out, piece, q->at, k);
        n -= k;
        q->at += k;
        if (q->at < piece->n)
            continue;
        if (owned)
            as_blob_unref(piece->owner);
        q->first++;
        q->at = 0;
    }
    if (q->first == q->n)
        q->first = q->n = 0;
}

void as_http_pieces_drop(struct as_http_pieces *q, bool owned)
{
    for (uint32_t i = q->first; owned && i < q->n; i++)
        as_blob_unref(q->p[i].owner);
    q->first = q->n = 0;
    q->at = 0;
}
