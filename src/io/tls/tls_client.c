#include "io/tls/tls_client.h"

#include "base/err.h"
#include "base/str.h"
#include "io/tls/tls_context.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>

struct as_tls_client {
    SSL_CTX *ctx;
    char *host;
    bool is_address; /* host is an IP address */
};

static bool is_address(const char *host)
{
    struct in6_addr a;

    return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1;
}

static int load_files(SSL_CTX *ctx, const struct as_tls_client_conf *conf, struct as_buf *err)
{
    struct as_tls_loader l = {.ctx = ctx, .names = conf->names, .err = err};
    int rc = 0;

    if (conf->ca) {
        rc = as_tls_credentials_trust(&l, conf->ca, false);
    } else if (SSL_CTX_set_default_verify_paths(ctx) != 1) {
        as_buf_str(err, "the system's certificates of authorities cannot be read: ");
        as_tls_credentials_reason(err);
        rc = AS_EINVALID;
    }
    if (!rc && conf->cert)
        rc = as_tls_credentials_load(&l, conf->cert, conf->key ? conf->key : conf->cert);
    return rc;
}

int as_tls_client_new(struct as_tls_client **ret_c, const struct as_tls_client_conf *conf,
                      struct as_buf *err)
{
    static const unsigned char h2[] = "\x02h2", http1[] = "\x08http/1.1";
    SSL_CTX *ctx = as_tls_context_new(TLS_client_method(), TLS1_2_VERSION);
    struct as_tls_client *c;

    /* SSL_CTX_set_alpn_protos returns 0 for success */
    if (!ctx || SSL_CTX_set_alpn_protos(ctx, conf->http1 ? http1 : h2,
                                        (conf->http1 ? sizeof(http1) : sizeof(h2)) - 1) != 0)
        as_fatal_memory(0);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (load_files(ctx, conf, err)) {
        SSL_CTX_free(ctx);
        return AS_EINVALID;
    }
    c = as_xalloc(sizeof(*c));
    *c = (struct as_tls_client){.ctx = ctx,
                                .host = as_str_dup(as_str_of(conf->host)),
                                .is_address = is_address(conf->host)};
    *ret_c = c;
    return 0;
}

void as_tls_client_free(struct as_tls_client *c)
{
    if (!c)
        return;
    SSL_CTX_free(c->ctx);
    free(c->host);
    free(c);
}

SSL *as_tls_client_open(struct as_tls_client *c)
{
    SSL *ssl = SSL_new(c->ctx);
    bool ok;

    if (!ssl)
        return NULL;
    if (c->is_address)
        ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), c->host) == 1;
    else
        ok = SSL_set1_host(ssl, c->host) == 1 && SSL_set_tlsext_host_name(ssl, c->host) == 1;
    /* names are read from subjectAltName only (RFC 9525 §6.3) */
    SSL_set_hostflags(ssl,
                      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (ok)
        return ssl;
    SSL_free(ssl);
    return NULL;
}
