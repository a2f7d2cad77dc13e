/* core/keys/key.h — an API key: what it may use, and how much of that at once.
 *
 * A key does not change once it is made, except for its counters. A new reading of the file makes a
 * new key only for a line that has changed; the counters of a key with the same name and digest
 * live on. Quotas hold for all loops together: rates are counted by the generic cell rate algorithm
 * (ITU-T I.371, Annex A), which is a token bucket in one word. Time is a parameter. Any thread.
 */
#ifndef AS_CORE_KEY_H
#define AS_CORE_KEY_H

#include "core/keys/key_line.h"

/* Why a request is refused; each is counted. */
enum as_key_refusal {
    AS_KEY_ACCEPTED,
    AS_KEY_MISSING,
    AS_KEY_WRONG,
    AS_KEY_EXPIRED,
    AS_KEY_NOT_ALLOWED, /* for what is asked for */
    AS_KEY_RATE,
    AS_KEY_IN_FLIGHT,
    AS_KEY_REFUSALS
};
const char *as_key_refusal_name(enum as_key_refusal r); /* unique: a label of metrics */

/* The counters of a key with a quota; shared by the keys that follow each other in time while each
 * has one: a key without a quota counts nothing, so that it costs neither memory nor a word that
 * all loops write. */
struct as_key_usage {
    uint32_t refs, in_flight;
    as_ns next; /* when the bucket is full again: the theoretical arrival time of the algorithm */
};

struct as_key {
    uint32_t refs;
    bool retired;               /* a later reading did not have it: look in the loop's table. It may
                                 * be there all the same, if that reading was dropped */
    struct as_key_usage *usage; /* NULL: no quota */
    uint64_t expires;           /* as in the line, which see for these */
    uint32_t rate, rate_period, burst, in_flight;
    uint8_t digest[AS_SHA256_BYTES];
    uint16_t n_name, n_tenant, n_models, n_applications;
    char text[]; /* name, tenant, models, applications */
};

/* former: the key of the same name and digest, or NULL. If nothing has changed, it gets one
 * reference more and is returned. NULL: no memory. */
struct as_key *as_key_new(const struct as_key_line *line, struct as_key *former);
struct as_key *as_key_ref(struct as_key *k);
void as_key_unref(struct as_key *k); /* NULL is fine */

static inline struct as_str as_key_name(const struct as_key *k)
{
    return (struct as_str){k->text, k->n_name};
}
static inline struct as_str as_key_tenant(const struct as_key *k)
{
    return (struct as_str){k->text + k->n_name, k->n_tenant};
}
static inline struct as_str as_key_models(const struct as_key *k)
{
    return (struct as_str){k->text + k->n_name + k->n_tenant, k->n_models};
}
static inline struct as_str as_key_applications(const struct as_key *k)
{
    return (struct as_str){k->text + k->n_name + k->n_tenant + k->n_models, k->n_applications};
}

bool as_key_may_use_model(const struct as_key *k, struct as_str model);
bool as_key_may_use_application(const struct as_key *k, struct as_str application);
bool as_key_may_use_all_applications(const struct as_key *k);
/* May use every model and application: what concerns the whole server is for such keys. */
bool as_key_is_unrestricted(const struct as_key *k);

/* unix_s: seconds since 1970. */
static inline bool as_key_is_expired(const struct as_key *k, uint64_t unix_s)
{
    return k->expires && unix_s >= k->expires;
}

/* How much the clocks of loops that use one key may differ: a loop reads its clock once a turn. */
#define AS_KEY_CLOCKS_DIFFER AS_SEC

/* Counts a request against the quotas: AS_KEY_ACCEPTED, then as_key_release must follow when it has
 * ended, if `holds`; AS_KEY_RATE or AS_KEY_IN_FLIGHT: it was not counted, and *ret_wait is the time
 * after which a further request may be accepted; 0: unknown. holds: it counts as one in flight. A
 * new line's quotas hold at once: a key waits for a token for at most a full interval of its line
 * and AS_KEY_CLOCKS_DIFFER. */
enum as_key_refusal as_key_take(struct as_key *k, bool holds, as_ns now, as_ns *ret_wait);
void as_key_release(struct as_key *k);

#endif
