#include "wire/h2/h2_closed_streams.h"

enum { HEADERS = 1, RST_STREAM = 3 };

/* The word and the bit of a stream in both bitmaps. */
static uint32_t word_of(uint32_t i)
{
    return i % AS_H2_CLOSED_STREAMS_IDS / 64;
}

static uint64_t bit_of(uint32_t i)
{
    return (uint64_t)1 << i % 64;
}

/* Opens a stream: lower ids that were not used are closed from now on (RFC 9113 §5.1.1). */
static void open_stream(struct as_h2_closed_streams *s, uint32_t i)
{
    if (i - s->next >= AS_H2_CLOSED_STREAMS_IDS) /* everything that is recorded is older */
        s->next = i - AS_H2_CLOSED_STREAMS_IDS + 1;
    for (; s->next < i; s->next++) {
        s->ended[word_of(s->next)] &= ~bit_of(s->next);
        s->passed[word_of(s->next)] |= bit_of(s->next);
    }
    s->ended[word_of(i)] &= ~bit_of(i);
    s->passed[word_of(i)] &= ~bit_of(i);
    s->next = i + 1;
}

uint32_t as_h2_closed_streams_check(struct as_h2_closed_streams *s, uint8_t type, bool end_stream,
                                    uint32_t stream)
{
    uint32_t i = stream / 2;

    if (stream % 2 == 0) /* stream 0, or a stream of the server: nghttp2 handles the error */
        return 0;
    if (i >= s->next) {
        if (type != HEADERS) /* of an idle stream: nghttp2 handles the error */
            return 0;
        open_stream(s, i);
    } else if (s->next - i > AS_H2_CLOSED_STREAMS_IDS) {
        return 0;
    } else if (type != RST_STREAM) {
        if (s->passed[word_of(i)] & bit_of(i))
            return AS_H2_CODE_PROTOCOL;
        if (s->ended[word_of(i)] & bit_of(i))
            return AS_H2_CODE_CLOSED;
    }
    if (type == RST_STREAM || end_stream)
        s->ended[word_of(i)] |= bit_of(i);
    return 0;
}
