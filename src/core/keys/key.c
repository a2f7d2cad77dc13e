#include "core/keys/key.h"

#include "core/keys/glob.h"

#include <stdlib.h>

const char *as_key_refusal_name(enum as_key_refusal r)
{
    static const char *const names[AS_KEY_REFUSALS] = {
        "accepted", "missing", "wrong", "expired", "not_allowed", "rate", "in_flight"};

    return names[r];
}

/* --- lifetime --- */

static uint32_t add(uint32_t *n)
{
    return __atomic_add_fetch(n, 1, __ATOMIC_RELAXED);
}

/* What other threads did before they gave up their references is done for the last one. */
static bool is_last(uint32_t *refs)
{
    return __atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL) == 0;
}

static char *put_text(char *p, struct as_str s)
{
    if (s.n)
        memcpy(p, s.p, s.n);
    return p + s.n;
}

static bool is_same(const struct as_key *k, const struct as_key_line *l)
{
    return as_str_eq(as_key_tenant(k), l->tenant) && as_str_eq(as_key_models(k), l->models) &&
           as_str_eq(as_key_applications(k), l->applications) && k->expires == l->expires &&
           k->rate == l->rate && k->rate_period == l->rate_period && k->burst == l->burst &&
           k->in_flight == l->in_flight;
}

static struct as_key_usage *usage_of(struct as_key *former)
{
    struct as_key_usage *u = former ? former->usage : NULL;

    if (u) {
        add(&u->refs);
        return u;
    }
    u = calloc(1, sizeof(*u));
    if (u)
        u->refs = 1;
    return u;
}

struct as_key *as_key_new(const struct as_key_line *line, struct as_key *former)
{
    size_t n = line->name.n + line->tenant.n + line->models.n + line->applications.n;
    struct as_key *k;
    char *p;

    if (former && is_same(former, line))
        return as_key_ref(former);
    k = malloc(sizeof(*k) + n);
    if (!k)
        return NULL;
    *k = (struct as_key){.refs = 1,
                         .expires = line->expires,
                         .rate = line->rate,
                         .rate_period = line->rate_period,
                         .burst = line->burst,
                         .in_flight = line->in_flight,
                         .n_name = (uint16_t)line->name.n,
                         .n_tenant = (uint16_t)line->tenant.n,
                         .n_models = (uint16_t)line->models.n,
                         .n_applications = (uint16_t)line->applications.n};
    memcpy(k->digest, line->digest, sizeof(k->digest));
    p = put_text(put_text(k->text, line->name), line->tenant);
    put_text(put_text(p, line->models), line->applications);
    if ((k->rate || k->in_flight) && !(k->usage = usage_of(former))) {
        free(k);
        return NULL;
    }
    return k;
}

struct as_key *as_key_ref(struct as_key *k)
{
    add(&k->refs);
    return k;
}

void as_key_unref(struct as_key *k)
{
    if (!k || !is_last(&k->refs))
        return;
    if (k->usage && is_last(&k->usage->refs))
        free(k->usage);
    free(k);
}

/* --- rights --- */

static bool is_all(struct as_str patterns)
{
    while (patterns.n) {
        if (as_str_eq(as_str_split(&patterns, ','), AS_STR("*")))
            return true;
    }
    return false;
}

bool as_key_may_use_model(const struct as_key *k, struct as_str model)
{
    return as_glob_list_matches(as_key_models(k), model);
}

bool as_key_may_use_application(const struct as_key *k, struct as_str application)
{
    return as_glob_list_matches(as_key_applications(k), application);
}

bool as_key_may_use_all_applications(const struct as_key *k)
{
    return is_all(as_key_applications(k));
}

bool as_key_is_unrestricted(const struct as_key *k)
{
    return is_all(as_key_models(k)) && is_all(as_key_applications(k));
}

/* --- quotas --- */

/* A request needs a token; the bucket of `burst` tokens gets one every `interval`.
 *
 * A change of the key's line may leave a `next` that is later than that of an empty bucket, since
 * it counts the intervals of the former line: the bucket is taken to be empty then. It is not found
 * out by when the line changed, since other loops may use the former key for a moment. */
static bool take_token(struct as_key *k, as_ns now, as_ns *ret_wait)
{
    as_ns interval = k->rate_period * AS_SEC / k->rate, empty = k->burst * interval;
    as_ns room = empty - interval, seen = __atomic_load_n(&k->usage->next, __ATOMIC_RELAXED), next;
    bool enough;

    do {
        next = seen > now + empty + AS_KEY_CLOCKS_DIFFER ? now + empty : seen;
        enough = next <= now + room;
        if (enough)
            next = AS_MAX(next, now) + interval;
        else
            *ret_wait = next - now - room;
    } while (next != seen && !__atomic_compare_exchange_n(&k->usage->next, &seen, next, true,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return enough;
}

enum as_key_refusal as_key_take(struct as_key *k, bool holds, as_ns now, as_ns *ret_wait)
{
    *ret_wait = 0;
    if (!k->usage)
        return AS_KEY_ACCEPTED;
    /* counted even without a limit of them, so that one that a new line sets beside a rate knows
     * them */
    if (holds && add(&k->usage->in_flight) > k->in_flight && k->in_flight) {
        as_key_release(k);
        return AS_KEY_IN_FLIGHT;
    }
    if (!k->rate || take_token(k, now, ret_wait))
        return AS_KEY_ACCEPTED;
    if (holds)
        as_key_release(k);
    return AS_KEY_RATE;
}

void as_key_release(struct as_key *k)
{
    if (k->usage)
        __atomic_sub_fetch(&k->usage->in_flight, 1, __ATOMIC_RELAXED);
}
