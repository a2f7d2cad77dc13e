/* link/worker/worker_out.h — calls that this program opens, between opening and their end. Private
 * to link/worker.
 *
 * An out is the program's (`held`) until it frees or detaches it, and the link's (`sent`) from its
 * OPEN until the server has ended its stream; it goes back to the pool when it is neither. What its
 * reader will see is settled when `over` is set; that may be earlier than the end of its stream.
 *
 * Calls are counted in *families*: those of one request, and those without a parent, per link. The
 * server grants each family so many open calls. What is more waits in the family, in order. When a
 * request ends, its calls become calls without a parent; the server does the same when it sees
 * that request's answer, which is sent before the next OPEN.
 *
 * A call may reserve a slot first (`slot`): RESERVED gives it one, and as_worker_use_slot sends
 * what is to be executed there, in a second OPEN of the same stream.
 *
 * The lock of the worker guards everything.
 */
#ifndef AS_LINK_WORKER_OUT_H
#define AS_LINK_WORKER_OUT_H

#include "base/container/list.h"
#include "link/worker/worker_table.h"
#include "wire/frame/frame_call.h"

#include <anyserve/worker.h>

struct as_worker_link;

enum as_worker_slot { AS_WORKER_SLOT_NONE, AS_WORKER_SLOT_WANTED, AS_WORKER_SLOT_HELD };

struct as_worker_family {
    struct as_list waiting, open;
    struct as_frame_window used; /* calls that are open, and the bytes of their OPENs */
};

/* A thread that waits for an out; on that thread's stack. */
struct as_worker_waiter {
    struct as_worker_waiter *next;
    _Atomic uint32_t woken; /* a futex */
};

struct as_worker_out {
    struct as_list node; /* in its family, or in the pool */
    struct as_list all;  /* in as_worker.outs */
    struct as_list news; /* in as_worker.news */
    struct as_worker *w;
    struct as_worker_family *family; /* NULL: its stream has ended */
    struct as_worker_req *parent;    /* that is not answered yet; NULL: none */
    struct as_worker_link *link;     /* with `sent` */
    struct as_worker_entry entry;    /* in link->outs */
    uint64_t stream;
    uint64_t cost; /* in `family`, while it is sent */
    uint32_t target, flags;
    as_ns deadline;
    bool held, sent, over;
    bool dropped; /* what comes is not decoded any more: it was cancelled or freed */
    bool detached;
    bool owns_news; /* it is in as_worker.news */
    void *data;
    struct as_blob *kept;       /* while it waits: its body, id and metadata … */
    struct as_frame_call *open; /* … and this, which says where they are */
    /* what came */
    struct as_list messages;       /* complete ones (struct as_worker_req) */
    struct as_worker_req *partial; /* one whose body is being received */
    struct as_worker_req *current; /* the one that was read last */
    uint32_t status, error_flags;
    struct as_blob *text; /* of the failure, or NULL … */
    struct as_str why;    /* … which this points to, or a constant */
    struct as_worker_waiter *waiters;
    enum as_worker_slot slot;
    bool slot_news;          /* it has a slot, and the program has not read that yet … */
    struct as_blob *replica; /* … of the replica of this name, or NULL … */
    struct as_meta place;    /* … as the program reads it */
    struct as_frame_window credit, owed; /* of a stream: what may come; what was read since */
    uint32_t window, first_grant;        /* first_grant: before it was sent */
};

/* The part of a link that calls use. */
struct as_worker_callers {
    bool known;                   /* the server takes calls: it has said the capability CALLS … */
    bool reserves;                /* … RESERVE … */
    bool granted;                 /* … and CREDIT: */
    struct as_frame_window limit; /* of each family */
    uint64_t top_stream;          /* the last one that we used */
    struct as_worker_table outs;  /* those that are open */
    struct as_worker_family family; /* of the calls without a parent: `open` and `used` */
};

/* --- worker_out.c: opening and sending. With the lock held, unless a comment says otherwise --- */

void as_worker_family_init(struct as_worker_family *f);
/* Ends o for its reader, if it is not over, and removes what it has not read. text: copied if
 * `copy`, else a constant. */
void as_worker_out_end(struct as_worker *w, struct as_worker_out *o, uint32_t status,
                       uint32_t flags, struct as_str text, bool copy);
/* Cancels a call that is not over: tells the server, if it was sent (nothing is written yet). */
void as_worker_out_abandon(struct as_worker *w, struct as_worker_out *o, uint32_t reason,
                           struct as_str text);
/* The server has ended the stream of o: it is not sent any more. Sends what waits in its family. */
void as_worker_out_closed(struct as_worker *w, struct as_worker_out *o);
/* q was cancelled: so are its calls. */
void as_worker_cancel_children(struct as_worker *w, struct as_worker_req *q, uint32_t reason);
/* q ends: its calls have no parent from now on. After its answer was put into the output queue. */
void as_worker_leave_children(struct as_worker *w, struct as_worker_req *q);
/* Sends waiting calls as far as l has credit for them: after CREDIT, or when l has become live. */
void as_worker_send_calls(struct as_worker *w, struct as_worker_link *l);
/* l has ended: what was sent over it has failed. */
void as_worker_fail_calls(struct as_worker *w, struct as_worker_link *l);
/* There will be no further link: calls that wait for one have failed. */
void as_worker_fail_unsent(struct as_worker *w, const char *text);
/* Ends calls whose deadline has passed while they waited for a link. */
void as_worker_expire_calls(struct as_worker *w);

void as_worker_out_send(struct as_worker *w);
/* Copies what a call needs until it is sent into one blob: its body, laid out, *c itself, metadata,
 * id. *c refers to the copies. NULL: out of memory. */
struct as_blob *as_worker_keep_call(struct as_frame_call *c, const struct as_body *body);
/* Grants the callee of a call that streams what its reader has room for at first. */
void as_worker_grant_stream(struct as_worker *w, struct as_worker_out *o);

/* --- worker_slot.c: calls that reserve a slot first --- */

/* RESERVED. */
void as_worker_on_reserved(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f);

/* --- worker_out_pool.c --- */

struct as_worker_out *as_worker_out_get(struct as_worker *w); /* held; NULL: out of memory */
/* Puts o into the pool, if neither the program nor the link has it, and it does not wait. */
void as_worker_out_settle(struct as_worker *w, struct as_worker_out *o);
void as_worker_free_outs(struct as_worker *w); /* all */
struct as_worker_out *as_worker_out_find(const struct as_worker_link *l, uint64_t stream);

/* --- worker_out_read.c --- */

/* o has something new for its reader. */
void as_worker_out_notify(struct as_worker *w, struct as_worker_out *o);
/* A whole message has come; `last`: nothing follows. */
void as_worker_out_deliver(struct as_worker *w, struct as_worker_out *o, struct as_worker_req *in,
                           bool last);
void as_worker_out_drop_messages(struct as_worker *w, struct as_worker_out *o);
void as_worker_out_drop_partial(struct as_worker *w, struct as_worker_out *o);
/* Nobody reads o any more: drops its messages, now and as they come. */
void as_worker_out_detached(struct as_worker *w, struct as_worker_out *o);
void as_worker_forget_news(struct as_worker *w, struct as_worker_out *o);

/* --- worker_out_frame.c: frames of even streams --- */

void as_worker_on_answer(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                         struct as_blob *buf);
/* DATA that continues the body of an answer: as as_worker_begin_body. */
bool as_worker_begin_answer(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                            struct as_worker_req **ret_q);
void as_worker_on_answer_bytes(struct as_worker *w, struct as_worker_req *in);
void as_worker_on_answer_end(struct as_worker *w, struct as_worker_link *l,
                             const struct as_frame *f);
void as_worker_on_answer_error(struct as_worker *w, struct as_worker_link *l,
                               const struct as_frame *f);
/* CREDIT on stream 0. */
void as_worker_on_call_credit(struct as_worker *w, struct as_worker_link *l,
                              const struct as_frame *f);

/* --- worker_report.c --- */

void as_worker_send_targets(struct as_worker *w, struct as_worker_link *l); /* and reports */
void as_worker_reports_free(struct as_worker *w);

#endif
