/* link/call/payload.h — what a request carries to a worker, and an answer back.
 *
 * The link encodes a payload, and the edge makes and reads it. Nothing else looks into it: queues,
 * routing, retries and statistics know the requests of core/queue, and ask here what they must know
 * of a body: which requests may share a batch, and which are equal. A payload owns nothing: its
 * bytes belong to whoever filled it in.
 */
#ifndef AS_LINK_PAYLOAD_H
#define AS_LINK_PAYLOAD_H

#include "core/protect/blame.h"
#include "wire/frame/frame_call.h"
#include "wire/frame/frame_http.h"

/* Whether the model takes batches, and which requests may share one. */
enum as_payload_batching { AS_PAYLOAD_UNBATCHED, AS_PAYLOAD_SAME_SHAPE, AS_PAYLOAD_RAGGED };

struct as_payload {
    /* AS_FRAME_CALL: `body`; AS_FRAME_HTTP: `http` and `body`, or in a stream `body` or `ws`; else
     * (also 0) the tensors of `msg` */
    enum as_frame_kind kind;
    uint32_t call_flags; /* of a request of kind AS_FRAME_CALL: AS_CALL_F_STREAM */
    struct as_str body;  /* of a call: the payload body (wire/frame/body.h), which was checked; of
                            HTTP: bytes of a body */
    /* Of a request or an input that a client of the server's protocols makes: the body is still to
     * be laid out of this, its data is `body`, and it has no buffers. NULL: `body` is whole. */
    const struct as_body *pieces;
    const struct as_frame_http_open *http; /* of a request of HTTP: all but its body */
    const struct as_frame_ws_message *ws;  /* of an input of a websocket: the message */
    struct as_msg msg; /* id, tensors, parameters, metadata; of a call only id and metadata */
    struct as_tensor_params tensor_params; /* of the tensors */
    struct as_blob *blob; /* holds the bytes of large tensors or of `body`; NULL: it is small */
    enum as_payload_batching batching; /* of a request */
};

/* Hash of everything that requests of one model must have in common to share a batch (calls have no
 * batches): names,
 * datatypes and shapes of the inputs (without the first dimension; ragged: without any), and all
 * parameters. Clients must not know the seed. */
uint64_t as_payload_batch_key(const struct as_payload *p, uint64_t seed);
/* Whether everything that as_payload_batch_key hashes is equal. False for calls. */
bool as_payload_can_batch(const struct as_payload *x, const struct as_payload *y);
/* The size of the tensors or of the body in bytes. */
uint64_t as_payload_size(const struct as_payload *p);
/* A cheap hash of what a handler sees: of each large tensor, and of the body of
 * a call, it reads only some bytes, at places that depend on the seed. Equal payloads have equal
 * hashes; others nearly always differ. */
uint64_t as_payload_sample(const struct as_payload *p, uint64_t seed);

/* The state of a fingerprint that is computed in several steps. */
struct as_payload_hasher {
    uint32_t tensor; /* index of the tensor that is being read … */
    size_t at;       /* … and how many of its bytes have been read */
    uint8_t state[640];
};
/* One step of the hash of all that a handler sees: names, datatypes, shapes, bytes and parameters,
 * without the id and the metadata (of a call: the body). Reads at most *bytes bytes of tensors and
 * subtracts what it read from *bytes. first: starts anew; else continues with the same payload.
 * True: *ret_p is complete.
 */
bool as_payload_fingerprint(struct as_payload_hasher *h, const struct as_payload *p, uint64_t seed,
                            bool first, uint64_t *bytes, struct as_fingerprint *ret_p);

#endif
