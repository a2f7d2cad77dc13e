/* ctl/worker/worker_spec.h — what a worker is started with: program, arguments, environment, where
 * and bounded how.
 *
 * The text of SPAWN, made by the controller from the deployment's keys. Pure.
 */
#ifndef AS_CTL_WORKER_SPEC_H
#define AS_CTL_WORKER_SPEC_H

#include "conf/spec.h"

/* Bytes that a deployment's own keys (command or import_path, code, working_dir, env) may take of
 * it. */
#define AS_WORKER_SPEC_OWN_MAX 40000u

struct as_worker_spec_conf { /* what the server says; strings are the caller's, and outlive it */
    const char *python;
    const char *link; /* path of the dispatcher's unix socket */
    bool debug_errors;
    uint32_t stream_inputs; /* what a worker is told of streams of inputs, link/worker.h */
    uint64_t stream_input_bytes;
    uint32_t spares;  /* that a deployment has which says nothing of them */
    bool batch;       /* workers run as SCHED_BATCH, see io/process/proc */
    const char *code; /* folder of the copies of code */
    const char *cwd;  /* of the server; "": it has none */
};

struct as_worker_spec_replica { /* what one process has for itself */
    const char *name, *token;
    const char
        *context; /* "ANYSERVE_CONTEXT=…", or where it lies (ctl/message/replica_context.h) */
    const char *gpus, *cpus; /* lists that were taken for it: as_spec_spawn_init */
};

/* Appends to `text`, which ctl/message/spawn reads. */
void as_worker_spec_write(const struct as_worker_spec_conf *r, const struct as_spec_object *app,
                          const struct as_spec_object *deployment,
                          const struct as_worker_spec_replica *p, struct as_buf *text);
/* How many bytes of AS_WORKER_SPEC_OWN_MAX the deployment takes. */
size_t as_worker_spec_own_size(const struct as_spec_object *app,
                               const struct as_spec_object *deployment, const char *cwd);

#endif
