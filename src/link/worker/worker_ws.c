/* Websockets: their messages in both directions. A message of the client is an input, which lies in
 * a blob of its own. */
#include "io/loop/clock.h"
#include "link/worker/worker_internal.h"
#include "wire/frame/frame_http.h"

#include <string.h>

static_assert((int)AS_WORKER_WS_TEXT == (int)AS_WS_TEXT, "public opcodes");
static_assert((int)AS_WORKER_WS_BINARY == (int)AS_WS_BINARY, "public opcodes");
static_assert((int)AS_WORKER_WS_CLOSE == (int)AS_WS_CLOSE, "public opcodes");
static_assert(AS_WORKER_WS_REASON == AS_WS_REASON, "public limit");

static bool is_accepted(const struct as_worker_req *q)
{
    return q->is_websocket && q->answer_begun && q->ws_accepted;
}

/* --- from the client --- */

/* NULL, or which rule the message breaks. */
static const char *message_fault(const struct as_worker *w, const struct as_worker_req *q,
                                 const struct as_frame_ws_message *m)
{
    if (!is_accepted(q))
        return "the dispatcher sent a message of a websocket that was not accepted";
    if (q->partial_input || q->inputs_over)
        return "the dispatcher sent a message inside another one or after the last one";
    if (m->opcode != AS_WS_CLOSE && q->input_credit.bytes <= 0)
        return "the dispatcher sent a message beyond its stream's window";
    if (m->body_len > w->conf.max_message)
        return "the dispatcher sent a message of a websocket that is too large";
    return NULL;
}

/* A message without its bytes; NULL: out of memory. */
static struct as_worker_req *new_message(struct as_worker *w, struct as_worker_req *q,
                                         const struct as_frame_ws_message *m)
{
    struct as_worker_req *in = as_worker_req_get(w, q->link);

    if (in && m->body_len)
        in->body = as_blob_new((size_t)m->body_len);
    if (in && m->body_len && !in->body) {
        as_worker_req_put(w, in);
        return NULL;
    }
    if (!in)
        return NULL;
    in->is_input = true;
    in->inputs_over = m->end;
    in->stream = q->stream;
    in->body_len = m->body_len;
    in->cost = m->opcode == AS_WS_CLOSE ? 0 : m->cost;
    in->ws_opcode = m->opcode;
    in->ws_code = m->code;
    return in;
}

void as_worker_ws_on_message(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f)
{
    struct as_frame_ws_message m;
    struct as_worker_req *in;
    const char *why = NULL;

    if (as_frame_kind_of(f) != AS_FRAME_HTTP || as_frame_http_type(f) != AS_HTTP_WS_MESSAGE)
        why = "the dispatcher sent a message that its stream does not take";
    else if (!as_frame_get_ws_message(f, &m, &why))
        why = message_fault(w, q, &m);
    if (why) {
        as_worker_close_link(w, q->link, why);
        return;
    }
    in = new_message(w, q, &m);
    if (!in) {
        as_worker_close_link(w, q->link, "out of memory for a message of a websocket");
        return;
    }
    q->input_credit.bytes -= (int64_t)in->cost;
    if (m.body_len && !m.body) {
        q->partial_input = in;
        return;
    }
    if (m.body_len)
        memcpy(in->body->data, m.body, (size_t)m.body_len);
    as_worker_deliver_input(w, q, in);
}

bool as_worker_ws_begin_data(struct as_worker *w, struct as_worker_req *q, const struct as_frame *f,
                             struct as_worker_req **ret_in)
{
    struct as_worker_req *in = q->partial_input;

    if (!in || !f->n || f->n > in->body_len - in->body_received) {
        as_worker_close_link(w, q->link, "the dispatcher sent DATA that does not fit its message");
        return false;
    }
    *ret_in = in;
    return true;
}

int as_worker_ws_read(struct as_worker *w, struct as_worker_req *q,
                      struct as_worker_ws_message *ret_m, void **ret_hold)
{
    struct as_worker_req *in;
    int err;

    if (!is_accepted(q))
        return AS_EINVALID;
    err = as_worker_next_input(w, q, &in);
    if (err)
        return err;
    *ret_m = (struct as_worker_ws_message){.opcode = (enum as_worker_ws_opcode)in->ws_opcode,
                                           .code = in->ws_code};
    if (in->body)
        ret_m->bytes = (struct as_str){(const char *)in->body->data, (size_t)in->body_len};
    *ret_hold = in->body;
    in->body = NULL;
    pthread_mutex_lock(&w->mu);
    as_worker_http_grant(w, q, in->cost);
    as_worker_req_put(w, in);
    pthread_mutex_unlock(&w->mu);
    return 0;
}

/* --- to the client --- */

int as_worker_ws_send(struct as_worker *w, struct as_worker_req *q,
                      const struct as_worker_ws_message *m)
{
    bool close = m->opcode == AS_WORKER_WS_CLOSE;
    struct as_frame_ws_message out = {.opcode = (enum as_ws_opcode)m->opcode,
                                      .code = close ? (uint16_t)m->code : 0,
                                      .end = close,
                                      .body_len = m->bytes.n,
                                      .body = (const uint8_t *)m->bytes.p};
    int err;

    if (!is_accepted(q) || m->code > UINT16_MAX ||
        (!close && m->opcode != AS_WORKER_WS_TEXT && m->opcode != AS_WORKER_WS_BINARY))
        return AS_EINVALID;
    pthread_mutex_lock(&w->mu);
    err = as_worker_may_send(q);
    if (!err || (err == AS_EAGAIN && close))
        err = as_frame_put_ws_message(&q->link->out, q->stream, &out, NULL);
    if (!err && close) {
        as_worker_finish_req(w, q, as_clock_now()); /* unlocks */
        return 0;
    }
    if (!err) {
        q->part_credit.bytes -= (int64_t)AS_WS_COST(out.body_len);
        as_worker_sent_part(w, q);
    }
    pthread_mutex_unlock(&w->mu);
    return err;
}
