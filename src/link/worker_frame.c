/* What each frame of the dispatcher does to the worker. A broken rule ends the link. */
#include "link/worker_priv.h"

#include <string.h>

static struct as_worker_req *find(const struct as_list *head, uint64_t stream)
{
    AS_LIST_EACH(n, head)
    {
        struct as_worker_req *q = AS_LIST_ENTRY(n, struct as_worker_req, node);

        if (q->stream == stream)
            return q;
    }
    return NULL;
}

static void drop(struct as_worker *w, struct as_worker_req *q)
{
    as_list_remove(&q->node);
    w->n_waiting--;
    w->n_open--;
    (void)as_worker_leave_batch(w, q);
    as_worker_req_put(w, q);
}

/* --- greeting --- */

static void on_hello(struct as_worker *w, const struct as_frame *f)
{
    struct as_frame_hello h;

    if (w->state != AS_WORKER_GREETING || w->greeted || as_frame_get_hello(f, &h) ||
        h.lo != AS_FRAME_VERSION || h.hi != AS_FRAME_VERSION || !h.max_message) {
        as_worker_end(w, "the dispatcher sent a bad HELLO");
        return;
    }
    w->epoch = h.epoch;
    w->peer_max = h.max_message;
    w->greeted = true;
}

static void on_registered(struct as_worker *w, const struct as_frame *f)
{
    struct as_frame_registered r;

    if (w->state != AS_WORKER_GREETING || as_frame_get_registered(f, &r) ||
        r.model >= w->n_models || w->models[r.model].registered) {
        as_worker_end(w, "the dispatcher sent a bad REGISTERED");
        return;
    }
    w->models[r.model].registered = true;
    w->models[r.model].target = r.target;
    w->n_registered++;
    if (r.code && !w->refused) {
        const struct as_frame_register *m = &w->models[r.model].reg;

        w->refused = r.code == as_err_grpc(AS_EEXISTS)   ? AS_EEXISTS
                     : r.code == as_err_grpc(AS_EDENIED) ? AS_EDENIED
                                                         : AS_EINVALID;
        snprintf(w->error, sizeof(w->error), "model %.*s version %.*s was refused: %.*s",
                 AS_STR_FMT(m->name), AS_STR_FMT(m->version), AS_STR_FMT(r.message));
    }
}

static void on_goodbye(struct as_worker *w, const struct as_frame *f)
{
    struct as_str why;

    if (as_frame_get_text(f, &why) || !why.n)
        why = AS_STR("the dispatcher said goodbye");
    if (w->state == AS_WORKER_GREETING) {
        w->refused = AS_EDENIED;
        as_worker_set_error(w, why);
    } else if (!w->error[0]) {
        as_worker_set_error(w, why);
    }
    as_worker_end(w, "");
}

/* --- requests --- */

static bool find_model(struct as_worker *w, uint32_t target, uint32_t *ret_model)
{
    uint32_t i = w->last_target;

    if (w->models[i].target != target) {
        for (i = 0; i < w->n_models && w->models[i].target != target; i++)
            ;
        if (i == w->n_models)
            return false;
        w->last_target = i;
    }
    *ret_model = i;
    return true;
}

/* Too many buffers are held by somebody: these bytes get a place of their own. */
static void copy_out(struct as_worker_req *q, const struct as_frame_msg *m)
{
    struct as_blob *b = as_blob_new((size_t)m->body_len);

    if (!b)
        return;
    memcpy(b->data, m->body, (size_t)m->body_len);
    for (uint32_t i = 0; i < q->msg.n_tensors; i++) {
        struct as_tensor *t = (struct as_tensor *)(uintptr_t)&q->msg.tensors[i];

        if (t->nbytes)
            t->data = b->data + (t->data - m->body);
    }
    q->body = b;
}

static int take_body(struct as_worker *w, struct as_worker_req *q, const struct as_frame_msg *m)
{
    q->body_len = m->body_len;
    if (m->body || !m->body_len) {
        q->body = q->head;
        q->complete = true;
        if (w->rx.pinned && m->body_len)
            copy_out(q, m);
        return 0;
    }
    if (m->body_len > w->conf.max_message)
        return AS_EPROTO;
    q->body = as_blob_new((size_t)m->body_len);
    if (!q->body)
        return AS_ENOMEM;
    as_frame_msg_place(m, &q->msg, q->body->data);
    return 0;
}

/* 0, AS_ENOMEM (this request only), AS_EPROTO with the reason. */
int as_worker_decode(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f,
                     struct as_blob *buf, const char **ret_why)
{
    struct as_frame_msg m;
    int err = as_frame_msg_open(f, &q->arena, &m, &q->msg, ret_why);

    if (err)
        return err;
    q->head = as_blob_ref(buf);
    q->cost = m.table.n + m.body_len;
    if (f->type == AS_FRAME_OPEN) {
        q->deadline = m.timeout ? as_worker_clock() + m.timeout : AS_NEVER;
        *ret_why = "OPEN for an unknown target";
        if (m.kind != AS_FRAME_TENSOR || !find_model(w, m.target, &q->model))
            return AS_EPROTO;
    }
    *ret_why = "a body over the limit";
    return take_body(w, q, &m);
}

/* The next OPENs are one call. It is made when the first of them comes, since only then its model
 * is known. */
static void on_batch(struct as_worker *w, const struct as_frame *f)
{
    struct as_frame_batch b;

    if (w->batch || as_frame_get_batch(f, &b) || b.first <= w->top_stream) {
        as_worker_end(w, "the dispatcher sent a malformed BATCH");
        return;
    }
    w->batch = malloc(sizeof(*w->batch));
    if (!w->batch) {
        as_worker_end(w, "out of memory for a batch");
        return;
    }
    *w->batch = (struct as_worker_batch){.want = b.n};
    w->batch_next = b.first;
}

/* An OPEN of the announced batch has come; q is NULL when there was no memory for it. */
static void join(struct as_worker *w, struct as_worker_req *q)
{
    struct as_worker_batch *b = w->batch;

    if (!b)
        return;
    if (q) {
        q->batch = b;
        w->n_packed += b->left++ > 0;
    }
    w->batch_next += 2;
    if (--b->want)
        return;
    w->batch = NULL;
    if (!b->left) /* all of it has ended already */
        free(b);
}

/* May this one be of the batch that comes? NULL, or why not. */
static const char *check_member(const struct as_worker *w, const struct as_worker_req *q)
{
    const struct as_worker_batch *b = w->batch;
    const struct as_worker_req *before =
        as_list_empty(&w->waiting) ? NULL
                                   : AS_LIST_ENTRY(w->waiting.prev, struct as_worker_req, node);

    if (!b)
        return NULL;
    if (b->want + b->left > w->models[q->model].reg.batching.max_size)
        return "the dispatcher sent a batch that is too large";
    if (before && before->batch == b && before->model != q->model)
        return "the dispatcher sent a batch of two models";
    return NULL;
}

static bool in_order(const struct as_worker *w, uint64_t stream)
{
    if (!(stream & 1) || stream <= w->top_stream || (w->batch && stream != w->batch_next))
        return false;
    return (w->batch && w->batch->left) ||
           w->n_open - w->n_packed < (uint64_t)w->most_slots + w->conf.max_prefetch;
}

static void on_open(struct as_worker *w, const struct as_frame *f, struct as_blob *buf)
{
    struct as_worker_req *q;
    const char *why = NULL;
    int err;

    if (!in_order(w, f->stream)) {
        as_worker_end(w, "the dispatcher sent OPEN out of order or beyond the granted slots");
        return;
    }
    w->top_stream = f->stream;
    q = as_worker_req_get(w);
    err = q ? as_worker_decode(w, q, f, buf, &why) : AS_ENOMEM;
    if (!err && (why = check_member(w, q)))
        err = AS_EPROTO;
    if (!err) {
        q->stream = f->stream;
        q->inputs_over = f->flags & AS_FRAME_F_END;
        join(w, q);
        as_list_push(&w->waiting, &q->node);
        w->n_waiting++;
        w->n_open++;
        return;
    }
    if (q)
        as_worker_req_put(w, q);
    if (err == AS_ENOMEM)
        join(w, NULL);
    if (err == AS_ENOMEM)
        as_worker_put_error(w, f->stream, as_err_grpc(err), AS_ERROR_F_RETRY,
                            "the worker is out of memory");
    else
        as_worker_end(w, why ? why : "the dispatcher sent a malformed OPEN");
}

bool as_worker_on_body(struct as_worker *w, const struct as_frame *f, struct as_worker_req **ret_q)
{
    struct as_worker_req *q = find(&w->waiting, f->stream);
    bool last = f->flags & AS_FRAME_F_END, streams;

    if (!q)
        q = as_worker_filling(w, f->stream);
    if (!q && f->stream <= w->top_stream)
        return false; /* of a stream that was cancelled, returned or refused meanwhile */
    streams = q && w->models[q->model].reg.streams_inputs; /* its END is that of all messages */
    if (!q || q->complete || f->n > q->body_len - q->got || last > (q->got + f->n == q->body_len) ||
        (!streams && last != (q->got + f->n == q->body_len))) {
        as_worker_end(w, "the dispatcher sent DATA that does not fit its stream");
        return false;
    }
    *ret_q = q;
    return true;
}

void as_worker_body_came(struct as_worker *w, struct as_worker_req *q, size_t n)
{
    q->got += n;
    q->complete = q->got == q->body_len;
    if (q->is_input)
        as_worker_input_came(w, q);
}

static void on_recall(struct as_worker *w, const struct as_frame *f)
{
    uint64_t ids[AS_FRAME_IDS];
    uint32_t n, i = 0, k = 0;

    if (as_frame_get_ids(f, ids, AS_FRAME_IDS, &n)) {
        as_worker_end(w, "the dispatcher sent a malformed RECALL");
        return;
    }
    /* both the ids and the list are in stream order; what is not found has started or ended */
    AS_LIST_EACH(node, &w->waiting)
    {
        struct as_worker_req *q = AS_LIST_ENTRY(node, struct as_worker_req, node);

        while (i < n && ids[i] < q->stream)
            i++;
        if (i < n && ids[i] == q->stream) {
            ids[k++] = q->stream;
            drop(w, q);
        }
    }
    as_frame_put_ids(&w->out, AS_FRAME_RETURNED, ids, k);
}

static void on_cancel(struct as_worker *w, const struct as_frame *f)
{
    struct as_worker_req *q;
    uint32_t reason;

    if (as_frame_get_cancel(f, &reason) || !reason || reason > 16) {
        as_worker_end(w, "the dispatcher sent a malformed CANCEL");
        return;
    }
    q = find(&w->waiting, f->stream);
    if (q) {
        w->stat.cancels++;
        drop(w, q);
        as_worker_put_error(w, f->stream, reason, 0, "cancelled before it was started");
        return;
    }
    q = find(&w->running, f->stream);
    if (q && q->link == w->link) {
        w->stat.cancels++;
        as_worker_req_cancel(w, q, reason);
    }
}

/* --- the replica itself --- */

static void on_ping(struct as_worker *w, const struct as_frame *f)
{
    uint64_t opaque;

    if (as_frame_get_ping(f, &opaque))
        as_worker_end(w, "the dispatcher sent a malformed PING or PONG");
    else if (f->type == AS_FRAME_PING) {
        as_frame_put_ping(&w->out, AS_FRAME_PONG, opaque);
        /* it has been quiet: what handlers let go of since then is seen only now */
        as_worker_trim(w);
        as_worker_measure(w);
        as_worker_show(w);
    } else
        w->wait_pong = false;
}

void as_worker_on_frame(struct as_worker *w, const struct as_frame *f, struct as_blob *buf)
{
    if (f->type == AS_FRAME_OPEN && w->state == AS_WORKER_LIVE) {
        on_open(w, f, buf);
        return;
    }
    switch (f->type) {
    case AS_FRAME_BATCH:
        if (w->state == AS_WORKER_LIVE)
            on_batch(w, f);
        else
            as_worker_end(w, "the dispatcher sent a frame that a worker does not take");
        return;
    case AS_FRAME_HELLO:
        on_hello(w, f);
        return;
    case AS_FRAME_REGISTERED:
        on_registered(w, f);
        return;
    case AS_FRAME_RECALL:
        on_recall(w, f);
        return;
    case AS_FRAME_CANCEL:
        on_cancel(w, f);
        return;
    case AS_FRAME_CONTROL:
        as_worker_on_control(w, f);
        return;
    case AS_FRAME_PING:
    case AS_FRAME_PONG:
        on_ping(w, f);
        return;
    case AS_FRAME_DRAIN:
        w->draining = true;
        return;
    case AS_FRAME_GOODBYE:
        on_goodbye(w, f);
        return;
    case AS_FRAME_CREDIT:
        as_worker_on_credit(w, f);
        return;
    case AS_FRAME_DATA:
        as_worker_on_input(w, f, buf);
        return;
    case AS_FRAME_END:
        as_worker_on_inputs_over(w, f);
        return;
    default:
        if (as_frame_judge(f) != AS_FRAME_SKIP)
            as_worker_end(w, "the dispatcher sent a frame that a worker does not take");
    }
}
