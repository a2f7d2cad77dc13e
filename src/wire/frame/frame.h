/* wire/frame/frame.h — frames of the link between dispatcher and worker, bytes ↔ structs.
 *
 * docs/PROTOCOL.md is the specification. Every frame starts at a multiple of 64 bytes of the
 * stream: a 16-byte little-endian header, the payload, zero padding. Decoders read from memory
 * that only this process can change, check every length once, and return slices into it. All
 * integers are little-endian. Pure; no allocation on the decoding side.
 */
#ifndef AS_WIRE_FRAME_H
#define AS_WIRE_FRAME_H

#include "base/memory/arena.h"
#include "base/memory/outq.h"
#include "base/tensor.h"

#define AS_FRAME_HEADER 16u
#define AS_FRAME_ALIGN  64u
#define AS_FRAME_MAX    (1u << 20) /* payload bytes of one frame, DATA included */
#define AS_FRAME_INLINE                                                                            \
    (64u << 10)            /* a body up to this size travels inside OPEN / the first DATA */
#define AS_FRAME_FIXED 48u /* fixed part of a message, see struct as_frame_msg */
#define AS_FRAME_TABLE                                                                             \
    (512u << 10)                     /* bytes of a message's table: names, shapes, parameters, id  \
                                      */
#define AS_FRAME_TENSORS      4096u  /* tensors of a message, entries of one side of a signature */
#define AS_FRAME_PARAMS       1024u  /* parameters of a message, and as many metadata entries */
#define AS_FRAME_LABELS       65536u /* labels of an output */
#define AS_FRAME_LABEL        1024u  /* bytes of each */
#define AS_FRAME_TEXT         16384u /* bytes of a reason or error text */
#define AS_FRAME_CONTROL_TEXT 65536u /* bytes of what CONTROL asks */
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
};

/* Flags of the header. */
#define AS_FRAME_F_END      0x01u /* OPEN, DATA: the sender says nothing more on this stream */
#define AS_FRAME_F_MSG      0x02u /* DATA: starts a message (fixed part, table, inline body) */
#define AS_FRAME_F_OPTIONAL 0x80u /* a receiver that does not know the type skips the frame */

struct as_frame {
    uint8_t type;
    uint8_t flags;
    uint64_t stream; /* 0: the link itself */
    const uint8_t *p;
    uint32_t n; /* payload bytes at p */
};

/* Looks at a stream that starts at a frame boundary (p 8-byte aligned).
 * >0: bytes of the stream that the whole frame takes (ret_f is set); 0: more bytes are needed;
 * AS_EPROTO: payload over AS_FRAME_MAX or reserved bits set. */
int64_t as_frame_next(const uint8_t *p, size_t n, struct as_frame *ret_f);
/* The same as soon as the 16 header bytes are there: ret_f->p points behind the header, where the
 * payload may still be missing (n < the result). For a reader that takes bodies as they come. */
int64_t as_frame_peek(const uint8_t *p, size_t n, struct as_frame *ret_f);

/* A message: request tensors inside OPEN, response tensors inside DATA|MSG.
 * Body layout: each tensor starts at a multiple of 64 within the body, in table order.
 * body_len <= AS_FRAME_INLINE: the body follows the table, at the next multiple of 64 from the
 * start of the frame. Longer: it follows in DATA frames of the same stream, raw bytes in order,
 * the last of them flagged END. */
struct as_frame_msg {
    uint8_t kind;     /* AS_FRAME_TENSOR; OPEN only */
    uint8_t priority; /* OPEN only; 0 is the most urgent */
    uint32_t target;  /* OPEN only; number from REGISTERED */
    uint64_t timeout; /* OPEN only; ns left, 0: no deadline */
    uint64_t service; /* DATA only; ns that the handler ran, 0: not measured */
    uint32_t ended;   /* DATA only; as_frame_moment of the handler's end, 0: not measured */
    bool more;        /* encoder: the sender's side of the stream goes on behind it: no END */
    bool input;       /* encoder: a DATA for a worker, with the id of its request */
    uint64_t body_len;
    struct as_str id; /* OPEN, and DATA for a worker; the client's request id, may be empty */
    uint32_t n_tensors, n_params, n_meta;
    struct as_tensor_params tensor_params; /* in the order of the tensors */
    struct as_str table;                   /* its bytes as they came */
    const uint8_t *body; /* inline body (body_len bytes), NULL when it follows in DATA frames */
};

/* A moment of CLOCK_MONOTONIC, which all processes of a machine share, in 32 bits: units of 1024
 * ns, never 0. And the ns from such a moment to `now`: 0 where it is unknown or seems to be ahead
 * (the reader's clock is looked at once for many frames); wrong when it is over half an hour ago.
 */
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

/* Decodes OPEN or DATA|MSG: checks the fixed part, walks the whole table once, checks that the
 * tensors lie in the body as described above (no gap, no overlap), that each dtype is known, that
 * fixed-size dtypes have exactly shape × size bytes and BYTES at least 4 per element, that tensor
 * names are there, are UTF-8 and are given once. The elements of BYTES are not walked.
 * A scalar has ndim 0; zero elements have zero bytes; zero tensors are a message too.
 * Arrays are taken from the arena; slices point into f and, for inline bodies, tensor data too.
 * With a body that follows in DATA frames tensor data is its offset until as_frame_msg_set_body.
 * body_len is below 2^63; that it is acceptable is the caller's to check.
 * 0, AS_EPROTO with a reason in `why` (static text), AS_ENOMEM. */
int as_frame_get_msg(const struct as_frame *f, struct as_arena *a, struct as_frame_msg *ret_m,
                     struct as_msg *ret_msg, const char **ret_why);
/* Points the tensors of a decoded message at the place where the body is being put together. */
void as_frame_msg_set_body(const struct as_frame_msg *m, struct as_msg *msg, const uint8_t *body);

/* Bytes of the body that these tensors make: each aligned to 64, the last one not padded.
 * UINT64_MAX on overflow. */
uint64_t as_frame_body_len(const struct as_tensor *t, uint32_t n);

/* Writes an OPEN (type OPEN) or a response (type DATA; MSG is added) with everything of `msg`.
 * Body bytes: tensors of at most AS_COPY_MAX bytes are copied, larger ones are referenced when
 * `owner` is given (tensor data then lies in owner->data), copied otherwise. Sets END on the last
 * frame unless there is `more`. fixed: kind, priority, target, timeout, service, ended, more,
 * input, tensor_params (only for a peer that says AS_CAP_TENSOR_PARAMS) are taken from here; a
 * response carries no id. 0, or AS_ETOOBIG with nothing written: the table or a count is over its
 * limit above, a name is longer than 65535 bytes, or the body is 2^63 bytes or more. */
#define AS_COPY_MAX 8192u
int as_frame_put_msg(struct as_outq *q, enum as_frame_type type, uint64_t stream,
                     const struct as_frame_msg *fixed, const struct as_msg *msg,
                     struct as_blob *owner);

/* What a message costs of a stream's credit: bytes of its table and its body, as its fixed part
 * says them. `id`: it travels with its id. Only for messages that as_frame_put_msg takes. */
uint64_t as_frame_msg_cost(const struct as_msg *msg, const struct as_tensor_params *params,
                           bool id);

/* The other frames. Encoders append to q and cut texts at AS_FRAME_TEXT; decoders return 0 or
 * AS_EPROTO. Slices of decoded structs point into f. Texts are any bytes. */
#define AS_ERROR_F_RETRY   0x1u /* the same request may be sent to another replica */
#define AS_ERROR_F_STARTED 0x2u /* user code has run */
struct as_frame_error {
    uint32_t code; /* gRPC status number, 1…16 */
    uint32_t flags;
    uint64_t service; /* ns that the handler ran, 0: not measured or not started */
    struct as_str message;
};
void as_frame_put_error(struct as_outq *q, uint64_t stream, const struct as_frame_error *e);
int as_frame_get_error(const struct as_frame *f, struct as_frame_error *ret_e);

struct as_frame_hello {
    uint16_t lo, hi;       /* protocol versions; in the answer both are the chosen one */
    uint64_t capabilities; /* AS_CAP_… ; the answer holds those that both know */
    uint64_t epoch;       /* answer: assigned by the dispatcher; worker: 0 or the last one it had */
    uint64_t max_message; /* bytes of a body that this side accepts */
    uint32_t pid;         /* for messages only; identity comes from the kernel */
    struct as_str token, replica, deployment, peer; /* peer: free text, "anyserve-python 0.1.0" */
};
#define AS_CAP_RECALL        0x1u
#define AS_CAP_CANCEL        0x2u
#define AS_CAP_PAGE          0x4u  /* HELLO carries the descriptor of a status page */
#define AS_CAP_MOVE          0x8u  /* MOVE: the worker connects once more, and serves both links */
#define AS_CAP_TENSOR_PARAMS 0x10u /* messages may have parameters of single tensors */
/* Each string at most AS_FRAME_NAME bytes (peer is cut, the others are the caller's to check). */
void as_frame_put_hello(struct as_outq *q, const struct as_frame_hello *h);
int as_frame_get_hello(const struct as_frame *f, struct as_frame_hello *ret_h);

/* Requests of the model may share a call of its handler. What makes sense is the receiver's to
 * check. */
#define AS_FRAME_PREFERRED 16u
struct as_frame_batching {
    uint32_t max_size; /* items of one call; 0: no batching, and the rest is zero */
    uint64_t max_wait; /* ns */
    bool ragged;
    uint32_t n_preferred;
    uint32_t preferred[AS_FRAME_PREFERRED];
};

/* REGISTER: one model. Options of the deployment repeat in each and must agree. */
struct as_frame_register {
    uint32_t model; /* the worker's own number, echoed in REGISTERED */
    struct as_str name, version, platform;
    uint32_t max_ongoing; /* cap of this model, 1…65535 */
    bool idempotent;
    bool decoupled;               /* answers with any number of messages */
    bool streams_inputs;          /* takes any number of messages; only with decoupled */
    bool has_inputs, has_outputs; /* false: no declared signature on that side */
    int64_t max_queued;           /* deployment: -1 unlimited, 0 not set, else 1… */
    uint32_t budget;              /* deployment: slots of a replica, 1…65535 */
    struct as_frame_batching batching;
    uint32_t n_inputs, n_outputs;
    const struct as_tensor_spec *inputs, *outputs;
};
/* 0, or AS_ETOOBIG with nothing written: a name over 65535 bytes, more than AS_FRAME_TENSORS
 * entries on a side, more or longer labels than above, or a frame over AS_FRAME_MAX. The decoder
 * takes labels of outputs only: UTF-8 without NUL and ends of lines. */
int as_frame_put_register(struct as_outq *q, const struct as_frame_register *r);
int as_frame_get_register(const struct as_frame *f, struct as_arena *a,
                          struct as_frame_register *ret_r, const char **ret_why);

struct as_frame_registered {
    uint32_t model;
    uint32_t target; /* for OPEN; meaningless on refusal */
    uint32_t code;   /* 0 or a gRPC status number */
    struct as_str message;
};
void as_frame_put_registered(struct as_outq *q, const struct as_frame_registered *r);
int as_frame_get_registered(const struct as_frame *f, struct as_frame_registered *ret_r);

/* CREDIT of the link (stream 0, from a worker): slots and prefetch are absolute grants. CREDIT of a
 * stream (either way): so many messages and bytes more; slots and prefetch are 0. */
struct as_frame_credit {
    uint32_t slots, prefetch, messages;
    uint64_t bytes;
};
#define AS_FRAME_CREDIT_MESSAGES (1u << 20)          /* of a stream at any time: */
#define AS_FRAME_CREDIT_BYTES    ((uint64_t)1 << 40) /* more is refused */
void as_frame_put_credit(struct as_outq *q, uint64_t stream, const struct as_frame_credit *c);
int as_frame_get_credit(const struct as_frame *f, struct as_frame_credit *ret_c);

/* What one side of a stream may still send. A message may begin while both are above 0; it takes
 * one message and its cost in bytes, so that bytes may fall below 0 by one message. */
struct as_frame_window {
    int64_t messages, bytes;
};
static inline bool as_frame_window_is_open(const struct as_frame_window *w)
{
    return w->messages > 0 && w->bytes > 0;
}
/* A stream's CREDIT has come: 0, or AS_EPROTO: it grants slots, or more than the limits above. */
int as_frame_window_add(struct as_frame_window *w, const struct as_frame_credit *c);
static inline void as_frame_window_consume(struct as_frame_window *w, uint64_t cost)
{
    w->messages--;
    w->bytes -= (int64_t)cost;
}

/* END: the sender's side of a stream of messages is over. service: as in a message. */
void as_frame_put_end(struct as_outq *q, uint64_t stream, uint64_t service);
int as_frame_get_end(const struct as_frame *f, uint64_t *ret_service);

/* RECALL and RETURNED: 0…AS_FRAME_IDS stream ids, in stream order. More ids make more frames.
 * The decoder refuses a frame with more than `cap` ids. */
#define AS_FRAME_IDS 1024u
void as_frame_put_ids(struct as_outq *q, enum as_frame_type type, const uint64_t *ids, uint32_t n);
int as_frame_get_ids(const struct as_frame *f, uint64_t *ids, uint32_t cap, uint32_t *ret_n);

/* BATCH: the next n OPENs, which are of streams first, first + 2 …, are one call of a handler. */
#define AS_FRAME_BATCH_MAX 65535u
struct as_frame_batch {
    uint64_t first; /* odd */
    uint32_t n;     /* 2 … AS_FRAME_BATCH_MAX */
};
void as_frame_put_batch(struct as_outq *q, const struct as_frame_batch *b);
int as_frame_get_batch(const struct as_frame *f, struct as_frame_batch *ret_b);

/* CANCEL: stream, reason as gRPC status (1 cancelled, 4 deadline). */
void as_frame_put_cancel(struct as_outq *q, uint64_t stream, uint32_t reason);
int as_frame_get_cancel(const struct as_frame *f, uint32_t *ret_reason);

/* CONTROL: a small request to the replica itself; the reply repeats stream and op with REPLY. The
 * text of a request is never cut: at most AS_FRAME_CONTROL_TEXT bytes, asserted. */
enum as_control_op {
    AS_CONTROL_HEALTH = 1,
    AS_CONTROL_RECONFIGURE = 2, /* text: JSON, docs/PROTOCOL.md section 10 */
    AS_CONTROL_RANK = 3,
    AS_CONTROL_STATS = 4,
    AS_CONTROL_LOG_LEVEL = 5
};
struct as_frame_control {
    uint16_t op;
    bool reply;
    uint32_t code; /* reply: 0 or gRPC status number */
    struct as_str text;
};
void as_frame_put_control(struct as_outq *q, uint64_t stream, const struct as_frame_control *c);
int as_frame_get_control(const struct as_frame *f, struct as_frame_control *ret_c);

/* OPTIONS, from a worker (flag OPTIONAL): what the dispatcher shall do with this replica. Each
 * entry takes the place of the server's own setting, and a later frame that of this one. */
enum as_frame_option {
    AS_FRAME_OPT_HEALTH_PERIOD = 1, /* ns between two health checks; 0: none */
    AS_FRAME_OPT_HEALTH_TIMEOUT,    /* ns that the answer to one may take; not 0 */
    AS_FRAME_OPT_EXECUTION_TIMEOUT, /* ns that a handler may run; 0: for ever */
    AS_FRAME_OPT_REQUEST_TIMEOUT,   /* ns, of requests that bring no deadline; 0: none */
    AS_FRAME_OPT_DUMP_SIGNAL, /* that makes the worker print where its threads are; 0: there is none
                               */
    AS_FRAME_OPT_HEALTH_FAILURES, /* in a row, that end the worker; 1 … AS_FRAME_FAILURES_MAX */
    AS_FRAME_OPT_MAX_QUEUED, /* requests that may wait; 1 … AS_FRAME_QUEUED_MAX, or _ANY: no limit
                              */
    AS_FRAME_OPT_IDEMPOTENT, /* requests may run twice: 1; 0: they may not */
    AS_FRAME_OPTION_END
};
#define AS_FRAME_OPTION_MAX   (86400 * (uint64_t)AS_SEC) /* of the times: a day */
#define AS_FRAME_FAILURES_MAX 1000u
#define AS_FRAME_QUEUED_MAX   ((uint64_t)INT32_MAX)
#define AS_FRAME_QUEUED_ANY   UINT64_MAX
#define AS_FRAME_OPTION_ROWS  64u /* entries of a frame */
struct as_frame_options {
    uint32_t has;                        /* 1 << key of each that is there */
    uint64_t value[AS_FRAME_OPTION_END]; /* by key; [0] is nothing */
};
void as_frame_put_options(struct as_outq *q, const struct as_frame_options *o);
/* Entries with a key that we do not know are passed over. */
int as_frame_get_options(const struct as_frame *f, struct as_frame_options *ret_o);

/* TRAFFIC, from a worker (flag OPTIONAL): what its deployment gets of other versions' requests, and
 * who gets its own. It takes the place of the one before, and is sent before the first REGISTER
 * where the worker has something to say then. Parts are in units of 1/AS_FRAME_SHARE. */
#define AS_FRAME_SHARE  100000u
#define AS_FRAME_CANARY 0x1u /* flag: it is one, also when its part is 0 */
struct as_frame_traffic {
    uint32_t flags;
    uint32_t canary, mirror; /* canary: 0 without the flag */
    struct as_str fallback;  /* a deployment; may be empty */
};
void as_frame_put_traffic(struct as_outq *q, const struct as_frame_traffic *t);
int as_frame_get_traffic(const struct as_frame *f, struct as_frame_traffic *ret_t);

/* PING, PONG: 8 opaque bytes. DRAIN: empty or a reason. GOODBYE: reason text. */
void as_frame_put_ping(struct as_outq *q, enum as_frame_type type, uint64_t opaque);
int as_frame_get_ping(const struct as_frame *f, uint64_t *ret_opaque);
void as_frame_put_text(struct as_outq *q, enum as_frame_type type, struct as_str text);
int as_frame_get_text(const struct as_frame *f, struct as_str *ret_text);

/* What a receiver does with a type: known, skip (optional and unknown), or refuse. */
enum as_frame_handling { AS_FRAME_KNOWN, AS_FRAME_SKIP, AS_FRAME_REFUSE };
enum as_frame_handling as_frame_handling_of(const struct as_frame *f);
const char *as_frame_type_name(uint8_t type); /* "OPEN"; "?" when unknown */

/* The status page: written by the worker, mapped read-only by the dispatcher (a sealed memfd of
 * AS_PAGE_SIZE bytes). Offsets are fixed by the specification. */
#define AS_PAGE_SIZE  4096u
#define AS_PAGE_MAGIC 0x47505341u /* "ASPG" */
/* What a worker counts since its process began: for people and benchmarks. Nothing is decided by
 * it; a worker that does not count leaves zeros. */
struct as_page_stat {
    uint64_t wakes;   /* times that one of its threads came back from waiting for the link */
    uint64_t reads;   /* system calls: bytes in … */
    uint64_t writes;  /* … bytes out … */
    uint64_t waits;   /* … poll, where the event loop is not somebody else's … */
    uint64_t others;  /* … timers, wake-ups, interest in a descriptor */
    uint64_t calls;   /* handlers started */
    uint64_t cancels; /* CANCEL frames that found their stream */
    uint64_t live;    /* bytes held for requests and answers */
};

struct as_page {
    uint32_t magic, version;
    uint64_t
        last_started;  /* stream id of the newest started stream; stored before user code runs */
    uint64_t started;  /* streams started since the page was made */
    uint64_t finished; /* streams whose handler has returned */
    uint64_t clock;    /* CLOCK_MONOTONIC ns of the last start or finish */
    /* CLOCK_MONOTONIC ns since when the worker's one thread is inside code that nothing else can be
     * done beside, health checks included; 0: it is not, or the worker does not tell. */
    uint64_t busy_since;
    uint8_t pad[16];
    uint32_t lock;           /* robust futex: tid|FUTEX_WAITERS while the worker lives, offset 64 */
    uint8_t worker_data[60]; /* the worker's */
    struct as_page_stat stat; /* offset 128 */
};

/* A copy of what the worker writes meanwhile. */
struct as_page_stat as_page_stat_of(const struct as_page *p);

#endif
