/* Specification of edge/admin/control_events: what a listener is told, when, and when it is cut
 * off. */
#include "control_world.h"

#define EVENTS "/api/serve/events"
#define SYNCED "data: {\"kind\":\"synced\"}\n\n"

static struct as_control_row application(const char *name, const char *status)
{
    return (struct as_control_row){.kind = AS_CONTROL_APPLICATION,
                                   .application = as_str_of(name),
                                   .status = as_str_of(status)};
}

static struct as_control_row replica(const char *name, uint32_t pid, uint32_t rank)
{
    return (struct as_control_row){.kind = AS_CONTROL_REPLICA,
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
    struct client *c = connected(w);

    say(c, "GET", EVENTS, NULL);
    UNTIL(w, c, heard(c, SYNCED));
    assert_true(heard(c, "HTTP/1.1 200 "));
    assert_true(heard(c, "content-type: text/event-stream; charset=utf-8\r\n"));
    return c;
}

/* Once more than 20 ms have passed, so that each change is looked at by itself. */
static void change(struct world *w, struct client *c)
{
    uint32_t looks = w->looks;

    as_control_events_changed(w->api.events);
    UNTIL(w, c, w->looks > looks);
    turn(w, c);
}

static void first_everything_then_synced(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;
    const char *at;

    w->rows[0] = application("shop", "RUNNING");
    w->rows[1] = (struct as_control_row){.kind = AS_CONTROL_DEPLOYMENT,
                                         .application = AS_STR("shop"),
                                         .deployment = AS_STR("main"),
                                         .status = AS_STR("UNHEALTHY"),
                                         .message = AS_STR("two\nlines, \"quoted\""),
                                         .target = 3,
                                         .declared = 2,
                                         .rolled_back = true,
                                         .generation = 7};
    w->rows[2] = replica("main-0", 4711, 0);
    w->rows[3] = replica("main-1", 0, AS_CONTROL_NONE);
    w->n_rows = 4;
    c = listener(w);
    at = strstr(text_of(&c->heard), "data: ");
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
    leave(c);
    close_world(w);
}

static void then_what_changes_and_nothing_else(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;

    w->rows[0] = application("shop", "RUNNING");
    w->rows[1] = replica("main-0", 1, 0);
    w->n_rows = 2;
    c = listener(w);
    forget(c);
    change(w, c); /* it said so, but nothing has */
    assert_false(heard(c, "data:"));
    w->rows[1].pid = 2;
    change(w, c);
    assert_true(heard(c, "\"replica\":\"main-0\"") && heard(c, "\"pid\":2"));
    assert_false(heard(c, "\"kind\":\"application\""));
    leave(c);
    close_world(w);
}

static void what_comes_goes_and_moves(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;

    w->rows[0] = application("shop", "RUNNING");
    w->rows[1] = replica("main-0", 1, 0);
    w->rows[2] = replica("main-1", 2, 1);
    w->n_rows = 3;
    c = listener(w);
    forget(c);
    w->rows[1] =
        replica("main-1", 2, 1); /* the first is gone, another is there, one is elsewhere */
    w->rows[2] = replica("main-2", 3, 0);
    change(w, c);
    assert_true(heard(c, "data: {\"kind\":\"replica\",\"application\":\"shop\",\"deployment\":"
                         "\"main\",\"replica\":\"main-0\",\"status\":\"GONE\"}\n\n"));
    assert_true(heard(c, "\"replica\":\"main-2\",\"status\":\"RUNNING\""));
    assert_false(heard(c, "main-1"));
    forget(c);
    w->n_rows = 0;
    change(w, c);
    assert_true(
        heard(c, "{\"kind\":\"application\",\"application\":\"shop\",\"status\":\"GONE\"}"));
    assert_true(heard(c, "main-1") && heard(c, "main-2"));
    leave(c);
    close_world(w);
}

/* A name that begins as another one's does is another one. */
static void keys_are_whole(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;

    w->rows[0] = application("shop", "RUNNING");
    w->n_rows = 1;
    c = listener(w);
    forget(c);
    w->rows[0] = application("shop2", "RUNNING");
    change(w, c);
    assert_true(heard(c, "\"application\":\"shop\",\"status\":\"GONE\""));
    assert_true(heard(c, "\"application\":\"shop2\",\"status\":\"RUNNING\""));
    leave(c);
    close_world(w);
}

static void changes_that_follow_each_other_are_one_look(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c;
    uint32_t looks;
    as_ns since;

    as_control_events_changed(w->api.events); /* nobody listens: nobody looks */
    turn(w, NULL);
    assert_int_equal(w->looks, 0);
    w->rows[0] = application("shop", "DEPLOYING");
    w->n_rows = 1;
    c = listener(w);
    change(w, c);
    forget(c);
    looks = w->looks;
    since = now();
    for (int i = 0; i < 1000; i++) {
        w->rows[0].status = i % 2 ? AS_STR("DEPLOYING") : AS_STR("UNHEALTHY");
        as_control_events_changed(w->api.events);
        turn(w, c);
    }
    w->rows[0].status = AS_STR("RUNNING");
    as_control_events_changed(w->api.events);
    UNTIL(w, c, heard(c, "RUNNING"));
    assert_true(w->looks - looks <= (now() - since) / (20 * AS_MS) + 1);
    leave(c);
    close_world(w);
}

static void who_comes_later_hears_all_and_others_the_change(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *first, *second;

    w->rows[0] = application("shop", "DEPLOYING");
    w->n_rows = 1;
    first = listener(w);
    forget(first);
    w->rows[0].status = AS_STR("RUNNING"); /* nobody has said that something changed */
    second = listener(w);
    UNTIL(w, first, heard(first, "RUNNING"));
    assert_false(heard(first, "synced"));
    assert_true(heard(second, "RUNNING") && !heard(second, "DEPLOYING"));
    leave(first);
    forget(second);
    w->rows[0].status = AS_STR("UNHEALTHY");
    change(w, second);
    assert_true(heard(second, "UNHEALTHY"));
    leave(second);
    close_world(w);
}

static void silence_is_broken_by_comments(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = listener(w);
    as_ns since = now();

    forget(c);
    UNTIL(w, c, heard(c, ":\n\n"));
    assert_true(now() - since >= HEARTBEAT / 2);
    forget(c);
    UNTIL(w, c, heard(c, ":\n\n"));
    leave(c);
    close_world(w);
}

/* Its socket takes what sockets take, and then so many bytes wait; what it was told first aside. */
static void who_does_not_read_is_cut_off_and_others_are_not(void **state AS_UNUSED)
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
        forget(quick);
        change(w, quick);
        assert_true(heard(quick, "RUNNING"));
    }
    assert_non_null(strstr(text_of(&w->logged),
                           "level=warn event=listener_cut_off reason=\"it does not read "
                           "(--max-event-bytes)\""));
    UNTIL(w, slow, slow->eof);
    /* in the middle of an answer: it must not look whole */
    assert_false(heard(slow, "\r\n0\r\n\r\n"));
    forget(quick);
    w->rows[0].status = AS_STR("UNHEALTHY");
    change(w, quick);
    assert_true(heard(quick, "UNHEALTHY"));
    leave(slow);
    leave(quick);
    close_world(w);
}

static void head_is_a_look_at_the_headers(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connected(w);

    say(c, "HEAD", EVENTS, NULL);
    UNTIL(w, c, heard(c, "\r\n\r\n"));
    assert_true(heard(c, "content-type: text/event-stream; charset=utf-8\r\n"));
    assert_int_equal(w->looks, 0);
    forget(c);
    say(c, "GET", "/api/serve/history", NULL); /* the connection is free again */
    UNTIL(w, c, heard(c, "200"));
    leave(c);
    close_world(w);
}

static void the_end_comes_while_one_listens(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = listener(w);

    close_world(w);
    leave(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_everything_then_synced),
        cmocka_unit_test(then_what_changes_and_nothing_else),
        cmocka_unit_test(what_comes_goes_and_moves),
        cmocka_unit_test(keys_are_whole),
        cmocka_unit_test(changes_that_follow_each_other_are_one_look),
        cmocka_unit_test(who_comes_later_hears_all_and_others_the_change),
        cmocka_unit_test(silence_is_broken_by_comments),
        cmocka_unit_test(who_does_not_read_is_cut_off_and_others_are_not),
        cmocka_unit_test(head_is_a_look_at_the_headers),
        cmocka_unit_test(the_end_comes_while_one_listens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
