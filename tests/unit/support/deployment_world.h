/* tests/unit/support/deployment_world.h — a deployment whose ops write what core asks for into a
 * log.
 *
 * Requests have small letters as names, replicas capital letters. The log has these entries:
 *   X:2    the next two for X are one call
 *   a>X    a is sent to X              X<ab   a and b are recalled from X
 *   a!C    CANCEL, the client left     a!D    CANCEL, the deadline passed
 *   a=ERR  a is answered with ERR      ~a     a is released
 *   a@X    a has reserved a slot of X
 *   z:a    z is the hedge of a
 *   a?     the user's router is asked for a replica for a; -a: no answer is needed any more
 */
#ifndef DEPLOY_WORLD_H
#define DEPLOY_WORLD_H

#include "base/err.h"
#include "core/dispatch/deployment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define PREFETCH_WORK      (100 * AS_US)
#define WORLD_RESERVE_TIME (5 * AS_SEC)

struct world {
    struct as_deployment *d;
    struct as_request q[26]; /* by letter */
    struct as_replica *r[26];
    char names[26]; /* links: what as_replica_link gives */
    uint64_t streams[26];
    as_ns now;
    uint64_t size[26]; /* of a request's body */
    uint64_t sample[26];
    uint64_t printed;               /* bytes read for the current fingerprint */
    uint32_t prints;                /* complete fingerprints */
    bool works;                     /* as_deployment_work is to be called */
    uint32_t hedges;                /* that were made, from z on downwards */
    struct as_router_choice choice; /* what the user's router answers at once; n = 0: later */
    size_t n;
    char log[1024];
};

AS_PRINTF(2, 3) static inline void note(struct world *w, const char *fmt, ...)
{
    va_list ap;

    if (w->n)
        w->log[w->n++] = ' ';
    va_start(ap, fmt);
    w->n += (size_t)vsnprintf(w->log + w->n, sizeof(w->log) - w->n, fmt, ap);
    va_end(ap);
}

static inline char letter(const struct world *w, const struct as_request *q)
{
    return (char)('a' + (q - w->q));
}

static inline char letter_of(const struct as_replica *r)
{
    return *(const char *)as_replica_link(r);
}

static inline void world_send(void *ctx, struct as_replica *r, struct as_request *q)
{
    struct world *w = ctx;

    w->streams[letter_of(r) - 'A'] += 2;
    q->stream = w->streams[letter_of(r) - 'A'];
    note(w, "%c>%c", letter(w, q), letter_of(r));
}

static inline void world_batch(void *ctx, struct as_replica *r, uint32_t n)
{
    note(ctx, "%c:%u", letter_of(r), n);
}

/* Not logged: tests use as_deployment_next_deadline. */
static inline void world_wake(void *ctx, as_ns when)
{
    assert_true(when > ((struct world *)ctx)->now);
}

/* As in the edge for two requests with the same hash. */
static inline bool world_alike(const struct as_request *a, const struct as_request *b)
{
    return a->idempotent == b->idempotent;
}

static inline void world_recall(void *ctx, struct as_replica *r, struct as_request *const *q,
                                uint32_t n)
{
    struct world *w = ctx;
    char list[32] = "";

    for (uint32_t i = 0; i < n; i++)
        list[i] = letter(w, q[i]);
    note(w, "%c<%s", letter_of(r), list);
}

static inline void world_cancel(void *ctx, struct as_replica *r AS_UNUSED, struct as_request *q,
                                int reason)
{
    note(ctx, "%c!%c", letter(ctx, q), reason == AS_ECANCELLED ? 'C' : 'D');
}

static inline void world_answer(void *ctx, struct as_request *q, int err)
{
    note(ctx, "%c=%s", letter(ctx, q), as_err_name(err));
}

static inline void world_release(void *ctx, struct as_request *q)
{
    assert_int_equal(q->state, AS_REQ_DONE);
    note(ctx, "~%c", letter(ctx, q));
}

/* Compares the log since the last call, and checks core's invariants. */
static inline void expect(struct world *w, const char *want)
{
    w->log[w->n] = '\0';
    assert_string_equal(w->log, want);
    w->n = 0;
    assert_true(as_deployment_ok(w->d));
}

static inline uint64_t world_sample(void *ctx, const struct as_request *q, uint64_t *ret_sample)
{
    struct world *w = ctx;

    if (ret_sample)
        *ret_sample = w->sample[q - w->q];
    return w->size[q - w->q];
}

/* Requests of the same `kind` have the same fingerprint (for models without batching); 0: a unique
 * one. */
static inline bool world_print(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
                               struct as_fingerprint *ret_p)
{
    struct world *w = ctx;
    uint64_t n;

    if (first)
        w->printed = 0;
    n = AS_MIN(w->size[q - w->q] - w->printed, *bytes);
    w->printed += n;
    *bytes -= n;
    if (w->printed < w->size[q - w->q])
        return false;
    w->prints++;
    ret_p->lo = q->kind ? q->kind : 1000 + (uint64_t)(q - w->q);
    return true;
}

static inline void world_next_turn(void *ctx)
{
    ((struct world *)ctx)->works = true;
}

/* Runs the next turn of the loop. */
static inline void work(struct world *w)
{
    assert_true(w->works);
    w->works = false;
    w->now++;
    as_deployment_work(w->d, w->now);
}

static inline bool world_ask(void *ctx, struct as_request *q, struct as_router_choice *ret)
{
    struct world *w = ctx;

    note(w, "%c?", letter(w, q));
    *ret = w->choice;
    return ret->n != 0;
}

static inline void world_unask(void *ctx, struct as_request *q)
{
    note(ctx, "-%c", letter(ctx, q));
}

static inline void world_reserved(void *ctx, struct as_replica *r, struct as_request *q)
{
    assert_int_equal(q->reservation, AS_RESERVATION_HELD);
    note(ctx, "%c@%c", letter(ctx, q), letter_of(r));
}

static inline struct as_request *world_hedge(void *ctx, struct as_request *q)
{
    struct world *w = ctx;
    struct as_request *second = &w->q[25 - w->hedges++ % 10];

    note(w, "%c:%c", letter(w, second), letter(w, q));
    return second;
}

static inline struct world *world_new_conf(int64_t max_queued, const struct as_router_conf *router)
{
    static const struct as_deployment_ops ops = {
        world_batch,     world_send, world_recall, world_cancel,   world_answer,
        world_release,   world_wake, world_alike,  world_sample,   world_print,
        world_next_turn, world_ask,  world_unask,  world_reserved, world_hedge};
    struct as_deployment_conf conf = {
        .max_queued = max_queued,
        .router = *router,
        .prefetch_work = PREFETCH_WORK,
        .seed = 1,
        .retry = {.attempts = 3, .percent = 10, .least = 3},
        .blame = {.max = 8, .ttl = 60 * AS_SEC},
        .breaker = {.failures = 5, .probes = 3, .open = AS_SEC, .open_max = 30 * AS_SEC},
        .outlier = {.factor = 3, .percent = 33},
        .verdict_wait = 25 * AS_MS,
        .repeat_verdict_wait = 2 * AS_SEC,
        .quarantine = {.time = 2 * AS_SEC, .wait = 30 * AS_SEC},
        .reserve_time = WORLD_RESERVE_TIME};
    struct world *w = as_xalloc(sizeof(*w));

    w->now = AS_SEC;
    for (uint32_t i = 0; i < 26; i++) {
        as_request_init(&w->q[i]);
        w->names[i] = (char)('A' + i);
    }
    assert_int_equal(as_deployment_new(&w->d, AS_STR("test"), &conf, &ops, w), 0);
    return w;
}

static inline struct world *world_new_with(int64_t max_queued, enum as_router router)
{
    struct as_router_conf conf = AS_ROUTER_CONF_DEFAULT;

    conf.policy = router;
    return world_new_conf(max_queued, &conf);
}

static inline struct world *world_new(void)
{
    return world_new_with(-1, AS_ROUTER_LATE_BINDING);
}

static inline void world_free(struct world *w)
{
    as_deployment_free(w->d);
    free(w);
}

static inline struct as_request *req(struct world *w, char c)
{
    return &w->q[c - 'a'];
}

static inline struct as_replica *rep(struct world *w, char c)
{
    return w->r[c - 'A'];
}

static inline void grant(struct world *w, char c, uint32_t slots, uint32_t prefetch)
{
    as_replica_grant(rep(w, c), slots, prefetch, w->now);
}

static inline void join(struct world *w, char c, uint32_t slots, uint32_t prefetch)
{
    assert_int_equal(as_replica_new(&w->r[c - 'A'], w->d, &w->names[c - 'A']), 0);
    if (slots)
        grant(w, c, slots, prefetch);
}

static inline int submit(struct world *w, char c)
{
    return as_deployment_submit(w->d, req(w, c), w->now);
}

/* Submits one after the other; all must be accepted. */
static inline void submit_all(struct world *w, const char *list)
{
    for (; *list; list++)
        assert_int_equal(submit(w, *list), 0);
}

/* The worker answers after 10 us. True: the client gets the answer. */
static inline bool done(struct world *w, char c)
{
    w->now += 10 * AS_US;
    return as_replica_done(req(w, c)->replica, req(w, c), 10 * AS_US, false, w->now);
}

static inline bool done_with(struct world *w, char c, as_ns service, bool retry)
{
    return as_replica_done(req(w, c)->replica, req(w, c), service, retry, w->now);
}

/* The worker of r answers a RECALL: it gives these requests back. */
static inline void returned(struct world *w, char r, const char *list)
{
    for (; *list; list++)
        as_replica_returned(rep(w, r), req(w, *list), w->now);
    as_replica_recall_done(rep(w, r), w->now);
}

/* Makes a new request of a letter whose request has ended. */
static inline void renew_request(struct world *w, char c)
{
    as_request_init(req(w, c));
}

/* The worker of r dies. It had started streams up to that of request `started` ('-': none). */
static inline uint64_t die(struct world *w, char r, char started, enum as_loss loss)
{
    return as_replica_free(rep(w, r), started == '-' ? 0 : req(w, started)->stream, loss, w->now);
}

/* Makes new requests of these letters. */
static inline void make_requests(struct world *w, const char *list, bool idempotent, uint64_t kind)
{
    for (; *list; list++) {
        renew_request(w, *list);
        req(w, *list)->idempotent = idempotent;
        req(w, *list)->kind = kind;
    }
}

#endif
