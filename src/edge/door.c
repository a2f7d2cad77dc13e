#include "edge/door.h"

#include "base/counter.h"
#include "edge/rest.h"

#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_unix(int fd)
{
    int domain = 0;
    socklen_t n = sizeof(domain);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX;
}

bool as_door_admits(struct as_edge *e, int fd, bool *ret_trusted)
{
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t n = sizeof(who);
    uint64_t skipped;

    *ret_trusted = e->conf.door == AS_DOOR_CLIENTS;
    if (*ret_trusted || !is_unix(fd))
        return true;
    *ret_trusted = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
    if (*ret_trusted)
        return true;
    as_count(&e->stat.foreign, 1);
    if (as_edge_may_log(e, AS_QUIET_DOOR, &skipped))
        as_log_event(e->log, AS_LOG_WARN, "management_refused",
                     "reason=\"another user\" uid=%u pid=%d skipped=%lu", (unsigned)who.uid,
                     (int)who.pid, skipped);
    return false;
}

/* Takes as long for each token of that length, whatever it has in common with ours. */
static bool is_secret(struct as_str said, const char *secret)
{
    volatile uint8_t diff = 0;

    if (said.n != strlen(secret))
        return false;
    for (size_t i = 0; i < said.n; i++)
        diff |= (uint8_t)said.p[i] ^ (uint8_t)secret[i];
    return diff == 0;
}

/* NULL: the request may be. The scheme has no case (RFC 9110 §11.1); one header only. */
static const char *why_not(const struct as_exchange *x)
{
    static const char scheme[] = "bearer ";
    const struct as_http_header *found = NULL;
    struct as_str said;

    for (uint32_t i = 0; i < x->head->n_rest; i++) {
        if (!as_str_eq(x->head->rest[i].name, AS_STR("authorization")))
            continue;
        if (found)
            return "the header 'authorization' is given twice";
        found = &x->head->rest[i];
    }
    if (!x->edge->conf.token)
        return "the server has no token to compare with";
    if (!found)
        return "the header 'authorization: Bearer TOKEN' is missing";
    said = found->value;
    if (said.n < sizeof(scheme) - 1 || strncasecmp(said.p, scheme, sizeof(scheme) - 1) != 0)
        return "the header 'authorization' is not 'Bearer TOKEN'";
    said.p += sizeof(scheme) - 1;
    said.n -= sizeof(scheme) - 1;
    while (said.n && *said.p == ' ') {
        said.p++;
        said.n--;
    }
    return is_secret(said, x->edge->conf.token) ? NULL : "wrong token";
}

bool as_door_opens(struct as_exchange *x)
{
    const char *why = why_not(x);
    int err = AS_EUNAUTHENTICATED;
    uint64_t skipped;

    if (!why && as_rest_header(x, "origin").n) {
        why = "requests of web pages are not taken";
        err = AS_EDENIED;
    }
    if (!why)
        return true;
    as_count(&x->edge->stat.unauthenticated, 1);
    if (as_edge_may_log(x->edge, AS_QUIET_TOKEN, &skipped))
        as_log_event(x->edge->log, AS_LOG_WARN, "management_refused", "reason=\"%s\" skipped=%lu",
                     why, skipped);
    as_exchange_fail(x, err, "%s", why);
    return false;
}
