/* Handling the frames of the dispatcher. If it breaks the protocol the link ends. */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"
#include "wire/frame/frame_http.h"

#include <string.h>

static void drop_request(struct as_worker *w, struct as_worker_link *l, struct as_worker_req *q)
{
    as_list_remove(&q->node);
    l->n_waiting--;
    as_worker_count_closed(l, q);
    (void)as_worker_leave_batch(w, q);
    as_worker_stream_stop(w, q);
    as_worker_req_put(w, q);
}

/* --- greeting --- */

static void on_hello(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_frame_hello h;

    if (l->state != AS_WORKER_GREETING || l->greeted || as_frame_get_hello(f, &h) ||
        h.lo != AS_FRAME_VERSION || h.hi != AS_FRAME_VERSION || !h.max_message) {
        as_worker_close_link(w, l, "the dispatcher sent a bad HELLO");
        return;
    }
    w->epoch = h.epoch;
    l->peer_max = h.max_message;
    l->tensor_params = h.capabilities & AS_CAP_TENSOR_PARAMS;
    l->calls.known = h.capabilities & AS_CAP_CALLS;
    l->calls.reserves = h.capabilities & AS_CAP_RESERVE;
    l->greeted = true;
}

static void on_registered(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_frame_registered r;

    if (l->state != AS_WORKER_GREETING || as_frame_get_registered(f, &r) ||
        r.model >= w->n_models || l->registered[r.model]) {
        as_worker_close_link(w, l, "the dispatcher sent a bad REGISTERED");
        return;
    }
    l->registered[r.model] = true;
    l->targets[r.model] = r.target;
    l->n_registered++;
    if (r.code && !l->refusal) {
        const struct as_frame_register *m = &w->models[r.model].reg;

        l->refusal = r.code == as_err_grpc(AS_EEXISTS)   ? AS_EEXISTS
                     : r.code == as_err_grpc(AS_EDENIED) ? AS_EDENIED
                                                         : AS_EINVALID;
        snprintf(w->error, sizeof(w->error), "model %.*s version %.*s was refused: %.*s",
                 AS_STR_FMT(m->name), AS_STR_FMT(m->version), AS_STR_FMT(r.message));
    }
}

static void on_goodbye(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_str why;

    if (as_frame_get_text(f, &why) || !why.n)
        why = AS_STR("the dispatcher said goodbye");
    if (l->state == AS_WORKER_GREETING) {
        l->refusal = AS_EDENIED;
        as_worker_set_error(w, why);
    } else if (!w->error[0]) {
        as_worker_set_error(w, why);
    }
    as_worker_close_link(w, l, "");
}

/* --- requests --- */

static bool find_model(const struct as_worker *w, struct as_worker_link *l, uint32_t target,
                       uint32_t *ret_model)
{
    uint32_t i = l->last_target;

    if (l->targets[i] != target) {
        for (i = 0; i < w->n_models && l->targets[i] != target; i++)
            ;
        if (i == w->n_models)
            return false;
        l->last_target = i;
    }
    *ret_model = i;
    return true;
}

/* Copies the body out of the receive buffer, since too many buffers are referred to. */
static void copy_body(struct as_worker_req *q, const uint8_t *body)
{
    struct as_blob *b = as_blob_new((size_t)q->body_len);

    if (!b)
        return;
    memcpy(b->data, body, (size_t)q->body_len);
    for (uint32_t i = 0; i < q->msg.n_tensors; i++) {
        struct as_tensor *t = (struct as_tensor *)(uintptr_t)&q->msg.tensors[i];

        if (t->nbytes)
            t->data = b->data + (t->data - body);
    }
    q->call_bytes = b->data;
    q->body = b;
}

/* body: NULL: it follows. */
static int start_body(struct as_worker *w, struct as_worker_req *q, const uint8_t *body,
                      uint64_t len)
{
    q->body_len = len;
    q->call_bytes = body;
    if (body || !len) {
        q->body = q->head;
        q->complete = true;
        if (q->link->rx.pinned && len)
            copy_body(q, body);
        return 0;
    }
    if (len > w->conf.max_message)
        return AS_EPROTO;
    q->body = as_blob_new((size_t)len);
    if (!q->body)
        return AS_ENOMEM;
    q->call_bytes = q->body->data;
    return 0;
}

/* The head of a call, or of an answer to one. The body of a call is checked when it is complete. */
static int decode_call(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f,
                       const char **ret_why)
{
    struct as_frame_call c;
    int err = as_frame_get_call(f, &q->arena, &c, ret_why);

    if (err)
        return err;
    q->is_call = true;
    q->msg = (struct as_msg){.id = c.id, .meta = c.meta, .n_meta = c.n_meta};
    q->cost = c.cost;
    if (f->type == AS_FRAME_OPEN) {
        q->deadline = c.timeout ? as_clock_now() + c.timeout : AS_NEVER;
        q->streams = c.flags & AS_CALL_F_STREAM;
        q->beyond = c.flags & AS_CALL_F_BEYOND;
        q->call_inputs = c.flags & AS_CALL_F_INPUTS;
        *ret_why = "the dispatcher sent a call for a model that takes none";
        if (!find_model(w, q->link, c.target, &q->model) || !w->models[q->model].reg.opaque)
            return AS_EPROTO;
    }
    *ret_why = "the dispatcher sent a body that is larger than max_message";
    err = start_body(w, q, c.body, c.body_len);
    return err || !q->complete || f->type != AS_FRAME_OPEN ? err
                                                           : as_worker_view_body(q, false, ret_why);
}

static int decode_http(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f,
                       const char **ret_why)
{
    struct as_frame_http_open o;
    int err = as_worker_decode_http(q, f, &o, ret_why);

    if (err)
        return err;
    *ret_why = "the dispatcher sent a request of HTTP for a model that takes none";
    if (!find_model(w, q->link, o.target, &q->model) || !w->models[q->model].reg.http)
        return AS_EPROTO;
    err = start_body(w, q, o.body, o.body_len);
    as_worker_http_set_body(q);
    return err;
}

int as_worker_decode(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f,
                     struct as_blob *buf, const char **ret_why)
{
    struct as_frame_msg m;
    int err;

    q->head = as_blob_ref(buf);
    if (as_frame_kind_of(f) == AS_FRAME_CALL)
        return decode_call(w, q, f, ret_why);
    if (as_frame_kind_of(f) == AS_FRAME_HTTP && f->type == AS_FRAME_OPEN)
        return decode_http(w, q, f, ret_why);
    err = as_frame_get_msg(f, &q->arena, &m, &q->msg, ret_why);
    if (err)
        return err;
    q->tensor_params = m.tensor_params;
    q->cost = m.table.n + m.body_len;
    if (f->type == AS_FRAME_OPEN) {
        q->deadline = m.timeout ? as_clock_now() + m.timeout : AS_NEVER;
        *ret_why = "the dispatcher sent OPEN for an unknown model";
        if (m.kind != AS_FRAME_TENSOR || !find_model(w, q->link, m.target, &q->model) ||
            w->models[q->model].reg.opaque)
            return AS_EPROTO;
    }
    *ret_why = "the dispatcher sent a body that is larger than max_message";
    err = start_body(w, q, m.body, m.body_len);
    if (!err && !q->complete)
        as_frame_msg_set_body(&m, &q->msg, q->body->data);
    return err;
}

/* The next OPENs form a batch; their model is known when the first of them comes. */
static void on_batch(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_frame_batch b;

    if (l->batch || as_frame_get_batch(f, &b) || b.first <= l->top_stream) {
        as_worker_close_link(w, l, "the dispatcher sent a malformed BATCH");
        return;
    }
    l->batch = malloc(sizeof(*l->batch));
    if (!l->batch) {
        as_worker_close_link(w, l, "out of memory for a batch");
        return;
    }
    *l->batch = (struct as_worker_batch){.n_expected = b.n};
    l->batch_next = b.first;
}

/* An OPEN of the announced batch has come. q: NULL if there was no memory for it. */
static void join_batch(struct as_worker_link *l, struct as_worker_req *q)
{
    struct as_worker_batch *b = l->batch;

    if (!b)
        return;
    if (q) {
        q->batch = b;
        l->n_packed += b->n_open++ > 0;
    }
    l->batch_next += 2;
    if (--b->n_expected)
        return;
    l->batch = NULL;
    if (!b->n_open) /* all its requests have ended already */
        free(b);
}

/* Whether q fits the announced batch. NULL, or why not. */
static const char *check_member(const struct as_worker *w, const struct as_worker_link *l,
                                const struct as_worker_req *q)
{
    const struct as_worker_batch *b = l->batch;
    const struct as_worker_req *before =
        as_list_empty(&l->waiting) ? NULL
                                   : AS_LIST_ENTRY(l->waiting.prev, struct as_worker_req, node);

    if (!q->beyond && !(b && b->n_open) &&
        l->n_open - l->n_packed - l->n_beyond >= (uint64_t)l->max_granted + w->conf.max_prefetch)
        return "the dispatcher sent OPEN beyond the granted slots";
    if (!b)
        return NULL;
    if (q->is_call || q->is_http)
        return "the dispatcher sent a batch of calls";
    if (b->n_expected + b->n_open > w->models[q->model].reg.batching.max_size)
        return "the dispatcher sent a batch that is too large";
    if (before && before->batch == b && before->model != q->model)
        return "the dispatcher sent a batch of two models";
    return NULL;
}

static bool in_order(const struct as_worker_link *l, uint64_t stream)
{
    return (stream & 1) && stream > l->top_stream && (!l->batch || stream == l->batch_next);
}

static void on_open(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                    struct as_blob *buf)
{
    struct as_worker_req *q;
    const char *why = NULL;
    int err;

    if (!in_order(l, f->stream)) {
        as_worker_close_link(w, l, "the dispatcher sent OPEN out of order");
        return;
    }
    l->top_stream = f->stream;
    q = as_worker_req_get(w, l);
    err = q ? as_worker_decode(w, q, f, buf, &why) : AS_ENOMEM;
    if (!err && (why = check_member(w, l, q)))
        err = AS_EPROTO;
    if (!err) {
        q->stream = f->stream;
        q->inputs_over = f->flags & AS_FRAME_F_END;
        join_batch(l, q);
        as_list_push(&l->waiting, &q->node);
        l->n_waiting++;
        l->n_open++;
        l->n_beyond += q->beyond;
        return;
    }
    if (q)
        as_worker_req_put(w, q);
    if (err == AS_ENOMEM)
        join_batch(l, NULL);
    if (err == AS_ENOMEM)
        as_worker_put_error(l, f->stream, as_err_grpc(err), AS_ERROR_F_RETRY,
                            "the worker is out of memory");
    else
        as_worker_close_link(w, l, why ? why : "the dispatcher sent a malformed OPEN");
}

bool as_worker_begin_body(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                          struct as_worker_req **ret_q)
{
    bool last = f->flags & AS_FRAME_F_END, streams;
    struct as_worker_req *q, *open;

    if (!(f->stream & 1))
        return as_worker_begin_answer(w, l, f, ret_q);
    q = as_worker_find_in(&l->waiting, f->stream);
    open = q ? q : as_worker_find_started(l, f->stream);
    if (open && open->is_http)
        return as_worker_http_begin_data(w, open, f, ret_q);
    if (!q)
        q = as_worker_find_partial_input(l, f->stream);
    if (!q && f->stream <= l->top_stream)
        return false; /* its stream was cancelled, returned or refused meanwhile */
    /* there END means the end of all messages */
    streams = q && (q->is_input || as_worker_takes_inputs(w, q));
    if (!q || q->complete || f->n > q->body_len - q->body_received ||
        last > (q->body_received + f->n == q->body_len) ||
        (!streams && last != (q->body_received + f->n == q->body_len))) {
        as_worker_close_link(w, l, "the dispatcher sent DATA that does not fit its stream");
        return false;
    }
    *ret_q = q;
    return true;
}

void as_worker_on_body_bytes(struct as_worker *w, struct as_worker_req *q, size_t n)
{
    const char *why;

    q->body_received += n;
    q->complete = q->body_received == q->body_len;
    if (q->out)
        as_worker_on_answer_bytes(w, q);
    else if (q->is_input)
        as_worker_on_input_bytes(w, q);
    else if (q->complete && q->is_call && as_worker_view_body(q, false, &why))
        as_worker_close_link(w, q->link, why);
}

static void on_recall(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    uint64_t ids[AS_FRAME_IDS];
    uint32_t n, i = 0, k = 0;

    if (as_frame_get_ids(f, ids, AS_FRAME_IDS, &n)) {
        as_worker_close_link(w, l, "the dispatcher sent a malformed RECALL");
        return;
    }
    /* ids and list are both in stream order; requests that are not found have started or ended */
    AS_LIST_EACH_ENTRY(q, struct as_worker_req, node, &l->waiting) {
        while (i < n && ids[i] < q->stream)
            i++;
        if (i < n && ids[i] == q->stream) {
            ids[k++] = q->stream;
            drop_request(w, l, q);
        }
    }
    as_frame_put_ids(&l->out, AS_FRAME_RETURNED, ids, k);
}

static void on_cancel(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    struct as_worker_req *q;
    uint32_t reason;

    if (as_frame_get_cancel(f, &reason) || !reason || reason > 16) {
        as_worker_close_link(w, l, "the dispatcher sent a malformed CANCEL");
        return;
    }
    q = as_worker_find_in(&l->waiting, f->stream);
    if (q) {
        w->stat.cancels++;
        drop_request(w, l, q);
        as_worker_put_error(l, f->stream, reason, 0, "cancelled before it was started");
        return;
    }
    q = as_worker_find_started(l, f->stream);
    if (q) {
        w->stat.cancels++;
        as_worker_req_cancel(w, q, reason);
    }
}

/* --- ping and the rest --- */

static void on_ping(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    uint64_t opaque;

    if (as_frame_get_ping(f, &opaque))
        as_worker_close_link(w, l, "the dispatcher sent a malformed PING or PONG");
    else if (f->type == AS_FRAME_PING) {
        as_frame_put_ping(&l->out, AS_FRAME_PONG, opaque);
        /* the link is idle: this is the time to free what handlers no longer use */
        as_worker_trim(w);
        as_worker_count_memory(w);
        as_worker_publish_stat(w);
    } else
        l->wait_pong = false;
}

static void on_drain(struct as_worker *w, struct as_worker_link *l AS_UNUSED,
                     const struct as_frame *f AS_UNUSED)
{
    w->draining = true;
}

/* Of streams: the end of inputs, or of the answer to a call; room for an answer, or for calls. */
static void on_end(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    if (f->stream & 1)
        as_worker_on_input_end(w, l, f);
    else
        as_worker_on_answer_end(w, l, f);
}

static void on_credit(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f)
{
    if (f->stream)
        as_worker_on_credit(w, l, f);
    else
        as_worker_on_call_credit(w, l, f);
}

static void on_move(struct as_worker *w, struct as_worker_link *l AS_UNUSED,
                    const struct as_frame *f AS_UNUSED)
{
    atomic_store(&w->handover_requested, true);
    as_worker_wake(w);
}

void as_worker_on_frame(struct as_worker *w, struct as_worker_link *l, const struct as_frame *f,
                        struct as_blob *buf)
{
    static void (*const handlers[])(struct as_worker *, struct as_worker_link *,
                                    const struct as_frame *) = {
        [AS_FRAME_HELLO] = on_hello,
        [AS_FRAME_REGISTERED] = on_registered,
        [AS_FRAME_END] = on_end,
        [AS_FRAME_ERROR] = as_worker_on_answer_error,
        [AS_FRAME_RECALL] = on_recall,
        [AS_FRAME_BATCH] = on_batch,
        [AS_FRAME_CANCEL] = on_cancel,
        [AS_FRAME_CREDIT] = on_credit,
        [AS_FRAME_CONTROL] = as_worker_on_control,
        [AS_FRAME_PING] = on_ping,
        [AS_FRAME_PONG] = on_ping,
        [AS_FRAME_DRAIN] = on_drain,
        [AS_FRAME_GOODBYE] = on_goodbye,
        [AS_FRAME_MOVE] = on_move,
        [AS_FRAME_POLICY] = as_worker_on_policy,
        [AS_FRAME_RESERVED] = as_worker_on_reserved,
    };
    bool starts = f->type == AS_FRAME_OPEN || f->type == AS_FRAME_BATCH;
    bool taken = !starts || l->state == AS_WORKER_LIVE;

    if (f->type == AS_FRAME_OPEN && taken)
        on_open(w, l, f, buf);
    else if (f->type == AS_FRAME_DATA && f->stream && !(f->stream & 1))
        as_worker_on_answer(w, l, f, buf);
    else if (f->type == AS_FRAME_DATA)
        as_worker_on_input(w, l, f, buf);
    else if (f->type < AS_COUNT(handlers) && handlers[f->type] && taken)
        handlers[f->type](w, l, f);
    else if (as_frame_handling_of(f) != AS_FRAME_SKIP)
        as_worker_close_link(w, l, "the dispatcher sent a frame that a worker does not take");
}
