/* Requests with several messages: parts of answers out, inputs in, credit for both. */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"

#include <string.h>

/* --- waiting for credit and inputs --- */

unsigned as_worker_wake_handler(struct as_worker *w, struct as_worker_req *q, unsigned what)
{
    unsigned awaited = q->awaits & what;

    if (w->n_awaiting)
        pthread_cond_broadcast(&w->changed);
    q->awaits &= ~what;
    return awaited;
}

void as_worker_notify(struct as_worker *w, struct as_worker_req *q, unsigned what)
{
    what = as_worker_wake_handler(w, q, what);
    if (!what)
        return;
    q->ready_for |= what;
    if (as_list_empty(&q->ready))
        as_list_push(&w->ready, &q->ready);
    if (w->event_loop)
        as_worker_wake(w);
}

static bool can_receive(const struct as_worker_req *q)
{
    return !as_list_empty(&q->inputs) || q->inputs_over || !as_worker_is_awaited(q);
}

bool as_worker_want(struct as_worker *w, struct as_worker_req *q, enum as_worker_want what)
{
    bool is;

    pthread_mutex_lock(&w->mu);
    is = what == AS_WANT_ROOM ? as_frame_window_is_open(&q->part_credit) || !as_worker_is_awaited(q)
                              : can_receive(q);
    if (!is)
        q->awaits |= what;
    pthread_mutex_unlock(&w->mu);
    return is;
}

bool as_worker_ready(struct as_worker *w, unsigned *ret_what, as_worker_visit take, void *ctx)
{
    struct as_list *n;

    pthread_mutex_lock(&w->mu);
    n = as_list_pop(&w->ready);
    if (n) {
        struct as_worker_req *q = AS_LIST_ENTRY(n, struct as_worker_req, ready);

        *ret_what = q->ready_for;
        q->ready_for = 0;
        take(ctx, q);
    }
    pthread_mutex_unlock(&w->mu);
    return n;
}

static bool is_cancelled(const struct as_worker_req *q)
{
    return atomic_load_explicit(&q->cancel, memory_order_relaxed) || !as_worker_is_awaited(q);
}

int as_worker_may_send(const struct as_worker_req *q)
{
    if (is_cancelled(q))
        return AS_ECANCELLED;
    return as_frame_window_is_open(&q->part_credit) ? 0 : AS_EAGAIN;
}

int as_worker_room(struct as_worker *w, struct as_worker_req *q)
{
    int r;

    pthread_mutex_lock(&w->mu);
    r = as_worker_may_send(q);
    pthread_mutex_unlock(&w->mu);
    return r;
}

static bool has_room(const struct as_worker_req *q)
{
    return as_worker_may_send(q) != AS_EAGAIN;
}

static bool has_input(const struct as_worker_req *q)
{
    return can_receive(q) || is_cancelled(q);
}

/* Waits until has(q). With the lock held. */
static void await_until(struct as_worker *w, struct as_worker_req *q,
                        bool (*has)(const struct as_worker_req *))
{
    bool runner = pthread_equal(pthread_self(), w->runner);

    if (runner && !has(q))
        as_worker_read_and_send(w);
    else if (as_worker_has_out(w))
        as_worker_send(w);
    while (!has(q)) {
        if (runner) { /* nobody else reads the socket now */
            (void)as_worker_sleep(w, AS_NEVER);
            as_worker_read_and_send(w);
            if (atomic_load_explicit(&w->handover_requested, memory_order_relaxed))
                as_worker_handover_start(w);
        } else {
            w->n_awaiting++;
            pthread_cond_wait(&w->changed, &w->mu);
            w->n_awaiting--;
        }
    }
    if (runner) {
        w->runner_seen = as_clock_now();
        as_worker_arm_guard(w);
        if (w->event_loop)
            as_worker_wake(w); /* other requests that arrived are handled in its next turn */
    }
}

int as_worker_await_room(struct as_worker *w, struct as_worker_req *q)
{
    int r;

    pthread_mutex_lock(&w->mu);
    await_until(w, q, has_room);
    r = is_cancelled(q) ? AS_ECANCELLED : 0;
    pthread_mutex_unlock(&w->mu);
    return r;
}

void as_worker_await_input(struct as_worker *w, struct as_worker_req *q)
{
    pthread_mutex_lock(&w->mu);
    await_until(w, q, has_input);
    pthread_mutex_unlock(&w->mu);
}

/* --- parts --- */

void as_worker_sent_part(struct as_worker *w, struct as_worker_req *q)
{
    as_ns now = as_clock_now();

    if (now - w->sent_at >= AS_WORKER_PART_QUIET || q->link->out.bytes > AS_WORKER_PUBLISH_BYTES) {
        w->sent_at = now;
        as_worker_send(w);
    } else {
        as_worker_arm_guard(w);
    }
}

/* With the lock held. owner: holds the bytes of msg; NULL: msg is small and is copied. */
static int put_part(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg,
                    struct as_blob *owner)
{
    struct as_frame_msg fixed = {.more = true};
    int err = as_worker_may_send(q);

    if (err)
        return err;
    fixed.tensor_params = as_worker_output_params(q);
    err = as_frame_put_msg(&q->link->out, AS_FRAME_DATA, q->stream, &fixed, msg, owner);
    if (err)
        return err;
    q->output_params.n = 0;
    as_frame_window_consume(&q->part_credit, as_frame_msg_cost(msg, &fixed.tensor_params, false));
    as_worker_sent_part(w, q);
    return 0;
}

int as_worker_part(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg)
{
    struct as_worker_outgoing o;
    int err;

    if (q->local_call)
        return as_worker_local_call_part(w, q, msg);
    if (q->is_call || q->is_http)
        return AS_EINVALID;
    err = as_worker_outgoing_init(&o, q, msg);
    if (err)
        return err;
    pthread_mutex_lock(&w->mu);
    err = put_part(w, q, o.msg, o.owner);
    pthread_mutex_unlock(&w->mu);
    as_worker_outgoing_fini(&o);
    return err;
}

void as_worker_finish(struct as_worker *w, struct as_worker_req *q)
{
    as_ns now = as_clock_now();

    if (q->local_call) {
        as_worker_local_call_end(w, q, 0, (struct as_str){0});
        return;
    }
    if ((q->is_call && !q->streams) || (q->is_http && !q->answer_begun)) {
        as_worker_fail(w, q, AS_STATUS_INTERNAL, AS_STR("it was ended without an answer"));
        return;
    }
    pthread_mutex_lock(&w->mu);
    if (as_worker_is_awaited(q))
        as_frame_put_end(&q->link->out, q->stream, now - q->started_at);
    as_worker_finish_req(w, q, now);
}

struct as_worker_req *as_worker_find_in(const struct as_list *head, uint64_t stream)
{
    AS_LIST_EACH_ENTRY(q, struct as_worker_req, node, head) {
        if (q->stream == stream)
            return q;
    }
    return NULL;
}

struct as_worker_req *as_worker_find_started(const struct as_worker_link *l, uint64_t stream)
{
    struct as_worker_entry *e = as_worker_table_find(&l->started, stream);

    return e ? AS_CONTAINER(e, struct as_worker_req, entry) : NULL;
}

struct as_worker_req *as_worker_find_open(const struct as_worker_link *l, uint64_t stream)
{
    struct as_worker_req *q = as_worker_find_started(l, stream);

    return q ? q : as_worker_find_in(&l->waiting, stream);
}

void as_worker_on_credit(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_worker_req *q = as_worker_find_open(l, f->stream);
    struct as_frame_credit c;

    if (as_frame_get_credit(f, &c) || !f->stream ||
        (q && as_frame_window_add(&q->part_credit, &c))) {
        as_worker_close_link(w, l, "the dispatcher sent a malformed CREDIT");
        return;
    }
    if (q && as_frame_window_is_open(&q->part_credit))
        as_worker_notify(w, q, AS_WANT_ROOM);
}

/* --- inputs --- */

static void grant_inputs(struct as_worker_req *q, struct as_frame_window g)
{
    struct as_frame_credit c = {.messages = (uint32_t)g.messages, .bytes = (uint64_t)g.bytes};

    q->input_credit.messages += g.messages;
    q->input_credit.bytes += g.bytes;
    as_frame_put_credit(&q->link->out, q->stream, &c);
}

void as_worker_stream_start(struct as_worker *w, struct as_worker_req *q)
{
    q->input_credit = q->owed_credit = (struct as_frame_window){0};
    if (!q->inputs_over)
        grant_inputs(q, w->inputs);
}

void as_worker_stream_stop(struct as_worker *w, struct as_worker_req *q)
{
    struct as_list *n;

    while ((n = as_list_pop(&q->inputs)))
        as_worker_req_put(w, AS_LIST_ENTRY(n, struct as_worker_req, node));
    if (!q->partial_input)
        return;
    if (q->link && q->link->rx.into == q->partial_input)
        q->partial_input->orphan = true; /* the receiver refers to it until the frame is complete */
    else
        as_worker_req_put(w, q->partial_input);
    q->partial_input = NULL;
}

struct as_worker_req *as_worker_find_partial_input(const struct as_worker_link *l, uint64_t stream)
{
    struct as_worker_req *q = as_worker_find_started(l, stream);

    return q ? q->partial_input : NULL;
}

void as_worker_deliver_input(struct as_worker *w, struct as_worker_req *q, struct as_worker_req *in)
{
    q->partial_input = NULL;
    q->inputs_over = q->inputs_over || in->inputs_over; /* of HTTP: a part of a body says so */
    as_list_push(&q->inputs, &in->node);
    as_worker_notify(w, q, AS_WANT_INPUT);
}

void as_worker_on_input_bytes(struct as_worker *w, struct as_worker_req *in)
{
    struct as_worker_req *q;
    const char *why;

    if (in->orphan) {
        as_worker_req_put(w, in);
        return;
    }
    if (!in->complete)
        return;
    q = as_worker_find_open(in->link, in->stream);
    AS_ASSERT(q && q->partial_input == in);
    if (in->is_call && as_worker_view_body(in, false, &why))
        as_worker_close_link(w, in->link, why);
    else
        as_worker_deliver_input(w, q, in);
}

void as_worker_on_input(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                        struct as_blob *buf)
{
    struct as_worker_req *q = as_worker_find_started(l, f->stream), *in;
    const char *why = NULL;
    int err;

    if (!q && f->stream <= l->top_stream && !as_worker_find_in(&l->waiting, f->stream))
        return; /* it crossed the end of its answer */
    if (q && q->is_http) {
        as_worker_ws_on_message(w, q, f);
        return;
    }
    if (!q || !as_worker_takes_inputs(w, q) || q->partial_input || q->inputs_over ||
        !as_frame_window_is_open(&q->input_credit)) {
        as_worker_close_link(w, l, "the dispatcher sent a message that its stream does not take");
        return;
    }
    in = as_worker_req_get(w, l);
    err = in ? as_worker_decode(w, in, f, buf, &why) : AS_ENOMEM;
    if (!err && in->is_call != q->is_call)
        err = AS_EPROTO;
    if (!err && in->is_call && in->complete)
        err = as_worker_view_body(in, false, &why);
    if (err) {
        if (in)
            as_worker_req_put(w, in);
        as_worker_close_link(w, l, why ? why : "out of memory for an input");
        return;
    }
    in->is_input = true;
    in->stream = q->stream;
    in->model = q->model;
    in->deadline = q->deadline;
    as_frame_window_consume(&q->input_credit, in->cost);
    q->inputs_over = f->flags & AS_FRAME_F_END;
    if (in->complete)
        as_worker_deliver_input(w, q, in);
    else
        q->partial_input = in;
}

void as_worker_on_input_end(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_worker_req *q = as_worker_find_open(l, f->stream);
    uint64_t service;

    if (!q && f->stream <= l->top_stream)
        return;
    if (!q || as_frame_get_end(f, &service) || !as_worker_takes_inputs(w, q) || q->inputs_over ||
        q->partial_input) {
        as_worker_close_link(w, l, "the dispatcher sent an END that its stream does not take");
        return;
    }
    q->inputs_over = true;
    as_worker_notify(w, q, AS_WANT_INPUT);
}

int as_worker_next_input(struct as_worker *w, struct as_worker_req *q,
                         struct as_worker_req **ret_input)
{
    struct as_list *n;
    int r = 0;

    pthread_mutex_lock(&w->mu);
    n = as_list_pop(&q->inputs);
    if (n)
        *ret_input = AS_LIST_ENTRY(n, struct as_worker_req, node);
    else if (is_cancelled(q))
        r = AS_ECANCELLED;
    else
        r = q->inputs_over ? AS_EOF : AS_EAGAIN;
    pthread_mutex_unlock(&w->mu);
    return r;
}

void as_worker_drop_input(struct as_worker *w, struct as_worker_req *q, struct as_worker_req *in)
{
    pthread_mutex_lock(&w->mu);
    q->owed_credit.messages++;
    q->owed_credit.bytes += (int64_t)in->cost;
    as_worker_req_put(w, in);
    if (q->link && as_worker_is_awaited(q) && !q->inputs_over &&
        (2 * q->owed_credit.messages >= w->inputs.messages ||
         2 * q->owed_credit.bytes >= w->inputs.bytes)) {
        grant_inputs(q, q->owed_credit);
        q->owed_credit = (struct as_frame_window){0};
        as_worker_arm_guard(w);
    }
    pthread_mutex_unlock(&w->mu);
    if (q->local_call)
        as_worker_local_call_input_taken(q);
}
