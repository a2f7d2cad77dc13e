/* edge/exchange/cors.h — cross-origin requests of web pages (the CORS protocol of the Fetch
 * standard, https://fetch.spec.whatwg.org/#http-cors-protocol), on the clients' interface.
 *
 * For the origins of --cors-origin the server answers every preflight, and adds
 * Access-Control-Allow-Origin to every answer of plain HTTP. For other origins nothing changes, and
 * browsers keep answers from their pages. Credentials are not allowed. A preflight lets a page send
 * what it otherwise could not, content-type application/grpc among it; therefore a gRPC call with
 * an Origin is checked as a change of the server (edge/exchange/access.h). Nothing is allocated.
 * Thread: the loop's.
 */
#ifndef AS_EDGE_CORS_H
#define AS_EDGE_CORS_H

#include "edge/exchange/exchange.h"

/* The request is a preflight of an origin that is listed. It has no credentials, so none are asked
 * for. */
bool as_cors_is_preflight(const struct as_edge *e, const struct as_http_head *head);
/* Fills in the fields of its answer, 204, that as_cors_put does not add, and returns their number.
 * Their values are the request's, or are in `text`. */
#define AS_CORS_PREFLIGHT 3u
#define AS_CORS_TEXT      24u
uint32_t as_cors_put_preflight(const struct as_edge *e, const struct as_http_head *head,
                               struct as_http_header ret_fields[AS_CORS_PREFLIGHT],
                               char text[AS_CORS_TEXT]);

/* Writes at most AS_CORS_FIELDS fields behind those that an answer to the request has, and counts
 * them in *n: vary, since the answer is another one for another origin, and, for an origin that is
 * listed, those that let its page read the answer. Without --cors-origin nothing. */
#define AS_CORS_FIELDS 3u
void as_cors_put(const struct as_edge *e, const struct as_http_head *head,
                 struct as_http_header *fields, uint32_t *n);

/* A preflight may have let a web page send this request: --cors-origin is set, and the request has
 * an Origin. */
bool as_cors_may_be_page(const struct as_edge *e, const struct as_http_head *head);

#endif
