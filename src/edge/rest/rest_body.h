/* edge/rest/rest_body.h — receives the body of a plain HTTP request.
 *
 * A declared length is checked against --max-http-body-bytes. Memory is reserved, and charged, as
 * bytes are received: for a declared length in the steps of base/memory/blob.h, otherwise by
 * doubling. Small bodies lie in the arena, others in x->body.blob. Compressed bodies are inflated
 * (edge/exchange/compress.h) when they are complete. Thread: the loop's.
 */
#ifndef AS_EDGE_REST_BODY_H
#define AS_EDGE_REST_BODY_H

#include "edge/exchange/exchange.h"

/* Zero bytes behind a body, for the JSON parser, which reads 64 bytes at a time. */
#define AS_REST_BODY_PAD 64u

/* The declared length. False: there is none. */
bool as_rest_body_length(const struct as_exchange *x, uint64_t *ret_n);
/* The head was received. wanted: false if the body is to be discarded. May fail the request. */
void as_rest_body_begin(struct as_exchange *x, bool wanted);
void as_rest_body_receive(struct as_exchange *x, const uint8_t *p, size_t n);
/* The client has sent all of it: calls `done` once the body is inflated, or fails the request. */
void as_rest_body_end(struct as_exchange *x, void (*done)(struct as_exchange *x));

#endif
