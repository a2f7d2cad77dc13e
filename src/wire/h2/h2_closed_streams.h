/* wire/h2/h2_closed_streams.h — what a client has done with the streams of one connection so far.
 *
 * nghttp2 ignores DATA and HEADERS of a stream that is gone, since it cannot know whether the
 * client has heard of its end. Where the client itself has ended the stream, there is no doubt:
 * this remembers it for the newest AS_H2_CLOSED_STREAMS_IDS streams, and which ids were passed
 * over. Of older streams nothing is claimed. Knows nothing of nghttp2 and of streams that the
 * server has ended. Source: RFC 9113 §5.1 (states), §5.1.1 (ids). Thread: that of the connection.
 */
#ifndef AS_WIRE_H2_PAST_H
#define AS_WIRE_H2_PAST_H

#include "base/defs.h"

#define AS_H2_CLOSED_STREAMS_IDS 1024u

enum { AS_H2_CODE_PROTOCOL = 0x1, AS_H2_CODE_CLOSED = 0x5 }; /* RFC 9113 §7 */

struct as_h2_closed_streams { /* all 0: nothing has happened */
    uint32_t next; /* ids are counted from 0 for the client's 1, 3, 5 …; one above the highest */
    uint64_t ended[AS_H2_CLOSED_STREAMS_IDS / 64];  /* by END_STREAM or RST_STREAM of the client */
    uint64_t passed[AS_H2_CLOSED_STREAMS_IDS / 64]; /* never used, and too late now */
};

/* Takes note of a frame of type DATA, HEADERS or RST_STREAM. 0, or the code of the connection error
 * that the frame is: the stream was ended by the client (CLOSED), or passed over (PROTOCOL). */
uint32_t as_h2_closed_streams_check(struct as_h2_closed_streams *s, uint8_t type, bool end_stream,
                                    uint32_t stream);

#endif
