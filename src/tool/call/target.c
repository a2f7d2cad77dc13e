#include "tool/call/target.h"

#include "conf/option/exit_code.h"
#include "io/socket/connect.h"
#include "tool/call/model_call.h"
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
    static const struct {
        const char *text;
        enum as_target_scheme scheme;
    } schemes[] = {{"grpc://", AS_TARGET_CLEAR},
                   {"http://", AS_TARGET_CLEAR},
                   {"grpcs://", AS_TARGET_TLS},
                   {"https://", AS_TARGET_TLS}};
    const char *p = url, *end, *colon;
    uint64_t port = 8000;
    struct as_str host;

    ret_t->scheme = AS_TARGET_ANY;
    for (size_t i = 0; i < AS_COUNT(schemes); i++) {
        if (strncmp(url, schemes[i].text, strlen(schemes[i].text)) != 0)
            continue;
        p += strlen(schemes[i].text);
        ret_t->scheme = schemes[i].scheme;
    }
    if (p == url && strstr(url, "://"))
        return refuse_url(url, "only grpc://, http://, grpcs:// and https:// are known", why);
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

/* The option that asks for TLS; -1: none does. */
static int option_for_tls(const struct as_option_set *o)
{
    static const enum as_option_id files[] = {AS_OPT_CA, AS_OPT_CERT, AS_OPT_KEY};

    for (size_t i = 0; i < AS_COUNT(files); i++) {
        if (as_option_str(o, files[i])[0])
            return (int)files[i];
    }
    return as_option_bool(o, AS_OPT_TLS) ? AS_OPT_TLS : -1;
}

/* Whether the calls go by TLS. AS_EINVALID: see why. */
static int decide_tls(const struct as_target *t, const struct as_option_set *o, bool *ret_tls,
                      struct as_buf *why)
{
    bool is_refused = o->v[AS_OPT_TLS].given && !as_option_bool(o, AS_OPT_TLS); /* --no-tls */
    int id = option_for_tls(o);

    *ret_tls = id >= 0 || t->scheme == AS_TARGET_TLS;
    if (is_refused && *ret_tls) {
        if (id >= 0)
            as_buf_printf(why, "--no-tls and --%s", as_option_key((enum as_option_id)id));
        else
            as_buf_printf(why, "--no-tls and --url '%s'", as_option_str(o, AS_OPT_URL));
        as_buf_str(why, " cannot be used together");
        return AS_EINVALID;
    }
    if (id >= 0 && t->scheme == AS_TARGET_CLEAR) {
        as_buf_printf(why, "--%s is for TLS, but --url '%s' is for clear text: write https://",
                      as_option_key((enum as_option_id)id), as_option_str(o, AS_OPT_URL));
        return AS_EINVALID;
    }
    if (as_option_str(o, AS_OPT_KEY)[0] && !as_option_str(o, AS_OPT_CERT)[0]) {
        as_buf_str(why, "--key needs the certificate of this key: --cert FILE");
        return AS_EINVALID;
    }
    return 0;
}

static const char *file_of(const struct as_option_set *o, enum as_option_id id)
{
    const char *file = as_option_str(o, id);

    return file[0] ? file : NULL;
}

int as_target_choose(struct as_target *ret_t, const struct as_option_set *o, struct as_buf *why)
{
    const char *url = as_option_str(o, AS_OPT_URL);
    struct as_tls_client_conf conf = {.host = ret_t->host,
                                      .ca = file_of(o, AS_OPT_CA),
                                      .cert = file_of(o, AS_OPT_CERT),
                                      .key = file_of(o, AS_OPT_KEY),
                                      .names = {"--cert", "--key", "--ca"},
                                      .http1 =
                                          as_option_u64(o, AS_OPT_PROTOCOL) != AS_MODEL_CALL_GRPC};
    struct as_runtime_search f;
    bool tls;
    int rc;

    if (url[0]) {
        rc = as_target_parse(ret_t, url, why);
    } else {
        as_which_server_find(&f, o);
        as_runtime_search_fini(&f);
        rc = set_host_port(ret_t, AS_STR("localhost"), f.chosen.port);
    }
    if (!rc)
        rc = decide_tls(ret_t, o, &tls, why);
    return rc || !tls ? rc : as_tls_client_new(&ret_t->tls, &conf, why);
}

void as_target_fini(struct as_target *t)
{
    as_tls_client_free(t->tls);
    t->tls = NULL;
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
