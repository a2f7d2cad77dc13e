#include "edge/exchange/key_access.h"

#include "base/counter.h"
#include "edge/exchange/cors.h"
#include "io/loop/clock.h"
#include "wire/http/http_field.h"

#define HOW "send one as 'authorization: Bearer KEY' or 'x-api-key: KEY'"

/* --- refusals --- */

static void refuse(struct as_exchange *x, enum as_key_refusal why, as_ns wait, const char *text)
{
    struct as_edge *e = x->edge;
    int err = why == AS_KEY_NOT_ALLOWED                       ? AS_EDENIED
              : why == AS_KEY_RATE || why == AS_KEY_IN_FLIGHT ? AS_EFULL
                                                              : AS_EUNAUTHENTICATED;
    uint64_t skipped;

    as_counter_add(&e->stat.keys_refused[why], 1);
    if (as_edge_may_log(e, AS_EDGE_LOG_KEY, &skipped))
        as_log_event(e->log, AS_LOG_WARN, "api_key_refused", "reason=%s key=%.*s skipped=%lu",
                     as_key_refusal_name(why),
                     AS_STR_FMT(x->key ? as_key_name(x->key) : AS_STR("-")),
                     (unsigned long)skipped);
    if (err == AS_EFULL) {
        x->answer.backpressure =
            (struct as_backpressure){.status = 429, .has_retry = wait > 0, .retry = wait};
        x->answer.retry_after = wait;
    }
    as_exchange_fail(x, err, "%s", text);
}

static bool refuse_key(struct as_exchange *x, enum as_key_refusal why)
{
    refuse(x, why, 0,
           why == AS_KEY_MISSING   ? "this server needs an API key: " HOW
           : why == AS_KEY_EXPIRED ? "the API key has expired: ask for a new one"
                                   : "the API key is not valid: ask for one, and " HOW);
    return false;
}

/* Without a table it is not known which keys are valid: to ask for another one would not help. */
static bool check_table(struct as_exchange *x)
{
    if (!x->edge->keys.table)
        as_exchange_fail(x, AS_EUNAVAILABLE,
                         "the server has no valid file of API keys: see its log");
    return x->edge->keys.table != NULL;
}

void as_key_access_refuse(struct as_exchange *x)
{
    if (!check_table(x))
        return;
    if (x->key)
        refuse(x, AS_KEY_NOT_ALLOWED, 0,
               "this API key may not be used for that: ask for a key that may");
    else
        refuse_key(x, x->key_refusal ? x->key_refusal : AS_KEY_MISSING);
}

static bool accept_or_refuse(struct as_exchange *x, bool allowed)
{
    if (!allowed)
        as_key_access_refuse(x);
    return allowed;
}

/* --- who --- */

/* What a request says of its key. */
struct presented {
    struct as_str text; /* empty: none */
    bool is_ambiguous;  /* there are others of the same kind: it is not clear which is meant */
};

/* The key in a field, or an empty slice: it is another field, or has no value of that form. */
static struct as_str key_in(const struct as_http_header *h)
{
    if (as_str_eq(h->name, AS_STR("x-api-key")))
        return h->value;
    if (as_str_eq(h->name, AS_STR("authorization")))
        return as_http_field_bearer(h->value);
    return (struct as_str){0};
}

/* A text that has the form of our keys counts more than another one, which may be for the
 * application: it has its own field then. */
static struct presented find_presented(const struct as_http_head *head)
{
    struct presented p = {0};
    bool has_form = false;

    for (uint32_t i = 0; i < head->n_rest; i++) {
        struct as_str text = key_in(&head->rest[i]);
        bool form = as_key_text_has_form(text);

        if (!text.n || (has_form && !form))
            continue;
        if (form && !has_form) /* whatever the others are */
            p = (struct presented){.text = text};
        else if (!p.text.n)
            p.text = text;
        else
            p.is_ambiguous |= !as_str_eq(p.text, text);
        has_form = form;
    }
    return p;
}

/* A copy of the head without the fields that have the key, for whoever reads it later. False: no
 * memory. */
static bool strip_head(struct as_exchange *x, struct as_str text)
{
    const struct as_http_head *from = x->head;
    struct as_http_head *head =
        as_exchange_alloc(x, sizeof(*head) + from->n_rest * sizeof(*head->rest),
                          _Alignof(struct as_http_head), "the request");
    struct as_http_header *rest = (struct as_http_header *)(void *)(head + 1);

    if (!head)
        return false;
    *head = *from;
    head->n_rest = 0;
    for (uint32_t i = 0; i < from->n_rest; i++) {
        struct as_str own = key_in(&from->rest[i]);

        if (!own.n || (!as_key_text_has_form(own) && !as_str_eq(own, text)))
            rest[head->n_rest++] = from->rest[i];
    }
    head->rest = rest;
    x->head = head;
    return true;
}

static bool is_expired(const struct as_key *k)
{
    return k->expires && as_key_is_expired(k, as_clock_read(CLOCK_REALTIME) / AS_SEC);
}

/* AS_KEY_ACCEPTED: x->key is set. */
static enum as_key_refusal find_key(struct as_exchange *x)
{
    struct presented p = find_presented(x->head);
    struct as_key *k;

    if (!p.text.n)
        return AS_KEY_MISSING;
    k = p.is_ambiguous ? NULL : as_key_cache_find(&x->edge->keys, p.text);
    if (!k)
        return AS_KEY_WRONG;
    x->key = as_key_ref(k);
    if (!strip_head(x, p.text))
        return AS_KEY_ACCEPTED; /* it was failed */
    return is_expired(k) ? AS_KEY_EXPIRED : AS_KEY_ACCEPTED;
}

/* What probes ask, which nobody needs a key for. Health's Check is one for the server as a whole,
 * which its message says: edge/grpc/watch.c. */
static bool is_probe(const struct as_exchange *x)
{
    struct as_str path = x->head->path;
    const char *mark = path.n ? memchr(path.p, '?', path.n) : NULL;

    if (x->grpc)
        return x->rpc == AS_RPC_SERVER_LIVE || x->rpc == AS_RPC_SERVER_READY ||
               x->rpc == AS_RPC_HEALTH_CHECK || x->rpc == AS_RPC_SERVE_HEALTHZ;
    if (mark)
        path.n = (size_t)(mark - path.p);
    return as_str_eq(path, AS_STR("/v2/health/live")) ||
           as_str_eq(path, AS_STR("/v2/health/ready")) || as_str_eq(path, AS_STR("/-/healthz"));
}

/* --- how much --- */

static bool take(struct as_exchange *x, bool holds)
{
    enum as_key_refusal why;
    as_ns wait;

    why = as_key_take(x->key, holds, as_loop_now(x->edge->loop), &wait);
    x->key_held = why == AS_KEY_ACCEPTED && holds;
    if (why == AS_KEY_RATE)
        refuse(x, why, wait, "this API key has reached its rate of requests: try again later");
    else if (why == AS_KEY_IN_FLIGHT)
        refuse(x, why, 0,
               "this API key has reached its number of requests at the same time: try again when "
               "one has ended");
    return why == AS_KEY_ACCEPTED;
}

/* Calls that are open for a client's whole life, and cost nothing while they are. */
static bool is_held(const struct as_exchange *x)
{
    return x->rpc != AS_RPC_HEALTH_WATCH && x->rpc != AS_RPC_REFLECTION &&
           x->rpc != AS_RPC_REFLECTION_ALPHA;
}

bool as_key_access_check_request(struct as_exchange *x)
{
    enum as_key_refusal why;

    if (as_cors_is_preflight(x->edge, x->head))
        return true;
    why = find_key(x);
    if (x->state != AS_EXCHANGE_RECEIVING)
        return false;
    if (is_probe(x)) { /* but a check of a model needs a key */
        if (why == AS_KEY_EXPIRED)
            as_key_access_release(x);
        x->key_refusal = why;
        return true;
    }
    if (!check_table(x))
        return false;
    if (why != AS_KEY_ACCEPTED)
        return refuse_key(x, why);
    /* of this call each message is a request */
    return x->rpc == AS_RPC_MODEL_STREAM_INFER || take(x, is_held(x));
}

bool as_key_access_check_operator(struct as_exchange *x)
{
    enum as_key_refusal why = find_key(x);

    if (x->state != AS_EXCHANGE_RECEIVING || !check_table(x))
        return false;
    if (why != AS_KEY_ACCEPTED)
        return refuse_key(x, why);
    return accept_or_refuse(x, as_key_is_unrestricted(x->key)) && take(x, true);
}

/* The key of the request as the table of this loop has it; NULL: it was revoked. */
static struct as_key *newest_of(const struct as_exchange *x)
{
    const struct as_key_table *t = x->edge->keys.table;

    if (!__atomic_load_n(&x->key->retired, __ATOMIC_RELAXED))
        return x->key;
    return t ? as_key_table_find(t, x->key->digest) : NULL;
}

bool as_key_access_is_valid(const struct as_exchange *x)
{
    const struct as_key *k = x->key ? newest_of(x) : NULL;

    return !x->key || (k && !is_expired(k));
}

bool as_key_access_renew(struct as_exchange *x)
{
    struct as_key *k;

    if (!x->key) /* no --api-keys: else the call would have been refused */
        return true;
    k = newest_of(x);
    if (!k)
        return refuse_key(x, AS_KEY_WRONG);
    if (k != x->key) {
        as_key_ref(k);
        as_key_access_release(x);
        x->key = k;
    }
    return is_expired(k) ? refuse_key(x, AS_KEY_EXPIRED) : true;
}

bool as_key_access_count(struct as_exchange *x)
{
    return !x->key || take(x, true);
}

bool as_key_access_check_late(struct as_exchange *x)
{
    return accept_or_refuse(x, !x->edge->conf.api_keys || x->key) && as_key_access_count(x);
}

void as_key_access_release(struct as_exchange *x)
{
    if (!x->key)
        return;
    if (x->key_held)
        as_key_release(x->key);
    as_key_unref(x->key);
    x->key = NULL;
    x->key_held = false;
}

/* --- what --- */

bool as_key_access_lists_model(const struct as_exchange *x, struct as_str model)
{
    return !x->edge->conf.api_keys || (x->key && as_key_may_use_model(x->key, model));
}

bool as_key_access_lists_application(const struct as_exchange *x, struct as_str application)
{
    return !x->edge->conf.api_keys || (x->key && as_key_may_use_application(x->key, application));
}

bool as_key_access_check_model(struct as_exchange *x, struct as_str model)
{
    return accept_or_refuse(x, as_key_access_lists_model(x, model));
}

bool as_key_access_check_application(struct as_exchange *x, struct as_str application)
{
    return accept_or_refuse(x, as_key_access_lists_application(x, application));
}

bool as_key_access_check_unknown(struct as_exchange *x)
{
    return accept_or_refuse(x, !x->edge->conf.api_keys ||
                                   (x->key && as_key_may_use_all_applications(x->key)));
}

bool as_key_access_check_server(struct as_exchange *x)
{
    return accept_or_refuse(x,
                            !x->edge->conf.api_keys || (x->key && as_key_is_unrestricted(x->key)));
}
