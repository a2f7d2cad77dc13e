/* ctl/worker/worker_spec.h — what a worker process is started with: program, arguments,
 * environment, folder, limits.
 *
 * The controller writes it from the deployment's keys as the text of SPAWN (ctl/message/spawn.h).
 * Pure.
 */
#ifndef AS_CTL_WORKER_SPEC_H
#define AS_CTL_WORKER_SPEC_H

#include "conf/spec/spec.h"

/* Bytes of the text for a deployment's own keys: command or import_path, code, working_dir, env. */
#define AS_WORKER_SPEC_OWN_MAX 40000u

/* The variable with the key `args` of the application. */
#define AS_WORKER_SPEC_ARGS "ANYSERVE_APP_ARGS"

/* The variable with its key `grpc_servicer_functions`, separated by commas. */
#define AS_WORKER_SPEC_SERVICERS "ANYSERVE_GRPC_SERVICER_FUNCTIONS"
/* "VARIABLE=PATH,PATH", the caller's; NULL: there are none. */
char *as_worker_spec_servicers(const struct as_spec_object *app);

struct as_worker_spec_conf { /* the server's part; strings are the caller's, and outlive it */
    const char *python;
    const char *link; /* path of the dispatcher's unix socket */
    bool debug_errors;
    uint32_t stream_inputs; /* options of a worker for input streams: link/worker/worker.h */
    uint64_t stream_input_bytes;
    uint32_t spares;            /* of a deployment without warm_spares */
    bool batch;                 /* workers run as SCHED_BATCH, see io/process/proc */
    uint32_t numerical_threads; /* of deployments without num_cpus; 0: what libraries choose */
    const char *code;           /* folder of the copies of code */
    const char *cwd;            /* the server's working directory; "": it has none */
};

struct as_worker_spec_replica { /* the part of one process alone */
    const char *name, *token;
    const char *context;     /* "ANYSERVE_CONTEXT=…" or "ANYSERVE_CONTEXT_FILE=…"
                                (ctl/message/replica_context.h) */
    const char *gpus, *cpus; /* devices assigned to it, or NULL: as_spec_spawn_init */
};

/* Appends the text of SPAWN to `text`. */
void as_worker_spec_write(const struct as_worker_spec_conf *conf, const struct as_spec_object *app,
                          const struct as_spec_object *deployment,
                          const struct as_worker_spec_replica *replica, struct as_buf *text);
/* How many bytes of AS_WORKER_SPEC_OWN_MAX the deployment's keys take. */
size_t as_worker_spec_own_size(const struct as_spec_object *app,
                               const struct as_spec_object *deployment, const char *cwd);

#endif
