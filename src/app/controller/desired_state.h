/* app/controller/desired_state.h — the desired state of a server: a deployment file, whole, and
 * where it is kept.
 *
 * Each change is a new generation; it is on disk (ctl/state/store.h) before anything is done, so
 * that the next controller is after the same. A number of replicas that somebody has set (`scale`)
 * is kept beside the file: it counts until the deployment's own num_replicas is another one than in
 * the generation before, or the deployment is not served any more. `start` keeps it in --state-dir.
 * `run` keeps nothing beyond its own end: its first generation is what the command line says, and
 * the store, in the server's folder, is made with the first change. Blocking writes of a few
 * milliseconds. Thread: the loop's.
 */
#ifndef AS_APP_DESIRED_H
#define AS_APP_DESIRED_H

#include "base/log.h"
#include "conf/spec.h"
#include "ctl/state/store.h"

/* What the server itself wrote is not bounded as what people send. */
extern const struct as_spec_limits as_desired_state_limits;

#define AS_DESIRED_STATE_UNSCALED (-1)

/* A deployment's number of replicas, set apart from what the file says. */
struct as_desired_state_scale {
    char *deployment;
    uint32_t replicas;
};

struct as_desired_state {
    const struct as_log *log;
    char *folder;
    uint32_t keep;
    struct as_store *store;                /* NULL: nothing was changed since `run` */
    char *initial;                         /* text of generation 1 while there is no store */
    uint64_t generation;                   /* the newest */
    struct as_spec *spec;                  /* and what it says */
    struct as_desired_state_scale *scales; /* of the newest */
    uint32_t n_scales;
};

/* Of a server with a state folder. AS_E… of as_store_open, AS_ENOTFOUND: nothing is kept there;
 * with a sentence in `err`. as_desired_state_close in any case. */
int as_desired_state_open(struct as_desired_state *d, const char *folder, uint32_t keep,
                          const struct as_log *log, struct as_buf *err);
/* Of one that `run` started: `initial` unless something was changed since. */
int as_desired_state_open_initial(struct as_desired_state *d, const char *folder, uint32_t keep,
                                  struct as_str initial, const struct as_log *log,
                                  struct as_buf *err);
/* When a server that `run` started did so: Unix time in ms. */
int64_t as_desired_state_start_time(const struct as_desired_state *d);
void as_desired_state_close(struct as_desired_state *d);
/* Could as_desired_state_open, or as_desired_state_open_initial, read what is kept in `folder`?
 * Nothing is changed there. 0; AS_ENOTFOUND: there is nothing; AS_E…, with a sentence. */
int as_desired_state_probe(const char *folder, struct as_buf *err);

/* What is put beside a text. */
struct as_desired_state_change {
    struct as_str cause;
    const struct as_store_failure *failed; /* the update that it takes back, or NULL */
    struct as_str deployment; /* its number of replicas is set, to `replicas`; empty: none is */
    int64_t replicas;         /* AS_DESIRED_STATE_UNSCALED: to what the file says */
};

/* A new generation with this text, which becomes the newest. */
int as_desired_state_add(struct as_desired_state *d, const struct as_desired_state_change *change,
                         struct as_str text, struct as_buf *err);
/* One's own copy of a generation; 0: of the newest. AS_ENOTFOUND: it is not kept any more. */
int as_desired_state_load(struct as_desired_state *d, uint64_t generation, struct as_spec **ret_s,
                          struct as_buf *err);

/* The number of replicas that was set of a deployment, as a generation has it (0: the newest), or
 * AS_DESIRED_STATE_UNSCALED: the text's own counts. */
int64_t as_desired_state_scale_of(struct as_desired_state *d, uint64_t generation,
                                  struct as_str deployment);

/* --- texts of what is to be, from what is; each AS_ENOTFOUND when there is no such thing --- */

void as_desired_state_write(const struct as_spec *s, struct as_buf *text);
/* The same text, if there is such a deployment. */
int as_desired_state_write_same(struct as_desired_state *d, struct as_str application,
                                struct as_str deployment, struct as_buf *text, struct as_buf *err);
int as_desired_state_write_without(struct as_desired_state *d, struct as_str application,
                                   struct as_buf *text,
                                   struct as_buf *err); /* "": nothing at all */
/* The deployment as `generation` has it; its num_replicas is that of now, or `whole`: of then.
 * Where its application's own keys differ, the whole application is as it was then: its deployments
 * share them. */
int as_desired_state_write_rollback(struct as_desired_state *d, struct as_str application,
                                    struct as_str deployment, uint64_t generation, bool whole,
                                    struct as_buf *text, struct as_buf *err);

#endif
