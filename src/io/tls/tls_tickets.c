#include "io/tls/tls_tickets.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <string.h>

#define NAME    16 /* bytes of a key's name in the ticket, by OpenSSL's interface */
#define CIPHER  32 /* of AES-256-CBC */
#define MAC     32 /* of HMAC with SHA-256 */
#define RENEWED 2  /* result for OpenSSL: the ticket is good, and the client gets a new one */

struct key {
    uint8_t name[NAME], cipher[CIPHER], mac[MAC];
    as_ns made; /* AS_NEVER: there is none */
};

struct as_tls_tickets {
    pthread_mutex_t lock; /* protects the keys */
    struct key current, former;
    as_ns lifetime;
    as_ns (*clock)(void);
};

static int tickets_index = -1;

static void make_index(void)
{
    tickets_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

static bool make_key(struct key *k, as_ns now)
{
    k->made = now;
    return RAND_bytes(k->name, NAME) == 1 && RAND_bytes(k->cipher, CIPHER) == 1 &&
           RAND_bytes(k->mac, MAC) == 1;
}

/* Copies the key for new tickets. False: no random numbers. */
static bool get_current(struct as_tls_tickets *t, struct key *ret_k)
{
    bool ok = true;
    as_ns now;

    pthread_mutex_lock(&t->lock);
    now = t->clock(); /* not before: another thread may have made a key meanwhile */
    if (t->current.made == AS_NEVER || now - t->current.made >= t->lifetime) {
        t->former = t->current;
        ok = make_key(&t->current, now);
        if (!ok)
            t->current.made = AS_NEVER;
    }
    *ret_k = t->current;
    pthread_mutex_unlock(&t->lock);
    return ok;
}

/* False: unknown, or too old. *ret_is_old: its ticket is to be replaced. */
static bool find(struct as_tls_tickets *t, const uint8_t *name, struct key *ret_k, bool *ret_is_old)
{
    const struct key *keys[] = {&t->current, &t->former};
    bool found = false;
    as_ns now;

    pthread_mutex_lock(&t->lock);
    now = t->clock();
    for (size_t i = 0; i < AS_COUNT(keys) && !found; i++) {
        if (keys[i]->made == AS_NEVER || now - keys[i]->made >= 2 * t->lifetime ||
            memcmp(keys[i]->name, name, NAME) != 0)
            continue;
        *ret_k = *keys[i];
        *ret_is_old = now - keys[i]->made >= t->lifetime;
        found = true;
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

static bool start(const struct key *k, const uint8_t *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
                  bool encrypt)
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)k->mac, MAC),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };

    return EVP_MAC_CTX_set_params(mac, params) == 1 &&
           EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, k->cipher, iv, encrypt) == 1;
}

/* By SSL_CTX_set_tlsext_ticket_key_evp_cb(3): < 0 an error, 0 no such key (a full handshake). */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                     EVP_MAC_CTX *mac, int encrypt)
{
    struct as_tls_tickets *t = SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), tickets_index);
    struct key k;
    bool is_old = false;
    int rc;

    if (!t)
        return 0;
    if (encrypt) {
        if (!get_current(t, &k) || RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1)
            return -1;
        memcpy(name, k.name, NAME);
    } else if (!find(t, name, &k, &is_old)) {
        return 0;
    }
    rc = start(&k, iv, cipher, mac, encrypt) ? 1 : -1;
    OPENSSL_cleanse(&k, sizeof(k));
    return rc == 1 && is_old ? RENEWED : rc;
}

/* By SSL_CTX_set_session_ticket_cb(3), behind on_ticket. A certificate that has expired since is
 * asked for once more, in a full handshake, which then fails. */
static SSL_TICKET_RETURN on_session(SSL *ssl AS_UNUSED, SSL_SESSION *session,
                                    const unsigned char *name AS_UNUSED, size_t n AS_UNUSED,
                                    SSL_TICKET_STATUS status, void *arg AS_UNUSED)
{
    X509 *peer = session ? SSL_SESSION_get0_peer(session) : NULL;

    if (peer && X509_cmp_current_time(X509_get0_notAfter(peer)) <= 0)
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    switch (status) {
    case SSL_TICKET_SUCCESS:
        return SSL_TICKET_RETURN_USE;
    case SSL_TICKET_SUCCESS_RENEW:
        return SSL_TICKET_RETURN_USE_RENEW;
    default:
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
}

struct as_tls_tickets *as_tls_tickets_new(as_ns lifetime, as_ns (*clock)(void))
{
    struct as_tls_tickets *t = as_xalloc(sizeof(*t));

    *t = (struct as_tls_tickets){.lifetime = lifetime, .clock = clock};
    t->current.made = t->former.made = AS_NEVER;
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

void as_tls_tickets_use(struct as_tls_tickets *t, SSL_CTX *ctx)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_index);
    if (!t) {
        SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
        SSL_CTX_set_num_tickets(ctx, 0);
        return;
    }
    SSL_CTX_set_timeout(ctx, (long)AS_MAX(t->lifetime / AS_SEC, (as_ns)1));
    SSL_CTX_set_ex_data(ctx, tickets_index, t);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket);
    SSL_CTX_set_session_ticket_cb(ctx, NULL, on_session, NULL);
}

void as_tls_tickets_free(struct as_tls_tickets *t)
{
    if (!t)
        return;
    pthread_mutex_destroy(&t->lock);
    OPENSSL_cleanse(t, sizeof(*t));
    free(t);
}
