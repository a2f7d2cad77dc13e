/* anyserve/http.h — requests of HTTP in a worker: a part of anyserve/worker.h, which includes it.
 *
 * A model with `opaque` and `http` gets, beside calls, what clients send over HTTP below the route
 * of its application. The server has parsed and checked the request; the worker gets its head and
 * its body, and gives the head and the body of the answer. Bodies stream in both directions, and
 * whoever sends waits for whoever reads.
 *
 * These requests are for workers that use the library step by step: as_worker_next returns one, for
 * which as_worker_req_http is not NULL. as_worker_answer, as_worker_part and as_worker_next_input
 * are not for it. It ends by an answer with `last`, by as_worker_finish or by as_worker_fail. If it
 * fails before its answer has begun, the client gets 500 (503 for RESOURCE_EXHAUSTED and
 * UNAVAILABLE); after that its connection or stream is reset.
 *
 * Threads: any, but not two at once for one request and one direction.
 */
#ifndef ANYSERVE_HTTP_H
#define ANYSERVE_HTTP_H

#ifdef __cplusplus
extern "C" {
#endif

#define AS_WORKER_HTTP_INLINE 65536u /* most bytes of a body that come with its head */

/* The head of a request. Its bytes are valid until as_worker_http_drop_head, or the end of the
 * request. */
struct as_worker_http {
    uint32_t version; /* of HTTP: 10, 11 or 20 */
    bool whole;       /* `body` is the whole body */
    bool websocket;   /* the request opens a websocket, and has no body */
    struct as_str id; /* request id, UTF-8; may be empty */
    /* path: as sent, percent-encoded; query: what follows the question mark. root_path: the prefix
     * of the route, with which path begins, without a slash at its end; may be empty. */
    struct as_str method, scheme, authority, path, query, root_path;
    struct as_str peer, server;   /* "ADDRESS:PORT" of the client, and where it connected */
    const struct as_meta *fields; /* in their order; names in lower case; values are any bytes */
    uint32_t n_fields;
    struct as_str body; /* the first bytes of the body */
};
/* NULL: it is no request of HTTP, or its head was dropped. */
const struct as_worker_http *as_worker_req_http(const struct as_worker_req *q);
/* Frees the memory of the head, which lies in a large buffer that others may share: for requests
 * that last. */
void as_worker_http_drop_head(struct as_worker *w, struct as_worker_req *q);

/* The next bytes of the body, beyond those of the head. 0: *ret_bytes, which are valid until
 * as_worker_release_hold(*ret_hold). AS_EAGAIN: none now (as_worker_want with AS_WANT_INPUT,
 * as_worker_await_input); AS_EOF: the body has ended; AS_ECANCELLED: nobody waits for the answer.
 */
int as_worker_http_read(struct as_worker *w, struct as_worker_req *q, struct as_str *ret_bytes,
                        void **ret_hold);

/* Begins the answer, once. status: 101 … 999; the server checks the fields, and adds what the
 * client's version of HTTP needs. It takes the first bytes of the body, if there are any. Returns
 * how many: those are copied, and the rest is for as_worker_http_write. `last`: the answer ends
 * with these bytes; if all of them were taken, q is freed. AS_ECANCELLED: nobody waits for the
 * answer; AS_EINVALID: the status, or the answer has begun; AS_ETOOBIG: there are more fields than
 * a frame takes (1,024; 512 KiB). q stays the caller's after an error. */
int64_t as_worker_http_answer(struct as_worker *w, struct as_worker_req *q, uint32_t status,
                              const struct as_meta *fields, uint32_t n_fields, struct as_str body,
                              bool last);
/* Further bytes of the answer's body; results as above. 0 for a body that is not empty: there is no
 * room now (as_worker_want with AS_WANT_ROOM, as_worker_await_room). */
int64_t as_worker_http_write(struct as_worker *w, struct as_worker_req *q, struct as_str body,
                             bool last);

#ifdef __cplusplus
}
#endif

#endif
