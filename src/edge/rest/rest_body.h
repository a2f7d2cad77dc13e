/* edge/rest/rest_body.h — the body of a plain HTTP request, from its head to the handler.
 *
 * What the head says (content-length, content-encoding) decides: a declared length is checked
 * against --max-http-body-bytes. Room is made, and charged, as bytes come: of a declared length in
 * the steps of base/memory/blob.h, else twice what there is. Small bodies lie in the arena, others
 * in x->blob. Compressed ones are inflated (edge/exchange/compress) once they are complete. Thread:
 * the loop's.
 */
#ifndef AS_EDGE_REST_BODY_H
#define AS_EDGE_REST_BODY_H

#include "edge/exchange/exchange.h"

/* Bytes behind a body that may be read and are zero: what a JSON reader that takes 64 bytes at a
 * time needs. */
#define AS_REST_BODY_PAD 64u

/* The declared length; false: there is none. */
bool as_rest_body_length(const struct as_exchange *x, uint64_t *ret_n);
/* The head has come. `wanted`: else the body is read and forgotten. May refuse. */
void as_rest_body_begin(struct as_exchange *x, bool wanted);
void as_rest_body_receive(struct as_exchange *x, const uint8_t *p, size_t n);
/* The client has sent all of it: `done` when it is inflated; not when it was refused. */
void as_rest_body_end(struct as_exchange *x, void (*done)(struct as_exchange *x));

#endif
