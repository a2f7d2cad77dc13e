/* Specification of app/options/conf: which option sets which field of which configuration. Every
 * option has a different value here, so that a field with the wrong option is noticed. */
#include "app/options/conf.h"

#include "conf/spec/spec.h"
#include "unit.h"

static struct as_option_set o;

/* Beyond most bounds, which only the parser checks (t_option). */
static int64_t value_of(enum as_option_id id)
{
    return 100000 + 10 * (int64_t)id;
}

static int setup(void **state AS_UNUSED)
{
    as_option_init(&o, AS_SCOPE_DISPATCHER);
    for (int id = 0; id < AS_OPT_COUNT; id++)
        o.v[id].i = value_of((enum as_option_id)id);
    o.v[AS_OPT_THREADS].i = 1;
    o.v[AS_OPT_DEBUG].i = 0;
    return 0;
}

#define FROM(field, OPTION) assert_int_equal(field, value_of(AS_OPT_##OPTION))

static void fleet_fields_come_from_their_options(void **state AS_UNUSED)
{
    struct as_fleet_conf c = as_conf_fleet(&o), other = as_conf_fleet(&o);

    FROM(c.deployment.max_queued, MAX_QUEUED_REQUESTS);
    FROM(c.max_prefetch, MAX_PREFETCH);
    FROM(c.deployment.prefetch_work, PREFETCH_WORK);
    FROM(c.ping_interval, PING_INTERVAL);
    FROM(c.ping_timeout, PING_TIMEOUT);
    FROM(c.handshake_timeout, HANDSHAKE_TIMEOUT);
    FROM(c.health_period, HEALTH_CHECK_PERIOD);
    FROM(c.health_timeout, HEALTH_CHECK_TIMEOUT);
    FROM(c.health_failures, HEALTH_CHECK_FAILURES);
    FROM(c.execution_timeout, EXECUTION_TIMEOUT);
    FROM(c.request_timeout, REQUEST_TIMEOUT);
    FROM(c.grace, WORKER_GRACE);
    FROM(c.heartbeat_timeout, WORKER_HEARTBEAT_TIMEOUT);
    FROM(c.simple_idle, SIMPLE_IDLE_TIMEOUT);
    FROM(c.simple_connect, SIMPLE_CONNECT_TIMEOUT);
    FROM(c.max_message, MAX_MESSAGE_BYTES);
    FROM(c.parts.messages, STREAM_CREDIT);
    FROM(c.parts.bytes, STREAM_CREDIT_BYTES);
    FROM(c.deployment.retry.attempts, RETRY_ATTEMPTS);
    FROM(c.deployment.retry.percent, RETRY_BUDGET);
    FROM(c.deployment.retry.least, RETRY_BUDGET_MIN);
    FROM(c.deployment.blame.max, MAX_SUSPECTS);
    FROM(c.deployment.blame.ttl, QUARANTINE);
    FROM(c.deployment.breaker.failures, BREAKER_FAILURES);
    FROM(c.deployment.breaker.probes, BREAKER_PROBES);
    FROM(c.deployment.breaker.open, BREAKER_OPEN);
    FROM(c.deployment.breaker.open_max, BREAKER_OPEN_MAX);
    FROM(c.deployment.outlier.factor, OUTLIER_FACTOR);
    FROM(c.deployment.outlier.least, OUTLIER_LEAST);
    FROM(c.deployment.outlier.percent, MAX_EJECTED);
    FROM(c.deployment.verdict_wait, VERDICT_WAIT);
    FROM(c.deployment.reserve_time, RESERVE_TIME);
    FROM(c.deployment.repeat_verdict_wait, VERDICT_PATIENCE);
    FROM(c.deployment.quarantine.time, TRIAL_TIME);
    FROM(c.deployment.quarantine.wait, SUSPECT_WAIT);
    assert_true(c.deployment.seed != other.deployment.seed);
}

static void without_worker_heartbeat_there_is_no_heartbeat_timeout(void **state AS_UNUSED)
{
    o.v[AS_OPT_WORKER_HEARTBEAT].i = 0;
    assert_int_equal(as_conf_fleet(&o).heartbeat_timeout, 0);
}

static void max_body_covers_every_accepted_request(void **state AS_UNUSED)
{
    static const enum as_option_id ways[] = {AS_OPT_MAX_MESSAGE_BYTES, AS_OPT_MAX_HTTP_BODY_BYTES,
                                             AS_OPT_MAX_INFLATED_BYTES};

    for (size_t i = 0; i < AS_COUNT(ways); i++) {
        o.v[ways[i]].i = (int64_t)1 << 30;
        assert_true(as_conf_fleet(&o).max_body >= (uint64_t)1 << 30);
        o.v[ways[i]].i = 1;
    }
}

static void check_rate(struct as_h2_rate r, enum as_option_id burst, enum as_option_id rate)
{
    assert_int_equal(r.burst, value_of(burst));
    assert_int_equal(r.rate, value_of(rate));
}

static void edge_fields_come_from_their_options(void **state AS_UNUSED)
{
    struct as_edge_conf c = as_conf_edge(&o);

    assert_int_equal(c.interface, AS_INTERFACE_CLIENTS);
    assert_string_equal(c.host, as_option_str(&o, AS_OPT_HOST));
    assert_string_equal(c.origins, as_option_str(&o, AS_OPT_ALLOW_ORIGIN));
    FROM(c.max_tls_messages, MAX_TLS_MESSAGES);
    FROM(c.handshake_timeout, TLS_HANDSHAKE_TIMEOUT);
    FROM(c.h1.max_line, MAX_REQUEST_LINE);
    FROM(c.h1.max_header_bytes, MAX_HEADER_BYTES);
    FROM(c.h1.max_headers, MAX_HEADERS);
    FROM(c.h1.max_chunk_ext, MAX_CHUNK_EXTENSION);
    FROM(c.h1.max_unread, STREAM_WINDOW);
    FROM(c.h2.max_streams, MAX_STREAMS);
    FROM(c.h2.stream_window, STREAM_WINDOW);
    FROM(c.h2.conn_window, CONNECTION_WINDOW);
    FROM(c.h2.max_header_list, MAX_HEADER_BYTES);
    FROM(c.h2.max_headers, MAX_HEADERS);
    check_rate(c.h2.limits.resets, AS_OPT_RESET_BURST, AS_OPT_RESET_RATE);
    check_rate(c.h2.limits.faults, AS_OPT_FAULT_BURST, AS_OPT_FAULT_RATE);
    check_rate(c.h2.limits.control, AS_OPT_CONTROL_BURST, AS_OPT_CONTROL_RATE);
    check_rate(c.h2.limits.empty, AS_OPT_EMPTY_BURST, AS_OPT_EMPTY_RATE);
    check_rate(c.h2.limits.window, AS_OPT_WINDOW_UPDATE_BURST, AS_OPT_WINDOW_UPDATE_RATE);
    FROM(c.h2.limits.reset_patience, RESET_PATIENCE);
    FROM(c.h2.limits.max_continuations, MAX_CONTINUATIONS);
    FROM(c.h2.limits.max_header_block, MAX_HEADER_BLOCK);
    FROM(c.h2.limits.ping_interval, MIN_PING_INTERVAL);
    FROM(c.h2.limits.idle_ping_interval, MIN_IDLE_PING_INTERVAL);
    FROM(c.h2.limits.ping_strikes, MAX_PING_STRIKES);
    FROM(c.max_message, MAX_MESSAGE_BYTES);
    FROM(c.max_http_body, MAX_HTTP_BODY_BYTES);
    FROM(c.max_inflated, MAX_INFLATED_BYTES);
    FROM(c.stream_requests, STREAM_REQUESTS);
    FROM(c.max_connections, MAX_CONNECTIONS);
    FROM(c.max_requests, MAX_REQUESTS);
    FROM(c.compress, RESPONSE_COMPRESSION);
    FROM(c.compress_min, MIN_COMPRESS_BYTES);
    FROM(c.header_timeout, HEADER_TIMEOUT);
    FROM(c.idle_timeout, IDLE_TIMEOUT);
    FROM(c.status_port, STATUS_PORT);
    assert_string_equal(c.status_host, as_option_str(&o, AS_OPT_STATUS_HOST));
    FROM(c.goaway_grace, GOAWAY_GRACE);
    FROM(c.keepalive_time, KEEPALIVE_TIME);
    FROM(c.keepalive_timeout, KEEPALIVE_TIMEOUT);
    FROM(c.body_timeout, BODY_TIMEOUT);
    FROM(c.send_timeout, SEND_TIMEOUT);
    FROM(c.min_progress, MIN_PROGRESS);
    FROM(c.linger_timeout, LINGER_TIMEOUT);
    FROM(c.max_lingering, MAX_LINGERING);
}

static void each_loop_gets_its_share_of_a_limit(void **state AS_UNUSED)
{
    struct as_edge_conf c;

    o.v[AS_OPT_THREADS].i = 4;
    o.v[AS_OPT_MAX_CONNECTIONS].i = 4;
    o.v[AS_OPT_MAX_REQUESTS].i = 5;
    o.v[AS_OPT_MAX_LINGERING].i = 1;
    c = as_conf_edge(&o);
    assert_int_equal(c.max_connections, 1);
    assert_int_equal(c.max_requests, 2);
    assert_int_equal(c.max_lingering, 1);
}

/* Errors name the option to raise for a larger request. */
static void management_and_control_have_their_own_limits(void **state AS_UNUSED)
{
    struct as_edge_conf c = as_conf_management(&o);

    assert_int_equal(c.interface, AS_INTERFACE_MANAGEMENT);
    FROM(c.heartbeat, WORKER_HEARTBEAT);
    FROM(c.max_connections, MAX_MANAGEMENT_CONNECTIONS);
    FROM(c.max_message, MAX_MANAGEMENT_BYTES);
    FROM(c.max_http_body, MAX_MANAGEMENT_BYTES);
    FROM(c.max_inflated, MAX_MANAGEMENT_BYTES);
    assert_string_equal(c.body_option, "--max-management-bytes");
    c = as_conf_control(&o);
    assert_int_equal(c.interface, AS_INTERFACE_CONTROL);
    FROM(c.max_connections, MAX_CONTROL_CONNECTIONS);
    FROM(c.max_requests, MAX_CONTROL_CONNECTIONS);
    FROM(c.max_http_body, MAX_SPEC_BYTES);
    FROM(c.max_inflated, MAX_SPEC_BYTES);
    assert_string_equal(c.body_option, "--max-spec-bytes");
    assert_string_equal(c.inflated_option, "--max-spec-bytes");
    FROM(c.max_pickle, MAX_PICKLE_BYTES);
    assert_string_equal(c.pickle_option, "--max-pickle-bytes");
    FROM(c.header_timeout, HEADER_TIMEOUT); /* the rest is the same as for clients */
}

/* A server whose clients have no room, or whose limits are too low for them, still answers. */
static void the_status_page_has_no_limit_of_clients(void **state AS_UNUSED)
{
    struct as_edge_conf c;
    struct as_edge_budgets b = as_conf_status_budgets();

    o.v[AS_OPT_MAX_CONNECTIONS].i = o.v[AS_OPT_MAX_REQUESTS].i = o.v[AS_OPT_MAX_HEADERS].i = 1;
    o.v[AS_OPT_MAX_HEADER_BYTES].i = o.v[AS_OPT_MAX_REQUEST_LINE].i = 1;
    o.v[AS_OPT_HEADER_TIMEOUT].i = o.v[AS_OPT_SEND_TIMEOUT].i = 1;
    c = as_conf_status(&o);
    assert_int_equal(c.interface, AS_INTERFACE_STATUS);
    assert_true(c.max_connections >= 64 && c.max_requests >= 64);
    assert_true(c.h1.max_headers >= 64 && c.h2.max_headers >= 64);
    assert_true(c.h1.max_line >= 8192 && c.h1.max_header_bytes >= 8192);
    assert_true(c.header_timeout >= AS_SEC && c.send_timeout >= AS_SEC);
    assert_true(b.requests.limit && b.answers.limit);
}

static void debug_turns_pings_off(void **state AS_UNUSED)
{
    struct as_fleet_conf c;

    o.v[AS_OPT_DEBUG].i = 1;
    c = as_conf_fleet(&o);
    assert_true(c.ping_interval == AS_CONF_DEBUGGING);
    assert_true(c.ping_timeout == AS_CONF_DEBUGGING);
    o.v[AS_OPT_DEBUG].i = 0;
}

static void budgets_and_shm_come_from_their_options(void **state AS_UNUSED)
{
    struct as_shm_conf shm = as_conf_shm(&o);
    struct as_spec_limits l;

    FROM(shm.max_regions, MAX_SHM_REGIONS);
    FROM(shm.max_bytes, MAX_SHM_BYTES);
    assert_string_equal(shm.prefix, as_option_str(&o, AS_OPT_CLIENT_SHM_PREFIX));
    as_spec_limits_from_options(&l, &o);
    FROM(l.bytes, MAX_SPEC_BYTES);
    FROM(l.depth, MAX_SPEC_DEPTH);
    FROM(l.applications, MAX_APPLICATIONS);
    FROM(l.deployments, MAX_DEPLOYMENTS);
    FROM(l.errors, MAX_SPEC_ERRORS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(fleet_fields_come_from_their_options, setup),
        cmocka_unit_test_setup(without_worker_heartbeat_there_is_no_heartbeat_timeout, setup),
        cmocka_unit_test_setup(max_body_covers_every_accepted_request, setup),
        cmocka_unit_test_setup(edge_fields_come_from_their_options, setup),
        cmocka_unit_test_setup(each_loop_gets_its_share_of_a_limit, setup),
        cmocka_unit_test_setup(management_and_control_have_their_own_limits, setup),
        cmocka_unit_test_setup(the_status_page_has_no_limit_of_clients, setup),
        cmocka_unit_test_setup(debug_turns_pings_off, setup),
        cmocka_unit_test_setup(budgets_and_shm_come_from_their_options, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
