/* ctl/worker/describe.h — finds out what an application's code declares, before it is served, by
 * running `PYTHON -m anyserve.worker TARGET --describe=lines`.
 *
 * as_describe_start gets the result beside a loop; as_describe_run is the same with a loop of its
 * own (blocking, for commands).
 */
#ifndef AS_CTL_DESCRIBE_H
#define AS_CTL_DESCRIBE_H

#include "conf/spec/declared.h"
#include "io/loop/loop.h"

/* For code that is served from a copy (ctl/state/code_store.h). */
struct as_describe_code {
    const char *store;
    const char *copy;     /* the copy, as the key `code` has it; NULL: one is made first */
    const char *pickle;   /* or the pickled code, as the key has it; NULL: it is none */
    bool folder;          /* copies all of `dir` */
    const char **exclude; /* patterns, NULL-terminated; or NULL */
    const char *known;    /* a copy whose description is known already; or NULL */
    uint64_t max_bytes;
    uint32_t max_files;
};

struct as_describe_source { /* where the code is, and how it is loaded */
    const char *python, *target;
    const char *application;             /* its name, or NULL: the default one */
    const char *dir;                     /* or NULL: ours */
    const char **env;                    /* "NAME=value" on top of ours, NULL-terminated; or NULL */
    const struct as_describe_code *code; /* NULL: from its own files */
    as_ns timeout;                       /* the child is ended after it; 0: none */
    bool shares_stderr; /* the child prints to our stderr, at the timeout also its stacks; else
                           what it prints last is in the reason of a failure */
};

/* The command line that describes a source, and the folder in which it is run. */
struct as_describe_command {
    const char **argv;
    const char *dir; /* or NULL */
    struct as_buf texts;
};
void as_describe_command_init(struct as_describe_command *ret_c,
                              const struct as_describe_source *source);
void as_describe_command_fini(struct as_describe_command *c);

/* Looks for a file in `dir` (NULL: ours) with the name of a module that the worker program imports
 * before it moves the folder to the end of the path (python/anyserve/worker.py): Python would load
 * the file instead. True: a sentence about it is in `out`. */
bool as_describe_find_shadowing(const char *dir, struct as_buf *out);

/* A description that is made beside a loop. */
struct as_describe_job;

struct as_describe_end {
    struct as_declared *app; /* the description, which the callee takes over; NULL: it failed */
    struct as_str why;       /* then the reason, and what the code printed last */
    int status;              /* of waitpid */
    bool timed_out;
    bool is_whole; /* the child has described the code and ended as it should */
};
typedef void as_describe_done_fn(void *ctx, const struct as_describe_end *end);

/* Calls `done` once, later, unless the job is stopped before. 0; else `err` says why: AS_EINVALID:
 * there is no such folder; AS_ENOTFOUND: the interpreter could not be started; AS_EIO. */
int as_describe_start(struct as_describe_job **ret_d, struct as_loop *loop,
                      const struct as_describe_source *source, as_describe_done_fn *done, void *ctx,
                      struct as_buf *err);
void as_describe_stop(struct as_describe_job *d); /* kills the child; d may be NULL */

/* Describes the source and waits; the child shares our stderr. signal_fd: a signalfd whose first
 * signal ends the child. Returns 0; an exit code of conf/option/exit_code.h (the child has said why
 * on stderr, or `err` does); AS_EXIT_CODE_SIGNAL + n after signal n. */
int as_describe_run(struct as_declared *ret_app, const struct as_describe_source *source,
                    int signal_fd, struct as_buf *err);

#endif
