/* edge/exchange/exchange.h — one request of a client and its answer.
 *
 *   RECEIVING ──► WAITING ──► ANSWERED       RECEIVING: the body is received and inflated
 *       │           │             ▲          WAITING: in the fleet's queue, or at a worker
 *       └── error, or an RPC that ┘          ANSWERED: passed to HTTP, or being compressed for it
 *           needs no worker
 *
 * exchange.c: lifetime and request head. exchange_body.c: the request's bytes and the budgets.
 * answer.c: gRPC answers and all errors. What differs by the kind of request is a table of
 * operations: unary gRPC (exchange.c), streaming calls (edge/grpc/stream.c), plain HTTP
 * (edge/rest/rest.c).
 *
 * An exchange is freed (it goes back to the edge's pool) when the client's stream is closed and
 * neither the fleet nor the helper thread uses it. It owns its arena and its blobs; bodies above
 * AS_COPY_MAX lie in a blob. Thread: the edge's loop.
 */
#ifndef AS_EDGE_EXCHANGE_H
#define AS_EDGE_EXCHANGE_H

#include "base/err.h"
#include "edge/conn/conn.h"
#include "edge/exchange/compress.h"
#include "edge/exchange/route.h"
#include "wire/grpc/grpc.h"
#include "wire/oip/oip.h"

#define AS_EXCHANGE_INLINE 3072u /* bytes of the arena's first block */

enum as_exchange_state { AS_EXCHANGE_RECEIVING, AS_EXCHANGE_WAITING, AS_EXCHANGE_ANSWERED };

struct as_exchange;

/* One kind of request. */
struct as_exchange_kind {
    void (*start)(struct as_exchange *x); /* the head was received; not for streams */
    void (*receive)(struct as_exchange *x, const uint8_t *p, size_t n);
    void (*end)(struct as_exchange *x); /* the client has sent the whole request */
    bool streams; /* `end` is called in any state, not only while the request is received */
    /* Sends answer.deferred, which waited for the rest of the request; only for plain HTTP. */
    void (*send_deferred)(struct as_exchange *x);
    void (*count)(struct as_exchange *x, uint32_t status); /* an answer, for the metrics */
    /* Sends an error with a status of gRPC or of HTTP. */
    void (*fail)(struct as_exchange *x, uint32_t status, struct as_str message,
                 const struct as_http_header *extra, uint32_t n_extra);
};
extern const struct as_exchange_kind as_exchange_http; /* edge/rest/rest.c */

/* The gRPC methods, by their RPC: edge/methods/grpc_service.c. */
struct as_grpc_method {
    const char *name;    /* unique: a label of metrics */
    const char *path;    /* NULL: it is none that clients call */
    uint32_t interfaces; /* that serve it: a bit for each as_interface */
    /* The message of a unary call is complete; or the head of a streaming call was received: calls
     * as_stream_open. */
    void (*handle)(struct as_exchange *x);
    /* The head was received, and nothing else of it was looked at. False: the call was failed, by
     * the same answer as a method that is unknown. NULL: nothing is to be checked. */
    bool (*check)(struct as_exchange *x);
};
extern const struct as_grpc_method as_grpc_methods[AS_RPC_COUNT];
/* The RPC of a path on this interface; AS_RPC_UNKNOWN: none. */
enum as_rpc as_grpc_method_find(enum as_interface interface, struct as_str path);

/* Callbacks of the owner of an answer that is written in parts. */
struct as_exchange_answer_ops {
    void (*drained)(struct as_exchange *x); /* most of what was written is sent: write more */
    void (*gone)(struct as_exchange *x);    /* its stream is closed; the last call */
};

/* The request as it is received: one gRPC message, or the plain HTTP body. */
struct as_exchange_body {
    uint8_t *p;
    size_t len, filled;           /* bytes, and those received */
    bool length_unknown;          /* plain HTTP without a declared length: len is the room so far */
    size_t room;                  /* bytes of memory at p that may be filled */
    struct as_blob *blob;         /* holds p when it is large; charged */
    struct as_blob *inputs;       /* holds inputs made of JSON or of shared memory, when large */
    struct as_grpc_reader reader; /* finds the messages of gRPC */
    enum as_gzip_format encoding; /* of compressed messages, from the request head */
    bool is_compressed;           /* the message or body is compressed */
    bool ended;                   /* the client has sent the whole request */
    uint64_t received;            /* bytes */
    void (*on_inflated)(struct as_exchange *x);
};

/* The answer that is being written. The blobs are charged. */
struct as_exchange_answer {
    struct as_blob *text;                  /* holds the JSON of the answer when it is long */
    struct as_blob *tensors;               /* holds the answer's tensors when they are large */
    struct as_blob *deflated;              /* the compressed answer */
    as_ns retry_after;                     /* delay before a retry, for errors; 0: the default */
    struct as_backpressure backpressure;   /* of plain HTTP: counts more than retry_after */
    const struct as_http_header *trailers; /* of gRPC, in place of grpc-status 0; NULL: that */
    uint32_t n_trailers;
    struct as_counts *counts; /* of the route or the method that is answered; NULL: it has none */
    bool has_encoding;        /* the handler has chosen how its message is compressed: */
    enum as_gzip_format encoding; /* so, if the client reads that; counts more than the options */
    bool in_dispatch_arena;       /* parts of it are made in dispatch_arena */
    struct as_rest_deferred *deferred; /* plain HTTP: sent after the end of the request */
    /* Not NULL: receives errors in place of the client. For one message of a stream of requests
     * (edge/infer/infer_stream.c), and for streamed answers, which are `item`'s. */
    void (*on_fail)(struct as_exchange *x, uint32_t status, struct as_str message);
    void *item;
    const struct as_exchange_answer_ops *ops; /* or NULL; uses `item`, or x->streaming */
    bool headers_sent;                        /* of a stream: an error is sent in the trailers */
    /* Of a model, edge/infer/infer.h: */
    void (*send)(struct as_exchange *x, const struct as_oip_response *r);
    const struct as_infer_parts *parts; /* NULL: decoupled models are refused */
    struct as_tensor *selected;         /* array for the requested outputs */
    struct as_tensor_param *params;     /* array for parameters of outputs */
    uint32_t params_cap;                /* its capacity */
    struct as_frame_window uncredited;  /* parts without credit: the client has not read them */
};

/* What the request holds of the budgets. */
struct as_exchange_budget {
    struct as_account *requests, *answers; /* the connection's accounts */
    uint64_t reserved;                     /* bytes charged to `requests`, beside those of blobs */
    bool is_held; /* it may outlive its connection: it holds the accounts */
};

/* Work elsewhere that ends with a callback, and is cancelled when the client has gone; or NULL. */
struct as_exchange_pending {
    struct as_compress_job *compress; /* inflates the message, or compresses the answer */
    struct as_offload *offload;       /* on the helper thread: edge/exchange/offload.h */
    struct as_dispatch_query *query;  /* on the dispatch loop */
};

/* Whether the client is too slow: edge/exchange/client_timeouts.h. */
struct as_exchange_progress {
    struct as_list node;
    as_ns checked_at;
    uint64_t mark;      /* bytes received or sent at the last check */
    uint64_t must_send; /* bytes of the answer that must be sent by the next check */
};

struct as_exchange {
    /* Zeroed for each request, up to `next_free`. */
    struct as_edge *edge;
    struct as_conn *conn;            /* NULL: its stream is closed */
    const struct as_http_head *head; /* valid while conn is not NULL */
    uint32_t stream;
    enum as_exchange_state state;
    enum as_rpc rpc;
    bool grpc;
    const struct as_exchange_kind *kind;
    bool in_fleet;
    bool cancelled; /* the fleet knows that no answer is wanted */
    as_ns deadline;
    struct as_key *key;              /* edge/exchange/key_access.h; one reference; NULL: none */
    bool key_held;                   /* it counts as a request in flight of the key */
    enum as_key_refusal key_refusal; /* of a probe without a key: why it has none */
    struct as_str request_id;        /* of a request to an application, for the log; else empty */
    struct as_stream *streaming;     /* NULL: unary */
    struct as_websocket *websocket;  /* edge/websocket/websocket.h; NULL: none was accepted */
    struct as_registry *registry;    /* one reference; owns `model` */
    const struct as_model *model;
    struct as_reroute *reroute; /* edge/infer/reroute.h; NULL: no fallback */
    struct as_exchange_body body;
    struct as_exchange_answer answer;
    struct as_exchange_budget budget;
    struct as_exchange_pending pending;

    /* Kept: filled in by their modules when they are used. */
    struct as_exchange *next_free;
    uint32_t pool_generation; /* the edge's when it was allocated */
    struct as_exchange_progress progress;
    struct as_rest_match rest; /* plain HTTP: the route (or NULL) and its variables */
    struct as_oip_infer infer; /* the request to a model, and its call */
    struct as_call call;
    struct as_arena arena;
    struct as_arena dispatch_arena; /* of a decoupled call: for the dispatch loop */
    uint8_t inline_arena[AS_EXCHANGE_INLINE] __attribute__((aligned(64)));
};

void as_exchange_pool_free(struct as_edge *e);
/* Frees pooled exchanges that were not needed since the last trim, except AS_EXCHANGE_POOL_MIN, and
 * moves the others together when some were freed, so that they keep little memory. */
void as_exchange_pool_trim(struct as_edge *e);
void as_exchange_released(struct as_exchange *x);     /* by the fleet; may free it */
void as_exchange_offload_done(struct as_exchange *x); /* by the helper; may free it */

/* An exchange for one message of a stream of requests: on the same connection and stream, with the
 * same head and deadline. NULL: no memory, or over --max-requests. */
struct as_exchange *as_exchange_child(struct as_exchange *parent);
/* An exchange without a client, charged to the same accounts. as_exchange_released frees it. NULL:
 * no memory, or over --max-requests. */
struct as_exchange *as_exchange_shadow(struct as_exchange *of);
/* Detaches a child from its connection; it is freed as soon as the fleet has released it. */
void as_exchange_free_child(struct as_exchange *x);
/* Cancels its call in the fleet, once: no answer is wanted. */
void as_exchange_cancel(struct as_exchange *x);

/* Answers. Each sets the state ANSWERED, and is a no-op when the exchange is answered or its client
 * has gone. Over plain HTTP an error is {"error": text} with the HTTP status of base/err.h. */
void as_exchange_fail(struct as_exchange *x, int err, const char *fmt, ...) AS_PRINTF(3, 4);
/* An error with a gRPC status; plain HTTP: with as_grpc_status_http of it. */
void as_exchange_fail_status(struct as_exchange *x, uint32_t status, struct as_str message,
                             const struct as_http_header *extra, uint32_t n_extra);
/* After the request was parsed, with the text of an error. False: err is not 0, and it was failed;
 * AS_EPROTO is the client's fault, AS_EINVALID. */
bool as_exchange_is_parsed(struct as_exchange *x, int err, const char *why);
#define AS_EXCHANGE_EXTRA  3u  /* most extra headers of an error */
#define AS_EXCHANGE_PIECES 64u /* most pieces of one answer */
/* A successful unary gRPC answer of one small message, copied. */
void as_exchange_reply(struct as_exchange *x, const struct as_buf *message);
/* A successful unary gRPC answer: one message behind its prefix, the first five bytes of the first
 * piece. Compressed if --response-compression says so. */
void as_exchange_send_message(struct as_exchange *x, const struct as_http_piece *body, uint32_t n);
/* Ends a gRPC call, or a stream, with a status and these trailers; grpc-status is one of them. */
void as_exchange_send_status(struct as_exchange *x, uint32_t status,
                             const struct as_http_header *trailers, uint32_t n);
/* Sets the state ANSWERED and counts the status (plain HTTP: an HTTP status). False: it was
 * answered before, or its client has gone. */
bool as_exchange_mark_answered(struct as_exchange *x, uint32_t status);

/* n bytes of the arena, for `what` ("the answer"). NULL: the request was failed. */
static inline void *as_exchange_alloc(struct as_exchange *x, size_t n, size_t align,
                                      const char *what)
{
    void *p = as_arena_alloc(&x->arena, n, align);

    if (__builtin_expect(!p, 0))
        as_exchange_fail(x, AS_ENOMEM, "no memory for %s", what);
    return p;
}

/* `count` and `fail` of both kinds of gRPC. */
void as_exchange_count_grpc(struct as_exchange *x, uint32_t status);
void as_exchange_fail_grpc(struct as_exchange *x, uint32_t status, struct as_str message,
                           const struct as_http_header *extra, uint32_t n_extra);

/* Sets the deadline from the header grpc-timeout. May fail the request. */
void as_exchange_read_timeout(struct as_exchange *x);
/* A message of len bytes begins: checks its size and reserves memory, in the arena for small ones
 * unless `own_blob`. False: the request was failed. */
bool as_exchange_begin_message(struct as_exchange *x, uint64_t len, bool compressed, bool own_blob);
/* Appends n bytes to the message. False: no room; the request was failed. */
bool as_exchange_append(struct as_exchange *x, const uint8_t *p, size_t n);
/* Frees the memory of the body of a failed request. */
void as_exchange_free_body(struct as_exchange *x);
/* Charges n more bytes to the request. False: it was failed; `what` is the subject of the error. */
bool as_exchange_charge(struct as_exchange *x, uint64_t n, const char *what);
/* Fails a request of which n bytes do not fit: they never can, or not now; AS_ENOMEM: out of
 * memory. */
void as_exchange_fail_room(struct as_exchange *x, int err, const char *what, uint64_t n);
/* A blob of n bytes for the answer, charged. NULL: the request was failed. */
struct as_blob *as_exchange_answer_blob(struct as_exchange *x, size_t n);
/* The same in the arena for up to AS_COPY_MAX bytes: then *ret_blob is NULL. */
uint8_t *as_exchange_answer_room(struct as_exchange *x, size_t n, struct as_blob **ret_blob);
/* Fails a request for whose answer of n bytes there is no room; err: from as_blob_new_charged. */
void as_exchange_fail_answer(struct as_exchange *x, int err, size_t n);
/* Inflates the message or body, then calls `done`; or fails the request. */
void as_exchange_inflate(struct as_exchange *x, void (*done)(struct as_exchange *x));

/* Finds the model and sets x->model and x->registry; version "": the default one. NULL: there is
 * none, or it is unloaded; the request was failed with NOT_FOUND. */
const struct as_model *as_exchange_find_model(struct as_exchange *x, struct as_str name,
                                              struct as_str version);
/* Likewise, for inputs that the request has; that the name is a target of calls is counted and
 * logged. */
const struct as_model *as_exchange_find_model_to_infer(struct as_exchange *x, struct as_str name,
                                                       struct as_str version);
/* The same, including unloaded models. */
const struct as_model *as_exchange_find_any_model(struct as_exchange *x, struct as_str name,
                                                  struct as_str version);

#endif
