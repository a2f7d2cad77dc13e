#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"

#include <string.h>

#define POOL_MAX 1024

/* --- memory of requests --- */

struct as_worker_req *as_worker_req_get(struct as_worker *w, struct as_worker_link *l)
{
    struct as_list *n = as_list_pop(&w->pool);
    struct as_worker_req *q;

    if (n) {
        q = AS_LIST_ENTRY(n, struct as_worker_req, node);
        w->n_pool--;
    } else {
        q = malloc(sizeof(*q));
        if (!q)
            return NULL;
        as_list_init(&q->node);
        as_list_init(&q->cancelled);
        as_list_init(&q->ready);
        as_list_init(&q->inputs);
        as_worker_family_init(&q->children);
        as_arena_init(&q->arena, q->first, sizeof(q->first));
    }
    q->link = l;
    q->link_number = l ? l->number : 0;
    q->complete = false;
    q->batch = NULL;
    atomic_store_explicit(&q->cancel, 0, memory_order_relaxed);
    q->head = q->body = NULL;
    q->body_received = q->body_len = 0;
    q->data = NULL;
    q->local_call = NULL;
    q->tensor_params = q->output_params = (struct as_tensor_params){0};
    q->part_credit = (struct as_frame_window){0};
    q->partial_input = NULL;
    q->inputs_over = q->is_input = q->orphan = false;
    q->awaits = q->ready_for = 0;
    q->is_call = q->streams = q->beyond = q->is_http = q->answer_begun = q->call_inputs = false;
    q->is_websocket = q->ws_accepted = false;
    q->ws_opcode = q->ws_code = 0;
    q->http = NULL;
    q->out = NULL;
    return q;
}

void as_worker_req_put(struct as_worker *w, struct as_worker_req *q)
{
    as_arena_reset(&q->arena);
    if (q->body != q->head)
        as_blob_unref(q->body);
    as_blob_unref(q->head);
    if (w->n_pool == POOL_MAX) {
        free(q);
        return;
    }
    /* the newest is reused first: it is still in the CPU cache */
    as_list_insert_after(&w->pool, &q->node);
    w->n_pool++;
}

/* --- starting --- */

bool as_worker_leave_batch(struct as_worker *w AS_UNUSED, struct as_worker_req *q)
{
    struct as_worker_batch *b = q->batch;

    q->batch = NULL;
    if (!b)
        return true;
    if (--b->n_open) {
        if (q->link && as_worker_is_awaited(q))
            q->link->n_packed--;
        return false;
    }
    if (!b->n_expected) /* else its link still refers to it, and frees it */
        free(b);
    return true;
}

/* Whether q can start: its body is here, and those of its whole batch, which follow it in the list.
 */
static bool is_batch_complete(const struct as_worker_link *l, const struct as_worker_req *q)
{
    const struct as_worker_batch *b = q->batch;

    if (!b)
        return q->complete;
    if (b->n_expected)
        return false;
    for (const struct as_list *n = &q->node; n != &l->waiting; n = n->next) {
        const struct as_worker_req *o =
            AS_LIST_ENTRY((struct as_list *)(uintptr_t)n, struct as_worker_req, node);

        if (o->batch != b)
            break;
        if (!o->complete)
            return false;
    }
    return true;
}

/* full: only a request beyond the slots can start. */
static struct as_worker_req *first_waiting(const struct as_worker *w,
                                           const struct as_worker_link *l, bool full)
{
    if (full && !l->n_beyond)
        return NULL;
    AS_LIST_EACH_ENTRY(q, struct as_worker_req, node, &l->waiting) {
        const struct as_worker_served_model *m = &w->models[q->model];

        if (q->beyond) {
            if (q->complete)
                return q;
            continue;
        }
        /* bodies come in order: the next read brings it */
        full = full || !is_batch_complete(l, q);
        if (!full && (!w->capped || m->running < m->cap))
            return q;
        if (full && !l->n_beyond)
            return NULL;
    }
    return NULL;
}

static struct as_worker_req *first_startable(const struct as_worker *w, bool only_beyond)
{
    struct as_worker_req *q = NULL;
    bool full = only_beyond || w->n_busy >= w->slots;

    for (int i = 0; i < 2 && !q; i++)
        q = first_waiting(w, as_worker_link_at((struct as_worker *)(uintptr_t)w, i), full);
    return q;
}

bool as_worker_has_startable(const struct as_worker *w)
{
    return first_startable(w, false) != NULL;
}

/* A started request ends: frees its slot. */
static void release_slot(struct as_worker *w, struct as_worker_req *q)
{
    as_list_remove(&q->node);
    as_list_remove(&q->cancelled);
    as_list_remove(&q->ready);
    if (q->link && as_worker_is_awaited(q)) /* else the table was cleared with its link */
        as_worker_table_remove(&q->link->started, &q->entry);
    w->n_running--;
    if (as_worker_leave_batch(w, q) && !q->beyond) {
        w->n_busy--;
        w->models[q->model].running--;
    }
}

static void mark_started(struct as_worker *w, struct as_worker_req *q, as_ns now)
{
    as_list_remove(&q->node);
    q->link->n_waiting--;
    as_list_push(&w->running, &q->node);
    as_worker_table_add(&q->link->started, &q->entry, q->stream);
    w->n_running++;
    q->started_at = now;
    as_page_start(&q->link->page, q->stream, now);
    if (as_worker_takes_inputs(w, q))
        as_worker_stream_start(w, q);
}

/* The next request in the list, if it is of the same batch. */
static struct as_worker_req *next_of_batch(struct as_worker *w, const struct as_worker_batch *b,
                                           const struct as_list *after)
{
    struct as_list *n = after->next;
    struct as_worker_req *q;

    if (!b || n == &w->links[0].waiting || n == &w->links[1].waiting || n == &w->running)
        return NULL;
    q = AS_LIST_ENTRY(n, struct as_worker_req, node);
    return q->batch == b ? q : NULL;
}

static void refuse_late(struct as_worker *w, struct as_worker_req *q)
{
    as_list_remove(&q->node);
    q->link->n_waiting--;
    as_worker_count_closed(q->link, q);
    as_worker_put_error(q->link, q->stream, as_err_grpc(AS_EDEADLINE), 0,
                        "deadline exceeded before the request was started");
    (void)as_worker_leave_batch(w, q);
    as_worker_stream_stop(w, q);
    as_worker_req_put(w, q);
}

/* Starts q and the rest of its batch, which follows q in the list, before any handler runs.
 * Requests whose deadline has passed are answered instead; q is not one of them. */
static void start_batch(struct as_worker *w, struct as_worker_req *q, as_ns now)
{
    const struct as_worker_batch *b = q->batch;
    struct as_list *before = q->node.prev;
    struct as_worker_req *o;

    w->n_busy += !q->beyond;
    w->models[q->model].running += !q->beyond;
    w->stat.calls++;
    mark_started(w, q, now);
    while ((o = next_of_batch(w, b, before))) {
        if (o->deadline <= now)
            refuse_late(w, o);
        else
            mark_started(w, o, now);
    }
}

struct as_worker_req *as_worker_next_member(struct as_worker *w, const struct as_worker_req *q)
{
    struct as_worker_req *o;

    pthread_mutex_lock(&w->mu);
    o = next_of_batch(w, q->batch, &q->node);
    pthread_mutex_unlock(&w->mu);
    return o;
}

/* Reads the socket if the last read is too old: the dispatcher may have cancelled or recalled
 * waiting requests while a handler ran. */
static void read_if_stale(struct as_worker *w, as_ns now)
{
    if (!w->was_read && as_worker_waiting(w) && now - w->last_fresh_start >= AS_WORKER_READ_MAX_AGE)
        as_worker_read(w);
    if (w->was_read) {
        w->was_read = false;
        w->last_fresh_start = now;
    }
}

struct as_worker_req *as_worker_next_beyond(struct as_worker *w)
{
    struct as_worker_req *q;
    as_ns now = as_clock_now();

    pthread_mutex_lock(&w->mu);
    while ((q = first_startable(w, true)) && q->deadline <= now)
        refuse_late(w, q);
    if (q)
        start_batch(w, q, now);
    pthread_mutex_unlock(&w->mu);
    return q;
}

struct as_worker_req *as_worker_next(struct as_worker *w)
{
    struct as_worker_req *q;
    as_ns now;

    pthread_mutex_lock(&w->mu);
    now = w->recent_clock ? w->recent_clock : as_clock_now();
    w->recent_clock = 0;
    w->runner_seen = now;
    if (__builtin_expect(atomic_load_explicit(&w->handover_requested, memory_order_relaxed), 0))
        as_worker_handover_start(w);
    read_if_stale(w, now);
    while ((q = first_startable(w, false)) && q->deadline <= now) {
        refuse_late(w, q);
    }
    if (!w->event_loop) /* the caller runs handlers between calls of this function */
        as_worker_set_held(w, q ? now : 0);
    if (q) {
        start_batch(w, q, now);
        as_worker_arm_guard(w);
    } else {
        if (as_worker_has_out(w))
            as_worker_send(w);
        as_worker_publish_stat(w);
    }
    pthread_mutex_unlock(&w->mu);
    return q;
}

/* --- ending --- */

void as_worker_put_error(struct as_worker_link *l, uint64_t stream, uint32_t code, uint32_t flags,
                         const char *text)
{
    struct as_frame_error e = {.code = code, .flags = flags, .message = as_str_of(text)};

    as_frame_put_error(&l->out, stream, &e);
}

void as_worker_req_cancel(struct as_worker *w, struct as_worker_req *q, uint32_t reason)
{
    if (atomic_exchange_explicit(&q->cancel, reason, memory_order_relaxed))
        return;
    as_list_push(&w->cancelled, &q->cancelled);
    as_worker_cancel_children(w, q, reason);
    if (w->n_awaiting)
        pthread_cond_broadcast(&w->changed);
    if (w->event_loop)
        as_worker_wake(w);
}

void as_worker_finish_req(struct as_worker *w, struct as_worker_req *q, as_ns now)
{
    struct as_blob *body = q->body != q->head ? q->body : NULL;
    bool is_much;

    q->body = q->head;
    as_worker_stream_stop(w, q);
    as_worker_leave_children(w, q);
    release_slot(w, q);
    w->runner_seen = w->recent_clock = now;
    if (as_worker_is_awaited(q)) {
        as_worker_count_closed(q->link, q);
        as_page_finish(&q->link->page, now);
    }
    is_much = q->link->out.bytes > AS_WORKER_PUBLISH_BYTES;
    as_worker_req_put(w, q);
    if (is_much)
        as_worker_send(w);
    else
        as_worker_arm_guard(w);
    /* the runner sleeps: a request may start now, or the drain may be complete */
    if ((w->parked && as_worker_waiting(w)) || (w->draining && (w->parked || w->event_loop)))
        as_worker_wake(w);
    pthread_mutex_unlock(&w->mu);
    as_blob_unref(body); /* freed outside the lock, since it may be large */
}

/* For bodies that are too large to be copied with the lock held. */
struct as_blob *as_worker_copy_tensors(const struct as_msg *msg, struct as_tensor *t, uint64_t len)
{
    struct as_blob *b = as_blob_new((size_t)len);
    size_t at = 0;

    if (!b)
        return NULL;
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        t[i] = msg->tensors[i];
        at = AS_ALIGN(at, (size_t)AS_FRAME_ALIGN);
        if (t[i].nbytes)
            memcpy(b->data + at, t[i].data, t[i].nbytes);
        t[i].data = b->data + at;
        at += t[i].nbytes;
    }
    return b;
}

int as_worker_outgoing_init(struct as_worker_outgoing *o, const struct as_worker_req *q,
                            const struct as_msg *msg)
{
    uint64_t len = as_frame_body_len(msg->tensors, msg->n_tensors);
    uint32_t n = msg->n_tensors;

    o->msg = msg;
    o->owner = NULL;
    o->tensors = o->few;
    if (len > q->link->peer_max)
        return AS_ETOOBIG;
    if (len <= AS_FRAME_INLINE)
        return 0;
    if (n > AS_WORKER_FEW_TENSORS)
        o->tensors = malloc(n * sizeof(*o->tensors));
    o->owner = o->tensors ? as_worker_copy_tensors(msg, o->tensors, len) : NULL;
    if (!o->owner) {
        as_worker_outgoing_fini(o);
        return AS_ENOMEM;
    }
    o->large = *msg;
    o->large.tensors = o->tensors;
    o->msg = &o->large;
    return 0;
}

void as_worker_outgoing_fini(struct as_worker_outgoing *o)
{
    as_blob_unref(o->owner);
    if (o->tensors != o->few)
        free(o->tensors);
}

int as_worker_answer(struct as_worker *w, struct as_worker_req *q, const struct as_msg *msg)
{
    uint32_t cancel = atomic_load_explicit(&q->cancel, memory_order_relaxed);
    struct as_frame_msg fixed = {0};
    struct as_worker_outgoing o;
    as_ns now;
    int err;

    if (__builtin_expect(q->local_call != NULL, 0)) {
        as_worker_local_call_answer(w, q, msg);
        return 0;
    }
    if (q->is_call || q->is_http)
        return AS_EINVALID;
    if (cancel) { /* nobody reads the tensors */
        as_worker_fail(w, q, cancel, AS_STR("cancelled"));
        return 0;
    }
    err = as_worker_outgoing_init(&o, q, msg);
    if (err)
        return err;
    now = as_clock_now();
    fixed.service = now - q->started_at;
    fixed.ended = as_frame_moment(now);
    pthread_mutex_lock(&w->mu);
    fixed.tensor_params = as_worker_output_params(q);
    if (as_worker_is_awaited(q))
        err = as_frame_put_msg(&q->link->out, AS_FRAME_DATA, q->stream, &fixed, o.msg, o.owner);
    if (err)
        pthread_mutex_unlock(&w->mu);
    else
        as_worker_finish_req(w, q, now);
    as_worker_outgoing_fini(&o);
    return err;
}

void as_worker_fail(struct as_worker *w, struct as_worker_req *q, uint32_t grpc_status,
                    struct as_str message)
{
    as_ns now = as_clock_now();
    struct as_frame_error e = {.code = grpc_status,
                               .flags = AS_ERROR_F_STARTED,
                               .service = now - q->started_at,
                               .message = message};

    if (q->local_call) {
        as_worker_local_call_end(w, q, grpc_status, message);
        return;
    }
    pthread_mutex_lock(&w->mu);
    if (as_worker_is_awaited(q))
        as_frame_put_error(&q->link->out, q->stream, &e);
    as_worker_finish_req(w, q, now);
}

bool as_worker_cancelled(struct as_worker *w, as_worker_visit take, void *ctx)
{
    struct as_list *n;

    pthread_mutex_lock(&w->mu);
    n = as_list_pop(&w->cancelled);
    if (n) /* with the lock held, so that it cannot be answered meanwhile */
        take(ctx, AS_LIST_ENTRY(n, struct as_worker_req, cancelled));
    pthread_mutex_unlock(&w->mu);
    return n;
}

/* --- accessors of a request --- */

const struct as_msg *as_worker_req_msg(const struct as_worker_req *q)
{
    return &q->msg;
}

const struct as_tensor_param *as_worker_req_tensor_params(const struct as_worker_req *q,
                                                          uint32_t *ret_n)
{
    *ret_n = q->tensor_params.n;
    return q->tensor_params.at;
}

int as_worker_req_set_tensor_params(struct as_worker_req *q, const struct as_tensor_param *p,
                                    uint32_t n)
{
    struct as_tensor_params said = {p, n};

    if (!as_tensor_params_ordered(&said, AS_WORKER_TENSORS))
        return AS_EINVALID;
    for (uint32_t i = 0; i < n; i++) {
        if (as_tensor_param_reserved(p[i].param.name))
            return AS_EINVALID;
    }
    q->output_params = said;
    return 0;
}

uint32_t as_worker_req_model(const struct as_worker_req *q)
{
    return q->model;
}

as_ns as_worker_req_deadline(const struct as_worker_req *q)
{
    return q->deadline;
}

bool as_worker_req_cancelled(const struct as_worker_req *q)
{
    return atomic_load_explicit(&q->cancel, memory_order_relaxed) ||
           (q->deadline != AS_NEVER && q->deadline <= as_clock_now());
}

void as_worker_req_set_data(struct as_worker_req *q, void *data)
{
    q->data = data;
}

void *as_worker_req_data(const struct as_worker_req *q)
{
    return q->data;
}

void *as_worker_req_hold(struct as_worker_req *q)
{
    return as_blob_ref(q->body);
}

void as_worker_release_hold(void *hold)
{
    as_blob_unref(hold);
}

void *as_worker_hold_new(size_t n, uint8_t **ret_bytes)
{
    struct as_blob *b = as_blob_new(n);

    if (b)
        *ret_bytes = b->data;
    return b;
}
