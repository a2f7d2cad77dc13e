/* wire/http/sse.h — reads server-sent events as a client: the data of one event after the other.
 *
 * Lines end with CR, LF or both; an empty line ends an event; a byte order mark at the start is
 * skipped. Fields other than `data` (event, id, retry) and comments are read and dropped, because
 * the streams of the protocol have none. Source: WHATWG HTML, 9.2.5 and 9.2.6. The bytes are
 * untrusted. Pure.
 */
#ifndef AS_WIRE_SSE_H
#define AS_WIRE_SSE_H

#include "base/buf.h"

struct as_sse { /* zero-initialised */
    uint8_t state;
    uint8_t n_mark;  /* bytes of the byte order mark that have come */
    uint8_t n_field; /* bytes of the field's name in `field` */
    bool begun;      /* bytes other than the mark have come */
    bool after_cr;   /* the last byte was a CR: an LF now belongs to the same line end */
    bool has_data;   /* the event that is being read has a data line */
    char field[4];
};

enum as_sse_result {
    AS_SSE_MORE,   /* all bytes are consumed */
    AS_SSE_EVENT,  /* `data` holds an event; the caller empties it before the next read */
    AS_SSE_TOO_BIG /* the event has more than `limit` bytes; the reader must not be used any more */
};
/* Consumes bytes at *p, *n, and appends the data to `data`. */
enum as_sse_result as_sse_read(struct as_sse *s, const uint8_t **p, size_t *n, struct as_buf *data,
                               size_t limit);
/* The reader is between two events: if the stream ends here, no event is lost. */
bool as_sse_at_boundary(const struct as_sse *s);

#endif
