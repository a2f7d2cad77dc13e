/* edge/exchange/exchange.h — one request of a client and its answer.
 *
 *   RECEIVING ──► WAITING ──► ANSWERED       RECEIVING: body comes in, is inflated, read
 *       │  end      (fleet)       ▲          WAITING: a worker has it, or the queue
 *       └── refused, small RPC ───┘          ANSWERED: handed to HTTP/2, or being deflated for it
 *
 * exchange.c: its life and head; exchange_body.c: its bytes; answer.c: what goes back by gRPC, and
 * errors. Plain HTTP: edge/rest/rest.h and edge/rest/rest_body.h. Streaming calls:
 * edge/grpc/stream.h. Freed (back to the edge's pool) when its stream is closed and the fleet has
 * released it. Memory of the request comes from its arena; bodies above AS_COPY_MAX from a blob.
 */
#ifndef AS_EDGE_EXCHANGE_H
#define AS_EDGE_EXCHANGE_H

#include "edge/edge_internal.h"
#include "edge/rest/route.h"
#include "edge/exchange/compress.h"
#include "wire/grpc/grpc.h"
#include "wire/oip/oip.h"

#define AS_EXCHANGE_INLINE                                                                         \
    3072u /* bytes of arena inside; larger requests take blocks from the heap */

enum as_exchange_state { AS_EXCHANGE_RECEIVING, AS_EXCHANGE_WAITING, AS_EXCHANGE_ANSWERED };

/* Who writes a plain HTTP answer over time. */
struct as_exchange_answer_ops {
    void (*drained)(struct as_exchange *x); /* what was written is sent, but for a bounded rest */
    void (*gone)(struct as_exchange *x);    /* its stream is closed; the last call */
};

struct as_exchange {
    struct as_call call;
    struct as_edge *edge;
    struct as_conn *conn; /* NULL: its stream is closed */
    struct as_exchange *next_free;
    uint32_t stream;
    enum as_exchange_state state;
    enum as_rpc rpc;
    bool in_fleet;
    bool grpc;
    bool ended;         /* the client has sent everything */
    bool is_compressed; /* the message, or the body, came compressed */
    struct as_grpc_reader reader;
    enum as_gzip_format encoding;         /* of compressed messages, as the request's head says */
    struct as_compress_job *compress_job; /* the message being inflated, or the answer deflated */
    void (*on_inflated)(struct as_exchange *x);
    struct as_offload
        *offload; /* the helper works for it (edge/exchange/offload.h): it stays until then */
    struct as_stream *streaming; /* NULL: unary */
    struct as_rest_deferred
        *deferred_reply;          /* plain HTTP: an answer that waits for the end of the request */
    struct as_rest_match rest;    /* plain HTTP: the resource */
    uint8_t *body;                /* the message, or the body of plain HTTP */
    size_t body_len, body_filled; /* plain HTTP without a length: body_len is the room */
    size_t body_room;             /* when so many have come, more room is to be made */
    struct as_blob *blob;         /* holds body when it is large; charged, as those below */
    struct as_blob *inputs;       /* holds inputs that were read from JSON, when they are large */
    struct as_blob *text;         /* holds the JSON of the answer when it is long */
    struct as_blob *answer;       /* holds the answer's bytes when they are many */
    struct as_blob *deflated;     /* the answer as it is sent, when it is compressed */
    struct as_account *requests, *answers; /* its connection's */
    uint64_t reserved;                     /* charged to `requests`, beside blobs */
    bool holds_accounts;                   /* that has gone, or may: it is a user of them */
    as_ns deadline;
    as_ns retry_after;           /* what an error says of when to try again; 0: the usual */
    struct as_list timeout_node; /* edge/exchange/client_timeouts.h, with these three: */
    as_ns checked_at;
    uint64_t received, mark;      /* bytes of the body that came; came, or were sent, at the last
                                look, … */
    uint64_t must_send;           /* … of an answer so many must be by the next one */
    struct as_registry *registry; /* keeps `model` */
    const struct as_model *model;
    struct as_reroute *reroute; /* edge/infer/reroute.h; NULL: it goes to one model, or nowhere */
    struct as_dispatch_query *
        query; /* what the dispatch loop is asked (edge/exchange/dispatch_query.h); NULL: nothing */
    struct as_oip_infer infer;
    void (*send)(struct as_exchange *x, const struct as_oip_response *r); /* edge/infer/infer.h */
    const struct as_infer_parts *parts;    /* likewise; NULL: decoupled models are refused */
    struct as_tensor *selected_outputs;    /* room for the outputs that were asked for */
    struct as_tensor_param *output_params; /* room for the parameters of outputs … */
    uint32_t output_params_cap;            /* … so many */
    struct as_frame_window uncredited;     /* parts that the client has not taken yet */
    bool cancelled;                        /* the fleet was told that nobody waits */
    /* One message of a stream of requests (edge/infer/infer_stream.c): who hears of its error, and
     * its place there. NULL: errors end the client's call. */
    void (*fail)(struct as_exchange *x, uint32_t status, struct as_str message);
    void *item;
    const struct as_exchange_answer_ops *answer_ops; /* or NULL; `item` is its own */
    const struct as_http_head *head;                 /* valid while conn is not NULL */
    struct as_arena arena;
    struct as_arena
        dispatch_arena; /* of a decoupled call: for the dispatch loop, while we read its parts */
    uint8_t inline_arena[AS_EXCHANGE_INLINE] __attribute__((aligned(64)));
};

void as_exchange_pool_free(struct as_edge *e);
/* Frees what was not used since the last trim, but for AS_EXCHANGE_POOL_MIN. */
void as_exchange_pool_trim(struct as_edge *e);
void as_exchange_released(struct as_exchange *x);     /* the fleet holds it no longer */
void as_exchange_offload_done(struct as_exchange *x); /* the helper does not */

/* An exchange for one message of a stream of requests: on the same connection and stream, with the
 * same head and deadline. NULL: no memory, or over --max-requests. */
struct as_exchange *as_exchange_child(struct as_exchange *parent);
/* One that nobody waits for, as if its client had gone, charged to the same accounts.
 * as_exchange_released frees it. NULL: no memory, or over --max-requests. */
struct as_exchange *as_exchange_shadow(struct as_exchange *of);
/* A child is over, or its client has gone: it is freed as soon as the fleet has released it. */
void as_exchange_free_child(struct as_exchange *x);
/* Tells the fleet, once, that nobody waits for the answer. */
void as_exchange_cancel(struct as_exchange *x);

/* Answers; each ends the exchange's part (state ANSWERED). No-ops when the client has gone. Errors
 * are told to plain HTTP as {"error": text} with the HTTP status of base/err.h. */
void as_exchange_fail(struct as_exchange *x, int err, const char *fmt, ...) AS_PRINTF(3, 4);
/* With a gRPC status and a text of the worker; HTTP: the status of as_grpc_status_http. */
void as_exchange_fail_status(struct as_exchange *x, uint32_t status, struct as_str message,
                             const struct as_http_header *extra, uint32_t n_extra);
#define AS_EXCHANGE_EXTRA  3u  /* headers of one's own in an error */
#define AS_EXCHANGE_PIECES 64u /* pieces of one answer */
/* One small message, copied. */
void as_exchange_reply(struct as_exchange *x, const struct as_buf *message);
/* Hands pieces to HTTP/2 as a successful gRPC answer: the prefix (first five bytes of the first
 * piece) and one message. Compressed on the way when --response-compression says so. */
void as_exchange_send_message(struct as_exchange *x, const struct as_http_piece *body, uint32_t n);
/* True when somebody is there to hear it; counts the status (plain HTTP: of HTTP), and the exchange
 * is ANSWERED. */
bool as_exchange_mark_answered(struct as_exchange *x, uint32_t status);

/* The deadline that the header grpc-timeout asks for. May fail the call. */
void as_exchange_read_timeout(struct as_exchange *x);
/* A message begins whose prefix says so: bounded, and room made for the first of it (small ones lie
 * in the arena unless `own_blob`). False: the call was failed. */
bool as_exchange_begin_message(struct as_exchange *x, uint64_t len, bool compressed, bool own_blob);
/* More of it has come. False: there is no room for that, the call was failed. */
bool as_exchange_append(struct as_exchange *x, const uint8_t *p, size_t n);
/* The room for the body that must_send not be there any more, its request being refused. */
void as_exchange_drop_body(struct as_exchange *x);
/* Charges n bytes more of the request. False: it was failed; `what` begins the sentence. */
bool as_exchange_charge(struct as_exchange *x, uint64_t n, const char *what);
/* A request of which n bytes do not fit: for good, or now; or memory is out (AS_ENOMEM). */
void as_exchange_fail_room(struct as_exchange *x, int err, const char *what, uint64_t n);
/* n bytes for the answer, charged. NULL: the request was failed. */
struct as_blob *as_exchange_answer_blob(struct as_exchange *x, size_t n);
/* The same failure, of as_blob_new_charged. */
void as_exchange_fail_answer(struct as_exchange *x, int err, size_t n);
/* Inflates the message (x->is_compressed); then, if it is good, `done`; else the call was failed.
 */
void as_exchange_inflate(struct as_exchange *x, void (*done)(struct as_exchange *x));

/* The message of a unary call is complete: edge/methods/grpc_service.c. */
void as_grpc_service_call(struct as_exchange *x);
/* The head of a streaming call has come; makes x->streaming. */
void as_grpc_service_stream(struct as_exchange *x);
/* Of those that are served at the interface; AS_RPC_UNKNOWN. */
enum as_rpc as_grpc_service_find_rpc(enum as_interface interface, struct as_str path);
/* The model of a name and version, with `registry` kept; NULL: answered NOT_FOUND. */
const struct as_model *as_exchange_find_model(struct as_exchange *x, struct as_str name,
                                              struct as_str version);
/* Also one that is unloaded. */
const struct as_model *as_exchange_find_any_model(struct as_exchange *x, struct as_str name,
                                                  struct as_str version);

#endif
