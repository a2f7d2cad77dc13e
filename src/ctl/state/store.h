/* ctl/state/store.h — what a server was told to serve, over its restarts: a SQLite file in
 * --state-dir.
 *
 * Each accepted desired state is a *generation*: its whole text, with time and cause. It is on disk
 * when as_store_put returns. For each deployment the store has the generation that was healthy
 * last, and the one before that: a rollback goes there. Blocking calls, milliseconds on a healthy
 * disk; one thread. The file is locked while the store is open; a killed process leaves no lock
 * behind.
 */
#ifndef AS_CTL_STORE_H
#define AS_CTL_STORE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"

#define AS_STORE_FILE      "state.db"
#define AS_STORE_CAUSE_MAX 1024u       /* bytes */
#define AS_STORE_WHY_MAX   4096u       /* bytes */
#define AS_STORE_NAME_MAX  AS_ID_MAX   /* bytes of an application or deployment */
#define AS_STORE_SPEC_MAX  (16u << 20) /* bytes of a generation's text */

struct as_store;

/* The failed update of a deployment that a generation rolls back. All empty: it is no rollback. */
struct as_store_failure {
    struct as_str application, deployment, why;
};

/* A deployment's number of replicas that was set by hand, which overrides the text's. Here and in
 * models a deployment is its name, or its id (base/id.h) if another one of the file has the name.
 */
struct as_store_scale {
    struct as_str deployment;
    uint32_t replicas;
};

/* A model of a deployment: how its worker registers it (conf/spec/declared.h). Generations of
 * earlier versions have none. */
struct as_store_model {
    struct as_str deployment, name;
    struct as_str frame; /* may be empty */
};

/* What a generation changed in one deployment, and the outcome. Generations of earlier versions
 * have none. */
struct as_store_change {
    uint64_t generation; /* set when it is read */
    struct as_str application, deployment;
    struct as_str step; /* "added", "changed", "removed", "scaled" */
    /* of "changed": names with commas between; of "scaled": the number or "reset" */
    struct as_str keys;
    struct as_str state; /* set when it is read: "", or that of as_store_set_outcome */
    struct as_str why;   /* likewise */
};

struct as_store_entry {
    uint64_t generation; /* 1, 2, …; never used twice */
    int64_t time_ms;     /* Unix time */
    /* the texts of an entry are valid until the next call on the store */
    struct as_str cause, spec;
    struct as_store_failure failed;
    const struct as_store_scale *scales; /* for as_store_put alone; each deployment once */
    uint32_t n_scales;
    const struct as_store_change *changes; /* likewise */
    uint32_t n_changes;
    const struct as_store_model *models; /* likewise, in the order in which they are read */
    uint32_t n_models;
};

/* Makes folder (0700) and file if they are missing. The newest `keep` > 0 generations are kept, and
 * the healthy ones of all deployments. 0; AS_EEXISTS: another process has the store open;
 * AS_EDENIED: the folder is not ours, or others may write there; AS_EPROTO: the file is empty,
 * damaged, of another program, or of a newer version; AS_EIO: a system call failed. `err` gets a
 * sentence. */
int as_store_open(struct as_store **ret_s, const char *folder, uint32_t keep, struct as_buf *err);
void as_store_close(struct as_store *s); /* s may be NULL */

/* Checks whether this version can open the store, and passes its newest generation to `fn`, whose
 * result is returned. Works on a copy, which is removed again: another process may have the store
 * open and write to it meanwhile. AS_ENOTFOUND: there is no file, or no generation; AS_EAGAIN: the
 * file changed at each attempt to copy it; else as as_store_open. */
int as_store_probe(const char *folder,
                   int (*fn)(void *arg, const struct as_store_entry *e, struct as_buf *err),
                   void *arg, struct as_buf *err);

/* Removes the copy of an as_store_probe that was killed: it has specs, which may hold secrets. Not
 * while a probe runs. */
void as_store_remove_probe(const char *folder);

/* Stores a new generation; e->generation is ignored. What as_store_set_healthy stored of a
 * deployment that it removes goes with it. 0 and its number; AS_ETOOBIG; AS_EIO (disk full …),
 * AS_EPROTO: nothing was stored. */
int as_store_put(struct as_store *s, const struct as_store_entry *e, uint64_t *ret_generation,
                 struct as_buf *err);
/* Generation 0: the newest one. AS_ENOTFOUND: there is none, or it is not kept any more. */
int as_store_get(struct as_store *s, uint64_t generation, struct as_store_entry *ret_e,
                 struct as_buf *err);
/* All generations, newest first, without their text (spec is empty), until fn returns false. fn may
 * not use the store. */
int as_store_each(struct as_store *s, bool (*fn)(void *arg, const struct as_store_entry *e),
                  void *arg, struct as_buf *err);

/* The `scales` of a generation. fn may not use the store. */
int as_store_each_scale(struct as_store *s, uint64_t generation,
                        void (*fn)(void *arg, const struct as_store_scale *scale), void *arg,
                        struct as_buf *err);

/* The `models` of a generation. fn may not use the store. */
int as_store_each_model(struct as_store *s, uint64_t generation,
                        void (*fn)(void *arg, const struct as_store_model *model), void *arg,
                        struct as_buf *err);

/* The `changes` of all generations, newest first. fn may not use the store. */
int as_store_each_change(struct as_store *s,
                         void (*fn)(void *arg, const struct as_store_change *change), void *arg,
                         struct as_buf *err);
/* Sets the outcome of the last change of a deployment up to that generation, if its state is "" or
 * `from`. Without such a change nothing happens. */
int as_store_set_outcome(struct as_store *s, uint64_t generation, struct as_str application,
                         struct as_str deployment, struct as_str from, struct as_str state,
                         struct as_str why, struct as_buf *err);

/* The deployment became healthy in `generation`; `before` is the generation in which it was healthy
 * before, to which a manual rollback goes, or 0. Nothing is written if that is stored already.
 * AS_ENOTFOUND: there is no such generation. */
int as_store_set_healthy(struct as_store *s, struct as_str application, struct as_str deployment,
                         uint64_t generation, uint64_t before, struct as_buf *err);
/* AS_ENOTFOUND: the deployment was never healthy. */
int as_store_healthy(struct as_store *s, struct as_str application, struct as_str deployment,
                     uint64_t *ret_generation, uint64_t *ret_before, struct as_buf *err);
/* The generations of as_store_set_healthy, of all deployments, each once. fn may not use the store.
 */
int as_store_each_healthy(struct as_store *s, void (*fn)(void *arg, uint64_t generation), void *arg,
                          struct as_buf *err);

#endif
