/* link/native/link.h — one connection from a worker, the dispatcher's end of the native link.
 *
 *   accepted ─► HELLO ─► OPEN ─► READY ─► DRAINING ─► LEAVING       any state ─► ENDED ─► freed
 *                 └► DRIVER        │          │          │
 *                                  ├──────────┼──────────┤ unwell: to be killed
 *                                  │          │          └──► CONDEMNED ─► KILLED
 *                                  └──────────┴ the socket has ended ──► LOST
 *
 * The table of what follows what is in link_state.c; as_link_move is the only way from state to
 * state, and sets the timer of the new one.
 *
 * Worker bytes are hostile: a worker that breaks the protocol loses its link, with a logged reason.
 * The end of the socket does not prove that the process is dead, since descriptors are inherited;
 * pidfd and the death watch do. Of a dead process the status page says which requests had not been
 * started; of a live one any request may have run. Thread: the dispatch loop. Private to src/link:
 * other code uses link/fleet/fleet.h.
 */
#ifndef AS_LINK_LINK_H
#define AS_LINK_LINK_H

#include "io/loop/sock.h"
#include "link/fleet/upstream.h"
#include "link/native/caller.h"
#include "link/transport/loop_socket.h"
#include "wire/frame/frame_reader.h"
#include "wire/frame/frame_router.h"

enum as_link_state {
    AS_LINK_HELLO,     /* waits for HELLO */
    AS_LINK_OPEN,      /* HELLO accepted; models are being registered */
    AS_LINK_DRIVER,    /* HELLO accepted; it makes calls, and never has models or slots */
    AS_LINK_READY,     /* the worker has granted slots */
    AS_LINK_DRAINING,  /* the worker asked for no more requests (DRAIN) */
    AS_LINK_LEAVING,   /* the worker said GOODBYE: the end of the socket is no surprise */
    AS_LINK_CONDEMNED, /* to be killed; prints its stacks first, if it has a signal for that */
    AS_LINK_KILLED,    /* the supervisor was asked to kill it; waits for the process to die */
    AS_LINK_LOST,      /* the socket has ended; waits for the process to die */
    AS_LINK_ENDED,     /* only handles are left to close */
    AS_LINK_STATES
};

/* What is known about the worker's process. */
enum as_link_process {
    AS_LINK_UNWATCHED, /* nobody looks at the page's lock; there may be a pidfd */
    AS_LINK_WATCHED,   /* the death watch has the page's lock word */
    AS_LINK_DEAD       /* it is dead; what it wrote before is being read, or the link has ended */
};

/* The receiver's state between two reads. */
struct as_link_rx {
    struct as_frame_reader reader; /* its buffer is the link's */
    bool sink_end;                 /* the frame that continues a body carries END … */
    uint64_t sink_stream;          /* … and belongs to this stream */
    int fd;                        /* descriptor that came with HELLO; -1: none */
};

/* Health checks, execution timeout and the controller's CONTROL (link_health.c). Each CONTROL frame
 * of ours has a stream number of its own, which counts up. */
struct as_link_health {
    struct as_timer timer; /* for next_check and next_scan, whichever is first */
    /* Set by the server, or by the worker's OPTIONS. 0: none (check_timeout is never 0). */
    as_ns check_period, check_timeout, execution_timeout;
    uint32_t failures_max;   /* failed checks in a row after which the process is killed */
    uint32_t dump_signal;    /* sent before the kill, so that the worker prints stacks; 0: none */
    as_ns next_check;        /* when to send the next check, or to look at the pending one */
    as_ns check_sent;        /* when the last check was sent, plus time that does not count;
                                0: none was sent yet */
    as_ns next_scan;         /* of the executing requests; AS_NEVER: none executes */
    uint64_t n_controls;     /* CONTROL frames sent so far */
    uint64_t check_stream;   /* of the pending check; 0: none */
    uint64_t control_stream; /* of the controller's pending CONTROL; 0: none */
    uint64_t control_id;     /* the controller's id for it */
    uint64_t
        scaling_stream;  /* of its pending question to a scaling policy, which stops neither … */
    uint64_t scaling_id; /* … requests nor health checks */
    uint32_t failures;   /* failed checks in a row; not 0: it gets no new requests */
    uint64_t suspects_up_to; /* last stream that was started when the first of these failed */

    struct as_fleet_options of_deployment;
};

/* What is logged and reported about the end of a link, after clients have their answers. */
struct as_link_end_report {
    struct as_list node; /* in as_fleet.end_reports */
    struct as_task task;
    char *reason, *token;
    uint32_t calls; /* unanswered requests */
    bool warns;     /* it was not expected */
    bool served;    /* it was a replica: on_gone */
    bool retires;   /* as_fleet_retire_process waits for it: on_retired */
};

/* Bytes in the output queue that only answer the worker's own frames and that the worker has not
 * read yet: those before stream offset `place`, and those behind it. */
struct as_link_reply_backlog {
    size_t before, behind;
    uint64_t place;
};
/* More than the replies to all frames of one read. A worker above it does not read: its link ends.
 */
#define AS_LINK_REPLY_BACKLOG_MAX (1u << 20)

struct as_link {
    struct as_upstream up;          /* replica: set by the first grant; deploy and name: by HELLO */
    struct as_transport *transport; /* &socket.transport */
    struct as_loop_socket socket;
    struct as_sock pid_sock; /* pidfd of the worker */
    struct as_timer timer;   /* how long it may be in its state */
    struct as_task flush;
    struct as_letter death_letter;
    struct as_outq out;
    struct as_link_rx rx;
    enum as_link_state state;  /* changed by as_link_move only */
    enum as_link_process life; /* changed in link_end.c only */
    uint64_t capabilities;     /* AS_CAP_… that both sides have; after HELLO */
    uint32_t n_registers;      /* REGISTER frames so far */
    uint8_t closing;           /* handles, letters and tasks to wait for before it is freed */
    uint32_t pid;
    uint64_t epoch;             /* 0: before HELLO */
    const struct as_page *page; /* the status page; NULL: the worker has none */
    uint64_t next_stream;       /* odd */
    struct as_call **calls;     /* open requests: a hash table, by stream number / 2 */
    uint32_t n_calls, cap_calls;
    bool holds_inputs;          /* of requests of HTTP that are recalled */
    uint64_t received, written; /* bytes since the start */
    as_ns last_ping;            /* when the last ping was sent; before the first: READY since */
    as_ns ping_sent;            /* the pending ping's time, which it carries; 0: none pending … */
    as_ns ping_since;           /* … its timeout runs since … */
    uint64_t ping_end;          /* … and its last byte has this stream offset */
    struct as_link_reply_backlog reply_backlog;
    struct as_link_health health;
    struct as_frame_traffic traffic;      /* the worker's last TRAFFIC … */
    char fallback[AS_FRAME_NAME];         /* … and its text */
    struct as_frame_router router;        /* its last ROUTER … */
    bool has_router;                      /* … if it has sent one */
    struct as_service_set *services;      /* of its SERVICES; NULL: none */
    struct as_caller *caller;             /* its own calls; NULL: it has made none */
    struct as_buf reports[AS_REPORT_END]; /* the last REPORT of each kind */
    bool models_cut;                      /* the one of models has more than may count */
    bool report_refused;                  /* … and whether the newest one was refused */
    bool is_driver;                       /* HELLO said so, with the token for it */
    bool calls_here;                      /* a driver that has not moved to another dispatcher */
    char *peer;                           /* of a driver: what it is, from HELLO */
    char *kill_reason;                    /* why the worker is to be killed; NULL: it is not */
    struct as_link_end_report end_report;
    struct as_arena scratch; /* for a small part that is delivered at once */
    uint8_t scratch_first[2048] __attribute__((aligned(16)));
};

/* --- link_state.c --- */

bool as_link_may_move(enum as_link_state from, enum as_link_state to);
/* Enters a state that may follow: sets its timer, and takes the replica out of the rotation. */
void as_link_move(struct as_link *l, enum as_link_state to);
/* Checks every invariant. NULL, or which one does not hold. For asserts and tests. */
const char *as_link_check(const struct as_link *l);
/* The worker has slots, and is not condemned. */
static inline bool as_link_serves(const struct as_link *l)
{
    return l->state >= AS_LINK_READY && l->state <= AS_LINK_LEAVING;
}
/* The worker has slots, and the socket is open: frames go both ways. */
bool as_link_is_up(const struct as_link *l);
const char *as_link_state_text(const struct as_link *l); /* "ready" …, for the status page */
/* Takes the replica into or out of the rotation; after any change of what decides about it. */
void as_link_update_rotation(struct as_link *l);

/* --- link.c --- */

/* To be called after frames were appended to `out`. */
void as_link_schedule_flush(struct as_link *l);
/* Accounts the bytes that were appended since `out` had `had` bytes as a reply to one of the
 * worker's frames. With too many unread replies the next read ends the link. */
void as_link_count_reply(struct as_link *l, size_t had);
/* Reads all that is in the socket now, and not what arrives meanwhile. False: that ended the link,
 * or broke it (it then waits for the process to die). */
bool as_link_drain_socket(struct as_link *l);

/* --- link_end.c --- */

/* Ends the link now; the reason is logged and reported. AS_LOSS_LINK: the worker may go on running
 * any of its requests; else it is dead or has let go of them, and the status page is final. */
void as_link_end(struct as_link *l, const char *reason, enum as_loss loss);
/* The process is dead: reads what it had written before, then ends the link. */
void as_link_on_death(struct as_link *l);
/* The worker broke the protocol: ends the link, and has our process killed. */
void as_link_protocol_error(struct as_link *l, const char *why);
/* The socket has ended; the process may live. */
void as_link_on_broken(struct as_link *l);
/* Has the death watch look at the page's lock. After HELLO. */
void as_link_watch_death(struct as_link *l);
/* Callbacks of its handles; on_pid: its pidfd is readable. */
void as_link_on_socket_closed(struct as_loop_socket *s);
void as_link_on_timer(struct as_timer *t);
void as_link_on_pid(struct as_sock *s, int events);
void as_link_flush_end_reports(struct as_fleet *f); /* logs and reports all that is pending, now */

/* --- link_health.c --- */

void as_link_health_init(struct as_link *l);
void as_link_health_start(struct as_link *l); /* it is READY */
void as_link_check_health_now(struct as_link *l);
/* To be called when a request was sent while next_scan is AS_NEVER, with an execution timeout. */
void as_link_watch_execution(struct as_link *l);
/* The worker has not answered a ping: it is to be killed. READY only. */
void as_link_kill_unresponsive(struct as_link *l);
void as_link_request_kill(struct as_link *l); /* CONDEMNED becomes KILLED */
void as_link_on_options(struct as_link *l, const struct as_frame *f);
void as_link_on_control(struct as_link *l, const struct as_frame *f);
/* as_upstream_ops.control. */
int as_link_send_control(struct as_link *l, uint64_t id, enum as_control_op op, struct as_str text,
                         const char **ret_why);
void as_link_fail_control(struct as_link *l, const char *why); /* those that are pending */

/* --- link_traffic.c: canary, mirror and fallback of the deployment --- */

void as_link_on_traffic(struct as_link *l, const struct as_frame *f);
void as_link_on_services(struct as_link *l, const struct as_frame *f);
void as_link_on_router(struct as_link *l, const struct as_frame *f);
void as_link_apply_traffic(struct as_link *l); /* before a REGISTER, and when READY */
/* The link was removed from the fleet's list: what the other workers declare is valid again. */
void as_link_restore_traffic(const struct as_link *gone);

/* --- link_streams.c: the table of open requests --- */

struct as_call *as_link_find_call(const struct as_link *l, uint64_t stream); /* or NULL */
/* Memory for the first requests. False: out of memory. If it cannot grow later, the process ends.
 */
bool as_link_alloc_calls(struct as_link *l);
void as_link_add_call(struct as_link *l, struct as_call *c);
void as_link_remove_call(struct as_link *l, struct as_call *c);
/* Nobody waits for the answer any more: frees what has arrived of it, discards the rest. */
void as_link_discard_answer(struct as_link *l, struct as_call *c);
void as_link_discard_answers(struct as_link *l); /* of all requests: the link ends */

/* --- link_receive.c --- */

/* One read, and handling what it brought. >0: there may be more; 0: nothing more now; <0: the link
 * has ended. */
int as_link_read(struct as_link *l);
/* The worker ended the stream; the call's outcome is set. */
void as_link_finish_call(struct as_link *l, struct as_call *c, struct as_model_times t, bool retry);
void as_link_finish_ok(struct as_link *l, struct as_call *c, struct as_model_times t);

/* --- link_payload.c: where the link knows what a payload is --- */

/* Writes a payload as an OPEN or as DATA. The submitter has checked that it fits a frame. */
void as_link_put_payload(struct as_link *l, enum as_frame_type type, uint64_t stream,
                         struct as_frame_msg *fixed, const struct as_payload *p);
/* Decodes a message of the worker in answer to c. NULL, or what is wrong with it. */
const char *as_link_decode(const struct as_call *c, const struct as_frame *f, struct as_arena *a,
                           struct as_frame_msg *ret_m, struct as_payload *ret_p);
/* The body of the message c->rx_msg, which was decoded to p, is complete. NULL, or what is wrong
 * with it. */
const char *as_link_set_body(const struct as_call *c, struct as_payload *p, const uint8_t *body);

/* --- link_http.c: requests of HTTP --- */

/* c was sent: its windows, and what waits to be sent of its body. */
void as_link_start_http(struct as_link *l, struct as_call *c);
/* DATA with MSG, or END, of c. */
void as_link_on_http_frame(struct as_link *l, struct as_call *c, const struct as_frame *f);
/* The header of a DATA frame with bytes of c's answer; then all its bytes are here. NULL, or what
 * is wrong with it. */
const char *as_link_begin_http_bytes(struct as_link *l, struct as_call *c,
                                     const struct as_frame *f);
void as_link_on_http_bytes(struct as_link *l, struct as_call *c);
/* Sends as much of c->stream->input as its window allows; nothing while c is recalled: as long as
 * nothing was sent, another worker can get all of it. */
void as_link_send_http_input(struct as_link *l, struct as_call *c);
/* The streams of recalled requests whose inputs wait, before the recall is over; returns how many.
 */
uint32_t as_link_collect_held(struct as_link *l, uint64_t ids[AS_FRAME_IDS]);
void as_link_send_held(struct as_link *l, const uint64_t *ids, uint32_t n); /* and behind it */

/* --- link_parts.c: streams of several messages --- */

void as_link_start_stream(struct as_link *l, struct as_call *c); /* behind its OPEN */
/* DATA with F_MSG, or END, of such a stream. */
void as_link_on_part_frame(struct as_link *l, struct as_call *c, const struct as_frame *f);
void as_link_on_part_body(struct as_link *l,
                          struct as_call *c); /* a DATA frame of it is complete */
/* There is no memory for the n bytes of the part that is being received: the client is told. */
void as_link_drop_part(struct as_link *l, struct as_call *c, uint64_t n);
void as_link_return_credit(struct as_link *l, struct as_call *c, const struct as_frame_window *w);
void as_link_send_input(struct as_link *l, struct as_call *c); /* its input, when there is credit */
void as_link_send_input_end(struct as_link *l, struct as_call *c);
void as_link_on_stream_credit(struct as_link *l, const struct as_frame *f);

/* --- link_report.c --- */

void as_link_on_report(struct as_link *l, const struct as_frame *f);
/* The replica holds what the last report of models says. */
void as_link_apply_models(struct as_link *l);
void as_link_on_policy(struct as_link *l, const struct as_frame *f);
void as_link_free_reports(struct as_link *l);

/* --- link_handshake.c --- */

void as_link_on_hello(struct as_link *l, const struct as_frame *f);
void as_link_on_register(struct as_link *l, const struct as_frame *f);
void as_link_on_credit(struct as_link *l, const struct as_frame *f);

/* A driver makes no more calls on this link; also called when it ends. */
static inline void as_link_note_moved(struct as_link *l)
{
    if (l->calls_here)
        as_fleet_note_driver_moved(l->up.fleet);
    l->calls_here = false;
}

#endif
