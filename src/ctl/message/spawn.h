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

/* The numbers of proto/state.proto. */
enum as_spawn_item {
    AS_SPAWN_ARG = 1, /* the first one: the program */
    AS_SPAWN_ENV,     /* "NAME=value" */
    AS_SPAWN_OWN_ENV, /* a variable of this one process: a spare gets it when it becomes the replica
                         (ctl/supervise/spares.h) */
    AS_SPAWN_SPARES,  /* a number: of the deployment */
    AS_SPAWN_BATCH,   /* 1: scheduled as SCHED_BATCH, see io/process/proc */
    AS_SPAWN_DIR,     /* working directory at the start */
    AS_SPAWN_CPUS,    /* it may run on: "0-3,8" */
    AS_SPAWN_MEMORY   /* a number: its limit in bytes */
};

/* Appends an item that is a text; of those that there can be one of, the last counts. The writer
 * makes sure that the text has at most AS_CTL_TEXT_MAX bytes. */
void as_spawn_put(struct as_buf *text, enum as_spawn_item item, const char *fmt, ...)
    AS_PRINTF(3, 4);
void as_spawn_put_number(struct as_buf *text, enum as_spawn_item item, uint64_t v);

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
