#include "edge/infer/infer.h"

#include "edge/exchange/urgency.h"
#include "edge/infer/infer_output.h"
#include "edge/infer/mirror.h"
#include "edge/infer/request_options.h"
#include "edge/infer/reroute.h"
#include "edge/infer/shm_tensors.h"

#define WHY_MAX      512
#define METADATA_MAX 128u /* entries handed to the worker */
/* Most bytes of metadata: together with AS_OIP_TABLE_MAX they fit into the table of a frame. */
#define METADATA_BYTES (AS_FRAME_TABLE - AS_OIP_TABLE_MAX - METADATA_MAX * 16)

static struct as_exchange *exchange_of(struct as_call *c)
{
    return AS_CONTAINER(c, struct as_exchange, call);
}

/* --- the request --- */

/* Metadata while it is collected from the request head. */
struct metadata {
    struct as_exchange *x;
    struct as_meta *meta;
    uint32_t cap;
    size_t bytes;
};

static bool grow_metadata(struct metadata *md, uint32_t cap)
{
    struct as_meta *m = as_exchange_alloc(md->x, sizeof(*m) * cap, 8, "the request");

    if (!m)
        return false;
    if (md->cap)
        memcpy(m, md->meta, sizeof(*m) * md->cap);
    md->meta = m;
    md->cap = cap;
    return true;
}

/* Adds an entry with room for a value of `value` bytes. NULL: the request was failed. */
static inline struct as_meta *add_metadata(struct metadata *md, struct as_str key, size_t value)
{
    struct as_msg *msg = &md->x->call.payload.msg;
    struct as_meta *m;
    char *p;

    md->bytes += key.n + value;
    if (md->bytes > METADATA_BYTES || msg->n_meta == METADATA_MAX) {
        as_exchange_fail(md->x, AS_EHEADERS,
                         "metadata: more than %u entries or %u bytes for a handler", METADATA_MAX,
                         (unsigned)METADATA_BYTES);
        return NULL;
    }
    if (msg->n_meta == md->cap && !grow_metadata(md, 2 * md->cap))
        return NULL;
    p = as_exchange_alloc(md->x, key.n + value, 1, "the request");
    if (!p)
        return NULL;
    m = &md->meta[msg->n_meta++];
    memcpy(p, key.p, key.n);
    m->key = (struct as_str){p, key.n};
    m->value = (struct as_str){p + key.n, value};
    return m;
}

/* A header "…-bin". A proxy may have joined several values by commas: each becomes an entry. */
static bool add_binary(struct metadata *md, const struct as_http_header *h)
{
    struct as_str rest = h->value, value;

    while (as_grpc_next_bin(&rest, &value)) {
        struct as_meta *m = add_metadata(md, h->name, AS_GRPC_BIN_BYTES(value.n));

        if (!m)
            return false;
        if (as_grpc_decode_bin(value, (uint8_t *)(uintptr_t)m->value.p, &m->value.n)) {
            as_exchange_fail(md->x, AS_EINVALID, "malformed base64 in header '%.*s'",
                             AS_STR_CUT(h->name, 128));
            return false;
        }
    }
    return true;
}

/* Headers of plain HTTP that handlers do not get: those of the connection (RFC 9110, 7.6.1), and
 * those about the encoding of the body and of the answer. */
static bool is_http_only(struct as_str name)
{
    static const char *const names[] = {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "inference-header-content-length",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "grpc-timeout",
    };

    for (size_t i = 0; i < AS_COUNT(names); i++) {
        if (as_str_eq(name, as_str_of(names[i])))
            return true;
    }
    return false;
}

/* Copies the headers for the handler; a copy, since the call may outlive the client's stream.
 * False: the request was failed. */
static bool copy_metadata(struct as_exchange *x)
{
    const struct as_http_head *head = x->head;
    struct metadata md = {.x = x};

    x->call.payload.msg.n_meta = 0;
    if (!head->n_rest)
        return true;
    if (!grow_metadata(&md, AS_MIN(head->n_rest, METADATA_MAX)))
        return false;
    for (uint32_t i = 0; i < head->n_rest; i++) {
        const struct as_http_header *h = &head->rest[i];
        struct as_meta *m;

        if (x->grpc ? as_grpc_is_reserved(h->name) : is_http_only(h->name))
            continue;
        if (x->grpc && as_grpc_is_bin(h->name)) {
            if (!add_binary(&md, h))
                return false;
            continue;
        }
        m = add_metadata(&md, h->name, h->value.n);
        if (!m)
            return false;
        memcpy((char *)(uintptr_t)m->value.p, h->value.p, h->value.n);
    }
    x->call.payload.msg.meta = md.meta;
    return true;
}

/* The blob that holds all inputs: then they are passed by reference. NULL: they lie elsewhere. */
static struct as_blob *inputs_blob(const struct as_exchange *x)
{
    struct as_blob *b = x->body.inputs ? x->body.inputs : x->body.blob;

    return b && as_infer_all_lie_in(b, x->infer.inputs, x->infer.n_inputs) ? b : NULL;
}

/* Sets the number of items, for a model with batching. False: the request was failed. */
static bool count_items(struct as_exchange *x)
{
    struct as_call *c = &x->call;
    char why[WHY_MAX];

    if (as_model_items(x->model, x->infer.inputs, x->infer.n_inputs, why, sizeof(why),
                       &c->core.items)) {
        as_exchange_fail(x, AS_EINVALID, "%s", why);
        return false;
    }
    c->payload.batching = x->model->batching.ragged ? AS_PAYLOAD_RAGGED : AS_PAYLOAD_SAME_SHAPE;
    return true;
}

/* Refuses requests of a client that does not read its answers. */
static bool check_answer_room(struct as_exchange *x)
{
    const struct as_budget *b = x->budget.answers->budget;

    if (__builtin_expect(!as_account_charged(x->budget.answers) && as_budget_free(b), 1))
        return true;
    if (as_account_has_room(x->budget.answers, 1))
        return true;
    as_exchange_fail(
        x, AS_EFULL,
        "no room for an answer: %lu of --max-answer-bytes %lu wait for clients, %lu of "
        "them for this connection (--connection-share %u)",
        (unsigned long)as_budget_used(b), (unsigned long)b->limit,
        (unsigned long)as_account_charged(x->budget.answers), b->share);
    return false;
}

static bool prepare_call(struct as_exchange *x)
{
    char why[WHY_MAX];
    int err;

    if (!check_answer_room(x))
        return false;
    if (!x->model && !as_exchange_find_model_to_infer(x, x->infer.model, x->infer.version))
        return false;
    if (__builtin_expect(x->model->routed, 0))
        as_reroute_choose_canary(x);
    err = as_model_check_inputs(x->model, x->infer.inputs, x->infer.n_inputs, why, sizeof(why));
    if (err) {
        as_exchange_fail(x, err, "%s", why);
        return false;
    }
    return copy_metadata(x);
}

bool as_infer_charge(struct as_exchange *x)
{
    return !x->infer.typed || as_exchange_charge(x, x->infer.typed, "copy of typed contents,");
}

static void on_answer(struct as_call *c);
static void on_part(struct as_call *c, struct as_part *p);

static void on_release(struct as_call *c);

/* Submits the call, and its mirrored copies. The inputs must not move any more. */
static void submit_call(struct as_exchange *x)
{
    struct as_exchange *copies = NULL;
    struct as_call *c = &x->call;

    c->payload.msg.tensors = x->infer.inputs;
    c->payload.msg.n_tensors = x->infer.n_inputs;
    c->payload.blob = inputs_blob(x);
    c->payer = x->budget.answers;
    c->outcome.err = 0;
    x->state = AS_EXCHANGE_WAITING;
    x->in_fleet = true;
    if (__builtin_expect(x->model->routed, 0))
        copies = as_mirror_copy(x);
    as_fleet_client_submit(&x->edge->client, c);
    if (__builtin_expect(copies != NULL, 0))
        as_mirror_send(copies);
}

/* Copies inputs out of shared memory first. */
static void fetch_and_submit(struct as_exchange *x)
{
    if (!x->answer.on_fail)
        as_shm_tensors_fetch(x, submit_call);
    else if (as_shm_tensors_fetch_now(
                 x)) /* in a stream the order of messages matters: not on the helper */
        submit_call(x);
}

bool as_infer_set_model(struct as_exchange *x, void (*part)(struct as_call *, struct as_part *),
                        bool takes_inputs)
{
    struct as_call *c = &x->call;

    c->stream = NULL;
    if (x->model->decoupled) {
        c->stream = as_exchange_alloc(x, sizeof(*c->stream), 8, "the request");
        if (!c->stream)
            return false;
        *c->stream = (struct as_call_stream){.on_part = part, .takes_inputs = takes_inputs};
    }
    as_request_init(&c->core);
    c->core.model = x->model->index;
    c->payload.batching = AS_PAYLOAD_UNBATCHED;
    if (x->model->batching.max_size && !count_items(x))
        return false;
    c->core.idempotent = x->model->idempotent;
    c->deployment = x->model->deployment;
    c->caller = AS_CALL_NO_CALLER;
    c->owner = NULL;
    c->only = NULL;
    c->depth = 0;
    c->arena = c->stream ? &x->dispatch_arena : &x->arena;
    return true;
}

static bool set_model(struct as_exchange *x)
{
    if (!as_infer_set_model(x, on_part, x->model->streams_inputs))
        return false;
    if (__builtin_expect(x->model->routed, 0))
        as_reroute_prepare(x);
    return true;
}

void as_infer_begin(struct as_exchange *x, as_infer_send send)
{
    struct as_call *c = &x->call;

    x->answer.send = send;
    if (!prepare_call(x))
        return;
    if (x->model->decoupled && !x->answer.parts) {
        as_exchange_fail(x, AS_EUNIMPLEMENTED,
                         "model '%.*s' answers with a stream of responses: it is called by "
                         "ModelStreamInfer or generate_stream",
                         AS_STR_FMT(x->model->name));
        return;
    }
    if (x->model->decoupled && as_infer_output_any(x)) {
        as_exchange_fail(x, AS_EINVALID,
                         "classification and outputs in shared memory are for models with one "
                         "response; '%.*s' streams its responses",
                         AS_STR_FMT(x->model->name));
        return;
    }
    c->payload.msg.id = x->infer.id;
    c->payload.msg.params = x->infer.params;
    c->payload.msg.n_params = x->infer.n_params;
    c->payload.tensor_params = x->infer.tensor_params;
    c->is_fallback = false;
    if (!set_model(x))
        return;
    c->core.deadline = x->deadline;
    if (!as_urgency_read(x, &c->core) || (c->payload.msg.n_params && !as_request_options_apply(x)))
        return;
    c->on_answer = on_answer;
    c->on_release = on_release;
    if (__builtin_expect(!as_shm_tensors_any(x), 1))
        submit_call(x);
    else
        fetch_and_submit(x);
}

void as_infer_begin_parts(struct as_exchange *x, as_infer_send send,
                          const struct as_infer_parts *parts)
{
    x->answer.parts = parts;
    as_infer_begin(x, send);
}

bool as_infer_input(struct as_exchange *x, struct as_exchange *to,
                    void (*released)(struct as_input *in))
{
    char why[WHY_MAX];
    struct as_input *in;
    /* checked against the version of the call, also if the default version is another one by now */
    int err =
        as_model_check_inputs(to->model, x->infer.inputs, x->infer.n_inputs, why, sizeof(why));

    if (err) {
        as_exchange_fail(x, err, "%s", why);
        return false;
    }
    if (as_shm_tensors_any(x) && !as_shm_tensors_fetch_now(x))
        return false;
    in = as_exchange_alloc(x, sizeof(*in), 8, "the request");
    if (!in)
        return false;
    *in = (struct as_input){.payload = {.msg = {.id = x->infer.id,
                                                .tensors = x->infer.inputs,
                                                .n_tensors = x->infer.n_inputs,
                                                .params = x->infer.params,
                                                .n_params = x->infer.n_params},
                                        .tensor_params = x->infer.tensor_params,
                                        .blob = inputs_blob(x)},
                            .on_release = released,
                            .owner = x};
    x->cancelled = true; /* it is no call, so it must not be cancelled as one */
    x->in_fleet = true;
    as_fleet_client_input(&x->edge->client, &to->call, in);
    return true;
}

/* --- the answer --- */

/* Selects the requested outputs, in the requested order; all of them if none is named. False: the
 * request was failed. */
static bool select_outputs(struct as_exchange *x, const struct as_msg *res,
                           struct as_oip_response *r)
{
    r->outputs = res->tensors;
    r->n_outputs = res->n_tensors;
    if (!x->infer.n_outputs)
        return true;
    if (!x->answer.selected) /* one array for all responses */
        x->answer.selected =
            as_exchange_alloc(x, sizeof(*x->answer.selected) * x->infer.n_outputs, 8, "the answer");
    if (!x->answer.selected)
        return false;
    for (uint32_t i = 0; i < x->infer.n_outputs; i++) {
        uint32_t k = 0;

        while (k < res->n_tensors && !as_str_eq(res->tensors[k].name, x->infer.outputs[i].name))
            k++;
        if (k == res->n_tensors) {
            as_exchange_fail(x, AS_EINVALID, "model '%.*s' has no output '%.*s'",
                             AS_STR_FMT(x->model->name), AS_STR_CUT(x->infer.outputs[i].name, 128));
            return false;
        }
        x->answer.selected[i] = res->tensors[k];
    }
    r->outputs = x->answer.selected;
    r->n_outputs = x->infer.n_outputs;
    return true;
}

/* Makes a response of a worker's message. False: the request was failed. */
static bool fill_response(struct as_exchange *x, const struct as_payload *from,
                          struct as_oip_response *r)
{
    const struct as_tensor_params *own = &from->tensor_params;
    const struct as_msg *res = &from->msg;
    char why[WHY_MAX];

    *r = (struct as_oip_response){.model = x->model->name,
                                  .version = x->model->version,
                                  .id = x->infer.id,
                                  .params = res->params,
                                  .n_params = res->n_params};
    if (__builtin_expect(x->reroute != NULL, 0))
        as_reroute_add_param(x, r);
    if (as_model_check_outputs(x->model, res->tensors, res->n_tensors, why, sizeof(why))) {
        as_exchange_fail(x, AS_EHANDLER, "%s", why);
        return false;
    }
    return select_outputs(x, res, r) && (!as_infer_output_any(x) || as_infer_output_apply(x, r)) &&
           (!own->n || as_infer_output_add_params(x, res, own, r));
}

static void send_result(struct as_exchange *x)
{
    struct as_oip_response r;

    if (fill_response(x, &x->call.outcome.result, &r))
        x->answer.send(x, &r);
}

void as_infer_credit(struct as_exchange *x)
{
    struct as_frame_window uncredited = x->answer.uncredited;

    x->answer.uncredited = (struct as_frame_window){0};
    if (x->in_fleet && uncredited.messages)
        as_fleet_client_credit(&x->edge->client, &x->call, (uint32_t)uncredited.messages,
                               (uint64_t)uncredited.bytes);
}

static void on_part(struct as_call *c, struct as_part *p)
{
    struct as_exchange *x = exchange_of(c);
    struct as_oip_response r;

    if (!x->conn || x->state == AS_EXCHANGE_ANSWERED)
        return;
    if (p->dropped) {
        as_exchange_fail_answer(x, AS_EUNTAKEN, p->dropped);
        as_exchange_cancel(x);
        return;
    }
    if (!fill_response(x, &p->payload, &r)) {
        as_exchange_cancel(x); /* no more responses are needed */
        return;
    }
    x->answer.uncredited.messages++;
    x->answer.uncredited.bytes += (int64_t)p->cost;
    if (x->answer.parts->part(x, &r, p->payload.blob))
        as_infer_credit(x);
}

/* The error of a request that the drain did not wait for. True: failed. */
static bool fail_shutdown(struct as_exchange *x)
{
    int err = x->call.outcome.err;

    if (err == AS_EMAYHAVERUN)
        as_exchange_fail(x, err,
                         "the server ended before model '%.*s' had answered (--drain-timeout); the "
                         "request may have been executed",
                         AS_STR_FMT(x->model->name));
    else if (err == AS_EUNAVAILABLE)
        as_exchange_fail(x, err, "the server is ending");
    return err == AS_EMAYHAVERUN || err == AS_EUNAVAILABLE;
}

static void send_error(struct as_exchange *x)
{
    static const struct {
        int err;
        const char *before, *after; /* the model's name */
    } errors[] = {
        {AS_EFULL, "the queue of", " is full (max_queued_requests)"},
        {AS_EMAYHAVERUN, "the worker of", " died; the request may have been executed"},
        {AS_EHUNG, "the handler of",
         " ran for longer than execution_timeout_s; its worker was ended"},
        {AS_EPOISON, "this request has ended workers of",
         " and is refused for a while (--quarantine)"},
        {AS_ESUSPECT, "a request like this one has ended a worker of",
         ", and none was free to run it alone (--suspect-wait)"},
        {AS_EUNAVAILABLE, "no worker of", " is available"},
    };
    struct as_call *c = &x->call;

    if (c->outcome.status) {
        as_exchange_fail_status(x, c->outcome.status, c->outcome.message, NULL, 0);
        return;
    }
    x->answer.retry_after = c->outcome.retry_after;
    x->answer.backpressure = c->outcome.backpressure;
    if (__builtin_expect(as_fleet_is_aborted(x->edge->client.fleet), 0) && fail_shutdown(x))
        return;
    if (c->outcome.shed) {
        as_exchange_fail(x, c->outcome.err,
                         "the request has waited too long for model '%.*s' (codel_target_s)",
                         AS_STR_FMT(x->model->name));
        return;
    }
    for (size_t i = 0; i < AS_COUNT(errors); i++) {
        if (errors[i].err == c->outcome.err) {
            as_exchange_fail(x, c->outcome.err, "%s model '%.*s'%s", errors[i].before,
                             AS_STR_FMT(x->model->name), errors[i].after);
            return;
        }
    }
    if (c->outcome.err == AS_EUNTAKEN)
        as_exchange_fail_answer(x, c->outcome.err, c->outcome.dropped);
    else
        as_exchange_fail(x, c->outcome.err, "%s", as_err_text(c->outcome.err));
}

static void end_parts(struct as_exchange *x)
{
    if (x->state != AS_EXCHANGE_ANSWERED)
        x->answer.parts->end(x);
}

static void on_answer(struct as_call *c)
{
    struct as_exchange *x = exchange_of(c);

    if (c->outcome.err && __builtin_expect(x->reroute != NULL, 0) && as_reroute_after_error(x))
        return;
    if (c->outcome.err)
        send_error(x);
    else if (x->conn && c->stream)
        end_parts(x);
    else if (x->conn)
        send_result(x);
    if (x->answer.tensors)
        as_blob_unref(c->outcome.result.blob);
    else
        x->answer.tensors = c->outcome.result.blob;
    c->outcome.result.blob = NULL;
}

/* Submits a released call to the next deployment, with the same deadline and priority. If the
 * client had ended its inputs, they are ended again. */
static void submit_rerouted(struct as_exchange *x)
{
    struct as_call *c = &x->call;
    as_ns deadline = c->core.deadline;
    uint8_t priority = c->core.priority;
    uint64_t tenant = c->core.tenant;
    uint32_t cost = c->core.cost;
    bool over = c->stream && c->stream->inputs_over;

    if (!as_reroute_to_next(x)) {
        send_error(x);
        as_exchange_released(x);
        return;
    }
    if (!set_model(x)) {
        as_exchange_released(x);
        return;
    }
    c->core.deadline = deadline;
    c->core.priority = priority;
    c->core.tenant = tenant;
    c->core.cost = cost;
    as_fleet_client_submit(&x->edge->client, c);
    if (over && x->in_fleet)
        as_fleet_client_input_end(&x->edge->client, c);
}

static void on_release(struct as_call *c)
{
    struct as_exchange *x = exchange_of(c);

    if (__builtin_expect(x->reroute && x->reroute->pending, 0))
        submit_rerouted(x);
    else
        as_exchange_released(x);
}
