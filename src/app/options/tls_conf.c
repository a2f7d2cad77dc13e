#include "app/options/tls_conf.h"

#include "base/err.h"

#include <string.h>

/* There are at most AS_OPTION_ITEMS_MAX, which is the size of ret. */
static uint32_t collect(const struct as_option_set *o, enum as_option_id id, const char **ret)
{
    const char *text;
    uint32_t n = 0;

    while ((text = as_option_item(o, id, n)))
        ret[n++] = text;
    return n;
}

/* NULL, or the key of an option that needs a certificate. */
static const char *needs_certificate(const struct as_option_set *o)
{
    if (as_option_item(o, AS_OPT_TLS_KEY, 0))
        return as_option_key(AS_OPT_TLS_KEY);
    if (as_option_str(o, AS_OPT_TLS_CLIENT_CA)[0])
        return as_option_key(AS_OPT_TLS_CLIENT_CA);
    return as_option_bool(o, AS_OPT_STATUS_TLS) ? as_option_key(AS_OPT_STATUS_TLS) : NULL;
}

int as_tls_conf_read(struct as_tls_conf *ret_c, const struct as_option_set *o, struct as_buf *err)
{
    const char *ca = as_option_str(o, AS_OPT_TLS_CLIENT_CA), *needs = needs_certificate(o);
    uint32_t n_keys, n;

    n = collect(o, AS_OPT_TLS_CERT, ret_c->certs);
    n_keys = collect(o, AS_OPT_TLS_KEY, ret_c->keys);
    if (!n && needs) {
        as_buf_printf(err, "--%s needs a certificate: --tls-cert FILE", needs);
        return AS_EINVALID;
    }
    if (n_keys && n_keys != n) {
        as_buf_printf(
            err,
            "%u --tls-key for %u --tls-cert: give the key of each certificate, in the same "
            "order, or none if each file of a certificate has its key, too",
            n_keys, n);
        return AS_EINVALID;
    }
    if (!n_keys)
        memcpy(ret_c->keys, ret_c->certs, sizeof(ret_c->keys));
    ret_c->server = (struct as_tls_server_conf){
        .certs = ret_c->certs,
        .keys = ret_c->keys,
        .n = n,
        .client_ca = ca[0] ? ca : NULL,
        .names = {"--tls-cert", "--tls-key", "--tls-client-ca"},
        .least = (enum as_tls_version)as_option_u64(o, AS_OPT_TLS_MIN_VERSION),
        .ticket_lifetime = as_option_ns(o, AS_OPT_TLS_TICKET_LIFETIME),
    };
    return 0;
}

int as_tls_conf_check(const struct as_tls_conf *c, enum as_tls_expiry expiry, struct as_buf *err)
{
    struct as_tls_server *tls;
    int rc;

    if (!c->server.n)
        return 0;
    tls = as_tls_server_new(&c->server);
    rc = as_tls_server_load(tls, expiry, err);
    as_tls_server_free(tls);
    return rc;
}

static int fail(const char *text, struct as_buf *err)
{
    as_buf_printf(err,
                  "--listen '%s' is not ADDRESS:PORT, PORT or unix:PATH, with ',tls' behind it for "
                  "TLS; like 0.0.0.0:8443,tls or [::1]:8000",
                  text);
    return AS_EINVALID;
}

/* Not taken for a part of a path: ',TLS' would then be a place in clear text. */
static int fail_suffix(const char *text, const char *suffix, struct as_buf *err)
{
    as_buf_printf(err,
                  "--listen '%s': '%s' is not ',tls'; what follows the last comma is no part of an "
                  "address or a path",
                  text, suffix);
    return AS_EINVALID;
}

int as_listen_spec_parse(struct as_listen_spec *ret_s, const char *text, const char *host,
                         struct as_buf *err)
{
    static const char unix_prefix[] = "unix:";
    const char *comma = strrchr(text, ',');
    size_t n = comma ? (size_t)(comma - text) : strlen(text);
    char place[AS_LISTEN_HOST_MAX + 8];
    uint64_t port;

    *ret_s = (struct as_listen_spec){.tls = comma != NULL};
    if (comma && strcmp(comma, ",tls") != 0)
        return fail_suffix(text, comma, err);
    if (n >= sizeof(place))
        return fail(text, err);
    memcpy(place, text, n);
    place[n] = 0;
    if (strncmp(place, unix_prefix, sizeof(unix_prefix) - 1) == 0) {
        const char *path = place + sizeof(unix_prefix) - 1;

        if (path[0] != '/' || strlen(path) >= sizeof(ret_s->path)) {
            as_buf_printf(err,
                          "--listen '%s': the path of a unix socket is absolute and has at "
                          "most %zu bytes",
                          text, sizeof(ret_s->path) - 1);
            return AS_EINVALID;
        }
        memcpy(ret_s->path, path, strlen(path) + 1);
        return 0;
    }
    if (as_str_u64((struct as_str){place, n}, &port) == 0 && port <= UINT16_MAX &&
        strlen(host) < sizeof(ret_s->host)) {
        memcpy(ret_s->host, host, strlen(host) + 1);
        ret_s->port = (uint16_t)port;
        return 0;
    }
    return as_listen_parse_address(place, ret_s->host, &ret_s->port) < 0 ? fail(text, err) : 0;
}
