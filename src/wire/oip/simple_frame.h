/* wire/oip/simple_frame.h — the simple worker protocol: one message behind its length, both ways.
 *
 *   dispatcher: [4 bytes, big-endian: n][n bytes: inference.ModelInferRequest]
 *   worker:     [4 bytes, big-endian: n][n bytes: inference.ModelInferResponse]
 *
 * The specification is docs/PROTOCOL.md. What a worker sends is hostile. Pure.
 */
#ifndef AS_WIRE_SIMPLE_FRAME_H
#define AS_WIRE_SIMPLE_FRAME_H

#include "base/memory/outq.h"
#include "wire/oip/oip.h"

#define AS_SIMPLE_FRAME_HEAD 4u

/* Appends a request. Tensors over AS_COPY_MAX are referenced when `owner` is given (they lie in
 * it), the rest is copied. 0, or AS_ETOOBIG with nothing written: the message would be over 2^31-1
 * bytes. */
int as_simple_frame_put(struct as_outq *q, const struct as_oip_request *r, struct as_blob *owner);

/* An answer as its bytes come. Zeros are the beginning. */
struct as_simple_frame_rx {
    uint8_t head[AS_SIMPLE_FRAME_HEAD];
    uint32_t n_head;          /* bytes of it that have come */
    size_t n, n_received;     /* of the message, once the head is there */
    struct as_blob *blob;     /* for n bytes, with room for the next; NULL: it has not begun */
    struct as_account *payer; /* the caller's to set; NULL: nobody pays for the blob */
};

/* Takes bytes of which the first belong to the answer. 1: the answer is complete; *ret_message lies
 * in p when all of it but the head was there, else in rx->blob; *ret_rest bytes at the end of p are
 * not its own. 0: more are needed. AS_EPROTO: a length of 0; AS_ETOOBIG: over `max`; AS_EFULL,
 * AS_ENOMEM: no room for it. */
int as_simple_frame_receive(struct as_simple_frame_rx *rx, const uint8_t *p, size_t n, uint64_t max,
                            struct as_str *ret_message, size_t *ret_rest);
/* Where the rest of a message that has begun can be read to, without a copy; NULL: use _take. */
uint8_t *as_simple_frame_buffer(const struct as_simple_frame_rx *rx, size_t *ret_n);
/* So many bytes, at most the room, were put there. 1: complete, 0: not yet; AS_EFULL, AS_ENOMEM. */
int as_simple_frame_received(struct as_simple_frame_rx *rx, size_t n, struct as_str *ret_message);
/* Has any byte of an answer come? */
static inline bool as_simple_frame_begun(const struct as_simple_frame_rx *rx)
{
    return rx->n_head > 0;
}
/* The next answer, and nobody pays. The blob is let go, or given to the caller before by setting it
 * to NULL. */
void as_simple_frame_reset(struct as_simple_frame_rx *rx);

/* What a message says. */
struct as_simple_answer {
    uint32_t status;       /* 0: `r` has the outputs; else a gRPC status, 1 … 16 */
    struct as_str message; /* of an error; UTF-8 */
    bool has_id;           /* it repeated the id of the request */
    struct as_oip_response r;
};

/* `id`: of the request; an answer has it, or none. Slices point into the message and the arena.
 * 0, AS_EPROTO or AS_ENOMEM with a line in `why`: not a ModelInferResponse (as
 * as_oip_parse_response says), another id, an error with outputs or with an unknown status; model,
 * version or id twice. The latter is protobuf, but nobody writes it. A part of an earlier answer
 * that a worker sends again, and then the right answer, are one message of the length that the part
 * says: its last id is right, and it may end behind it, without an output. */
int as_simple_frame_parse(struct as_str message, struct as_str id, struct as_arena *a,
                          struct as_simple_answer *ret_a, char *why, size_t cap);

#endif
