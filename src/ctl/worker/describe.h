/* ctl/worker/describe.h — asks the worker program what an application's code declares, before it is
 * served: `PYTHON -m anyserve.worker TARGET --describe=lines`.
 */
#ifndef AS_CTL_DESCRIBE_H
#define AS_CTL_DESCRIBE_H

#include "conf/declared.h"
#include "io/loop/loop.h"

/* The code is served from a copy (ctl/state/code_store.h). */
struct as_describe_code {
    const char *store;
    const char *copy;     /* this one, as the key `code` has it; NULL: it is made first */
    bool folder;          /* of all that is in `dir` */
    const char **exclude; /* patterns, NULL-terminated; or NULL */
    const char *known;    /* a copy that need not be described; or NULL */
    uint64_t max_bytes;
    uint32_t max_files;
};

struct as_describe_source { /* how the code is loaded */
    const char *python, *target;
    const char *dir;                     /* or NULL: ours */
    const char **env;                    /* "NAME=value" on top of ours, NULL-terminated; or NULL */
    const struct as_describe_code *code; /* NULL: from its own files */
    as_ns timeout;                       /* as_describe_run: it is ended after this; 0: never */
};

/* The command line that describes it, and where it is run. */
struct as_describe_command {
    const char **argv;
    const char *dir; /* or NULL */
    struct as_buf texts;
};
void as_describe_command_init(struct as_describe_command *ret_c,
                              const struct as_describe_source *where);
void as_describe_command_fini(struct as_describe_command *c);

/* Runs the interpreter and waits; its stderr is ours. signal_fd: a signalfd whose first signal ends
 * the child. Returns 0; an exit code of as_exit_code (the child has told why on stderr, or `err`
 * does); AS_EXIT_CODE_SIGNAL + n after a signal. */
int as_describe_run(struct as_declared *ret_app, const struct as_describe_source *where,
                    int signal_fd, struct as_buf *err);

/* Names a file in `dir` (NULL: ours) that Python takes for a module that it needs before the worker
 * program can put the folder behind its own (python/anyserve/worker.py). False: there is none. */
bool as_describe_find_shadowing(const char *dir, struct as_buf *out);

/* The same beside a loop. */
struct as_describe_job;

/* app: 0, and it is the callee's from here on. Else NULL, and `why` has what is wrong, what the
 * code printed last included. */
typedef void as_describe_done_fn(void *ctx, struct as_declared *app, struct as_str why);

/* done comes once, later, unless it is stopped before. oom_seen: ctl/supervise/process.h. After
 * `timeout` the child is killed. AS_EIO: it could not be started, `err` says why. */
int as_describe_start(struct as_describe_job **ret_d, struct as_loop *loop,
                      const struct as_describe_source *where, as_ns timeout, uint64_t *oom_seen,
                      as_describe_done_fn *done, void *ctx, struct as_buf *err);
void as_describe_stop(struct as_describe_job *d); /* the child is killed; NULL is fine */

#endif
