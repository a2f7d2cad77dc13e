/* link/worker/worker_internal.h — what the worker_*.c files share; nobody else includes it.
 *
 * One mutex guards everything in struct as_worker that is not said to be otherwise. It is held for
 * a batch of frames at most, never while waiting, and never while the caller's code runs.
 *
 *   worker_conf.c   made: the configuration and the models, checked and copied
 *   worker_locate.c the server that runs on this machine
 *   worker.c        requests: starting, answering, the lists and the memory of requests
 *   worker_stream.c requests with several messages: parts, inputs, credit for both
 *   worker_conn.c   connecting, the end of a link, the life of the worker
 *   worker_move.c   a second link, while one server relieves another
 *   worker_rx.c     bytes in: buffers, frame boundaries, bodies
 *   worker_frame.c  what each frame does
 *   worker_call.c   a request at its handler, and the answer that is being made
 *   worker_run.c    the loop: connect, run handlers, here or in threads, drain
 *   worker_traffic.c  what other versions and this one get of each other's requests
 *   worker_ask.c    questions to the replica itself, and what the server shall do with it
 *   worker_rehearse.c  requests that are made here
 *   worker_guard.c  who looks after the socket when: waiting, event loop, guard thread; bytes out
 */
#ifndef AS_LINK_WORKER_PRIV_H
#define AS_LINK_WORKER_PRIV_H

#include "base/err.h"
#include "base/list.h"
#include "base/memory/live.h"
#include "base/memory/pages.h"
#include "link/page.h"
#include "wire/frame/frame.h"

#include <anyserve/worker.h>
#include <pthread.h>
#include <time.h>

#define AS_WORKER_RUNNER_LATE AS_MS /* the runner is late when it was not seen for this long */
#define AS_WORKER_GRACE                                                                            \
    (300 * AS_US) /* an event loop that has something to read reads it in this */
#define AS_WORKER_PART_QUIET   (100 * AS_US) /* parts go out at once after such a silence */
#define AS_WORKER_READ_MAX_AGE (100 * AS_US) /* nothing is started on the word of an older read */
#define AS_WORKER_RX_CAP       (256u << 10)  /* bytes of one receive buffer */
#define AS_WORKER_RX_SPARE     64u /* buffers kept for reuse; all held: bodies are copied out */
#define AS_WORKER_RETRY_MAX    (250 * AS_MS) /* longest, between attempts to connect */
#define AS_WORKER_ARENA        768u          /* arrays of a request that need no heap */

enum as_worker_state {
    AS_WORKER_DOWN,     /* not connected */
    AS_WORKER_GREETING, /* HELLO and REGISTER are out */
    AS_WORKER_LIVE,     /* slots granted */
};

/* Requests that start together and take one slot; kept while any of them is here. */
struct as_worker_batch {
    uint32_t left; /* opened and not ended */
    uint32_t want; /* OPENs that are still to come */
};

struct as_worker_req {
    struct as_list node;       /* waiting, running, or the pool */
    struct as_list cancelled;  /* running: newly cancelled */
    struct as_worker_link *on; /* that it came on; NULL: on none, see worker_rehearse.c */
    uint64_t stream, link;     /* link: its number */
    uint32_t model;
    struct as_worker_batch *batch; /* NULL: it is alone */
    bool complete;                 /* the whole body is here */
    atomic_uint cancel;            /* 0, or why nobody waits for it, as gRPC status */
    as_ns deadline, begun;
    struct as_msg msg;
    struct as_tensor_params tensor_params; /* of its inputs */
    struct as_tensor_params said;          /* of the outputs of the message that is given next */
    struct as_blob *head;                  /* holds the frame */
    struct as_blob *body;                  /* holds the tensors' bytes, may be the same one */
    uint64_t got;                          /* bytes of a following body that are here */
    uint64_t body_len;
    void *data;                             /* the caller's */
    struct as_worker_local_call *rehearsal; /* NULL: the server sent it */
    /* several messages: */
    struct as_frame_window parts;  /* what we may send */
    struct as_frame_window window; /* what may still be sent to us … */
    struct as_frame_window owed;   /* … and what was used up and is not granted again */
    struct as_list inputs;         /* complete ones */
    struct as_worker_req *filling; /* one whose body is coming */
    bool inputs_over;
    bool is_input;        /* and not a request */
    bool orphan;          /* an input: its stream ended while its body was coming */
    uint64_t cost;        /* an input: of the window */
    struct as_list ready; /* in as_worker.ready */
    unsigned wants;       /* enum as_worker_want: what nothing was there of … */
    unsigned got_news;    /* … and what there is by now */
    struct as_arena arena;
    uint8_t first[AS_WORKER_ARENA] __attribute__((aligned(16)));
};

struct as_worker_served_model { /* a model */
    struct as_frame_register reg;
    uint32_t cap;     /* of calls at once; UINT32_MAX: the slots are its only limit */
    uint32_t running; /* calls */
    as_worker_handler handler;
    void *ctx;
};

struct as_worker_rx {
    struct as_blob *buf;
    size_t at, end;             /* bytes [at, end) are not yet looked at */
    size_t skip;                /* padding still to pass over */
    struct as_worker_req *into; /* a DATA payload goes straight into its body … */
    size_t left;                /* … this many bytes are to come */
    struct as_blob *spare[AS_WORKER_RX_SPARE];
    uint32_t n_spare;
    bool pinned;  /* every spare is held by somebody */
    bool drained; /* the last read took all that the socket had */
};

struct as_worker_link {
    enum as_worker_state state;
    int sock;        /* -1 */
    uint64_t number; /* of this link; changes when it ends: answers to it go nowhere then */
    atomic_bool tensor_params; /* it takes parameters of single tensors */
    _Atomic uint64_t peer_max; /* bytes of an answer's body that the dispatcher accepts */
    bool greeted;              /* HELLO was answered */
    bool beside;               /* it was made beside another one that lives */
    struct as_worker_rx rx;
    struct as_outq out;
    struct as_page_writer page;
    uint32_t *targets; /* of each model, for OPEN; from REGISTERED */
    bool *registered;  /* of each model */
    uint32_t n_registered;
    int refused;            /* AS_E… while greeting */
    bool wait_pong;         /* our DRAIN has not been answered by a PONG */
    bool want_write;        /* event loop: epfd watches for room in the socket */
    uint32_t most_slots;    /* granted: OPENs may be on their way */
    struct as_list waiting; /* in stream order */
    uint32_t n_waiting;
    uint32_t n_open;   /* opened and not ended */
    uint32_t n_packed; /* how many of these take no slot, being in a batch with others */
    struct as_worker_batch *batch; /* the one whose OPENs come now, or NULL */
    uint64_t batch_next;           /* stream of the next of them */
    uint64_t top_stream;           /* highest id opened */
    uint32_t last_target;          /* index of the model of the last OPEN */
};

struct as_worker {
    pthread_mutex_t mu;
    struct as_arena arena;      /* copies of the configuration */
    struct as_worker_conf conf; /* with the defaults; path is NULL: looked up at each connect */
    struct {
        char path[AS_WORKER_PATH], token[AS_WORKER_TOKEN];
    } found;                       /* of the last lookup */
    struct as_frame_window inputs; /* of one stream, as conf says */
    struct as_worker_served_model *models;
    uint32_t n_models;
    uint32_t slots;                  /* calls at once: of conf, or of the options */
    bool capped;                     /* some model's max_ongoing is below the slots of conf */
    bool fixed;                      /* it was connected: no model can be added */
    atomic_bool asked;               /* as_worker_stop */
    struct as_frame_options options; /* what the server is to do with us */
    struct as_frame_traffic traffic; /* and with other versions' requests */
    char fallback[AS_FRAME_NAME];    /* its text */
    struct as_list asks;             /* that nobody has taken yet */
    atomic_uint n_asks;              /* so many, unless one is being answered: then 0 */
    uint32_t n_asked;                /* in `asks` */
    bool asking;                     /* one is with the caller */
    uint32_t health;                 /* what health checks hear: gRPC status … */
    char health_text[256];

    /* the links: one, but for the time in which one server relieves another; see worker_move.c */
    struct as_worker_link links[2];
    struct as_worker_link *l; /* the newest */
    uint64_t n_links;         /* so many there were */
    uint64_t epoch;           /* what the dispatcher called us last */
    struct as_page_stat stat; /* of all links; shown on the pages when the runner is idle or late */
    bool draining;            /* nothing new comes: one side said DRAIN */
    bool lost;                /* the runner has to be told that the last link ended */
    atomic_bool moving;       /* MOVE was said: the runner connects once more */
    char error[512];

    /* requests; those that wait are their link's */
    struct as_list running;
    struct as_list cancelled;
    struct as_list ready; /* for an event loop: there is what they wait for */
    struct as_list pool;
    uint32_t n_running, n_pool;
    uint32_t n_busy; /* slots that are taken, whichever link asked: a batch takes one */

    /* who looks after the socket */
    pthread_t runner;    /* who connected */
    pthread_cond_t news; /* room or a cancel, for threads that wait for room */
    uint32_t n_awaiting; /* so many do */
    as_ns sent_at;       /* the last write */
    as_ns seen;          /* the runner's last step */
    as_ns clock;         /* a clock reading that is fresh enough to start with, 0: none */
    as_ns read_at;       /* when a start last followed a read of the socket */
    bool fresh;          /* the socket was read since */
    bool parked;         /* the runner sleeps in as_worker_wait and reads by itself */
    bool event_loop;     /* the runner uses as_worker_fd */
    bool armed;          /* the timer of the guard runs */
    atomic_bool woken;   /* wake_fd was written and not yet read */
    int wake_fd, ep_fd, timer_fd, stop_fd;
    pthread_t guard;
    bool forked;
};

/* In the order in which requests are started: the former one's first. */
static inline struct as_worker_link *as_worker_link_at(struct as_worker *w, int i)
{
    return i ? w->l : &w->links[w->l == &w->links[0]];
}
#define AS_WORKER_LINKS(w, l) for (struct as_worker_link *l = (w)->links; l < (w)->links + 2; l++)

/* Is there still somebody who waits for the answer? */
static inline bool as_worker_is_awaited(const struct as_worker_req *q)
{
    return !q->on || q->on->number == q->link;
}
/* What its server takes of q->said. */
static inline struct as_tensor_params as_worker_output_params(const struct as_worker_req *q)
{
    return q->said.n && q->on && q->on->tensor_params ? q->said : (struct as_tensor_params){0};
}
static inline bool as_worker_connected(const struct as_worker *w)
{
    return w->links[0].sock >= 0 || w->links[1].sock >= 0;
}
static inline uint32_t as_worker_waiting(const struct as_worker *w)
{
    return w->links[0].n_waiting + w->links[1].n_waiting;
}
static inline bool as_worker_has_out(const struct as_worker *w)
{
    return w->links[0].out.bytes || w->links[1].out.bytes;
}

static inline as_ns as_worker_clock(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (as_ns)ts.tv_sec * AS_SEC + (as_ns)ts.tv_nsec;
}

/* Nobody but the one who asks refers to it, so nobody can begin to. */
static inline bool as_worker_blob_unshared(const struct as_blob *b)
{
    return atomic_load_explicit(&b->refs, memory_order_acquire) == 1;
}

/* worker_conf.c: takes over a struct of the caller's whose first member is its size. False: it
 * cannot be of an older header, or it uses members that we do not know. */
bool as_worker_copy_struct(void *to, size_t known, const void *from);

/* worker_call.c: the calls of one thread, and what is used again for each. */
struct as_worker_executor;
struct as_worker_executor *as_worker_executor_new(struct as_worker *w);
void as_worker_executor_free(struct as_worker_executor *h);
/* Runs the handler with q, and those that share its call; all are answered then. */
void as_worker_execute(struct as_worker_executor *h, struct as_worker_req *q);

/* All below: with the lock held. */

/* worker.c */
struct as_worker_req *as_worker_req_get(struct as_worker *w,
                                        struct as_worker_link *l);    /* l: or NULL */
void as_worker_req_put(struct as_worker *w, struct as_worker_req *q); /* in no list any more */
/* The request leaves its batch. True: its slot is free, it was the last or alone. */
bool as_worker_leave_batch(struct as_worker *w, struct as_worker_req *q);
bool as_worker_has_startable(const struct as_worker *w);
void as_worker_req_cancel(struct as_worker *w, struct as_worker_req *q,
                          uint32_t reason); /* running */
/* An answer was appended, q ends: the books, and who sends it. Unlocks. */
void as_worker_finish_req(struct as_worker *w, struct as_worker_req *q, as_ns now);
/* All tensors in a blob of their own; `t` gets the tensors in it. NULL: out of memory. */
struct as_blob *as_worker_copy_tensors(const struct as_msg *msg, struct as_tensor *t, uint64_t len);
/* Shows the counters on the page. */
static inline void as_worker_publish_stat(struct as_worker *w)
{
    AS_WORKER_LINKS(w, l)
    {
        if (l->page.page)
            as_page_publish_stat(&l->page, &w->stat);
    }
}
/* The runner is inside code that it cannot leave, says every page. */
static inline void as_worker_set_held(struct as_worker *w, as_ns now)
{
    AS_WORKER_LINKS(w, l) as_page_set_held(&l->page, now);
}
void as_worker_count_memory(struct as_worker *w); /* counts the bytes that are held */
void as_worker_put_error(struct as_worker_link *l, uint64_t stream, uint32_t code, uint32_t flags,
                         const char *text);

/* worker_conn.c: the last of it, when no thread and no request is left. */
void as_worker_destroy(struct as_worker *w);
/* The link is over; the reason is kept unless there is one already. */
void as_worker_close_link(struct as_worker *w, struct as_worker_link *l, const char *why);
/* Slots are granted: the greeting is over. */
void as_worker_go_live(struct as_worker *w, struct as_worker_link *l);
/* Opens a socket, sends HELLO and what is served on a link that is down. */
int as_worker_open_link(struct as_worker *w, struct as_worker_link *l);

/* worker_move.c, in the runner's thread: connects once more; MOVE was said. */
void as_worker_handover_start(struct as_worker *w);
/* A link beside another one has read something: is its greeting over? */
void as_worker_handover_step(struct as_worker *w, struct as_worker_link *l);
void as_worker_set_error(struct as_worker *w, struct as_str text);

/* worker_rx.c: reads what is there and handles it; may end the link. */
void as_worker_read(struct as_worker *w);
void as_worker_rx_reset(struct as_worker *w, struct as_worker_link *l);
void as_worker_rx_fini(struct as_worker_link *l);
void as_worker_trim(struct as_worker *w); /* gives back what has not been used lately */

/* worker_frame.c: one whole frame, `buf` holds it. Ends the link on a broken rule. */
void as_worker_on_frame(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                        struct as_blob *buf);
/* Begins a DATA frame that continues a body; its payload may still be missing. False: passed over,
 * or the link has ended. True: write f->n bytes at ret_q->body->data + ret_q->got. */
bool as_worker_begin_body(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                          struct as_worker_req **ret_q);
void as_worker_on_body_bytes(struct as_worker *w, struct as_worker_req *q, size_t n);

/* Takes in the head of a message that a frame brings; 0, AS_ENOMEM, AS_EPROTO with a reason. */
int as_worker_decode(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f,
                     struct as_blob *buf, const char **ret_why);

/* worker_stream.c */
/* Started and not answered, of that link; or NULL. */
struct as_worker_req *as_worker_find_started(const struct as_worker *w,
                                             const struct as_worker_link *l, uint64_t stream);
void as_worker_stream_start(struct as_worker *w, struct as_worker_req *q); /* it is started */
void as_worker_stream_stop(struct as_worker *w, struct as_worker_req *q);  /* its inputs go */
void as_worker_notify(struct as_worker *w, struct as_worker_req *q, unsigned what);
void as_worker_on_credit(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f);
void as_worker_on_input(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                        struct as_blob *buf);
void as_worker_on_input_end(struct as_worker *w, struct as_worker_link *l,
                            const struct as_frame *f);
/* The input of that stream whose body is coming, or NULL. */
struct as_worker_req *as_worker_find_partial_input(const struct as_worker *w,
                                                   const struct as_worker_link *l, uint64_t stream);
void as_worker_on_input_bytes(struct as_worker *w, struct as_worker_req *input);

/* worker_ask.c */
void as_worker_on_control(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f);
void as_worker_drop_asks(struct as_worker *w,
                         const struct as_worker_link *l); /* of a link that has ended */
void as_worker_send_options(struct as_worker *w, struct as_worker_link *l); /* to a new link */
void as_worker_grant_slots(struct as_worker *w,
                           struct as_worker_link *l); /* CREDIT: slots and prefetch */

/* worker_rehearse.c, without the lock: a request that was made here is answered, with a part, or
 * ends. They stand in for what is told to the server of another. */
int as_worker_local_call_part(struct as_worker *w, struct as_worker_req *q,
                              const struct as_msg *msg);
void as_worker_local_call_answer(struct as_worker *w, struct as_worker_req *q,
                                 const struct as_msg *msg);
void as_worker_local_call_end(struct as_worker *w, struct as_worker_req *q, uint32_t status,
                              struct as_str why);
void as_worker_local_call_input_taken(struct as_worker_req *q); /* its handler took an input */

/* worker_traffic.c */
void as_worker_send_traffic(struct as_worker *w, struct as_worker_link *l); /* to a new one */

/* worker_guard.c */
void as_worker_read_and_send(struct as_worker *w);
void as_worker_sleep(struct as_worker *w); /* sleeps without the lock until there is news */
int as_worker_guard_start(struct as_worker *w);
void as_worker_guard_stop(struct as_worker *w); /* without the lock */
void as_worker_arm_guard(struct as_worker *w);  /* the guard looks in 1 ms, if it does not anyway */
void as_worker_send(struct as_worker *w);       /* writes what the socket takes */

#endif
