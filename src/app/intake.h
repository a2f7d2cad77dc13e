/* app/intake.h — a deployment file on its way to becoming what is served.
 *
 *   read ─► ask the code of each application, one after the other, what it declares ─► compare ─►
 * done
 *
 * What is wrong anywhere is told, and nothing is changed. The code is loaded by a child process
 * beside the loop; what was told of code that has not changed is remembered. Thread: the loop's.
 */
#ifndef AS_APP_INTAKE_H
#define AS_APP_INTAKE_H

#include "conf/spec.h"
#include "ctl/describe.h"
#include "io/loop.h"

struct as_intake;

struct as_intake_conf { /* pointers outlive every intake */
    struct as_loop *loop;
    struct as_spec_limits limits;
    const char *python;
    as_ns timeout; /* of one application's code */
};

/* What was said of applications before. */
struct as_intake_memory {
    struct as_intake_known *known;
    uint32_t n;
    uint64_t oom_seen;
};
void as_intake_memory_fini(struct as_intake_memory *m);

/* s: whole, the callee's from here on; NULL: `why` says what is wrong. Once, perhaps before
 * as_intake_start returns; the job is gone then. */
typedef void as_intake_done_fn(void *ctx, int err, struct as_spec *s, struct as_str why);

/* *ret_job: until `done` is called. */
void as_intake_start(struct as_intake **ret_job, const struct as_intake_conf *conf,
                     struct as_intake_memory *memory, struct as_str text, as_intake_done_fn *done,
                     void *ctx);
/* done is not called. NULL is fine. */
void as_intake_stop(struct as_intake *j);

/* What cannot be served of a whole spec, told in `err`; 0, AS_EINVALID. */
int as_intake_check(const struct as_spec *s, struct as_buf *err);
/* How the code of an application is loaded. Points into app; as_intake_where_fini. */
void as_intake_where(struct as_app_where *ret_w, const char *python,
                     const struct as_spec_object *app);
void as_intake_where_fini(struct as_app_where *w);

/* {"changes": […]} between two whole specs, for the middle of an object; how many differ. */
uint32_t as_intake_put_changes(const struct as_spec *from, const struct as_spec *to,
                               struct as_buf *json);

#endif
