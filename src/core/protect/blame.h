/* core/protect/blame.h — requests that ended workers: suspects, and those that are refused for a
 * while.
 *
 *              was executing when a             a worker went the same way while
 *              worker ended itself, hung           it ran there alone
 *              or was not well                     (as a suspect)
 *   unknown ────────────────────────► SUSPECT ─────────────────────► CONDEMNED
 *      ▲                                │  ▲                             │
 *      └── a run of it ended well, or ──┘  └──────── ttl over ───────────┘
 *          ttl over and nobody waits
 *
 * A suspect runs alone (core/dispatch/quarantine.h), so that it takes no neighbour along and its
 * next death proves something; a condemned one is refused. The first death may be a neighbour's
 * doing, so it condemns nobody. Where nobody has said yet why a worker died, its requests may be
 * suspects on no more than that. A request is known by a fingerprint of its model and body, which
 * is taken only when a worker has died, and of requests whose model, size and sample fit an entry
 * of this table. Pure but for the heap. Thread: the caller's.
 */
#ifndef AS_CORE_BLAME_H
#define AS_CORE_BLAME_H

#include "base/defs.h"
#include "base/list.h"

struct as_fingerprint {
    uint64_t hi, lo; /* a hash of the body, of a secret seed */
    uint64_t sample; /* a hash of a small part of it */
    uint64_t size;   /* of the body, bytes */
    uint32_t model;
};

enum as_blame_state { AS_BLAME_SUSPECT, AS_BLAME_POISON };

struct as_blame_entry {
    struct as_list node; /* the table's, in the order of `until` */
    struct as_fingerprint fingerprint;
    enum as_blame_state state;
    uint32_t deaths_caused; /* workers that it ended, as far as is known */
    uint32_t n_requests; /* requests that are held as this suspect, one on trial included: the entry
                         stays */
    bool proven;         /* one of these deaths was on trial; verdicts may come in any order */
    bool in_quarantine; /* one of them has a replica for itself, or that has died with it and nobody
                    has said why */
    as_ns longest_run;  /* the longest that one had been with a worker when that ended */
    as_ns until;
};

struct as_blame_conf {
    uint32_t max; /* entries; 0: nobody is ever blamed */
    as_ns ttl;
};

struct as_blame {
    struct as_blame_conf conf;
    struct as_list entries;
    uint32_t n;
    uint64_t missed; /* for which there was no room */
};

void as_blame_init(struct as_blame *b, const struct as_blame_conf *conf);
void as_blame_fini(struct as_blame *b);

/* Is a sample worth taking? */
bool as_blame_may_match(const struct as_blame *b, uint32_t model, uint64_t size);
/* Is a fingerprint: an entry with this model, size and sample. NULL: there is none. */
struct as_blame_entry *as_blame_find_similar(struct as_blame *b, const struct as_fingerprint *p);
/* NULL: not known, or not any more. */
struct as_blame_entry *as_blame_find(struct as_blame *b, const struct as_fingerprint *p, as_ns now);
/* It had been executing for `ran` in a worker that ended by its own making, or was condemned.
 * on_trial: alone there, as a suspect. NULL: the table is full of entries that are needed. Full
 * otherwise: the oldest goes. */
struct as_blame_entry *as_blame_add(struct as_blame *b, const struct as_fingerprint *p,
                                    bool on_trial, as_ns ran, as_ns now);
/* It may come to be blamed: a suspect without a death so far. NULL as above. */
struct as_blame_entry *as_blame_add_suspect(struct as_blame *b, const struct as_fingerprint *p,
                                            as_ns now);
/* What is known of requests of that model, none of which waits, is forgotten: the index will be
 * another's. */
void as_blame_forget_model(struct as_blame *b, uint32_t model);
/* A run of it ended well, and nobody waits as this suspect any more: it is forgotten. */
void as_blame_remove(struct as_blame *b, struct as_blame_entry *e);
/* Forgets what is over. */
void as_blame_expire(struct as_blame *b, as_ns now);
uint32_t as_blame_poisons(const struct as_blame *b);
bool as_blame_ok(const struct as_blame *b);

#endif
