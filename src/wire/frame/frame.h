/* wire/frame/frame.h — the frames of the link between dispatcher and worker, bytes ↔ structs.
 *
 * docs/protocol/link.md is the specification. Every frame starts at a multiple of 64 bytes of the
 * stream: a 16-byte little-endian header, the payload, zero padding. Decoders read from memory that
 * no other process can change, check every length once, and return slices into that memory. All
 * integers are little-endian. Pure; decoders allocate from an arena only.
 */
#ifndef AS_WIRE_FRAME_H
#define AS_WIRE_FRAME_H

#include "base/memory/arena.h"
#include "base/memory/outq.h"
#include "base/tensor.h"

#define AS_FRAME_HEADER       16u
#define AS_FRAME_ALIGN        64u
#define AS_FRAME_MAX          (1u << 20)  /* maximum payload bytes of one frame, DATA included */
#define AS_FRAME_INLINE       (64u << 10) /* a body up to this size is in OPEN / the first DATA */
#define AS_FRAME_FIXED        48u /* bytes of the fixed part of a message, see struct as_frame_msg */
#define AS_FRAME_TABLE        (512u << 10) /* bytes of a table: names, shapes, parameters, id */
#define AS_FRAME_TENSORS      4096u /* tensors of a message, or entries of one side of a signature */
#define AS_FRAME_PARAMS       1024u  /* parameters of a message, and as many metadata entries */
#define AS_FRAME_LABELS       65536u /* labels of an output */
#define AS_FRAME_LABEL        1024u  /* bytes of each label */
#define AS_FRAME_TEXT         16384u /* bytes of a reason or error text */
#define AS_FRAME_CONTROL_TEXT 65536u /* bytes of a CONTROL request's text */
#define AS_FRAME_NAME         256u   /* bytes of each string in HELLO */
#define AS_FRAME_VERSION      1u
#define AS_FRAME_MAGIC        0x4b4c5341u /* "ASLK" */

enum as_frame_type {
    AS_FRAME_HELLO = 1,
    AS_FRAME_REGISTER = 2,
    AS_FRAME_REGISTERED = 3,
    AS_FRAME_UNREGISTER = 4,
    AS_FRAME_OPEN = 5,
    AS_FRAME_DATA = 6,
    AS_FRAME_END = 7,
    AS_FRAME_ERROR = 8,
    AS_FRAME_STARTED = 9,
    AS_FRAME_RECALL = 10,
    AS_FRAME_RETURNED = 11,
    AS_FRAME_BATCH = 12,
    AS_FRAME_CANCEL = 13,
    AS_FRAME_CREDIT = 14,
    AS_FRAME_CONTROL = 15,
    AS_FRAME_ATTACH = 16,
    AS_FRAME_DETACH = 17,
    AS_FRAME_PING = 18,
    AS_FRAME_PONG = 19,
    AS_FRAME_DRAIN = 20,
    AS_FRAME_GOODBYE = 21,
    AS_FRAME_OPTIONS = 22,
    AS_FRAME_MOVE = 23,
    AS_FRAME_TRAFFIC = 24,
    AS_FRAME_TARGET = 25,
    AS_FRAME_REPORT = 26,
    AS_FRAME_SERVICES = 27,
    AS_FRAME_POLICY = 28,
    AS_FRAME_ROUTER = 29,
    AS_FRAME_RESERVED = 30,
};

/* Flags of the header. */
#define AS_FRAME_F_END      0x01u /* OPEN, DATA: the sender ends its side of the stream */
#define AS_FRAME_F_MSG      0x02u /* DATA: starts a message (fixed part, table, inline body) */
#define AS_FRAME_F_OPTIONAL 0x80u /* a receiver that does not know the type skips the frame */

struct as_frame {
    uint8_t type;
    uint8_t flags;
    uint64_t stream; /* 0: the frame is about the link itself */
    const uint8_t *p;
    uint32_t n; /* payload bytes at p */
};

/* Reads a frame at p, which must be a frame boundary (8-byte aligned). > 0: the size of the whole
 * frame in the stream (ret_f is set); 0: more bytes are needed; AS_EPROTO: the payload is larger
 * than AS_FRAME_MAX, or reserved bits are set. */
int64_t as_frame_next(const uint8_t *p, size_t n, struct as_frame *ret_f);
/* The same, but needs only the 16 header bytes: ret_f->p points behind the header, and the payload
 * may be incomplete (n < the result). For a reader that processes bodies as they come. */
int64_t as_frame_peek(const uint8_t *p, size_t n, struct as_frame *ret_f);

/* A message: the tensors of a request in OPEN, or of a response in DATA|MSG. In the body each
 * tensor starts at a multiple of 64, in the order of the table. If body_len <= AS_FRAME_INLINE, the
 * body follows the table at the next multiple of 64 from the start of the frame. A larger body
 * follows in DATA frames of the same stream, as raw bytes in order; the last of them has END. */
struct as_frame_msg {
    uint8_t kind;     /* AS_FRAME_TENSOR; OPEN only. Others: frame_call.h, frame_http.h */
    uint8_t priority; /* OPEN only; 0 is the most urgent */
    uint32_t target;  /* OPEN only; the number from REGISTERED */
    uint64_t timeout; /* OPEN only; ns that are left, 0: no deadline */
    uint64_t service; /* DATA only; ns that the handler ran, 0: not measured */
    uint32_t ended;   /* DATA only; as_frame_moment of the handler's end, 0: not measured */
    bool more;        /* encoder: the sender will send more on this stream, so END is not set */
    bool input;       /* encoder: a DATA for a worker, which carries the id of its request */
    uint64_t body_len;
    struct as_str id; /* OPEN, and DATA for a worker; the client's request id, may be empty */
    uint32_t n_tensors, n_params, n_meta;
    struct as_tensor_params tensor_params; /* in the order of the tensors */
    struct as_str table;                   /* the bytes of the table as they came */
    const uint8_t *body; /* inline body (body_len bytes); NULL: it follows in DATA frames */
};

/* as_frame_moment: a time of CLOCK_MONOTONIC, which all processes of a machine share, in 32 bits:
 * units of 1024 ns, never 0. as_frame_since: the ns from such a moment to `now`; 0 if the moment is
 * unknown or seems to lie ahead (the reader takes the time once for many frames); wrong if it is
 * more than half an hour ago. */
static inline uint32_t as_frame_moment(uint64_t now)
{
    return (uint32_t)(now >> 10) | 1u;
}
static inline uint64_t as_frame_since(uint32_t moment, uint64_t now)
{
    int32_t units = (int32_t)((uint32_t)(now >> 10) - moment);

    return moment && units > 0 ? (uint64_t)units << 10 : 0;
}

enum as_frame_kind { AS_FRAME_TENSOR = 1, AS_FRAME_HTTP = 2, AS_FRAME_CALL = 3 };

/* Decodes OPEN or DATA|MSG. Checks the fixed part and the whole table: that the tensors lie in the
 * body as described above (no gap, no overlap), that each datatype is known, that datatypes of
 * fixed size have exactly shape × size bytes and BYTES at least 4 per element, and that tensor
 * names are UTF-8, not empty, and unique. The elements of BYTES are not checked.
 * A scalar has ndim 0; a tensor with zero elements has zero bytes; a message may have no tensors.
 * Arrays are allocated from the arena; slices point into f, and so does the tensor data of an
 * inline body. If the body follows in DATA frames, tensor data is an offset until
 * as_frame_msg_set_body. body_len is below 2^63; whether it is acceptable is for the caller to
 * check.
 * 0; AS_EPROTO with a reason in *ret_why (static text); AS_ENOMEM. */
int as_frame_get_msg(const struct as_frame *f, struct as_arena *a, struct as_frame_msg *ret_m,
                     struct as_msg *ret_msg, const char **ret_why);
/* Points the tensors of a decoded message into `body`, where the body is being assembled. */
void as_frame_msg_set_body(const struct as_frame_msg *m, struct as_msg *msg, const uint8_t *body);

/* The size of the body of these tensors: each is aligned to 64, the last one is not padded.
 * UINT64_MAX on overflow. */
uint64_t as_frame_body_len(const struct as_tensor *t, uint32_t n);

/* Writes an OPEN (type OPEN) or a response (type DATA; MSG is added) with the contents of `msg`.
 * Tensors of at most AS_COPY_MAX bytes are copied; larger ones are referenced if `owner` is given
 * (their data then lies in owner->data), and copied otherwise. Sets END on the last frame unless
 * `more` is set. From `fixed` come kind, priority, target, timeout, service, ended, more, input,
 * and tensor_params (only for a peer with AS_CAP_TENSOR_PARAMS); a response carries no id. 0, or
 * AS_ETOOBIG with nothing written: the table or a count is above its limit, a name is longer than
 * 65535 bytes, or the body is 2^63 bytes or more. */
#define AS_COPY_MAX 8192u
int as_frame_put_msg(struct as_outq *q, enum as_frame_type type, uint64_t stream,
                     const struct as_frame_msg *fixed, const struct as_msg *msg,
                     struct as_blob *owner);

/* The bytes of a stream's credit that a message uses: its table and its body. `id`: the message
 * carries its id. Only for messages that as_frame_put_msg accepts. */
uint64_t as_frame_msg_cost(const struct as_msg *msg, const struct as_tensor_params *params,
                           bool id);

/* The other frames. Encoders append to q and cut texts to AS_FRAME_TEXT bytes; decoders return 0 or
 * AS_EPROTO. Slices of decoded structs point into f. Texts may contain any bytes. */
#define AS_ERROR_F_RETRY   0x1u /* the same request may be sent to another replica */
#define AS_ERROR_F_STARTED 0x2u /* user code has run */
struct as_frame_error {
    uint32_t code; /* gRPC status number, 1…16 */
    uint32_t flags;
    uint64_t service; /* ns that the handler ran; 0: not measured, or not started */
    struct as_str message;
};
void as_frame_put_error(struct as_outq *q, uint64_t stream, const struct as_frame_error *e);
int as_frame_get_error(const struct as_frame *f, struct as_frame_error *ret_e);

struct as_frame_hello {
    uint16_t lo, hi; /* range of protocol versions; in the answer both are the chosen version */
    uint64_t capabilities; /* AS_CAP_…; the answer has those that both sides know */
    uint64_t epoch;        /* answer: given by the dispatcher; from a worker: its last one, or 0 */
    uint64_t max_message;  /* the largest body that this side accepts, in bytes */
    uint32_t pid;          /* for log messages only; the kernel gives the identity */
    struct as_str token, replica, deployment, peer; /* peer: free text, "anyserve-python 0.1.0" */
};
#define AS_CAP_RECALL        0x1u
#define AS_CAP_CANCEL        0x2u
#define AS_CAP_PAGE          0x4u  /* HELLO carries the descriptor of a status page */
#define AS_CAP_MOVE          0x8u  /* MOVE: the worker connects again, and serves both links */
#define AS_CAP_TENSOR_PARAMS 0x10u /* messages may have parameters of single tensors */
#define AS_CAP_CALLS         0x20u /* calls: kind 3, TARGET, REPORT, streams of even numbers */
#define AS_CAP_DRIVER        0x40u /* from a program that only calls: no models, no slots */
#define AS_CAP_RESERVE       0x80u /* calls may reserve a slot first: RESERVED */
/* Each string has at most AS_FRAME_NAME bytes (peer is cut; the caller checks the others). */
void as_frame_put_hello(struct as_outq *q, const struct as_frame_hello *h);
int as_frame_get_hello(const struct as_frame *f, struct as_frame_hello *ret_h);

/* Several requests of the model may be passed to its handler in one call. The receiver checks that
 * the values make sense. */
#define AS_FRAME_PREFERRED 16u
struct as_frame_batching {
    uint32_t max_size; /* items of one call; 0: no batching, and everything else is zero */
    uint64_t max_wait; /* ns */
    bool ragged;
    uint32_t n_preferred;
    uint32_t preferred[AS_FRAME_PREFERRED];
};

/* REGISTER: one model. Each frame repeats the options of the deployment; they must be the same. */
struct as_frame_register {
    uint32_t model; /* the worker's number for the model; REGISTERED repeats it */
    struct as_str name, version, platform;
    uint32_t max_ongoing; /* limit of this model, 1…65535 */
    bool idempotent;
    bool decoupled;      /* it answers with any number of messages */
    bool streams_inputs; /* it accepts any number of messages; only with decoupled */
    bool opaque; /* a target of calls: no signature, no batching, decoupled or not by each call */
    bool http;   /* only with opaque: it also takes requests of HTTP (wire/frame/frame_http.h) */
    bool has_inputs, has_outputs; /* false: this side has no declared signature */
    int64_t max_queued;           /* of the deployment: -1 unlimited, 0 not set, else 1… */
    uint32_t budget;              /* of the deployment: slots of a replica, 1…65535 */
    struct as_frame_batching batching;
    uint32_t n_inputs, n_outputs;
    const struct as_tensor_spec *inputs, *outputs;
};
/* 0, or AS_ETOOBIG with nothing written: a name is longer than 65535 bytes, a side has more than
 * AS_FRAME_TENSORS entries, labels exceed their limits, or the frame is larger than AS_FRAME_MAX.
 * The decoder accepts labels for outputs only: UTF-8 without NUL and line ends. */
int as_frame_put_register(struct as_outq *q, const struct as_frame_register *r);
int as_frame_get_register(const struct as_frame *f, struct as_arena *a,
                          struct as_frame_register *ret_r, const char **ret_why);

struct as_frame_registered {
    uint32_t model;
    uint32_t target; /* for OPEN; without meaning if `code` is not 0 */
    uint32_t code;   /* 0 or a gRPC status number */
    struct as_str message;
};
void as_frame_put_registered(struct as_outq *q, const struct as_frame_registered *r);
int as_frame_get_registered(const struct as_frame *f, struct as_frame_registered *ret_r);

/* CREDIT of the link (stream 0, from a worker): slots and prefetch are absolute values. CREDIT of a
 * stream (in both directions): this many more messages and bytes; slots and prefetch are 0. */
struct as_frame_credit {
    uint32_t slots, prefetch, messages;
    uint64_t bytes;
};
#define AS_FRAME_CREDIT_MESSAGES (1u << 20)          /* maximum credit of a stream; a CREDIT … */
#define AS_FRAME_CREDIT_BYTES    ((uint64_t)1 << 40) /* … that would exceed it is an error */
void as_frame_put_credit(struct as_outq *q, uint64_t stream, const struct as_frame_credit *c);
int as_frame_get_credit(const struct as_frame *f, struct as_frame_credit *ret_c);

/* What one side of a stream may still send. A message may begin while both are above 0; it uses one
 * message and its cost in bytes, so that `bytes` may fall below 0 by one message. */
struct as_frame_window {
    int64_t messages, bytes;
};
static inline bool as_frame_window_is_open(const struct as_frame_window *w)
{
    return w->messages > 0 && w->bytes > 0;
}
/* Adds a received CREDIT of a stream. 0, or AS_EPROTO: it grants slots, or exceeds the limits
 * above. */
int as_frame_window_add(struct as_frame_window *w, const struct as_frame_credit *c);
static inline void as_frame_window_consume(struct as_frame_window *w, uint64_t cost)
{
    w->messages--;
    w->bytes -= (int64_t)cost;
}

/* END: the sender's side of a stream of messages has ended. service: as in a message. */
void as_frame_put_end(struct as_outq *q, uint64_t stream, uint64_t service);
int as_frame_get_end(const struct as_frame *f, uint64_t *ret_service);

/* RECALL and RETURNED: up to AS_FRAME_IDS stream ids, in the order of the streams. More ids are
 * sent in more frames. The decoder refuses a frame with more than `cap` ids. */
#define AS_FRAME_IDS 1024u
void as_frame_put_ids(struct as_outq *q, enum as_frame_type type, const uint64_t *ids, uint32_t n);
int as_frame_get_ids(const struct as_frame *f, uint64_t *ids, uint32_t cap, uint32_t *ret_n);

/* BATCH: the next n OPENs, of the streams first, first + 2 …, are one call of a handler. */
#define AS_FRAME_BATCH_MAX 65535u
struct as_frame_batch {
    uint64_t first; /* odd */
    uint32_t n;     /* 2 … AS_FRAME_BATCH_MAX */
};
void as_frame_put_batch(struct as_outq *q, const struct as_frame_batch *b);
int as_frame_get_batch(const struct as_frame *f, struct as_frame_batch *ret_b);

/* CANCEL: a stream, and the reason as a gRPC status (1 cancelled, 4 deadline). */
void as_frame_put_cancel(struct as_outq *q, uint64_t stream, uint32_t reason);
int as_frame_get_cancel(const struct as_frame *f, uint32_t *ret_reason);

/* CONTROL: a small request to the replica itself; the reply repeats stream and op, with REPLY. The
 * text of a request is never cut: it has at most AS_FRAME_CONTROL_TEXT bytes, which is asserted. */
enum as_control_op {
    AS_CONTROL_HEALTH = 1,
    AS_CONTROL_RECONFIGURE = 2, /* text: JSON, docs/protocol/link.md section 10 */
    AS_CONTROL_RANK = 3,
    AS_CONTROL_STATS = 4,
    AS_CONTROL_LOG_LEVEL = 5,
    AS_CONTROL_SCALING = 6 /* text: JSON, docs/protocol/link.md section 19; of a policy process */
};
struct as_frame_control {
    uint16_t op;
    bool reply;
    uint32_t code; /* reply: 0 or a gRPC status number */
    struct as_str text;
};
void as_frame_put_control(struct as_outq *q, uint64_t stream, const struct as_frame_control *c);
int as_frame_get_control(const struct as_frame *f, struct as_frame_control *ret_c);

/* OPTIONS, from a worker (flag OPTIONAL): how the dispatcher is to treat this replica. Each entry
 * overrides the server's own setting, and a later frame replaces this one. */
enum as_frame_option {
    AS_FRAME_OPT_HEALTH_PERIOD = 1, /* ns between two health checks; 0: no checks */
    AS_FRAME_OPT_HEALTH_TIMEOUT,    /* ns within which a check must be answered; not 0 */
    AS_FRAME_OPT_EXECUTION_TIMEOUT, /* ns that a handler may run; 0: no limit */
    AS_FRAME_OPT_REQUEST_TIMEOUT,   /* ns, for requests without a deadline; 0: none */
    AS_FRAME_OPT_DUMP_SIGNAL, /* signal that makes the worker print its stacks; 0: there is none */
    AS_FRAME_OPT_HEALTH_FAILURES, /* failures in a row that end the worker; at least 1 */
    AS_FRAME_OPT_MAX_QUEUED,      /* queue limit; 1 … AS_FRAME_QUEUED_MAX, or _ANY: no limit */
    AS_FRAME_OPT_IDEMPOTENT,      /* 1: requests may run twice; 0: they may not */
    AS_FRAME_OPT_PER_CALLER,      /* 1: the queue limit holds for each caller apart; 0: for all */
    AS_FRAME_OPT_BACKPRESSURE_STATUS, /* of HTTP, when the queue is full: 429 or 503 */
    AS_FRAME_OPT_BACKPRESSURE_RETRY,  /* ns, for its field retry-after */
    AS_FRAME_OPT_PRIORITY_SHARE, /* of so many calls one is for a lower priority: core/queue/share.h
                                  */
    AS_FRAME_OPT_FAIRNESS,       /* among tenants by AS_FRAME_FAIR_…; 0: off */
    AS_FRAME_OPT_CODEL_TARGET,   /* ns; 0: nothing is shed */
    AS_FRAME_OPT_CODEL_INTERVAL, /* ns; not 0 */
    AS_FRAME_OPT_SLOW_START,     /* ns in which a new replica gets all of its slots; 0: at once */
    AS_FRAME_OPT_ADAPTIVE,       /* 1: the slots in use follow the service time; 0: they do not */
    AS_FRAME_OPT_HEDGE_QUANTILE, /* in thousandths, up to 999; 0: nothing is hedged */
    AS_FRAME_OPT_HEDGE_BUDGET,   /* hedges per 1000 requests, 1 … 1000 */
    AS_FRAME_OPT_HEDGE_MIN_DELAY, /* ns */
    AS_FRAME_OPTION_END
};
#define AS_FRAME_OPTION_MAX   (86400 * (uint64_t)AS_SEC) /* maximum of the times: a day */
#define AS_FRAME_FAILURES_MAX 1000u
#define AS_FRAME_QUEUED_MAX   ((uint64_t)INT32_MAX)
#define AS_FRAME_QUEUED_ANY   UINT64_MAX
#define AS_FRAME_SHARE_LEAST  2u /* of a priority share … */
#define AS_FRAME_SHARE_MOST   1000u
enum as_frame_fair { AS_FRAME_FAIR_REQUESTS = 1, AS_FRAME_FAIR_ITEMS, AS_FRAME_FAIR_COST };
#define AS_FRAME_OPTION_ROWS 64u /* maximum entries of a frame */
struct as_frame_options {
    uint32_t has;                        /* bit 1 << key is set for each entry that is present */
    uint64_t value[AS_FRAME_OPTION_END]; /* by key; [0] is not used */
};
void as_frame_put_options(struct as_outq *q, const struct as_frame_options *o);
/* Entries with an unknown key are skipped. */
int as_frame_get_options(const struct as_frame *f, struct as_frame_options *ret_o);

/* TRAFFIC, from a worker (flag OPTIONAL): which part of the requests of other versions its
 * deployment gets, and which deployment serves its requests when it cannot. A frame replaces the
 * one before, and is sent before the first REGISTER if the worker has settings by then. Parts are
 * in units of 1/AS_FRAME_SHARE. */
#define AS_FRAME_SHARE  100000u
#define AS_FRAME_CANARY 0x1u /* flag: the deployment is a canary, also if its part is 0 */
struct as_frame_traffic {
    uint32_t flags;
    uint32_t canary, mirror; /* canary: 0 without the flag */
    struct as_str fallback;  /* name of a deployment; may be empty */
};
void as_frame_put_traffic(struct as_outq *q, const struct as_frame_traffic *t);
int as_frame_get_traffic(const struct as_frame *f, struct as_frame_traffic *ret_t);

/* PING, PONG: 8 opaque bytes. DRAIN: empty or a reason. GOODBYE: a reason. */
void as_frame_put_ping(struct as_outq *q, enum as_frame_type type, uint64_t opaque);
int as_frame_get_ping(const struct as_frame *f, uint64_t *ret_opaque);
void as_frame_put_text(struct as_outq *q, enum as_frame_type type, struct as_str text);
int as_frame_get_text(const struct as_frame *f, struct as_str *ret_text);

/* How a receiver handles a frame of this type: it is known, to be skipped (optional and unknown),
 * or to be refused. */
enum as_frame_handling { AS_FRAME_KNOWN, AS_FRAME_SKIP, AS_FRAME_REFUSE };
enum as_frame_handling as_frame_handling_of(const struct as_frame *f);
const char *as_frame_type_name(uint8_t type); /* "OPEN"; "?" when unknown */

/* The status page: written by the worker, mapped read-only by the dispatcher (a sealed memfd of
 * AS_PAGE_SIZE bytes). The offsets are part of the specification. */
#define AS_PAGE_SIZE  4096u
#define AS_PAGE_MAGIC 0x47505341u /* "ASPG" */
/* What a worker has counted since its process began, for people and benchmarks. No decision depends
 * on it; a worker that does not count leaves zeros. */
struct as_page_stat {
    uint64_t wakes;   /* returns of its threads from waiting for the link */
    uint64_t reads;   /* system calls: reads … */
    uint64_t writes;  /* … writes … */
    uint64_t waits;   /* … poll, unless another module runs the event loop … */
    uint64_t others;  /* … timers, wake-ups, changes of epoll interest */
    uint64_t calls;   /* handlers started */
    uint64_t cancels; /* CANCEL frames that found their stream */
    uint64_t live;    /* bytes held for requests and answers */
};

struct as_page {
    uint32_t magic, version;
    uint64_t last_started; /* id of the newest started stream; stored before user code runs */
    uint64_t started;      /* streams started since the page was made */
    uint64_t finished;     /* streams whose handler has returned */
    uint64_t clock;        /* CLOCK_MONOTONIC ns of the last start or finish */
    /* CLOCK_MONOTONIC ns since when the worker's only thread is inside a handler, and can do
     * nothing else, not even answer health checks; 0: it is not, or the worker does not report it.
     */
    uint64_t busy_since;
    uint8_t pad[16];
    uint32_t lock;           /* robust futex: tid|FUTEX_WAITERS while the worker lives; offset 64 */
    uint8_t worker_data[60]; /* for the worker's own use */
    struct as_page_stat stat; /* offset 128 */
};

/* A copy of the counters, which the worker may change meanwhile. */
struct as_page_stat as_page_stat_of(const struct as_page *p);

#endif
