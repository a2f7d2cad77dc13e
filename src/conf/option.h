/* conf/option.h — the one table of options.
 *
 * A row feeds the parser, validation, --help, the documentation page and the command line of child
 * processes. Values are numbers in base units (bytes, nanoseconds, counts) or strings that point
 * into the parsed argv, which must outlive the set. One thread.
 */
#ifndef AS_CONF_OPTION_H
#define AS_CONF_OPTION_H

#include "base/buf.h"
#include "base/err.h"

/* Which commands know an option; "basic" rows are shown by --help, all rows by --help-all. */
#define AS_SCOPE_RUN        0x1u
#define AS_SCOPE_DISPATCHER 0x2u
#define AS_SCOPE_STATUS     0x4u
#define AS_SCOPE_HIDDEN     0x8u /* between our own processes; in no help and on no page */
#define AS_SCOPE_BASIC      0x10u
#define AS_SCOPE_INFER      0x20u
#define AS_SCOPE_BENCH      0x40u
#define AS_SCOPE_CONTROLLER 0x80u
#define AS_SCOPE_CHECK      0x1000u
#define AS_SCOPE_BUILD      0x2000u
#define AS_SCOPE_WORKERS    0x10000u
#define AS_SCOPE_CHANGE     0x20000u /* what is changed by the control API … */
#define AS_SCOPE_DEPLOY     0x40000u
#define AS_SCOPE_LOGS       0x80000u
#define AS_SCOPE_SHUTDOWN   0x100000u
#define AS_SCOPE_DOCTOR     0x200000u
#define AS_SCOPE_UPGRADE    0x800000u
#define AS_SCOPE_READ       0x1000000u /* … and what is only asked of it */
#define AS_SCOPE_START      0x400000u
#define AS_SCOPE_SCALE      0x2000000u
#define AS_SCOPE_HISTORY    0x8000000u

/* R: whatever starts a server */
#define AS_SCOPE_R   (AS_SCOPE_RUN | AS_SCOPE_START)
#define AS_SCOPE_RC  (AS_SCOPE_R | AS_SCOPE_CONTROLLER)
#define AS_SCOPE_RCB (AS_SCOPE_RC | AS_SCOPE_BASIC)
#define AS_SCOPE_RD  (AS_SCOPE_R | AS_SCOPE_DISPATCHER)
#define AS_SCOPE_RB  (AS_SCOPE_R | AS_SCOPE_BASIC)
#define AS_SCOPE_RDB (AS_SCOPE_RD | AS_SCOPE_BASIC)
#define AS_SCOPE_SPEC                                                                              \
    (AS_SCOPE_CHECK | AS_SCOPE_BUILD |                                                             \
     AS_SCOPE_RC) /* whoever reads what a deployment file may say */
/* who asks a server by its control API, on this machine or another; who finds one on this one */
#define AS_SCOPE_REMOTE                                                                            \
    (AS_SCOPE_STATUS | AS_SCOPE_READ | AS_SCOPE_CHANGE | AS_SCOPE_SCALE | AS_SCOPE_DEPLOY |        \
     AS_SCOPE_HISTORY)
#define AS_SCOPE_FIND                                                                              \
    (AS_SCOPE_REMOTE | AS_SCOPE_WORKERS | AS_SCOPE_LOGS | AS_SCOPE_SHUTDOWN | AS_SCOPE_DOCTOR |    \
     AS_SCOPE_UPGRADE)
#define AS_SCOPE_I  AS_SCOPE_INFER
#define AS_SCOPE_IB (AS_SCOPE_INFER | AS_SCOPE_BENCH)
#define AS_SCOPE_CB (AS_SCOPE_IB | AS_SCOPE_BASIC)    /* what every call has */
#define AS_SCOPE_LB (AS_SCOPE_BENCH | AS_SCOPE_BASIC) /* what a load has */

enum as_option_type {
    AS_OPTION_BOOL,     /* --key, --no-key, --key=on|off */
    AS_OPTION_INT,      /* decimal, may be negative */
    AS_OPTION_SIZE,     /* bytes; suffix K, M, G, T (1024) */
    AS_OPTION_DURATION, /* ns; suffix ns, us, ms, s, m, h; a bare number is seconds */
    AS_OPTION_STRING,   /* min and max are lengths */
    AS_OPTION_ENUM,     /* the value is the index in `words` */
    AS_OPTION_LIST      /* a STRING that may be given again and again; asked by as_option_item */
};

/* id, key, type, min, max, default as it is typed, words, scope, group, one line of documentation.
 * words: "a|b|c" of an enum; for numbers, a word that stands for 0 ("off"); for strings and the
 * rest, what --help shows as the value ("ADDRESS"), "" for the type's usual placeholder. */
#define AS_OPTION_TABLE(X)                                                                         \
    X(HOST, "host", STRING, 1, 255, "127.0.0.1", "ADDRESS", RDB, "Listening",                      \
      "address that clients connect to; 0.0.0.0 or :: for all")                                    \
    X(PORT, "port", INT, 0, 65535, "8000", "",                                                     \
      RDB | AS_SCOPE_CONTROLLER | AS_SCOPE_FIND | AS_SCOPE_IB, "Listening",                        \
      "-p N: gRPC and HTTP port; 0 takes any free port")                                           \
    X(GRPC_PORT, "grpc-port", INT, 0, 65535, "off", "off", RDB, "Listening",                       \
      "one more port, for clients that expect gRPC on 8001")                                       \
    X(STATUS_PORT, "status-port", INT, 0, 65535, "8002", "off", RDB, "Listening",                  \
      "/metrics, /status on 127.0.0.1; where 8002 is taken, the next")                             \
    X(MANAGEMENT, "management", STRING, 0, 262, "", "ADDRESS:PORT", RB, "Listening",               \
      "let workers register over TCP, too; they can always use management.sock")                   \
    X(MANAGEMENT_TOKEN_FILE, "management-token-file", STRING, 0, 4095, "", "PATH", RD,             \
      "Listening", "what they must say there; needed with --management, readable by us only")      \
    X(CONTROL, "control", STRING, 0, 262, "", "ADDRESS:PORT", RCB | AS_SCOPE_REMOTE, "Listening",  \
      "server: also serve the control API there; command: the server to ask")                      \
    X(CONTROL_TOKEN_FILE, "control-token-file", STRING, 0, 4095, "", "PATH", RC | AS_SCOPE_REMOTE, \
      "Listening", "what must be said there; needed with --control, readable by us only")          \
    X(RUNTIME_DIR, "runtime-dir", STRING, 0, 80, "", "DIR",                                        \
      RDB | AS_SCOPE_CONTROLLER | AS_SCOPE_FIND | AS_SCOPE_IB, "Listening",                        \
      "sockets and locks; default $XDG_RUNTIME_DIR/anyserve; docs/OPERATING.md")                   \
    X(STATE_DIR, "state-dir", STRING, 0, 4095, "", "DIR",                                          \
      START | AS_SCOPE_CONTROLLER | AS_SCOPE_BASIC | AS_SCOPE_DOCTOR, "Deployment",                \
      "what is served is kept here; default $XDG_STATE_HOME/anyserve, for root /var/lib/anyserve") \
    X(STATE_GENERATIONS, "state-generations", INT, 2, 100000, "100", "", RC, "Deployment",         \
      "changes of what is served that are kept; more for what is needed to go back")               \
    X(MAX_CODE_BYTES, "max-code-bytes", SIZE, 0, (int64_t)1 << 40, "512M", "", RC, "Deployment",   \
      "the most that the code of an application may have that is copied when it is deployed")      \
    X(MAX_CODE_FILES, "max-code-files", INT, 0, 10000000, "20000", "", RC, "Deployment",           \
      "likewise files and folders")                                                                \
    X(UPGRADE_CHECK_TIMEOUT, "upgrade-check-timeout", DURATION, 100 * AS_MS, 3600 * AS_SEC, "30s", \
      "", R, "Deployment", "the next program must say within it whether it can take over")         \
    X(DETACH, "detach", BOOL, 0, 1, "off", "", START | AS_SCOPE_BASIC, "Deployment",               \
      "return when the server is ready; it goes on in the background")                             \
    X(LOG_FILE_SIZE, "log-file-size", SIZE, 65536, (int64_t)256 << 20, "16M", "", START,           \
      "Deployment", "server.log of a server in the background begins anew beyond it")              \
    X(LOG_FILES, "log-files", INT, 0, 1000, "4", "", START, "Deployment",                          \
      "so many older ones are kept: server.log.1 is the newest")                                   \
    X(UPDATE_FAILURES, "update-failures", INT, 1, 1000, "3", "", RC, "Deployment",                 \
      "failed starts of one replica in a row that end an update")                                  \
    X(UPDATE_MIN_READY, "update-min-ready", DURATION, 0, 3600 * AS_SEC, "1s", "", RC,              \
      "Deployment", "a replica of a new version must be ready for so long before it counts")       \
    X(UPDATE_ROLLBACK, "update-rollback", BOOL, 0, 1, "on", "", RC, "Deployment",                  \
      "an update that fails is taken back: what was healthy before is served again")               \
    X(WORKERS, "workers", INT, 1, 1024, "1", "", RUN | AS_SCOPE_CONTROLLER | AS_SCOPE_BASIC,       \
      "Workers", "replicas of each deployment, unless the code says how many")                     \
    X(PYTHON, "python", STRING, 0, 4095, "", "PATH", RCB | AS_SCOPE_BUILD | AS_SCOPE_DOCTOR,       \
      "Workers", "interpreter; default the one of this script, $VIRTUAL_ENV, python3")             \
    X(RELOAD, "reload", BOOL, 0, 1, "off", "", RUN | AS_SCOPE_CONTROLLER | AS_SCOPE_BASIC,         \
      "Workers", "replace the replicas when a file of the application changes")                    \
    X(DEBUG, "debug", BOOL, 0, 1, "off", "", RUN | AS_SCOPE_DISPATCHER | AS_SCOPE_BASIC,           \
      "Workers", "one replica at this terminal, for breakpoint(); without timeouts")               \
    X(DEBUG_ERRORS, "debug-errors", BOOL, 0, 1, "off", "", RDB | AS_SCOPE_CONTROLLER, "Workers",   \
      "send tracebacks of handlers to clients")                                                    \
    X(WORKER_SCHEDULING, "worker-scheduling", ENUM, 0, 0, "batch", "batch|normal", RC, "Workers",  \
      "batch: a worker that wakes up does not interrupt the dispatcher")                           \
    X(START_TIMEOUT, "start-timeout", DURATION, AS_MS, 86400 * AS_SEC, "120s", "", RCB, "Workers", \
      "a worker must be ready, and code imported, within this time")                               \
    X(MAX_STARTING, "max-starting", INT, 0, 1024, "0", "", RC, "Workers",                          \
      "workers that are starting at once; 0: two per core, at least 2")                            \
    X(WARM_SPARES, "warm-spares", INT, 0, 64, "0", "", RC, "Workers",                              \
      "processes of each deployment that have loaded its code and wait to replace a dead replica") \
    X(STOP_TIMEOUT, "stop-timeout", DURATION, 0, 86400 * AS_SEC, "10s", "", RCB, "Workers",        \
      "from SIGTERM to SIGKILL of a worker")                                                       \
    X(MAX_START_FAILURES, "max-start-failures", INT, 0, 1000000, "5", "off", RC, "Workers",        \
      "failed starts in a row after which a replica is not started for restart-backoff-max; off: " \
      "never")                                                                                     \
    X(RESTART_BACKOFF, "restart-backoff", DURATION, AS_MS, 3600 * AS_SEC, "100ms", "", RC,         \
      "Workers", "first delay before a failed worker is started again")                            \
    X(RESTART_BACKOFF_MAX, "restart-backoff-max", DURATION, AS_MS, 3600 * AS_SEC, "30s", "", RC,   \
      "Workers", "longest delay between two starts")                                               \
    X(RESTART_HEALTHY_AFTER, "restart-healthy-after", DURATION, 0, 86400 * AS_SEC, "10s", "", RC,  \
      "Workers", "ready for this long: earlier failures are forgotten")                            \
    X(HANDSHAKE_TIMEOUT, "handshake-timeout", DURATION, AS_MS, 3600 * AS_SEC, "5s", "", RD,        \
      "Workers", "a connected worker must say HELLO and register in this time")                    \
    X(PING_INTERVAL, "ping-interval", DURATION, 10 * AS_MS, 3600 * AS_SEC, "5s", "", RD,           \
      "Workers", "how often a worker is asked whether it lives")                                   \
    X(PING_TIMEOUT, "ping-timeout", DURATION, 10 * AS_MS, 3600 * AS_SEC, "10s", "", RD, "Workers", \
      "an unanswered ping ends the worker after this time")                                        \
    X(HEALTH_CHECK_PERIOD, "health-check-period", DURATION, 0, 86400 * AS_SEC, "10s", "off", RD,   \
      "Workers", "how often a worker is asked whether it is well")                                 \
    X(HEALTH_CHECK_TIMEOUT, "health-check-timeout", DURATION, AS_MS, 86400 * AS_SEC, "30s", "",    \
      RD, "Workers", "an answer to that which takes longer counts as a failed check")              \
    X(HEALTH_CHECK_FAILURES, "health-check-failures", INT, 1, 1000, "3", "", RD, "Workers",        \
      "so many failed checks in a row end the worker")                                             \
    X(EXECUTION_TIMEOUT, "execution-timeout", DURATION, 0, 86400 * AS_SEC, "off", "off", RDB,      \
      "Workers", "a handler that runs for longer has its worker killed")                           \
    X(WORKER_GRACE, "worker-grace", DURATION, 0, 86400 * AS_SEC, "60s", "off", RD, "Workers",      \
      "a model that only workers from outside serve is forgotten when they are gone for so long")  \
    X(WORKER_HEARTBEAT, "worker-heartbeat", DURATION, 0, 3600 * AS_SEC, "5s", "off", RD,           \
      "Workers", "how often a worker that registers is asked to say that it lives")                \
    X(WORKER_HEARTBEAT_TIMEOUT, "worker-heartbeat-timeout", DURATION, 0, 86400 * AS_SEC, "15s",    \
      "off", RD, "Workers", "a registered worker that is silent for so long gets no requests")     \
    X(WORKER_SOCKET_DIR, "worker-socket-dir", STRING, 0, 4095, "", "DIR", RD, "Workers",           \
      "sockets of registered workers lie below it; default workers/ in the runtime folder")        \
    X(SIMPLE_IDLE_TIMEOUT, "simple-idle-timeout", DURATION, 0, 86400 * AS_SEC, "60s", "off", RD,   \
      "Workers", "a connection to a registered worker that is unused for so long is closed")       \
    X(SIMPLE_CONNECT_TIMEOUT, "simple-connect-timeout", DURATION, AS_MS, 3600 * AS_SEC, "1s", "",  \
      RD, "Workers", "a registered worker must accept a connection within this time")              \
    X(ROUTER, "router", ENUM, 0, 0, "least_ongoing", "least_ongoing|pow2", RDB, "Queues",          \
      "how a replica is chosen")                                                                   \
    X(MAX_QUEUED_REQUESTS, "max-queued-requests", INT, -1, 10000000, "1024", "", RDB, "Queues",    \
      "per deployment, if it sets none; -1: bounded by bytes only")                                \
    X(REQUEST_TIMEOUT, "request-timeout", DURATION, 0, 86400 * AS_SEC, "off", "off", RDB,          \
      "Queues", "deadline of requests that bring none")                                            \
    X(MAX_PREFETCH, "max-prefetch", INT, 0, 65536, "256", "off", RD, "Queues",                     \
      "requests that may wait inside one worker")                                                  \
    X(PREFETCH_WORK, "prefetch-work", DURATION, 0, AS_SEC, "100us", "off", RD, "Queues",           \
      "a worker holds as many requests as it serves in this time")                                 \
    X(STREAM_CREDIT, "stream-credit", INT, 1, 65536, "256", "", RD, "Queues",                      \
      "responses of one stream that a worker may be ahead of its client")                          \
    X(STREAM_CREDIT_BYTES, "stream-credit-bytes", SIZE, 1, 1 << 30, "256K", "", RD, "Queues",      \
      "bytes of those responses; the last one may go over it")                                     \
    X(STREAM_INPUTS, "stream-inputs", INT, 1, 65536, "16", "", RC, "Queues",                       \
      "messages of one stream that wait in a worker for a handler that takes a stream")            \
    X(STREAM_INPUT_BYTES, "stream-input-bytes", SIZE, 1, 1 << 30, "1M", "", RC, "Queues",          \
      "bytes of those messages; the last one may go over it")                                      \
    X(STREAM_REQUESTS, "stream-requests", INT, 1, 65536, "64", "", RD, "Queues",                   \
      "requests under way on one ModelStreamInfer, but for those that take a stream; more wait")   \
    X(RETRY_ATTEMPTS, "retry-attempts", INT, 1, 255, "3", "", RD, "Failures",                      \
      "executions of an idempotent request whose workers die; workers that were killed "           \
      "from outside do not count")                                                                 \
    X(RETRY_BUDGET, "retry-budget", INT, 0, 100, "10", "", RD, "Failures",                         \
      "percent of a deployment's requests that may run again at once after broken links")          \
    X(RETRY_BUDGET_MIN, "retry-budget-min", INT, 0, 1000000, "3", "", RD, "Failures",              \
      "requests that may run again so in any case")                                                \
    X(VERDICT_WAIT, "verdict-wait", DURATION, 0, 60 * AS_SEC, "50ms", "off", RD, "Failures",       \
      "a started request waits so long to be told why its worker died before it runs again")       \
    X(VERDICT_PATIENCE, "verdict-patience", DURATION, 0, 600 * AS_SEC, "2s", "off", RD,            \
      "Failures", "the same, for a request that was lost before")                                  \
    X(QUARANTINE, "quarantine", DURATION, AS_MS, 86400 * AS_SEC, "60s", "", RD, "Failures",        \
      "a request that has ended two workers, the second one alone, is refused for this time")      \
    X(MAX_SUSPECTS, "max-suspects", INT, 0, 65536, "256", "off", RD, "Failures",                   \
      "requests of a deployment that are remembered for having ended a worker; off: none")         \
    X(TRIAL_TIME, "trial-time", DURATION, AS_MS, 600 * AS_SEC, "2s", "", RD, "Failures",           \
      "a worker that executes other requests gets no new ones for so long at most while a "        \
      "suspect "                                                                                   \
      "waits for it; the suspect then has it alone for as long, or for twice as long as such a "   \
      "request had run when a worker ended")                                                       \
    X(SUSPECT_WAIT, "suspect-wait", DURATION, AS_MS, 3600 * AS_SEC, "30s", "", RD, "Failures",     \
      "a suspect that waits longer for a worker of its own is refused")                            \
    X(BREAKER_FAILURES, "breaker-failures", INT, 0, 1000000, "5", "off", RD, "Failures",           \
      "failures in a row, while its peers have few, that take a replica out for a while")          \
    X(OUTLIER_FACTOR, "outlier-factor", INT, 0, 1000, "3", "off", RD, "Failures",                  \
      "a replica whose median time is over so many times that of its peers is taken out too")      \
    X(OUTLIER_LEAST, "outlier-least", DURATION, 0, 3600 * AS_SEC, "5ms", "off", RD, "Failures",    \
      "a replica whose median time is below this is not taken out for it")                         \
    X(BREAKER_OPEN, "breaker-open", DURATION, AS_MS, 3600 * AS_SEC, "1s", "", RD, "Failures",      \
      "first time that a replica is out; each time in a row it is doubled")                        \
    X(BREAKER_OPEN_MAX, "breaker-open-max", DURATION, AS_MS, 86400 * AS_SEC, "30s", "", RD,        \
      "Failures", "longest time that a replica is out")                                            \
    X(BREAKER_PROBES, "breaker-probes", INT, 1, 1000, "3", "", RD, "Failures",                     \
      "good answers, one request at a time, that take it in again")                                \
    X(MAX_EJECTED, "max-ejected", INT, 0, 100, "33", "", RD, "Failures",                           \
      "percent of the replicas that are out at once; one in any case, and never the last")         \
    X(HEARTBEAT_TIMEOUT, "heartbeat-timeout", DURATION, 0, 3600 * AS_SEC, "30s", "off",            \
      RD | AS_SCOPE_CONTROLLER, "Failures",                                                        \
      "a dispatcher or controller whose event loop does not turn for so long is replaced")         \
    X(MAX_INFLIGHT_BYTES, "max-inflight-bytes", SIZE, 0, (int64_t)1 << 50, "0", "", RDB, "Limits", \
      "request bytes held at once; 0: a quarter of the memory limit")                              \
    X(MAX_ANSWER_BYTES, "max-answer-bytes", SIZE, 0, (int64_t)1 << 50, "0", "", RD, "Limits",      \
      "answer bytes held at once; 0: as many as max-inflight-bytes")                               \
    X(CONNECTION_SHARE, "connection-share", INT, 1, 100, "50", "", RD, "Limits",                   \
      "percent of either that one connection may hold alone; beside others, as much of what is "   \
      "free")                                                                                      \
    X(MAX_MESSAGE_BYTES, "max-message-bytes", SIZE, 1, 2147483647, "2147483647", "",               \
      RDB | AS_SCOPE_IB, "Limits", "largest gRPC message")                                         \
    X(MAX_HTTP_BODY_BYTES, "max-http-body-bytes", SIZE, 1, 2147483647, "64M", "", RDB, "Limits",   \
      "largest body of a plain HTTP request, as it comes")                                         \
    X(MAX_INFLATED_BYTES, "max-inflated-bytes", SIZE, 1, 2147483647, "64M", "", RD, "Limits",      \
      "largest message or body that came compressed, after inflating")                             \
    X(MAX_CONNECTIONS, "max-connections", INT, 0, 1000000, "0", "", RDB, "Limits",                 \
      "client connections; 0: 16384 or what the descriptor limit allows")                          \
    X(MAX_STREAMS, "max-streams", INT, 1, 1000000, "1024", "", RD, "Limits",                       \
      "concurrent streams of one HTTP/2 connection")                                               \
    X(MAX_HEADER_BYTES, "max-header-bytes", SIZE, 1024, 1 << 20, "16K", "", RD, "Limits",          \
      "all header fields of one request together")                                                 \
    X(MAX_HEADERS, "max-headers", INT, 16, 10000, "100", "", RD, "Limits",                         \
      "header fields of one request")                                                              \
    X(MAX_REQUEST_LINE, "max-request-line", SIZE, 128, 1 << 20, "8K", "", RD, "Limits",            \
      "the request line of HTTP/1.1")                                                              \
    X(MAX_CHUNK_EXTENSION, "max-chunk-extension", SIZE, 0, 1 << 16, "256", "", RD, "Limits",       \
      "bytes of the extensions of one chunk of HTTP/1.1")                                          \
    X(STREAM_WINDOW, "stream-window", SIZE, 65535, 2147483647, "1M", "", RD, "Limits",             \
      "HTTP/2 receive window of a stream")                                                         \
    X(CONNECTION_WINDOW, "connection-window", SIZE, 65535, 2147483647, "16M", "", RD, "Limits",    \
      "HTTP/2 receive window of a connection")                                                     \
    X(MAX_REQUESTS, "max-requests", INT, 0, 100000000, "0", "", RD, "Limits",                      \
      "requests open at once; 0: one for each 16K of max-inflight-bytes")                          \
    X(MAX_MANAGEMENT_CONNECTIONS, "max-management-connections", INT, 1, 100000, "256", "", RD,     \
      "Limits", "connections of workers that register, TCP and unix")                              \
    X(MAX_MANAGEMENT_BYTES, "max-management-bytes", SIZE, 1024, 16 << 20, "256K", "", RD,          \
      "Limits", "largest message or body of a call that registers")                                \
    X(MAX_CONTROL_CONNECTIONS, "max-control-connections", INT, 1, 10000, "32", "", RC, "Limits",   \
      "connections that ask for or change what is served; also requests at once")                  \
    X(MAX_EVENT_BYTES, "max-event-bytes", SIZE, 1024, 1 << 30, "1M", "", RC, "Limits",             \
      "events that wait for one client that follows what is served; more, and it is cut off")      \
    X(EVENT_HEARTBEAT, "event-heartbeat", DURATION, AS_MS, 3600 * AS_SEC, "15s", "", RC, "Limits", \
      "how often such a client hears something though nothing changes")                            \
    X(MAX_SPEC_BYTES, "max-spec-bytes", SIZE, 1, 64 << 20, "1M", "", SPEC, "Deployment file",      \
      "largest deployment file")                                                                   \
    X(MAX_SPEC_DEPTH, "max-spec-depth", INT, 8, 1000, "64", "", SPEC, "Deployment file",           \
      "mappings and lists inside each other")                                                      \
    X(MAX_APPLICATIONS, "max-applications", INT, 1, 10000, "100", "", SPEC, "Deployment file",     \
      "applications of a file")                                                                    \
    X(MAX_DEPLOYMENTS, "max-deployments", INT, 1, 10000, "1000", "", SPEC, "Deployment file",      \
      "deployments of a file, all applications together")                                          \
    X(MAX_SPEC_ERRORS, "max-spec-errors", INT, 1, 10000, "20", "", SPEC, "Deployment file",        \
      "errors of a file that are told; the rest is counted")                                       \
    X(HEADER_TIMEOUT, "header-timeout", DURATION, AS_MS, 3600 * AS_SEC, "10s", "", RD, "Clients",  \
      "the greeting of a connection and each header block must be complete in this time")          \
    X(IDLE_TIMEOUT, "idle-timeout", DURATION, 0, 86400 * AS_SEC, "10m", "off", RD, "Clients",      \
      "a connection without a request is closed after this time")                                  \
    X(BODY_TIMEOUT, "body-timeout", DURATION, 0, 86400 * AS_SEC, "10s", "off", RD, "Clients",      \
      "a request that comes in must move by min-progress in this time")                            \
    X(SEND_TIMEOUT, "send-timeout", DURATION, 0, 86400 * AS_SEC, "30s", "off", RD, "Clients",      \
      "a client must take min-progress of its answers in this time")                               \
    X(MIN_PROGRESS, "min-progress", SIZE, 1, 1 << 30, "1K", "", RD, "Clients",                     \
      "bytes that must move within body-timeout and send-timeout")                                 \
    X(LINGER_TIMEOUT, "linger-timeout", DURATION, 0, 60 * AS_SEC, "500ms", "off", RD, "Clients",   \
      "a connection that we end is kept for this time, so that its client can read why")           \
    X(MAX_LINGERING, "max-lingering", INT, 1, 100000, "64", "", RD, "Clients",                     \
      "connections that are kept so; the oldest goes for a new one")                               \
    X(KEEPALIVE_TIME, "keepalive-time", DURATION, 0, 86400 * AS_SEC, "60s", "off", RD, "Clients",  \
      "a connection that was silent for this time is sent a ping")                                 \
    X(KEEPALIVE_TIMEOUT, "keepalive-timeout", DURATION, AS_MS, 3600 * AS_SEC, "20s", "", RD,       \
      "Clients", "and closed when it stays silent for this time after it")                         \
    X(RESPONSE_COMPRESSION, "response-compression", ENUM, 0, 0, "match", "off|match|always", RD,   \
      "Clients", "answers to compress; match: those to compressed requests")                       \
    X(MIN_COMPRESS_BYTES, "min-compress-bytes", SIZE, 0, 2147483647, "1K", "", RD, "Clients",      \
      "smaller answers are not compressed")                                                        \
    X(MIN_PING_INTERVAL, "min-ping-interval", DURATION, 0, 86400 * AS_SEC, "5m", "off", RD,        \
      "Abuse", "a client's pings keep this distance, but for one after each answer")               \
    X(MIN_IDLE_PING_INTERVAL, "min-idle-ping-interval", DURATION, 0, 86400 * AS_SEC, "2h", "off",  \
      RD, "Abuse", "the same while no call is open")                                               \
    X(MAX_PING_STRIKES, "max-ping-strikes", INT, 0, 1000000, "2", "off", RD, "Abuse",              \
      "pings that may come too early; one more ends the connection")                               \
    X(RESET_BURST, "reset-burst", INT, 0, 1000000, "1024", "off", RD, "Abuse",                     \
      "streams that a client may take back at once; calls that end well give back")                \
    X(RESET_RATE, "reset-rate", INT, 1, 1000000, "100", "", RD, "Abuse", "and more per second")    \
    X(RESET_PATIENCE, "reset-patience", DURATION, 0, 3600 * AS_SEC, "1s", "off", RD, "Abuse",      \
      "one that was open for so long does not count; off: all do")                                 \
    X(FAULT_BURST, "fault-burst", INT, 0, 1000000, "100", "off", RD, "Abuse",                      \
      "streams that may be reset at once because the client broke a rule")                         \
    X(FAULT_RATE, "fault-rate", INT, 1, 1000000, "10", "", RD, "Abuse", "and more per second")     \
    X(CONTROL_BURST, "control-burst", INT, 0, 1000000, "256", "off", RD, "Abuse",                  \
      "SETTINGS, PING, PRIORITY and unknown frames at once")                                       \
    X(CONTROL_RATE, "control-rate", INT, 1, 1000000, "100", "", RD, "Abuse",                       \
      "and more per second")                                                                       \
    X(EMPTY_BURST, "empty-burst", INT, 0, 1000000, "100", "off", RD, "Abuse",                      \
      "frames at once that carry and end nothing")                                                 \
    X(EMPTY_RATE, "empty-rate", INT, 1, 1000000, "10", "", RD, "Abuse", "and more per second")     \
    X(WINDOW_UPDATE_BURST, "window-update-burst", INT, 0, 1000000, "2048", "off", RD, "Abuse",     \
      "WINDOW_UPDATE frames at once; a request gives back two, each frame of an answer four")      \
    X(WINDOW_UPDATE_RATE, "window-update-rate", INT, 1, 1000000, "100", "", RD, "Abuse",           \
      "and more per second")                                                                       \
    X(MAX_CONTINUATIONS, "max-continuations", INT, 0, 1000000, "8", "off", RD, "Abuse",            \
      "CONTINUATION frames of one header block")                                                   \
    X(MAX_HEADER_BLOCK, "max-header-block", SIZE, 0, 1 << 30, "64K", "off", RD, "Abuse",           \
      "a header block, as sent or as unpacked, that ends the connection")                          \
    X(ALLOW_CLIENT_CONTROL, "allow-client-control", BOOL, 0, 1, "off", "", RDB, "Extensions",      \
      "clients may load and unload models and set the log level")                                  \
    X(ALLOW_ORIGIN, "allow-origin", STRING, 0, 4095, "", "ORIGINS", RD, "Extensions",              \
      "web pages of these sites may change what clients may: https://HOST[:PORT], with commas")    \
    X(ALLOW_CLIENT_SHM, "allow-client-shm", BOOL, 0, 1, "off", "", RD, "Extensions",               \
      "clients of this machine may send and take tensors in POSIX shared memory")                  \
    X(CLIENT_SHM_PREFIX, "client-shm-prefix", STRING, 0, 200, "", "PREFIX", RD, "Extensions",      \
      "clients lend only objects of /dev/shm whose names begin so; default: any")                  \
    X(MAX_SHM_REGIONS, "max-shm-regions", INT, 1, 100000, "1024", "", RD, "Extensions",            \
      "regions of shared memory that are registered at once; each takes a descriptor")             \
    X(MAX_SHM_BYTES, "max-shm-bytes", SIZE, 1, (int64_t)1 << 50, "64G", "", RD, "Extensions",      \
      "bytes of all registered regions")                                                           \
    X(DRAIN_TIMEOUT, "drain-timeout", DURATION, 0, 86400 * AS_SEC, "30s", "", RDB, "Server",       \
      "requests in flight have this time to end after SIGTERM")                                    \
    X(SHUTDOWN_DELAY, "shutdown-delay", DURATION, 0, 86400 * AS_SEC, "0s", "", RD, "Server",       \
      "from SIGTERM on it says that it is not ready, and serves all the same, for so long")        \
    X(GOAWAY_GRACE, "goaway-grace", DURATION, 0, 60 * AS_SEC, "1s", "", RD, "Server",              \
      "from the announcement of the end to refusing new streams")                                  \
    X(THREADS, "threads", INT, 1, 64, "1", "", RDB, "Server", "event loops of the dispatcher")     \
    X(LOG_LEVEL, "log-level", ENUM, 0, 0, "info", "error|warn|info|debug",                         \
      RDB | AS_SCOPE_CONTROLLER, "Server", "what is logged to stderr")                             \
    X(LOG_KEEP, "log-keep", SIZE, 0, 1 << 30, "256K", "off", RD | AS_SCOPE_CONTROLLER, "Server",   \
      "newest output of each process that is kept for anyserve logs")                              \
    X(MAX_OLD_LOGS, "max-old-logs", INT, 0, 10000, "64", "", R, "Server",                          \
      "replicas that are gone, of which it is kept")                                               \
    X(DRY_RUN, "dry-run", BOOL, 0, 1, "off", "", DEPLOY, "Operating",                              \
      "show what would change, and change nothing")                                                \
    X(RESET, "reset", BOOL, 0, 1, "off", "", SCALE, "Operating",                                   \
      "instead of N: as many as num_replicas of its deployment file says")                         \
    X(WAIT, "wait", BOOL, 0, 1, "on", "", DEPLOY | AS_SCOPE_CHANGE | AS_SCOPE_SCALE, "Operating",  \
      "until it is healthy, gone, or has failed; --no-wait: until it has begun")                   \
    X(WAIT_TIMEOUT, "timeout", DURATION, 0, 86400 * AS_SEC, "10m", "off",                          \
      DEPLOY | AS_SCOPE_CHANGE | AS_SCOPE_SCALE | AS_SCOPE_SHUTDOWN | AS_SCOPE_UPGRADE,            \
      "Operating", "longest wait; what was begun goes on")                                         \
    X(ANSWER_TIMEOUT, "answer-timeout", DURATION, AS_MS, 3600 * AS_SEC, "10s", "", FIND,           \
      "Operating",                                                                                 \
      "a process of the server that says nothing for so long is taken for hung, and named")        \
    X(YES, "yes", BOOL, 0, 1, "off", "", SHUTDOWN, "Operating", "-y: do not ask")                  \
    X(WATCH, "watch", BOOL, 0, 1, "off", "", STATUS, "Operating",                                  \
      "-w: follow what is served: a table that stays true, or lines of changes")                   \
    X(FOLLOW, "follow", BOOL, 0, 1, "off", "", LOGS, "Operating", "-f: print what comes as well")  \
    X(REPLICA, "replica", STRING, 0, 255, "", "NAME", LOGS, "Operating",                           \
      "of this replica only, or of this deployment's; also supervisor, dispatcher, controller")    \
    X(LINES, "lines", INT, 0, 1000000000, "100", "", LOGS, "Operating",                            \
      "-n N: how many of the newest lines")                                                        \
    X(TIMESTAMPS, "timestamps", BOOL, 0, 1, "off", "", LOGS, "Operating",                          \
      "with the moment at which each line was read")                                               \
    X(URL, "url", STRING, 0, 300, "", "HOST:PORT", CB, "Call",                                     \
      "server to call; default the one on this machine that --runtime-dir and --port mean")        \
    X(PROTOCOL, "protocol", ENUM, 0, 0, "grpc", "grpc|http|http-binary", CB, "Call",               \
      "gRPC, or REST over HTTP/1.1 with tensors as JSON, or as bytes behind it")                   \
    X(INPUT, "input", LIST, 0, 2147483647, "", "NAME=VALUE", CB, "Call",                           \
      "a tensor: NAME=VALUE, NAME=@FILE, NAME:DTYPE:[SHAPE]=VALUE; once per input; with "          \
      "--stream a name again begins the next request")                                             \
    X(PARAMETER, "parameter", LIST, 0, 65536, "", "NAME=VALUE", CB, "Call",                        \
      "a request parameter; NAME:TYPE=VALUE names its type")                                       \
    X(METADATA, "metadata", LIST, 0, 65536, "", "KEY=VALUE", CB, "Call",                           \
      "a header of the call; over gRPC keys that end in -bin take any bytes")                      \
    X(OUTPUT, "output", LIST, 0, 65535, "", "NAME", CB, "Call",                                    \
      "an output that is asked for; default all")                                                  \
    X(MODEL_VERSION, "model-version", STRING, 0, 65535, "", "VERSION", CB, "Call",                 \
      "default the one that the server chooses")                                                   \
    X(ID, "id", STRING, 0, 65535, "", "ID", CB, "Call", "request id, repeated in the answer")      \
    X(STREAM, "stream", BOOL, 0, 1, "off", "", CB, "Call",                                         \
      "a call has any number of responses, told as they come: ModelStreamInfer, or over "          \
      "http generate_stream")                                                                      \
    X(TIMEOUT, "timeout", DURATION, 0, 86400 * AS_SEC, "30s", "off", CB, "Call",                   \
      "deadline of a call, told to the server")                                                    \
    X(CONNECT_TIMEOUT, "connect-timeout", DURATION, AS_MS, 3600 * AS_SEC, "5s", "", IB, "Call",    \
      "a connection must be there within this time")                                               \
    X(CONNECTIONS, "connections", INT, 1, 10000, "1", "", LB, "Load", "connections to the server") \
    X(STREAMS, "streams", INT, 0, 100000, "auto", "auto", LB, "Load",                              \
      "most calls in flight on one connection; auto: 1, with --rate 1000")                         \
    X(RATE, "rate", INT, 0, 1000000, "off", "off", LB, "Load",                                     \
      "calls per second at set times (open loop); off: each answer starts the next call")          \
    X(ARRIVALS, "arrivals", ENUM, 0, 0, "constant", "constant|poisson", LB, "Load",                \
      "with --rate: even distances, or random ones as of many independent clients")                \
    X(DURATION, "duration", DURATION, AS_MS, 86400 * AS_SEC, "10s", "", LB, "Load",                \
      "how long is measured")                                                                      \
    X(REQUESTS, "requests", INT, 0, 1000000000000, "off", "off", LB, "Load",                       \
      "measure exactly this many calls instead of a time")                                         \
    X(WARMUP, "warmup", DURATION, 0, 3600 * AS_SEC, "1s", "off", LB, "Load",                       \
      "load before the measurement that is not counted")                                           \
    X(ANY_SIZE, "any-size", INT, 1, 1000000000, "1", "", LB, "Load",                               \
      "size of generated inputs where the model takes any (-1)")                                   \
    X(SEED, "seed", INT, 0, 1000000000000, "1", "", BENCH, "Load",                                 \
      "of poisson arrivals and generated inputs")                                                  \
    X(JSON, "json", BOOL, 0, 1, "off", "",                                                         \
      STATUS | AS_SCOPE_WORKERS | AS_SCOPE_DEPLOY | AS_SCOPE_DOCTOR | AS_SCOPE_HISTORY |           \
          AS_SCOPE_CB,                                                                             \
      "Output", "print JSON")                                                                      \
    X(MAX_VALUES, "max-values", INT, 0, 1000000000, "1000", "all", I | AS_SCOPE_BASIC, "Output",   \
      "values of one tensor that are printed; --json prints all")                                  \
    X(HISTOGRAM, "histogram", BOOL, 0, 1, "off", "", LB, "Output",                                 \
      "print how the latencies spread; --json always does")                                        \
    X(COMPARE, "compare", STRING, 0, 4095, "", "FILE", LB, "Output",                               \
      "set the result beside an earlier --json")                                                   \
    X(OUTPUT_FILE, "output-file", STRING, 0, 4095, "", "FILE", BUILD | AS_SCOPE_BASIC, "Output",   \
      "-o FILE: where the deployment file is written; default stdout")                             \
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
    int64_t i;     /* all types but STRING */
    const char *s; /* STRING, ENUM; never NULL */
    bool given;    /* on the command line or by as_option_set_text, not the default */
};

struct as_option_set {
    uint32_t scope; /* one AS_SCOPE_ command bit */
    struct as_option_value v[AS_OPT_COUNT];
    const char *args[AS_OPTION_ARGS_MAX];
    uint32_t n_args;
    const char *more;           /* set before the parser runs: arguments behind the first … */
    uint32_t more_from, n_more; /* … `more_from` are values of this option; NULL: of none */
    struct {
        enum as_option_id id;
        const char *s;
    } items[AS_OPTION_ITEMS_MAX]; /* in the order of the command line */
    uint32_t n_items;
    bool help, help_all; /* --help, --help-all: the values were not checked */
};

void as_option_init(struct as_option_set *o, uint32_t scope); /* all defaults */

/* argv without the names of program and command. 0, or AS_EINVALID with a sentence in `err` that
 * names the option, the value and its bounds, or the nearest known name. "--" ends the options. */
int as_option_parse(struct as_option_set *o, int argc, char *const *argv, struct as_buf *err);
/* One option by its text; `key` without dashes. Same results. The set keeps `value` of strings. */
int as_option_set_text(struct as_option_set *o, const char *key, const char *value,
                       struct as_buf *err);

/* The id's type decides which of these may be called: asserted. */
uint64_t as_option_u64(const struct as_option_set *o,
                       enum as_option_id id); /* INT >= 0, SIZE, ENUM */
int64_t as_option_i64(const struct as_option_set *o, enum as_option_id id);     /* INT */
as_ns as_option_ns(const struct as_option_set *o, enum as_option_id id);        /* DURATION */
bool as_option_bool(const struct as_option_set *o, enum as_option_id id);       /* BOOL */
const char *as_option_str(const struct as_option_set *o, enum as_option_id id); /* STRING, ENUM */

/* The i-th value of a LIST, from 0; NULL behind the last. */
const char *as_option_item(const struct as_option_set *o, enum as_option_id id, uint32_t i);

const char *as_option_key(enum as_option_id id);
/* Its value as it is typed ("10s"). */
void as_option_print(struct as_buf *b, enum as_option_id id, const struct as_option_set *o);
/* A value computed by us (a port that was bound, a limit that was measured): INT, SIZE, DURATION.
 */
void as_option_set_i64(struct as_option_set *o, enum as_option_id id, int64_t v);
void as_option_set_str(struct as_option_set *o, enum as_option_id id, const char *v); /* kept */

/* "--key=value" for every given option that commands of `scope` know, as one NULL-terminated
 * vector; free with as_option_argv_free. */
char **as_option_argv(const struct as_option_set *o, uint32_t scope);
void as_option_argv_free(char **argv);

/* Texts for people: the options of a command (all: advanced ones too); docs/guide/options.md. */
void as_option_help(struct as_buf *b, uint32_t scope, bool all);
void as_option_markdown(struct as_buf *b);

#endif
