/* Specification of app/options/tls_conf: pairs of certificates and keys, and what --listen says. */
#include "app/options/tls_conf.h"

#include "base/err.h"
#include "unit.h"

static struct as_option_set o;
static struct as_tls_conf conf;
static struct as_buf err;

static int tear_down(void **state AS_UNUSED)
{
    as_buf_fini(&err);
    return 0;
}

/* n times this argument, which the options point to. */
static int parse(char *argument, uint32_t n)
{
    char *argv[AS_OPTION_ITEMS_MAX + 2];

    for (uint32_t i = 0; i < n; i++)
        argv[i] = argument;
    argv[n] = NULL;
    as_option_init(&o, AS_SCOPE_RUN);
    return as_option_parse(&o, (int)n, argv, &err);
}

static void as_many_certificates_as_options_may_be(void **state AS_UNUSED)
{
    char argument[] = "--tls-cert=x.pem";

    assert_true(parse(argument, AS_OPTION_ITEMS_MAX) >= 0);
    assert_int_equal(as_tls_conf_read(&conf, &o, &err), 0);
    assert_int_equal(conf.server.n, AS_OPTION_ITEMS_MAX);
    for (uint32_t i = 0; i < conf.server.n; i++) {
        assert_string_equal(conf.server.certs[i], "x.pem");
        assert_string_equal(conf.server.keys[i], "x.pem");
    }
    assert_true(parse(argument, AS_OPTION_ITEMS_MAX + 1) < 0);
}

/* What lies behind the array of keys is not touched. */
static void as_many_keys_as_options_may_be(void **state AS_UNUSED)
{
    static const char *const before[] = {"before"};
    char argument[] = "--tls-key=x.pem";

    conf.server = (struct as_tls_server_conf){.certs = before};
    assert_true(parse(argument, AS_OPTION_ITEMS_MAX) >= 0);
    assert_int_equal(as_tls_conf_read(&conf, &o, &err), AS_EINVALID);
    assert_string_equal(as_buf_cstr(&err), "--tls-key needs a certificate: --tls-cert FILE");
    assert_ptr_equal(conf.server.certs, before);
}

static void places_to_listen_at(void **state AS_UNUSED)
{
    static const struct {
        const char *text, *host, *path;
        uint16_t port;
        bool tls;
    } rows[] = {{"0.0.0.0:8443,tls", "0.0.0.0", "", 8443, true},
                {"[::1]:0", "::1", "", 0, false},
                {"9000", "here", "", 9000, false},
                {"9000,tls", "here", "", 9000, true},
                {"unix:/run/x.sock", "", "/run/x.sock", 0, false},
                {"unix:/run/x.sock,tls", "", "/run/x.sock", 0, true},
                {"unix:/run/a,b,tls", "", "/run/a,b", 0, true}};
    struct as_listen_spec s;

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        assert_int_equal(as_listen_spec_parse(&s, rows[i].text, "here", &err), 0);
        assert_string_equal(s.host, rows[i].host);
        assert_string_equal(s.path, rows[i].path);
        assert_int_equal(s.port, rows[i].port);
        assert_int_equal(s.tls, rows[i].tls);
    }
}

static void places_that_are_none(void **state AS_UNUSED)
{
    static const struct {
        const char *text, *why;
    } rows[] = {{"127.0.0.1", "is not ADDRESS:PORT, PORT or unix:PATH"},
                {"", "is not ADDRESS:PORT, PORT or unix:PATH"},
                {"65536", "is not ADDRESS:PORT, PORT or unix:PATH"},
                {"127.0.0.1:1,ssl", "',ssl' is not ',tls'"},
                {"127.0.0.1:1,", "',' is not ',tls'"},
                {"unix:/run/a,b", "',b' is not ',tls'"},
                {"unix:x", "the path of a unix socket is absolute"}};
    struct as_listen_spec s;

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        err.n = 0;
        assert_int_equal(as_listen_spec_parse(&s, rows[i].text, "here", &err), AS_EINVALID);
        assert_non_null(strstr(as_buf_cstr(&err), rows[i].why));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(as_many_certificates_as_options_may_be, tear_down),
        cmocka_unit_test_teardown(as_many_keys_as_options_may_be, tear_down),
        cmocka_unit_test_teardown(places_to_listen_at, tear_down),
        cmocka_unit_test_teardown(places_that_are_none, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
