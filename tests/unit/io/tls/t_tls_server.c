/* Specification of io/tls/tls_server: which certificate and protocol a client gets, who is refused,
 * and what happens when the files are loaded again. */
#include "io/tls/tls_server.h"

#include "certificates.h"
#include "tls_pair.h"

#include <time.h>

static struct certificate authority;
static struct as_tls_server *server;
static SSL_CTX *client;
static struct as_buf err;
static const char *certs[3], *keys[3]; /* the conf of `server` */

static int set_up_all(void **state AS_UNUSED)
{
    if (make_temporary_folder())
        return -1;
    authority = make_certificate(NULL, "authority", NULL, -DAY, DAY);
    write_certificate("authority.pem", &authority);
    put_certificate(&authority, "first", "DNS:first.example");
    put_certificate(&authority, "second", "DNS:second.example,DNS:*.second.example");
    put_certificate(&authority, "third",
                    "DNS:third.example,DNS:first.example,DNS:exact.second.example");
    put_certificate(&authority, "me", NULL);
    return 0;
}

static int tear_down_all(void **state AS_UNUSED)
{
    free_certificate(&authority);
    as_buf_fini(&err);
    return remove_temporary_folder();
}

static int set_up(void **state AS_UNUSED)
{
    client = SSL_CTX_new(TLS_client_method());
    return client ? 0 : -1;
}

static int tear_down(void **state AS_UNUSED)
{
    SSL_CTX_free(client);
    as_tls_server_free(server);
    server = NULL;
    return 0;
}

static void make(struct as_tls_server_conf conf)
{
    static char paths[6][256];
    static const char *const names[] = {"first", "second", "third"};

    for (uint32_t i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s.pem", temporary_folder, names[i]);
        snprintf(paths[i + 3], sizeof(paths[i]), "%s/%s.key", temporary_folder, names[i]);
        certs[i] = paths[i];
        keys[i] = paths[i + 3];
    }
    conf.certs = certs;
    conf.keys = keys;
    conf.n = 3;
    server = as_tls_server_new(&conf);
}

static void make_and_load(struct as_tls_server_conf conf)
{
    make(conf);
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ERROR, &err), 0);
}

/* The common name of the certificate that the client has got. */
static const char *name_of_server(void)
{
    static char name[64];
    X509 *x = SSL_get1_peer_certificate(pair.client_ssl);

    assert_non_null(x);
    X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, name, sizeof(name));
    X509_free(x);
    return name;
}

static void the_certificate_of_the_name_that_is_asked_for(void **state AS_UNUSED)
{
    static const struct {
        const char *asked, *got;
    } rows[] = {{NULL, "first"},
                {"first.example", "first"}, /* the first of those that have it */
                {"second.example", "second"},
                {"SECOND.example", "second"},
                {"a.second.example", "second"},
                {"exact.second.example", "third"}, /* although a wildcard is given before it */
                {"a.b.second.example", "first"},
                {"third.example", "third"},
                {"unknown.example", "first"}};

    make_and_load((struct as_tls_server_conf){.client_ca = NULL});
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        SSL *ssl = SSL_new(client);

        if (rows[i].asked)
            SSL_set_tlsext_host_name(ssl, rows[i].asked);
        assert_true(pair_agrees(as_tls_server_open(server), ssl));
        assert_string_equal(name_of_server(), rows[i].got);
        pair_close();
    }
}

static void the_protocol_that_is_chosen(void **state AS_UNUSED)
{
    static const struct {
        const char *offer, *chosen; /* NULL: refused */
    } rows[] = {{"", ""},
                {"\x02h2", "h2"},
                {"\x08http/1.1", "http/1.1"},
                {"\x08http/1.1\x02h2", "h2"}, /* the server's order counts */
                {"\x05other\x08http/1.1", "http/1.1"},
                {"\x02h3", NULL},
                {"\x08http/1.0", NULL}};

    make_and_load((struct as_tls_server_conf){.client_ca = NULL});
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        SSL *ssl = SSL_new(client);

        SSL_set_alpn_protos(ssl, (const unsigned char *)rows[i].offer,
                            (unsigned)strlen(rows[i].offer));
        assert_int_equal(pair_agrees(as_tls_server_open(server), ssl), rows[i].chosen != NULL);
        if (rows[i].chosen)
            assert_true(as_str_eq(as_tls_alpn(pair.server), as_str_of(rows[i].chosen)));
        else
            assert_string_equal(as_tls_failure(pair.client), "tlsv1 alert no application protocol");
        pair_close();
    }
}

static void versions(void **state AS_UNUSED)
{
    static const struct {
        enum as_tls_version least;
        int client;
        const char *agreed; /* NULL: refused */
    } rows[] = {{AS_TLS_1_2, TLS1_1_VERSION, NULL},
                {AS_TLS_1_2, TLS1_2_VERSION, "TLSv1.2"},
                {AS_TLS_1_2, TLS1_3_VERSION, "TLSv1.3"},
                {AS_TLS_1_3, TLS1_2_VERSION, NULL},
                {AS_TLS_1_3, TLS1_3_VERSION, "TLSv1.3"}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        SSL *ssl = SSL_new(client);

        make_and_load((struct as_tls_server_conf){.least = rows[i].least});
        SSL_set_security_level(ssl, 0); /* else this client does not offer 1.1 */
        SSL_set_min_proto_version(ssl, TLS1_VERSION);
        SSL_set_max_proto_version(ssl, rows[i].client);
        assert_int_equal(pair_agrees(as_tls_server_open(server), ssl), rows[i].agreed != NULL);
        if (rows[i].agreed)
            assert_string_equal(SSL_get_version(pair.server_ssl), rows[i].agreed);
        else
            assert_int_equal(pair.server_rc, AS_EINVALID);
        pair_close();
        as_tls_server_free(server);
    }
    server = NULL;
}

static void suites_without_forward_secrecy_are_refused(void **state AS_UNUSED)
{
    static const char *const suites[] = {"AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA256"};

    make_and_load((struct as_tls_server_conf){.client_ca = NULL});
    for (size_t i = 0; i < AS_COUNT(suites); i++) {
        SSL *ssl = SSL_new(client);

        SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
        assert_int_equal(SSL_set_cipher_list(ssl, suites[i]), 1);
        assert_false(pair_agrees(as_tls_server_open(server), ssl));
        assert_string_equal(as_tls_failure(pair.server), "no shared cipher");
        pair_close();
    }
}

/* By TLS 1.2 the client sees the refusal in its handshake (1.3: t_tls_client). */
static void a_client_needs_a_certificate(void **state AS_UNUSED)
{
    make_and_load((struct as_tls_server_conf){.client_ca = file_in_folder("authority.pem")});
    SSL_CTX_set_max_proto_version(client, TLS1_2_VERSION);
    assert_false(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    assert_string_equal(as_tls_failure(pair.server), "peer did not return a certificate");
    assert_int_equal(pair.client_rc, AS_EINVALID);
    assert_int_equal(sk_X509_NAME_num(SSL_get_client_CA_list(pair.client_ssl)), 1);
    pair_close();
    assert_int_equal(
        SSL_CTX_use_certificate_file(client, file_in_folder("me.pem"), SSL_FILETYPE_PEM), 1);
    assert_int_equal(
        SSL_CTX_use_PrivateKey_file(client, file_in_folder("me.key"), SSL_FILETYPE_PEM), 1);
    assert_true(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    pair_close();
}

static void nothing_is_loaded(void **state AS_UNUSED)
{
    make((struct as_tls_server_conf){.client_ca = NULL});
    assert_int_equal(as_tls_server_not_after(server), 0);
    assert_null(as_tls_server_open(server));
    assert_null(as_tls_new(as_tls_server_open(server), true, -1, NULL));
    as_tls_server_free(NULL);
}

static void the_first_certificate_that_expires(void **state AS_UNUSED)
{
    struct certificate c = make_certificate(&authority, "second", NULL, -DAY, DAY / 2);
    int64_t now = time(NULL);

    write_certificate("soon.pem", &c);
    write_key("soon.key", &c, NULL);
    free_certificate(&c);
    make((struct as_tls_server_conf){.client_ca = NULL});
    certs[1] = file_in_folder("soon.pem");
    keys[1] = file_in_folder("soon.key");
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ERROR, &err), 0);
    assert_in_range(as_tls_server_not_after(server), now + DAY / 2 - 60, now + DAY / 2);
}

static void new_files_are_for_new_sessions(void **state AS_UNUSED)
{
    uint8_t byte;

    make_and_load((struct as_tls_server_conf){.ticket_lifetime = 100 * AS_SEC});
    assert_true(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    certs[0] = file_in_folder("third.pem");
    keys[0] = file_in_folder("third.key");
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ERROR, &err), 0);
    assert_int_equal(as_tls_read(pair.server, &byte, 1), AS_EAGAIN); /* the old one goes on */
    assert_string_equal(name_of_server(), "first");
    pair_close();
    assert_true(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    assert_string_equal(name_of_server(), "third");
    pair_close();
}

static void files_that_cannot_be_used_change_nothing(void **state AS_UNUSED)
{
    make_and_load((struct as_tls_server_conf){.client_ca = NULL});
    certs[2] = file_in_folder("first.pem"); /* the key is that of the third */
    err.n = 0;
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ERROR, &err), AS_EINVALID);
    assert_non_null(memmem(err.p, err.n, "does not belong to", 18));
    assert_true(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    assert_string_equal(name_of_server(), "first");
    pair_close();
}

/* The ticket of the last session; the client must have read it. */
static SSL_SESSION *take_ticket(void)
{
    uint8_t byte;

    assert_int_equal(as_tls_read(pair.client, &byte, 1), AS_EAGAIN);
    as_tls_close_notify(pair.client); /* else OpenSSL takes the session for a bad one */
    return SSL_get1_session(pair.client_ssl);
}

static bool resumes(SSL_SESSION *session)
{
    SSL *ssl = SSL_new(client);
    bool resumed;

    assert_int_equal(SSL_set_session(ssl, session), 1);
    assert_true(pair_agrees(as_tls_server_open(server), ssl));
    resumed = as_tls_is_resumed(pair.server);
    assert_int_equal(as_tls_is_resumed(pair.client), resumed);
    as_tls_close_notify(pair.client);
    pair_close();
    return resumed;
}

/* A change of another file, such as that of API keys, loads these again, too. */
static void a_ticket_outlives_a_load_of_the_same_files(void **state AS_UNUSED)
{
    SSL_SESSION *session;

    make_and_load((struct as_tls_server_conf){.ticket_lifetime = 100 * AS_SEC});
    assert_true(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    session = take_ticket();
    pair_close();
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ERROR, &err), 0);
    assert_true(resumes(session));
    certs[1] = file_in_folder("no.pem"); /* nor does one that fails change anything */
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ERROR, &err), AS_EINVALID);
    assert_true(resumes(session));
    SSL_SESSION_free(session);
}

/* The same chain behind another name counts for the same; another list of authorities does not. */
static void a_ticket_is_of_no_use_after_a_change_of_authorities(void **state AS_UNUSED)
{
    static char text[8192];
    SSL_SESSION *session;
    FILE *f;
    size_t n;

    assert_int_equal(
        SSL_CTX_use_certificate_file(client, file_in_folder("me.pem"), SSL_FILETYPE_PEM), 1);
    assert_int_equal(
        SSL_CTX_use_PrivateKey_file(client, file_in_folder("me.key"), SSL_FILETYPE_PEM), 1);
    write_certificate("clients.pem", &authority);
    make_and_load((struct as_tls_server_conf){.ticket_lifetime = 100 * AS_SEC,
                                              .client_ca = file_in_folder("clients.pem")});
    assert_true(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    session = take_ticket();
    pair_close();
    assert_true(resumes(session));
    f = fopen(file_in_folder("first.pem"), "r");
    assert_non_null(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = 0;
    f = fopen(file_in_folder("clients.pem"), "a");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ERROR, &err), 0);
    assert_false(resumes(session));
    SSL_SESSION_free(session);
}

/* The user trusts the intermediate authority, whoever has signed that. */
static void an_intermediate_authority_is_enough(void **state AS_UNUSED)
{
    struct certificate middle = make_certificate(&authority, "middle", "CA", -DAY, DAY);

    write_certificate("middle.pem", &middle);
    put_certificate(&middle, "below", NULL);
    free_certificate(&middle);
    SSL_CTX_set_max_proto_version(client, TLS1_2_VERSION);
    make_and_load((struct as_tls_server_conf){.client_ca = file_in_folder("middle.pem")});
    for (int i = 0; i < 2; i++) {
        SSL *ssl = SSL_new(client);

        SSL_use_certificate_file(ssl, file_in_folder(i ? "me.pem" : "below.pem"), SSL_FILETYPE_PEM);
        SSL_use_PrivateKey_file(ssl, file_in_folder(i ? "me.key" : "below.key"), SSL_FILETYPE_PEM);
        assert_int_equal(pair_agrees(as_tls_server_open(server), ssl), i == 0);
        pair_close();
    }
}

static void a_ticket_is_of_no_use_after_a_load_of_other_files(void **state AS_UNUSED)
{
    SSL_SESSION *session;

    make_and_load((struct as_tls_server_conf){.ticket_lifetime = 100 * AS_SEC});
    assert_true(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    session = take_ticket();
    assert_int_equal(SSL_SESSION_is_resumable(session), 1);
    pair_close();
    assert_true(resumes(session));
    put_certificate(&authority, "renewed", "DNS:second.example");
    certs[1] = file_in_folder("renewed.pem");
    keys[1] = file_in_folder("renewed.key");
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ERROR, &err), 0);
    assert_false(resumes(session));
    SSL_SESSION_free(session);
}

static void no_lifetime_no_ticket(void **state AS_UNUSED)
{
    SSL_SESSION *session;

    make_and_load((struct as_tls_server_conf){.ticket_lifetime = 0});
    assert_true(pair_agrees(as_tls_server_open(server), SSL_new(client)));
    session = take_ticket();
    assert_int_equal(SSL_SESSION_is_resumable(session), 0);
    SSL_SESSION_free(session);
    pair_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_certificate_of_the_name_that_is_asked_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_protocol_that_is_chosen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(versions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(suites_without_forward_secrecy_are_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_client_needs_a_certificate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_certificate_that_expires, set_up, tear_down),
        cmocka_unit_test_setup_teardown(new_files_are_for_new_sessions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_used_change_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_ticket_outlives_a_load_of_the_same_files, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_ticket_is_of_no_use_after_a_load_of_other_files, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_ticket_is_of_no_use_after_a_change_of_authorities, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_intermediate_authority_is_enough, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_lifetime_no_ticket, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
