/* Specification of edge/exchange/cors: which answers get which fields, and what a preflight is. */
#include "edge/exchange/cors.h"

#include "edge/edge_internal.h"
#include "unit.h"

#define LISTED "https://app.example:8443"

static struct as_edge edge;

static int make_edge(void **state AS_UNUSED)
{
    edge = (struct as_edge){.conf = {.interface = AS_INTERFACE_CLIENTS,
                                     .cors_origins = "http://localhost:3000," LISTED,
                                     .cors_max_age = 600 * AS_SEC}};
    return 0;
}

static struct as_http_head head_of(const char *method, const struct as_http_header *rest,
                                   uint32_t n)
{
    return (struct as_http_head){
        .method = as_str_of(method), .path = AS_STR("/v2"), .rest = rest, .n_rest = n};
}

#define HEAD(method, ...)                                                                          \
    head_of(method, (const struct as_http_header[]){__VA_ARGS__},                                  \
            AS_COUNT(((const struct as_http_header[]){__VA_ARGS__})))
#define ORIGIN(value)                                                                              \
    {                                                                                              \
        {"origin", 6},                                                                             \
        {                                                                                          \
            value, sizeof(value) - 1                                                               \
        }                                                                                          \
    }
#define METHOD(value)                                                                              \
    {                                                                                              \
        {"access-control-request-method", 29},                                                     \
        {                                                                                          \
            value, sizeof(value) - 1                                                               \
        }                                                                                          \
    }
#define HEADERS(value)                                                                             \
    {                                                                                              \
        {"access-control-request-headers", 30},                                                    \
        {                                                                                          \
            value, sizeof(value) - 1                                                               \
        }                                                                                          \
    }

/* The value of the field, which is there once at most; NULL: it is not there. */
static const char *value_of(const struct as_http_header *fields, uint32_t n, const char *name)
{
    static char text[256];
    const char *found = NULL;

    for (uint32_t i = 0; i < n; i++) {
        if (as_str_eq(fields[i].name, as_str_of(name))) {
            assert_null(found);
            snprintf(text, sizeof(text), "%.*s", AS_STR_FMT(fields[i].value));
            found = text;
        }
    }
    return found;
}

static uint32_t put(struct as_http_head head, struct as_http_header fields[AS_CORS_FIELDS])
{
    uint32_t n = 0;

    as_cors_put(&edge, &head, fields, &n);
    assert_true(n <= AS_CORS_FIELDS);
    return n;
}

static void an_answer_names_the_origin_that_is_listed(void **state AS_UNUSED)
{
    struct as_http_header f[AS_CORS_FIELDS];
    uint32_t n = put(HEAD("GET", ORIGIN(LISTED)), f);

    assert_int_equal(n, 3);
    assert_string_equal(value_of(f, n, "access-control-allow-origin"), LISTED);
    assert_string_equal(value_of(f, n, "access-control-expose-headers"), "*");
    assert_string_equal(value_of(f, n, "vary"), "origin");
    assert_null(value_of(f, n, "access-control-allow-credentials"));
}

static void other_origins_get_none(void **state AS_UNUSED)
{
    static const struct as_http_header others[] = {ORIGIN("https://app.example"),
                                                   ORIGIN("http://app.example:8443"),
                                                   ORIGIN("null"),
                                                   ORIGIN("*"),
                                                   ORIGIN(LISTED "0"),
                                                   ORIGIN(LISTED "/"),
                                                   ORIGIN("http://localhost:3000," LISTED),
                                                   ORIGIN("")};
    struct as_http_header f[AS_CORS_FIELDS];

    for (size_t i = 0; i < AS_COUNT(others); i++) {
        assert_int_equal(put(head_of("GET", &others[i], 1), f), 1);
        assert_string_equal(value_of(f, 1, "vary"), "origin");
    }
    assert_int_equal(put(HEAD("GET", ORIGIN(LISTED), ORIGIN(LISTED)), f), 1);
    assert_int_equal(put(head_of("GET", NULL, 0), f), 1); /* a cache keeps it apart */
}

static void without_the_option_nothing_is_added(void **state AS_UNUSED)
{
    struct as_http_header f[AS_CORS_FIELDS];
    struct as_http_head head = HEAD("OPTIONS", ORIGIN(LISTED), METHOD("PUT"));

    for (int i = 0; i < 3; i++) {
        edge.conf.cors_origins = i == 0 ? "" : i == 1 ? NULL : LISTED;
        edge.conf.interface = i == 2 ? AS_INTERFACE_CONTROL : AS_INTERFACE_CLIENTS;
        assert_int_equal(put(head, f), 0);
        assert_false(as_cors_is_preflight(&edge, &head));
        assert_false(as_cors_may_be_page(&edge, &head));
    }
}

static void a_preflight_grants_what_is_asked_for(void **state AS_UNUSED)
{
    struct as_http_header p[AS_CORS_PREFLIGHT];
    struct as_http_head head = HEAD("OPTIONS", ORIGIN("http://localhost:3000"), METHOD("DELETE"),
                                    HEADERS("content-type, x-tenant,x-b"));
    char text[AS_CORS_TEXT];
    uint32_t n;

    assert_true(as_cors_is_preflight(&edge, &head));
    n = as_cors_put_preflight(&edge, &head, p, text);
    assert_int_equal(n, 3);
    assert_string_equal(value_of(p, n, "access-control-allow-methods"),
                        "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    assert_string_equal(value_of(p, n, "access-control-allow-headers"),
                        "content-type, x-tenant,x-b");
    assert_string_equal(value_of(p, n, "access-control-max-age"), "600");
}

static void names_that_are_none_are_not_granted(void **state AS_UNUSED)
{
    static const struct as_http_header wrong[] = {HEADERS("a,"),    HEADERS(",a"),  HEADERS("a,,b"),
                                                  HEADERS("a b"),   HEADERS("a:b"), HEADERS(","),
                                                  HEADERS("a\x01"), HEADERS("")};
    struct as_http_header p[AS_CORS_PREFLIGHT], rest[3] = {ORIGIN(LISTED), METHOD("GET")};
    char text[AS_CORS_TEXT];
    uint32_t n;

    for (size_t i = 0; i < AS_COUNT(wrong); i++) {
        struct as_http_head head = head_of("OPTIONS", rest, 3);

        rest[2] = wrong[i];
        assert_true(as_cors_is_preflight(&edge, &head));
        n = as_cors_put_preflight(&edge, &head, p, text);
        assert_null(value_of(p, n, "access-control-allow-headers"));
    }
}

static void other_requests_are_no_preflight(void **state AS_UNUSED)
{
    const struct as_http_head heads[] = {
        HEAD("GET", ORIGIN(LISTED), METHOD("GET")), HEAD("OPTIONS", ORIGIN(LISTED)),
        HEAD("OPTIONS", METHOD("GET")), HEAD("OPTIONS", ORIGIN("https://b.example"), METHOD("GET")),
        HEAD("OPTIONS", ORIGIN(LISTED), METHOD(""))};

    for (size_t i = 0; i < AS_COUNT(heads); i++)
        assert_false(as_cors_is_preflight(&edge, &heads[i]));
}

static void the_longest_age_fits(void **state AS_UNUSED)
{
    struct as_http_header p[AS_CORS_PREFLIGHT];
    struct as_http_head head = HEAD("OPTIONS", ORIGIN(LISTED), METHOD("GET"));
    char text[AS_CORS_TEXT];
    uint32_t n;

    edge.conf.cors_max_age = AS_NEVER;
    assert_true(as_cors_is_preflight(&edge, &head));
    n = as_cors_put_preflight(&edge, &head, p, text);
    assert_string_equal(value_of(p, n, "access-control-max-age"), "18446744073");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_answer_names_the_origin_that_is_listed, make_edge),
        cmocka_unit_test_setup(other_origins_get_none, make_edge),
        cmocka_unit_test_setup(without_the_option_nothing_is_added, make_edge),
        cmocka_unit_test_setup(a_preflight_grants_what_is_asked_for, make_edge),
        cmocka_unit_test_setup(names_that_are_none_are_not_granted, make_edge),
        cmocka_unit_test_setup(other_requests_are_no_preflight, make_edge),
        cmocka_unit_test_setup(the_longest_age_fits, make_edge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
