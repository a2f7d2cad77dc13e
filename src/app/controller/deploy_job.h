/* app/controller/deploy_job.h — turns the text of a deployment file into a whole, checked spec.
 *
 *   parse ─► for each application in turn: describe its code, add what it declares ─► check ─► done
 *
 * Errors end the job with their texts. The code is copied (ctl/state/code_store.h), and a
 * child process loads the copy and describes it, without blocking the loop. The description of code
 * that has not changed is cached. Thread: the loop's.
 */
#ifndef AS_APP_DEPLOY_JOB_H
#define AS_APP_DEPLOY_JOB_H

#include "conf/option/option.h"
#include "conf/spec/spec.h"
#include "ctl/worker/describe.h"
#include "io/loop/loop.h"

struct as_deploy_job;

struct as_deploy_job_conf { /* what it points to must outlive every job */
    struct as_loop *loop;
    struct as_spec_limits limits;
    const char *python;
    as_ns timeout;    /* for describing the code of one application */
    const char *code; /* the folder of the copies of code */
    uint64_t max_code_bytes;
    uint32_t max_code_files;
};

/* The last description of each application's code. Owned by the caller, used by one job at a time.
 */
struct as_deploy_job_cache {
    struct as_deploy_job_description *descriptions;
    uint32_t n;
};
void as_deploy_job_cache_fini(struct as_deploy_job_cache *m);
/* Adds the models of all descriptions, or of one application's; after a job: those of its spec. */
void as_deploy_job_copy_models(const struct as_deploy_job_cache *m, const char *application,
                               struct as_declared *models);
/* Drops the descriptions of applications that the spec does not have. */
void as_deploy_job_cache_keep(struct as_deploy_job_cache *m, const struct as_spec *s);

/* The end of a job: s is the whole spec, which the callee then owns, or NULL with the error in
 * `why`. Called once, perhaps before as_deploy_job_start returns; the job is freed after it. */
typedef void as_deploy_job_done_fn(void *ctx, int err, struct as_spec *s, struct as_str why);

/* *ret_job is valid until `done` is called, and NULL from then on. application: the text is this
 * one, whose spec is not checked as a whole (as_deploy_job_check); NULL: it is a file. */
void as_deploy_job_start(struct as_deploy_job **ret_job, const struct as_deploy_job_conf *conf,
                         struct as_deploy_job_cache *cache, const char *application,
                         struct as_str text, as_deploy_job_done_fn *done, void *ctx);
/* Cancels and frees the job; `done` is not called. NULL is fine. */
void as_deploy_job_stop(struct as_deploy_job *j);

/* Checks a whole spec. 0; AS_EINVALID: something in it cannot be served, `err` says what. */
int as_deploy_job_check(const struct as_spec *s, struct as_buf *err);
/* Sets conf->code and the limits of a copy, for a server with its state in `folder`. Returns
 * conf->code, which the caller frees. */
char *as_deploy_job_set_code_folder(struct as_deploy_job_conf *conf,
                                    const struct as_option_set *opts, const char *folder);

/* Where and how the code of an application is loaded. */
struct as_deploy_job_source {
    struct as_describe_source where;
    struct as_describe_code code;
    char *args, *servicers; /* in where.env, or NULL */
};
/* Fills *ret_w, which then points into itself, conf and app. known: a copy whose description is
 * cached, or NULL. AS_EINVALID: the copy that the file names does not exist, or none can be made;
 * `err` says why. Call as_deploy_job_source_fini in any case. */
int as_deploy_job_source(struct as_deploy_job_source *ret_w, const struct as_deploy_job_conf *conf,
                         const struct as_spec_object *app, const char *known, struct as_buf *err);
void as_deploy_job_source_fini(struct as_deploy_job_source *w);

/* Appends the member "changes": […], the differences between two whole specs, to a JSON object.
 * Returns how many deployments differ. */
uint32_t as_deploy_job_write_changes(const struct as_spec *from, const struct as_spec *to,
                                     struct as_buf *json);

#endif
