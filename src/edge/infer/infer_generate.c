/* POST …/generate and …/generate_stream: a flat JSON object in; a JSON object or a stream of
 * server-sent events out. */
#include "edge/exchange/client_timeouts.h"
#include "edge/exchange/cors.h"
#include "edge/grpc/stream.h"
#include "edge/infer/infer.h"
#include "edge/infer/infer_json.h"
#include "edge/rest/rest.h"

#define WHY_MAX        512
#define EVENTS_BLOB    32768u /* events of a turn share blobs of this size */
#define PREFIX         "data: "
#define SUFFIX         "\n\n"
#define EVENT_OVERHEAD (sizeof(PREFIX SUFFIX) - 1)

/* Parses the body, then calls `then`. */
static void parse_request(struct as_exchange *x, const struct as_rest_match *m,
                          void (*then)(struct as_exchange *x))
{
    if (as_exchange_find_model_to_infer(x, m->model, m->version))
        as_infer_json_read(x, AS_FORM_GENERATE, x->body.len, then);
}

/* A model that streams its inputs gets this one input. */
static void start_call(struct as_exchange *x, as_infer_send send,
                       const struct as_infer_parts *parts)
{
    as_infer_begin_parts(x, send, parts);
    if (x->in_fleet && x->model->streams_inputs)
        as_fleet_client_input_end(&x->edge->client, &x->call);
}

/* The most bytes that the JSON of a response may have. False: the request was failed. */
static bool max_json_size(struct as_exchange *x, const struct as_oip_response *r, uint64_t *ret_max)
{
    char why[WHY_MAX] = "";
    int err = as_infer_json_max(r, &x->infer, AS_FORM_GENERATE, ret_max, why, sizeof(why));

    if (err)
        as_exchange_fail(x, err, "%s", why);
    return !err;
}

/* --- one answer --- */

/* Stores the response of a decoupled model until it is known to be the only one. */
static bool store_only_part(struct as_exchange *x, const struct as_oip_response *r)
{
    uint64_t max;

    if (!max_json_size(x, r, &max))
        return false;
    x->answer.text = as_exchange_answer_blob(x, (size_t)max);
    if (!x->answer.text)
        return false;
    x->body.filled = as_oip_json_put_generate(x->answer.text->data, r);
    as_blob_truncate(x->answer.text, x->body.filled);
    return true;
}

static void send_text(struct as_exchange *x, const struct as_infer_json_text *t)
{
    struct as_http_piece piece = {t->p, t->n, t->blob};

    as_rest_send(x, &(struct as_rest_reply){.status = 200, .body = &piece, .n_body = 1});
}

static void send_one(struct as_exchange *x, const struct as_oip_response *r)
{
    as_infer_json_write(x, r, AS_FORM_GENERATE, send_text);
}

static bool on_only_part(struct as_exchange *x, const struct as_oip_response *r,
                         struct as_blob *blob AS_UNUSED)
{
    if (x->answer.text) {
        as_exchange_fail(x, AS_EINVALID,
                         "model '%.*s' gave more than one response: use generate_stream",
                         AS_STR_FMT(x->model->name));
        as_exchange_cancel(x);
    } else if (!store_only_part(x, r)) {
        as_exchange_cancel(x);
    }
    return true;
}

static void on_only_part_end(struct as_exchange *x)
{
    struct as_blob *b = x->answer.text;

    if (b)
        send_text(x, &(struct as_infer_json_text){.p = b->data, .n = x->body.filled, .blob = b});
    else
        as_exchange_fail(x, AS_EINVALID, "model '%.*s' gave no response: use generate_stream",
                         AS_STR_FMT(x->model->name));
}

static void start_generate(struct as_exchange *x)
{
    static const struct as_infer_parts parts = {.part = on_only_part, .end = on_only_part_end};

    start_call(x, send_one, &parts);
}

void as_infer_generate(struct as_exchange *x, const struct as_rest_match *m)
{
    parse_request(x, m, start_generate);
}

/* --- events --- */

/* A stream of events; in the exchange's arena. */
struct events {
    struct as_exchange *x;
    struct as_task turn; /* scheduled while there are unsent events */
    struct as_blob *out; /* events of this turn; [from, to) is not sent yet */
    size_t from, to;
    bool headers_sent;
    bool wants_room;
};

static void flush_events(struct events *e)
{
    struct as_http_piece piece = {.n = e->to - e->from, .owner = e->out};

    if (!piece.n || !e->x->conn)
        return;
    piece.p = e->out->data + e->from;
    e->from = e->to;
    as_conn_write(e->x->conn, e->x->stream, &piece);
    as_conn_schedule_flush(e->x->conn);
}

static void on_turn(struct as_task *t)
{
    flush_events(AS_CONTAINER(t, struct events, turn));
}

/* Memory for n bytes. NULL: no room, *ret_err. */
static uint8_t *reserve_event(struct events *e, size_t n, int *ret_err)
{
    if (e->out && e->out->n - e->to < n) {
        flush_events(e);
        as_blob_unref(e->out);
        e->out = NULL;
    }
    if (!e->out) {
        *ret_err =
            as_blob_new_charged(e->x->budget.answers, AS_MAX(n, (size_t)EVENTS_BLOB), &e->out);
        e->from = e->to = 0;
    }
    if (!e->out)
        return NULL;
    as_loop_defer(e->x->edge->loop, &e->turn);
    return e->out->data + e->to;
}

static void append_text(struct events *e, const char *text, size_t n)
{
    memcpy(e->out->data + e->to, text, n);
    e->to += n;
}

static void finish_events(struct events *e)
{
    flush_events(e);
    if (as_exchange_mark_answered(e->x, 200))
        as_conn_finish(e->x->conn, e->x->stream, NULL, 0);
}

/* After the status was sent, an error is the last event. Without room for it the stream is reset,
 * so that the client does not take it for complete. */
static void on_fail(struct as_exchange *x, uint32_t status AS_UNUSED, struct as_str message)
{
    struct events *e = x->answer.item;
    struct as_buf json;
    int err;

    as_buf_init(&json);
    as_json_put_error(&json, message);
    if (reserve_event(e, EVENT_OVERHEAD + json.n, &err)) {
        append_text(e, PREFIX, sizeof(PREFIX) - 1);
        append_text(e, (const char *)json.p, json.n);
        append_text(e, SUFFIX, sizeof(SUFFIX) - 1);
    } else {
        as_conn_reset(x->conn, x->stream);
    }
    as_buf_fini(&json);
    x->state = AS_EXCHANGE_WAITING; /* as_exchange_mark_answered will set ANSWERED */
    finish_events(e);
    as_exchange_cancel(x);
}

static void send_headers(struct events *e)
{
    struct as_http_header headers[2 + AS_CORS_FIELDS] = {
        {{"content-type", 12}, {"text/event-stream; charset=utf-8", 32}},
        {{"cache-control", 13}, {"no-cache", 8}},
    };
    struct as_http_answer a = {.status = 200, .headers = headers, .n_headers = 2};

    if (e->headers_sent)
        return;
    as_cors_put(e->x->edge, e->x->head, headers, &a.n_headers);
    e->headers_sent = true;
    e->x->answer.on_fail = on_fail; /* until here an error is an HTTP error */
    as_conn_begin(e->x->conn, e->x->stream, &a);
    as_client_timeouts_start_answer(e->x);
    as_conn_schedule_flush(e->x->conn);
}

static bool on_event_part(struct as_exchange *x, const struct as_oip_response *r,
                          struct as_blob *blob AS_UNUSED)
{
    struct events *e = x->answer.item;
    uint64_t max;
    int err = 0;

    if (!max_json_size(x, r, &max)) {
        as_exchange_cancel(x);
        return true;
    }
    send_headers(e);
    if (!reserve_event(e, EVENT_OVERHEAD + (size_t)max, &err)) {
        as_exchange_fail_answer(x, err, (size_t)max);
        return true;
    }
    append_text(e, PREFIX, sizeof(PREFIX) - 1);
    e->to += as_oip_json_put_generate(e->out->data + e->to, r);
    append_text(e, SUFFIX, sizeof(SUFFIX) - 1);
    e->wants_room = as_conn_unsent(x->conn, x->stream) >= AS_STREAM_HIGH_WATER;
    return !e->wants_room;
}

static void on_events_end(struct as_exchange *x)
{
    send_headers(x->answer.item);
    finish_events(x->answer.item);
}

static void send_event(struct as_exchange *x, const struct as_oip_response *r)
{
    on_event_part(x, r, NULL);
    if (x->state != AS_EXCHANGE_ANSWERED)
        on_events_end(x);
}

static void on_drained(struct as_exchange *x)
{
    struct events *e = x->answer.item;

    if (e->wants_room) {
        e->wants_room = false;
        as_infer_credit(x);
    }
}

static void on_gone(struct as_exchange *x)
{
    struct events *e = x->answer.item;

    as_task_cancel(&e->turn);
    as_blob_unref(e->out);
    e->out = NULL;
}

static void start_events(struct as_exchange *x)
{
    static const struct as_infer_parts parts = {.part = on_event_part, .end = on_events_end};
    static const struct as_exchange_answer_ops answer_ops = {.drained = on_drained,
                                                             .gone = on_gone};
    struct events *e = as_exchange_alloc(x, sizeof(*e), 8, "the request");

    if (!e)
        return;
    *e = (struct events){.x = x};
    as_task_init(&e->turn, on_turn);
    x->answer.item = e;
    x->answer.ops = &answer_ops;
    start_call(x, send_event, &parts);
}

void as_infer_generate_stream(struct as_exchange *x, const struct as_rest_match *m)
{
    parse_request(x, m, start_events);
}
