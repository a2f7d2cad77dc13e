/* ctl/message/spawn.h — the text of SPAWN: what a worker process is started with.
 *
 * The controller writes it (ctl/worker/worker_spec), the supervisor parses it and starts the
 * process. It is a Spawn of proto/state.proto: an item of a later version is skipped. Pure.
 */
#ifndef AS_CTL_SPAWN_H
#define AS_CTL_SPAWN_H

#include "base/buf.h"
#include "base/err.h"

#include <state.pb-c.h>

/* Each appends one item; of those that there can be one of, the last counts. The writer makes sure
 * that the text has at most AS_CTL_TEXT_MAX bytes. */
void as_spawn_put_arg(struct as_buf *text, const char *arg); /* the first one: the program */
void as_spawn_put_env(struct as_buf *text, const char *env); /* "NAME=value" */
/* A variable of this one process: a spare gets it when it becomes the replica
 * (ctl/supervise/spares.h). */
void as_spawn_put_own_env(struct as_buf *text, const char *env);
void as_spawn_put_spares(struct as_buf *text, uint32_t n); /* of the deployment */
void as_spawn_put_batch(struct as_buf *text); /* scheduled as SCHED_BATCH, see io/process/proc */
void as_spawn_put_dir(struct as_buf *text, const char *dir);   /* working directory at the start */
void as_spawn_put_cpus(struct as_buf *text, const char *list); /* it may run on: "0-3,8" */
void as_spawn_put_memory(struct as_buf *text, uint64_t bytes); /* memory limit */

struct as_spawn {
    const char **argv, **env; /* NULL-terminated; the strings are the message's */
    bool batch;
    const char *dir, *cpus; /* or NULL */
    uint64_t memory;        /* 0: no limit */
    As__Spawn *message;
};

/* 0, or AS_EPROTO: the text is invalid, or has no program. */
int as_spawn_parse(struct as_spawn *ret_s, struct as_str text);
void as_spawn_fini(struct as_spawn *s);
/* Appends the items that a spare can share to `shared`, and the variables of this one process to
 * `own`, as "NAME=value" with a NUL each. The result for an invalid text is not defined. */
void as_spawn_split(struct as_str text, struct as_buf *shared, struct as_buf *own);
uint32_t as_spawn_spares(struct as_str text);

#endif
