/* Requests of HTTP: their heads, their bodies, and answers to them. */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"
#include "wire/frame/frame_http.h"

static_assert(AS_WORKER_HTTP_INLINE == AS_FRAME_INLINE, "public limit");

/* --- heads --- */

int as_worker_decode_http(struct as_worker_req *q, const struct as_frame *f,
                          struct as_frame_http_open *ret_o, const char **ret_why)
{
    struct as_worker_http *h;
    int err = as_frame_get_http_open(f, &q->arena, ret_o, ret_why);

    if (err)
        return err;
    h = as_arena_alloc(&q->arena, sizeof(*h), _Alignof(struct as_worker_http));
    if (!h)
        return AS_ENOMEM;
    *h = (struct as_worker_http){
        .version = ret_o->version,
        .whole = ret_o->flags & AS_HTTP_F_WHOLE,
        .websocket = ret_o->flags & AS_HTTP_F_WEBSOCKET,
        .id = ret_o->id,
        .method = ret_o->method,
        .scheme = ret_o->scheme,
        .authority = ret_o->authority,
        .path = ret_o->path,
        .query = ret_o->query,
        .root_path = ret_o->root_path,
        .peer = ret_o->peer,
        .server = ret_o->server,
        .fields = ret_o->meta,
        .n_fields = ret_o->n_meta,
    };
    q->is_http = true;
    q->is_websocket = h->websocket;
    q->http = h;
    q->msg = (struct as_msg){.id = ret_o->id, .meta = ret_o->meta, .n_meta = ret_o->n_meta};
    q->deadline = ret_o->timeout ? as_clock_now() + ret_o->timeout : AS_NEVER;
    q->beyond = ret_o->flags & AS_HTTP_F_BEYOND;
    q->part_credit = (struct as_frame_window){1, AS_HTTP_WINDOW}; /* messages are not counted */
    q->input_credit = (struct as_frame_window){1, AS_HTTP_WINDOW};
    q->owed_credit = (struct as_frame_window){0};
    return 0;
}

void as_worker_http_set_body(struct as_worker_req *q)
{
    q->http->body = (struct as_str){(const char *)q->call_bytes, (size_t)q->body_len};
}

const struct as_worker_http *as_worker_req_http(const struct as_worker_req *q)
{
    return q->http;
}

void as_worker_http_drop_head(struct as_worker *w, struct as_worker_req *q)
{
    struct as_blob *head, *body;

    if (!q->http)
        return;
    pthread_mutex_lock(&w->mu);
    head = q->head;
    body = q->body != head ? q->body : NULL;
    q->http = NULL;
    q->msg = (struct as_msg){0};
    q->head = q->body = NULL;
    pthread_mutex_unlock(&w->mu);
    as_blob_unref(head);
    as_blob_unref(body);
}

/* --- the body of the request: each DATA frame is an input, which lies in a blob of its own --- */

bool as_worker_http_begin_data(struct as_worker *w, struct as_worker_req *q,
                               const struct as_frame *f, struct as_worker_req **ret_in)
{
    bool end = f->flags & AS_FRAME_F_END;
    struct as_worker_req *in;

    if (q->is_websocket)
        return as_worker_ws_begin_data(w, q, f, ret_in);
    if (q->inputs_over || q->partial_input || (int64_t)f->n > q->input_credit.bytes) {
        as_worker_close_link(w, q->link,
                             "the dispatcher sent more of a body than its stream takes");
        return false;
    }
    if (!f->n) {
        q->inputs_over = end;
        if (end)
            as_worker_notify(w, q, AS_WANT_INPUT);
        return false;
    }
    in = as_worker_req_get(w, q->link);
    if (in)
        in->body = as_blob_new(f->n);
    if (!in || !in->body) {
        if (in)
            as_worker_req_put(w, in);
        as_worker_close_link(w, q->link, "out of memory for a body");
        return false;
    }
    q->input_credit.bytes -= (int64_t)f->n;
    in->is_input = true;
    in->inputs_over = end;
    in->stream = q->stream;
    in->body_len = f->n;
    q->partial_input = in;
    *ret_in = in;
    return true;
}

void as_worker_http_grant(struct as_worker *w, struct as_worker_req *q, uint64_t n)
{
    struct as_frame_credit c = {0};

    q->owed_credit.bytes += (int64_t)n;
    if (q->inputs_over || !as_worker_is_awaited(q) || 2 * q->owed_credit.bytes < AS_HTTP_WINDOW)
        return;
    c.bytes = (uint64_t)q->owed_credit.bytes;
    q->input_credit.bytes += q->owed_credit.bytes;
    q->owed_credit.bytes = 0;
    as_frame_put_credit(&q->link->out, q->stream, &c);
    as_worker_arm_guard(w);
}

int as_worker_http_read(struct as_worker *w, struct as_worker_req *q, struct as_str *ret_bytes,
                        void **ret_hold)
{
    struct as_worker_req *in;
    int err;

    if (!q->is_http)
        return AS_EINVALID;
    err = as_worker_next_input(w, q, &in);
    if (err)
        return err;
    *ret_bytes = (struct as_str){(const char *)in->body->data, (size_t)in->body_len};
    *ret_hold = in->body;
    in->body = NULL;
    pthread_mutex_lock(&w->mu);
    as_worker_http_grant(w, q, in->body_len);
    as_worker_req_put(w, in);
    pthread_mutex_unlock(&w->mu);
    return 0;
}

/* --- answers --- */

/* What was put into the output queue: ends q, or sends it soon. Releases the lock. */
static void sent(struct as_worker *w, struct as_worker_req *q, bool ended, as_ns now)
{
    if (ended) {
        as_worker_finish_req(w, q, now);
        return;
    }
    as_worker_sent_part(w, q);
    pthread_mutex_unlock(&w->mu);
}

int64_t as_worker_http_answer(struct as_worker *w, struct as_worker_req *q, uint32_t status,
                              const struct as_meta *fields, uint32_t n_fields, struct as_str body,
                              bool last)
{
    size_t n = AS_MIN(body.n, (size_t)AS_FRAME_INLINE), more = 0;
    as_ns now = as_clock_now();
    struct as_frame_http_head h = {.status = (uint16_t)status,
                                   .meta = fields,
                                   .n_meta = n_fields,
                                   .body_len = n,
                                   .body = (const uint8_t *)body.p};
    int err = 0;

    if (!q->is_http || q->answer_begun || status <= 100 || status > 999)
        return AS_EINVALID;
    if (status == 101 && (!q->is_websocket || body.n || last))
        return AS_EINVALID;
    pthread_mutex_lock(&w->mu);
    more = AS_MIN(body.n - n, (size_t)AS_MAX(q->part_credit.bytes, 0));
    h.end = last && n == body.n;
    if (h.end) {
        h.service = now - q->started_at;
        h.ended = as_frame_moment(now);
    }
    if (atomic_load_explicit(&q->cancel, memory_order_relaxed) || !as_worker_is_awaited(q))
        err = AS_ECANCELLED;
    else
        err = as_frame_put_http_head(&q->link->out, q->stream, &h, NULL);
    if (err) {
        pthread_mutex_unlock(&w->mu);
        return err;
    }
    q->answer_begun = true;
    q->ws_accepted = status == 101;
    if (more) {
        as_frame_put_http_data(&q->link->out, q->stream, (const uint8_t *)body.p + n, more,
                               last && n + more == body.n, NULL);
        q->part_credit.bytes -= (int64_t)more;
    }
    sent(w, q, last && n + more == body.n, now);
    return (int64_t)(n + more);
}

int64_t as_worker_http_write(struct as_worker *w, struct as_worker_req *q, struct as_str body,
                             bool last)
{
    as_ns now = as_clock_now();
    size_t n;
    bool end;

    if (!q->is_http || !q->answer_begun || q->ws_accepted)
        return AS_EINVALID;
    pthread_mutex_lock(&w->mu);
    if (atomic_load_explicit(&q->cancel, memory_order_relaxed) || !as_worker_is_awaited(q)) {
        pthread_mutex_unlock(&w->mu);
        return AS_ECANCELLED;
    }
    n = AS_MIN(body.n, (size_t)AS_MAX(q->part_credit.bytes, 0));
    end = last && n == body.n;
    if (end && !n)
        as_frame_put_end(&q->link->out, q->stream, now - q->started_at);
    else if (n)
        as_frame_put_http_data(&q->link->out, q->stream, (const uint8_t *)body.p, n, end, NULL);
    q->part_credit.bytes -= (int64_t)n;
    if (n || end)
        sent(w, q, end, now);
    else
        pthread_mutex_unlock(&w->mu);
    return (int64_t)n;
}
