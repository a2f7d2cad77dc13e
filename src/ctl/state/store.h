/* ctl/state/store.h — what a server was told to serve, over its restarts: a SQLite file in
 * --state-dir.
 *
 * Each accepted desired state is a *generation*: the whole of it as text, with its time and cause.
 * It is on disk when as_store_put returns. Of each deployment it is kept which generation was
 * healthy last, and before that: there a rollback goes. Blocking calls, milliseconds on a healthy
 * disk; one thread. The file is locked for as long as the store is open; a killed process leaves no
 * lock behind.
 */
#ifndef AS_CTL_STORE_H
#define AS_CTL_STORE_H

#include "base/buf.h"
#include "base/err.h"

#define AS_STORE_FILE      "state.db"
#define AS_STORE_CAUSE_MAX 1024u       /* bytes */
#define AS_STORE_WHY_MAX   4096u       /* bytes */
#define AS_STORE_NAME_MAX  255u        /* bytes of an application or deployment */
#define AS_STORE_SPEC_MAX  (16u << 20) /* bytes of one generation's text */

struct as_store;

/* An update of this deployment has failed, which the generation took back. All empty: none has. */
struct as_store_failure {
    struct as_str application, deployment, why;
};

/* A deployment's number of replicas that somebody has set, apart from what the text says. */
struct as_store_scale {
    struct as_str deployment;
    uint32_t replicas;
};

/* What a generation changed of one deployment, and what became of that. A generation of an earlier
 * program has none. */
struct as_store_change {
    uint64_t generation; /* when it is read */
    struct as_str application, deployment;
    struct as_str step;  /* "added", "changed", "removed", "scaled" */
    struct as_str keys;  /* changed: names, comma between; scaled: the number, or "reset" */
    struct as_str state; /* when it is read: "", or what as_store_set_outcome was told */
    struct as_str why;   /* likewise */
};

struct as_store_entry {
    uint64_t generation;       /* 1, 2, …; never given twice */
    int64_t time_ms;           /* Unix time */
    struct as_str cause, spec; /* these texts are valid until the next call on the store */
    struct as_store_failure failed;
    const struct as_store_scale *scales; /* of as_store_put alone; each deployment once */
    uint32_t n_scales;
    const struct as_store_change *changes; /* likewise */
    uint32_t n_changes;
};

/* Makes folder (0700) and file when they are missing. `keep` > 0 generations are kept, and those
 * that are some deployment's healthy one. 0; AS_EEXISTS: another process has it open; AS_EDENIED:
 * the folder is not ours, or others may write there; AS_EPROTO: the file is empty, damaged, of
 * something else, or of a newer version; AS_EIO: the system refused. `err` says it in a sentence.
 */
int as_store_open(struct as_store **ret_s, const char *folder, uint32_t keep, struct as_buf *err);
void as_store_close(struct as_store *s); /* NULL is fine */

/* Could as_store_open be called here, and what is the newest generation? Looks at a copy, which is
 * removed again: the file itself stays as it is, whoever has it open and writes to it meanwhile. 0
 * and `fn`, whose result is given back; AS_ENOTFOUND: there is no file, or nothing in it;
 * AS_EAGAIN: it was written to all the time; else as as_store_open. */
int as_store_probe(const char *folder,
                   int (*fn)(void *arg, const struct as_store_entry *e, struct as_buf *err),
                   void *arg, struct as_buf *err);

/* Removes what a look that was killed has left there: copies of specs, which may hold secrets. Not
 * while somebody looks. */
void as_store_remove_probe(const char *folder);

/* A new generation, whose number e does not say. 0 and that number; AS_ETOOBIG; AS_EIO (disk full
 * …), AS_EPROTO: nothing has changed. */
int as_store_put(struct as_store *s, const struct as_store_entry *e, uint64_t *ret_generation,
                 struct as_buf *err);
/* 0: the newest one. AS_ENOTFOUND when there is none, or when it is kept no longer. */
int as_store_get(struct as_store *s, uint64_t generation, struct as_store_entry *ret_e,
                 struct as_buf *err);
/* The kept ones, newest first, without their text (spec is empty), until fn says false. fn may not
 * use the store. */
int as_store_each(struct as_store *s, bool (*fn)(void *arg, const struct as_store_entry *e),
                  void *arg, struct as_buf *err);

/* What was put with a generation as `scales`. fn may not use the store. */
int as_store_each_scale(struct as_store *s, uint64_t generation,
                        void (*fn)(void *arg, const struct as_store_scale *scale), void *arg,
                        struct as_buf *err);

/* What the kept generations have changed, newest first. fn may not use the store. */
int as_store_each_change(struct as_store *s,
                         void (*fn)(void *arg, const struct as_store_change *change), void *arg,
                         struct as_buf *err);
/* What became of the last change of a deployment up to that generation. Only where nothing was said
 * of it before, or `from`. There need not be one. */
int as_store_set_outcome(struct as_store *s, uint64_t generation, struct as_str deployment,
                         struct as_str from, struct as_str state, struct as_str why,
                         struct as_buf *err);

/* The deployment became healthy as `generation` describes it; `before` was another one that it was
 * healthy as, to which it goes back by hand, or 0. Nothing is written when that is known already.
 * AS_ENOTFOUND: there is no such generation. */
int as_store_set_healthy(struct as_store *s, struct as_str application, struct as_str deployment,
                         uint64_t generation, uint64_t before, struct as_buf *err);
/* AS_ENOTFOUND: it never was. */
int as_store_healthy(struct as_store *s, struct as_str application, struct as_str deployment,
                     uint64_t *ret_generation, uint64_t *ret_before, struct as_buf *err);
/* The generations that as_store_set_healthy was told, of all deployments, each once. fn may not use
 * the store. */
int as_store_each_healthy(struct as_store *s, void (*fn)(void *arg, uint64_t generation), void *arg,
                          struct as_buf *err);
/* All that is known of it; when it was deleted on purpose. */
int as_store_remove_deployment(struct as_store *s, struct as_str application,
                               struct as_str deployment, struct as_buf *err);

#endif
