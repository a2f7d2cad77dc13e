/* Specification of io/tls/tls_client: what a client accepts of a server, and what it asks for. */
#include "io/tls/tls_client.h"

#include "certificates.h"
#include "io/tls/tls_server.h"
#include "tls_pair.h"

static struct certificate authority, stranger;
static struct as_tls_server *server;
static struct as_tls_client *client;
static struct as_buf err;

static int set_up_all(void **state AS_UNUSED)
{
    struct certificate c;

    if (make_temporary_folder())
        return -1;
    authority = make_certificate(NULL, "authority", NULL, -DAY, DAY);
    stranger = make_certificate(NULL, "stranger", NULL, -DAY, DAY);
    write_certificate("authority.pem", &authority);
    write_certificate("stranger.pem", &stranger);
    put_certificate(&authority, "local", "DNS:localhost,IP:127.0.0.1,IP:::1");
    put_certificate(&authority, "named", "DNS:127.0.0.1,DNS:*.example.org,DNS:w*.example.net");
    put_certificate(&authority, "localhost", NULL);
    put_certificate(&authority, "me", NULL);
    c = make_certificate(&authority, "old", "DNS:localhost", -2 * DAY, -DAY);
    write_certificate("old.pem", &c);
    write_key("old.key", &c, NULL);
    free_certificate(&c);
    c = make_certificate(NULL, "self", "CA", -DAY, DAY);
    write_certificate("self.pem", &c);
    write_key("self.key", &c, NULL);
    free_certificate(&c);
    write_text("text.pem", "no PEM\n");
    return 0;
}

static int tear_down_all(void **state AS_UNUSED)
{
    free_certificate(&authority);
    free_certificate(&stranger);
    as_buf_fini(&err);
    return remove_temporary_folder();
}

/* A server with the certificate NAME.pem. */
static void serve(const char *name, const char *client_ca)
{
    static char cert[256], key[256];
    static const char *certs[] = {cert}, *keys[] = {key};

    snprintf(cert, sizeof(cert), "%s/%s.pem", temporary_folder, name);
    snprintf(key, sizeof(key), "%s/%s.key", temporary_folder, name);
    server = as_tls_server_new(
        &(struct as_tls_server_conf){.certs = certs, .keys = keys, .n = 1, .client_ca = client_ca});
    assert_int_equal(as_tls_server_load(server, AS_TLS_EXPIRY_ALLOWED, &err), 0);
}

static bool agrees(const struct as_tls_client_conf *conf)
{
    assert_int_equal(as_tls_client_new(&client, conf, &err), 0);
    return pair_agrees(as_tls_server_open(server), as_tls_client_open(client));
}

static void end(void)
{
    pair_close();
    as_tls_client_free(client);
    as_tls_server_free(server);
}

/* The result of the client's handshake with the server of this certificate. */
static void expect(const char *cert, const char *host, const char *ca, enum as_tls_cause cause,
                   const char *failure)
{
    serve(cert, NULL);
    assert_int_equal(agrees(&(struct as_tls_client_conf){.host = host, .ca = file_in_folder(ca)}),
                     !failure);
    assert_int_equal(as_tls_cause(pair.client), cause);
    if (failure)
        assert_string_equal(as_tls_failure(pair.client), failure);
    else
        assert_null(as_tls_failure(pair.client));
    end();
}

static void names_and_addresses(void **state AS_UNUSED)
{
    const enum as_tls_cause good = AS_TLS_CAUSE_OTHER, bad = AS_TLS_CAUSE_UNVERIFIED;

    expect("local", "localhost", "authority.pem", good, NULL);
    expect("local", "LOCALHOST", "authority.pem", good, NULL);
    expect("local", "127.0.0.1", "authority.pem", good, NULL);
    expect("local", "::1", "authority.pem", good, NULL);
    expect("local", "127.0.0.2", "authority.pem", bad, "IP address mismatch");
    expect("local", "localhost.", "authority.pem", bad, "hostname mismatch");
    expect("local", "other", "authority.pem", bad, "hostname mismatch");
    expect("named", "127.0.0.1", "authority.pem", bad, "IP address mismatch");
    expect("named", "a.example.org", "authority.pem", good, NULL);
    expect("named", "example.org", "authority.pem", bad, "hostname mismatch");
    expect("named", "a.b.example.org", "authority.pem", bad, "hostname mismatch");
    expect("named", "www.example.net", "authority.pem", bad, "hostname mismatch");
    /* it is only in the subject's common name */
    expect("localhost", "localhost", "authority.pem", bad, "hostname mismatch");
}

static void chains(void **state AS_UNUSED)
{
    expect("local", "localhost", "stranger.pem", AS_TLS_CAUSE_UNTRUSTED,
           "unable to get local issuer certificate");
    expect("self", "localhost", "authority.pem", AS_TLS_CAUSE_UNTRUSTED, "self-signed certificate");
    expect("old", "localhost", "authority.pem", AS_TLS_CAUSE_UNVERIFIED, "certificate has expired");
}

/* The server sends no more than its own certificate. */
static void an_intermediate_authority_is_enough(void **state AS_UNUSED)
{
    struct certificate middle = make_certificate(&authority, "middle", "CA", -DAY, DAY);

    write_certificate("middle.pem", &middle);
    put_certificate(&middle, "below", "DNS:localhost");
    free_certificate(&middle);
    expect("below", "localhost", "middle.pem", AS_TLS_CAUSE_OTHER, NULL);
    expect("below", "localhost", "authority.pem", AS_TLS_CAUSE_UNTRUSTED,
           "unable to get local issuer certificate");
}

static void the_system_does_not_trust_it(void **state AS_UNUSED)
{
    serve("local", NULL);
    assert_false(agrees(&(struct as_tls_client_conf){.host = "localhost"}));
    assert_int_equal(as_tls_cause(pair.client), AS_TLS_CAUSE_UNTRUSTED);
    end();
}

static void one_protocol_is_offered(void **state AS_UNUSED)
{
    for (int http1 = 0; http1 < 2; http1++) {
        serve("local", NULL);
        assert_true(agrees(&(struct as_tls_client_conf){
            .host = "localhost", .ca = file_in_folder("authority.pem"), .http1 = http1}));
        assert_true(as_str_eq(as_tls_alpn(pair.client), as_str_of(http1 ? "http/1.1" : "h2")));
        assert_true(as_str_eq(as_tls_alpn(pair.server), as_str_of(http1 ? "http/1.1" : "h2")));
        end();
    }
}

static void a_name_is_told_and_no_address(void **state AS_UNUSED)
{
    static const struct {
        const char *host, *told;
    } rows[] = {{"localhost", "localhost"}, {"127.0.0.1", NULL}, {"::1", NULL}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        const char *told;

        serve("local", NULL);
        assert_true(agrees(&(struct as_tls_client_conf){.host = rows[i].host,
                                                        .ca = file_in_folder("authority.pem")}));
        told = SSL_get_servername(pair.server_ssl, TLSEXT_NAMETYPE_host_name);
        if (rows[i].told)
            assert_string_equal(told, rows[i].told);
        else
            assert_null(told);
        end();
    }
}

/* One certificate, whose key is in the file of its own or in that of the certificate. */
static void mutual(void **state AS_UNUSED)
{
    FILE *f = create_file("both.pem");
    char line[256];

    for (int i = 0; i < 2; i++) {
        FILE *part = fopen(file_in_folder(i ? "me.key" : "me.pem"), "r");

        while (fgets(line, sizeof(line), part))
            fputs(line, f);
        fclose(part);
    }
    fclose(f);
    for (int i = 0; i < 2; i++) {
        struct as_tls_client_conf conf = {.host = "localhost",
                                          .ca = file_in_folder("authority.pem"),
                                          .cert = file_in_folder(i ? "both.pem" : "me.pem"),
                                          .key = i ? NULL : file_in_folder("me.key")};

        serve("local", file_in_folder("authority.pem"));
        assert_true(agrees(&conf));
        end();
    }
}

/* With TLS 1.3 the client has ended its handshake when the server refuses it: a read tells. */
static void a_certificate_that_is_missing_or_refused(void **state AS_UNUSED)
{
    uint8_t byte;

    for (int i = 0; i < 2; i++) {
        const char *ca = i ? "stranger.pem" : "authority.pem";
        struct as_tls_client_conf conf = {.host = "localhost",
                                          .ca = file_in_folder("authority.pem"),
                                          .cert = i ? file_in_folder("me.pem") : NULL,
                                          .key = i ? file_in_folder("me.key") : NULL};

        serve("local", file_in_folder(ca));
        assert_false(agrees(&conf));
        assert_int_equal(pair.server_rc, AS_EINVALID);
        assert_string_equal(as_tls_failure(pair.server),
                            i ? "unable to get local issuer certificate"
                              : "peer did not return a certificate");
        assert_int_equal(as_tls_cause(pair.server),
                         i ? AS_TLS_CAUSE_UNTRUSTED : AS_TLS_CAUSE_OTHER);
        assert_int_equal(pair.client_rc, 0);
        assert_int_equal(as_tls_read(pair.client, &byte, 1), AS_EIO);
        assert_int_equal(as_tls_cause(pair.client),
                         i ? AS_TLS_CAUSE_OTHER : AS_TLS_CAUSE_CERTIFICATE_REQUIRED);
        assert_string_equal(as_tls_failure(pair.client),
                            i ? "tlsv1 alert unknown ca" : "tlsv13 alert certificate required");
        end();
    }
}

static void files_that_cannot_be_used(void **state AS_UNUSED)
{
    static const struct {
        const char *ca, *cert, *key, *text;
    } rows[] = {
        {"missing.pem", NULL, NULL, "missing.pem: No such file or directory"},
        {"text.pem", NULL, NULL, "text.pem holds no certificates of authorities in PEM"},
        {"authority.pem", "text.pem", NULL, "text.pem holds no certificate in PEM"},
        {"authority.pem", "me.pem", NULL, "me.pem holds no private key in PEM"},
        {"authority.pem", "me.pem", "local.key", "local.key does not belong to the certificate"},
        {"authority.pem", "old.pem", "old.key", "old.pem: the certificate has expired"},
    };

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_tls_client_conf conf = {.host = "localhost",
                                          .ca = file_in_folder(rows[i].ca),
                                          .cert =
                                              rows[i].cert ? file_in_folder(rows[i].cert) : NULL,
                                          .key = rows[i].key ? file_in_folder(rows[i].key) : NULL};

        err.n = 0;
        assert_int_equal(as_tls_client_new(&client, &conf, &err), AS_EINVALID);
        if (!memmem(err.p, err.n, rows[i].text, strlen(rows[i].text)))
            fail_msg("'%.*s' has no '%s'", AS_STR_FMT(as_buf_slice(&err)), rows[i].text);
    }
    as_tls_client_free(NULL);
}

static void a_session_outlives_its_client(void **state AS_UNUSED)
{
    uint8_t byte;

    serve("local", NULL);
    assert_true(agrees(
        &(struct as_tls_client_conf){.host = "localhost", .ca = file_in_folder("authority.pem")}));
    as_tls_client_free(client);
    client = NULL;
    assert_int_equal(as_tls_read(pair.client, &byte, 1), AS_EAGAIN);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_addresses),
        cmocka_unit_test(chains),
        cmocka_unit_test(an_intermediate_authority_is_enough),
        cmocka_unit_test(the_system_does_not_trust_it),
        cmocka_unit_test(one_protocol_is_offered),
        cmocka_unit_test(a_name_is_told_and_no_address),
        cmocka_unit_test(mutual),
        cmocka_unit_test(a_certificate_that_is_missing_or_refused),
        cmocka_unit_test(files_that_cannot_be_used),
        cmocka_unit_test(a_session_outlives_its_client),
    };

    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
