/* edge/ingress/ingress.h — a request below the route of an application: to a replica of its ingress
 * deployment and back, over either version of HTTP.
 *
 *   COLLECT ──► the fleet ──► head of the answer ──► bytes ──► end
 *
 * ingress.c: which requests these are, the body that is collected, the call. ingress_body.c: what
 * comes of the body behind that, as far as the worker grants it. ingress_answer.c: heads, checked;
 * bytes, as far as the client reads them; errors. ingress_text.c: texts of our own, ids of
 * requests. ingress_pages.c: /-/routes and /-/healthz.
 *
 * A body of up to --ingress-buffer is collected before the call is submitted, so that a slow upload
 * holds no slot. Headers and bytes are never looked into. Thread: the edge's loop.
 */
#ifndef AS_EDGE_INGRESS_H
#define AS_EDGE_INGRESS_H

#include "edge/rest/rest.h"
#include "io/random.h"

#define AS_INGRESS_ID_MAX 256u /* bytes of a client's request id; a longer one is replaced */

struct as_ingress { /* in the exchange's arena; x->answer.item */
    struct as_exchange *x;
    struct as_routes *routes; /* the snapshot that has the route; NULL: it was given back */
    struct as_frame_http_open open;
    struct as_call_stream stream;
    char id[AS_UUID_LEN + 1]; /* the request id that was made for it */

    /* the part of the body that is collected; in a blob if it is large */
    uint8_t *first;
    size_t n_first, room;
    struct as_blob *first_blob;
    bool has_length; /* the client has declared one */
    uint64_t length;

    /* the rest: what was received since the last input, and the input under way */
    struct as_blob *gather;
    size_t n_gather;
    struct as_input input;
    bool input_busy, input_ended;

    /* the answer */
    bool begun;       /* its head was sent, and bytes may follow */
    bool no_body;     /* HEAD, 204, 304: its bytes are not sent */
    bool is_sized;    /* the handler has declared a length … */
    uint64_t size;    /* … which is this */
    uint64_t written; /* bytes so far */
    uint64_t unread;  /* bytes that the client has not read: without credit */
    bool over;        /* the call has ended */
};

static inline struct as_ingress *as_ingress_of(const struct as_exchange *x)
{
    return x->answer.item;
}

/* --- ingress.c --- */

/* Submits the call, with AS_HTTP_F_… as flags; g->open and the part of the body that is to be
 * inside OPEN are set. Without WHOLE the call takes inputs. It may be answered before this returns.
 */
void as_ingress_submit(struct as_ingress *g, uint32_t flags);

/* --- ingress_body.c --- */

/* n more bytes came; or the client has sent all. */
void as_ingress_body_receive(struct as_ingress *g, const uint8_t *p, size_t n);
void as_ingress_body_end(struct as_ingress *g);

/* --- ingress_answer.c --- */

void as_ingress_on_part(struct as_call *c, struct as_part *p);
void as_ingress_on_answer(struct as_call *c);
void as_ingress_drained(struct as_exchange *x);

/* --- ingress_text.c --- */

/* Sets g->open.id: the client's, or a new one; true: it is new. */
bool as_ingress_set_id(struct as_ingress *g);
/* Answers with a text of our own. */
void as_ingress_reply(struct as_exchange *x, uint32_t status, struct as_str text);
/* The same, and tells the client after which delay it may try again. */
void as_ingress_refuse(struct as_exchange *x, uint32_t status, struct as_str text, as_ns retry);
/* Logs what is wrong with the answer of a handler, with the request's id. */
void as_ingress_log_fault(struct as_ingress *g, const char *what);
/* The value of the field `date`, valid until the next call. */
struct as_str as_ingress_date(void);

/* --- ingress_pages.c: rows of edge/methods/rest_routes.c --- */

void as_ingress_routes_page(struct as_exchange *x, const struct as_rest_match *m);
void as_ingress_health_page(struct as_exchange *x, const struct as_rest_match *m);

#endif
