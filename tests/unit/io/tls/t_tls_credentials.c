/* Specification of io/tls/tls_credentials: files of certificates, keys and authorities, and what is
 * said of each that cannot be used. */
#include "io/tls/tls_credentials.h"

#include "base/err.h"
#include "certificates.h"

#include <openssl/err.h>
#include <sys/stat.h>
#include <time.h>

static struct certificate authority, middle, mine;
static SSL_CTX *ctx;
static struct as_buf err;
static int64_t not_after;

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
    ctx = SSL_CTX_new(TLS_method());
    err.n = 0;
    not_after = -1;
    return ctx ? 0 : -1;
}

static int tear_down(void **state AS_UNUSED)
{
    SSL_CTX_free(ctx);
    as_buf_fini(&err);
    return 0;
}

static int load(const char *cert, const char *key)
{
    return as_tls_credentials_load(ctx, file_in_folder(cert), file_in_folder(key),
                                   AS_TLS_EXPIRY_ERROR, &not_after, &err);
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
    assert_in_range(not_after, now + DAY - 60, now + DAY);
    assert_int_equal(X509_cmp(SSL_CTX_get0_certificate(ctx), mine.x), 0);
    SSL_CTX_get0_chain_certs(ctx, &chain);
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
    assert_int_equal(as_tls_credentials_load(ctx, file_in_folder("old.pem"),
                                             file_in_folder("old.key"), AS_TLS_EXPIRY_ALLOWED,
                                             &not_after, &err),
                     0);
    assert_in_range(not_after, time(NULL) - DAY - 60, time(NULL) - DAY);
}

static void authorities(void **state AS_UNUSED)
{
    static const struct {
        const char *file, *text;
    } rows[] = {{"missing.pem", "missing.pem: No such file or directory"},
                {"folder", "folder is not a file"},
                {"text.pem", "text.pem holds no certificates of authorities in PEM: "},
                {"empty.pem", "empty.pem holds no certificates of authorities in PEM: "}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        err.n = 0;
        assert_int_equal(as_tls_credentials_trust(ctx, file_in_folder(rows[i].file), true, &err),
                         AS_EINVALID);
        assert_true(says(rows[i].text));
    }
    assert_int_equal(as_tls_credentials_trust(ctx, file_in_folder("authority.pem"), false, &err),
                     0);
    assert_int_equal(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(ctx)), 0);
    assert_int_equal(as_tls_credentials_trust(ctx, file_in_folder("authority.pem"), true, &err), 0);
    assert_int_equal(sk_X509_NAME_num(SSL_CTX_get_client_CA_list(ctx)), 1);
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
        cmocka_unit_test_setup_teardown(authorities, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
