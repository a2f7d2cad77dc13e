/* Requests that are calls: their bodies, and answers to them. */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"
#include "wire/frame/body.h"

static_assert(AS_WORKER_BODY_BUFFERS == AS_BODY_BUFFERS, "public limit");
static_assert(AS_WORKER_BODY_PARTS == AS_BODY_PARTS, "public limit");
static_assert(AS_WORKER_REPORT_BYTES == AS_FRAME_REPORT_MAX, "public limit");
static_assert(AS_WORKER_TARGETS == AS_FRAME_TARGET_MAX + 1, "public limit");
static_assert(AS_WORKER_OUT_MESSAGES == AS_FRAME_CREDIT_MESSAGES, "public limit");

/* --- what came --- */

const struct as_body *as_worker_req_body(const struct as_worker_req *q)
{
    return q->is_call ? &q->call_body : NULL;
}

bool as_worker_req_streams(const struct as_worker_req *q)
{
    return q->streams;
}

bool as_worker_req_takes_inputs(const struct as_worker_req *q)
{
    return q->call_inputs;
}

bool as_worker_req_beyond(const struct as_worker_req *q)
{
    return q->beyond;
}

/* --- answers --- */

/* An answer on its way. A large body is laid out without the lock, and sent from there. */
struct answer {
    struct as_frame_call call;
    const struct as_body *body; /* NULL: it is at call.body */
    struct as_blob *owner;      /* holds call.body; NULL: the body is small */
};

struct as_blob *as_worker_lay_out(const struct as_body *body, uint64_t len)
{
    struct as_blob *b = as_blob_new((size_t)len);

    if (b)
        as_body_write(body, b->data);
    return b;
}

/* laid_out: NULL, or the body as as_worker_lay_out has made it. */
static int answer_init(struct answer *a, const struct as_worker_req *q, const struct as_body *body,
                       struct as_blob *laid_out)
{
    uint64_t len;

    *a = (struct answer){.body = body};
    if (!q->is_call || (!laid_out && !as_body_is_valid(body, true)))
        return AS_EINVALID;
    len = laid_out ? laid_out->n : as_body_len(body);
    if (len > q->link->peer_max)
        return AS_ETOOBIG;
    if (len <= AS_FRAME_INLINE && !laid_out)
        return 0;
    a->owner = laid_out ? as_blob_ref(laid_out) : as_worker_lay_out(body, len);
    if (!a->owner)
        return AS_ENOMEM;
    a->call.body = a->owner->data;
    a->call.body_len = len;
    a->body = NULL;
    return 0;
}

static int put_answer(struct as_worker_req *q, const struct answer *a)
{
    return as_frame_put_call(&q->link->out, AS_FRAME_DATA, q->stream, &a->call, a->body, a->owner);
}

int as_worker_answer_laid_out(struct as_worker *w, struct as_worker_req *q,
                              const struct as_body *body, struct as_blob *laid_out)
{
    uint32_t cancel = atomic_load_explicit(&q->cancel, memory_order_relaxed);
    struct answer a;
    as_ns now;
    int err = answer_init(&a, q, body, laid_out);

    if (err)
        return err;
    if (cancel) { /* nobody reads it */
        as_blob_unref(a.owner);
        as_worker_fail(w, q, cancel, AS_STR("cancelled"));
        return 0;
    }
    now = as_clock_now();
    a.call.service = now - q->started_at;
    a.call.ended = as_frame_moment(now);
    pthread_mutex_lock(&w->mu);
    if (q->streams && as_worker_is_awaited(q) && !as_frame_window_is_open(&q->part_credit))
        err = AS_EAGAIN;
    else if (as_worker_is_awaited(q))
        err = put_answer(q, &a);
    if (err)
        pthread_mutex_unlock(&w->mu);
    else
        as_worker_finish_req(w, q, now);
    as_blob_unref(a.owner);
    return err;
}

int as_worker_answer_body(struct as_worker *w, struct as_worker_req *q, const struct as_body *body)
{
    return as_worker_answer_laid_out(w, q, body, NULL);
}

int as_worker_part_laid_out(struct as_worker *w, struct as_worker_req *q,
                            const struct as_body *body, struct as_blob *laid_out)
{
    struct answer a;
    int err = q->streams ? answer_init(&a, q, body, laid_out) : AS_EINVALID;

    if (err)
        return err;
    a.call.more = true;
    pthread_mutex_lock(&w->mu);
    err = as_worker_may_send(q);
    if (!err)
        err = put_answer(q, &a);
    if (!err) {
        as_frame_window_consume(&q->part_credit, as_frame_call_cost(&a.call, a.body));
        as_worker_sent_part(w, q);
    }
    pthread_mutex_unlock(&w->mu);
    as_blob_unref(a.owner);
    return err;
}

int as_worker_part_body(struct as_worker *w, struct as_worker_req *q, const struct as_body *body)
{
    return as_worker_part_laid_out(w, q, body, NULL);
}
