#include "io/tls/tls_credentials.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void as_tls_credentials_reason(struct as_buf *err)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    as_buf_str(err, reason ? reason : "unknown reason");
    ERR_clear_error();
}

/* --- files --- */

/* Begins an error. */
static void put_file(struct as_tls_loader *l, const char *option, const char *file)
{
    as_buf_printf(l->err, "%s%s%s", option ? option : "", option ? " " : "", file);
}

/* Ends an error by OpenSSL's reason. Returns AS_EINVALID. */
static int fail(struct as_tls_loader *l, const char *option, const char *file, const char *what)
{
    put_file(l, option, file);
    as_buf_str(l->err, what);
    as_tls_credentials_reason(l->err);
    return AS_EINVALID;
}

/* They may be those of a private key. */
static void forget(struct as_buf *bytes)
{
    if (bytes->p)
        OPENSSL_cleanse(bytes->p, bytes->cap);
    as_buf_fini(bytes);
}

/* 0, or an errno. The size is that at the opening: what grows meanwhile is written anew, and read
 * again when it has settled. */
static int read_bytes(int fd, size_t size, struct as_buf *bytes)
{
    ssize_t n = 1;

    as_buf_reserve(bytes, size + 1);
    while (bytes->n < size && n > 0) {
        n = read(fd, bytes->p + bytes->n, size - bytes->n);
        if (n > 0)
            bytes->n += (size_t)n;
        else if (n < 0 && errno == EINTR)
            n = 1;
    }
    return n < 0 ? errno : 0;
}

static void add_digest(struct as_tls_loader *l, const struct as_buf *bytes)
{
    uint8_t both[2 * AS_SHA256_BYTES];

    memcpy(both, l->digest, AS_SHA256_BYTES);
    as_sha256(as_buf_slice(bytes), both + AS_SHA256_BYTES);
    as_sha256((struct as_str){(const char *)both, sizeof(both)}, l->digest);
}

/* Only regular files: a FIFO would block whoever opens it. 0; AS_EINVALID: see err. */
static int read_file(struct as_tls_loader *l, const char *option, const char *file,
                     struct as_buf *bytes)
{
    int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int e = fd < 0 ? errno : 0;
    struct stat st;

    ERR_clear_error();
    if (!e && fstat(fd, &st) < 0)
        e = errno;
    if (e || !S_ISREG(st.st_mode) || st.st_size > AS_TLS_FILE_MAX) {
        put_file(l, option, file);
        if (e)
            as_buf_printf(l->err, ": %s", strerror(e));
        else if (!S_ISREG(st.st_mode))
            as_buf_str(l->err, " is not a file");
        else
            as_buf_printf(l->err, " has more than %u MiB", AS_TLS_FILE_MAX >> 20);
        e = -1;
    } else if ((e = read_bytes(fd, (size_t)st.st_size, bytes))) {
        put_file(l, option, file);
        as_buf_printf(l->err, ": %s", strerror(e));
    } else {
        add_digest(l, bytes);
    }
    if (fd >= 0)
        close(fd);
    return e ? AS_EINVALID : 0;
}

/* NULL: see err. It reads `bytes`, which must stay. */
static BIO *open_file(struct as_tls_loader *l, const char *option, const char *file,
                      struct as_buf *bytes)
{
    BIO *b = NULL;

    if (read_file(l, option, file, bytes))
        return NULL;
    /* an empty one has no bytes: OpenSSL refuses NULL */
    b = BIO_new_mem_buf(bytes->p ? (const void *)bytes->p : "", (int)bytes->n);
    if (!b)
        (void)fail(l, option, file, " cannot be read: ");
    return b;
}

/* After the last certificate of a file: whether it is the end, and no certificate that is broken.
 */
static bool is_at_end(void)
{
    return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

/* --- a chain and its key --- */

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

/* "the certificate", "certificate 2 of the chain (CN = Some Authority)" */
static void put_certificate(struct as_buf *b, const X509 *cert, int number)
{
    char name[256];

    if (number == 1) {
        as_buf_str(b, "the certificate");
        return;
    }
    as_buf_printf(b, "certificate %d of the chain", number);
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof(name)) >
        0)
        as_buf_printf(b, " (%s)", name);
}

/* number: 1 for the end entity's certificate, which is the first one of the file. */
static int check_dates(struct as_tls_loader *l, const X509 *cert, int number, const char *file)
{
    int64_t from, until, now = time(NULL);

    if (seconds_of(X509_get0_notBefore(cert), &from) ||
        seconds_of(X509_get0_notAfter(cert), &until)) {
        put_file(l, l->names.cert, file);
        as_buf_str(l->err, ": the dates of ");
        put_certificate(l->err, cert, number);
        as_buf_str(l->err, " cannot be read");
        return AS_EINVALID;
    }
    l->not_after = l->not_after ? AS_MIN(l->not_after, until) : until;
    if (l->expiry == AS_TLS_EXPIRY_ALLOWED || (from <= now && now <= until))
        return 0;
    put_file(l, l->names.cert, file);
    as_buf_str(l->err, ": ");
    put_certificate(l->err, cert, number);
    as_buf_str(l->err, now < from ? " is not valid before " : " has expired: ");
    describe_time(l->err, now < from ? from : until);
    return AS_EINVALID;
}

/* The certificates behind the first one are sent with it. */
static int load_rest_of_chain(struct as_tls_loader *l, BIO *b, const char *file)
{
    const char *option = l->names.cert;
    X509 *cert;

    for (int number = 2; (cert = PEM_read_bio_X509(b, NULL, NULL, NULL)); number++) {
        if (check_dates(l, cert, number, file)) {
            X509_free(cert);
            return AS_EINVALID;
        }
        if (SSL_CTX_add0_chain_cert(l->ctx, cert) == 1)
            continue;
        X509_free(cert);
        return fail(l, option, file, ": a certificate of the chain cannot be used: ");
    }
    return is_at_end()
               ? 0
               : fail(l, option, file, ": the certificates behind the first one cannot be read: ");
}

static int load_chain(struct as_tls_loader *l, const char *file)
{
    const char *option = l->names.cert;
    struct as_buf bytes = {0};
    BIO *b = open_file(l, option, file, &bytes);
    X509 *cert = b ? PEM_read_bio_X509_AUX(b, NULL, NULL, NULL) : NULL;
    int rc = AS_EINVALID;

    if (cert) {
        rc = check_dates(l, cert, 1, file);
        if (!rc && SSL_CTX_use_certificate(l->ctx, cert) != 1)
            rc = fail(l, option, file, ": the certificate cannot be used: ");
        X509_free(cert);
        if (!rc)
            rc = load_rest_of_chain(l, b, file);
    } else if (b) {
        put_file(l, option, file);
        as_buf_str(l->err, " holds no certificate in PEM (-----BEGIN CERTIFICATE-----)");
    }
    ERR_clear_error(); /* the end of the file is reported as an error, too */
    BIO_free(b);
    forget(&bytes); /* its key may be in the same file */
    return rc;
}

/* A pass phrase is asked for: there is none. */
static int on_pass_phrase(char *buf AS_UNUSED, int n AS_UNUSED, int is_writing AS_UNUSED,
                          void *was_asked)
{
    *(bool *)was_asked = true;
    return -1;
}

static void put_no_key(struct as_tls_loader *l, const char *file, const char *cert)
{
    bool is_cert = strcmp(file, cert) == 0;

    put_file(l, is_cert ? l->names.cert : l->names.key, file);
    as_buf_str(l->err, " holds no private key in PEM (-----BEGIN PRIVATE KEY-----)");
    if (is_cert && l->names.key)
        as_buf_printf(l->err, "; if it is in another file: %s FILE", l->names.key);
}

static int load_key(struct as_tls_loader *l, const char *file, const char *cert)
{
    const char *option = strcmp(file, cert) == 0 ? l->names.cert : l->names.key;
    struct as_buf bytes = {0};
    BIO *b = open_file(l, option, file, &bytes);
    bool is_encrypted = false;
    EVP_PKEY *key;
    int rc = AS_EINVALID;

    if (!b) {
        forget(&bytes);
        return rc;
    }
    key = PEM_read_bio_PrivateKey(b, NULL, on_pass_phrase, &is_encrypted);
    BIO_free(b);
    forget(&bytes);
    if (!key && is_encrypted) {
        put_file(l, option, file);
        as_buf_printf(l->err,
                      " is encrypted, and nobody can type its pass phrase here; decrypt it: "
                      "openssl pkey -in %s -out FILE",
                      file);
    } else if (!key) {
        put_no_key(l, file, cert);
    } else if (SSL_CTX_use_PrivateKey(l->ctx, key) != 1 || SSL_CTX_check_private_key(l->ctx) != 1) {
        put_file(l, option, file);
        if (strcmp(file, cert) == 0)
            as_buf_str(l->err, ": its private key does not belong to its first certificate");
        else
            as_buf_printf(l->err, " does not belong to the certificate %s", cert);
    } else {
        rc = 0;
    }
    EVP_PKEY_free(key);
    ERR_clear_error();
    return rc;
}

int as_tls_credentials_load(struct as_tls_loader *l, const char *cert, const char *key)
{
    int rc = load_chain(l, cert);

    return rc ? rc : load_key(l, key, cert);
}

/* --- authorities --- */

/* Two certificates of one authority have one name. False: no memory. */
static bool add_name(STACK_OF(X509_NAME) * names, const X509 *cert)
{
    X509_NAME *name = X509_get_subject_name(cert);

    for (int i = 0; i < sk_X509_NAME_num(names); i++) {
        if (X509_NAME_cmp(sk_X509_NAME_value(names, i), name) == 0)
            return true;
    }
    name = X509_NAME_dup(name);
    if (name && sk_X509_NAME_push(names, name) > 0)
        return true;
    X509_NAME_free(name);
    return false;
}

/* Also of the form BEGIN TRUSTED CERTIFICATE. Anything else in the file, such as a list of revoked
 * certificates, is passed over: nothing here asks for it. */
static int add_authorities(struct as_tls_loader *l, BIO *b, const char *file,
                           STACK_OF(X509_NAME) * names)
{
    static const char none[] = " holds no certificates of authorities in PEM: ",
                      unusable[] = ": the certificate of an authority cannot be used: ",
                      broken[] = ": a certificate behind the first one cannot be read: ";
    X509_STORE *store = SSL_CTX_get_cert_store(l->ctx);
    uint32_t n = 0;
    X509 *cert;
    bool ok;

    for (; (cert = PEM_read_bio_X509_AUX(b, NULL, NULL, NULL)); n++) {
        ok = X509_STORE_add_cert(store, cert) == 1 && add_name(names, cert);
        X509_free(cert);
        if (!ok)
            return fail(l, l->names.ca, file, unusable);
    }
    if (n && is_at_end())
        return 0;
    return fail(l, l->names.ca, file, n ? broken : none);
}

int as_tls_credentials_trust(struct as_tls_loader *l, const char *file, bool send_names)
{
    STACK_OF(X509_NAME) *names = sk_X509_NAME_new_null();
    struct as_buf bytes = {0};
    BIO *b = open_file(l, l->names.ca, file, &bytes);
    int rc = AS_EINVALID;

    if (b && !names)
        rc = fail(l, l->names.ca, file, " cannot be read: ");
    else if (b)
        rc = add_authorities(l, b, file, names);
    if (!rc)
        X509_STORE_set_flags(SSL_CTX_get_cert_store(l->ctx), X509_V_FLAG_PARTIAL_CHAIN);
    if (!rc && send_names)
        SSL_CTX_set_client_CA_list(l->ctx, names); /* owns them */
    else
        sk_X509_NAME_pop_free(names, X509_NAME_free);
    ERR_clear_error();
    BIO_free(b);
    as_buf_fini(&bytes);
    return rc;
}
