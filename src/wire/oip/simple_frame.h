/* wire/oip/simple_frame.h — the simple worker protocol: a message after its length, both ways.
 *
 *   dispatcher: [4 bytes, big-endian: n][n bytes: inference.ModelInferRequest]
 *   worker:     [4 bytes, big-endian: n][n bytes: inference.ModelInferResponse]
 *
 * docs/protocol/simple-worker.md is the specification. The bytes of a worker are untrusted. Pure.
 */
#ifndef AS_WIRE_SIMPLE_FRAME_H
#define AS_WIRE_SIMPLE_FRAME_H

#include "base/memory/outq.h"
#include "wire/oip/oip.h"

#define AS_SIMPLE_FRAME_HEAD 4u

/* Appends a request. Tensors larger than AS_COPY_MAX are referenced if `owner` is given (they lie
 * in it); everything else is copied. 0, or AS_ETOOBIG with nothing written: the message would have
 * more than 2^31-1 bytes. */
int as_simple_frame_put(struct as_outq *q, const struct as_oip_request *r, struct as_blob *owner);

/* Receives an answer, in pieces of any size. Zero-initialise. */
struct as_simple_frame_rx {
    uint8_t head[AS_SIMPLE_FRAME_HEAD];
    uint32_t n_head;          /* bytes of the head that have come */
    size_t n, n_received;     /* size of the message, and bytes of it that have come */
    struct as_blob *blob;     /* holds the message; NULL: it has not begun */
    struct as_account *payer; /* set by the caller: pays for the blob; NULL: nobody pays */
};

/* Processes received bytes, which begin with the next bytes of the answer. 1: the answer is
 * complete; *ret_message lies in p if everything except the head was in p, else in rx->blob;
 * *ret_rest bytes at the end of p are not part of it. 0: more bytes are needed. AS_EPROTO: a length
 * of 0; AS_ETOOBIG: larger than `max`; AS_EFULL, AS_ENOMEM: no room for it. */
int as_simple_frame_receive(struct as_simple_frame_rx *rx, const uint8_t *p, size_t n, uint64_t max,
                            struct as_str *ret_message, size_t *ret_rest);
/* The buffer for the rest of a message that has begun, to read into without a copy; NULL: use
 * as_simple_frame_receive. */
uint8_t *as_simple_frame_buffer(const struct as_simple_frame_rx *rx, size_t *ret_n);
/* n bytes, at most the size of that buffer, were read into it. 1: the answer is complete, 0: not
 * yet; AS_EFULL, AS_ENOMEM. */
int as_simple_frame_received(struct as_simple_frame_rx *rx, size_t n, struct as_str *ret_message);
/* True: a byte of an answer has come. */
static inline bool as_simple_frame_begun(const struct as_simple_frame_rx *rx)
{
    return rx->n_head > 0;
}
/* Prepares for the next answer, without an account. Drops the blob, unless the caller has taken it
 * and set it to NULL. */
void as_simple_frame_reset(struct as_simple_frame_rx *rx);

/* A parsed answer. */
struct as_simple_answer {
    uint32_t status;       /* 0: `r` has the outputs; else a gRPC status, 1 … 16 */
    struct as_str message; /* the text of an error; UTF-8 */
    bool has_id;           /* the answer has the id of the request */
    struct as_oip_response r;
};

/* `id`: the id of the request; the answer has the same id or none. Slices point into the message
 * and the arena. 0, AS_EPROTO or AS_ENOMEM with a line in `why`: it is not a ModelInferResponse
 * (see as_oip_parse_response), has another id, is an error with outputs or with an unknown status,
 * or has model, version or id twice. The latter is valid protobuf, but no encoder writes it, and it
 * can hide an error: if a worker sends a part of an earlier answer again, and then the right
 * answer, both are read as one message of the length that the part gives. Its last id is right, and
 * it may end without an output. */
int as_simple_frame_parse(struct as_str message, struct as_str id, struct as_arena *a,
                          struct as_simple_answer *ret_a, char *why, size_t cap);

#endif
