/* link/worker/worker_internal.h — what the worker_*.c files share. Private to link/worker.
 *
 * One mutex (`mu`) guards everything in struct as_worker, except where a comment says otherwise. It
 * is held for one batch of frames at most, never while waiting, and never while the caller's code
 * runs. The runner is the thread that connected; the guard is an internal thread that serves the
 * socket while the runner is inside a handler.
 *
 *   worker_conf.c        creation: the configuration and the models, checked and copied
 *   worker_locate.c      finding the server that runs on this machine
 *   worker_conn.c        connecting, the end of a link, freeing the worker
 *   worker_socket.c      the socket of a link: the transport at this end
 *   worker_handover.c    a second link, while another dispatcher takes over
 *   worker_receive.c     bytes in: buffers, frame boundaries, bodies
 *   worker_frame.c       handling each frame
 *   worker.c             requests: starting, answering, their lists and memory
 *   worker_table.c       finding what is open by its stream
 *   worker_stream.c      requests with several messages: parts, inputs, credit for both
 *   worker_call.c        calling a handler, and building its answer
 *   worker_run.c         the main loop: connects, runs handlers (here or in threads), drains
 *   worker_guard.c       who serves the socket: the runner, the event loop or the guard; bytes out
 *   worker_admin.c       CONTROL (health checks, reconfiguration) and OPTIONS
 *   worker_traffic.c     TRAFFIC: canary, mirror and fallback of the deployment; ROUTER
 *   worker_local_call.c  requests that the program itself makes, without a server
 *   worker_http.c        requests of HTTP: heads, bodies, answers
 *   worker_ws.c          websockets: messages in both directions
 *   worker_body.c        requests that are calls: their bodies, and answers to them
 *   worker_out.c         calls that the program opens: sending them; worker_out.h is their header
 *   worker_out_pool.c    their memory, and finding them by stream
 *   worker_out_read.c    their answers: reading, waiting, news
 *   worker_out_frame.c   frames of their streams
 *   worker_report.c      TARGET and REPORT
 *   worker_policy.c      POLICY: records for a policy process, and its answers
 */
#ifndef AS_LINK_WORKER_INTERNAL_H
#define AS_LINK_WORKER_INTERNAL_H

#include "base/err.h"
#include "base/container/list.h"
#include "base/memory/live.h"
#include "base/memory/pages.h"
#include "link/page.h"
#include "link/transport/transport.h"
#include "link/worker/worker_out.h"
#include "wire/frame/frame_reader.h"
#include "wire/frame/frame_router.h"

#include <anyserve/worker.h>
#include <pthread.h>
#include <time.h>

#define AS_WORKER_RUNNER_LATE AS_MS         /* without a step for this long, the runner is late */
#define AS_WORKER_GRACE       (300 * AS_US) /* an event loop reads its socket within this time */
#define AS_WORKER_PUBLISH_BYTES                                                                    \
    (64u << 10) /* more output than this is sent at once, and does not wait for the end of the     \
                 * turn */
#define AS_WORKER_PART_QUIET (100 * AS_US) /* a part after such a pause is sent at once */
#define AS_WORKER_READ_MAX_AGE                                                                     \
    (100 * AS_US)                     /* before a start, the socket was read this recently         \
                                       */
#define AS_WORKER_RX_CAP (256u << 10) /* bytes of one receive buffer */
#define AS_WORKER_RX_SPARE                                                                         \
    64u                                   /* buffers kept for reuse; when all are referred to,     \
                                           * bodies are copied out of the buffers */
#define AS_WORKER_RETRY_MAX (250 * AS_MS) /* longest pause between attempts to connect */
#define AS_WORKER_ARENA     768u          /* bytes of a request's arrays that need no heap */

enum as_worker_state {
    AS_WORKER_DOWN,     /* not connected */
    AS_WORKER_GREETING, /* HELLO and REGISTER were sent */
    AS_WORKER_LIVE,     /* slots were granted */
};

/* Requests that start together and take one slot; it lives as long as any of them. */
struct as_worker_batch {
    uint32_t n_open;     /* its requests that have come and not ended */
    uint32_t n_expected; /* OPENs that are still to come */
};

struct as_worker_req {
    struct as_list node;          /* in waiting, running, or the pool */
    struct as_worker_entry entry; /* in link->started */
    struct as_list cancelled;     /* in as_worker.cancelled: not reported yet */
    struct as_worker_link *link;  /* that it came on; NULL: a local call … */
    uint64_t stream, link_number; /* … and link->number then */
    uint32_t model;
    struct as_worker_batch *batch; /* NULL: not in a batch */
    bool complete;                 /* the whole body is here */
    atomic_uint cancel;            /* 0, or why nobody waits for it, as gRPC status */
    as_ns deadline, started_at;
    struct as_msg msg;
    struct as_tensor_params tensor_params; /* of its inputs */
    struct as_tensor_params output_params; /* of the outputs of the next message of the answer */
    struct as_blob *head;                  /* holds the frame */
    struct as_blob *body;                  /* holds the tensors' bytes; may be the same blob */
    uint64_t body_received;                /* bytes of a body in frames of its own */
    uint64_t body_len;
    void *data;                              /* the caller's */
    struct as_worker_local_call *local_call; /* NULL: the server sent it */
    /* --- requests with several messages --- */
    struct as_frame_window part_credit;  /* what we may send */
    struct as_frame_window input_credit; /* what the server may still send … */
    struct as_frame_window owed_credit;  /* … and what was used up and not granted again */
    struct as_list inputs;               /* complete ones */
    struct as_worker_req *partial_input; /* one whose body is being received */
    bool inputs_over;
    bool is_input; /* it is an input, not a request */
    bool orphan;   /* an input whose request ended while its body was being received */
    uint64_t cost; /* of an input: how much credit it used */
    /* --- requests of HTTP: their inputs are the parts of the body; messages are not counted --- */
    bool is_http;
    bool is_websocket;           /* it opens a websocket … */
    bool ws_accepted;            /* … which was accepted */
    uint32_t ws_opcode, ws_code; /* of an input that is a message of one; 0: it is none */
    bool answer_begun;           /* the head of the answer was sent */
    struct as_worker_http *http; /* the head; NULL: it was dropped */
    /* --- calls --- */
    bool is_call;                     /* its body is call_body, and it has no tensors */
    bool streams;                     /* the caller takes any number of messages */
    bool beyond;                      /* it takes no slot */
    bool call_inputs;                 /* further messages follow */
    struct as_body call_body;         /* once it is complete … */
    const uint8_t *call_bytes;        /* … from here */
    struct as_worker_out *out;        /* it is a message of this call; NULL: it is not */
    struct as_worker_family children; /* the calls that its handler has opened */
    struct as_list ready;             /* in as_worker.ready */
    unsigned awaits;                  /* enum as_worker_want: what the event loop waits for … */
    unsigned ready_for;               /* … and what has become available */
    struct as_arena arena;
    uint8_t first[AS_WORKER_ARENA] __attribute__((aligned(16)));
};

/* A model. */
struct as_worker_served_model {
    struct as_frame_register reg;
    uint32_t cap;     /* most calls at once; UINT32_MAX: only the slots limit them */
    uint32_t running; /* calls now */
    as_worker_handler handler;
    void *ctx;
};

struct as_worker_rx {
    struct as_frame_reader reader;
    struct as_blob *buf;        /* the reader's buffer */
    struct as_worker_req *into; /* a DATA payload is read straight into its body … */
    size_t into_n;              /* … which has so many bytes */
    struct as_blob *spare[AS_WORKER_RX_SPARE];
    uint32_t n_spare;
    bool pinned;  /* every spare buffer is referred to */
    bool drained; /* the last read emptied the socket */
};

struct as_worker_socket {
    struct as_transport transport;
    struct as_worker *worker;
    bool want_write; /* event loop: ep_fd waits for room in the socket */
};

struct as_worker_link {
    enum as_worker_state state;
    struct as_transport *transport; /* &socket.transport */
    struct as_worker_socket socket;
    uint64_t number;           /* changes when the link ends: later answers are dropped */
    atomic_bool tensor_params; /* the dispatcher takes parameters of single tensors */
    _Atomic uint64_t peer_max; /* largest body of an answer that the dispatcher accepts, bytes */
    bool greeted;              /* HELLO was answered */
    bool is_second;            /* greeting, beside a link that is live (handover) */
    struct as_worker_rx rx;
    struct as_outq out;
    struct as_page_writer page;
    uint32_t *targets; /* of each model: its number in OPEN, from REGISTERED */
    bool *registered;  /* of each model */
    uint32_t n_registered;
    int refusal;            /* AS_E… of a refused greeting; 0: none */
    bool wait_pong;         /* our DRAIN has not been answered by a PONG */
    uint32_t max_granted;   /* most slots that were ever granted: such OPENs may be on their way */
    struct as_list waiting; /* requests that are not started, in stream order */
    uint32_t n_waiting;
    struct as_worker_table started; /* requests of this link in `running` that are awaited */
    uint32_t n_open;                /* requests that are not ended */
    uint32_t n_packed;              /* of these, how many take no slot, being in a batch … */
    uint32_t n_beyond;              /* … or beyond the slots */
    struct as_worker_batch *batch;  /* the one whose OPENs are coming, or NULL */
    uint64_t batch_next;            /* stream of the next of these */
    uint64_t top_stream;            /* highest stream so far */
    uint32_t last_target;           /* index of the model of the last OPEN */
    struct as_worker_callers calls;
};

struct as_worker {
    pthread_mutex_t mu;
    struct as_arena arena;      /* copies of the configuration */
    struct as_worker_conf conf; /* with defaults; path NULL: looked up at each connect */
    struct {
        char path[AS_WORKER_PATH], token[AS_WORKER_TOKEN];
    } located;                     /* by the last lookup */
    struct as_frame_window inputs; /* input credit of one stream, from conf */
    struct as_worker_served_model *models;
    uint32_t n_models;
    uint32_t slots;                  /* calls at once: from conf, or from the options */
    bool capped;                     /* some model's cap is below the slots of conf */
    bool models_fixed;               /* it has connected: no model can be added */
    atomic_bool stop_requested;      /* as_worker_stop */
    struct as_frame_options options; /* sent to the server */
    struct as_frame_traffic traffic; /* sent to the server … */
    char fallback[AS_FRAME_NAME];    /* … and its text */
    struct as_frame_router router;   /* sent to the server, if it was set */
    bool has_router;                 /* as_worker_set_router was called */
    struct as_buf services;          /* the frame SERVICES; empty: none */
    struct as_list asks;             /* CONTROLs that wait for the runner */
    atomic_uint n_asks;              /* how many as_worker_next_ask may take: 0 or n_queued_asks */
    uint32_t n_queued_asks;          /* in `asks` */
    bool ask_in_progress;            /* one is being answered by the caller */
    struct {
        struct as_list queue;   /* of POLICY records that were not taken */
        atomic_uint n;          /* how many … */
        size_t bytes;           /* … and their bytes */
        struct as_buf greeting; /* records for each new link */
        bool takes;             /* as_worker_next_policy was called */
    } policy;
    uint32_t health;       /* gRPC status that answers health checks … */
    char health_text[256]; /* … with this text */

    /* --- links: one, and a second one during a handover (worker_handover.c) --- */
    struct as_worker_link links[2];
    struct as_worker_link *newest;
    uint64_t n_links;               /* links so far */
    uint64_t epoch;                 /* from the dispatcher's last HELLO */
    struct as_page_stat stat;       /* for all links; published when the runner is idle or late */
    bool draining;                  /* no new requests: we or the dispatcher sent DRAIN */
    bool link_lost;                 /* the runner must be told that the last link has ended */
    atomic_bool handover_requested; /* MOVE was received: the runner opens a second link */
    char error[512];

    /* --- requests; those that wait are in their link --- */
    struct as_list running;
    struct as_list cancelled;
    struct as_list ready; /* for an event loop: what they wait for is available */
    struct as_list pool;
    uint32_t n_running, n_pool;
    uint32_t n_busy; /* slots in use, on both links; a batch uses one */

    /* --- calls that the program opens (worker_out.h) --- */
    struct as_list outs;   /* all that are not in the pool */
    struct as_list unsent; /* without a parent, in the order in which they were opened */
    struct as_list news;   /* for as_worker_next_news … */
    atomic_uint n_news;    /* … and how many */
    bool takes_news;       /* as_worker_next_news was called */
    uint32_t n_calls;      /* that wait to be sent, or are open and not cancelled */
    struct as_list out_pool;
    uint32_t n_out_pool;
    struct as_frame_target *targets; /* by number */
    uint32_t n_targets, cap_targets;
    struct {
        struct as_blob *text; /* NULL: there is no report of this kind */
        size_t n;
    } reports[AS_WORKER_REPORT_END];
    /* as_worker_run with one thread: executes a request beyond the slots, if there is one, while
     * the runner waits for a call. Without the lock; false: there was none. */
    bool (*run_nested)(struct as_worker *w, void *ctx);
    void *nested_ctx;

    /* --- who serves the socket (worker_guard.c) --- */
    pthread_t runner;
    pthread_cond_t changed; /* wakes threads that wait for credit, inputs or a cancel … */
    uint32_t n_awaiting;    /* … and how many there are */
    as_ns sent_at;          /* last write of a part */
    as_ns runner_seen;      /* last step of the runner */
    as_ns recent_clock;     /* a clock reading that the next start may use; 0: none */
    as_ns last_fresh_start; /* last start after the socket was read */
    bool was_read;          /* the socket was read since */
    bool parked;            /* the runner sleeps in as_worker_wait, and reads when it wakes */
    bool event_loop;        /* the runner uses as_worker_fd */
    bool armed;             /* the guard's timer is set */
    atomic_bool woken;      /* wake_fd was written and not read yet */
    int wake_fd, ep_fd, timer_fd;
    int guard_fd;    /* an eventfd that wakes the guard: stop_requested, or … */
    bool guard_over; /* … it is to end */
    pthread_t guard;
    bool forked;
};

/* The links in the order in which their requests are started: the older one first. */
static inline struct as_worker_link *as_worker_link_at(struct as_worker *w, int i)
{
    return i ? w->newest : &w->links[w->newest == &w->links[0]];
}
#define AS_WORKER_LINKS(w, l) for (struct as_worker_link *l = (w)->links; l < (w)->links + 2; l++)

/* Whether the link that the request came on still exists. True for local calls. */
static inline bool as_worker_is_awaited(const struct as_worker_req *q)
{
    return !q->link || q->link->number == q->link_number;
}
/* q->output_params, if the server takes them. */
static inline struct as_tensor_params as_worker_output_params(const struct as_worker_req *q)
{
    return q->output_params.n && q->link && q->link->tensor_params ? q->output_params
                                                                   : (struct as_tensor_params){0};
}
static inline bool as_worker_connected(const struct as_worker *w)
{
    return as_transport_is_open(w->links[0].transport) ||
           as_transport_is_open(w->links[1].transport);
}
static inline uint32_t as_worker_waiting(const struct as_worker *w)
{
    return w->links[0].n_waiting + w->links[1].n_waiting;
}
static inline bool as_worker_is_driver(const struct as_worker *w)
{
    return w->conf.flags & AS_WORKER_DRIVER;
}
/* The link has one open request less. */
static inline void as_worker_count_closed(struct as_worker_link *l, const struct as_worker_req *q)
{
    l->n_open--;
    l->n_beyond -= q->beyond;
}
static inline bool as_worker_has_out(const struct as_worker *w)
{
    return w->links[0].out.bytes || w->links[1].out.bytes;
}

/* Whether the caller has the only reference. Then no other can appear. */
static inline bool as_worker_blob_unshared(const struct as_blob *b)
{
    return atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}

/* --- worker_conf.c --- */

/* Copies a public struct, whose first member is its size, and sets members that an older header
 * lacks to 0. False: the size is wrong, or it sets members that this library does not know. */
bool as_worker_copy_struct(void *to, size_t known, const void *from);

/* --- worker_locate.c --- */

/* As as_worker_locate, with the token in that file. */
int as_worker_locate_as(const char *token_name, const char *runtime_dir, uint32_t port,
                        char ret_path[AS_WORKER_PATH], char ret_token[AS_WORKER_TOKEN]);

/* --- worker_call.c --- */

/* Runs handlers in one thread, and reuses memory between them. */
struct as_worker_executor;
struct as_worker_executor *as_worker_executor_new(struct as_worker *w);
void as_worker_executor_free(struct as_worker_executor *h);
/* Calls the handler with q and the other requests of its batch, and answers them all. */
void as_worker_execute(struct as_worker_executor *h, struct as_worker_req *q);

/* All functions below are called with the lock held, unless a comment says otherwise. */

/* --- worker.c --- */

struct as_worker_req *as_worker_req_get(struct as_worker *w,
                                        struct as_worker_link *l);    /* l may be NULL */
void as_worker_req_put(struct as_worker *w, struct as_worker_req *q); /* it is in no list */
/* Removes the request from its batch. True: its slot is free, since it was the last or in none. */
bool as_worker_leave_batch(struct as_worker *w, struct as_worker_req *q);
bool as_worker_has_startable(const struct as_worker *w);
/* As as_worker_next, but only requests beyond the slots. Without the lock. */
struct as_worker_req *as_worker_next_beyond(struct as_worker *w);
/* Marks a running request as cancelled. */
void as_worker_req_cancel(struct as_worker *w, struct as_worker_req *q, uint32_t reason);
/* The answer of q is in the output queue: frees q, and sends or schedules the output. Releases the
 * lock. */
void as_worker_finish_req(struct as_worker *w, struct as_worker_req *q, as_ns now);
/* A message that is to be sent. The tensors of a large one are copied, so that this is done without
 * the lock. */
#define AS_WORKER_FEW_TENSORS 8u
struct as_worker_outgoing {
    const struct as_msg *msg; /* the caller's, or its copy, `large` */
    struct as_blob *owner;    /* holds the bytes of the copy; NULL: the message is small */
    struct as_msg large;
    struct as_tensor *tensors; /* of `large`; `few` or of the heap */
    struct as_tensor few[AS_WORKER_FEW_TENSORS];
};
/* Without the lock. 0; AS_ETOOBIG: the dispatcher would refuse it; AS_ENOMEM. */
int as_worker_outgoing_init(struct as_worker_outgoing *o, const struct as_worker_req *q,
                            const struct as_msg *msg);
void as_worker_outgoing_fini(struct as_worker_outgoing *o); /* of an initialised one */
/* Copies all tensors into one new blob; t[] receives the copies. NULL: out of memory. */
struct as_blob *as_worker_copy_tensors(const struct as_msg *msg, struct as_tensor *t, uint64_t len);
/* Copies the counters to the pages of all links. */
static inline void as_worker_publish_stat(struct as_worker *w)
{
    AS_WORKER_LINKS(w, l)
    {
        if (l->page.page)
            as_page_publish_stat(&l->page, &w->stat);
    }
}
/* Since `now` the runner is inside a handler; 0: it is not. On the pages of all links. */
static inline void as_worker_set_held(struct as_worker *w, as_ns now)
{
    AS_WORKER_LINKS(w, l) as_page_set_held(&l->page, now);
}
void as_worker_count_memory(struct as_worker *w); /* updates stat.live */
void as_worker_put_error(struct as_worker_link *l, uint64_t stream, uint32_t code, uint32_t flags,
                         const char *text);

/* --- worker_conn.c --- */

/* Frees the worker, when no thread and no request is left. Without the lock. */
void as_worker_destroy(struct as_worker *w);
void as_worker_drain_locked(struct as_worker *w); /* as_worker_drain */
/* Ends a link. `why` becomes the worker's error, unless it has one already. */
void as_worker_close_link(struct as_worker *w, struct as_worker_link *l, const char *why);
/* The greeting is complete: grants the slots. */
void as_worker_go_live(struct as_worker *w, struct as_worker_link *l);
/* Connects a link that is down, and sends HELLO and REGISTER. */
int as_worker_open_link(struct as_worker *w, struct as_worker_link *l);
void as_worker_set_error(struct as_worker *w, struct as_str text);

/* --- worker_socket.c --- */

void as_worker_socket_init(struct as_worker_socket *s, struct as_worker *w);
/* Connects to the dispatcher's socket. 0, or AS_E…; the worker's error says why. */
int as_worker_socket_open(struct as_worker_socket *s, const char *path);

/* --- worker_handover.c --- */

/* After MOVE, in the runner's thread: opens the second link. */
void as_worker_handover_start(struct as_worker *w);
/* Whether everything has come that the server sends before a link is used. */
bool as_worker_is_greeted(const struct as_worker *w, const struct as_worker_link *l);
/* The second link was read: completes its greeting if that is possible. */
void as_worker_handover_step(struct as_worker *w, struct as_worker_link *l);

/* --- worker_receive.c --- */

/* Reads what the sockets have and handles it; may end links. */
void as_worker_read(struct as_worker *w);
void as_worker_rx_reset(struct as_worker *w, struct as_worker_link *l);
void as_worker_rx_fini(struct as_worker_link *l);
void as_worker_trim(struct as_worker *w); /* frees buffers that are not in use */

/* --- worker_frame.c --- */

/* Handles one complete frame, which lies in `buf`. Ends the link if the dispatcher broke the
 * protocol. */
void as_worker_on_frame(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                        struct as_blob *buf);
/* Starts a DATA frame that continues a body; its payload may still be missing. True: write f->n
 * bytes to body->data + body_received of *ret_q. False: discard them, or the link has ended. */
bool as_worker_begin_body(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                          struct as_worker_req **ret_q);
void as_worker_on_body_bytes(struct as_worker *w, struct as_worker_req *q, size_t n);
/* Decodes the head of a message. 0, AS_ENOMEM, or AS_EPROTO with a reason. */
int as_worker_decode(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f,
                     struct as_blob *buf, const char **ret_why);
/* The body of a call is complete: checks it, and sets call_body. 0, AS_ENOMEM, or AS_EPROTO with a
 * reason. */
int as_worker_view_body(struct as_worker_req *q, bool answer, const char **ret_why);

/* --- worker_stream.c --- */

/* The request of that stream in a list; or NULL. */
struct as_worker_req *as_worker_find_in(const struct as_list *head, uint64_t stream);
/* An input of q is complete. */
void as_worker_deliver_input(struct as_worker *w, struct as_worker_req *q,
                             struct as_worker_req *in);
/* The request of that link and stream that was started and is not answered; or NULL. */
struct as_worker_req *as_worker_find_started(const struct as_worker_link *l, uint64_t stream);
/* The same of one that was started or waits. */
struct as_worker_req *as_worker_find_open(const struct as_worker_link *l, uint64_t stream);
/* Whether further messages of the request come after its first one. */
static inline bool as_worker_takes_inputs(const struct as_worker *w, const struct as_worker_req *q)
{
    return q->is_call ? q->call_inputs : w->models[q->model].reg.streams_inputs;
}
void as_worker_stream_start(struct as_worker *w, struct as_worker_req *q); /* grants input credit */
void as_worker_stream_stop(struct as_worker *w, struct as_worker_req *q);  /* frees its inputs */
/* Whether a part may be sent: 0, AS_ECANCELLED, or AS_EAGAIN without credit. */
int as_worker_may_send(const struct as_worker_req *q);
/* A part of q was put into the output queue: sends it, or schedules that. */
void as_worker_sent_part(struct as_worker *w, struct as_worker_req *q);
/* what: enum as_worker_want that has become available for q. Wakes threads that wait for it.
 * Returns what an event loop waits for, which the caller must notify of it. */
unsigned as_worker_wake_handler(struct as_worker *w, struct as_worker_req *q, unsigned what);
/* The same, and notifies the event loop. */
void as_worker_notify(struct as_worker *w, struct as_worker_req *q, unsigned what);
void as_worker_on_credit(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f);
void as_worker_on_input(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                        struct as_blob *buf);
void as_worker_on_input_end(struct as_worker *w, struct as_worker_link *l,
                            const struct as_frame *f);
/* The input of that stream whose body is being received, or NULL. */
struct as_worker_req *as_worker_find_partial_input(const struct as_worker_link *l, uint64_t stream);
void as_worker_on_input_bytes(struct as_worker *w, struct as_worker_req *input);

/* --- worker_admin.c --- */

void as_worker_on_control(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f);
/* Frees the queued CONTROLs of a link that has ended. */
void as_worker_drop_asks(struct as_worker *w, const struct as_worker_link *l);
void as_worker_send_options(struct as_worker *w, struct as_worker_link *l); /* on a new link */
/* CREDIT: slots and prefetch. */
void as_worker_grant_slots(struct as_worker *w, struct as_worker_link *l);

/* --- worker_policy.c --- */

void as_worker_on_policy(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f);
/* Frees the records of a link that has ended; NULL: all. */
void as_worker_drop_policy(struct as_worker *w, const struct as_worker_link *l);
void as_worker_send_policy_greeting(struct as_worker *w, struct as_worker_link *l); /* a new link */
void as_worker_policy_fini(struct as_worker *w); /* without the lock */

/* --- worker_local_call.c: without the lock; they replace what is sent for other requests --- */

int as_worker_local_call_part(struct as_worker *w, struct as_worker_req *q,
                              const struct as_msg *msg);
void as_worker_local_call_answer(struct as_worker *w, struct as_worker_req *q,
                                 const struct as_msg *msg);
void as_worker_local_call_end(struct as_worker *w, struct as_worker_req *q, uint32_t status,
                              struct as_str why);
void as_worker_local_call_input_taken(struct as_worker_req *q); /* its handler received an input */

/* --- worker_body.c: without the lock --- */

struct as_blob *as_worker_lay_out(const struct as_body *body, uint64_t len); /* NULL: no memory */
/* As as_worker_answer_body and as_worker_part_body; `laid_out` is NULL, or holds the body. */
int as_worker_answer_laid_out(struct as_worker *w, struct as_worker_req *q,
                              const struct as_body *body, struct as_blob *laid_out);
int as_worker_part_laid_out(struct as_worker *w, struct as_worker_req *q,
                            const struct as_body *body, struct as_blob *laid_out);

/* --- worker_http.c --- */

struct as_frame_http_open;
/* OPEN of kind 2, all but its target and its body. 0, AS_ENOMEM, or AS_EPROTO with a reason. */
int as_worker_decode_http(struct as_worker_req *q, const struct as_frame *f,
                          struct as_frame_http_open *ret_o, const char **ret_why);
/* The body that OPEN has is in its place. */
void as_worker_http_set_body(struct as_worker_req *q);
/* As as_worker_begin_body, for the body of q. */
bool as_worker_http_begin_data(struct as_worker *w, struct as_worker_req *q,
                               const struct as_frame *f, struct as_worker_req **ret_in);

/* The handler has used n bytes of the window: grants them again, in steps. With the lock. */
void as_worker_http_grant(struct as_worker *w, struct as_worker_req *q, uint64_t n);

/* --- worker_ws.c --- */

/* DATA with MSG for a request of HTTP. */
void as_worker_ws_on_message(struct as_worker *w, struct as_worker_req *q,
                             const struct as_frame *f);
/* DATA without MSG for a websocket: more of a message. As as_worker_begin_body. */
bool as_worker_ws_begin_data(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f,
                             struct as_worker_req **ret_in);

/* --- worker_traffic.c --- */

void as_worker_send_traffic(struct as_worker *w, struct as_worker_link *l);  /* on a new link */
void as_worker_send_router(struct as_worker *w, struct as_worker_link *l);   /* likewise */
void as_worker_send_services(struct as_worker *w, struct as_worker_link *l); /* likewise */

/* --- worker_guard.c --- */

void as_worker_read_and_send(struct as_worker *w);
/* Waits for the sockets, a wake, or until that time (AS_NEVER: none); releases the lock meanwhile.
 * True: a signal has ended the wait. */
bool as_worker_sleep(struct as_worker *w, as_ns until);
int as_worker_guard_start(struct as_worker *w);
void as_worker_wake_guard(struct as_worker *w); /* async-signal-safe */
/* A thread without signals, which the caller's threads handle: they end the runner's wait. 0, or
 * AS_EIO. */
int as_worker_start_thread(pthread_t *t, void *(*run)(void *), void *arg);
void as_worker_guard_stop(struct as_worker *w); /* without the lock */
void as_worker_arm_guard(
    struct as_worker *w);                 /* sets the guard's timer to 1 ms, if it is not set */
void as_worker_send(struct as_worker *w); /* writes as much as the sockets take */

#endif
