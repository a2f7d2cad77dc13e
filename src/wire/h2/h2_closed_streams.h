/* wire/h2/h2_closed_streams.h — which streams of one connection the client has ended or skipped.
 *
 * nghttp2 ignores DATA and HEADERS of a closed stream, since the client may not know yet that the
 * server has closed it. If the client itself has ended the stream, such a frame is an error. This
 * struct remembers, for the newest AS_H2_CLOSED_STREAMS_IDS streams, which of them the client has
 * ended and which stream ids it has skipped. Frames of older streams are accepted. Independent of
 * nghttp2; streams that the server has ended are not recorded.
 * Source: RFC 9113 §5.1 (states), §5.1.1 (ids). Thread: that of the connection.
 */
#ifndef AS_WIRE_H2_CLOSED_STREAMS_H
#define AS_WIRE_H2_CLOSED_STREAMS_H

#include "base/defs.h"

#define AS_H2_CLOSED_STREAMS_IDS 1024u

enum { AS_H2_CODE_PROTOCOL = 0x1, AS_H2_CODE_CLOSED = 0x5 }; /* error codes of RFC 9113 §7 */

struct as_h2_closed_streams { /* all 0: no stream was opened */
    uint32_t next; /* one above the highest index; index i is the client's stream 2 i + 1 */
    uint64_t ended[AS_H2_CLOSED_STREAMS_IDS / 64];  /* by the client: END_STREAM, RST_STREAM */
    uint64_t passed[AS_H2_CLOSED_STREAMS_IDS / 64]; /* skipped: a higher stream was opened first */
};

/* Records a frame of type DATA, HEADERS or RST_STREAM. 0, or the connection error that the frame
 * is: the client has ended the stream before (CLOSED), or skipped it (PROTOCOL). */
uint32_t as_h2_closed_streams_check(struct as_h2_closed_streams *s, uint8_t type, bool end_stream,
                                    uint32_t stream);

#endif
