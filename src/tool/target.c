#include "tool/target.h"

#include "ctl/runtime_dir.h"
#include "io/connect.h"

#define PORTS_MAX 256u

static int wrong(const char *url, const char *what, struct as_buf *why)
{
    as_buf_printf(why, "--url '%s': %s", url, what);
    return AS_EINVALID;
}

static int set(struct as_target *t, struct as_str host, uint16_t port)
{
    bool v6 = memchr(host.p, ':', host.n) != NULL;

    if (host.n == 0 || host.n >= AS_TARGET_HOST_MAX)
        return AS_EINVALID;
    memcpy(t->host, host.p, host.n);
    t->host[host.n] = 0;
    t->port = port;
    snprintf(t->authority, sizeof(t->authority), v6 ? "[%s]:%u" : "%s:%u", t->host, port);
    return 0;
}

int as_target_parse(struct as_target *ret_t, const char *url, struct as_buf *why)
{
    static const char *const schemes[] = {"grpc://", "http://"};
    const char *p = url, *end, *colon;
    uint64_t port = 8000;
    struct as_str host;

    for (size_t i = 0; i < AS_COUNT(schemes); i++) {
        if (strncmp(p, schemes[i], strlen(schemes[i])) == 0)
            p += strlen(schemes[i]);
    }
    if (p == url && strstr(url, "://"))
        return wrong(url, "only grpc:// and http:// are known", why);
    if (*p == '[') {
        end = strchr(++p, ']');
        if (!end || (end[1] && end[1] != ':'))
            return wrong(url, "an address in brackets is written [::1]:8000", why);
        colon = end[1] ? end + 1 : NULL;
    } else {
        colon = strrchr(p, ':');
        if (colon && colon != strchr(p, ':'))
            return wrong(url, "an IPv6 address is written in brackets, [::1]:8000", why);
        end = colon ? colon : p + strlen(p);
    }
    host = (struct as_str){p, (size_t)(end - p)};
    if (colon && (as_str_u64(as_str_of(colon + 1), &port) || port == 0 || port > UINT16_MAX))
        return wrong(url, "the port is not a number from 1 to 65535", why);
    if (strpbrk(host.p, "/ ?#@") || set(ret_t, host, (uint16_t)port))
        return wrong(url, "is not HOST:PORT", why);
    return 0;
}

int as_target_choose(struct as_target *ret_t, const struct as_option_set *o, struct as_buf *why)
{
    const char *url = as_option_str(o, AS_OPT_URL);
    uint16_t ports[PORTS_MAX], port;
    char *base;
    uint32_t n;

    ret_t->found = false;
    if (url[0])
        return as_target_parse(ret_t, url, why);
    base = as_runtime_base(as_option_str(o, AS_OPT_RUNTIME_DIR));
    n = as_runtime_ports(base, ports, PORTS_MAX);
    port = as_runtime_choose(o->v[AS_OPT_PORT].given, (uint16_t)as_option_u64(o, AS_OPT_PORT),
                             ports, n);
    for (uint32_t i = 0; i < n; i++)
        ret_t->found = ret_t->found || ports[i] == port;
    free(base);
    return set(ret_t, AS_STR("localhost"), port);
}

/* What a person can do when nobody answers. */
static void advise(const struct as_option_set *o, struct as_buf *why)
{
    char *base = as_runtime_base(as_option_str(o, AS_OPT_RUNTIME_DIR));
    uint16_t ports[PORTS_MAX];
    uint32_t n = as_runtime_ports(base, ports, PORTS_MAX);

    if (as_option_str(o, AS_OPT_URL)[0])
        as_buf_str(why, "\n  Does a server listen there?");
    else if (n == 0)
        as_buf_printf(why,
                      "\n  No server runs in %s; another place is chosen with --runtime-dir, any "
                      "server with --url HOST:PORT.",
                      base);
    else
        as_buf_printf(why, "\n  Running in %s, to be chosen with --port:", base);
    for (uint32_t i = 0; i < n && !as_option_str(o, AS_OPT_URL)[0]; i++)
        as_buf_printf(why, " %u", ports[i]);
    if (n && !as_option_str(o, AS_OPT_URL)[0])
        as_buf_str(why,
                   "; one that listens on another address than this host's loopback needs --url");
    free(base);
}

int as_target_connect(const struct as_target *t, const struct as_option_set *o, struct as_buf *why)
{
    char reason[160];
    int fd, rc = as_connect_tcp(t->host, t->port, as_option_ns(o, AS_OPT_CONNECT_TIMEOUT), &fd,
                                reason, sizeof(reason));

    if (rc == 0)
        return fd;
    as_buf_printf(why, "cannot connect to %s: %s.", t->authority, reason);
    advise(o, why);
    return AS_EUNAVAILABLE;
}
