/* edge/rest/rest.h — plain HTTP requests: which handler answers which path, and how it answers.
 *
 * A resource is a row per method in its interface's table (rest_routes.c); everything else follows
 * from it: 404 for paths without a row, 405 with Allow, OPTIONS, HEAD wherever there is GET, what
 * is counted by route, and the OpenAPI document. Rows of one path stand together; of two patterns
 * that fit a path, the first counts. A handler is called once, when the body is there, whole and
 * inflated, in x->body (AS_REST_BODY_PAD zeros behind it), and answers now or later, on the same
 * loop: as_rest_send, as_rest_json   with any status and body as_exchange_fail {"error": …} with
 * the status of base/err.h as_infer_begin               a request to a model as_rest_mark_answered,
 * as_conn_begin …   an answer over time Thread: the loop's.
 */
#ifndef AS_EDGE_REST_H
#define AS_EDGE_REST_H

#include "edge/exchange/exchange.h"
#include "wire/json/json.h"

/* `m` is x->rest, with variables decoded: it lives as long as the client's stream. */
typedef void (*as_rest_handler)(struct as_exchange *x, const struct as_rest_match *m);

/* What the OpenAPI document says of a row. Schemas are named in openapi.c. */
struct as_rest_doc {
    const char *id; /* operationId */
    const char *summary;
    const char *request;  /* schema of a JSON body; NULL: none */
    const char *response; /* schema of the answer with 200 */
    const char *statuses; /* others that it may have, "400,404,503"; 405 and 408 need no mention */
};

#define AS_REST_BODY 0x1u /* it has a body; else one is read and forgotten */
#define AS_REST_CHANGES                                                                            \
    0x2u /* at the clients' interface: changes something of the server, edge/conn/access.h */

#define AS_REST_OPTIONAL 0x4u /* for the document: an empty body will do */

struct as_rest_route {
    const char *method; /* "GET": HEAD too; "POST" */
    const char *path;   /* pattern of edge/rest/route.h */
    as_rest_handler handle;
    enum as_resource label; /* in metrics */
    uint32_t flags;         /* AS_REST_… */
    struct as_rest_doc doc;
};

struct as_rest_table {
    const struct as_rest_route *rows;
    uint32_t n;
};
extern const struct as_rest_table as_rest_tables[AS_INTERFACES];

/* The first row of the path that `path` names (no query) at a interface, variables still encoded;
 * NULL: none. */
const struct as_rest_route *as_rest_find(enum as_interface interface, struct as_str path,
                                         struct as_rest_match *ret_m);

/* --- answers: each ends the exchange's part, as those of edge/exchange/exchange.h --- */

#define AS_REST_EXTRA 4u /* headers of one's own */

struct as_rest_reply {
    uint32_t status;
    struct as_str content_type; /* empty: application/json */
    const struct as_http_header *extra;
    uint32_t n_extra;
    /* As in wire/http/http.h: bytes in the arena, in the exchange's blobs, or with an owner. At
     * most AS_EXCHANGE_PIECES. content-length is added; compressed where --response-compression
     * says so and the client lists a coding of ours. */
    const struct as_http_piece *body;
    uint32_t n_body;
};
void as_rest_send(struct as_exchange *x, const struct as_rest_reply *r);
/* A JSON text, copied. */
void as_rest_json(struct as_exchange *x, uint32_t status, const struct as_buf *json);

/* An answer over time (as_conn_begin …) begins: true when somebody is there to hear it; the status
 * is counted, and the exchange is ANSWERED. */
bool as_rest_mark_answered(struct as_exchange *x, uint32_t status);

/* This loop's reader of JSON; NULL: answered. */
struct as_json *as_rest_json_reader(struct as_exchange *x, bool large);

/* A header of the request, by its name in lower case; empty where there is none. */
struct as_str as_rest_header(const struct as_exchange *x, const char *name);
uint32_t as_rest_count_header(const struct as_exchange *x,
                              const char *name); /* how many there are */

/* --- for the exchange --- */

/* The head of what is no gRPC call has come: what needs no body to be refused is refused. */
void as_rest_start(struct as_exchange *x);
/* Its body is complete. */
void as_rest_end(struct as_exchange *x);
#define AS_REST_DISCARD_MAX                                                                        \
    65536u /* bytes of a body that are read although its answer is known                           \
            */
/* An answer that waits for the rest of the request (x->deferred_reply) goes out. */
void as_rest_send_deferred(struct as_exchange *x);
/* {"error": message}; as_exchange_fail is for everybody else. */
void as_rest_fail(struct as_exchange *x, uint32_t status, struct as_str message,
                  const struct as_http_header *extra, uint32_t n_extra);
void as_rest_count_cancelled(
    struct as_exchange *x); /* the client left without an answer: counted */

#endif
