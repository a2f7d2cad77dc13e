/* conf/option/option.h — the table of all command-line options.
 *
 * The parser, the validation, --help, docs/guide/options.md and the command lines of child
 * processes are made from it. Values are numbers in base units (bytes, nanoseconds, counts), or
 * strings that point into the parsed argv, which must outlive the set. One thread.
 */
#ifndef AS_CONF_OPTION_H
#define AS_CONF_OPTION_H

#include "base/buf.h"
#include "base/err.h"
#include "conf/option/option_keys.h"
#include "conf/option/option_listening.h"
#include "conf/option/option_simulation.h"

/* Which commands accept an option. --help shows the rows with AS_SCOPE_BASIC, --help-all all. */
#define AS_SCOPE_RUN        0x1u
#define AS_SCOPE_DISPATCHER 0x2u
#define AS_SCOPE_STATUS     0x4u
#define AS_SCOPE_HIDDEN     0x8u /* only between our own processes: not documented */
#define AS_SCOPE_BASIC      0x10u
#define AS_SCOPE_INFER      0x20u
#define AS_SCOPE_BENCH      0x40u
#define AS_SCOPE_CONTROLLER 0x80u
#define AS_SCOPE_CHECK      0x1000u
#define AS_SCOPE_BUILD      0x2000u
#define AS_SCOPE_WORKERS    0x10000u
#define AS_SCOPE_CHANGE     0x20000u /* commands that change something by the control API … */
#define AS_SCOPE_DEPLOY     0x40000u
#define AS_SCOPE_LOGS       0x80000u
#define AS_SCOPE_SHUTDOWN   0x100000u
#define AS_SCOPE_DOCTOR     0x200000u
#define AS_SCOPE_UPGRADE    0x800000u
#define AS_SCOPE_READ       0x1000000u /* … and those that only read from it */
#define AS_SCOPE_START      0x400000u
#define AS_SCOPE_SCALE      0x2000000u
#define AS_SCOPE_HISTORY    0x8000000u
#define AS_SCOPE_SIMULATE   0x10000000u
#define AS_SCOPE_KEYS       0x4000u

/* Combinations. R: the commands that start a server; C: the controller; D: the dispatcher; B:
 * basic.
 */
#define AS_SCOPE_R   (AS_SCOPE_RUN | AS_SCOPE_START)
#define AS_SCOPE_RC  (AS_SCOPE_R | AS_SCOPE_CONTROLLER)
#define AS_SCOPE_RCB (AS_SCOPE_RC | AS_SCOPE_BASIC)
#define AS_SCOPE_RD  (AS_SCOPE_R | AS_SCOPE_DISPATCHER)
#define AS_SCOPE_RB  (AS_SCOPE_R | AS_SCOPE_BASIC)
#define AS_SCOPE_RDB (AS_SCOPE_RD | AS_SCOPE_BASIC)
#define AS_SCOPE_SPEC                                                                              \
    (AS_SCOPE_CHECK | AS_SCOPE_BUILD | AS_SCOPE_SIMULATE |                                         \
     AS_SCOPE_RC) /* commands that read a deployment file */
/* REMOTE: commands that use a server's control API, on this machine or another one. FIND: commands
 * that find a server on this machine. */
#define AS_SCOPE_REMOTE                                                                            \
    (AS_SCOPE_STATUS | AS_SCOPE_READ | AS_SCOPE_CHANGE | AS_SCOPE_SCALE | AS_SCOPE_DEPLOY |        \
     AS_SCOPE_HISTORY)
#define AS_SCOPE_FIND                                                                              \
    (AS_SCOPE_REMOTE | AS_SCOPE_WORKERS | AS_SCOPE_LOGS | AS_SCOPE_SHUTDOWN | AS_SCOPE_DOCTOR |    \
     AS_SCOPE_UPGRADE)
#define AS_SCOPE_I  AS_SCOPE_INFER
#define AS_SCOPE_IB (AS_SCOPE_INFER | AS_SCOPE_BENCH)
#define AS_SCOPE_CB (AS_SCOPE_IB | AS_SCOPE_BASIC)    /* calls: infer and bench */
#define AS_SCOPE_LB (AS_SCOPE_BENCH | AS_SCOPE_BASIC) /* load: bench only */
#define AS_SCOPE_SB (AS_SCOPE_SIMULATE | AS_SCOPE_BASIC)
#define AS_SCOPE_KB (AS_SCOPE_KEYS | AS_SCOPE_BASIC)
/* of queues: the server and its simulation */
#define AS_SCOPE_Q  (AS_SCOPE_RD | AS_SCOPE_SIMULATE)
#define AS_SCOPE_QB (AS_SCOPE_Q | AS_SCOPE_BASIC)

enum as_option_type {
    AS_OPTION_BOOL,     /* --key, --no-key, --key=on|off */
    AS_OPTION_INT,      /* decimal, may be negative */
    AS_OPTION_SIZE,     /* bytes; suffix K, M, G, T (1024) */
    AS_OPTION_DURATION, /* ns; suffix ns, us, ms, s, m, h; a bare number is seconds */
    AS_OPTION_STRING,   /* min and max are lengths */
    AS_OPTION_ENUM,     /* the value is the index in `words` */
    AS_OPTION_LIST      /* a STRING that may be repeated; read by as_option_item */
};

/* id, key, type, min, max, default as it is typed, words, scope, group, one line of documentation.
 * words: for an enum "a|b|c"; for a number a word that means 0 ("off") or ""; for a string the
 * placeholder of its value in --help ("ADDRESS"). */
#define AS_OPTION_TABLE(X)                                                                         \
    AS_OPTION_LISTENING_TABLE(X)                                                                   \
    AS_OPTION_KEYS_TABLE(X)                                                                        \
    X(STATE_DIR, "state-dir", STRING, 0, 4095, "", "DIR",                                          \
      START | AS_SCOPE_CONTROLLER | AS_SCOPE_BASIC | AS_SCOPE_DOCTOR, "Deployment",                \
      "state of deployments; default $XDG_STATE_HOME/anyserve, for root /var/lib/anyserve")        \
    X(STATE_GENERATIONS, "state-generations", INT, 2, 100000, "100", "", RC, "Deployment",         \
      "changes of the deployment to keep; more are kept when a rollback needs them")               \
    X(MAX_CODE_BYTES, "max-code-bytes", SIZE, 0, (int64_t)1 << 40, "512M", "", RC, "Deployment",   \
      "largest code of an application that can be copied when it is deployed")                     \
    X(MAX_CODE_FILES, "max-code-files", INT, 0, 10000000, "20000", "", RC, "Deployment",           \
      "most files and folders of that code")                                                       \
    X(MAX_PICKLE_BYTES, "max-pickle-bytes", SIZE, 1024, 2147483647, "256M", "", RC, "Deployment",  \
      "largest pickled code that `serve.run` may upload")                                          \
    X(MAX_UNUSED_PICKLES, "max-unused-pickles", INT, 1, 10000, "16", "", RC, "Deployment",         \
      "uploads that no deployment uses yet; a further one removes the oldest")                     \
    X(UPGRADE_CHECK_TIMEOUT, "upgrade-check-timeout", DURATION, 100 * AS_MS, 3600 * AS_SEC, "30s", \
      "", R, "Deployment", "time in which the new program must say whether it can take over")      \
    X(END_WITH, "end-with", INT, 0, 2147483647, "off", "off", R, "Deployment",                     \
      "end when the process that has started the server, with this pid, has ended")                \
    X(DETACH, "detach", BOOL, 0, 1, "off", "", START | AS_SCOPE_BASIC, "Deployment",               \
      "return when the server is ready; it continues in the background")                           \
    X(LOG_FILE_SIZE, "log-file-size", SIZE, 65536, (int64_t)256 << 20, "16M", "", START,           \
      "Deployment", "size at which a background server starts a new server.log")                   \
    X(LOG_FILES, "log-files", INT, 0, 1000, "4", "", START, "Deployment",                          \
      "older log files to keep: server.log.1 is the newest")                                       \
    X(UPDATE_FAILURES, "update-failures", INT, 1, 1000, "3", "", RC, "Deployment",                 \
      "failed starts of one replica in a row that make an update fail")                            \
    X(UPDATE_MIN_READY, "update-min-ready", DURATION, 0, 3600 * AS_SEC, "1s", "", RC,              \
      "Deployment", "time that a replica of a new version must be ready before it counts")         \
    X(UPDATE_ROLLBACK, "update-rollback", BOOL, 0, 1, "on", "", RC, "Deployment",                  \
      "roll back an update that fails: serve again what was healthy before")                       \
    X(WORKERS, "workers", INT, 1, 1024, "1", "", RUN | AS_SCOPE_CONTROLLER | AS_SCOPE_BASIC,       \
      "Workers", "replicas per deployment; if not given, the number in the code, or 1")            \
    X(PYTHON, "python", STRING, 0, 4095, "", "PATH",                                               \
      RCB | AS_SCOPE_BUILD | AS_SCOPE_SIMULATE | AS_SCOPE_DOCTOR, "Workers",                       \
      "interpreter; default: this script's, that of $VIRTUAL_ENV, or python3")                     \
    X(RELOAD, "reload", BOOL, 0, 1, "off", "", RUN | AS_SCOPE_CONTROLLER | AS_SCOPE_BASIC,         \
      "Workers", "replace the replicas when a file of the application changes")                    \
    X(AS_RAY, "as-ray", BOOL, 0, 1, "off", "", RUN, "Workers",                                     \
      "in the application, `import ray` means AnyServe: docs/guide/as-ray.md")                     \
    X(DEBUG, "debug", BOOL, 0, 1, "off", "", RUN | AS_SCOPE_DISPATCHER | AS_SCOPE_BASIC,           \
      "Workers", "one replica that uses this terminal, for breakpoint(); without timeouts")        \
    X(DEBUG_ERRORS, "debug-errors", BOOL, 0, 1, "off", "", RDB | AS_SCOPE_CONTROLLER, "Workers",   \
      "send tracebacks of handlers to clients")                                                    \
    X(WORKER_SCHEDULING, "worker-scheduling", ENUM, 0, 0, "batch", "batch|normal", RC, "Workers",  \
      "batch: a worker that wakes up does not preempt the dispatcher")                             \
    X(START_TIMEOUT, "start-timeout", DURATION, AS_MS, 86400 * AS_SEC, "120s", "", RCB, "Workers", \
      "time for a worker to become ready, and for importing code")                                 \
    X(MAX_STARTING, "max-starting", INT, 0, 1024, "0", "", RC, "Workers",                          \
      "workers that start at the same time; 0: two for each CPU that the server may use")          \
    X(LOAD_INTERVAL, "load-interval", DURATION, AS_MS, 60 * AS_SEC, "100ms", "",                   \
      RC | AS_SCOPE_SIMULATE, "Workers",                                                           \
      "least time between two counts of a deployment's requests, by which its replicas are "       \
      "scaled; the first request of one without replicas is counted at once")                      \
    X(SCALING_TIMEOUT, "scaling-timeout", DURATION, AS_MS, 60 * AS_SEC, "1s", "", RC, "Workers",   \
      "time that an autoscaling policy of the program's has for a decision; without one the "      \
      "number of replicas stays")                                                                  \
    X(SCALING_INTERVAL, "scaling-interval", DURATION, AS_MS, 3600 * AS_SEC, "1s", "", RC,          \
      "Workers",                                                                                   \
      "time between two questions to an autoscaling policy of the program's while requests and "   \
      "replicas stay the same; it is asked at once when they change")                              \
    X(WARM_SPARES, "warm-spares", INT, 0, 64, "0", "", RC, "Workers",                              \
      "processes of each deployment that have loaded its code and wait to replace a dead replica") \
    X(STOP_TIMEOUT, "stop-timeout", DURATION, 0, 86400 * AS_SEC, "10s", "", RCB, "Workers",        \
      "time from SIGTERM to SIGKILL when a worker is stopped")                                     \
    X(MAX_START_FAILURES, "max-start-failures", INT, 0, 1000000, "5", "off", RC, "Workers",        \
      "failed starts in a row after which a replica is not started for restart-backoff-max; off: " \
      "never")                                                                                     \
    X(RESTART_BACKOFF, "restart-backoff", DURATION, AS_MS, 3600 * AS_SEC, "100ms", "", RC,         \
      "Workers", "first delay before a failed worker is started again")                            \
    X(RESTART_BACKOFF_MAX, "restart-backoff-max", DURATION, AS_MS, 3600 * AS_SEC, "30s", "", RC,   \
      "Workers", "longest delay before a failed worker is started again")                          \
    X(RESTART_HEALTHY_AFTER, "restart-healthy-after", DURATION, 0, 86400 * AS_SEC, "10s", "", RC,  \
      "Workers", "earlier failures of a replica are forgotten after it was ready for this time")   \
    X(HANDSHAKE_TIMEOUT, "handshake-timeout", DURATION, AS_MS, 3600 * AS_SEC, "5s", "", RD,        \
      "Workers", "time in which a worker that has connected must send HELLO and register")         \
    X(PING_INTERVAL, "ping-interval", DURATION, 10 * AS_MS, 3600 * AS_SEC, "5s", "", RD,           \
      "Workers", "time between two pings to a worker")                                             \
    X(PING_TIMEOUT, "ping-timeout", DURATION, 10 * AS_MS, 3600 * AS_SEC, "10s", "", RD, "Workers", \
      "a worker that does not answer a ping in this time is terminated")                           \
    X(HEALTH_CHECK_PERIOD, "health-check-period", DURATION, 0, 86400 * AS_SEC, "10s", "off", RD,   \
      "Workers", "time between two health checks of a worker")                                     \
    X(HEALTH_CHECK_TIMEOUT, "health-check-timeout", DURATION, AS_MS, 86400 * AS_SEC, "30s", "",    \
      RD, "Workers", "a health check that takes longer has failed")                                \
    X(HEALTH_CHECK_FAILURES, "health-check-failures", INT, 1, 1000, "3", "", RD, "Workers",        \
      "failed health checks in a row after which a worker is terminated")                          \
    X(EXECUTION_TIMEOUT, "execution-timeout", DURATION, 0, 86400 * AS_SEC, "off", "off", RDB,      \
      "Workers", "a worker whose handler runs for longer is killed")                               \
    X(WORKER_GRACE, "worker-grace", DURATION, 0, 86400 * AS_SEC, "60s", "off", RD, "Workers",      \
      "a model that only registered workers serve is forgotten when they are gone for this time")  \
    X(WORKER_HEARTBEAT, "worker-heartbeat", DURATION, 0, 3600 * AS_SEC, "5s", "off", RD,           \
      "Workers", "how often a registered worker is asked to send a heartbeat")                     \
    X(WORKER_HEARTBEAT_TIMEOUT, "worker-heartbeat-timeout", DURATION, 0, 86400 * AS_SEC, "15s",    \
      "off", RD, "Workers",                                                                        \
      "a registered worker without a heartbeat for this time gets no requests")                    \
    X(WORKER_SOCKET_DIR, "worker-socket-dir", STRING, 0, 4095, "", "DIR", RD, "Workers",           \
      "folder that must contain the sockets of registered workers; default workers/ in the "       \
      "runtime folder")                                                                            \
    X(SIMPLE_IDLE_TIMEOUT, "simple-idle-timeout", DURATION, 0, 86400 * AS_SEC, "60s", "off", RD,   \
      "Workers", "a connection to a registered worker that is unused for this time is closed")     \
    X(SIMPLE_CONNECT_TIMEOUT, "simple-connect-timeout", DURATION, AS_MS, 3600 * AS_SEC, "1s", "",  \
      RD, "Workers", "time in which a registered worker must accept a connection")                 \
    X(ROUTER, "router", ENUM, 0, 0, "late_binding",                                                \
      "late_binding|least_ongoing|pow_2|round_robin|consistent_hash|session", QB, "Queues",        \
      "how a replica is chosen for a request")                                                     \
    X(ROUTER_PLUGIN, "router-plugin", STRING, 0, 4095, "", "DEPLOYMENT=FILE", RD, "Queues",        \
      "routers in C: shared objects, separated by commas, that choose replicas for a deployment")  \
    X(ROUTER_TIMEOUT, "router-timeout", DURATION, 100 * AS_US, 60 * AS_SEC, "2ms", "", RD,         \
      "Queues",                                                                                    \
      "time that a router of the user's own has to choose; then the server does, up to 1 ms "      \
      "later: the loop's timers count milliseconds")                                               \
    X(MAX_QUEUED_REQUESTS, "max-queued-requests", INT, -1, 10000000, "1024", "", QB, "Queues",     \
      "most queued requests, unless a deployment sets it; -1: bytes only")                         \
    X(TENANT_HEADER, "tenant-header", STRING, 0, 64, "", "NAME", RD, "Queues",                     \
      "header field or metadata with the tenant of a request, for deployments with fairness; "     \
      "only from a proxy that removes the client's own")                                           \
    X(COST_HEADER, "cost-header", STRING, 0, 64, "", "NAME", RD, "Queues",                         \
      "field with what a request costs its tenant, for `fairness_cost: header`; as above")         \
    X(REQUEST_TIMEOUT, "request-timeout", DURATION, 0, 86400 * AS_SEC, "off", "off", QB, "Queues", \
      "deadline of requests that have none")                                                       \
    X(MAX_PREFETCH, "max-prefetch", INT, 0, 65536, "256", "off", Q, "Queues",                      \
      "requests that may wait inside one worker")                                                  \
    X(PREFETCH_WORK, "prefetch-work", DURATION, 0, AS_SEC, "100us", "off", Q, "Queues",            \
      "a worker holds as many waiting requests as it serves in this time")                         \
    X(STREAM_CREDIT, "stream-credit", INT, 1, 65536, "256", "", RD, "Queues",                      \
      "responses of one stream that a worker may send before its client reads them")               \
    X(STREAM_CREDIT_BYTES, "stream-credit-bytes", SIZE, 1, 1 << 30, "256K", "", RD, "Queues",      \
      "bytes of those responses; the last response may exceed it")                                 \
    X(CALL_CREDIT, "call-credit", INT, 1, 65536, "1024", "", RD, "Queues",                         \
      "calls of handles that one request may have open at once; more wait in its process")         \
    X(CALL_CREDIT_BYTES, "call-credit-bytes", SIZE, 1, 1 << 30, "64M", "", RD, "Queues",           \
      "bytes of those calls; the last call may exceed it")                                         \
    X(MAX_REPORT_BYTES, "max-report-bytes", SIZE, 0, 256 << 10, "256K", "", RD, "Queues",          \
      "size of one report of a replica (its metrics, its models); a larger one is ignored")        \
    X(MAX_MODELS_PER_REPLICA, "max-models-per-replica", INT, 1, 65536, "1024", "", RD, "Queues",   \
      "multiplexed models by which a replica is chosen; of a longer report of models the last "    \
      "ones")                                                                                      \
    X(MAX_SCALING_STATS, "max-scaling-stats", INT, 1, 1024, "64", "", RD, "Queues",                \
      "values that record_autoscaling_stats of one replica may have; with more all are ignored")   \
    X(MAX_SCALING_STATS_BYTES, "max-scaling-stats-bytes", SIZE, 2, 32 << 10, "4K", "", RD,         \
      "Queues", "size of these values as JSON; if it is larger, they are ignored")                 \
    X(STREAM_INPUTS, "stream-inputs", INT, 1, 65536, "16", "", RC, "Queues",                       \
      "messages of one stream that may wait in a worker for a handler that takes a stream")        \
    X(STREAM_INPUT_BYTES, "stream-input-bytes", SIZE, 1, 1 << 30, "1M", "", RC, "Queues",          \
      "bytes of those messages; the last message may exceed it")                                   \
    X(STREAM_REQUESTS, "stream-requests", INT, 1, 65536, "64", "", RD, "Queues",                   \
      "requests in flight on one ModelStreamInfer; more wait; a request that takes a stream does " \
      "not count")                                                                                 \
    X(RESERVE_TIME, "reserve-time", DURATION, AS_MS, 3600 * AS_SEC, "30s", "", RD, "Queues",       \
      "time for which a slot that a handle's choose_replica has reserved may stay unused; then "   \
      "others get it")                                                                             \
    X(RETRY_ATTEMPTS, "retry-attempts", INT, 1, 255, "3", "", RD, "Failures",                      \
      "executions of an idempotent request whose workers die; workers killed from outside do not " \
      "count")                                                                                     \
    X(RETRY_BUDGET, "retry-budget", INT, 0, 100, "10", "", RD, "Failures",                         \
      "percent of a deployment's requests that may be retried at once after their links broke")    \
    X(RETRY_BUDGET_MIN, "retry-budget-min", INT, 0, 1000000, "3", "", RD, "Failures",              \
      "requests that may always be retried in this way")                                           \
    X(VERDICT_WAIT, "verdict-wait", DURATION, 0, 60 * AS_SEC, "50ms", "off", RD, "Failures",       \
      "time that a request whose worker died waits to learn why, before it is retried")            \
    X(VERDICT_PATIENCE, "verdict-patience", DURATION, 0, 600 * AS_SEC, "2s", "off", RD,            \
      "Failures", "the same, for a request that has lost a worker before")                         \
    X(QUARANTINE, "quarantine", DURATION, AS_MS, 86400 * AS_SEC, "60s", "", RD, "Failures",        \
      "time for which a request is refused after it ended two workers, the second one alone")      \
    X(MAX_SUSPECTS, "max-suspects", INT, 0, 65536, "256", "off", RD, "Failures",                   \
      "requests of a deployment that are remembered for having ended a worker; off: none")         \
    X(TRIAL_TIME, "trial-time", DURATION, AS_MS, 600 * AS_SEC, "2s", "", RD, "Failures",           \
      "longest time that a worker gets no new requests while a suspect waits to run there alone; " \
      "then the suspect runs alone for as long, or for twice the time that such a request had "    \
      "run when a worker ended")                                                                   \
    X(SUSPECT_WAIT, "suspect-wait", DURATION, AS_MS, 3600 * AS_SEC, "30s", "", RD, "Failures",     \
      "a suspect that waits longer for a worker of its own is refused")                            \
    X(BREAKER_FAILURES, "breaker-failures", INT, 0, 1000000, "5", "off", Q, "Failures",            \
      "failures in a row, while other replicas have few, after which a replica is ejected")        \
    X(OUTLIER_FACTOR, "outlier-factor", INT, 0, 1000, "3", "off", Q, "Failures",                   \
      "a replica of which most requests take so many times the others' median is ejected, too")    \
    X(OUTLIER_LEAST, "outlier-least", DURATION, 0, 3600 * AS_SEC, "5ms", "off", Q, "Failures",     \
      "a replica whose median time is below this is not ejected for it")                           \
    X(BREAKER_OPEN, "breaker-open", DURATION, AS_MS, 3600 * AS_SEC, "1s", "", Q, "Failures",       \
      "time of a replica's first ejection; each one in a row is twice as long")                    \
    X(BREAKER_OPEN_MAX, "breaker-open-max", DURATION, AS_MS, 86400 * AS_SEC, "30s", "", Q,         \
      "Failures", "longest time of an ejection")                                                   \
    X(BREAKER_PROBES, "breaker-probes", INT, 1, 1000, "3", "", Q, "Failures",                      \
      "successful requests, one at a time, after which an ejected replica is used again")          \
    X(MAX_EJECTED, "max-ejected", INT, 0, 100, "33", "", Q, "Failures",                            \
      "percent of the replicas that may be ejected at once; always at least one, never the last")  \
    X(HEARTBEAT_TIMEOUT, "heartbeat-timeout", DURATION, 0, 3600 * AS_SEC, "30s", "off",            \
      RD | AS_SCOPE_CONTROLLER, "Failures",                                                        \
      "a dispatcher or controller whose event loop is stuck for this time is replaced")            \
    X(CORE_DUMPS, "core-dumps", ENUM, 0, 0, "auto", "auto|on|off", RD | AS_SCOPE_CONTROLLER,       \
      "Failures",                                                                                  \
      "core files of the server's own processes; auto: not if they hold private keys or tokens")   \
    X(CONFIRM_TIMEOUT, "confirm-timeout", DURATION, AS_MS, 3600 * AS_SEC, "5s", "", RC,            \
      "Failures",                                                                                  \
      "longest time that the answer to a deploy waits until the dispatcher knows what was "        \
      "deployed")                                                                                  \
    X(MAX_INFLIGHT_BYTES, "max-inflight-bytes", SIZE, 0, (int64_t)1 << 50, "0", "", RDB, "Limits", \
      "bytes of all requests in memory; 0: a quarter of the memory limit")                         \
    X(MAX_ANSWER_BYTES, "max-answer-bytes", SIZE, 0, (int64_t)1 << 50, "0", "", RD, "Limits",      \
      "bytes of all responses in memory; 0: the same as max-inflight-bytes")                       \
    X(CONNECTION_SHARE, "connection-share", INT, 1, 100, "50", "", RD, "Limits",                   \
      "percent of max-inflight-bytes and of max-answer-bytes that a single connection may use; "   \
      "less while other connections use them")                                                     \
    X(MAX_MESSAGE_BYTES, "max-message-bytes", SIZE, 1, 2147483647, "2147483647", "",               \
      RDB | AS_SCOPE_IB, "Limits", "largest gRPC message")                                         \
    X(MAX_HTTP_BODY_BYTES, "max-http-body-bytes", SIZE, 1, 2147483647, "64M", "", RDB, "Limits",   \
      "largest body of a plain HTTP request, before it is decompressed")                           \
    X(INGRESS_BUFFER, "ingress-buffer", SIZE, 0, 65536, "64K", "", RD, "Limits",                   \
      "body of a request to an application that is collected before it waits for a replica; what " \
      "a larger one has more is passed on as it comes")                                            \
    X(MAX_INFLATED_BYTES, "max-inflated-bytes", SIZE, 1, 2147483647, "64M", "", RD, "Limits",      \
      "largest message or body after decompression")                                               \
    X(MAX_CONNECTIONS, "max-connections", INT, 0, 1000000, "0", "", RDB, "Limits",                 \
      "client connections; 0: 16384 or what the descriptor limit allows")                          \
    X(MAX_STREAMS, "max-streams", INT, 1, 1000000, "1024", "", RD, "Limits",                       \
      "concurrent streams of one HTTP/2 connection")                                               \
    X(MAX_HEADER_BYTES, "max-header-bytes", SIZE, 1024, 1 << 20, "16K", "", RD, "Limits",          \
      "bytes of all header fields of one request together")                                        \
    X(MAX_HEADERS, "max-headers", INT, 16, 10000, "100", "", RD, "Limits",                         \
      "header fields of one request")                                                              \
    X(MAX_REQUEST_LINE, "max-request-line", SIZE, 128, 1 << 20, "8K", "", RD, "Limits",            \
      "bytes of the request line of HTTP/1.1")                                                     \
    X(MAX_CHUNK_EXTENSION, "max-chunk-extension", SIZE, 0, 1 << 16, "256", "", RD, "Limits",       \
      "bytes of the extensions of one HTTP/1.1 chunk")                                             \
    X(STREAM_WINDOW, "stream-window", SIZE, 65535, 2147483647, "1M", "", RD, "Limits",             \
      "HTTP/2 receive window of a stream")                                                         \
    X(CONNECTION_WINDOW, "connection-window", SIZE, 65535, 2147483647, "16M", "", RD, "Limits",    \
      "HTTP/2 receive window of a connection")                                                     \
    X(MAX_REQUESTS, "max-requests", INT, 0, 100000000, "0", "", RD, "Limits",                      \
      "requests open at once; 0: one for each 16K of max-inflight-bytes")                          \
    X(MAX_MANAGEMENT_CONNECTIONS, "max-management-connections", INT, 1, 100000, "256", "", RD,     \
      "Limits", "connections of workers that register, over TCP and unix sockets")                 \
    X(MAX_MANAGEMENT_BYTES, "max-management-bytes", SIZE, 1024, 16 << 20, "256K", "", RD,          \
      "Limits", "largest message or body of a registration")                                       \
    X(MAX_CONTROL_CONNECTIONS, "max-control-connections", INT, 1, 10000, "32", "", RC, "Limits",   \
      "connections to the control API; also its requests at once")                                 \
    X(MAX_EVENT_BYTES, "max-event-bytes", SIZE, 1024, 1 << 30, "1M", "", RC, "Limits",             \
      "bytes of events that may wait for one client of the event stream; with more it is "         \
      "disconnected")                                                                              \
    X(EVENT_HEARTBEAT, "event-heartbeat", DURATION, AS_MS, 3600 * AS_SEC, "15s", "", RC, "Limits", \
      "how often a client of the event stream gets a heartbeat when nothing changes")              \
    X(MAX_SPEC_BYTES, "max-spec-bytes", SIZE, 1, 64 << 20, "1M", "", SPEC, "Deployment file",      \
      "largest deployment file")                                                                   \
    X(MAX_SPEC_DEPTH, "max-spec-depth", INT, 8, 1000, "64", "", SPEC, "Deployment file",           \
      "nesting depth of mappings and lists")                                                       \
    X(MAX_APPLICATIONS, "max-applications", INT, 1, 10000, "100", "", SPEC, "Deployment file",     \
      "applications of a file")                                                                    \
    X(MAX_DEPLOYMENTS, "max-deployments", INT, 1, 10000, "1000", "", SPEC, "Deployment file",      \
      "deployments of a file, all applications together")                                          \
    X(MAX_SPEC_ERRORS, "max-spec-errors", INT, 1, 10000, "20", "", SPEC, "Deployment file",        \
      "errors of a file that are reported; the others are counted")                                \
    X(HEADER_TIMEOUT, "header-timeout", DURATION, AS_MS, 3600 * AS_SEC, "10s", "", RD, "Clients",  \
      "time in which a connection's preface and each header block must be complete")               \
    X(IDLE_TIMEOUT, "idle-timeout", DURATION, 0, 86400 * AS_SEC, "10m", "off", RD, "Clients",      \
      "a connection without a request for this time is closed")                                    \
    X(BODY_TIMEOUT, "body-timeout", DURATION, 0, 86400 * AS_SEC, "10s", "off", RD, "Clients",      \
      "time in which at least min-progress bytes of a request must arrive")                        \
    X(SEND_TIMEOUT, "send-timeout", DURATION, 0, 86400 * AS_SEC, "30s", "off", RD, "Clients",      \
      "time in which a client must read at least min-progress bytes of its responses")             \
    X(MIN_PROGRESS, "min-progress", SIZE, 1, 1 << 30, "1K", "", RD, "Clients",                     \
      "bytes that must move within body-timeout and send-timeout")                                 \
    X(LINGER_TIMEOUT, "linger-timeout", DURATION, 0, 60 * AS_SEC, "500ms", "off", RD, "Clients",   \
      "a connection that the server ends stays open for this time, so that its client can read "   \
      "the reason")                                                                                \
    X(MAX_LINGERING, "max-lingering", INT, 1, 100000, "64", "", RD, "Clients",                     \
      "connections that stay open in this way; a new one replaces the oldest")                     \
    X(KEEPALIVE_TIME, "keepalive-time", DURATION, 0, 86400 * AS_SEC, "60s", "off", RD, "Clients",  \
      "a connection that is silent for this time is sent a ping")                                  \
    X(KEEPALIVE_TIMEOUT, "keepalive-timeout", DURATION, AS_MS, 3600 * AS_SEC, "20s", "", RD,       \
      "Clients", "a connection that is still silent this time after the ping is closed")           \
    X(WEBSOCKET_MAX_MESSAGE, "websocket-max-message", SIZE, 1, 1 << 30, "16M", "", RD, "Clients",  \
      "bytes of one message of a websocket from a client; a larger one ends it with code 1009")    \
    X(WEBSOCKET_MAX_FRAGMENTS, "websocket-max-fragments", INT, 1, 1 << 30, "65536", "", RD,        \
      "Clients", "frames of one message of a websocket; more end it with code 1009")               \
    X(WEBSOCKET_PING_INTERVAL, "websocket-ping-interval", DURATION, 0, 86400 * AS_SEC, "20s",      \
      "off", RD, "Clients", "a client of a websocket that is silent for this time is sent a ping") \
    X(WEBSOCKET_PING_TIMEOUT, "websocket-ping-timeout", DURATION, AS_MS, 3600 * AS_SEC, "20s", "", \
      RD, "Clients", "time in which it must answer a ping or a close")                             \
    X(RESPONSE_COMPRESSION, "response-compression", ENUM, 0, 0, "match", "off|match|always", RD,   \
      "Clients", "responses to compress; match: responses to compressed requests")                 \
    X(GRPC_REFLECTION, "grpc-reflection", BOOL, 0, 1, "on", "", RD, "Clients",                     \
      "answer gRPC reflection: clients may ask which methods and messages there are")              \
    X(MIN_COMPRESS_BYTES, "min-compress-bytes", SIZE, 0, 2147483647, "1K", "", RD, "Clients",      \
      "smaller responses are not compressed")                                                      \
    X(MIN_PING_INTERVAL, "min-ping-interval", DURATION, 0, 86400 * AS_SEC, "5m", "off", RD,        \
      "Abuse",                                                                                     \
      "least time between two pings of a client; one more is allowed after each response")         \
    X(MIN_IDLE_PING_INTERVAL, "min-idle-ping-interval", DURATION, 0, 86400 * AS_SEC, "2h", "off",  \
      RD, "Abuse", "the same while no call is open")                                               \
    X(MAX_PING_STRIKES, "max-ping-strikes", INT, 0, 1000000, "2", "off", RD, "Abuse",              \
      "pings that may come too early; one more closes the connection")                             \
    X(RESET_BURST, "reset-burst", INT, 0, 1000000, "1024", "off", RD, "Abuse",                     \
      "streams that a client may cancel at once; each call that ends normally restores one")       \
    X(RESET_RATE, "reset-rate", INT, 1, 1000000, "100", "", RD, "Abuse",                           \
      "such streams per second")                                                                   \
    X(RESET_PATIENCE, "reset-patience", DURATION, 0, 3600 * AS_SEC, "1s", "off", RD, "Abuse",      \
      "cancelling a stream that was open for this time does not count; off: it always counts")     \
    X(FAULT_BURST, "fault-burst", INT, 0, 1000000, "100", "off", RD, "Abuse",                      \
      "streams that may be reset at once because the client broke a rule of the protocol")         \
    X(FAULT_RATE, "fault-rate", INT, 1, 1000000, "10", "", RD, "Abuse", "such streams per second") \
    X(CONTROL_BURST, "control-burst", INT, 0, 1000000, "256", "off", RD, "Abuse",                  \
      "SETTINGS, PING, PRIORITY and unknown frames that a client may send at once")                \
    X(CONTROL_RATE, "control-rate", INT, 1, 1000000, "100", "", RD, "Abuse",                       \
      "such frames per second")                                                                    \
    X(EMPTY_BURST, "empty-burst", INT, 0, 1000000, "100", "off", RD, "Abuse",                      \
      "frames without data that end no stream and that a client may send at once")                 \
    X(EMPTY_RATE, "empty-rate", INT, 1, 1000000, "10", "", RD, "Abuse", "such frames per second")  \
    X(WINDOW_UPDATE_BURST, "window-update-burst", INT, 0, 1000000, "2048", "off", RD, "Abuse",     \
      "WINDOW_UPDATE frames that a client may send at once; a request restores two, each frame "   \
      "of a response four")                                                                        \
    X(WINDOW_UPDATE_RATE, "window-update-rate", INT, 1, 1000000, "100", "", RD, "Abuse",           \
      "such frames per second")                                                                    \
    X(MAX_CONTINUATIONS, "max-continuations", INT, 0, 1000000, "8", "off", RD, "Abuse",            \
      "CONTINUATION frames of one header block")                                                   \
    X(MAX_TLS_MESSAGES, "max-tls-messages", INT, 0, 1000000, "32", "off", RD, "Abuse",             \
      "messages of TLS itself (KeyUpdate, another handshake) in a row, without data between")      \
    X(MAX_HEADER_BLOCK, "max-header-block", SIZE, 0, 1 << 30, "64K", "off", RD, "Abuse",           \
      "bytes of a header block, as sent or decompressed, that close the connection")               \
    X(ALLOW_CLIENT_CONTROL, "allow-client-control", BOOL, 0, 1, "off", "", RDB, "Extensions",      \
      "let clients load and unload models and set the log level")                                  \
    X(ALLOW_ORIGIN, "allow-origin", STRING, 0, 4095, "", "ORIGINS", RD, "Extensions",              \
      "web pages of these sites may do what clients may: https://HOST[:PORT], separated by "       \
      "commas")                                                                                    \
    X(ALLOW_CLIENT_SHM, "allow-client-shm", BOOL, 0, 1, "off", "", RD, "Extensions",               \
      "let clients of this machine pass tensors in POSIX shared memory")                           \
    X(CLIENT_SHM_PREFIX, "client-shm-prefix", STRING, 0, 200, "", "PREFIX", RD, "Extensions",      \
      "clients may only register objects of /dev/shm with this prefix; default: any")              \
    X(MAX_SHM_REGIONS, "max-shm-regions", INT, 1, 100000, "1024", "", RD, "Extensions",            \
      "registered regions of shared memory; each takes a file descriptor")                         \
    X(MAX_SHM_BYTES, "max-shm-bytes", SIZE, 1, (int64_t)1 << 50, "64G", "", RD, "Extensions",      \
      "bytes of all registered regions")                                                           \
    X(DRAIN_TIMEOUT, "drain-timeout", DURATION, 0, 86400 * AS_SEC, "30s", "", RDB, "Server",       \
      "time that requests in flight have to end after SIGTERM")                                    \
    X(SHUTDOWN_DELAY, "shutdown-delay", DURATION, 0, 86400 * AS_SEC, "0s", "", RD, "Server",       \
      "time after SIGTERM in which the server reports that it is not ready, but still serves")     \
    X(GOAWAY_GRACE, "goaway-grace", DURATION, 0, 60 * AS_SEC, "1s", "", RD, "Server",              \
      "time between announcing the shutdown to clients and refusing new streams")                  \
    X(THREADS, "threads", INT, 1, 64, "1", "", RDB, "Server", "event loops of the dispatcher")     \
    X(LOG_LEVEL, "log-level", ENUM, 0, 0, "info", "error|warn|info|debug",                         \
      RDB | AS_SCOPE_CONTROLLER, "Server", "least severe level that is logged to stderr")          \
    X(LOG_KEEP, "log-keep", SIZE, 0, 1 << 30, "256K", "off", RD | AS_SCOPE_CONTROLLER, "Server",   \
      "newest output of each process that is kept for anyserve logs")                              \
    X(MAX_OLD_LOGS, "max-old-logs", INT, 0, 10000, "64", "", R, "Server",                          \
      "replicas that have ended whose output is kept")                                             \
    X(DRY_RUN, "dry-run", BOOL, 0, 1, "off", "", DEPLOY, "Operating",                              \
      "show the changes without making them")                                                      \
    X(RESET, "reset", BOOL, 0, 1, "off", "", SCALE, "Operating",                                   \
      "instead of N: num_replicas of the deployment file")                                         \
    X(WAIT, "wait", BOOL, 0, 1, "on", "", DEPLOY | AS_SCOPE_CHANGE | AS_SCOPE_SCALE, "Operating",  \
      "wait until healthy, gone or failed; --no-wait: until it has started")                       \
    X(WAIT_TIMEOUT, "timeout", DURATION, 0, 86400 * AS_SEC, "10m", "off",                          \
      DEPLOY | AS_SCOPE_CHANGE | AS_SCOPE_SCALE | AS_SCOPE_SHUTDOWN | AS_SCOPE_UPGRADE,            \
      "Operating", "longest time to wait; the operation continues")                                \
    X(ANSWER_TIMEOUT, "answer-timeout", DURATION, AS_MS, 3600 * AS_SEC, "10s", "", FIND,           \
      "Operating", "a process that does not answer in this time is reported as hung")              \
    X(YES, "yes", BOOL, 0, 1, "off", "", SHUTDOWN, "Operating", "-y: do not ask for confirmation") \
    X(WATCH, "watch", BOOL, 0, 1, "off", "", STATUS, "Operating",                                  \
      "-w: follow the status: a table that is updated, or lines of changes")                       \
    X(FOLLOW, "follow", BOOL, 0, 1, "off", "", LOGS, "Operating", "-f: print new output, too")     \
    X(REPLICA, "replica", STRING, 0, 255, "", "NAME", LOGS, "Operating",                           \
      "of this replica or deployment; also supervisor, dispatcher, controller")                    \
    X(LINES, "lines", INT, 0, 1000000000, "100", "", LOGS, "Operating",                            \
      "-n N: number of the newest lines to print")                                                 \
    X(TIMESTAMPS, "timestamps", BOOL, 0, 1, "off", "", LOGS, "Operating",                          \
      "print the time at which each line was read")                                                \
    X(URL, "url", STRING, 0, 300, "", "HOST:PORT", CB, "Call",                                     \
      "server to call; default: the one that --runtime-dir and --port select")                     \
    X(TLS, "tls", BOOL, 0, 1, "off", "", CB, "Call",                                               \
      "speak TLS, as https:// or grpcs:// in --url does")                                          \
    X(CA, "ca", STRING, 0, 4095, "", "FILE", CB, "Call",                                           \
      "authorities (PEM) of the server's certificate, with TLS; default: those of the system")     \
    X(CERT, "cert", STRING, 0, 4095, "", "FILE", IB, "Call",                                       \
      "certificate chain (PEM) of this client, with TLS, for a server that asks for one")          \
    X(KEY, "key", STRING, 0, 4095, "", "FILE", IB, "Call",                                         \
      "its private key (PEM); without: in the file of --cert")                                     \
    X(API_KEY_FILE, "api-key-file", STRING, 0, 4095, "", "FILE", CB, "Call",                       \
      "file with the API key to send, one line; without: $ANYSERVE_API_KEY, if it is set")         \
    X(PROTOCOL, "protocol", ENUM, 0, 0, "grpc", "grpc|http|http-binary", CB, "Call",               \
      "gRPC, or REST over HTTP/1.1 with tensors as JSON or as binary data")                        \
    X(INPUT, "input", LIST, 0, 2147483647, "", "NAME=VALUE", CB, "Call",                           \
      "a tensor: NAME=VALUE, NAME=@FILE, NAME:DTYPE:[SHAPE]=VALUE; once per input; with --stream " \
      "a name that is repeated starts the next request")                                           \
    X(PARAMETER, "parameter", LIST, 0, 65536, "", "NAME=VALUE", CB, "Call",                        \
      "a request parameter; NAME:TYPE=VALUE gives its type")                                       \
    X(METADATA, "metadata", LIST, 0, 65536, "", "KEY=VALUE", CB, "Call",                           \
      "a header of the call; over gRPC keys that end in -bin take any bytes")                      \
    X(OUTPUT, "output", LIST, 0, 65535, "", "NAME", CB, "Call",                                    \
      "an output to request; default: all")                                                        \
    X(MODEL_VERSION, "model-version", STRING, 0, 65535, "", "VERSION", CB, "Call",                 \
      "version of the model; default: the server chooses")                                         \
    X(ID, "id", STRING, 0, 65535, "", "ID", CB, "Call", "request id, which the response repeats")  \
    X(STREAM, "stream", BOOL, 0, 1, "off", "", CB, "Call",                                         \
      "a call with any number of responses, printed as they arrive: ModelStreamInfer, or over "    \
      "http generate_stream")                                                                      \
    X(TIMEOUT, "timeout", DURATION, 0, 86400 * AS_SEC, "30s", "off", CB, "Call",                   \
      "deadline of a call, which is sent to the server")                                           \
    X(CONNECT_TIMEOUT, "connect-timeout", DURATION, AS_MS, 3600 * AS_SEC, "5s", "", IB, "Call",    \
      "time in which a connection must be established")                                            \
    X(CONNECTIONS, "connections", INT, 1, 10000, "1", "", LB, "Load", "connections to the server") \
    X(STREAMS, "streams", INT, 0, 100000, "auto", "auto", LB, "Load",                              \
      "calls in flight on one connection; auto: 1, or 1000 with --rate")                           \
    X(RATE, "rate", INT, 0, 1000000, "off", "off", LB, "Load",                                     \
      "calls per second at fixed times; off: a response starts the next call")                     \
    X(ARRIVALS, "arrivals", ENUM, 0, 0, "constant", "constant|poisson", LB, "Load",                \
      "with --rate: equal intervals, or random as of independent clients")                         \
    X(DURATION, "duration", DURATION, AS_MS, 86400 * AS_SEC, "10s", "", LB, "Load",                \
      "duration of the measurement")                                                               \
    X(REQUESTS, "requests", INT, 0, 1000000000000, "off", "off", LB, "Load",                       \
      "measure exactly this many calls instead of a duration")                                     \
    X(WARMUP, "warmup", DURATION, 0, 3600 * AS_SEC, "1s", "off", LB, "Load",                       \
      "load before the measurement, which is not counted")                                         \
    X(ANY_SIZE, "any-size", INT, 1, 1000000000, "1", "", LB, "Load",                               \
      "size of generated inputs where the model accepts any (-1)")                                 \
    X(POLL, "poll", BOOL, 0, 1, "off", "", LB, "Load",                                             \
      "with --rate: poll until a call is due instead of sleeping, which uses a whole core")        \
    X(SAME_ANSWERS, "same-answers", BOOL, 0, 1, "off", "", LB, "Load",                             \
      "a call fails if its answer is not, byte for byte, that of the first call")                  \
    X(SEED, "seed", INT, 0, 1000000000000, "1", "", BENCH | AS_SCOPE_SIMULATE, "Load",             \
      "seed of what is random: arrivals, service times, generated inputs")                         \
    AS_OPTION_SIMULATION_TABLE(X)                                                                  \
    X(ROWS, "rows", INT, 1, 1000, "auto", "auto", SIMULATE, "Output",                              \
      "most rows of the table over time; auto: 12, with --json and --plot 200")                    \
    X(PLOT, "plot", STRING, 0, 4095, "", "FILE", SB, "Output",                                     \
      "also draw a figure, as SVG or PNG; needs matplotlib in the interpreter of --python")        \
    X(JSON, "json", BOOL, 0, 1, "off", "",                                                         \
      STATUS | AS_SCOPE_WORKERS | AS_SCOPE_DEPLOY | AS_SCOPE_DOCTOR | AS_SCOPE_HISTORY |           \
          AS_SCOPE_SIMULATE | AS_SCOPE_CB,                                                         \
      "Output", "print JSON")                                                                      \
    X(MAX_VALUES, "max-values", INT, 0, 1000000000, "1000", "all", I | AS_SCOPE_BASIC, "Output",   \
      "values of one tensor to print; --json prints all")                                          \
    X(HISTOGRAM, "histogram", BOOL, 0, 1, "off", "", LB, "Output",                                 \
      "print the distribution of latencies; --json always has it")                                 \
    X(COMPARE, "compare", STRING, 0, 4095, "", "FILE", LB, "Output",                               \
      "compare the result with an earlier --json output")                                          \
    X(OUTPUT_FILE, "output-file", STRING, 0, 4095, "", "FILE", BUILD | AS_SCOPE_BASIC, "Output",   \
      "-o FILE: write the deployment file to FILE; default: stdout")                               \
    X(FDS, "fds", STRING, 0, 1024, "", "LIST", DISPATCHER | AS_SCOPE_CONTROLLER | AS_SCOPE_HIDDEN, \
      "Internal", "inherited descriptors")

enum as_option_id {
#define X(id, key, type, min, max, def, words, scope, group, doc) AS_OPT_##id,
    AS_OPTION_TABLE(X)
#undef X
        AS_OPT_COUNT
};

#define AS_OPTION_ARGS_MAX  16u  /* positional arguments of a command */
#define AS_OPTION_ITEMS_MAX 256u /* LIST values of a command, all options together */

struct as_option_value {
    int64_t i;     /* of all types but STRING and LIST */
    const char *s; /* of STRING and ENUM; never NULL */
    bool given;    /* set by the command line or a function below; false: the default */
};

struct as_option_set {
    uint32_t scope; /* one AS_SCOPE_ command bit */
    struct as_option_value v[AS_OPT_COUNT];
    const char *args[AS_OPTION_ARGS_MAX];
    uint32_t n_args;
    /* Set by the caller before it parses: positional arguments behind the first `more_from` become
     * values of the option `more`; NULL: they stay arguments. n_more counts them. */
    const char *more;
    uint32_t more_from, n_more;
    struct {
        enum as_option_id id;
        const char *s;
    } items[AS_OPTION_ITEMS_MAX]; /* in the order of the command line */
    uint32_t n_items;
    bool help, help_all; /* --help or --help-all was given; the values were not checked */
};

void as_option_init(struct as_option_set *o, uint32_t scope); /* all defaults */

/* Parses argv, without the names of program and command. "--" ends the options. 0; AS_EINVALID: a
 * sentence in `err` names the option, the value and its bounds, or the most similar option. */
int as_option_parse(struct as_option_set *o, int argc, char *const *argv, struct as_buf *err);

/* Values. Each function asserts that the option has one of its types. */
uint64_t as_option_u64(const struct as_option_set *o,
                       enum as_option_id id); /* INT >= 0, SIZE, ENUM */
int64_t as_option_i64(const struct as_option_set *o, enum as_option_id id);     /* INT */
as_ns as_option_ns(const struct as_option_set *o, enum as_option_id id);        /* DURATION */
bool as_option_bool(const struct as_option_set *o, enum as_option_id id);       /* BOOL */
const char *as_option_str(const struct as_option_set *o, enum as_option_id id); /* STRING, ENUM */

/* The i-th value of a LIST, counted from 0; NULL behind the last one. */
const char *as_option_item(const struct as_option_set *o, enum as_option_id id, uint32_t i);

const char *as_option_key(enum as_option_id id);
/* Appends the value as it is typed ("10s"). */
void as_option_print(struct as_buf *b, enum as_option_id id, const struct as_option_set *o);
/* Sets a value that the program computes (a port that was bound, a limit that was measured). The
 * first one for INT, SIZE and DURATION; a string is not copied. */
void as_option_set_i64(struct as_option_set *o, enum as_option_id id, int64_t v);
void as_option_set_str(struct as_option_set *o, enum as_option_id id, const char *v);

/* "--key=value" for each given option that is in `scope`, as a NULL-terminated vector; free it by
 * as_option_argv_free. */
char **as_option_argv(const struct as_option_set *o, uint32_t scope);
void as_option_argv_free(char **argv);

/* The help text of a command (all: with the advanced options); the page docs/guide/options.md. */
void as_option_help(struct as_buf *b, uint32_t scope, bool all);
void as_option_markdown(struct as_buf *b);

#endif
