/* Specification of tool/server/states: a table built from events, hostile ones included. */
#include "tool/server/states.h"

#include "unit.h"

static struct as_states states;
static const struct as_state *state_of_event;

static int up(void **state AS_UNUSED)
{
    as_states_init(&states);
    return 0;
}

static int down(void **state AS_UNUSED)
{
    as_states_fini(&states);
    return 0;
}

static enum as_states_result send_event(const char *json)
{
    return as_states_event(&states, as_str_of(json), &state_of_event);
}

#define APP(name, status)                                                                          \
    "{\"kind\":\"application\",\"application\":\"" name "\",\"status\":\"" status                  \
    "\",\"message\":\"\"}"
#define DEPLOYMENT(app, name, status, target)                                                      \
    "{\"kind\":\"deployment\",\"application\":\"" app "\",\"deployment\":\"" name                  \
    "\",\"status\":\"" status "\",\"message\":\"\",\"target_num_replicas\":" target "}"
#define REPLICA(app, d, name, status, message)                                                     \
    "{\"kind\":\"replica\",\"application\":\"" app "\",\"deployment\":\"" d                        \
    "\",\"replica\":\"" name "\",\"status\":\"" status "\",\"message\":\"" message                 \
    "\",\"pid\":7,\"rank\":0}"
#define SYNCED "{\"kind\":\"synced\"}"

static void check_table(uint32_t columns, uint32_t lines, const char *want)
{
    struct as_buf b;

    as_buf_init(&b);
    as_states_table(&states, columns, lines, &b);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, want);
    as_buf_fini(&b);
}

static void two_applications(void)
{
    send_event(APP("shop", "RUNNING"));
    send_event(DEPLOYMENT("shop", "rank", "HEALTHY", "2"));
    send_event(REPLICA("shop", "rank", "rank-0", "RUNNING", ""));
    send_event(APP("other", "DEPLOYING"));
    send_event(DEPLOYMENT("other", "rank", "UPDATING", "1"));
}

static void states_are_sorted_into_a_tree(void **state AS_UNUSED)
{
    two_applications();
    assert_int_equal(send_event(SYNCED), AS_STATES_SYNCED);
    assert_true(states.synced);
    assert_int_equal(send_event(REPLICA("shop", "rank", "rank-1", "STARTING", "")),
                     AS_STATES_CHANGED);
    assert_string_equal(state_of_event->replica, "rank-1");
    assert_int_equal(state_of_event->pid, 7);
    assert_int_equal(send_event(DEPLOYMENT("shop", "new", "UPDATING", "1")), AS_STATES_CHANGED);
    check_table(80, 0,
                "NAME                  STATUS          REPLICAS       PID  MESSAGE\n"
                "shop                  RUNNING\n"
                "  rank                HEALTHY              1/2\n"
                "    rank-0            RUNNING                          7\n"
                "    rank-1            STARTING                         7\n"
                "  new                 UPDATING             0/1\n"
                "other                 DEPLOYING\n"
                "  rank                UPDATING             0/1\n");
}

static void a_removed_state_is_returned(void **state AS_UNUSED)
{
    two_applications();
    assert_int_equal(
        send_event("{\"kind\":\"replica\",\"application\":\"shop\",\"deployment\":\"rank\","
                   "\"replica\":\"rank-0\",\"status\":\"GONE\"}"),
        AS_STATES_GONE);
    assert_string_equal(state_of_event->replica, "rank-0");
    assert_int_equal(states.n, 4);
    /* an unknown state: no change */
    assert_int_equal(
        send_event("{\"kind\":\"application\",\"application\":\"x\",\"status\":\"GONE\"}"),
        AS_STATES_NOTHING);
}

static void another_stream_reports_only_changes(void **state AS_UNUSED)
{
    two_applications();
    send_event(SYNCED);
    as_states_restart(&states);
    assert_false(states.synced);
    assert_int_equal(send_event(APP("shop", "RUNNING")), AS_STATES_NOTHING);
    assert_int_equal(send_event(DEPLOYMENT("shop", "rank", "HEALTHY", "3")), AS_STATES_CHANGED);
    assert_int_equal(send_event(SYNCED), AS_STATES_SYNCED);
    assert_string_equal(as_states_next_missing(&states)->replica, "rank-0");
    assert_string_equal(as_states_next_missing(&states)->application, "other");
    assert_string_equal(as_states_next_missing(&states)->application, "other");
    assert_null(as_states_next_missing(&states));
    assert_int_equal(states.n, 2);
    assert_non_null(as_states_application(&states, "shop"));
    assert_null(as_states_application(&states, "other"));
    assert_string_equal(as_states_deployment(&states, "shop", "rank")->deployment, "rank");
    assert_null(as_states_deployment(&states, "shop", "rank-0"));
    assert_null(as_states_deployment(&states, "other", "rank"));
}

static void a_table_fits_the_screen(void **state AS_UNUSED)
{
    two_applications();
    send_event(REPLICA("shop", "rank", "rank-0", "DOWN", "a b\\nValueError: \\u001b[2J wrong\\n"));
    check_table(75, 5,
                "NAME                  STATUS          REPLICAS       PID  MESSAGE\n"
                "shop                  RUNNING\n"
                "  rank                HEALTHY              0/2\n"
                "    rank-0            DOWN                             7  ValueError: ?[…\n"
                "… and 2 more\n");
}

static void lines_describe_states(void **state AS_UNUSED)
{
    struct as_buf b;

    as_buf_init(&b);
    two_applications();
    send_event(REPLICA("shop", "rank", "rank-0", "DOWN", "no\\nwhy"));
    as_states_line(state_of_event, false, &b);
    as_states_line(state_of_event, true, &b);
    send_event(DEPLOYMENT("shop", "rank", "HEALTHY", "1"));
    as_states_line(state_of_event, false, &b);
    as_states_line(states.all[0], false, &b);
    as_buf_add(&b, "", 1);
    assert_string_equal((char *)b.p, "replica shop/rank/rank-0: DOWN, pid 7, why\n"
                                     "replica shop/rank/rank-0: GONE\n"
                                     "deployment shop/rank: HEALTHY, 1 replica wanted\n"
                                     "application shop: RUNNING\n");
    as_buf_fini(&b);
}

static void other_texts_are_ignored(void **state AS_UNUSED)
{
    static const char *const broken[] = {
        "", "x", "[]", "{", "7", "{\"kind\":7}", "{\"kind\":\"replica\",\"pid\":\"x\"}"};

    for (size_t i = 0; i < AS_COUNT(broken); i++)
        assert_int_equal(send_event(broken[i]), AS_STATES_INVALID);
    assert_int_equal(send_event("{\"kind\":\"planet\",\"application\":\"shop\"}"),
                     AS_STATES_NOTHING);
    assert_int_equal(
        send_event("{\"kind\":\"application\",\"more\":[{}],\"application\":\"shop\"}"),
        AS_STATES_CHANGED);
    assert_string_equal(state_of_event->status, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(states_are_sorted_into_a_tree, up, down),
        cmocka_unit_test_setup_teardown(a_removed_state_is_returned, up, down),
        cmocka_unit_test_setup_teardown(another_stream_reports_only_changes, up, down),
        cmocka_unit_test_setup_teardown(a_table_fits_the_screen, up, down),
        cmocka_unit_test_setup_teardown(lines_describe_states, up, down),
        cmocka_unit_test_setup_teardown(other_texts_are_ignored, up, down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
