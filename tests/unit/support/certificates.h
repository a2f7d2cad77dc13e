/* tests/unit/support/certificates.h — certificates and keys that a test makes, as files in its
 * temporary folder. */
#ifndef AS_TEST_CERTIFICATES_H
#define AS_TEST_CERTIFICATES_H

#include "base/defs.h"
#include "temporary_folder.h"
#include "unit.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define DAY (24L * 3600)

struct certificate {
    X509 *x;
    EVP_PKEY *key;
};

/* The path of a file in the temporary folder; valid until 16 further calls. */
static inline const char *file_in_folder(const char *name)
{
    static char paths[16][256];
    static unsigned next;
    char *path = paths[next++ % AS_COUNT(paths)];

    snprintf(path, sizeof(paths[0]), "%s/%s", temporary_folder, name);
    return path;
}

static inline FILE *create_file(const char *name)
{
    FILE *f = fopen(file_in_folder(name), "w");

    assert_non_null(f);
    return f;
}

static inline void write_text(const char *name, const char *text)
{
    FILE *f = create_file(name);

    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

/* The first of them is the end entity's. */
static inline void write_chain(const char *name, const struct certificate *const *chain, int n)
{
    FILE *f = create_file(name);

    for (int i = 0; i < n; i++)
        assert_int_equal(PEM_write_X509(f, chain[i]->x), 1);
    fclose(f);
}

static inline void write_certificate(const char *name, const struct certificate *c)
{
    write_chain(name, &c, 1);
}

/* pass: encrypts it; NULL: it is in clear. */
static inline void write_key(const char *name, const struct certificate *c, const char *pass)
{
    FILE *f = create_file(name);

    assert_int_equal(PEM_write_PKCS8PrivateKey(f, c->key, pass ? EVP_aes_256_cbc() : NULL, pass,
                                               pass ? (int)strlen(pass) : 0, NULL, NULL),
                     1);
    fclose(f);
}

static inline void add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;

    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
}

/* issuer: who signs it; NULL: it is an authority that signs itself. names:
 * "DNS:localhost,IP:127.0.0.1"; "CA": it is an authority below the issuer; NULL: none. Valid `from`
 * … `until` seconds from now. */
static inline struct certificate make_certificate(const struct certificate *issuer,
                                                  const char *subject, const char *names, long from,
                                                  long until)
{
    static long serial;
    bool is_authority = !issuer || (names && strcmp(names, "CA") == 0);
    struct certificate c = {.x = X509_new(), .key = EVP_EC_gen("P-256")};
    X509_NAME *name = X509_get_subject_name(c.x);

    if (!issuer)
        issuer = &c;
    X509_set_version(c.x, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(c.x), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(c.x), from);
    X509_gmtime_adj(X509_getm_notAfter(c.x), until);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)subject, -1, -1, 0);
    X509_set_issuer_name(c.x, X509_get_subject_name(issuer->x));
    X509_set_pubkey(c.x, c.key);
    add_extension(c.x, issuer->x, NID_basic_constraints,
                  is_authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (names && !is_authority)
        add_extension(c.x, issuer->x, NID_subject_alt_name, names);
    assert_true(X509_sign(c.x, issuer->key, EVP_sha256()) > 0);
    return c;
}

static inline void free_certificate(struct certificate *c)
{
    X509_free(c->x);
    EVP_PKEY_free(c->key);
    *c = (struct certificate){0};
}

/* Writes NAME.pem and NAME.key of a certificate that is valid now. */
static inline void put_certificate(const struct certificate *issuer, const char *name,
                                   const char *names)
{
    struct certificate c = make_certificate(issuer, name, names, -DAY, DAY);
    char file[64];

    snprintf(file, sizeof(file), "%s.pem", name);
    write_certificate(file, &c);
    snprintf(file, sizeof(file), "%s.key", name);
    write_key(file, &c, NULL);
    free_certificate(&c);
}

#endif
