/* ctl/describe.h — what an application file serves, asked of the worker program before it is
 * served.
 *
 * `PYTHON -m anyserve.worker TARGET --describe=lines` prints a line per deployment: its name, the
 * options that the code sets for it as a JSON object (left out when there are none), then
 * model:version for each model, separated by tabs. Lines without a tab are what the user's module
 * printed while it was imported.
 */
#ifndef AS_CTL_DESCRIBE_H
#define AS_CTL_DESCRIBE_H

#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"

#define AS_APP_DEPLOYMENTS_MAX 256u
#define AS_APP_MODELS_MAX      1024u      /* of one deployment */
#define AS_APP_BYTES_MAX       (4u << 20) /* of the whole description */

struct as_app_deployment {
    char *name;
    char *options; /* a JSON object as it was told, keys of ctl/spec_row.h; NULL: none */
    char **models; /* "name:version" */
    uint32_t n_models;
};

struct as_app {
    struct as_app_deployment *deployments;
    uint32_t n;
};

/* Pure. Lines that are not ours are handed to `other` (may be NULL). 0; AS_EINVALID: `err` says
 * what is wrong with the description. */
int as_app_parse(struct as_app *ret_app, struct as_str text,
                 void (*other)(void *ctx, struct as_str line), void *ctx, struct as_buf *err);
/* The text that as_app_parse takes back. */
void as_app_write(const struct as_app *app, struct as_buf *b);
void as_app_fini(struct as_app *app);

struct as_app_where { /* how the code is loaded */
    const char *python, *target;
    const char *dir;  /* or NULL: ours */
    const char **env; /* "NAME=value" on top of ours, NULL-terminated; or NULL */
};

/* Runs the interpreter and waits; its stderr is ours. signal_fd: a signalfd whose first signal ends
 * the child. Returns 0; an exit code of as_code (the child has told why on stderr, or `err` does);
 * AS_CODE_SIGNAL + n after a signal. */
int as_app_describe(struct as_app *ret_app, const struct as_app_where *where, int signal_fd,
                    struct as_buf *err);

/* The same beside a loop. */
struct as_describer;

/* app: 0, and it is the callee's from here on. Else NULL, and `why` has what is wrong, what the
 * code printed last included. */
typedef void as_describer_fn(void *ctx, struct as_app *app, struct as_str why);

/* done comes once, later, unless it is stopped before. oom_seen: ctl/process.h. After `timeout` the
 * child is killed. AS_EIO: it could not be started, `err` says why. */
int as_describer_start(struct as_describer **ret_d, struct as_loop *loop,
                       const struct as_app_where *where, as_ns timeout, uint64_t *oom_seen,
                       as_describer_fn *done, void *ctx, struct as_buf *err);
void as_describer_stop(struct as_describer *d); /* the child is killed; NULL is fine */

#endif
