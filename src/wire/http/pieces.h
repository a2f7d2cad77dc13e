/* wire/http/pieces.h — the pieces of one answer that wait to be sent, for h1 and h2.
 *
 * Pieces of a streamed answer are owned: they hold a reference to their blob until they are sent.
 * Those of other answers are valid until on_close. Thread: that of the connection.
 */
#ifndef AS_WIRE_HTTP_PIECES_H
#define AS_WIRE_HTTP_PIECES_H

#include "wire/http/http.h"

struct as_http_pieces {
    struct as_http_piece *p; /* p[first … n) are not sent */
    uint32_t first, n, cap;
    size_t at; /* bytes of the first piece that are sent */
};

/* Makes room for `more` pieces behind the last one. p may have been `fixed`, which is not freed.
 * False: out of memory. */
bool as_http_pieces_reserve(struct as_http_pieces *q, uint32_t more,
                            const struct as_http_piece *fixed);
/* Appends the next n bytes to `out`; there are that many. */
void as_http_pieces_send(struct as_http_pieces *q, struct as_outq *out, size_t n, bool owned);
/* Drops all pieces; the memory at p is kept. */
void as_http_pieces_drop(struct as_http_pieces *q, bool owned);

#endif
