#include "edge/infer/infer_stream.h"

#include "edge/exchange/key_access.h"
#include "edge/infer/infer.h"
#include "wire/protobuf/pb.h"

#define MESSAGES_BLOB 32768u /* small messages of a turn share blobs of this size */
#define LARGE         65536u /* larger messages refer to the tensors where they lie */
#define HEAD_MAX      (AS_GRPC_PREFIX + 1 + 10) /* prefix and head of infer_response */
#define PARAMS_MAX    16u                       /* of a response, on the stack */
#define FINAL         "triton_final_response"
#define WANT_FINAL    "triton_enable_empty_final_response"
#define WANT_STATUS   "triton_grpc_error"
#define ERROR_MESSAGE 1 /* field numbers of ModelStreamInferResponse */
#define RESPONSE      2

/* One request of the call; lies in the arena of its exchange. */
struct item {
    struct as_list node;
    struct infer_stream *is; /* NULL: the call is over */
    struct as_exchange *x;
    const struct as_model *requested_model; /* before a canary may take it */
    bool decoupled;
    bool takes_inputs; /* further messages are inputs of this request */
    bool inputs_ended; /* the worker knows that there are no more */
    bool wants_final;
    bool done;                      /* it has no further responses */
    struct as_blob *waiting_answer; /* its answer, until those before it are sent */
    size_t waiting_answer_n;
    uint32_t status; /* its error, if that ends the call */
    struct as_str message;
    bool may_have_run; /* the error is AS_EMAYHAVERUN */
};

struct infer_stream {
    struct as_stream *s;
    struct as_list items; /* in the order of the requests */
    uint32_t n_items;
    uint32_t n_open_inputs; /* items with takes_inputs; at most one of each model */
    bool errors_end_call;   /* triton_grpc_error */
    bool half_closed;
    bool draining;
    bool may_have_run;    /* a request without an answer may have been executed */
    bool input_under_way; /* the fleet has not released the last further input */
    struct as_task turn;  /* scheduled when a message was written or a request has finished */
    struct as_blob *out;  /* messages of this turn; [from, to) is not sent yet */
    size_t from, to;
};

static void schedule_turn(struct infer_stream *is)
{
    as_loop_defer(is->s->x->edge->loop, &is->turn);
}

/* --- out --- */

static void flush_messages(struct infer_stream *is)
{
    struct as_http_piece piece = {.n = is->to - is->from, .owner = is->out};

    if (!piece.n)
        return;
    piece.p = is->out->data + is->from;
    is->from = is->to;
    as_stream_send_framed(is->s, &piece, 1);
}

/* Memory for a message of n bytes, sent together with others. NULL: the call was failed. */
static uint8_t *reserve_message(struct infer_stream *is, size_t n)
{
    uint8_t *p;

    if (is->out && is->out->n - is->to < n) {
        flush_messages(is);
        as_blob_unref(is->out);
        is->out = NULL;
    }
    if (!is->out) {
        is->out = as_exchange_answer_blob(is->s->x, AS_MAX(n, (size_t)MESSAGES_BLOB));
        is->from = is->to = 0;
    }
    if (!is->out)
        return NULL;
    p = is->out->data + is->to;
    is->to += n;
    schedule_turn(is);
    return p;
}

/* True: all earlier requests that are answered in order have been answered. */
static bool is_its_turn(const struct item *it)
{
    if (it->decoupled)
        return true;
    AS_LIST_EACH_ENTRY(before, const struct item, node, &it->is->items) {
        if (before == it)
            return true;
        if (!before->decoupled)
            return false;
    }
    return true;
}

/* Memory for an answer of n bytes: sent in this turn, or stored until it is its turn. */
static uint8_t *reserve_answer(struct item *it, size_t n)
{
    if (is_its_turn(it))
        return reserve_message(it->is, n);
    it->waiting_answer = as_exchange_answer_blob(it->is->s->x, n);
    it->waiting_answer_n = n;
    return it->waiting_answer ? it->waiting_answer->data : NULL;
}

static size_t head_len(size_t len)
{
    return AS_GRPC_PREFIX + as_pb_len_len(len) - len;
}

static uint8_t *put_head(uint8_t *p, size_t len)
{
    as_grpc_prefix(p, (uint32_t)as_pb_len_len(len));
    return as_pb_put_head(p + AS_GRPC_PREFIX, RESPONSE, len);
}

static void send_copied(struct item *it, const struct as_oip_response *r, size_t len)
{
    uint8_t *p = reserve_answer(it, head_len(len) + len);

    if (p)
        as_oip_put_response(put_head(p, len), r);
}

/* Sends the heads from one blob, and the tensors from where they lie, all in `owner`: outputs that
 * were made here (classes) lie in the request's arena, which may be freed before they are sent. */
static void send_by_reference(struct item *it, const struct as_oip_response *r, size_t len,
                              struct as_blob *owner)
{
    struct as_http_piece pieces[AS_EXCHANGE_PIECES];
    size_t head = as_oip_response_head_len(r);
    struct as_blob *b = as_exchange_answer_blob(
        it->is->s->x, HEAD_MAX + head + (size_t)r->n_outputs * AS_OIP_RAW_HEAD_MAX);
    uint8_t *p;
    uint32_t n = 0;

    if (!b)
        return;
    flush_messages(it->is);
    p = put_head(b->data, len);
    as_oip_put_response_head(p, r);
    p += head;
    pieces[n++] = (struct as_http_piece){b->data, (size_t)(p - b->data), b};
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        size_t k = as_oip_put_raw_head(p, r->outputs[i].nbytes);

        pieces[n++] = (struct as_http_piece){p, k, b};
        if (r->outputs[i].nbytes)
            pieces[n++] = (struct as_http_piece){r->outputs[i].data, r->outputs[i].nbytes, owner};
        p += k;
    }
    as_stream_send_framed(it->is->s, pieces, n);
    as_blob_unref(b);
    schedule_turn(it->is);
}

/* Sends one response with the parameter triton_final_response. */
static void send_response(struct item *it, const struct as_oip_response *r, struct as_blob *blob,
                          bool final)
{
    struct as_param some[PARAMS_MAX + 1];
    struct as_oip_response out = *r;
    struct as_param *params = some;
    uint64_t len;

    if (r->n_params > PARAMS_MAX)
        params = malloc((r->n_params + 1) * sizeof(*params));
    if (!params) {
        as_exchange_fail(it->x, AS_ENOMEM, "no memory for the answer");
        return;
    }
    if (r->n_params)
        memcpy(params, r->params, r->n_params * sizeof(*params));
    params[r->n_params] =
        (struct as_param){.name = AS_STR(FINAL), .type = AS_PARAM_BOOL, .b = final};
    out.params = params;
    out.n_params = r->n_params + 1;
    len = as_oip_response_len(&out);
    if (len > INT32_MAX - HEAD_MAX)
        as_exchange_fail(it->x, AS_ETOOBIG, "the answer is over 2147483647 bytes");
    else if (blob && len > LARGE && 1 + 2 * r->n_outputs <= AS_EXCHANGE_PIECES && is_its_turn(it) &&
             as_infer_all_lie_in(blob, r->outputs, r->n_outputs))
        send_by_reference(it, &out, (size_t)len, blob);
    else
        send_copied(it, &out, (size_t)len);
    if (params != some)
        free(params);
}

/* Sends the error of one request as a message. */
static void send_error(struct item *it, struct as_str text)
{
    struct as_str id = it->x->infer.id;
    size_t response = as_pb_opt_len(id);
    size_t len = as_pb_len_len(text.n) + as_pb_len_len(response);
    uint8_t *p = reserve_answer(it, AS_GRPC_PREFIX + len);

    if (!p)
        return;
    as_grpc_prefix(p, (uint32_t)len);
    p = as_pb_put_str(p + AS_GRPC_PREFIX, ERROR_MESSAGE, text);
    p = as_pb_put_head(p, RESPONSE, response);
    as_pb_put_opt(p, 3, id);
}

/* --- the end of a request --- */

static void finish_item(struct item *it)
{
    it->done = true;
    schedule_turn(it->is);
}

static void on_fail(struct as_exchange *x, uint32_t status, struct as_str message)
{
    struct item *it = x->answer.item;

    if (!it->is)
        return;
    it->may_have_run = x->in_fleet && x->call.outcome.err == AS_EMAYHAVERUN;
    it->is->may_have_run |= it->may_have_run;
    if (!it->is->errors_end_call) {
        send_error(it, message);
    } else {
        it->status = status;
        it->message = (struct as_str){as_arena_dup(&x->arena, message), message.n};
        if (!it->message.p)
            it->message.n = 0;
    }
    finish_item(it);
}

static void on_response(struct as_exchange *x, const struct as_oip_response *r)
{
    struct item *it = x->answer.item;

    send_response(it, r, x->call.outcome.result.blob, true);
    x->state = AS_EXCHANGE_ANSWERED;
    finish_item(it);
}

static bool on_part(struct as_exchange *x, const struct as_oip_response *r, struct as_blob *blob)
{
    struct item *it = x->answer.item;

    send_response(it, r, blob, false);
    return as_stream_has_room(it->is->s);
}

static void on_parts_end(struct as_exchange *x)
{
    struct item *it = x->answer.item;
    struct as_oip_response r = {
        .model = x->model->name, .version = x->model->version, .id = x->infer.id};

    if (it->wants_final)
        send_response(it, &r, NULL, true);
    x->state = AS_EXCHANGE_ANSWERED;
    finish_item(it);
}

static const struct as_infer_parts parts = {.part = on_part, .end = on_parts_end};

/* Requests with takes_inputs do not count: their inputs must still be read. */
static bool is_full(const struct infer_stream *is)
{
    return is->n_items - is->n_open_inputs >= is->s->x->edge->conf.stream_requests;
}

/* --- once per turn: sends, removes finished requests, pauses or resumes reading --- */

static void free_item(struct item *it)
{
    struct as_exchange *x = it->x;

    as_list_remove(&it->node);
    it->is->n_items--;
    it->is->n_open_inputs -= it->takes_inputs;
    it->is = NULL;
    as_blob_unref(it->waiting_answer);
    it->waiting_answer = NULL;
    as_exchange_cancel(x); /* it may have failed while its worker continues */
    as_exchange_free_child(x);
}

/* Sends the outcome of a finished request and frees it. False: its error ended the call. */
static bool send_outcome(struct infer_stream *is, struct item *it)
{
    if (it->status) {
        flush_messages(is);
        if (it->may_have_run)
            as_exchange_fail(is->s->x, AS_EMAYHAVERUN, "%.*s", AS_STR_FMT(it->message));
        else
            as_exchange_fail_status(is->s->x, it->status, it->message, NULL, 0);
        return false;
    }
    if (it->waiting_answer) {
        struct as_http_piece piece = {it->waiting_answer->data, it->waiting_answer_n,
                                      it->waiting_answer};

        flush_messages(is);
        as_stream_send_framed(is->s, &piece, 1);
    }
    free_item(it);
    return true;
}

static bool send_outcomes(struct infer_stream *is)
{
    bool blocked = false;

    AS_LIST_EACH_ENTRY(it, struct item, node, &is->items) {
        if (it->done && (it->decoupled || !blocked)) {
            if (!send_outcome(is, it))
                return false;
        } else if (!it->decoupled) {
            blocked = true;
        }
    }
    return true;
}

/* Tells the workers of requests with takes_inputs that there are no more inputs. */
static void end_inputs(struct infer_stream *is)
{
    AS_LIST_EACH_ENTRY(it, struct item, node, &is->items) {
        if (!it->takes_inputs || it->done || it->inputs_ended || !it->x->in_fleet)
            continue;
        it->inputs_ended = true;
        as_fleet_client_input_end(&it->x->edge->client, &it->x->call);
    }
}

static void on_turn(struct as_task *t)
{
    struct infer_stream *is = AS_CONTAINER(t, struct infer_stream, turn);
    struct as_exchange *x = is->s->x;

    if (x->state == AS_EXCHANGE_ANSWERED || !send_outcomes(is))
        return;
    flush_messages(is);
    if (is->draining && !is->input_under_way)
        end_inputs(is);
    if (!is->n_items && is->draining)
        as_exchange_fail(x, is->may_have_run ? AS_EMAYHAVERUN : AS_EUNAVAILABLE,
                         "the server is ending");
    else if (!is->n_items && is->half_closed)
        as_stream_finish(is->s);
    else if (is->draining || is->input_under_way || is_full(is) || !as_stream_has_room(is->s))
        as_stream_pause(is->s);
    else
        as_stream_resume(is->s);
}

/* --- in --- */

static bool wants_final(const struct as_oip_infer *r)
{
    for (uint32_t i = 0; i < r->n_params; i++) {
        const struct as_param *p = &r->params[i];

        if (as_str_eq(p->name, AS_STR(WANT_FINAL)))
            return p->type == AS_PARAM_BOOL && p->b;
    }
    return false;
}

/* The request to the model of this message that takes further messages, or NULL. Whether the key
 * may use the model is not checked: it could when that request began. */
static struct item *find_open_item(struct infer_stream *is, const struct as_exchange *x)
{
    const struct as_model *m =
        is->n_open_inputs
            ? as_registry_find(x->edge->client.registry, x->infer.model, x->infer.version, NULL)
            : NULL;

    if (!m || !m->streams_inputs)
        return NULL;
    AS_LIST_EACH_ENTRY(it, struct item, node, &is->items) {
        if (it->takes_inputs && !it->done && it->x->in_fleet &&
            as_str_eq(it->requested_model->name, m->name) &&
            as_str_eq(it->requested_model->version, m->version))
            return it;
    }
    return NULL;
}

static void on_input_released(struct as_input *in)
{
    struct as_exchange *x = in->owner;
    struct item *it = x->answer.item;

    if (it->is) {
        it->is->input_under_way = false;
        finish_item(it);
    }
    as_exchange_released(x);
}

static void start_item(struct item *it)
{
    struct infer_stream *is = it->is;
    struct as_exchange *x = it->x;
    bool parsed = as_infer_grpc_parse(x);
    struct item *to = parsed ? find_open_item(is, x) : NULL;

    /* counted before it may fail for another reason: nobody tries names of models without limit */
    if (!as_key_access_renew(x) || (!to && !as_key_access_count(x)) || !parsed ||
        !as_exchange_find_model_to_infer(x, x->infer.model, x->infer.version))
        return;
    if (is->draining) { /* the drain began while the message was inflated */
        as_exchange_fail(x, AS_EUNAVAILABLE, "the server is ending");
        return;
    }
    it->requested_model = x->model;
    it->decoupled = x->model->decoupled;
    it->wants_final = wants_final(&x->infer);
    if (to) { /* an input of another request: it has no answer */
        is->input_under_way = true;
        if (!as_infer_input(x, to->x, on_input_released))
            is->input_under_way = false;
        return;
    }
    it->takes_inputs = x->model->streams_inputs;
    is->n_open_inputs += it->takes_inputs;
    as_infer_begin_parts(x, on_response, &parts);
}

static void on_message(struct as_stream *s, struct as_stream_message *m)
{
    struct infer_stream *is = s->owner;
    struct as_exchange *x = as_exchange_child(s->x);
    struct item *it = x ? as_arena_alloc(&x->arena, sizeof(*it), 8) : NULL;

    if (!it) {
        as_stream_message_free(m);
        if (x)
            as_exchange_free_child(x);
        as_exchange_fail(s->x, AS_EFULL,
                         "the server has reached its limit of open requests (--max-requests)");
        return;
    }
    *it = (struct item){.is = is, .x = x};
    x->answer.item = it;
    x->answer.on_fail = on_fail;
    x->body.p = (uint8_t *)(uintptr_t)m->p;
    x->body.len = m->n;
    x->body.blob = m->blob;
    x->infer = (struct as_oip_infer){0};
    as_list_init(&it->node);
    as_list_push(&is->items, &it->node);
    is->n_items++;
    start_item(it);
    schedule_turn(is);
    if (is->input_under_way || is_full(is) || !as_stream_has_room(s))
        as_stream_pause(s);
}

/* --- the call --- */

static void on_end(struct as_stream *s)
{
    struct infer_stream *is = s->owner;

    is->half_closed = true;
    end_inputs(is);
    schedule_turn(is);
}

static void on_room(struct as_stream *s)
{
    struct infer_stream *is = s->owner;

    AS_LIST_EACH_ENTRY(it, struct item, node, &is->items) {
        if (it->decoupled && !it->done)
            as_infer_credit(it->x);
    }
    schedule_turn(is);
}

/* Finishes the requests in progress; nothing new is read. */
static void on_drain(struct as_stream *s)
{
    struct infer_stream *is = s->owner;

    is->draining = true;
    as_stream_pause(s);
    schedule_turn(is);
}

static void on_close(struct as_stream *s)
{
    struct infer_stream *is = s->owner;

    AS_LIST_EACH(n, &is->items) free_item(AS_LIST_ENTRY(n, struct item, node));
    as_task_cancel(&is->turn); /* last: freeing an item may release another's input */
    as_blob_unref(is->out);
    free(is);
}

void as_infer_stream_open(struct as_exchange *x)
{
    static const struct as_stream_ops ops = {
        .on_message = on_message,
        .on_end = on_end,
        .on_room = on_room,
        .on_drain = on_drain,
        .on_close = on_close,
    };
    struct infer_stream *is = calloc(1, sizeof(*is));

    if (!is) {
        as_exchange_fail(x, AS_ENOMEM, "no memory for the request");
        return;
    }
    as_list_init(&is->items);
    as_task_init(&is->turn, on_turn);
    is->errors_end_call =
        as_str_eq(as_http_head_find(x->head, AS_STR(WANT_STATUS)), AS_STR("true"));
    if (!as_stream_open(x, &ops, is, x->edge->conf.max_message)) {
        free(is);
        return;
    }
    is->s = x->streaming;
}
