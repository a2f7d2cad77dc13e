/* app/controller/desired_state.h — the desired state of a server: a whole deployment file, and its
 * history in a store.
 *
 * Each change makes a new generation, which is on disk (ctl/state/store.h) before it is applied, so
 * that the next controller pursues the same state. A number of replicas that `scale` has set is
 * stored beside the file. It is valid until num_replicas of the deployment changes in the file, or
 * the deployment is not served any more.
 * `start` has its store in --state-dir. The state of `run` ends with the server: generation 1 is
 * what the command line says, and the store, in the server's runtime folder, is created by the
 * first change. Writes block for a few milliseconds. Thread: the controller's loop.
 */
#ifndef AS_APP_DESIRED_STATE_H
#define AS_APP_DESIRED_STATE_H

#include "base/log.h"
#include "conf/spec/declared.h"
#include "conf/spec/spec.h"
#include "ctl/state/store.h"

/* For texts that the server itself wrote: wider than those for files from outside. */
extern const struct as_spec_limits as_desired_state_limits;

#define AS_DESIRED_STATE_UNSCALED (-1)

/* The numbers of replicas that `scale` has set. Owns the ids. */
struct as_desired_state_scales {
    struct as_store_scale *all;
    uint32_t n;
};

struct as_desired_state {
    const struct as_log *log;
    char *folder;
    uint32_t keep;                         /* --state-generations */
    struct as_store *store;                /* NULL: nothing was changed since `run` */
    char *initial;                         /* text of generation 1 while there is no store */
    uint64_t generation;                   /* the newest one … */
    struct as_spec *spec;                  /* … its file … */
    struct as_desired_state_scales scales; /* … and the numbers that `scale` has set in it */
    struct as_declared models; /* … and the models of its deployments, as far as they are known */
};

/* For `start`: opens the store in `folder` and loads the newest generation. 0; AS_E… of
 * as_store_open, with a sentence in `err`; AS_ENOTFOUND: there is no generation yet. Call
 * as_desired_state_close in any case. */
int as_desired_state_open(struct as_desired_state *d, const char *folder, uint32_t keep,
                          const struct as_log *log, struct as_buf *err);
/* For `run`: loads the newest generation if there is a store in `folder`, else generation 1 with
 * the text `initial` and the models of `code`. */
int as_desired_state_open_initial(struct as_desired_state *d, const char *folder, uint32_t keep,
                                  struct as_str initial, const struct as_declared *code,
                                  const struct as_log *log, struct as_buf *err);
/* When a server of `run` was started: Unix time in ms. */
int64_t as_desired_state_start_time(const struct as_desired_state *d);
void as_desired_state_close(struct as_desired_state *d);
/* Checks, without a change, whether as_desired_state_open or as_desired_state_open_initial could
 * read the store in `folder`. 0; AS_ENOTFOUND: there is none; AS_E…, with a sentence in `err`. */
int as_desired_state_probe(const char *folder, struct as_buf *err);

/* What a generation records beside its text. */
struct as_desired_state_change {
    struct as_str cause;
    const struct as_store_failure *failed; /* the failed update that it rolls back, or NULL */
    struct as_str deployment; /* id of the one whose number of replicas is set; empty: none … */
    int64_t replicas;         /* … to this; AS_DESIRED_STATE_UNSCALED: to that of the file */
    const struct as_declared *models; /* of the deployments; NULL: they have those of before */
};

/* Stores a new generation with this text, which becomes the newest. 0, or AS_E… with a sentence. */
int as_desired_state_add(struct as_desired_state *d, const struct as_desired_state_change *change,
                         struct as_str text, struct as_buf *err);
/* The file of a generation (0: the newest), which the caller frees. AS_ENOTFOUND: it is not kept
 * any more. */
int as_desired_state_load(struct as_desired_state *d, uint64_t generation, struct as_spec **ret_s,
                          struct as_buf *err);

/* Adds the models of the newest generation, but those of an application as in `generation`. */
int as_desired_state_models_with(struct as_desired_state *d, uint64_t generation,
                                 struct as_str application, struct as_declared *models,
                                 struct as_buf *err);

/* The number of replicas that `scale` has set for a deployment (its id) in a generation (0: the
 * newest), or AS_DESIRED_STATE_UNSCALED: num_replicas of the file is valid. */
int64_t as_desired_state_scale_of(struct as_desired_state *d, uint64_t generation,
                                  struct as_str deployment);

/* --- texts for a new generation ---
 *
 * AS_ENOTFOUND, with a sentence: there is no such application, deployment or generation. */

void as_desired_state_write(const struct as_spec *s, struct as_buf *text);
/* The text of the newest generation, unchanged, if it has this deployment. */
int as_desired_state_write_same(struct as_desired_state *d, struct as_str application,
                                struct as_str deployment, struct as_buf *text, struct as_buf *err);
/* The newest generation without this application; an empty name: without any. */
int as_desired_state_write_without(struct as_desired_state *d, struct as_str application,
                                   struct as_buf *text, struct as_buf *err);
/* The newest generation with the deployment as it was in `generation`. num_replicas stays as it is,
 * unless `whole`. If the keys of its application differ, too, the whole application goes back,
 * since all of its deployments share them. */
int as_desired_state_write_rollback(struct as_desired_state *d, struct as_str application,
                                    struct as_str deployment, uint64_t generation, bool whole,
                                    struct as_buf *text, struct as_buf *err);

#endif
