/* edge/service/service.h — gRPC services of the user: a method of one becomes a call of the ingress
 * deployment of an application.
 *
 * The registry's snapshot says which deployments serve a method; the metadata `application` chooses
 * among them. The message goes to the worker as it came, and the answer's messages come back so:
 * nothing is parsed here. What a call and its answer look like: docs/protocol/link.md, section 18.
 * service.c: the request; service_answer.c: what came back; service_stream.c: methods with more
 * than one message in either direction. Thread: the edge's loop.
 */
#ifndef AS_EDGE_SERVICE_H
#define AS_EDGE_SERVICE_H

#include "edge/exchange/exchange.h"
#include "wire/frame/body.h"

/* The head of either kind was received: whether its API key may use the application. */
bool as_service_check(struct as_exchange *x);
/* Methods with one message in each direction: the message is complete. */
void as_service_call(struct as_exchange *x);
/* Other methods: the head was received. */
void as_service_open(struct as_exchange *x);

/* ray.serve.RayServeAPIService: what clients of Ray Serve ask. */
void as_service_healthz(struct as_exchange *x);
void as_service_list_applications(struct as_exchange *x);

/* --- between the files of this room --- */

/* The call's target and metadata; the body is the caller's. Chooses the application. *ret_method:
 * valid as long as x. False: the request was failed. */
bool as_service_prepare(struct as_exchange *x, struct as_body *body,
                        const struct as_service_method **ret_method);
void as_service_submit(struct as_exchange *x);

/* The message and the status in the body of an answer. */
struct as_service_answer {
    struct as_str message;
    bool has_status;                       /* the rest is set */
    uint32_t status;                       /* 0 … 16 */
    const struct as_http_header *trailers; /* grpc-status first; in the exchange's arena */
    uint32_t n_trailers;
    bool has_encoding; /* the handler has chosen how the message is compressed */
    enum as_gzip_format encoding;
};
/* Reads a body that was checked. False: the request was failed, since it is none of such a call. */
bool as_service_read_answer(struct as_exchange *x, const struct as_payload *p,
                            struct as_service_answer *ret_a);
/* The call has ended with an error. */
void as_service_send_error(struct as_exchange *x);

#endif
