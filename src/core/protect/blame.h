/* core/protect/blame.h — the table of requests that may have ended workers: suspects, and poison
 * that is refused.
 *
 *              was executing when a             a worker went the same way while
 *              worker crashed, hung, or            it ran there alone
 *              was unhealthy                     (as a suspect)
 *   unknown ────────────────────────► SUSPECT ─────────────────────► POISON
 *      ▲                                │  ▲                             │
 *      └── a run of it ended well, or ──┘  └──────── ttl over ───────────┘
 *          ttl over and nobody waits
 *
 * The requests that were executing when a worker crashed become suspects. A suspect runs alone in a
 * replica (core/dispatch/faults/quarantine.h), so that a second death harms no other request and
 * proves that this one caused it. Then it is poison: requests like it are refused (AS_EPOISON)
 * until `ttl` is over. One death alone proves nothing, because another request may have caused it.
 * While the cause of a death is unknown its requests may be suspects without any death that counts.
 *
 * Requests are compared by a fingerprint (a hash) of model and body. It is computed only after a
 * worker has died, and later only for requests whose model, size and sample match an entry of this
 * table. Entries are allocated here; nothing else has a side effect. Thread: the caller's.
 */
#ifndef AS_CORE_BLAME_H
#define AS_CORE_BLAME_H

#include "base/defs.h"
#include "base/container/list.h"

struct as_fingerprint {
    uint64_t hi, lo; /* a hash of the body with a secret seed */
    uint64_t sample; /* a hash of a small part of the body */
    uint64_t size;   /* of the body, bytes */
    uint32_t model;
};

static inline bool as_fingerprint_eq(const struct as_fingerprint *a, const struct as_fingerprint *b)
{
    return a->lo == b->lo && a->hi == b->hi && a->size == b->size && a->model == b->model;
}

enum as_blame_state { AS_BLAME_SUSPECT, AS_BLAME_POISON };

struct as_blame_entry {
    struct as_list node; /* in as_blame.entries, ordered by `until` */
    struct as_fingerprint fingerprint;
    enum as_blame_state state;
    uint32_t deaths_caused; /* deaths of workers that count against it */
    /* requests that wait or run because of this entry, which stays while there are any */
    uint32_t n_requests;
    /* one of these deaths happened while it ran alone; deaths may be reported in any order */
    bool proven;
    /* one of these requests has a replica for itself, or died with it and the cause is not known
     * yet */
    bool in_quarantine;
    as_ns longest_run; /* the longest time that one had been at a worker when that worker ended */
    as_ns until;
};

struct as_blame_conf {
    uint32_t max; /* entries of the table; 0: no request is ever blamed */
    as_ns ttl;
};

struct as_blame {
    struct as_blame_conf conf;
    struct as_list entries;
    uint32_t n;
};

void as_blame_init(struct as_blame *b, const struct as_blame_conf *conf);
void as_blame_fini(struct as_blame *b);

/* Does an entry have this model and size? Only then is a sample worth computing. */
bool as_blame_may_match(const struct as_blame *b, uint32_t model, uint64_t size);
/* An entry with the model, size and sample of p; NULL: none. Only then is a fingerprint worth
 * computing. */
struct as_blame_entry *as_blame_find_similar(struct as_blame *b, const struct as_fingerprint *p);
/* The entry with exactly this fingerprint. NULL: there is none, or it has expired. */
struct as_blame_entry *as_blame_find(struct as_blame *b, const struct as_fingerprint *p, as_ns now);
/* Counts a death of a worker that crashed or was unhealthy, in which p had been executing for
 * `ran`. alone: p ran there alone, as a suspect. A full table drops its oldest entry that is not in
 * use. NULL: all of its entries are in use. */
struct as_blame_entry *as_blame_add(struct as_blame *b, const struct as_fingerprint *p, bool alone,
                                    as_ns ran, as_ns now);
/* Makes p a suspect without counting a death, because the cause of the death is not known yet. NULL
 * as above. */
struct as_blame_entry *as_blame_add_suspect(struct as_blame *b, const struct as_fingerprint *p,
                                            as_ns now);
/* Removes all entries of a model, of which no request waits: its index will be used for another. */
void as_blame_forget_model(struct as_blame *b, uint32_t model);
/* Removes e because a run of it ended well. No request may refer to it any more. */
void as_blame_remove(struct as_blame *b, struct as_blame_entry *e);
/* Removes or downgrades the entries whose time is over. */
void as_blame_expire(struct as_blame *b, as_ns now);
uint32_t as_blame_poisons(const struct as_blame *b);
bool as_blame_ok(const struct as_blame *b);

#endif
