/* app/controller/confirm.h — holds back the answer to a change until the dispatcher knows of it.
 *
 * The dispatcher gets the names, models and routes of a change by messages, through the supervisor.
 * A client whose change was answered before they have arrived would be told that what it has just
 * deployed does not exist. So CONFIRM follows these messages, and the answer is sent when CONFIRMED
 * comes back, or after --confirm-timeout: the change is stored, and the dispatcher learns of it
 * later. Thread: the controller's loop.
 */
#ifndef AS_APP_CONFIRM_H
#define AS_APP_CONFIRM_H

#include "base/container/list.h"
#include "ctl/reconcile/reconciler.h"
#include "edge/admin/control.h"

struct as_confirm {
    struct as_reconciler *reconciler;
    const struct as_log *log;
    struct as_loop *loop;
    struct as_list waiting; /* answers, the oldest first */
    struct as_timer timer;  /* the oldest one's timeout */
    as_ns timeout;
    uint64_t last; /* id of the last CONFIRM; above all those of former controllers */
};

void as_confirm_open(struct as_confirm *o, struct as_reconciler *reconciler, struct as_loop *loop,
                     as_ns timeout, const struct as_log *log);
/* Cancels the calls that wait. The loop must run once more. */
void as_confirm_close(struct as_confirm *o);

/* Answers k with `json`, which is taken over, when the dispatcher has handled every message that
 * was sent before this call. */
void as_confirm_answer(struct as_confirm *o, struct as_control_call *k, struct as_buf *json);
/* CONFIRMED, and DISPATCHER: one that was just started may have missed a CONFIRM. Others are
 * ignored. */
void as_confirm_handle(struct as_confirm *o, const struct as_ctl_message *m);

#endif
