#include "tool/call/target.h"

#include "conf/option/exit_code.h"
#include "io/socket/connect.h"
#include "tool/server/which_server.h"

enum { DEADLINE_EXCEEDED = 4, UNAVAILABLE = 14 };

static int refuse_url(const char *url, const char *what, struct as_buf *why)
{
    as_buf_printf(why, "--url '%s': %s", url, what);
    return AS_EINVALID;
}

static int set_host_port(struct as_target *t, struct as_str host, uint16_t port)
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
        return refuse_url(url, "only grpc:// and http:// are known", why);
    if (*p == '[') {
        end = strchr(++p, ']');
        if (!end || (end[1] && end[1] != ':'))
            return refuse_url(url, "an address in brackets is written [::1]:8000", why);
        colon = end[1] ? end + 1 : NULL;
    } else {
        colon = strrchr(p, ':');
        if (colon && colon != strchr(p, ':'))
            return refuse_url(url, "an IPv6 address is written in brackets, [::1]:8000", why);
        end = colon ? colon : p + strlen(p);
    }
    host = (struct as_str){p, (size_t)(end - p)};
    if (colon && (as_str_u64(as_str_of(colon + 1), &port) || port == 0 || port > UINT16_MAX))
        return refuse_url(url, "the port is not a number from 1 to 65535", why);
    if (strpbrk(host.p, "/ ?#@") || set_host_port(ret_t, host, (uint16_t)port))
        return refuse_url(url, "is not HOST:PORT", why);
    return 0;
}

int as_target_choose(struct as_target *ret_t, const struct as_option_set *o, struct as_buf *why)
{
    const char *url = as_option_str(o, AS_OPT_URL);
    struct as_runtime_search f;

    if (url[0])
        return as_target_parse(ret_t, url, why);
    as_which_server_find(&f, o);
    as_runtime_search_fini(&f);
    return set_host_port(ret_t, AS_STR("localhost"), f.chosen.port);
}

/* Appends advice for a server that cannot be reached. */
static void add_advice(const struct as_option_set *o, struct as_buf *why)
{
    struct as_runtime_search f;

    if (as_option_str(o, AS_OPT_URL)[0]) {
        as_buf_str(why, "\n  Check that a server listens on this address.");
        return;
    }
    as_which_server_find(&f, o);
    as_runtime_put_servers(&f, why);
    if (f.n == 0)
        as_buf_printf(
            why,
            "\n  No server runs in %s. Choose another directory with --runtime-dir, or any "
            "server with --url HOST:PORT.",
            f.chosen.base);
    else
        as_buf_str(why,
                   "; use --url for a server that does not listen on this host's loopback address");
    as_runtime_search_fini(&f);
}

int as_target_connect(const struct as_target *t, const struct as_option_set *o, struct as_buf *why)
{
    char reason[160];
    int fd, rc = as_connect_tcp(t->host, t->port, as_option_ns(o, AS_OPT_CONNECT_TIMEOUT), &fd,
                                reason, sizeof(reason));

    if (rc == 0)
        return fd;
    as_buf_printf(why, "cannot connect to %s: %s.", t->authority, reason);
    add_advice(o, why);
    return AS_EUNAVAILABLE;
}

void as_target_explain(const struct as_option_set *o, int code, struct as_buf *why)
{
    if (as_option_str(o, AS_OPT_URL)[0] || (code != AS_EXIT_CODE_STATUS + DEADLINE_EXCEEDED &&
                                            code != AS_EXIT_CODE_STATUS + UNAVAILABLE))
        return;
    as_which_server_put_stopped(o, why);
}
