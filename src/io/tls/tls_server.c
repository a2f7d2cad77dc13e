#include "io/tls/tls_server.h"

#include "base/err.h"
#include "io/loop/clock.h"
#include "io/tls/tls_context.h"
#include "io/tls/tls_memory.h"
#include "io/tls/tls_tickets.h"

#include <openssl/x509v3.h>
#include <pthread.h>
#include <string.h>

/* One load of the files: a context for each certificate. The sessions of a generation hold its
 * first context, which frees the generation with itself. */
struct generation {
    struct as_tls_tickets *tickets; /* NULL: none are issued */
    int64_t not_after;
    uint8_t digest[AS_SHA256_BYTES]; /* of the files */
    uint32_t n;
    SSL_CTX *ctx[];
};

struct as_tls_server {
    struct as_tls_server_conf conf;
    pthread_mutex_t lock;       /* protects `current` */
    struct generation *current; /* NULL: nothing is loaded */
};

static int generation_index = -1;

static void on_first_freed(void *parent AS_UNUSED, void *p, CRYPTO_EX_DATA *ad AS_UNUSED,
                           int index AS_UNUSED, long argl AS_UNUSED, void *argp AS_UNUSED)
{
    struct generation *g = p;

    if (!g)
        return;
    for (uint32_t i = 1; i < g->n; i++)
        SSL_CTX_free(g->ctx[i]);
    as_tls_tickets_free(g->tickets);
    free(g);
}

static void make_index(void)
{
    generation_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, on_first_freed);
}

static void release(struct generation *g)
{
    if (g)
        SSL_CTX_free(g->ctx[0]); /* the last owner of it frees g */
}

/* The first context whose certificate is for the name; g->n: none. */
static uint32_t find_name(const struct generation *g, const char *name, unsigned flags)
{
    uint32_t i = 0;

    while (i < g->n &&
           X509_check_host(SSL_CTX_get0_certificate(g->ctx[i]), name, 0, flags, NULL) != 1)
        i++;
    return i;
}

/* The certificate of the name that the client asked for (RFC 6066 §3), one that has the name itself
 * before one with a wildcard; the first one for others. */
static int on_server_name(SSL *ssl, int *alert AS_UNUSED, void *generation)
{
    const struct generation *g = generation;
    const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    uint32_t i;

    if (!name)
        return SSL_TLSEXT_ERR_NOACK;
    i = find_name(g, name, X509_CHECK_FLAG_NO_WILDCARDS);
    if (i == g->n)
        i = find_name(g, name, 0);
    if (i == g->n)
        return SSL_TLSEXT_ERR_NOACK;
    if (i)
        SSL_set_SSL_CTX(ssl, g->ctx[i]);
    return SSL_TLSEXT_ERR_OK;
}

/* h2 before http/1.1, whatever the client prefers; an offer without either is refused. */
static int on_alpn(SSL *ssl AS_UNUSED, const unsigned char **ret, unsigned char *ret_n,
                   const unsigned char *offer, unsigned n, void *arg AS_UNUSED)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    unsigned char *chosen;

    if (SSL_select_next_proto(&chosen, ret_n, ours, sizeof(ours) - 1, offer, n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *ret = chosen;
    return SSL_TLSEXT_ERR_OK;
}

/* NULL: no memory. */
static SSL_CTX *new_context(const struct as_tls_server_conf *conf)
{
    static const unsigned char id[] = "anyserve";
    SSL_CTX *ctx = as_tls_context_new(TLS_server_method(),
                                      conf->least == AS_TLS_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);

    if (!ctx)
        return NULL;
    /* HTTP itself shows whether a request is whole */
    SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1);
    SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
    return ctx;
}

/* Makes the context of certificate i. NULL: see the loader's err. */
static SSL_CTX *load_context(const struct generation *g, const struct as_tls_server_conf *conf,
                             uint32_t i, struct as_tls_loader *l)
{
    l->ctx = new_context(conf);
    if (!l->ctx) {
        as_buf_str(l->err, "no memory for TLS");
        return NULL;
    }
    if (as_tls_credentials_load(l, conf->certs[i], conf->keys[i]) ||
        (conf->client_ca && as_tls_credentials_trust(l, conf->client_ca, true))) {
        SSL_CTX_free(l->ctx);
        return NULL;
    }
    if (conf->client_ca)
        SSL_CTX_set_verify(l->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    as_tls_tickets_use(g->tickets, l->ctx);
    return l->ctx;
}

/* Each generation has keys of its own for tickets, so that no session outlives a change of the
 * authorities that clients are verified against. */
static struct generation *load_generation(const struct as_tls_server_conf *conf,
                                          enum as_tls_expiry expiry, struct as_buf *err)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): pointers */
    struct generation *g = as_xalloc(sizeof(*g) + conf->n * sizeof(g->ctx[0]));
    struct as_tls_loader l = {.names = conf->names, .expiry = expiry, .err = err};

    *g = (struct generation){
        .tickets =
            conf->ticket_lifetime ? as_tls_tickets_new(conf->ticket_lifetime, as_clock_now) : NULL};
    while (g->n < conf->n && (g->ctx[g->n] = load_context(g, conf, g->n, &l)))
        g->n++;
    if (g->n < conf->n) {
        for (uint32_t i = 0; i < g->n; i++)
            SSL_CTX_free(g->ctx[i]);
        as_tls_tickets_free(g->tickets);
        free(g);
        return NULL;
    }
    g->not_after = l.not_after;
    memcpy(g->digest, l.digest, sizeof(g->digest));
    SSL_CTX_set_ex_data(g->ctx[0], generation_index, g);
    SSL_CTX_set_tlsext_servername_callback(g->ctx[0], on_server_name);
    SSL_CTX_set_tlsext_servername_arg(g->ctx[0], g);
    return g;
}

struct as_tls_server *as_tls_server_new(const struct as_tls_server_conf *conf)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct as_tls_server *s = as_xalloc(sizeof(*s));

    as_tls_memory_use();
    pthread_once(&once, make_index);
    *s = (struct as_tls_server){.conf = *conf};
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void as_tls_server_free(struct as_tls_server *s)
{
    if (!s)
        return;
    release(s->current);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int as_tls_server_load(struct as_tls_server *s, enum as_tls_expiry expiry, struct as_buf *err)
{
    unsigned failures = as_tls_memory_failures();
    struct generation *g = load_generation(&s->conf, expiry, err), *former;

    if (!g)
        return as_tls_memory_failures() == failures ? AS_EINVALID : AS_ENOMEM;
    pthread_mutex_lock(&s->lock);
    if (s->current && memcmp(s->current->digest, g->digest, sizeof(g->digest)) == 0) {
        former = g; /* else each change of another file would end all resumption of sessions */
    } else {
        former = s->current;
        s->current = g;
    }
    pthread_mutex_unlock(&s->lock);
    release(former);
    return 0;
}

int64_t as_tls_server_not_after(struct as_tls_server *s)
{
    int64_t seconds;

    pthread_mutex_lock(&s->lock);
    seconds = s->current ? s->current->not_after : 0;
    pthread_mutex_unlock(&s->lock);
    return seconds;
}

SSL *as_tls_server_open(struct as_tls_server *s)
{
    SSL *ssl;

    pthread_mutex_lock(&s->lock);
    ssl = s->current ? SSL_new(s->current->ctx[0]) : NULL;
    pthread_mutex_unlock(&s->lock);
    return ssl;
}
