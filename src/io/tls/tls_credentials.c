#include "io/tls/tls_credentials.h"

#include "base/err.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

void as_tls_credentials_reason(struct as_buf *err)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    as_buf_str(err, reason ? reason : "unknown reason");
    ERR_clear_error();
}

/* NULL: see err. Only regular files: a FIFO would block whoever opens it. */
static BIO *open_file(const char *file, struct as_buf *err)
{
    struct stat st;
    BIO *b = NULL;

    if (stat(file, &st) == 0 && !S_ISREG(st.st_mode))
        as_buf_printf(err, "%s is not a file", file);
    else if (!(b = BIO_new_file(file, "r")))
        as_buf_printf(err, "%s: %s", file, strerror(errno));
    ERR_clear_error();
    return b;
}

static void describe_time(struct as_buf *b, int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    char text[64];

    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&t, &tm));
    as_buf_str(b, text);
}

/* AS_EINVALID: not a time. */
static int seconds_of(const ASN1_TIME *t, int64_t *ret_seconds)
{
    struct tm tm;

    if (!t || !ASN1_TIME_to_tm(t, &tm))
        return AS_EINVALID;
    *ret_seconds = timegm(&tm);
    return 0;
}

static int check_dates(const X509 *cert, const char *file, enum as_tls_expiry expiry,
                       int64_t *ret_not_after, struct as_buf *err)
{
    int64_t from, now = time(NULL);

    if (seconds_of(X509_get0_notBefore(cert), &from) ||
        seconds_of(X509_get0_notAfter(cert), ret_not_after)) {
        as_buf_printf(err, "%s: the dates of the certificate cannot be read", file);
        return AS_EINVALID;
    }
    if (expiry == AS_TLS_EXPIRY_ALLOWED || (from <= now && now <= *ret_not_after))
        return 0;
    as_buf_printf(err, "%s: the certificate %s ", file,
                  now < from ? "is not valid before" : "has expired:");
    describe_time(err, now < from ? from : *ret_not_after);
    return AS_EINVALID;
}

/* The first certificate is the end entity's, the others are sent with it. */
static int load_chain(SSL_CTX *ctx, const char *file, enum as_tls_expiry expiry,
                      int64_t *ret_not_after, struct as_buf *err)
{
    BIO *b = open_file(file, err);
    X509 *cert;
    int rc = 0;

    if (!b)
        return AS_EINVALID;
    cert = PEM_read_bio_X509_AUX(b, NULL, NULL, NULL);
    if (!cert) {
        as_buf_printf(err, "%s holds no certificate in PEM (-----BEGIN CERTIFICATE-----)", file);
        rc = AS_EINVALID;
    } else {
        rc = check_dates(cert, file, expiry, ret_not_after, err);
    }
    if (!rc && SSL_CTX_use_certificate(ctx, cert) != 1) {
        as_buf_printf(err, "%s: the certificate cannot be used: ", file);
        as_tls_credentials_reason(err);
        rc = AS_EINVALID;
    }
    X509_free(cert);
    while (!rc && (cert = PEM_read_bio_X509(b, NULL, NULL, NULL))) {
        if (SSL_CTX_add0_chain_cert(ctx, cert) == 1)
            continue;
        X509_free(cert);
        as_buf_printf(err, "%s: a certificate of the chain cannot be used: ", file);
        as_tls_credentials_reason(err);
        rc = AS_EINVALID;
    }
    if (!rc && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
        as_buf_printf(err, "%s: the certificates behind the first one cannot be read: ", file);
        as_tls_credentials_reason(err);
        rc = AS_EINVALID;
    }
    ERR_clear_error(); /* the end of the file is reported as an error, too */
    BIO_free(b);
    return rc;
}

/* A pass phrase is asked for: there is none. */
static int on_pass_phrase(char *buf AS_UNUSED, int n AS_UNUSED, int is_writing AS_UNUSED,
                          void *was_asked)
{
    *(bool *)was_asked = true;
    return -1;
}

static int load_key(SSL_CTX *ctx, const char *file, const char *cert, struct as_buf *err)
{
    BIO *b = open_file(file, err);
    bool is_encrypted = false;
    EVP_PKEY *key;
    int rc = AS_EINVALID;

    if (!b)
        return rc;
    key = PEM_read_bio_PrivateKey(b, NULL, on_pass_phrase, &is_encrypted);
    BIO_free(b);
    if (!key && is_encrypted)
        as_buf_printf(err,
                      "%s is encrypted, and nobody can type its pass phrase here; decrypt it: "
                      "openssl pkey -in %s -out FILE",
                      file, file);
    else if (!key)
        as_buf_printf(err, "%s holds no private key in PEM (-----BEGIN PRIVATE KEY-----)", file);
    else if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1)
        as_buf_printf(err, "the private key %s does not belong to the certificate %s", file, cert);
    else
        rc = 0;
    EVP_PKEY_free(key);
    ERR_clear_error();
    return rc;
}

int as_tls_credentials_load(SSL_CTX *ctx, const char *cert, const char *key,
                            enum as_tls_expiry expiry, int64_t *ret_not_after, struct as_buf *err)
{
    int rc;

    ERR_clear_error();
    rc = load_chain(ctx, cert, expiry, ret_not_after, err);
    return rc ? rc : load_key(ctx, key, cert, err);
}

int as_tls_credentials_trust(SSL_CTX *ctx, const char *file, bool send_names, struct as_buf *err)
{
    STACK_OF(X509_NAME) * names;
    BIO *b = open_file(file, err);

    if (!b)
        return AS_EINVALID;
    BIO_free(b);
    if (SSL_CTX_load_verify_file(ctx, file) != 1) {
        as_buf_printf(err, "%s holds no certificates of authorities in PEM: ", file);
        as_tls_credentials_reason(err);
        return AS_EINVALID;
    }
    if (!send_names)
        return 0;
    names = SSL_load_client_CA_file(file);
    if (!names)
        as_fatal_memory(0);
    SSL_CTX_set_client_CA_list(ctx, names); /* owns them */
    return 0;
}
