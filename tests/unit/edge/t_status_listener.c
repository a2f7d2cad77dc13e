/* Specification of as_status_listener_parse: which requests are accepted, and the status of the
 * others. */
#include "edge/admin/status_listener.h"

#include "unit.h"

#include <string.h>

static int parse(const char *head, bool tcp, struct as_str *target)
{
    *target = (struct as_str){0};
    return as_status_listener_parse(as_str_of(head), tcp, target);
}

static void a_get_gives_its_target(void **state AS_UNUSED)
{
    struct as_str t;

    assert_int_equal(parse("GET /metrics HTTP/1.1\r\nHost: localhost:8002", true, &t), 0);
    assert_true(as_str_eq(t, AS_STR("/metrics")));
    assert_int_equal(parse("GET /status?format=text HTTP/1.0\r\nAccept: */*", false, &t), 0);
    assert_true(as_str_eq(t, AS_STR("/status?format=text")));
}

static void host_must_name_this_machine_over_tcp(void **state AS_UNUSED)
{
    static const struct {
        const char *head;
        int status;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1", 0},
        {"GET / HTTP/1.1\r\nhOST:\t[::1]:8002", 0},
        {"GET / HTTP/1.1\r\nHost: LOCALHOST", 0},
        {"GET / HTTP/1.1\r\nHost: localhost.evil.example", 403},
        {"GET / HTTP/1.1\r\nHost: evil.example", 403},
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example", 403},
        {"GET / HTTP/1.1\r\nHost:", 403},
        {"GET / HTTP/1.1\r\nAccept: a", 400},
        {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost", 400},
    };
    struct as_str t;

    for (size_t i = 0; i < AS_COUNT(rows); i++)
        assert_int_equal(parse(rows[i].head, true, &t), rows[i].status);
    assert_int_equal(parse("GET / HTTP/1.1\r\nHost: evil.example", false, &t), 0);
}

static void anything_else_is_refused(void **state AS_UNUSED)
{
    static const struct {
        const char *head;
        int status;
    } rows[] = {
        {"", 400},
        {"GET", 400},
        {"GET /", 400},
        {"GET / HTTP/2.0", 400},
        {"GET / HTTP/1.1 ", 400},
        {"GET  / HTTP/1.1", 400},
        {"GET http://localhost/ HTTP/1.1", 400},
        {"POST / HTTP/1.1", 405},
        {"HEAD / HTTP/1.1", 405},
        {"GET / HTTP/1.1\r\nno colon", 400},
        {"GET / HTTP/1.1\r\n: empty name", 400},
        {"GET / HTTP/1.1\r\nA: b\r\n folded", 400},
    };
    struct as_str t;

    for (size_t i = 0; i < AS_COUNT(rows); i++)
        assert_int_equal(parse(rows[i].head, false, &t), rows[i].status);
}

/* Every prefix of a valid request is parsed without reading beyond its end. */
static void cut_heads_are_safe(void **state AS_UNUSED)
{
    static const char head[] = "GET /status HTTP/1.1\r\nHost: localhost:8002\r\nAccept: */*";

    for (size_t n = 0; n < sizeof(head); n++) {
        char *exact = malloc(n ? n : 1);
        struct as_str t;

        memcpy(exact, head, n);
        (void)as_status_listener_parse((struct as_str){exact, n}, true, &t);
        free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_gives_its_target),
        cmocka_unit_test(host_must_name_this_machine_over_tcp),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(cut_heads_are_safe),
    };

    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
