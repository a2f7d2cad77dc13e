/* The key `request_router_config`: what it becomes, and what is wrong with it. */
#include "spec_case.h"

#include "conf/spec/keys/spec_router.h"

static struct as_frame_router read_router(const char *json)
{
    struct as_frame_router r;
    struct as_buf why = {0};
    int err = as_spec_read_router(json, &r, &why);

    if (err)
        fail_msg("%s", as_buf_cstr(&why));
    as_buf_fini(&why);
    return r;
}

static void assert_wrong(const char *json, const char *want)
{
    struct as_frame_router r;
    struct as_buf why = {0};

    assert_int_equal(as_spec_read_router(json, &r, &why), AS_EINVALID);
    assert_string_equal(as_buf_cstr(&why), want);
    as_buf_fini(&why);
}

#define CLASS(name)   "{\"request_router_class\":\"" name "\"}"
#define KWARGS(kwarg) "{\"request_router_kwargs\":{" kwarg "}}"

static void a_class_is_a_policy_or_the_programs(void **state AS_UNUSED)
{
    struct as_frame_router r;

    assert_string_equal(read_router(CLASS("consistent_hash")).policy, "consistent_hash");
    r = read_router(CLASS("ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"));
    assert_true(as_frame_router_is_empty(&r));
    r = read_router("{\"request_router_class\":\"my.module:Router\","
                    "\"request_router_kwargs\":{\"anything\":[1]},\"max_backoff_s\":2}");
    assert_string_equal(r.policy, "");
    assert_int_equal(r.has, 1u << AS_FRAME_ROUTER_ASK_MAX);
    r = read_router("{}");
    assert_true(as_frame_router_is_empty(&r));
    assert_wrong(CLASS("round_robbin"),
                 "request_router_class: 'round_robbin' is no built-in router; did you mean "
                 "round_robin? There are late_binding, least_ongoing, pow_2, round_robin, "
                 "consistent_hash, session, and classes of yours as `module:Class`");
    r = read_router(CLASS(""));
    assert_true(as_frame_router_is_empty(&r));
    assert_wrong(CLASS("zzzzzzzz"),
                 "request_router_class: 'zzzzzzzz' is no built-in router. There are late_binding, "
                 "least_ongoing, pow_2, round_robin, consistent_hash, session, and classes of "
                 "yours as `module:Class`");
    assert_wrong(CLASS("ray.serve._private.request_router:Other"),
                 "request_router_class: 'ray.serve._private.request_router:Other' is no built-in "
                 "router. There are late_binding, least_ongoing, pow_2, round_robin, "
                 "consistent_hash, session, and classes of yours as `module:Class`");
    assert_wrong("{\"request_router_class\":3}", "request_router_class: it is not a text");
}

static void arguments_become_values(void **state AS_UNUSED)
{
    struct as_frame_router r =
        read_router("{\"backoff_multiplier\":1.5,\"initial_backoff_s\":0.05,\"max_backoff_s\":1,"
                    "\"request_router_class\":\"session\",\"request_router_kwargs\":{"
                    "\"bound\":1.25,\"fallbacks\":0,\"max_sessions\":10,\"max_wait_s\":0.25,"
                    "\"prefer_local\":true,\"session_header\":\"X_User\",\"session_ttl_s\":60,"
                    "\"virtual_nodes\":7}}");

    assert_string_equal(r.policy, "session");
    assert_string_equal(r.session_header, "x-user");
    assert_int_equal(r.has, (1u << AS_FRAME_ROUTER_END) - 2);
    assert_int_equal(r.value[AS_FRAME_ROUTER_MAX_WAIT], 250 * AS_MS);
    assert_int_equal(r.value[AS_FRAME_ROUTER_VIRTUAL_NODES], 7);
    assert_int_equal(r.value[AS_FRAME_ROUTER_FALLBACKS], 0);
    assert_int_equal(r.value[AS_FRAME_ROUTER_BOUND], 125);
    assert_int_equal(r.value[AS_FRAME_ROUTER_SESSION_TTL], 60 * AS_SEC);
    assert_int_equal(r.value[AS_FRAME_ROUTER_MAX_SESSIONS], 10);
    assert_int_equal(r.value[AS_FRAME_ROUTER_PREFER_LOCAL], 1);
    assert_int_equal(r.value[AS_FRAME_ROUTER_ASK_FIRST], 50 * AS_MS);
    assert_int_equal(r.value[AS_FRAME_ROUTER_ASK_FACTOR], 150);
    assert_int_equal(r.value[AS_FRAME_ROUTER_ASK_MAX], AS_SEC);
}

static void values_out_of_range_are_named(void **state AS_UNUSED)
{
    static const struct {
        const char *good, *bad, *why;
    } cases[] = {
        {"\"max_wait_s\":3600", "\"max_wait_s\":3600.1",
         "max_wait_s: '3600.1' is not a number of seconds from 0 to 3600"},
        {"\"max_wait_s\":0", "\"max_wait_s\":-1",
         "max_wait_s: '-1' is not a number of seconds from 0 to 3600"},
        {"\"virtual_nodes\":1000", "\"virtual_nodes\":1001",
         "virtual_nodes: '1001' is not a whole number from 1 to 1000"},
        {"\"virtual_nodes\":1", "\"virtual_nodes\":0",
         "virtual_nodes: '0' is not a whole number from 1 to 1000"},
        {"\"fallbacks\":7", "\"fallbacks\":8", "fallbacks: '8' is not a whole number from 0 to 7"},
        {"\"fallbacks\":0", "\"fallbacks\":1.5",
         "fallbacks: '1.5' is not a whole number from 0 to 7"},
        {"\"bound\":100", "\"bound\":100.1", "bound: '100.1' is not a number from 1 to 100"},
        {"\"bound\":1", "\"bound\":0.99", "bound: '0.99' is not a number from 1 to 100"},
        {"\"session_ttl_s\":31536000", "\"session_ttl_s\":31536001",
         "session_ttl_s: '31536001' is not a number of seconds from 0.001 to 31536000"},
        {"\"session_ttl_s\":0.001", "\"session_ttl_s\":0",
         "session_ttl_s: '0' is not a number of seconds from 0.001 to 31536000"},
        {"\"max_sessions\":1000000", "\"max_sessions\":1000001",
         "max_sessions: '1000001' is not a whole number from 1 to 1000000"},
        {"\"session_header\":\"a\"", "\"session_header\":\"a b\"",
         "session_header: 'a b' is not a name of up to 64 letters, digits, '-' and '_'"},
        {"\"session_header\":\"a\"", "\"session_header\":null",
         "session_header: 'null' is not a name of up to 64 letters, digits, '-' and '_'"},
        {"\"prefer_local\":false", "\"prefer_local\":1", "prefer_local: '1' is not true or false"},
        {"\"bound\":1", "\"bound\":[1]", "bound: a list is not a number from 1 to 100"},
        {"\"bound\":1", "\"bound\":\"1\"", "bound: '1' is not a number from 1 to 100"},
    };
    char json[200], why[300];

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        snprintf(json, sizeof(json), KWARGS("%s"), cases[i].good);
        (void)read_router(json);
        snprintf(json, sizeof(json), KWARGS("%s"), cases[i].bad);
        snprintf(why, sizeof(why), "request_router_kwargs: %s", cases[i].why);
        assert_wrong(json, why);
    }
    assert_wrong("{\"initial_backoff_s\":0}",
                 "initial_backoff_s: '0' is not a number of seconds from 0.001 to 3600");
    assert_wrong("{\"backoff_multiplier\":0.5}",
                 "backoff_multiplier: '0.5' is not a number from 1 to 100");
    (void)read_router("{\"request_routing_stats_period_s\":86400}");
    assert_wrong(
        "{\"request_routing_stats_period_s\":86401}",
        "request_routing_stats_period_s: '86401' is not a number of seconds above 0, up to "
        "86400");
    assert_wrong("{\"request_routing_stats_period_s\":-5}",
                 "request_routing_stats_period_s: '-5' is not a number of seconds above 0, up to "
                 "86400");
    assert_wrong("{\"request_routing_stats_timeout_s\":\"x\"}",
                 "request_routing_stats_timeout_s: 'x' is not a number of seconds above 0, up to "
                 "86400");
    assert_wrong(KWARGS("\"max_wait\":1"),
                 "request_router_kwargs: 'max_wait' is no argument of a built-in router; did you "
                 "mean max_wait_s?");
    assert_wrong(KWARGS("\"zzzzzzzz\":1"),
                 "request_router_kwargs: 'zzzzzzzz' is no argument of a built-in router");
    assert_wrong("{\"request_router_kwargs\":3}", "request_router_kwargs: it is not a mapping");
}

static void files_are_refused_with_line_and_key(void **state AS_UNUSED)
{
    refused(DEPLOYMENT("request_router_config: {request_router_kwargs: {bound: 0.5}}"),
            "f:2:24: request_router_config: request_router_kwargs: bound: '0.5' is not a number "
            "from 1 to 100\n");
    as_spec_free(parse(DEPLOYMENT("request_router_config: {request_router_class: session}")));
    as_spec_free(parse(DEPLOYMENT("request_router_config: {request_router_class: a.b.C}")));
}

/* A version that only kept the configuration has stored anything. */
static void a_stored_text_is_not_refused(void **state AS_UNUSED)
{
    const struct as_str text =
        AS_STR(DEPLOYMENT("request_router_config: {request_router_class: no_such}"));
    struct as_spec_limits l = limits();
    struct as_buf err = {0};
    struct as_spec *s;

    assert_int_equal(as_spec_parse(&s, &l, "f", text, &err), AS_EINVALID);
    l.stored = true;
    assert_int_equal(as_spec_parse(&s, &l, "f", text, &err), 0);
    as_spec_free(s);
    as_buf_fini(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_is_a_policy_or_the_programs),
        cmocka_unit_test(arguments_become_values),
        cmocka_unit_test(values_out_of_range_are_named),
        cmocka_unit_test(files_are_refused_with_line_and_key),
        cmocka_unit_test(a_stored_text_is_not_refused),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);

    as_buf_fini(&err_text);
    return rc;
}
