/* conf/spec_row.h — the one table of keys of a deployment file.
 *
 * A row feeds the parser, validation, the comparison of two files, `anyserve schema`, `anyserve
 * build`, the checks of the Python objects and the documentation page. Names are Ray Serve's where
 * it has one.
 */
#ifndef AS_CONF_SPEC_ROW_H
#define AS_CONF_SPEC_ROW_H

#include "base/str.h"

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
    AS_SPEC_INT,      /* a whole number */
    AS_SPEC_NUMBER,   /* held, and bounded, in thousandths */
    AS_SPEC_DURATION, /* a number of seconds; held, and bounded, in ns */
    AS_SPEC_SIZE,     /* bytes, or "512M"; suffixes as of options */
    AS_SPEC_AMOUNT,   /* a whole number, whose bounds these are, or a part of 100, "25%" */
    AS_SPEC_STRING,   /* min and max are lengths in bytes */
    AS_SPEC_TEXT,     /* the same, and a number or a word is taken as it is written */
    AS_SPEC_ENUM,     /* one of `words` */
    AS_SPEC_JSON,     /* anything that JSON can say; max: bytes as JSON */
    AS_SPEC_TEXTS,    /* a list of TEXT; min and max are counts */
    AS_SPEC_MAP,      /* names to TEXT; max is a count */
    AS_SPEC_OBJECT,   /* a mapping of another level, its name in `words` */
    AS_SPEC_OBJECTS   /* a list of them; max is a count */
};

/* What a change of the value costs the replicas that run. */
enum as_spec_class {
    AS_SPEC_SAME,        /* nothing: the key names or holds something */
    AS_SPEC_LIGHT,       /* the controller's business alone, no worker is told */
    AS_SPEC_RECONFIGURE, /* the workers are told while they serve, and tell the dispatcher */
    AS_SPEC_RESTART      /* new replicas take over from the old ones */
};

#define AS_SPEC_REQUIRED 0x1u
#define AS_SPEC_NOT_ZERO 0x2u
#define AS_SPEC_UNIQUE   0x4u /* no two objects of the list have it */

#define AS_SPEC_NAME_MAX 128
#define AS_SPEC_DAY      (86400 * (int64_t)AS_SEC)

/* level, id, key, type, min, max, default as it is typed ("": none), words, class, flags, doc.
 * words: "a|b" of an enum; "name" for a string that must be a name; the level of an object. */
#define AS_SPEC_TABLE(X)                                                                           \
    X(FILE, APPLICATIONS, "applications", OBJECTS, 0, 100000, "", "application", SAME, REQUIRED,   \
      "what is served; an application that is not listed is removed")                              \
    X(APPLICATION, NAME, "name", STRING, 1, AS_SPEC_NAME_MAX, "default", "name", SAME, UNIQUE,     \
      "one of its own")                                                                            \
    X(APPLICATION, IMPORT_PATH, "import_path", STRING, 1, 4095, "", "", RESTART, 0,                \
      "Python code: `module:app`, `module`, `file.py` or `file.py:app`")                           \
    X(APPLICATION, COMMAND, "command", TEXTS, 1, 1024, "", "", RESTART, 0,                         \
      "or a program and its arguments: a worker on the link, as the C library makes one")          \
    X(APPLICATION, WORKING_DIR, "working_dir", STRING, 1, 4095, "", "", RESTART, 0,                \
      "where workers start, and where import_path is looked for")                                  \
    X(APPLICATION, CODE, "code", STRING, 4, 4095, "", "code", RESTART, 0,                          \
      "`copy`: replicas start from a copy of the code as it was when it was deployed; `live`: "    \
      "from its files as they are then; `sha256:…`: from that copy; default `copy`")               \
    X(APPLICATION, CODE_EXCLUDE, "code_exclude", TEXTS, 0, 256, "", "", LIGHT, 0,                  \
      "files and folders that are not copied: patterns of names (`*.bin`) or, with a `/`, of "     \
      "paths (`data/raw`)")                                                                        \
    X(APPLICATION, ENV, "env", MAP, 0, 1024, "", "", RESTART, 0,                                   \
      "environment variables of all its workers")                                                  \
    X(APPLICATION, DEPLOYMENTS, "deployments", OBJECTS, 0, 100000, "", "deployment", SAME, 0,      \
      "options of its deployments; one that is not listed has those of the code")                  \
    X(DEPLOYMENT, NAME, "name", STRING, 1, AS_SPEC_NAME_MAX, "", "name", SAME,                     \
      REQUIRED | AS_SPEC_UNIQUE, "as in the code; one of its own in the whole file")               \
    X(DEPLOYMENT, NUM_REPLICAS, "num_replicas", INT, 0, 1024, "1", "", LIGHT, 0,                   \
      "workers that serve it")                                                                     \
    X(DEPLOYMENT, VERSION, "version", TEXT, 1, 128, "", "", RESTART, 0,                            \
      "free text; a change alone replaces all replicas")                                           \
    X(DEPLOYMENT, USER_CONFIG, "user_config", JSON, 0, 1 << 20, "", "", RECONFIGURE, 0,            \
      "any value; handed to `reconfigure` of the code, at the start and when it changes")          \
    X(DEPLOYMENT, MAX_ONGOING_REQUESTS, "max_ongoing_requests", INT, 1, 65535, "", "",             \
      RECONFIGURE, 0, "executing at once in one replica; default: what its models declare")        \
    X(DEPLOYMENT, MAX_QUEUED_REQUESTS, "max_queued_requests", INT, -1, 10000000, "", "",           \
      RECONFIGURE, NOT_ZERO,                                                                       \
      "waiting; more are refused; -1: no limit; default: `--max-queued-requests`")                 \
    X(DEPLOYMENT, REQUEST_TIMEOUT, "request_timeout_s", DURATION, 0, AS_SPEC_DAY, "0", "",         \
      RECONFIGURE, 0, "deadline of a request that brings none; 0: none")                           \
    X(DEPLOYMENT, IDEMPOTENT, "idempotent", BOOL, 0, 1, "", "", RECONFIGURE, 0,                    \
      "requests may be repeated when a worker dies; default: what each model declares")            \
    X(DEPLOYMENT, EXECUTION_TIMEOUT, "execution_timeout_s", DURATION, 0, AS_SPEC_DAY, "0", "",     \
      RECONFIGURE, 0,                                                                              \
      "a worker that executes one request for longer is hung and is replaced; 0: off")             \
    X(DEPLOYMENT, HEALTH_CHECK_PERIOD, "health_check_period_s", DURATION, 100 * AS_MS,             \
      AS_SPEC_DAY, "10", "", RECONFIGURE, 0, "how often `check_health` of the code is called")     \
    X(DEPLOYMENT, HEALTH_CHECK_TIMEOUT, "health_check_timeout_s", DURATION, 10 * AS_MS,            \
      AS_SPEC_DAY, "30", "", RECONFIGURE, 0, "it must return in this time")                        \
    X(DEPLOYMENT, HEALTH_CHECK_FAILURES, "health_check_failure_threshold", INT, 1, 100, "3", "",   \
      RECONFIGURE, 0, "failures in a row after which the replica is replaced")                     \
    X(DEPLOYMENT, FALLBACK, "fallback", STRING, 1, AS_SPEC_NAME_MAX, "", "name", RECONFIGURE, 0,   \
      "deployment that gets the requests which this one cannot serve now, if it serves a "         \
      "version of the same model")                                                                 \
    X(DEPLOYMENT, CANARY, "canary_percent", NUMBER, 0, 100000, "", "", RECONFIGURE, 0,             \
      "its versions are not the default ones, but get this part of the requests without a "        \
      "version; default: it is no canary")                                                         \
    X(DEPLOYMENT, MIRROR, "mirror_percent", NUMBER, 0, 100000, "", "", RECONFIGURE, 0,             \
      "it gets a copy of this part of what other versions of its models get; its answers go "      \
      "nowhere; default: nothing")                                                                 \
    X(DEPLOYMENT, MAX_RESTARTS, "max_restarts", INT, -1, 1000000, "", "", LIGHT, 0,                \
      "a replica that failed to start is started again so often, then not for "                    \
      "`--restart-backoff-max`; -1: always; default: by `--max-start-failures`")                   \
    X(DEPLOYMENT, WARM_SPARES, "warm_spares", INT, 0, 64, "", "", LIGHT, 0,                        \
      "processes that have loaded its code and wait to replace a dead replica; counts from the "   \
      "next start on; not with num_gpus or `cpu_affinity: auto`; default: `--warm-spares`")        \
    X(DEPLOYMENT, SHUTDOWN_WAIT, "graceful_shutdown_wait_loop_s", DURATION, 0, AS_SPEC_DAY, "0",   \
      "", LIGHT, 0,                                                                                \
      "how often a retired replica is asked again whether it is idle; 0: every second")            \
    X(DEPLOYMENT, SHUTDOWN_TIMEOUT, "graceful_shutdown_timeout_s", DURATION, 0, AS_SPEC_DAY, "20", \
      "", LIGHT, 0,                                                                                \
      "a retired replica has so long for what it executes, then it is ended; in an update the "    \
      "time of its own version counts")                                                            \
    X(DEPLOYMENT, ROLLING_UPDATE, "rolling_update_percentage", NUMBER, 1, 1000, "0.2", "", LIGHT,  \
      0, "part of the replicas that an update replaces at once, above 0 to 1; at least one")       \
    X(DEPLOYMENT, MAX_SURGE, "max_surge", AMOUNT, 0, 1024, "", "", LIGHT, 0,                       \
      "so many processes an update may have beyond num_replicas, a part rounded up; default: by "  \
      "rolling_update_percentage")                                                                 \
    X(DEPLOYMENT, MAX_UNAVAILABLE, "max_unavailable", AMOUNT, 0, 1024, "0", "", LIGHT, 0,          \
      "so many replicas fewer than num_replicas may serve during an update, a part rounded down; " \
      "one, where max_surge comes to 0")                                                           \
    X(DEPLOYMENT, NUM_CPUS, "num_cpus", NUMBER, 1, 1024000, "", "", RESTART, 0,                    \
      "sets the thread-count variables (OMP_NUM_THREADS, …), rounded up")                          \
    X(DEPLOYMENT, NUM_GPUS, "num_gpus", NUMBER, 0, 64000, "", "", RESTART, 0,                      \
      "devices in CUDA_VISIBLE_DEVICES, or a part of one; 0: none is visible; default: untouched") \
    X(DEPLOYMENT, CPU_AFFINITY, "cpu_affinity", TEXT, 1, 4095, "", "cpus", RESTART, 0,             \
      "CPUs that a replica may run on: a list as `0-3,8`, or `auto`: num_cpus of its own")         \
    X(DEPLOYMENT, MEMORY, "memory", SIZE, 1 << 20, (int64_t)1 << 50, "", "", RESTART, 0,           \
      "a replica that takes more is killed (cgroup), or is refused more (rlimit); `512M`, `4G`")   \
    X(DEPLOYMENT, WORKING_DIR, "working_dir", STRING, 1, 4095, "", "", RESTART, 0,                 \
      "where its workers start; default: the application's")                                       \
    X(DEPLOYMENT, ENV, "env", MAP, 0, 1024, "", "", RESTART, 0,                                    \
      "environment variables on top of the application's")                                         \
    X(DEPLOYMENT, WARMUP, "warmup_requests", OBJECTS, 0, 100, "", "warmup", RESTART, 0,            \
      "executed by every new replica before it gets requests")                                     \
    X(DEPLOYMENT, LOGGING, "logging_config", OBJECT, 0, 1, "", "logging", RECONFIGURE, 0,          \
      "Python's logging in its workers")                                                           \
    X(WARMUP, MODEL, "model", STRING, 1, AS_SPEC_NAME_MAX, "", "", RESTART, 0,                     \
      "model that is called; needed when the deployment has several")                              \
    X(WARMUP, VERSION, "model_version", STRING, 1, 64, "", "", RESTART, 0,                         \
      "default the one that a client without a version gets")                                      \
    X(WARMUP, COUNT, "count", INT, 1, 10000, "1", "", RESTART, 0, "how often")                     \
    X(WARMUP, REQUEST, "request", JSON, 0, 1 << 20, "", "object", RESTART, REQUIRED,               \
      "a request as POST /v2/models/MODEL/infer takes it")                                         \
    X(LOGGING, LEVEL, "log_level", ENUM, 0, 0, "INFO", "DEBUG|INFO|WARNING|ERROR|CRITICAL",        \
      RECONFIGURE, 0, "what is logged")                                                            \
    X(LOGGING, ENCODING, "encoding", ENUM, 0, 0, "TEXT", "TEXT|JSON", RECONFIGURE, 0,              \
      "lines of text, or one JSON object each")

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

/* Rows of a level are neighbours: its first, and how many. */
uint32_t as_spec_first_key(enum as_spec_level level);
uint32_t as_spec_key_count(enum as_spec_level level);
/* "file", "application", … */
const char *as_spec_level_name(enum as_spec_level level);
/* The level that an OBJECT or OBJECTS row holds. */
enum as_spec_level as_spec_inner_level(const struct as_spec_row *row);

/* The regular expression (ECMA 262) that the text of a STRING or TEXT row must match, or NULL. What
 * it means is as_spec_matches. */
const char *as_spec_pattern(const struct as_spec_row *row);
bool as_spec_matches(const struct as_spec_row *row, struct as_str text);
/* What is wrong with one that does not match, as the end of a sentence. */
const char *as_spec_form_error(const struct as_spec_row *row);

/* A key that other systems' files have at this level: what to write here instead, or NULL. */
const char *as_spec_foreign_key_hint(enum as_spec_level level, struct as_str key);

#endif
