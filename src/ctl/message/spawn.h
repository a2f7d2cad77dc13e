/* ctl/message/spawn.h — what a worker is started with, as the text of SPAWN.
 *
 * The controller writes it, the supervisor does as it says. A row of strings, each with one letter
 * in front that says what it is, each ended by a NUL. Pure.
 */
#ifndef AS_CTL_SPAWN_H
#define AS_CTL_SPAWN_H

#include "base/buf.h"
#include "base/err.h"

/* Appends one item to the text. Not longer in sum than AS_CTL_TEXT_MAX: the writer looks. */
void as_spawn_put_arg(struct as_buf *text, const char *arg); /* the first one: the program */
void as_spawn_put_env(struct as_buf *text, const char *env); /* "NAME=value" */
/* The same, of this process alone: a spare hears it when it takes the place
 * (ctl/supervise/spares.h). */
void as_spawn_put_own_env(struct as_buf *text, const char *env);
void as_spawn_put_spares(struct as_buf *text, uint32_t n); /* that the deployment wants */
void as_spawn_put_batch(struct as_buf *text); /* runs as SCHED_BATCH, see io/process/proc */
void as_spawn_put_dir(struct as_buf *text, const char *dir);   /* where it starts */
void as_spawn_put_cpus(struct as_buf *text, const char *list); /* that it may run on: "0-3,8" */
void as_spawn_put_memory(struct as_buf *text, uint64_t bytes); /* that it may have */

struct as_spawn {
    const char **argv, **env; /* NULL-terminated; the strings lie in the text that was read */
    bool batch;
    const char *dir, *cpus; /* or NULL */
    uint64_t memory;        /* 0: no bound */
};

/* 0, or AS_EPROTO: no such text, or one without a program. */
int as_spawn_parse(struct as_spawn *ret_s, struct as_str text);
void as_spawn_fini(struct as_spawn *s);
/* The recipe, less what is of one process alone, which goes to `own` as "NAME=value" with a NUL
 * each. Of a text that cannot be read: something. */
void as_spawn_split(struct as_str text, struct as_buf *shared, struct as_buf *own);
uint32_t as_spawn_spares(struct as_str text);

#endif
