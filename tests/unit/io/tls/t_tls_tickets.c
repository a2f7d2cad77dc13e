/* Specification of io/tls/tls_tickets: until when a session can be resumed, by a clock of the test.
 */
#include "io/tls/tls_tickets.h"

#include "tls_pair.h"

#define LIFETIME (100 * AS_SEC)

static struct as_tls_tickets *tickets;
static SSL_CTX *server, *client;
static as_ns now;

static as_ns test_clock(void)
{
    return now;
}

static SSL_CTX *new_server(struct as_tls_tickets *t)
{
    SSL_CTX *ctx = new_server_context();

    as_tls_tickets_use(t, ctx);
    return ctx;
}

static int set_up(void **state AS_UNUSED)
{
    now = 5 * AS_SEC;
    tickets = as_tls_tickets_new(LIFETIME, test_clock);
    server = new_server(tickets);
    client = SSL_CTX_new(TLS_client_method());
    return 0;
}

static int tear_down(void **state AS_UNUSED)
{
    SSL_CTX_free(server);
    SSL_CTX_free(client);
    as_tls_tickets_free(tickets);
    return 0;
}

static int accept_any(int ok AS_UNUSED, X509_STORE_CTX *store AS_UNUSED)
{
    return 1;
}

/* A connection that offers `session` (NULL: none). Returns its newest ticket. */
static SSL_SESSION *connect_to(SSL_CTX *to, SSL_SESSION *session, bool *ret_resumed)
{
    SSL *ssl = SSL_new(client);
    uint8_t byte;

    if (session)
        assert_int_equal(SSL_set_session(ssl, session), 1);
    assert_true(pair_agrees(SSL_new(to), ssl));
    assert_int_equal(as_tls_read(pair.client, &byte, 1), AS_EAGAIN); /* takes the tickets */
    *ret_resumed = as_tls_is_resumed(pair.server);
    as_tls_close_notify(pair.client); /* else OpenSSL takes the session for a bad one */
    session = SSL_get1_session(pair.client_ssl);
    pair_close();
    return session;
}

static bool resumes(SSL_CTX *to, SSL_SESSION *session)
{
    bool resumed;

    SSL_SESSION_free(connect_to(to, session, &resumed));
    return resumed;
}

/* Both versions: RFC 5077 for 1.2, RFC 8446 §4.6.1 for 1.3. */
static void a_key_decrypts_for_two_lifetimes(void **state AS_UNUSED)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (size_t i = 0; i < AS_COUNT(versions); i++) {
        as_ns start = now += 10 * LIFETIME;
        SSL_SESSION *session;
        bool resumed;

        SSL_CTX_set_max_proto_version(client, versions[i]);
        session = connect_to(server, NULL, &resumed);
        assert_false(resumed);
        assert_int_equal(SSL_SESSION_is_resumable(session), 1);
        assert_true(resumes(server, session));
        now = start + LIFETIME;
        assert_true(resumes(server, session)); /* by the former key: there is a new one now */
        now = start + 2 * LIFETIME - 1;
        assert_true(resumes(server, session));
        now = start + 2 * LIFETIME;
        assert_false(resumes(server, session));
        SSL_SESSION_free(session);
    }
}

/* No ticket was needed meanwhile, so that there is no newer key: the old one ends all the same. */
static void a_key_ends_also_if_there_is_no_other(void **state AS_UNUSED)
{
    SSL_SESSION *session;
    as_ns start = now;
    bool resumed;

    session = connect_to(server, NULL, &resumed);
    now = start + 2 * LIFETIME;
    assert_false(resumes(server, session));
    SSL_SESSION_free(session);
}

/* A ticket of the last moment of a key is good for one lifetime at least. */
static void a_ticket_of_an_old_key_is_replaced(void **state AS_UNUSED)
{
    SSL_SESSION *session, *renewed;
    as_ns start = now;
    bool resumed;

    session = connect_to(server, NULL, &resumed);
    now = start + LIFETIME - 1;
    SSL_SESSION_free(session);
    session = connect_to(server, NULL, &resumed); /* still by the first key */
    now = start + LIFETIME;
    renewed = connect_to(server, session, &resumed);
    assert_true(resumed);
    now = start + 2 * LIFETIME;
    assert_false(resumes(server, session));
    assert_true(resumes(server, renewed));
    SSL_SESSION_free(session);
    SSL_SESSION_free(renewed);
}

static void several_contexts_share_keys(void **state AS_UNUSED)
{
    SSL_CTX *other = new_server(tickets);
    SSL_SESSION *session;
    bool resumed;

    session = connect_to(server, NULL, &resumed);
    assert_true(resumes(other, session));
    SSL_SESSION_free(session);
    SSL_CTX_free(other);
}

static void other_keys_and_no_keys(void **state AS_UNUSED)
{
    struct as_tls_tickets *others = as_tls_tickets_new(LIFETIME, test_clock);
    SSL_CTX *other = new_server(others), *none = new_server(NULL);
    SSL_SESSION *session, *unusable;
    bool resumed;

    session = connect_to(server, NULL, &resumed);
    assert_false(resumes(other, session));
    unusable = connect_to(none, session, &resumed);
    assert_false(resumed);
    assert_int_equal(SSL_SESSION_is_resumable(unusable), 0);
    assert_true(resumes(server, session));
    SSL_SESSION_free(session);
    SSL_SESSION_free(unusable);
    SSL_CTX_free(other);
    SSL_CTX_free(none);
    as_tls_tickets_free(others);
    as_tls_tickets_free(NULL);
}

/* The server accepted the certificate when it was valid, which the callback stands for. */
static void a_client_whose_certificate_has_expired_since(void **state AS_UNUSED)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    static const struct {
        const char *name;
        long until;
        bool resumes;
    } rows[] = {{"valid", DAY, true}, {"expired", -DAY, false}};

    SSL_CTX_set_verify(server, SSL_VERIFY_PEER, accept_any);
    SSL_CTX_set_session_id_context(server, (const unsigned char *)"x", 1);
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct certificate c =
            make_certificate(&pair_authority, rows[i].name, NULL, -2 * DAY, rows[i].until);

        assert_int_equal(SSL_CTX_use_certificate(client, c.x), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(client, c.key), 1);
        for (size_t k = 0; k < AS_COUNT(versions); k++) {
            SSL_SESSION *session;
            bool resumed;

            SSL_CTX_set_max_proto_version(client, versions[k]);
            session = connect_to(server, NULL, &resumed);
            assert_int_equal(SSL_SESSION_is_resumable(session), 1);
            assert_int_equal(resumes(server, session), rows[i].resumes);
            SSL_SESSION_free(session);
        }
        free_certificate(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_decrypts_for_two_lifetimes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_key_ends_also_if_there_is_no_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ticket_of_an_old_key_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_contexts_share_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_keys_and_no_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_client_whose_certificate_has_expired_since, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, make_pair_certificate, remove_pair_certificate);
}
