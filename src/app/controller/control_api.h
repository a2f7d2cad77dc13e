/* app/controller/control_api.h — handles the requests of the control API in the controller.
 *
 * A request that changes something makes a new generation of the desired state
 * (app/controller/desired_state.h), which is stored before the reconciler applies it. What the
 * reconciler finds out (a version is healthy, an update failed) is stored, too, so that the next
 * controller does not repeat a failed update and knows the target of a rollback. Thread: the
 * controller's loop.
 */
#ifndef AS_APP_CONTROL_API_H
#define AS_APP_CONTROL_API_H

#include "app/controller/code_sweeper.h"
#include "app/controller/confirm.h"
#include "app/controller/deploy_job.h"
#include "app/controller/desired_state.h"
#include "conf/option/option.h"
#include "ctl/reconcile/reconciler.h"
#include "ctl/state/pickle_store.h"
#include "edge/admin/control.h"

struct as_control_api {
    struct as_control control; /* what the edge calls */
    struct as_reconciler *reconciler;
    const struct as_log *log;
    struct as_desired_state desired;
    struct as_deploy_job_conf deploy_conf;
    char *code_dir; /* folder of the copies of code: deploy_conf.code */
    struct as_deploy_job_cache cache;
    struct as_deploy_job *job;                /* NULL: no deployment file is being read */
    struct as_control_call *pending_call;     /* the call that waits for the job */
    struct as_control_api_declared *declared; /* what the supervisor was told; n_declared of them */
    uint32_t n_declared;
    bool debugging;                 /* --debug: no timeouts */
    bool is_dry_run;                /* of the job: only report what would change */
    uint64_t expected;              /* of the job: what its client has seen, or AS_CONTROL_ANY */
    struct as_control_api_put *put; /* what the job is for; NULL: a whole file */
    struct as_list puts;            /* those that wait for the job */
    struct as_code_sweeper sweeper;
    struct as_confirm confirm;            /* answers that wait for the dispatcher */
    struct as_pickle_store_names uploads; /* pickled code that no generation has named since it was
                                             uploaded, the oldest first */
    uint32_t max_uploads;
    bool has_swept;    /* as_control_api_sweep_code was called: the reconciler knows which
                          generations it needs */
    bool sweep_needed; /* the needed copies may have changed since the last sweep */
    uint32_t n_generations_swept; /* generations that the reconciler needed at the last sweep */
};

/* Opens the stored state and gives the desired state and its outcomes to the reconciler, which must
 * be new. app: the code that `run` serves; not used with --state-dir. All pointers must stay valid.
 * 0; AS_E…: the state cannot be read, which has been logged. A server of `run` whose store cannot
 * be read continues with what its command line says. */
int as_control_api_open(struct as_control_api *o, const struct as_option_set *opts,
                        const struct as_declared *app, struct as_reconciler *reconciler,
                        struct as_loop *loop, const struct as_log *log);
/* Call it after the edge is closed. */
void as_control_api_close(struct as_control_api *o);

/* Removes copies of code that no generation needs; call it after the reconciler has acted. A
 * generation needs its copies while it is the newest one, is stored as healthy or as the one before
 * that, or is used by the reconciler. */
void as_control_api_sweep_code(struct as_control_api *o);
/* For --reload: the code that `run` serves declares something else now, which replaces all that is
 * served. AS_E…, with a sentence: nothing is changed. */
int as_control_api_redeclare(struct as_control_api *o, const struct as_option_set *opts,
                             const struct as_declared *app, struct as_buf *err);

/* For as_reconciler_ops. */
int as_control_api_load(struct as_control_api *o, uint64_t generation, struct as_spec **ret_s);
int64_t as_control_api_find_scale(struct as_control_api *o, uint64_t generation,
                                  struct as_str deployment);
void as_control_api_on_healthy(struct as_control_api *o, const struct as_reconciler_outcome *n);
void as_control_api_on_rolled_back(struct as_control_api *o, const struct as_reconciler_outcome *n);

/* Tells the supervisor of models and settings of the newest generation that it was not told yet
 * (control_api_declare.c). Call it when the reconciler has the generation: a model may have moved
 * here from a deployment that is deleted. A worker that has registered before counts more. */
void as_control_api_declare(struct as_control_api *o);

/* --- control_api_code.c: operations of struct as_control */
void as_control_api_expect_pickle(void *ctx, struct as_str name);
int as_control_api_store_pickle(void *ctx, struct as_str name, struct as_str content,
                                struct as_buf *err);

/* --- for the files of this folder --- */

/* Makes `text` the desired state and appends the answer to json. models: what its code was
 * described to have, or NULL. dry: only the answer. again: makes a new generation even if nothing
 * changes. */
int as_control_api_deploy_text(struct as_control_api *o, struct as_str cause,
                               const struct as_buf *text, const struct as_declared *models,
                               bool dry, bool again, struct as_buf *json, struct as_buf *err);
/* Answers k and frees both. err 0: a change, whose answer waits until the dispatcher knows of it.
 */
void as_control_api_answer_change(struct as_control_api *o, struct as_control_call *k, int err,
                                  struct as_buf *json, struct as_buf *why);
/* The job is over, and its call was answered or waits for the dispatcher only. */
void as_control_api_job_ended(struct as_control_api *o);
/* The client of the job's call has closed the connection: nothing changes. arg: o. */
void as_control_api_on_gone(void *arg);

/* --- control_api_application.c, likewise --- */

/* 0; AS_ESTALE, with the answer in `err`: the application (empty: anything) was changed after the
 * generation `expected`. AS_CONTROL_ANY: no check. */
int as_control_api_check_generation(struct as_control_api *o, struct as_str application,
                                    uint64_t expected, struct as_buf *err);
void as_control_api_put_application(struct as_control_api *o, const struct as_control_request *q,
                                    struct as_control_call *k);
int as_control_api_delete(struct as_control_api *o, const struct as_control_request *q,
                          struct as_buf *json, struct as_buf *err);
void as_control_api_put_next(struct as_control_api *o);   /* starts the next one, if none runs */
void as_control_api_put_cancel(struct as_control_api *o); /* its call is answered by the caller */
void as_control_api_put_close(struct as_control_api *o);  /* those that wait are cancelled */

/* --- control_api_status.c, likewise --- */

/* Appends what is served, as in docs/guide/control.md. */
void as_control_api_write_status(const struct as_control_api *o, struct as_buf *json);

/* --- control_api_history.c, for the files of this folder --- */

/* Appends {"generations": […]}, newest first, as in docs/guide/control.md. */
int as_control_api_write_history(struct as_control_api *o, struct as_buf *json, struct as_buf *err);
/* Stores the outcome of the last change of the deployment of this id up to that generation
 * (as_store_set_outcome). An error is logged. Does nothing without a store. */
void as_control_api_record_outcome(struct as_control_api *o, uint64_t generation, struct as_str id,
                                   const char *from, const char *state, struct as_str why);
/* Stores the outcome "healthy" for every deployment that has reached its desired state. Call it
 * before the reconciler gets another generation, which replaces that state. */
void as_control_api_record_healthy(struct as_control_api *o, uint64_t generation);
void as_control_api_log_not_stored(const struct as_control_api *o, struct as_str what,
                                   const struct as_buf *err);

#endif
