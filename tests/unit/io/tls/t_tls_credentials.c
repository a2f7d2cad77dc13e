/* Specification of io/tls/tls_credentials: files of certificates, keys and authorities, and what is
 * said of each that cannot be used. */
#include "io/tls/tls_credentials.h"

#include "base/err.h"
#include "certificates.h"

#include <openssl/err.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct certificate authority, middle, mine;
static struct as_tls_loader loader;
static struct as_buf err;

static void put_revoked(FILE *f)
{
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *now = X509_gmtime_adj(NULL, 0);

    X509_CRL_set_issuer_name(crl, X509_get_subject_name(authority.x));
    X509_CRL_set1_lastUpdate(crl, now);
    X509_CRL_set1_nextUpdate(crl, now);
    assert_true(X509_CRL_sign(crl, authority.key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_X509_CRL(f, crl), 1);
    ASN1_TIME_free(now);
    X509_CRL_free(crl);
}

/* Files of authorities that are no plain list of certificates. */
static void write_authorities(void)
{
    FILE *f = create_file("revoked.pem");
    struct stat st;

    put_revoked(f);
    fclose(f);
    f = create_file("with_revoked.pem");
    PEM_write_X509(f, authority.x);
    put_revoked(f);
    PEM_write_X509(f, middle.x);
    fclose(f);
    f = create_file("trusted.pem");
    PEM_write_X509_AUX(f, authority.x);
    fclose(f);
    write_certificate("half.pem", &authority);
    assert_int_equal(stat(file_in_folder("half.pem"), &st), 0);
    assert_int_equal(truncate(file_in_folder("half.pem"), st.st_size / 2), 0);
    write_chain("one_and_a_half.pem", (const struct certificate *[]){&authority, &authority}, 2);
    assert_int_equal(truncate(file_in_folder("one_and_a_half.pem"), st.st_size * 3 / 2), 0);
    f = create_file("mixed.pem");
    PEM_write_X509(f, mine.x);
    PEM_write_PKCS8PrivateKey(f, middle.key, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    write_certificate("large.pem", &mine);
    assert_int_equal(truncate(file_in_folder("large.pem"), AS_TLS_FILE_MAX + 1), 0);
}

static int set_up_all(void **state AS_UNUSED)
{
    const struct certificate *chain[] = {&mine, &middle};
    struct certificate c;

    if (make_temporary_folder())
        return -1;
    authority = make_certificate(NULL, "authority", NULL, -DAY, DAY);
    middle = make_certificate(&authority, "middle", "CA", -DAY, DAY);
    mine = make_certificate(&middle, "mine", "DNS:localhost", -DAY, DAY);
    write_certificate("authority.pem", &authority);
    write_chain("mine.pem", chain, 2);
    write_key("mine.key", &mine, NULL);
    write_key("encrypted.key", &mine, "secret");
    write_key("other.key", &middle, NULL);
    c = make_certificate(&authority, "old", NULL, -2 * DAY, -DAY);
    write_certificate("old.pem", &c);
    write_key("old.key", &c, NULL);
    free_certificate(&c);
    c = make_certificate(&authority, "early", NULL, DAY, 2 * DAY);
    write_certificate("early.pem", &c);
    write_key("early.key", &c, NULL);
    free_certificate(&c);
    c = make_certificate(&authority, "old middle", "CA", -2 * DAY, -DAY);
    chain[1] = &c;
    write_chain("old_middle.pem", chain, 2);
    free_certificate(&c);
    chain[0] = &authority;
    c = make_certificate(NULL, "authority", NULL, -DAY, DAY); /* another one of this name */
    chain[1] = &c;
    write_chain("twice.pem", chain, 2);
    free_certificate(&c);
    write_authorities();
    write_text("text.pem", "no PEM\n");
    write_text("empty.pem", "");
    return mkdir(file_in_folder("folder"), 0700) || mkfifo(file_in_folder("fifo"), 0600);
}

static int tear_down_all(void **state AS_UNUSED)
{
    free_certificate(&mine);
    free_certificate(&middle);
    free_certificate(&authority);
    return remove_temporary_folder();
}

static int set_up(void **state AS_UNUSED)
{
    err.n = 0;
    loader = (struct as_tls_loader){.ctx = SSL_CTX_new(TLS_method()), .err = &err};
    return loader.ctx ? 0 : -1;
}

static int tear_down(void **state AS_UNUSED)
{
    SSL_CTX_free(loader.ctx);
    as_buf_fini(&err);
    return 0;
}

static int load(const char *cert, const char *key)
{
    return as_tls_credentials_load(&loader, file_in_folder(cert), file_in_folder(key));
}

/* Whether the error text has these words. */
static bool says(const char *text)
{
    return memmem(err.p, err.n, text, strlen(text)) != NULL;
}

static void a_chain_and_its_key(void **state AS_UNUSED)
{
    STACK_OF(X509) * chain;
    int64_t now = time(NULL);

    assert_int_equal(load("mine.pem", "mine.key"), 0);
    assert_int_equal(err.n, 0);
    assert_in_range(loader.not_after, now + DAY - 60, now + DAY);
    assert_int_equal(X509_cmp(SSL_CTX_get0_certificate(loader.ctx), mine.x), 0);
    SSL_CTX_get0_chain_certs(loader.ctx, &chain);
    assert_int_equal(sk_X509_num(chain), 1);
    assert_int_equal(X509_cmp(sk_X509_value(chain, 0), middle.x), 0);
    assert_int_equal(ERR_peek_error(), 0); /* nothing is left for the next user of OpenSSL */
}

static void key_and_chain_in_one_file(void **state AS_UNUSED)
{
    FILE *f = create_file("both.pem");

    PEM_write_X509(f, mine.x);
    PEM_write_PKCS8PrivateKey(f, mine.key, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    assert_int_equal(load("both.pem", "both.pem"), 0);
}

static void files_that_cannot_be_used(void **state AS_UNUSED)
{
    static const struct {
        const char *cert, *key, *text;
    } rows[] = {
        {"missing.pem", "mine.key", "missing.pem: No such file or directory"},
        {"mine.pem", "missing.key", "missing.key: No such file or directory"},
        {"folder", "mine.key", "folder is not a file"},
        {"mine.pem", "folder", "folder is not a file"},
        {"fifo", "mine.key", "fifo is not a file"},
        {"text.pem", "mine.key",
         "text.pem holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"},
        {"empty.pem", "mine.key", "empty.pem holds no certificate in PEM"},
        {"mine.key", "mine.key", "mine.key holds no certificate in PEM"},
        {"mine.pem", "text.pem",
         "text.pem holds no private key in PEM (-----BEGIN PRIVATE KEY-----)"},
        {"mine.pem", "mine.pem", "mine.pem holds no private key in PEM"},
        {"mine.pem", "encrypted.key", "encrypted.key is encrypted, and nobody can type"},
        {"mine.pem", "other.key", "other.key does not belong to the certificate /"},
        {"old.pem", "old.key", "old.pem: the certificate has expired: 2"},
        {"early.pem", "early.key", "early.pem: the certificate is not valid before 2"},
        {"mixed.pem", "mixed.pem", "mixed.pem: its private key does not belong to its first"},
        {"old_middle.pem", "mine.key",
         "old_middle.pem: certificate 2 of the chain (old middle) has expired: 2"},
        {"large.pem", "mine.key", "large.pem has more than 16 MiB"},
        {"mine.pem", "large.pem", "large.pem has more than 16 MiB"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        err.n = 0;
        assert_int_equal(load(rows[i].cert, rows[i].key), AS_EINVALID);
        if (!says(rows[i].text))
            fail_msg("'%.*s' has no '%s'", AS_STR_FMT(as_buf_slice(&err)), rows[i].text);
        assert_int_equal(ERR_peek_error(), 0);
    }
}

static void a_file_without_the_right_to_read(void **state AS_UNUSED)
{
    write_text("secret.pem", "");
    assert_int_equal(chmod(file_in_folder("secret.pem"), 0), 0);
    assert_int_equal(load("secret.pem", "mine.key"), AS_EINVALID);
    /* root reads it all the same, and finds nothing */
    assert_true(says("secret.pem: Permission denied") || says("secret.pem holds no certificate"));
}

static void garbage_behind_the_first_certificate(void **state AS_UNUSED)
{
    FILE *f = create_file("cut.pem");

    PEM_write_X509(f, mine.x);
    fputs("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", f);
    fclose(f);
    assert_int_equal(load("cut.pem", "mine.key"), AS_EINVALID);
    assert_true(says("cut.pem: the certificates behind the first one cannot be read: "));
}

static void an_expired_certificate_may_be_allowed(void **state AS_UNUSED)
{
    loader.expiry = AS_TLS_EXPIRY_ALLOWED;
    assert_int_equal(load("old.pem", "old.key"), 0);
    assert_in_range(loader.not_after, time(NULL) - DAY - 60, time(NULL) - DAY);
}

/* Clients refuse a chain when any certificate of it has expired. */
static void the_certificate_of_a_chain_that_expires_first(void **state AS_UNUSED)
{
    loader.expiry = AS_TLS_EXPIRY_ALLOWED;
    assert_int_equal(load("old_middle.pem", "mine.key"), 0);
    assert_in_range(loader.not_after, time(NULL) - DAY - 60, time(NULL) - DAY);
    assert_int_equal(load("mine.pem", "mine.key"), 0); /* it is the first of all that are read */
    assert_in_range(loader.not_after, time(NULL) - DAY - 60, time(NULL) - DAY);
}

static void a_file_as_large_as_allowed(void **state AS_UNUSED)
{
    assert_int_equal(truncate(file_in_folder("large.pem"), AS_TLS_FILE_MAX), 0);
    assert_int_equal(load("large.pem", "mine.key"), 0);
    assert_int_equal(truncate(file_in_folder("large.pem"), AS_TLS_FILE_MAX + 1), 0);
    assert_int_equal(load("large.pem", "mine.key"), AS_EINVALID);
}

/* The options are those by which a user gave the files. */
static void errors_name_the_option(void **state AS_UNUSED)
{
    static const struct {
        const char *cert, *key, *option, *text;
    } rows[] = {
        {"text.pem", "mine.key", "--tls-cert ", "text.pem holds no certificate"},
        {"mine.pem", "text.pem", "--tls-key ", "text.pem holds no private key"},
        {"mine.pem", "missing.key", "--tls-key ", "missing.key: No such file"},
        {"mine.pem", "other.key", "--tls-key ", "other.key does not belong"},
        {"mine.pem", "mine.pem", "--tls-cert ", "if it is in another file: --tls-key FILE"}};

    loader.names = (struct as_tls_option_names){"--tls-cert", "--tls-key", "--tls-client-ca"};
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        err.n = 0;
        assert_int_equal(load(rows[i].cert, rows[i].key), AS_EINVALID);
        assert_true(strncmp(as_buf_cstr(&err), rows[i].option, strlen(rows[i].option)) == 0);
        assert_true(says(rows[i].text));
    }
    err.n = 0;
    assert_int_equal(as_tls_credentials_trust(&loader, file_in_folder("text.pem"), true),
                     AS_EINVALID);
    assert_true(strncmp(as_buf_cstr(&err), "--tls-client-ca /", 17) == 0);
}

static void the_digest_is_that_of_the_bytes(void **state AS_UNUSED)
{
    uint8_t first[AS_SHA256_BYTES];

    assert_int_equal(load("mine.pem", "mine.key"), 0);
    memcpy(first, loader.digest, sizeof(first));
    memset(loader.digest, 0, sizeof(loader.digest));
    assert_int_equal(load("mine.pem", "mine.key"), 0);
    assert_memory_equal(loader.digest, first, sizeof(first));
    assert_int_equal(as_tls_credentials_trust(&loader, file_in_folder("authority.pem"), true), 0);
    assert_memory_not_equal(loader.digest, first, sizeof(first));
    memset(loader.digest, 0, sizeof(loader.digest));
    assert_int_equal(load("old_middle.pem", "mine.key"), AS_EINVALID);
    assert_memory_not_equal(loader.digest, first, sizeof(first));
}

static void authorities(void **state AS_UNUSED)
{
    static const struct {
        const char *file, *text;
    } rows[] = {{"missing.pem", "missing.pem: No such file or directory"},
                {"folder", "folder is not a file"},
                {"text.pem", "text.pem holds no certificates of authorities in PEM: "},
                {"empty.pem", "empty.pem holds no certificates of authorities in PEM: "},
                {"revoked.pem", "revoked.pem holds no certificates of authorities in PEM: "},
                {"mine.key", "mine.key holds no certificates of authorities in PEM: "},
                {"half.pem", "half.pem holds no certificates of authorities in PEM: "},
                {"one_and_a_half.pem",
                 "one_and_a_half.pem: a certificate behind the first one cannot be read: "}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        err.n = 0;
        assert_int_equal(as_tls_credentials_trust(&loader, file_in_folder(rows[i].file), true),
                         AS_EINVALID);
        if (!says(rows[i].text))
            fail_msg("'%.*s' has no '%s'", AS_STR_FMT(as_buf_slice(&err)), rows[i].text);
        assert_int_equal(ERR_peek_error(), 0);
    }
    assert_int_equal(as_tls_credentials_trust(&loader, file_in_folder("authority.pem"), false), 0);
    assert_int_equal(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(loader.ctx)), 0);
    assert_int_equal(as_tls_credentials_trust(&loader, file_in_folder("authority.pem"), true), 0);
    assert_int_equal(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(loader.ctx)), 1);
    assert_int_equal(ERR_peek_error(), 0);
}

/* What a file of authorities may have beside plain certificates; each name is sent once. */
static void forms_of_authorities(void **state AS_UNUSED)
{
    static const struct {
        const char *file;
        int n, names;
    } rows[] = {{"trusted.pem", 1, 1}, {"with_revoked.pem", 2, 2}, {"twice.pem", 2, 1}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        SSL_CTX *ctx = SSL_CTX_new(TLS_method());
        STACK_OF(X509_OBJECT) * all;

        loader.err->n = 0;
        SSL_CTX_free(loader.ctx);
        loader.ctx = ctx;
        assert_int_equal(as_tls_credentials_trust(&loader, file_in_folder(rows[i].file), true), 0);
        assert_int_equal(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(ctx)), rows[i].names);
        all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(ctx));
        assert_int_equal(sk_X509_OBJECT_num(all), rows[i].n);
    }
}

/* A file that is replaced is read once: what was checked is what is used. */
static void a_file_is_replaced_between_two_loads(void **state AS_UNUSED)
{
    put_certificate(&authority, "now", NULL);
    assert_int_equal(as_tls_credentials_trust(&loader, file_in_folder("authority.pem"), true), 0);
    assert_int_equal(rename(file_in_folder("revoked.pem"), file_in_folder("now.pem")), 0);
    assert_int_equal(as_tls_credentials_trust(&loader, file_in_folder("now.pem"), true),
                     AS_EINVALID);
    assert_int_equal(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(loader.ctx)), 1); /* the former */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_chain_and_its_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_and_chain_in_one_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_used, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_without_the_right_to_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(garbage_behind_the_first_certificate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_expired_certificate_may_be_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_certificate_of_a_chain_that_expires_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_file_as_large_as_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errors_name_the_option, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_digest_is_that_of_the_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(authorities, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forms_of_authorities, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_is_replaced_between_two_loads, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
