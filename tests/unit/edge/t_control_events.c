/* Specification of edge/admin/control_events: which events a listener gets, when, and when it is
 * disconnected. */
#include "control_world.h"

#define EVENTS "/api/serve/events"
#define SYNCED "data: {\"kind\":\"synced\"}\n\n"

static struct as_served application(const char *name, const char *status)
{
    return (struct as_served){
        .kind = AS_SERVED_APPLICATION, .application = as_str_of(name), .status = as_str_of(status)};
}

static struct as_served replica(const char *name, uint32_t pid, uint32_t rank)
{
    return (struct as_served){.kind = AS_SERVED_REPLICA,
                              .application = AS_STR("shop"),
                              .deployment = AS_STR("main"),
                              .replica = as_str_of(name),
                              .status = AS_STR("RUNNING"),
                              .pid = pid,
                              .rank = rank,
                              .starts = 1};
}

static struct client *listener(struct world *w)
{
    struct client *c = connect_client(w);

    send_request(c, "GET", EVENTS, NULL);
    UNTIL(w, c, has_received(c, SYNCED));
    assert_true(has_received(c, "HTTP/1.1 200 "));
    assert_true(has_received(c, "content-type: text/event-stream; charset=utf-8\r\n"));
    return c;
}

/* Waits for the comparison, so that each change is compared by itself. */
static void wait_for_change(struct world *w, struct client *c)
{
    uint32_t before = w->n_listings;

    as_control_events_changed(w->api.events);
    UNTIL(w, c, w->n_listings > before);
    run_turn(w, c);
}

static void first_all_objects_then_synced(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;
    const char *at;

    w->rows[0] = application("shop", "RUNNING");
    w->rows[1] = (struct as_served){.kind = AS_SERVED_DEPLOYMENT,
                                    .application = AS_STR("shop"),
                                    .deployment = AS_STR("main"),
                                    .status = AS_STR("UNHEALTHY"),
                                    .message = AS_STR("two\nlines, \"quoted\""),
                                    .target = 3,
                                    .declared = 2,
                                    .rolled_back = true,
                                    .generation = 7};
    w->rows[2] = replica("main-0", 4711, 0);
    w->rows[3] = replica("main-1", 0, AS_RANK_NONE);
    w->n_rows = 4;
    c = listener(w);
    at = strstr(text_of(&c->received), "data: ");
    at = strstr(at, "{\"kind\":\"application\",\"application\":\"shop\",\"status\":\"RUNNING\",");
    assert_non_null(at);
    at = strstr(at,
                "data: {\"kind\":\"deployment\",\"application\":\"shop\",\"deployment\":\"main\","
                "\"status\":\"UNHEALTHY\",\"message\":\"two\\nlines, \\\"quoted\\\"\","
                "\"target_num_replicas\":3,\"num_replicas\":2,\"rolled_back\":true,"
                "\"generation\":7}\n\n");
    assert_non_null(at);
    at = strstr(at, "data: {\"kind\":\"replica\",\"application\":\"shop\",\"deployment\":\"main\","
                    "\"replica\":\"main-0\",\"status\":\"RUNNING\",\"message\":\"\",\"pid\":4711,"
                    "\"rank\":0,\"starts\":1}\n\n");
    assert_non_null(at);
    at = strstr(at, "\"replica\":\"main-1\",\"status\":\"RUNNING\",\"message\":\"\",\"pid\":null,"
                    "\"rank\":null,\"starts\":1}\n\n" SYNCED);
    assert_non_null(at);
    free_client(c);
    close_world(w);
}

static void then_only_changes(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;

    w->rows[0] = application("shop", "RUNNING");
    w->rows[1] = replica("main-0", 1, 0);
    w->n_rows = 2;
    c = listener(w);
    clear_received(c);
    wait_for_change(w, c); /* notified, but nothing has changed */
    assert_false(has_received(c, "data:"));
    w->rows[1].pid = 2;
    wait_for_change(w, c);
    assert_true(has_received(c, "\"replica\":\"main-0\"") && has_received(c, "\"pid\":2"));
    assert_false(has_received(c, "\"kind\":\"application\""));
    free_client(c);
    close_world(w);
}

static void objects_are_added_removed_and_moved(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;

    w->rows[0] = application("shop", "RUNNING");
    w->rows[1] = replica("main-0", 1, 0);
    w->rows[2] = replica("main-1", 2, 1);
    w->n_rows = 3;
    c = listener(w);
    clear_received(c);
    w->rows[1] = replica("main-1", 2, 1); /* main-0 was removed, main-1 has moved */
    w->rows[2] = replica("main-2", 3, 0);
    wait_for_change(w, c);
    assert_true(has_received(c,
                             "data: {\"kind\":\"replica\",\"application\":\"shop\",\"deployment\":"
                             "\"main\",\"replica\":\"main-0\",\"status\":\"GONE\"}\n\n"));
    assert_true(has_received(c, "\"replica\":\"main-2\",\"status\":\"RUNNING\""));
    assert_false(has_received(c, "main-1"));
    clear_received(c);
    w->n_rows = 0;
    wait_for_change(w, c);
    assert_true(
        has_received(c, "{\"kind\":\"application\",\"application\":\"shop\",\"status\":\"GONE\"}"));
    assert_true(has_received(c, "main-1") && has_received(c, "main-2"));
    free_client(c);
    close_world(w);
}

/* A name that begins with another name is a different object. */
static void keys_are_compared_as_a_whole(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;

    w->rows[0] = application("shop", "RUNNING");
    w->n_rows = 1;
    c = listener(w);
    clear_received(c);
    w->rows[0] = application("shop2", "RUNNING");
    wait_for_change(w, c);
    assert_true(has_received(c, "\"application\":\"shop\",\"status\":\"GONE\""));
    assert_true(has_received(c, "\"application\":\"shop2\",\"status\":\"RUNNING\""));
    free_client(c);
    close_world(w);
}

static void quick_changes_are_one_comparison(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;
    uint32_t before;
    as_ns since;

    as_control_events_changed(w->api.events); /* no listeners: nothing is compared */
    run_turn(w, NULL);
    assert_int_equal(w->n_listings, 0);
    w->rows[0] = application("shop", "DEPLOYING");
    w->n_rows = 1;
    c = listener(w);
    wait_for_change(w, c);
    clear_received(c);
    before = w->n_listings;
    since = now();
    for (int i = 0; i < 1000; i++) {
        w->rows[0].status = i % 2 ? AS_STR("DEPLOYING") : AS_STR("UNHEALTHY");
        as_control_events_changed(w->api.events);
        run_turn(w, c);
    }
    w->rows[0].status = AS_STR("RUNNING");
    as_control_events_changed(w->api.events);
    UNTIL(w, c, has_received(c, "RUNNING"));
    assert_true(w->n_listings - before <= (now() - since) / (20 * AS_MS) + 1);
    free_client(c);
    close_world(w);
}

static void a_late_listener_gets_all_and_the_others_the_change(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *first, *second;

    w->rows[0] = application("shop", "DEPLOYING");
    w->n_rows = 1;
    first = listener(w);
    clear_received(first);
    w->rows[0].status = AS_STR("RUNNING"); /* without as_control_events_changed */
    second = listener(w);
    UNTIL(w, first, has_received(first, "RUNNING"));
    assert_false(has_received(first, "synced"));
    assert_true(has_received(second, "RUNNING") && !has_received(second, "DEPLOYING"));
    free_client(first);
    clear_received(second);
    w->rows[0].status = AS_STR("UNHEALTHY");
    wait_for_change(w, second);
    assert_true(has_received(second, "UNHEALTHY"));
    free_client(second);
    close_world(w);
}

static void comments_are_sent_while_nothing_changes(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = listener(w);
    as_ns since = now();

    clear_received(c);
    UNTIL(w, c, has_received(c, ":\n\n"));
    assert_true(now() - since >= HEARTBEAT / 2);
    clear_received(c);
    UNTIL(w, c, has_received(c, ":\n\n"));
    free_client(c);
    close_world(w);
}

/* The limit applies to bytes that do not fit into its socket, except the first events. */
static void a_listener_that_does_not_read_is_disconnected(void **state AS_UNUSED)
{
    static char long_text[1000];
    struct world *w = open_world();
    struct client *slow, *quick;

    memset(long_text, 'x', sizeof(long_text));
    w->rows[0] = application("shop", "RUNNING");
    w->rows[0].message = (struct as_str){long_text, sizeof(long_text)};
    w->n_rows = 1;
    slow = listener(w);
    quick = listener(w);
    for (uint32_t n = 0; !strstr(text_of(&w->logged), "listener_cut_off"); n++) {
        assert_true(n < 10000);
        long_text[0] = (char)('a' + n % 26);
        clear_received(quick);
        wait_for_change(w, quick);
        assert_true(has_received(quick, "RUNNING"));
    }
    assert_non_null(strstr(text_of(&w->logged),
                           "level=warn event=listener_cut_off reason=\"it does not read "
                           "(--max-event-bytes)\""));
    UNTIL(w, slow, slow->eof);
    /* reset in the middle of the answer, so that it does not look complete */
    assert_false(has_received(slow, "\r\n0\r\n\r\n"));
    clear_received(quick);
    w->rows[0].status = AS_STR("UNHEALTHY");
    wait_for_change(w, quick);
    assert_true(has_received(quick, "UNHEALTHY"));
    free_client(slow);
    free_client(quick);
    close_world(w);
}

static void head_gets_the_headers_only(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w);

    send_request(c, "HEAD", EVENTS, NULL);
    UNTIL(w, c, has_received(c, "\r\n\r\n"));
    assert_true(has_received(c, "content-type: text/event-stream; charset=utf-8\r\n"));
    assert_int_equal(w->n_listings, 0);
    clear_received(c);
    send_request(c, "GET", "/api/serve/history", NULL); /* the connection is free again */
    UNTIL(w, c, has_received(c, "200"));
    free_client(c);
    close_world(w);
}

static void shutdown_with_a_listener(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = listener(w);

    close_world(w);
    free_client(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_all_objects_then_synced),
        cmocka_unit_test(then_only_changes),
        cmocka_unit_test(objects_are_added_removed_and_moved),
        cmocka_unit_test(keys_are_compared_as_a_whole),
        cmocka_unit_test(quick_changes_are_one_comparison),
        cmocka_unit_test(a_late_listener_gets_all_and_the_others_the_change),
        cmocka_unit_test(comments_are_sent_while_nothing_changes),
        cmocka_unit_test(a_listener_that_does_not_read_is_disconnected),
        cmocka_unit_test(head_gets_the_headers_only),
        cmocka_unit_test(shutdown_with_a_listener),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
