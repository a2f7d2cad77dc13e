/* link/native/link.h — one connection from a worker: handshake, streams out, answers in, its death.
 *
 *   accepted ──► HELLO ──────► OPEN ───────► READY ─────► BROKEN ──► gone
 *              (token said)  (registering)  (slots)    socket ended,
 *                  │              │           ▲ │      waiting for the
 *                  └── any error ─┴───────────┼─┘      process to die
 *                      or time-out: gone      └ DRAIN of the worker: no new streams
 *
 * Worker bytes are hostile: whatever breaks the rules ends this link with a logged reason. The end
 * of the socket alone is not the death of the process (descriptors are inherited); death is told by
 * pidfd, and then the status page says which streams had not started. Without that certainty every
 * stream may have run. Thread: the dispatch loop. Internal to the folder: the rest of the house
 * talks to link/fleet/fleet.h.
 */
#ifndef AS_LINK_LINK_H
#define AS_LINK_LINK_H

#include "io/loop/sock.h"
#include "link/fleet/upstream.h"

enum as_link_state {
    AS_LINK_HELLO, /* waits for HELLO */
    AS_LINK_OPEN,  /* HELLO accepted; models are being registered */
    AS_LINK_READY, /* has granted slots */
    AS_LINK_BROKEN /* socket closed, process not known to be dead */
};

/* The part of receiving that survives between two reads. */
struct as_link_rx {
    uint8_t *p; /* 64-byte aligned; offset ≡ stream offset mod 64 */
    size_t cap, at, end;
    size_t need;      /* bytes that the frame at `at` takes; 0: not known */
    size_t skip;      /* padding bytes still to pass over */
    uint8_t *sink;    /* where the rest of a DATA payload goes; NULL: nowhere */
    size_t sink_left; /* bytes of that payload still to come */
    size_t sink_pad;  /* padding behind it */
    bool sink_end;    /* that frame carries END */
    uint64_t sink_stream;
    int fd; /* descriptor that came along before HELLO was read, -1 */
};

/* Looking after it (link_care.c). A CONTROL of ours is known by its stream, a number that goes up.
 */
struct as_link_health {
    struct as_timer timer; /* due and look, whichever is first */
    /* As the server is set, or the worker has said. 0: none, but for the timeout. */
    as_ns period, timeout, execution, request;
    uint32_t limit;      /* of failures */
    uint32_t dump;       /* signal */
    as_ns due;           /* the next check, or look at the one under way */
    as_ns asked;         /* the one under way; later when its time did not count */
    as_ns look;          /* at what runs; AS_NEVER: nothing does */
    uint64_t controls;   /* so many were sent */
    uint64_t check;      /* under way, 0: none */
    uint64_t ask;        /* the controller's, under way; 0: none */
    uint64_t ask_id;     /* how it calls that one */
    uint32_t failures;   /* of checks, in a row */
    uint64_t suspect_to; /* what had started when the first of these failed */
    bool sick;           /* the last check failed */

    /* Of its deployment. 0: as it is registered. */
    int64_t max_queued;
    enum as_fleet_idempotent idempotent;
};

/* What is told of its end, when clients have their answers. */
struct as_link_end_report {
    struct as_list node; /* of the fleet's untold */
    struct as_task task;
    char *reason, *token;
    uint32_t calls;       /* unanswered */
    bool served, retires; /* the supervisor, the controller is to know */
};

/* What we say only because of the worker's own frames: bytes that it has not taken, those before a
 * place in what is written, and those behind it. */
struct as_link_reply_backlog {
    size_t before, behind;
    uint64_t place;
};
/* More than one read of its frames can make us say, and a place in the queue for those before. */
#define AS_LINK_REPLY_BACKLOG_MAX (1u << 20)

struct as_link {
    struct as_upstream up; /* replica: from the first grant on; deploy and name: from HELLO on */
    struct as_sock sock;
    struct as_sock pid_sock; /* pidfd of the worker */
    struct as_timer timer;   /* handshake, then wait for death */
    struct as_task flush;
    struct as_letter death_letter;
    struct as_outq out;
    struct as_link_rx rx;
    struct as_fleet_add_process *token; /* NULL: joined by the join token */
    enum as_link_state state;
    uint32_t n_registers; /* REGISTER came so many times */
    bool moves;           /* the worker can serve another dispatcher beside us */
    bool tensor_params;   /* it takes parameters of single tensors */
    bool draining;        /* the worker asked for no more */
    bool goodbye;         /* the worker said that it goes */
    bool dead;            /* the kernel told that the process died */
    bool watched;         /* the death watch knows its page */
    bool told;            /* the death watch's letter was opened */
    bool ended;           /* as_link_end was called; only handles are left to close */
    bool pid_open;        /* pid_sock is in use */
    uint8_t closing;      /* handles still to be closed before the memory goes */
    uint32_t pid;
    uint64_t epoch;
    const struct as_page *page; /* NULL: the worker has none */
    uint64_t next_stream;       /* odd */
    struct as_call **calls;     /* ring by stream number / 2 */
    uint32_t n_calls, cap_calls;
    uint64_t received, written; /* bytes, ever */
    as_ns pinged;               /* the last time, or READY since */
    as_ns ping_sent;            /* the one under way, 0: none … */
    as_ns ping_since;           /* … its time runs since … */
    uint64_t ping_end;          /* … and it has left us when so much is written */
    struct as_link_reply_backlog said;
    bool health_asked;
    struct as_link_health care;
    struct as_frame_traffic traffic; /* as the worker said last */
    char fallback[AS_FRAME_NAME];    /* its text */
    char *condemned;                 /* why its process has to end, or NULL; it is under way */
    bool killed;                     /* the supervisor was told */
    struct as_link_end_report last;
    struct as_arena scratch; /* of the small part at hand */
    uint8_t scratch_first[2048] __attribute__((aligned(16)));
};

/* Accepts a connected socket; it registers itself with the fleet or goes away by itself. */
void as_link_accept(struct as_fleet *f, int fd);
/* Ends it now: reason is logged and told. AS_LOSS_LINK: it may still run any of its streams; else
 * the process is dead or has let go of them (the status page is final). */
void as_link_end(struct as_link *l, const char *reason, enum as_loss loss);
void as_link_flush_end_reports(struct as_fleet *f); /* what is still to be told of ends: now */
/* Its process is dead. What it had written still counts; then it ends. */
void as_link_on_death(struct as_link *l);
/* The peer broke the rules: the link ends, a worker of ours is killed. */
void as_link_protocol_error(struct as_link *l, const char *why);

/* It has not answered a ping: it is condemned (link_care.c). READY only. */
void as_link_kill_unresponsive(struct as_link *l);
void as_link_on_kill_timeout(struct as_link *l); /* the timer of one that is condemned */
/* In the rotation or out of it, after anything that decides it has changed. */
void as_link_update_rotation(struct as_link *l);

/* Looking after it (link_care.c). */
void as_link_health_init(struct as_link *l);
void as_link_health_start(struct as_link *l); /* it is READY */
void as_link_check_health_now(struct as_link *l);
/* A request was sent, and care.look is AS_NEVER with an execution timeout. */
void as_link_watch_execution(struct as_link *l);
void as_link_on_options(struct as_link *l, const struct as_frame *f);
void as_link_on_control(struct as_link *l, const struct as_frame *f);
/* The controller's question, none being under way; on_answer tells. READY only. */
void as_link_send_control(struct as_link *l, uint64_t id, uint16_t op, struct as_str text);
void as_link_fail_control(struct as_link *l, const char *why); /* to the one under way, if any */

/* What the deployment gets of other versions' requests (link_traffic.c). */
void as_link_on_traffic(struct as_link *l, const struct as_frame *f);
void as_link_apply_traffic(struct as_link *l);            /* before a REGISTER, and when READY */
void as_link_restore_traffic(const struct as_link *gone); /* it is not in the list any more */

/* From HELLO on: death by the robust lock of the status page. */
void as_link_watch_death(struct as_link *l);

void as_link_schedule_flush(struct as_link *l); /* something was appended to out */
/* What was appended since `out` had so many bytes answers a frame of the worker's. One that has too
 * much of that to take is ended with the next read: it does not read. */
void as_link_count_reply(struct as_link *l, size_t had);

/* Stream table (link_streams.c). */
struct as_call *as_link_find_call(const struct as_link *l,
                                  uint64_t stream); /* NULL: no such stream */
/* Room for the first streams. False: out of memory; later growth has the whole process end. */
bool as_link_alloc_calls(struct as_link *l);
void as_link_add_call(struct as_link *l, struct as_call *c);
void as_link_remove_call(struct as_link *l, struct as_call *c);

/* Nobody waits for the answer any more: what came of it is freed, what still comes is passed over.
 */
void as_link_discard_answer(struct as_link *l, struct as_call *c);
/* The same for all streams of a link that ends. */
void as_link_discard_answers(struct as_link *l);

/* Receiving (link_rx.c): one read and what it brought. >0: there may be more; 0: nothing more now;
 * <0: the link has ended. */
int as_link_read(struct as_link *l);
/* Reads all that is there now, and not what comes meanwhile: false when that ended the link, or
 * broke it (it then waits for the process to end). */
bool as_link_drain_socket(struct as_link *l);
/* The socket ended, the process may live or its death is still to be told. */
void as_link_on_broken(struct as_link *l);
/* A message of the worker's, decoded. NULL, or what is wrong with it. */
const char *as_link_decode(const struct as_frame *f, struct as_arena *a, struct as_frame_msg *ret_m,
                           struct as_msg *ret_msg);
/* The worker ended the stream; the verdict's fields are set. */
void as_link_finish_call(struct as_link *l, struct as_call *c, struct as_model_times t, bool retry);
void as_link_finish_ok(struct as_link *l, struct as_call *c, struct as_model_times t);

/* Streams of messages (link_parts.c). begin: behind OPEN. frame: DATA|MSG and END of such a stream;
 * body: a DATA frame of it is complete. */
void as_link_start_stream(struct as_link *l, struct as_call *c);
void as_link_on_part_frame(struct as_link *l, struct as_call *c, const struct as_frame *f);
void as_link_on_part_body(struct as_link *l, struct as_call *c);
/* There is no room for the part whose body is coming, of n bytes: the client hears so instead. */
void as_link_drop_part(struct as_link *l, struct as_call *c, uint64_t n);
void as_link_return_credit(struct as_link *l, struct as_call *c, const struct as_frame_window *w);
void as_link_send_input(struct as_link *l,
                        struct as_call *c); /* c->input, as soon as there is room */
void as_link_send_input_end(struct as_link *l, struct as_call *c);
void as_link_on_stream_credit(struct as_link *l, const struct as_frame *f);
/* Frames of a link that is being set up (link_hello.c). */
void as_link_on_hello(struct as_link *l, const struct as_frame *f);
void as_link_on_register(struct as_link *l, const struct as_frame *f);
void as_link_on_credit(struct as_link *l, const struct as_frame *f);

#endif
