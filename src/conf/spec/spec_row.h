/* conf/spec/spec_row.h — the table of all keys of a deployment file.
 *
 * The parser, the validation, the comparison of two files, `anyserve schema`, `anyserve build`, the
 * checks of the Python objects and docs/guide/deployment-file.md are made from it. Keys have the
 * names of Ray Serve where it has such a key.
 */
#ifndef AS_CONF_SPEC_ROW_H
#define AS_CONF_SPEC_ROW_H

#include "base/id.h"
#include "core/protect/slow_start.h"

/* The mappings of a file. */
enum as_spec_level {
    AS_SPEC_LEVEL_FILE,
    AS_SPEC_LEVEL_APPLICATION,
    AS_SPEC_LEVEL_DEPLOYMENT,
    AS_SPEC_LEVEL_WARMUP,
    AS_SPEC_LEVEL_LOGGING,
    AS_SPEC_LEVELS
};

enum as_spec_type {
    AS_SPEC_BOOL,     /* true, false */
    AS_SPEC_INT,      /* a whole number; or the word in `words`, whose value is -1 */
    AS_SPEC_NUMBER,   /* value and bounds are in thousandths */
    AS_SPEC_DURATION, /* a number of seconds; value and bounds are in ns */
    AS_SPEC_SIZE,     /* bytes, or "512M"; the suffixes of options */
    AS_SPEC_AMOUNT,   /* a whole number, which min and max bound, or a percentage, "25%" */
    AS_SPEC_STRING,   /* min and max are lengths in bytes */
    AS_SPEC_TEXT,     /* the same, but a number or a boolean is accepted as the text it is */
    AS_SPEC_ENUM,     /* one of `words` */
    AS_SPEC_JSON,     /* any JSON value; max: its length in bytes as JSON */
    AS_SPEC_TEXTS,    /* a list of TEXT; min and max are counts */
    AS_SPEC_MAP,      /* names to TEXT; max is a count */
    AS_SPEC_OBJECT,   /* a mapping of the level that is named in `words` */
    AS_SPEC_OBJECTS   /* a list of such mappings; max is a count */
};

/* What a change of the value means for the replicas that run. */
enum as_spec_class {
    AS_SPEC_SAME,        /* nothing: the key is a name or a container */
    AS_SPEC_LIGHT,       /* only the controller applies it */
    AS_SPEC_RECONFIGURE, /* the workers get it while they serve, and inform the dispatcher */
    AS_SPEC_RESTART      /* new replicas replace the old ones */
};

#define AS_SPEC_REQUIRED 0x1u
#define AS_SPEC_NOT_ZERO 0x2u
#define AS_SPEC_UNIQUE   0x4u /* different for each object of a list */

#define AS_SPEC_NAME_MAX AS_ID_NAME_MAX
#define AS_SPEC_DAY      (86400 * (int64_t)AS_SEC)

/* level, id, key, type, min, max, default as it is typed ("": none), words, class, flags, doc.
 * words: "a|b" of an enum; the form of a string ("name"); the level of an object. */
#define AS_SPEC_TABLE(X)                                                                           \
    X(FILE, APPLICATIONS, "applications", OBJECTS, 0, 100000, "", "application", SAME, REQUIRED,   \
      "the applications to serve; one that is not listed is removed")                              \
    X(FILE, CAPACITY, "target_capacity", NUMBER, 0, 100000, "", "", LIGHT, 0,                      \
      "as Ray Serve's: each deployment has this percentage of its replicas "                       \
      "([a part of the replicas](replicas.md#a-part-of-the-replicas)); default: all")              \
    X(FILE, CAPACITY_DIRECTION, "target_capacity_direction", ENUM, 0, 0, "", "up|down", SAME, 0,   \
      "where the last change of target_capacity went: the server writes it, and replaces what a "  \
      "file has")                                                                                  \
    X(APPLICATION, NAME, "name", STRING, 1, AS_ID_APPLICATION_MAX, AS_ID_DEFAULT, "name", SAME,    \
      UNIQUE, "unique name of the application")                                                    \
    X(APPLICATION, IMPORT_PATH, "import_path", STRING, 1, 4095, "", "", RESTART, 0,                \
      "Python code: `module:app`, `module`, `file.py` or `file.py:app`")                           \
    X(APPLICATION, COMMAND, "command", TEXTS, 1, 1024, "", "", RESTART, 0,                         \
      "or a program and its arguments: a worker on the link, made with the C library")             \
    X(APPLICATION, WORKING_DIR, "working_dir", STRING, 1, 4095, "", "", RESTART, 0,                \
      "folder in which workers start and in which import_path is searched")                        \
    X(APPLICATION, CODE, "code", STRING, 4, 4095, "", "code", RESTART, 0,                          \
      "`copy`: replicas start from a copy of the code, made when it was deployed; `live`: from "   \
      "its files as they are at that time; `sha256:…`: from this copy; `pickle:…`: what a "    \
      "program has uploaded; default `copy`")                                                      \
    X(APPLICATION, CODE_EXCLUDE, "code_exclude", TEXTS, 0, 256, "", "", LIGHT, 0,                  \
      "files and folders that are not copied: patterns of names (`*.bin`) or, with a `/`, of "     \
      "paths (`data/raw`)")                                                                        \
    X(APPLICATION, ENV, "env", MAP, 0, 1024, "", "", RESTART, 0,                                   \
      "environment variables of all its workers")                                                  \
    X(APPLICATION, PYTHON, "python", STRING, 1, 4095, "", "", RESTART, 0,                          \
      "interpreter of its workers; default: `--python`")                                           \
    X(APPLICATION, ARGS, "args", JSON, 0, 16384, "", "object", RESTART, 0,                         \
      "arguments of the function that import_path names, which then builds the application")       \
    X(APPLICATION, GRPC_SERVICERS, "grpc_servicer_functions", TEXTS, 0, 64, "", "", RESTART, 0,    \
      "gRPC services of its ingress deployment: import paths of the functions that protoc makes, " \
      "`pkg.greeter_pb2_grpc.add_GreeterServicer_to_server`")                                      \
    X(APPLICATION, ROUTE_PREFIX, "route_prefix", STRING, 1, 1024, "", "prefix", LIGHT, 0,          \
      "path below which HTTP requests go to it, unique: `/` or `/shop`; default: none do")         \
    X(APPLICATION, RUNTIME_ENV, "runtime_env", JSON, 0, 1 << 20, "",                               \
      "object:env_vars|working_dir|py_modules", SAME, 0,                                           \
      "as Ray Serve's: `env_vars` are added to env, `working_dir` is the key of this level, the "  \
      "folders of `py_modules` (absolute paths of modules) are PYTHONPATH; keys of this level "    \
      "count more, and it is stored as them")                                                      \
    X(APPLICATION, EXTERNAL_SCALER, "external_scaler_enabled", BOOL, 0, 1, "", "", LIGHT, 0,       \
      "as Ray Serve's: a program of yours sets the numbers of replicas (`POST …/scale`), so no " \
      "deployment may have an autoscaling_config")                                                 \
    X(APPLICATION, AUTOSCALING_POLICY, "autoscaling_policy", JSON, 0, 65536, "",                   \
      "object:policy_function|name|policy_kwargs", LIGHT, 0,                                       \
      "as Ray Serve's: one function of the program decides the number of replicas of all its "     \
      "deployments with an autoscaling_config "                                                    \
      "([autoscaling](autoscaling.md#a-policy-for-an-application))")                               \
    X(APPLICATION, DEPLOYMENTS, "deployments", OBJECTS, 0, 100000, "", "deployment", SAME, 0,      \
      "options of its deployments; a deployment that is not listed has those of the code")         \
    X(DEPLOYMENT, NAME, "name", STRING, 1, AS_SPEC_NAME_MAX, "", "name", SAME,                     \
      REQUIRED | AS_SPEC_UNIQUE, "the name in the code; unique in its application")                \
    X(DEPLOYMENT, NUM_REPLICAS, "num_replicas", INT, 0, 1024, "1", "auto", LIGHT, 0,               \
      "number of workers that serve it; `auto`: autoscaling_config says, with a default of 100 "   \
      "for max_replicas")                                                                          \
    X(DEPLOYMENT, INGRESS, "ingress", BOOL, 0, 1, "", "", LIGHT, 0,                                \
      "it is what a handle of the application calls; set by the program that deploys it")          \
    X(DEPLOYMENT, VERSION, "version", TEXT, 1, 128, "", "", RESTART, 0,                            \
      "free text; a change alone replaces all replicas")                                           \
    X(DEPLOYMENT, USER_CONFIG, "user_config", JSON, 0, 1 << 20, "", "", RECONFIGURE, 0,            \
      "any value; passed to `reconfigure` of the code at the start and after each change")         \
    X(DEPLOYMENT, MAX_ONGOING_REQUESTS, "max_ongoing_requests", INT, 1, 65535, "", "",             \
      RECONFIGURE, 0,                                                                              \
      "requests that one replica executes at once; default: what its models declare")              \
    X(DEPLOYMENT, MAX_QUEUED_REQUESTS, "max_queued_requests", INT, -1, 10000000, "", "",           \
      RECONFIGURE, NOT_ZERO,                                                                       \
      "requests that may wait; more are refused; -1: no limit; default: `--max-queued-requests`")  \
    X(DEPLOYMENT, MAX_QUEUED_PER_CALLER, "max_queued_requests_per_caller", BOOL, 0, 1, "", "",     \
      RECONFIGURE, 0,                                                                              \
      "`max_queued_requests` holds for each caller apart: each replica, each driver, and all "     \
      "clients together; default: for all")                                                        \
    X(DEPLOYMENT, PRIORITY_SHARE, "priority_share", INT, 2, 1000, "8", "", RECONFIGURE, 0,         \
      "of so many calls that are sent while requests of lower priorities wait one is theirs")      \
    X(DEPLOYMENT, FAIRNESS, "fairness", ENUM, 0, 0, "off", "off|tenant", RECONFIGURE, 0,           \
      "`tenant`: tenants get equal shares; `--tenant-header` says where their names are")          \
    X(DEPLOYMENT, FAIRNESS_COST, "fairness_cost", ENUM, 0, 0, "requests", "requests|items|header", \
      RECONFIGURE, 0,                                                                              \
      "what a tenant has equal shares of: `requests`, `items` of batches, or what the field of "   \
      "`--cost-header` says")                                                                      \
    X(DEPLOYMENT, CODEL_TARGET, "codel_target_s", DURATION, 0, 60 * AS_SEC, "0", "", RECONFIGURE,  \
      0,                                                                                           \
      "sheds requests that have waited for more than twice this time while none waits less than "  \
      "it; 0: off; 0.005 is usual")                                                                \
    X(DEPLOYMENT, CODEL_INTERVAL, "codel_interval_s", DURATION, AS_MS, 3600 * (int64_t)AS_SEC,     \
      "0.1", "", RECONFIGURE, 0, "for how long all must wait so long before it sheds")             \
    X(DEPLOYMENT, SLOW_START, "slow_start_s", DURATION, 0, (int64_t)AS_SLOW_START_MAX, "0", "",    \
      RECONFIGURE, 0,                                                                              \
      "time in which a new replica beside others gets from one request at once to all of its "     \
      "slots; 0: off")                                                                             \
    X(DEPLOYMENT, ADAPTIVE, "adaptive_concurrency", BOOL, 0, 1, "false", "", RECONFIGURE, 0,       \
      "executes fewer requests at once in a replica, down from max_ongoing_requests, while more "  \
      "only make them slower")                                                                     \
    X(DEPLOYMENT, HEDGE_QUANTILE, "hedge_quantile", NUMBER, 0, 999, "0", "", RECONFIGURE, 0,       \
      "a request that may be executed again is sent to a second replica, too, when it has run "    \
      "for longer than this part of the requests does (0.95: the p95), and the first answer "      \
      "counts; 0: off")                                                                            \
    X(DEPLOYMENT, HEDGE_BUDGET, "hedge_budget", NUMBER, 1, 1000, "0.02", "", RECONFIGURE, 0,       \
      "of the requests that may be hedged, this part is at most")                                  \
    X(DEPLOYMENT, HEDGE_MIN_DELAY, "hedge_min_delay_s", DURATION, 0, 3600 * (int64_t)AS_SEC,       \
      "0.001", "", RECONFIGURE, 0, "a request is not hedged before it has run for so long")        \
    X(DEPLOYMENT, REQUEST_TIMEOUT, "request_timeout_s", DURATION, 0, AS_SPEC_DAY, "0", "",         \
      RECONFIGURE, 0, "deadline of a request that has none; 0: none")                              \
    X(DEPLOYMENT, IDEMPOTENT, "idempotent", BOOL, 0, 1, "", "", RECONFIGURE, 0,                    \
      "requests may be executed again when a worker dies; default: what each model declares")      \
    X(DEPLOYMENT, EXECUTION_TIMEOUT, "execution_timeout_s", DURATION, 0, AS_SPEC_DAY, "0", "",     \
      RECONFIGURE, 0,                                                                              \
      "a worker that executes one request for longer counts as hung and is replaced; 0: off")      \
    X(DEPLOYMENT, HEALTH_CHECK_PERIOD, "health_check_period_s", DURATION, 100 * AS_MS,             \
      AS_SPEC_DAY, "10", "", RECONFIGURE, 0, "how often `check_health` of the code is called")     \
    X(DEPLOYMENT, HEALTH_CHECK_TIMEOUT, "health_check_timeout_s", DURATION, 10 * AS_MS,            \
      AS_SPEC_DAY, "30", "", RECONFIGURE, 0, "time in which `check_health` must return")           \
    X(DEPLOYMENT, HEALTH_CHECK_FAILURES, "health_check_failure_threshold", INT, 1, 100, "3", "",   \
      RECONFIGURE, 0, "failures in a row after which the replica is replaced")                     \
    X(DEPLOYMENT, FALLBACK, "fallback", STRING, 1, AS_ID_MAX, "", "deployment", RECONFIGURE, 0,    \
      "deployment (of another application: `APPLICATION/NAME`) that gets the requests which this " \
      "one cannot serve now, if it serves a version of the same model")                            \
    X(DEPLOYMENT, CANARY, "canary_percent", NUMBER, 0, 100000, "", "", RECONFIGURE, 0,             \
      "its versions are never the default ones, but get this percentage of the requests without "  \
      "a version; default: it is no canary")                                                       \
    X(DEPLOYMENT, MIRROR, "mirror_percent", NUMBER, 0, 100000, "", "", RECONFIGURE, 0,             \
      "it gets copies of this percentage of the requests to other versions of its models, and "    \
      "its responses are discarded; default: none")                                                \
    X(DEPLOYMENT, MAX_RESTARTS, "max_restarts", INT, -1, 1000000, "", "", LIGHT, 0,                \
      "how often a replica that fails to start is started again before it waits for "              \
      "`--restart-backoff-max`; -1: no limit; default: by `--max-start-failures`")                 \
    X(DEPLOYMENT, MAX_CONSTRUCTOR_RETRIES, "max_constructor_retry_count", INT, 1, 1000000, "", "", \
      LIGHT, 0,                                                                                    \
      "as Ray Serve's: how often a replica may fail to start before it waits as with "             \
      "max_restarts, which must not be given, too")                                                \
    X(DEPLOYMENT, WARM_SPARES, "warm_spares", INT, 0, 64, "", "", LIGHT, 0,                        \
      "processes that have loaded its code and wait to replace a dead replica; a change applies "  \
      "from the next start on; not with num_gpus or `cpu_affinity: auto`; default: "               \
      "`--warm-spares`")                                                                           \
    X(DEPLOYMENT, SHUTDOWN_WAIT, "graceful_shutdown_wait_loop_s", DURATION, 0, AS_SPEC_DAY, "0",   \
      "", LIGHT, 0, "time between two checks whether a retired replica is idle; 0: one second")    \
    X(DEPLOYMENT, SHUTDOWN_TIMEOUT, "graceful_shutdown_timeout_s", DURATION, 0, AS_SPEC_DAY, "20", \
      "", LIGHT, 0,                                                                                \
      "time that a retired replica has to finish its requests before it is stopped; in an update " \
      "the value of the replica's own version applies")                                            \
    X(DEPLOYMENT, ROLLING_UPDATE, "rolling_update_percentage", NUMBER, 1, 1000, "0.2", "", LIGHT,  \
      0,                                                                                           \
      "fraction of the replicas that an update replaces at once, above 0 and up to 1; at least "   \
      "one replica")                                                                               \
    X(DEPLOYMENT, MAX_SURGE, "max_surge", AMOUNT, 0, 1024, "", "", LIGHT, 0,                       \
      "processes that an update may have beyond num_replicas; a percentage is rounded up; "        \
      "default: by rolling_update_percentage")                                                     \
    X(DEPLOYMENT, MAX_SURGE_PERCENT, "max_surge_percent", INT, 0, 100, "", "", LIGHT, 0,           \
      "as Ray Serve's: max_surge as a percentage, which must not be given, too; 0: not set")       \
    X(DEPLOYMENT, MAX_UNAVAILABLE, "max_unavailable", AMOUNT, 0, 1024, "0", "", LIGHT, 0,          \
      "replicas below num_replicas that may be missing during an update; a percentage is rounded " \
      "down; one, when max_surge is 0")                                                            \
    X(DEPLOYMENT, AUTOSCALING, "autoscaling_config", JSON, 0, 65536, "",                           \
      "object:min_replicas|initial_replicas|max_replicas|target_ongoing_requests|"                 \
      "metrics_interval_s|look_back_period_s|smoothing_factor|upscale_smoothing_factor|"           \
      "downscale_smoothing_factor|upscaling_factor|downscaling_factor|downscale_delay_s|"          \
      "downscale_to_zero_delay_s|upscale_delay_s|aggregation_function|policy|target_latency_ms|"   \
      "schedule",                                                                                  \
      LIGHT, 0,                                                                                    \
      "the number of replicas follows the load, as Ray Serve's; [its keys](autoscaling.md); not "  \
      "with a number in num_replicas")                                                             \
    X(DEPLOYMENT, REQUEST_ROUTER, "request_router_config", JSON, 0, 65536, "",                     \
      "object:request_router_class|request_router_kwargs|request_routing_stats_period_s|"          \
      "request_routing_stats_timeout_s|initial_backoff_s|backoff_multiplier|max_backoff_s",        \
      RECONFIGURE, 0,                                                                              \
      "how a replica is chosen: `request_router_class` is a built-in policy with arguments in "    \
      "`request_router_kwargs` ([routing](routing.md)), or a class `module:Class` of the program " \
      "([routers](routers.md)); default: `--router`")                                              \
    X(DEPLOYMENT, BACKPRESSURE, "backpressure_config", JSON, 0, 4096, "",                          \
      "object:status_code|retry_after_s", RECONFIGURE, 0,                                          \
      "as Ray Serve's: what an HTTP client gets when max_queued_requests wait: `status_code` 503 " \
      "(the default) or 429, `Retry-After` of `retry_after_s` (0 to 86400, rounded up; default: "  \
      "estimated)")                                                                                \
    X(DEPLOYMENT, NUM_CPUS, "num_cpus", NUMBER, 1, 1024000, "", "", RESTART, 0,                    \
      "sets the variables for the number of threads (OMP_NUM_THREADS, …), rounded up; default: " \
      "not set, unless the control group's CPU quota is less than the CPUs: the quota")            \
    X(DEPLOYMENT, NUM_GPUS, "num_gpus", NUMBER, 0, 64000, "", "", RESTART, 0,                      \
      "devices in CUDA_VISIBLE_DEVICES, or a part of one; 0: none is visible; default: the "       \
      "variable is left as it is")                                                                 \
    X(DEPLOYMENT, CPU_AFFINITY, "cpu_affinity", TEXT, 1, 4095, "", "cpus", RESTART, 0,             \
      "CPUs on which a replica may run: a list as `0-3,8`, or `auto`: num_cpus CPUs of its own")   \
    X(DEPLOYMENT, MEMORY, "memory", SIZE, 1 << 20, (int64_t)1 << 50, "", "", RESTART, 0,           \
      "a replica that uses more is killed (cgroup) or cannot allocate more (rlimit); `512M`, "     \
      "`4G`")                                                                                      \
    X(DEPLOYMENT, WORKING_DIR, "working_dir", STRING, 1, 4095, "", "", RESTART, 0,                 \
      "folder in which its workers start; default: the application's")                             \
    X(DEPLOYMENT, ENV, "env", MAP, 0, 1024, "", "", RESTART, 0,                                    \
      "environment variables in addition to the application's")                                    \
    X(DEPLOYMENT, WARMUP, "warmup_requests", OBJECTS, 0, 100, "", "warmup", RESTART, 0,            \
      "requests that each new replica executes before it gets others")                             \
    X(DEPLOYMENT, LOGGING, "logging_config", OBJECT, 0, 1, "", "logging", RECONFIGURE, 0,          \
      "Python's logging in its workers")                                                           \
    X(WARMUP, MODEL, "model", STRING, 1, AS_SPEC_NAME_MAX, "", "", RESTART, 0,                     \
      "model to call; required when the deployment has several")                                   \
    X(WARMUP, VERSION, "model_version", STRING, 1, 64, "", "", RESTART, 0,                         \
      "version to call; default: the one for clients that give none")                              \
    X(WARMUP, COUNT, "count", INT, 1, 10000, "1", "", RESTART, 0,                                  \
      "how often the request is executed")                                                         \
    X(WARMUP, REQUEST, "request", JSON, 0, 1 << 20, "", "object", RESTART, REQUIRED,               \
      "a request in the form of POST /v2/models/MODEL/infer")                                      \
    X(LOGGING, LEVEL, "log_level", ENUM, 0, 0, "INFO", "DEBUG|INFO|WARNING|ERROR|CRITICAL",        \
      RECONFIGURE, 0, "least severe level that is logged")                                         \
    X(LOGGING, ENCODING, "encoding", ENUM, 0, 0, "TEXT", "TEXT|JSON", RECONFIGURE, 0,              \
      "lines of text, or one JSON object for each record")                                         \
    X(LOGGING, LOGS_DIR, "logs_dir", STRING, 1, 4095, "", "", RECONFIGURE, 0,                      \
      "folder in which each replica also writes a file of its lines")                              \
    X(LOGGING, ACCESS, "enable_access_log", BOOL, 0, 1, "true", "", RECONFIGURE, 0,                \
      "a line for each call of a handle")                                                          \
    X(LOGGING, ATTRS, "additional_log_standard_attrs", TEXTS, 0, 32, "", "", RECONFIGURE, 0,       \
      "attributes of Python's LogRecord that each line has, too")

#define AS_SPEC_0 0u /* no flag */

enum as_spec_key {
#define X(level, id, key, type, min, max, def, words, cls, flags, doc) AS_SPEC_##level##_##id,
    AS_SPEC_TABLE(X)
#undef X
        AS_SPEC_KEYS
};

struct as_spec_row {
    enum as_spec_level level;
    const char *key;
    enum as_spec_type type;
    int64_t min, max;
    const char *def, *words;
    enum as_spec_class cls;
    uint32_t flags;
    const char *doc;
};

extern const struct as_spec_row as_spec_rows[AS_SPEC_KEYS];

/* The rows of a level are contiguous: the first one, and how many there are. */
uint32_t as_spec_first_key(enum as_spec_level level);
uint32_t as_spec_key_count(enum as_spec_level level);
/* "file", "application", … */
const char *as_spec_level_name(enum as_spec_level level);
/* "light", "reconfigure", "restart"; "" of SAME */
const char *as_spec_class_name(enum as_spec_class cls);
/* The level of the objects of an OBJECT or OBJECTS row. */
enum as_spec_level as_spec_inner_level(const struct as_spec_row *row);

/* How many of the value's units are one in the file: 1000 of a NUMBER, the ns of a second. */
static inline int64_t as_spec_unit(const struct as_spec_row *row)
{
    return row->type == AS_SPEC_NUMBER ? 1000 : row->type == AS_SPEC_DURATION ? (int64_t)AS_SEC : 1;
}

/* The regular expression (ECMA 262) for the text of a STRING or TEXT row, or NULL. For the schema;
 * as_spec_matches makes the same check in C. */
const char *as_spec_pattern(const struct as_spec_row *row);
bool as_spec_matches(const struct as_spec_row *row, struct as_str text);
/* The error for a text that does not match, as the end of a sentence. */
const char *as_spec_form_error(const struct as_spec_row *row);

/* For a key that other systems have at this level: a hint what to write instead, or NULL. */
const char *as_spec_foreign_key_hint(enum as_spec_level level, struct as_str key);

#endif
