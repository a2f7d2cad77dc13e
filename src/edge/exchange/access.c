#include "edge/exchange/access.h"

#include "base/counter.h"
#include "base/digest/secret.h"
#include "edge/exchange/key_access.h"
#include "wire/http/http_field.h"
#include "wire/http/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <strings.h>
#include <unistd.h>

/* Compares in constant time for tokens of the same length. */
static bool is_token(struct as_str given, const char *secret)
{
    return given.n == strlen(secret) && as_secret_equal(given.p, secret, given.n);
}

/* NULL: the token is valid. */
static const char *why_unauthenticated(const struct as_exchange *x)
{
    struct as_str given = as_http_head_find(x->head, AS_STR("authorization"));

    if (as_http_head_count(x->head, AS_STR("authorization")) > 1)
        return "the header 'authorization' is given twice";
    if (!x->edge->conf.token)
        return "the server has no token to compare with";
    if (!given.p)
        return "the header 'authorization: Bearer TOKEN' is missing";
    given = as_http_field_bearer(given);
    if (!given.n)
        return "the header 'authorization' is not 'Bearer TOKEN'";
    return is_token(given, x->edge->conf.token) ? NULL : "wrong token";
}

/* --- browsers --- */

static bool same_name(struct as_str a, const char *name)
{
    return a.n && a.n == strlen(name) && strncasecmp(a.p, name, a.n) == 0;
}

static bool is_address(struct as_str host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    struct in_addr v4;

    if (!host.n || host.n >= sizeof(text))
        return false;
    memcpy(text, host.p, host.n);
    text[host.n] = 0;
    return inet_pton(AF_INET, text, &v4) == 1 || inet_pton(AF_INET6, text, &v6) == 1;
}

/* Host names that the server accepts as its own. Any other name may be a foreign domain that
 * resolves to this machine (DNS rebinding). */
static bool is_own_host(const struct as_exchange *x, struct as_str host)
{
    char name[256] = "";

    if (is_address(host) || same_name(host, "localhost") ||
        (x->edge->conf.host && same_name(host, x->edge->conf.host)) ||
        as_origin_list_has_host(as_str_of(x->edge->conf.origins), host))
        return true;
    if (gethostname(name, sizeof(name) - 1) < 0)
        return false;
    if (same_name(host, name))
        return true;
    name[strcspn(name, ".")] = 0; /* without its domain */
    return same_name(host, name);
}

static bool is_loopback(struct as_str host)
{
    return same_name(host, "localhost") || same_name(host, "127.0.0.1") || same_name(host, "::1");
}

/* It says one word, and probes send whatever Host they like, or none. path: with its query. */
static bool is_probe(struct as_str path)
{
    const char *mark = path.n ? memchr(path.p, '?', path.n) : NULL;

    if (mark)
        path.n = (size_t)(mark - path.p);
    return as_str_eq(path, AS_STR("/-/healthz"));
}

/* NULL: not sent by a web page of another site. */
static const char *why_foreign_page(const struct as_exchange *x)
{
    struct as_str origin = as_http_head_find(x->head, AS_STR("origin"));

    if (x->edge->conf.interface != AS_INTERFACE_CONTROL)
        return origin.n ? "requests from web pages are not accepted" : NULL;
    if (!is_own_host(x, as_origin_host(x->head->authority)))
        return "the header 'host' is neither an address nor a name of this server (--control)";
    if (origin.n && !as_origin_is_authority(origin, x->head->authority))
        return "requests from web pages of other sites are not accepted";
    return NULL;
}

/* NULL: the request may change the server. Browsers name the site of the page that sends a request
 * in Origin (with every POST) and in Sec-Fetch-Site. */
static const char *why_change_refused(const struct as_exchange *x)
{
    static const char sites[] =
        "web pages of other sites may not change what is served (--allow-origin)";
    struct as_str authority = x->head->authority,
                  site = as_http_head_find(x->head, AS_STR("sec-fetch-site"));
    struct as_str origin = as_http_head_find(x->head, AS_STR("origin")),
                  host = as_origin_host(authority);
    bool listed = as_origin_list_contains(as_str_of(x->edge->conf.origins), origin);

    if (as_http_head_count(x->head, AS_STR("origin")) > 1)
        return "the header 'origin' is given twice (--allow-origin)";
    if (listed)
        return NULL;
    if (origin.n
            ? !as_origin_is_authority(origin, authority) || !is_own_host(x, host)
            : site.n && !as_str_eq(site, AS_STR("same-origin")) && !as_str_eq(site, AS_STR("none")))
        return sites;
    if (x->edge->loopback && authority.n && !is_own_host(x, host))
        return "the header 'host' is neither an address nor a name of this server (--host, "
               "--allow-origin)";
    return NULL;
}

bool as_access_check_change(struct as_exchange *x)
{
    const char *why = why_change_refused(x);
    uint64_t skipped;

    if (!why)
        return true;
    if (as_edge_may_log(x->edge, AS_EDGE_LOG_ACCESS, &skipped))
        as_log_event(x->edge->log, AS_LOG_WARN, "change_refused", "reason=\"%s\" skipped=%lu", why,
                     skipped);
    as_exchange_fail(x, AS_EDENIED, "%s", why);
    return false;
}

static bool needs_operator_key(const struct as_exchange *x)
{
    return x->edge->conf.status_keys && !is_probe(x->head->path);
}

bool as_access_check_request(struct as_exchange *x)
{
    const char *why = NULL;
    int err = AS_EDENIED;
    uint64_t skipped;

    if (x->edge->conf.interface == AS_INTERFACE_STATUS) {
        if (x->edge->loopback && !is_probe(x->head->path) &&
            !is_loopback(as_origin_host(x->head->authority)))
            why = "the header 'host' is not a name or an address of this machine's loopback "
                  "(--status-host)";
    } else if ((why = why_unauthenticated(x))) {
        err = AS_EUNAUTHENTICATED;
    } else {
        why = why_foreign_page(x);
    }
    if (!why)
        return !needs_operator_key(x) || as_key_access_check_operator(x);
    as_counter_add(&x->edge->stat.unauthenticated, 1);
    if (as_edge_may_log(x->edge, AS_EDGE_LOG_ACCESS, &skipped))
        as_log_event(x->edge->log, AS_LOG_WARN, as_edge_refusal_event(x->edge),
                     "reason=\"%s\" skipped=%lu", why, skipped);
    if (x->edge->conf.on_refused)
        x->edge->conf.on_refused(x->edge->conf.refused_ctx);
    as_exchange_fail(x, err, "%s", why);
    return false;
}
