/* edge/rest/rest.h — plain HTTP requests: routes, handlers and their answers.
 *
 * Each interface has a table of routes (edge/methods/rest_routes.c) with a row per path and method.
 * The rest follows from the rows: 404 for unknown paths, 405 with Allow, OPTIONS, HEAD wherever
 * there is GET, the metrics by resource, and the OpenAPI document. Rows of one path are adjacent;
 * if two patterns match a path, the first one counts.
 *
 * A handler is called once the body is complete and inflated: x->body.p, with AS_REST_BODY_PAD
 * zeros behind it. It answers now or later, on the same loop, by one of: as_rest_send, as_rest_json
 * any status and body as_exchange_fail             {"error": …} with the status of base/err.h
 *   as_infer_begin               a request to a model
 *   as_exchange_mark_answered, then as_conn_begin …   an answer in parts
 * Thread: the loop's.
 */
#ifndef AS_EDGE_REST_H
#define AS_EDGE_REST_H

#include "edge/exchange/exchange.h"
#include "wire/json/json.h"

/* m: x->rest, with decoded variables; valid as long as the client's stream. */
typedef void (*as_rest_handler)(struct as_exchange *x, const struct as_rest_match *m);

/* A row's entry in the OpenAPI document; names of schemas are those of openapi_schemas.c. */
struct as_rest_doc {
    const char *id; /* operationId */
    const char *summary;
    const char *request;  /* schema of a JSON body; NULL: none */
    const char *response; /* schema of the answer with status 200 */
    const char *statuses; /* further statuses, "400,404,503", except those of every request */
};

#define AS_REST_BODY    0x1u /* uses its body; otherwise a body is discarded */
#define AS_REST_CHANGES 0x2u /* changes the server: edge/exchange/access.h checks its origin */

#define AS_REST_PICKLE   0x8u /* its body is pickled code, which may be larger than others */
#define AS_REST_OPTIONAL 0x4u /* for OpenAPI: the body may be empty */

struct as_rest_route {
    const char *method; /* "GET": HEAD too; "POST" */
    const char *path;   /* pattern of edge/exchange/route.h */
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
#define AS_REST_METRICS "/metrics"
extern const struct as_rest_table as_rest_client_metrics;

const char *as_resource_name(enum as_resource r); /* unique: a label of metrics */
/* The HTTP statuses that are counted one by one, by index. The last one is 0: all others. */
uint32_t as_counted_http_status(uint32_t i);

/* The first row that matches the path (without its query), with encoded variables in *ret_m. NULL:
 * none. */
const struct as_rest_route *as_rest_find(enum as_interface interface, struct as_str path,
                                         struct as_rest_match *ret_m);

/* Applications, which have the paths below their routes: edge/ingress/ingress.h. */
struct as_rest_ingress {
    /* False: the path is not an application's. */
    bool (*start)(struct as_exchange *x, struct as_str path, struct as_str query);
    /* A path that is nobody's; false: there are no applications, and it was not answered. */
    bool (*not_found)(struct as_exchange *x, struct as_str path);
};
extern const struct as_rest_ingress as_rest_ingress;

/* --- answers; the rules are those of edge/exchange/exchange.h --- */

#define AS_REST_EXTRA 4u /* most extra headers */

struct as_rest_reply {
    uint32_t status;
    struct as_str content_type; /* empty: application/json */
    const struct as_http_header *extra;
    uint32_t n_extra;
    /* At most AS_EXCHANGE_PIECES pieces, as in wire/http/http.h: their bytes lie in the arena or in
     * the exchange's blobs, or have an owner. content-length is added. Compressed if
     * --response-compression says so and the client accepts a coding that the server supports. */
    const struct as_http_piece *body;
    uint32_t n_body;
};
void as_rest_send(struct as_exchange *x, const struct as_rest_reply *r);
/* A text, copied. */
void as_rest_text(struct as_exchange *x, uint32_t status, struct as_str content_type,
                  const struct as_buf *text);
static inline void as_rest_json(struct as_exchange *x, uint32_t status, const struct as_buf *json)
{
    as_rest_text(x, status, AS_STR("application/json"), json);
}

/* The loop's JSON parser; `large`: the helper thread's. NULL: out of memory, the request failed. */
struct as_json *as_rest_json_reader(struct as_exchange *x, bool large);

/* Reads the body, JSON of this type (OBJECT or MAP); an empty one is valid and sets nothing. wrong:
 * the text of the error if it has another form. False: the request was failed. */
bool as_rest_read_json(struct as_exchange *x, enum as_json_field_type type, void *to,
                       const char *wrong);

/* --- operations of as_exchange_http --- */

#define AS_REST_DISCARD_MAX 65536u /* most bytes of a body read before an early answer is sent */
void as_rest_send_deferred(struct as_exchange *x);
void as_rest_count(struct as_exchange *x, uint32_t status);
/* Sends {"error": message}. Handlers use as_exchange_fail. */
void as_rest_fail(struct as_exchange *x, uint32_t status, struct as_str message,
                  const struct as_http_header *extra, uint32_t n_extra);

#endif
