/* Which option sets which limit or timeout of the dispatcher. */
#include "app/options/conf.h"

#include "io/process/core_dump.h"
#include "io/random.h"
#include "wire/oip/oip.h"

/* Bytes that a request's body in a frame may have beyond its message: padding between tensors and
 * typed contents. */
#define BODY_EXTRA (AS_OIP_TYPED_MAX + (uint64_t)AS_FRAME_TENSORS * AS_FRAME_ALIGN)

/* Limits of the status page: small, and not those of clients, so that it answers when the port of
 * clients is full or its limits are too low. */
#define STATUS_HEAD        8192u /* bytes of a request line, and of all header fields */
#define STATUS_HEADERS     64u
#define STATUS_CONNECTIONS 64u
#define STATUS_TIMEOUT     (5 * AS_SEC)
#define STATUS_BYTES       ((uint64_t)64 << 20) /* of answers */

/* With --debug the timeout is off: a worker that stops in a debugger is not hung. */
static as_ns unless_debugging(const struct as_option_set *o, enum as_option_id id)
{
    return as_option_bool(o, AS_OPT_DEBUG) ? AS_CONF_DEBUGGING : as_option_ns(o, id);
}

struct as_fleet_conf as_conf_fleet(const struct as_option_set *o)
{
    struct as_fleet_conf c = {
        .deployment.router = AS_ROUTER_CONF_DEFAULT,
        .deployment.max_queued = as_option_i64(o, AS_OPT_MAX_QUEUED_REQUESTS),
        .max_prefetch = (uint32_t)as_option_u64(o, AS_OPT_MAX_PREFETCH),
        .deployment.prefetch_work = as_option_ns(o, AS_OPT_PREFETCH_WORK),
        .ping_interval = unless_debugging(o, AS_OPT_PING_INTERVAL),
        .ping_timeout = unless_debugging(o, AS_OPT_PING_TIMEOUT),
        .handshake_timeout = as_option_ns(o, AS_OPT_HANDSHAKE_TIMEOUT),
        .health_period = as_option_ns(o, AS_OPT_HEALTH_CHECK_PERIOD),
        .health_timeout = as_option_ns(o, AS_OPT_HEALTH_CHECK_TIMEOUT),
        .health_failures = (uint32_t)as_option_u64(o, AS_OPT_HEALTH_CHECK_FAILURES),
        .execution_timeout = as_option_ns(o, AS_OPT_EXECUTION_TIMEOUT),
        .request_timeout = as_option_ns(o, AS_OPT_REQUEST_TIMEOUT),
        .grace = as_option_ns(o, AS_OPT_WORKER_GRACE),
        .worker_dir = as_option_str(o, AS_OPT_WORKER_SOCKET_DIR),
        .heartbeat_timeout = as_option_ns(o, AS_OPT_WORKER_HEARTBEAT)
                                 ? as_option_ns(o, AS_OPT_WORKER_HEARTBEAT_TIMEOUT)
                                 : 0,
        .simple_idle = as_option_ns(o, AS_OPT_SIMPLE_IDLE_TIMEOUT),
        .simple_connect = as_option_ns(o, AS_OPT_SIMPLE_CONNECT_TIMEOUT),
        .max_message = as_option_u64(o, AS_OPT_MAX_MESSAGE_BYTES),
        .max_body = BODY_EXTRA + AS_MAX(AS_MAX(as_option_u64(o, AS_OPT_MAX_MESSAGE_BYTES),
                                               as_option_u64(o, AS_OPT_MAX_HTTP_BODY_BYTES)),
                                        as_option_u64(o, AS_OPT_MAX_INFLATED_BYTES)),
        .deployment.retry = {(uint32_t)as_option_u64(o, AS_OPT_RETRY_ATTEMPTS),
                             (uint32_t)as_option_u64(o, AS_OPT_RETRY_BUDGET),
                             (uint32_t)as_option_u64(o, AS_OPT_RETRY_BUDGET_MIN)},
        .deployment.blame = {(uint32_t)as_option_u64(o, AS_OPT_MAX_SUSPECTS),
                             as_option_ns(o, AS_OPT_QUARANTINE)},
        .deployment.breaker = {(uint32_t)as_option_u64(o, AS_OPT_BREAKER_FAILURES),
                               (uint32_t)as_option_u64(o, AS_OPT_BREAKER_PROBES),
                               as_option_ns(o, AS_OPT_BREAKER_OPEN),
                               as_option_ns(o, AS_OPT_BREAKER_OPEN_MAX)},
        .deployment.outlier = {(uint32_t)as_option_u64(o, AS_OPT_OUTLIER_FACTOR),
                               as_option_ns(o, AS_OPT_OUTLIER_LEAST),
                               (uint32_t)as_option_u64(o, AS_OPT_MAX_EJECTED)},
        .deployment.verdict_wait = as_option_ns(o, AS_OPT_VERDICT_WAIT),
        .deployment.repeat_verdict_wait = as_option_ns(o, AS_OPT_VERDICT_PATIENCE),
        .deployment.reserve_time = as_option_ns(o, AS_OPT_RESERVE_TIME),
        .deployment.quarantine = {as_option_ns(o, AS_OPT_TRIAL_TIME),
                                  as_option_ns(o, AS_OPT_SUSPECT_WAIT)},
        .parts = {as_option_i64(o, AS_OPT_STREAM_CREDIT),
                  (int64_t)as_option_u64(o, AS_OPT_STREAM_CREDIT_BYTES)},
        .call_credit = (uint32_t)as_option_u64(o, AS_OPT_CALL_CREDIT),
        .call_credit_bytes = as_option_u64(o, AS_OPT_CALL_CREDIT_BYTES),
        .max_report = (uint32_t)as_option_u64(o, AS_OPT_MAX_REPORT_BYTES),
        .max_models = (uint32_t)as_option_u64(o, AS_OPT_MAX_MODELS_PER_REPLICA),
        .max_stats = (uint32_t)as_option_u64(o, AS_OPT_MAX_SCALING_STATS),
        .max_stats_bytes = (uint32_t)as_option_u64(o, AS_OPT_MAX_SCALING_STATS_BYTES),
    };

    /* The seed of routing, and of the hashes of requests that may share a batch
     * (link/call/payload.h). A client that could predict the hashes would only cost time, since
     * requests with equal hashes are compared. */
    as_random_bytes(&c.deployment.seed, sizeof(c.deployment.seed));
    c.deployment.router.policy = (enum as_router)as_router_of(as_option_str(o, AS_OPT_ROUTER));
    c.deployment.router.ask_timeout = as_option_ns(o, AS_OPT_ROUTER_TIMEOUT);
    return c;
}

static struct as_h2_rate h2_rate(const struct as_option_set *o, enum as_option_id burst,
                                 enum as_option_id rate)
{
    return (struct as_h2_rate){(uint32_t)as_option_u64(o, burst), (uint32_t)as_option_u64(o, rate)};
}

static struct as_h2_limits h2_limits(const struct as_option_set *o)
{
    return (struct as_h2_limits){
        .resets = h2_rate(o, AS_OPT_RESET_BURST, AS_OPT_RESET_RATE),
        .reset_patience = as_option_ns(o, AS_OPT_RESET_PATIENCE),
        .faults = h2_rate(o, AS_OPT_FAULT_BURST, AS_OPT_FAULT_RATE),
        .control = h2_rate(o, AS_OPT_CONTROL_BURST, AS_OPT_CONTROL_RATE),
        .empty = h2_rate(o, AS_OPT_EMPTY_BURST, AS_OPT_EMPTY_RATE),
        .window = h2_rate(o, AS_OPT_WINDOW_UPDATE_BURST, AS_OPT_WINDOW_UPDATE_RATE),
        .max_continuations = (uint32_t)as_option_u64(o, AS_OPT_MAX_CONTINUATIONS),
        .max_header_block = (uint32_t)as_option_u64(o, AS_OPT_MAX_HEADER_BLOCK),
        .ping_interval = as_option_ns(o, AS_OPT_MIN_PING_INTERVAL),
        .idle_ping_interval = as_option_ns(o, AS_OPT_MIN_IDLE_PING_INTERVAL),
        .ping_strikes = (uint32_t)as_option_u64(o, AS_OPT_MAX_PING_STRIKES),
    };
}

/* The part of one event loop in a limit for all of them, rounded up. */
static uint32_t per_thread(uint64_t all, uint64_t threads)
{
    return (uint32_t)((all + threads - 1) / threads);
}

struct as_edge_conf as_conf_edge(const struct as_option_set *o)
{
    uint64_t threads = as_option_u64(o, AS_OPT_THREADS);

    return (struct as_edge_conf){
        .host = as_option_str(o, AS_OPT_HOST),
        .status_host = as_option_str(o, AS_OPT_STATUS_HOST),
        .status_tls = as_option_bool(o, AS_OPT_STATUS_TLS),
        .status_port = (uint32_t)as_option_u64(o, AS_OPT_STATUS_PORT),
        .origins = as_option_str(o, AS_OPT_ALLOW_ORIGIN),
        .cors_origins = as_option_str(o, AS_OPT_CORS_ORIGIN),
        .cors_max_age = as_option_ns(o, AS_OPT_CORS_MAX_AGE),
        .h1 = {.max_line = (uint32_t)as_option_u64(o, AS_OPT_MAX_REQUEST_LINE),
               .max_header_bytes = (uint32_t)as_option_u64(o, AS_OPT_MAX_HEADER_BYTES),
               .max_headers = (uint32_t)as_option_u64(o, AS_OPT_MAX_HEADERS),
               .max_chunk_ext = (uint32_t)as_option_u64(o, AS_OPT_MAX_CHUNK_EXTENSION),
               .max_unread = (uint32_t)as_option_u64(o, AS_OPT_STREAM_WINDOW)},
        .h2 = {.max_streams = (uint32_t)as_option_u64(o, AS_OPT_MAX_STREAMS),
               .stream_window = (uint32_t)as_option_u64(o, AS_OPT_STREAM_WINDOW),
               .conn_window = (uint32_t)as_option_u64(o, AS_OPT_CONNECTION_WINDOW),
               .max_header_list = (uint32_t)as_option_u64(o, AS_OPT_MAX_HEADER_BYTES),
               .max_headers = (uint32_t)as_option_u64(o, AS_OPT_MAX_HEADERS),
               .limits = h2_limits(o)},
        .websocket = {.session = {.max_message = as_option_u64(o, AS_OPT_WEBSOCKET_MAX_MESSAGE),
                                  .max_fragments =
                                      (uint32_t)as_option_u64(o, AS_OPT_WEBSOCKET_MAX_FRAGMENTS)},
                      .ping_interval = as_option_ns(o, AS_OPT_WEBSOCKET_PING_INTERVAL),
                      .ping_timeout = as_option_ns(o, AS_OPT_WEBSOCKET_PING_TIMEOUT)},
        .max_message = as_option_u64(o, AS_OPT_MAX_MESSAGE_BYTES),
        .stream_requests = (uint32_t)as_option_u64(o, AS_OPT_STREAM_REQUESTS),
        .max_connections = per_thread(as_option_u64(o, AS_OPT_MAX_CONNECTIONS), threads),
        .max_requests = per_thread(as_option_u64(o, AS_OPT_MAX_REQUESTS), threads),
        .max_http_body = as_option_u64(o, AS_OPT_MAX_HTTP_BODY_BYTES),
        .ingress_buffer = as_option_u64(o, AS_OPT_INGRESS_BUFFER),
        .root_path = as_str_of(as_option_str(o, AS_OPT_ROOT_PATH)),
        .tenant_header = as_str_of(as_option_str(o, AS_OPT_TENANT_HEADER)),
        .cost_header = as_str_of(as_option_str(o, AS_OPT_COST_HEADER)),
        .message_option = "--max-message-bytes",
        .body_option = "--max-http-body-bytes",
        .inflated_option = "--max-inflated-bytes",
        .max_inflated = as_option_u64(o, AS_OPT_MAX_INFLATED_BYTES),
        .no_reflection = !as_option_bool(o, AS_OPT_GRPC_REFLECTION),
        .compress = (enum as_compress_mode)as_option_u64(o, AS_OPT_RESPONSE_COMPRESSION),
        .compress_min = as_option_u64(o, AS_OPT_MIN_COMPRESS_BYTES),
        .header_timeout = as_option_ns(o, AS_OPT_HEADER_TIMEOUT),
        .max_tls_messages = (uint32_t)as_option_u64(o, AS_OPT_MAX_TLS_MESSAGES),
        .max_handshakes = per_thread(as_option_u64(o, AS_OPT_MAX_HANDSHAKES), threads),
        .handshake_timeout = as_option_ns(o, AS_OPT_TLS_HANDSHAKE_TIMEOUT),
        .idle_timeout = as_option_ns(o, AS_OPT_IDLE_TIMEOUT),
        .goaway_grace = as_option_ns(o, AS_OPT_GOAWAY_GRACE),
        .keepalive_time = as_option_ns(o, AS_OPT_KEEPALIVE_TIME),
        .keepalive_timeout = as_option_ns(o, AS_OPT_KEEPALIVE_TIMEOUT),
        .body_timeout = as_option_ns(o, AS_OPT_BODY_TIMEOUT),
        .send_timeout = as_option_ns(o, AS_OPT_SEND_TIMEOUT),
        .min_progress = as_option_u64(o, AS_OPT_MIN_PROGRESS),
        .linger_timeout = as_option_ns(o, AS_OPT_LINGER_TIMEOUT),
        .max_lingering = per_thread(as_option_u64(o, AS_OPT_MAX_LINGERING), threads),
    };
}

/* The limit of a message is small, since a parsed message takes a multiple of its size. */
struct as_edge_conf as_conf_management(const struct as_option_set *o)
{
    struct as_edge_conf c = as_conf_edge(o);

    c.interface = AS_INTERFACE_MANAGEMENT;
    c.heartbeat = as_option_ns(o, AS_OPT_WORKER_HEARTBEAT);
    c.max_connections = (uint32_t)as_option_u64(o, AS_OPT_MAX_MANAGEMENT_CONNECTIONS);
    c.max_requests = (uint32_t)as_option_u64(o, AS_OPT_MAX_REQUESTS);
    c.max_message = c.max_http_body = c.max_inflated =
        as_option_u64(o, AS_OPT_MAX_MANAGEMENT_BYTES);
    c.message_option = c.body_option = c.inflated_option = "--max-management-bytes";
    return c;
}

/* The limits are small: operators and their scripts send few and small requests. */
struct as_edge_conf as_conf_control(const struct as_option_set *o)
{
    struct as_edge_conf c = as_conf_edge(o);

    c.interface = AS_INTERFACE_CONTROL;
    c.max_connections = c.max_requests = (uint32_t)as_option_u64(o, AS_OPT_MAX_CONTROL_CONNECTIONS);
    c.max_message = c.max_http_body = c.max_inflated = as_option_u64(o, AS_OPT_MAX_SPEC_BYTES);
    c.message_option = c.body_option = c.inflated_option = "--max-spec-bytes";
    c.max_pickle = as_option_u64(o, AS_OPT_MAX_PICKLE_BYTES);
    c.pickle_option = "--max-pickle-bytes";
    return c;
}

struct as_edge_conf as_conf_status(const struct as_option_set *o)
{
    struct as_edge_conf c = as_conf_edge(o);

    c.interface = AS_INTERFACE_STATUS;
    c.one_request = true;
    c.compress = AS_COMPRESS_OFF;
    c.h1.max_line = c.h1.max_header_bytes = c.h2.max_header_list = STATUS_HEAD;
    c.h1.max_headers = c.h2.max_headers = STATUS_HEADERS;
    c.max_connections = c.max_requests = c.max_lingering = STATUS_CONNECTIONS;
    c.header_timeout = c.idle_timeout = c.body_timeout = c.send_timeout = STATUS_TIMEOUT;
    return c;
}

struct as_edge_budgets as_conf_status_budgets(void)
{
    return (struct as_edge_budgets){
        .requests = {.limit = STATUS_BYTES, .share = 100},
        .answers = {.limit = STATUS_BYTES, .share = 100},
    };
}

struct as_edge_budgets as_conf_budgets(const struct as_option_set *o)
{
    uint32_t share = (uint32_t)as_option_u64(o, AS_OPT_CONNECTION_SHARE);

    return (struct as_edge_budgets){
        .requests = {.limit = as_option_u64(o, AS_OPT_MAX_INFLIGHT_BYTES), .share = share},
        .answers = {.limit = as_option_u64(o, AS_OPT_MAX_ANSWER_BYTES), .share = share},
    };
}

struct as_shm_conf as_conf_shm(const struct as_option_set *o)
{
    return (struct as_shm_conf){
        .max_regions = (uint32_t)as_option_u64(o, AS_OPT_MAX_SHM_REGIONS),
        .max_bytes = as_option_u64(o, AS_OPT_MAX_SHM_BYTES),
        .prefix = as_option_str(o, AS_OPT_CLIENT_SHM_PREFIX),
    };
}

/* API keys themselves are in the requests that a process has in memory. */
static bool has_secrets(const struct as_option_set *o)
{
    return as_option_item(o, AS_OPT_TLS_CERT, 0) || as_option_str(o, AS_OPT_API_KEYS)[0] ||
           as_option_str(o, AS_OPT_MANAGEMENT_TOKEN_FILE)[0] ||
           as_option_str(o, AS_OPT_CONTROL_TOKEN_FILE)[0];
}

void as_conf_limit_core_dumps(const struct as_option_set *o)
{
    enum { AUTO, ON, OFF };
    uint64_t when = as_option_u64(o, AS_OPT_CORE_DUMPS);

    if (when == OFF || (when == AUTO && has_secrets(o)))
        as_core_dump_forbid();
}
