/* app/controller/deploy_job.h — a deployment file on its way to becoming what is served.
 *
 *   read ─► ask the code of each application, one after the other, what it declares ─► compare ─►
 * done
 *
 * What is wrong anywhere is told, and nothing is changed. The code is copied
 * (ctl/state/code_store.h) and loaded from there by a child process beside the loop; what was told
 * of code that has not changed is remembered. Thread: the loop's.
 */
#ifndef AS_APP_INTAKE_H
#define AS_APP_INTAKE_H

#include "conf/option.h"
#include "conf/spec.h"
#include "ctl/worker/describe.h"
#include "io/loop/loop.h"

struct as_deploy_job;

struct as_deploy_job_conf { /* pointers outlive every intake */
    struct as_loop *loop;
    struct as_spec_limits limits;
    const char *python;
    as_ns timeout;    /* of one application's code */
    const char *code; /* the folder of the copies of code */
    uint64_t max_code_bytes;
    uint32_t max_code_files;
};

/* What was said of applications before. */
struct as_deploy_job_cache {
    struct as_deploy_job_description *known;
    uint32_t n;
    uint64_t oom_seen;
};
void as_deploy_job_cache_fini(struct as_deploy_job_cache *m);

/* s: whole, the callee's from here on; NULL: `why` says what is wrong. Once, perhaps before
 * as_deploy_job_start returns; the job is gone then. */
typedef void as_deploy_job_done_fn(void *ctx, int err, struct as_spec *s, struct as_str why);

/* *ret_job: until `done` is called. */
void as_deploy_job_start(struct as_deploy_job **ret_job, const struct as_deploy_job_conf *conf,
                         struct as_deploy_job_cache *memory, struct as_str text,
                         as_deploy_job_done_fn *done, void *ctx);
/* done is not called. NULL is fine. */
void as_deploy_job_stop(struct as_deploy_job *j);

/* What cannot be served of a whole spec, told in `err`; 0, AS_EINVALID. */
int as_deploy_job_check(const struct as_spec *s, struct as_buf *err);
/* conf->code and its bounds, of a server that keeps its state in `folder`. path: what conf->code
 * points to. */
void as_deploy_job_set_code_folder(struct as_deploy_job_conf *conf,
                                   const struct as_option_set *opts, const char *folder,
                                   struct as_buf *path);

/* How the code of an application is loaded. */
struct as_deploy_job_source {
    struct as_describe_source where;
    struct as_describe_code code;
};
/* Points into itself, conf and app. known: a copy that need not be described, or NULL. AS_EINVALID:
 * the copy that the file names is not there, or none can be made; `err` says why.
 * as_deploy_job_source_fini in any case. */
int as_deploy_job_source(struct as_deploy_job_source *ret_w, const struct as_deploy_job_conf *conf,
                         const struct as_spec_object *app, const char *known, struct as_buf *err);
void as_deploy_job_source_fini(struct as_deploy_job_source *w);

/* {"changes": […]} between two whole specs, for the middle of an object; how many differ. */
uint32_t as_deploy_job_write_changes(const struct as_spec *from, const struct as_spec *to,
                                     struct as_buf *json);

#endif
