/* wire/http/sse.h — server-sent events as a client reads them: the data of one event after the
 * other.
 *
 * Lines end with CR, LF or both; an empty line ends an event; a byte order mark is passed over.
 * Fields other than `data` (event, id, retry) and comments are read and dropped: the protocol's
 * streams have none. Source: WHATWG HTML, 9.2.5 and 9.2.6. The server's bytes are hostile. Pure.
 */
#ifndef AS_WIRE_SSE_H
#define AS_WIRE_SSE_H

#include "base/buf.h"

struct as_sse { /* zero-initialised */
    uint8_t state;
    uint8_t n_mark;  /* bytes of the byte order mark so far */
    uint8_t n_field; /* bytes of a field's name, at most those that tell `data` from others */
    bool begun;      /* bytes have come that are not of the mark */
    bool after_cr;   /* an LF would belong to the line that has ended */
    bool has_data;   /* of the event that is being read */
    char field[4];
};

enum as_sse_result {
    AS_SSE_MORE,   /* all bytes are read */
    AS_SSE_EVENT,  /* `data` is that of an event; the caller empties it before the next read */
    AS_SSE_TOO_BIG /* the event has more than `limit` bytes; the reader is of no use any more */
};
/* Takes bytes off *p and *n, and appends to `data`. */
enum as_sse_result as_sse_read(struct as_sse *s, const uint8_t **p, size_t *n, struct as_buf *data,
                               size_t limit);
/* Between two events: nothing is lost when the stream ends here. */
bool as_sse_at_boundary(const struct as_sse *s);

#endif
