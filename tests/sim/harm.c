/* Requests that do harm: they crash their worker, hang in it, or make it unhealthy so that it is
 * killed. Some harmless requests look the same, or differ only in parts that must be read. */
#include "sim.h"

/* From then on nothing does harm, so that some worker is left in the end. */
#define WORKERS_HARMED (WORKERS_MAX - 32u)

#define DELAY_MAX                                                                                  \
    (100 * AS_US) /* longest delay of a link, and from finding a worker unhealthy to its death */

static as_ns pick(struct sim *s, const as_ns *list, uint32_t n)
{
    return list[below(s, n)];
}
#define PICK(s, ...)                                                                               \
    pick(s, (const as_ns[]){__VA_ARGS__}, (uint32_t)AS_COUNT(((as_ns[]){__VA_ARGS__})))

/* --- parameters --- */

static void draw_poisons(struct sim *s)
{
    uint32_t share = (uint32_t)PICK(s, 5, 20, 20, 100);

    s->scenario.n_poisons = (uint32_t)PICK(s, 0, 1, 1, 2, 3);
    for (uint32_t i = 0; i < s->scenario.n_poisons; i++) {
        struct poison *p = &s->scenario.poison[i];

        p->harm = (enum harm)PICK(s, CRASH, CRASH, HANG, SICKEN);
        p->fuse = p->harm == CRASH ? PICK(s, 0, 1 * AS_US, 20 * AS_US, 100 * AS_US)
                                   : PICK(s, 200 * AS_US, 1 * AS_MS);
        p->blocks = chance(s, 500);
        p->works = s->scenario.strict ? 1000 : (uint32_t)PICK(s, 1000, 500, 100);
    }
    for (uint32_t i = 0; i < s->scenario.n_calls; i++) {
        struct call *c = &s->calls[i];

        c->fingerprint = chance(s, 200) ? 10 + below(s, 5) : 100 + i;
        if (!s->scenario.n_poisons || c->q.is_mirror || !chance(s, share))
            continue;
        c->poison = c->fingerprint = 1 + below(s, s->scenario.n_poisons);
        c->q.model = c->poison % s->scenario.n_models; /* a fingerprint includes the model */
    }
}

void draw_harm(struct sim *s)
{
    struct scenario *i = &s->scenario;

    i->harmful = true;
    i->strict = chance(s, 500);
    i->reported = i->strict ? 1000 : (uint32_t)PICK(s, 1000, 500, 0);
    i->large = chance(s, 300);
    i->alike = chance(s, 300);
    i->blame.max = i->strict ? 1024 : (uint32_t)PICK(s, 0, 1, 4, 256);
    i->blame.ttl = i->strict ? 1000 * AS_SEC : PICK(s, 100 * AS_US, 1 * AS_MS, 1 * AS_SEC);
    i->quarantine.time = i->strict ? PICK(s, 1 * AS_MS, 5 * AS_MS) : PICK(s, 20 * AS_US, 1 * AS_MS);
    i->quarantine.wait =
        i->strict ? 1000 * AS_SEC : PICK(s, 50 * AS_US, 1 * AS_MS, 20 * AS_MS, 1 * AS_SEC);
    i->attempts = (uint32_t)PICK(s, 2, 3, 3, 255);
    i->breaker = (struct as_breaker_conf){.failures = (uint32_t)PICK(s, 0, 3, 5),
                                          .probes = (uint32_t)PICK(s, 1, 3),
                                          .open = PICK(s, 50 * AS_US, 1 * AS_MS)};
    i->breaker.open_max = i->breaker.open * PICK(s, 1, 8);
    i->outlier = (struct as_outlier_conf){.factor = (uint32_t)PICK(s, 0, 3),
                                          .least = PICK(s, 0, 10 * AS_US),
                                          .percent = (uint32_t)PICK(s, 0, 33, 100)};
    i->failing = (uint32_t)PICK(s, 0, 0, 300, 1000);
    i->page_lost = 0;
    if (i->strict) /* the supervisor's report is always in time */
        i->verdict_wait = i->repeat_verdict_wait = 1 * AS_MS;
    draw_poisons(s);
}

/* --- ops of core --- */

static uint64_t size_of(const struct sim *s, const struct call *c)
{
    return s->scenario.large ? c->fingerprint % 3 * (AS_DEPLOYMENT_PORTION / 2) + 1000 : 10;
}

uint64_t sim_sample(void *ctx, const struct as_request *q, uint64_t *ret_sample)
{
    const struct sim *s = ctx;
    const struct call *c = AS_CONTAINER((struct as_request *)(uintptr_t)q, struct call, q);

    if (ret_sample)
        *ret_sample = s->scenario.alike ? 0 : c->fingerprint;
    return size_of(s, c);
}

bool sim_print(void *ctx, const struct as_request *q, bool first, uint64_t *bytes,
               struct as_fingerprint *ret_p)
{
    struct sim *s = ctx;
    const struct call *c = AS_CONTAINER((struct as_request *)(uintptr_t)q, struct call, q);
    uint64_t n;

    if (!first && s->fingerprinting != c)
        fail(s, "core goes on with another fingerprint than it began");
    s->bytes_read = first ? 0 : s->bytes_read;
    s->fingerprinting = c;
    n = AS_MIN(size_of(s, c) - s->bytes_read, *bytes);
    *bytes -= n;
    s->bytes_read += n;
    if (c->released)
        fail(s, "core reads call %u, which it has released", (uint32_t)(c - s->calls));
    ret_p->lo = c->fingerprint;
    return s->bytes_read == size_of(s, c);
}

/* --- effects on workers --- */

bool harm_begins(struct sim *s, struct worker *w, uint64_t stream)
{
    struct call *c = &s->calls[w->streams[stream / 2].call];
    const struct poison *p = c->poison ? &s->scenario.poison[c->poison - 1] : NULL;

    if (s->scenario.harmful && /* a hedge is one more */
        c->runs - c->free_runs > s->scenario.attempts + (c->is_hedge || c->second))
        fail(s, "call %u runs more than %u times", w->streams[stream / 2].call,
             s->scenario.attempts);
    if (!p || !chance(s, p->works) || s->n_workers > WORKERS_HARMED)
        return false;
    trace(s, "call %u does harm to worker %u", w->streams[stream / 2].call, w->number);
    w->stalled = w->stalled || p->blocks;
    schedule(s, s->now + p->fuse, p->harm == CRASH ? E_CRASH : E_UNHEALTHY, w->number, stream);
    return true;
}

void harm_crash(struct sim *s, struct worker *w, uint64_t stream)
{
    if (!w->alive || (!w->unhealthy && w->streams[stream / 2].state != S_RUNNING))
        return;
    if (!w->unhealthy) {
        w->crashed = true;
        w->culprit = w->streams[stream / 2].call;
        s->expected.crashes++;
    }
    worker_kill(s, w);
}

struct sentence {
    struct sim *s;
    struct worker *w;
    as_ns fuse;
};

static void give_up(void *arg, struct as_request *q)
{
    struct sentence *k = arg;
    const struct stream *t = &k->w->streams[q->stream / 2];

    struct call *c = AS_CONTAINER(q, struct call, q);

    if (q->stream / 2 < k->w->n_streams && t->state == S_RUNNING &&
        t->started + k->fuse <= k->s->now && c->twin) {
        part_twins(c, false); /* which answers nobody */
        c->cancelled = false;
        c->answered = true;
    }
    if (q->stream / 2 < k->w->n_streams && t->state == S_RUNNING &&
        t->started + k->fuse <= k->s->now)
        as_replica_fail_request(k->w->replica, q, AS_EHUNG);
}

/* As in link/native/link_health.c. */
void harm_find_unhealthy(struct sim *s, struct worker *w, uint64_t stream)
{
    const struct call *c = &s->calls[w->streams[stream / 2].call];
    const struct poison *p = &s->scenario.poison[c->poison - 1];
    struct sentence k = {s, w, p->fuse};

    if (!w->alive || !w->registered || w->unhealthy || w->streams[stream / 2].state != S_RUNNING)
        return;
    trace(s, "worker %u is unhealthy", w->number);
    w->unhealthy = w->draining = true;
    w->culprit = w->streams[stream / 2].call;
    w->suspect_to = w->last_started;
    s->expected.unhealthy++;
    as_replica_set_unhealthy(w->replica, w->suspect_to);
    as_replica_drain(w->replica, true, s->now);
    if (p->harm == HANG)
        as_replica_each_executing(w->replica, give_up, &k);
    schedule(s, s->now + between(s, 0, DELAY_MAX), E_CRASH, w->number, stream);
}
