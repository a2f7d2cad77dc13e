#include "edge/admin/registrar.h"

#include "base/utf8.h"
#include "link/simple/simple.h"

#define WHY_MAX    512u
#define ADDRESS    "unix://"
#define SLOTS_MAX  65535u
#define KEY_SHOWN  64u /* bytes of an unknown key */
#define BRIEF(s)   AS_STR_CUT(s, AS_NAME_MAX)
#define DEFAULT_AT AS_STR("1")

/* --- checks of names, addresses and limits --- */

static bool is_worker_id(struct as_str s)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    for (size_t i = 0; i < s.n; i++) {
        if (!s.p[i] || !strchr(allowed, s.p[i]))
            return false;
    }
    return s.n > 0 && s.n <= AS_REGISTRAR_WORKER_MAX;
}

static bool check_worker(struct as_exchange *x, struct as_str id)
{
    if (is_worker_id(id))
        return true;
    as_exchange_fail(x, AS_EINVALID, "worker_id: '%.*s' is not 1 to %u characters of A-Za-z0-9._-",
                     BRIEF(id), AS_REGISTRAR_WORKER_MAX);
    return false;
}

static bool check_model(struct as_exchange *x, struct as_management_request *q)
{
    const char *why;

    if (!q->version.n)
        q->version = DEFAULT_AT;
    if (as_registry_check_name(q->model, &why))
        as_exchange_fail(x, AS_EINVALID, "model_name: '%.*s': %s", BRIEF(q->model), why);
    else if (as_registry_check_version(q->version, &why))
        as_exchange_fail(x, AS_EINVALID, "model_version: '%.*s': %s", BRIEF(q->version), why);
    else
        return true;
    return false;
}

/* Checks the form only; link/simple/simple.h checks the socket. */
static bool check_address(struct as_exchange *x, struct as_str address)
{
    size_t n = sizeof(ADDRESS) - 1;

    if (address.n > n + 1 && memcmp(address.p, ADDRESS, n) == 0 && address.p[n] == '/' &&
        !memchr(address.p, 0, address.n))
        return true;
    as_exchange_fail(x, AS_EINVALID, "worker_address: '%.*s' is not unix:///PATH", BRIEF(address));
    return false;
}

static bool check_offer(struct as_exchange *x, const struct as_management_request *q)
{
    if (q->max_ongoing > SLOTS_MAX)
        as_exchange_fail(x, AS_EINVALID, "options.max_ongoing_requests: %u is above %u",
                         q->max_ongoing, SLOTS_MAX);
    else if (q->max_queued < -1 || q->max_queued > AS_REGISTRAR_QUEUED_MAX)
        as_exchange_fail(x, AS_EINVALID, "options.max_queued_requests: %ld is not -1 to %d",
                         (long)q->max_queued, AS_REGISTRAR_QUEUED_MAX);
    else if (q->platform.n > AS_NAME_MAX)
        as_exchange_fail(x, AS_EINVALID, "platform: longer than %u bytes", AS_NAME_MAX);
    else
        return true;
    return false;
}

/* --- the three calls --- */

static void send_response(struct as_exchange *x, enum as_management_rpc rpc,
                          const struct as_management_response *r)
{
    struct as_buf b;

    as_buf_init(&b);
    if (x->grpc) {
        as_management_put(rpc, r, &b);
        as_exchange_reply(x, &b);
    } else {
        as_management_put_json(rpc, r, &b);
        as_rest_json(x, 200, &b);
    }
    as_buf_fini(&b);
}

/* Logs a refused registration, at most once a second: workers may retry at once. */
static void log_refusal(struct as_exchange *x, const struct as_management_request *q, int err,
                        const char *why)
{
    char quoted[2 * WHY_MAX];
    uint64_t skipped;

    if (!as_edge_may_log(x->edge, AS_EDGE_LOG_REGISTRATION, &skipped))
        return;
    as_log_event(x->edge->log, AS_LOG_WARN, "registration_refused",
                 "worker=%.*s model=%.*s:%.*s err=%s reason=%s skipped=%lu", BRIEF(q->worker),
                 BRIEF(q->model), BRIEF(q->version), as_err_name(err),
                 as_log_quote(quoted, sizeof(quoted), as_str_of(why)), skipped);
}

/* An unknown key is reported in the message, not as an error: it may be one of a later version. */
static struct as_str response_message(const struct as_management_request *q, const char *done,
                                      char text[WHY_MAX])
{
    struct as_str key = as_utf8_cut(q->unknown, KEY_SHOWN);

    if (!key.n)
        return as_str_of(done);
    snprintf(text, WHY_MAX, "%s; ignored: no field '%.*s' is known here", done, AS_STR_FMT(key));
    return as_str_of(text);
}

static void do_register(struct as_exchange *x, struct as_management_request *q)
{
    uint32_t slots = q->max_ongoing ? q->max_ongoing : 1;
    struct as_simple_registration offer = {
        .worker = q->worker,
        .address = q->address,
        .model = {.name = q->model,
                  .platform = q->platform,
                  .max_ongoing = slots,
                  .budget = slots,
                  .max_queued = q->max_queued,
                  .idempotent = q->idempotent,
                  .has_inputs = q->n_inputs > 0,
                  .has_outputs = q->n_outputs > 0,
                  .n_inputs = q->n_inputs,
                  .n_outputs = q->n_outputs,
                  .inputs = q->inputs,
                  .outputs = q->outputs},
    };
    as_ns beat = x->edge->conf.heartbeat;
    char why[WHY_MAX] = "", text[WHY_MAX];
    struct as_management_response r = {.message = response_message(q, "registered", text),
                                       .heartbeat_ms =
                                           beat ? (uint32_t)AS_MAX(beat / AS_MS, (as_ns)1) : 0};
    int err;

    if (!check_model(x, q) || !check_worker(x, q->worker) || !check_address(x, q->address) ||
        !check_offer(x, q))
        return;
    offer.model.version = q->version;
    err = as_simple_join(x->edge->client.fleet, &offer, &r.epoch, why, sizeof(why));
    if (err) {
        log_refusal(x, q, err, why);
        as_exchange_fail(x, err, "%s", why[0] ? why : as_err_text(err));
        return;
    }
    send_response(x, AS_MANAGEMENT_REGISTER, &r);
}

static void do_unregister(struct as_exchange *x, struct as_management_request *q)
{
    char text[WHY_MAX];
    const struct as_management_response r = {.message = response_message(q, "unregistered", text)};
    int err;

    if (!check_model(x, q) || !check_worker(x, q->worker))
        return;
    err = as_simple_leave(x->edge->client.fleet, q->worker, q->model, q->version, q->epoch);
    if (err == AS_ENOTFOUND && q->epoch)
        as_exchange_fail(
            x, err, "worker '%.*s' has no registration %lu of model '%.*s' version '%.*s'",
            BRIEF(q->worker), (unsigned long)q->epoch, BRIEF(q->model), BRIEF(q->version));
    else if (err)
        as_exchange_fail(x, err, "worker '%.*s' has not registered model '%.*s' version '%.*s'",
                         BRIEF(q->worker), BRIEF(q->model), BRIEF(q->version));
    else
        send_response(x, AS_MANAGEMENT_UNREGISTER, &r);
}

static void do_heartbeat(struct as_exchange *x, struct as_management_request *q)
{
    struct as_management_response r = {0};

    if (!check_worker(x, q->worker))
        return;
    r.healthy = as_simple_heartbeat(x->edge->client.fleet, q->worker, q->models, q->n_models);
    send_response(x, AS_MANAGEMENT_HEARTBEAT, &r);
}

static void call_registrar(struct as_exchange *x, enum as_management_rpc rpc,
                           struct as_management_request *q)
{
    static void (*const calls[AS_MANAGEMENT_RPCS])(struct as_exchange * x,
                                                   struct as_management_request * q) = {
        [AS_MANAGEMENT_REGISTER] = do_register,
        [AS_MANAGEMENT_UNREGISTER] = do_unregister,
        [AS_MANAGEMENT_HEARTBEAT] = do_heartbeat,
    };

    AS_ASSERT(x->edge->client.local);
    /* the next dispatcher has got the registrations; workers reach it when they connect again */
    if (x->edge->draining && rpc != AS_MANAGEMENT_HEARTBEAT) {
        as_exchange_fail(x, AS_EUNAVAILABLE, "another dispatcher takes over: try again");
        return;
    }
    calls[rpc](x, q);
}

/* --- by gRPC and by HTTP --- */

void as_registrar_call(struct as_exchange *x)
{
    enum as_management_rpc rpc = AS_MANAGEMENT_REGISTER + (x->rpc - AS_RPC_REGISTER_MODEL);
    struct as_str message = {(const char *)x->body.p, x->body.len};
    struct as_management_request q;
    char why[WHY_MAX] = "";
    int err = as_management_parse(rpc, message, &x->arena, &q, why, sizeof(why));

    if (as_exchange_is_parsed(x, err, why))
        call_registrar(x, rpc, &q);
}

static void handle_post(struct as_exchange *x, enum as_management_rpc rpc)
{
    static const uint8_t nothing[AS_JSON_PADDING];
    struct as_str message = {(const char *)(x->body.len ? x->body.p : nothing), x->body.len};
    struct as_json *j = as_rest_json_reader(x, false);
    struct as_management_request q;
    char why[WHY_MAX] = "";
    int err;

    if (!j)
        return;
    err = as_management_parse_json(rpc, message, j, &x->arena, &q, why, sizeof(why));
    if (as_exchange_is_parsed(x, err, why))
        call_registrar(x, rpc, &q);
}

void as_registrar_register(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    handle_post(x, AS_MANAGEMENT_REGISTER);
}

void as_registrar_unregister(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    handle_post(x, AS_MANAGEMENT_UNREGISTER);
}

void as_registrar_heartbeat(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    handle_post(x, AS_MANAGEMENT_HEARTBEAT);
}
