/* app/controller/control_api.h — what people ask of a server, carried out by its controller and
 * kept.
 *
 * A change is a new generation of the desired state (app/controller/desired_state.h), stored before
 * it is done. What the crew finds out (a version is healthy, an update failed) is stored as well,
 * so that the next controller neither tries a failed update again nor forgets where a rollback
 * goes. Thread: the controller's loop.
 */
#ifndef AS_APP_ORDERS_H
#define AS_APP_ORDERS_H

#include "app/controller/desired_state.h"
#include "app/controller/deploy_job.h"
#include "app/controller/code_sweeper.h"
#include "conf/option.h"
#include "ctl/reconcile/reconciler.h"
#include "edge/admin/control.h"

struct as_control_api {
    struct as_control api; /* for the edge */
    struct as_reconciler *crew;
    const struct as_log *log;
    struct as_desired_state desired;
    struct as_deploy_job_conf deploy;
    struct as_buf code; /* folder of the copies of code */
    struct as_deploy_job_cache memory;
    struct as_deploy_job *job;           /* NULL: none is under way */
    struct as_control_call *pending_ask; /* who waits for it */
    bool dry;                            /* it is only asked what would change */
    struct as_code_sweeper sweeper;      /* of copies of code */
    bool crew_informed; /* as_control_api_sweep_code is called: the crew knows what it needs */
    bool sweep_needed;  /* other copies may be needed than when it was looked last */
    uint32_t n_generations_swept; /* generations that the crew needed then */
};

/* What is wanted, and what is kept about it, is told the crew, which has heard nothing yet. app:
 * the code that `run` serves; not of a server with --state-dir. All pointers are kept. 0; AS_E…:
 * the state cannot be read, as has been logged. `run` then goes on with what its command line says.
 */
int as_control_api_open(struct as_control_api *o, const struct as_option_set *opts,
                        const struct as_declared *app, struct as_reconciler *crew,
                        struct as_loop *loop, const struct as_log *log);
/* The edge is closed already. */
void as_control_api_close(struct as_control_api *o);

/* The crew has acted: copies of code that no generation needs go. A generation needs its copies
 * while it is the newest one, one that is healthy or was before, or one that the crew still needs.
 */
void as_control_api_sweep_code(struct as_control_api *o);
/* The code that `run` serves declares something else, which is served in the place of all that was.
 * AS_E…, with a sentence: nothing is changed. */
int as_control_api_redeclare(struct as_control_api *o, const struct as_option_set *opts,
                             const struct as_declared *app, struct as_buf *err);

/* For as_reconciler_ops. */
int as_control_api_load(struct as_control_api *o, uint64_t generation, struct as_spec **ret_s);
int64_t as_control_api_find_scale(struct as_control_api *o, uint64_t generation,
                                  struct as_str deployment);
void as_control_api_on_healthy(struct as_control_api *o, const struct as_reconciler_outcome *n);
void as_control_api_on_rolled_back(struct as_control_api *o, const struct as_reconciler_outcome *n);

/* --- between the files of this room: orders_history.c --- */

/* {"generations": […]}, newest first, as docs/guide/control.md has it. */
int as_control_api_write_history(struct as_control_api *o, struct as_buf *json, struct as_buf *err);
/* What became of a deployment's last change up to that generation; as_store_set_outcome. What
 * cannot be written is logged. Without a store nothing happens. */
void as_control_api_record_outcome(struct as_control_api *o, uint64_t generation,
                                   struct as_str deployment, const char *from, const char *state,
                                   struct as_str why);
/* The same for every deployment that is as asked for: healthy. Before the crew is told of another
 * generation, which takes the place of what it has reached. */
void as_control_api_record_healthy(struct as_control_api *o, uint64_t generation);
void as_control_api_log_not_stored(const struct as_control_api *o, struct as_str what,
                                   const struct as_buf *err);

#endif
