/* Specification of edge/admin/control: which path and body makes which request, and the answers. */
#include "control_world.h"

/* Sends a request and waits for its answer; returns the status. */
static int request(struct world *w, struct client *c, const char *method, const char *target,
                   const char *body)
{
    clear_received(c);
    as_buf_drop(&w->last_request, w->last_request.n);
    send_request(c, method, target, body);
    UNTIL(w, c, has_received(c, "\r\n\r\n"));
    return atoi(text_of(&c->received) + strlen("HTTP/1.1 "));
}

static void paths_and_queries_select_the_verb(void **state AS_UNUSED)
{
    static const struct {
        const char *method, *target, *body, *expected;
    } rows[] = {
        {"GET", "/api/serve/applications/", NULL, "show   0 "},
        {"GET", "/api/serve/config", NULL, "config   0 "},
        {"GET", "/api/serve/history", NULL, "history   0 "},
        {"PUT", "/api/serve/applications/", "a: b", "deploy   0 a: b"},
        {"PUT", "/api/serve/applications/", "", "deploy   0 "},
        {"PUT", "/api/serve/applications/?dry_run=1", "a: b", "plan   0 a: b"},
        {"PUT", "/api/serve/applications/?dry_run=true", "a", "plan   0 a"},
        {"PUT", "/api/serve/applications/?dry_run=0", "a", "deploy   0 a"},
        {"PUT", "/api/serve/applications/?dry_run=false", "a", "deploy   0 a"},
        {"PUT", "/api/serve/applications/?generation=7&dry_run=1", "a", "plan   0 a after 7"},
        {"PUT", "/api/serve/applications/shop?generation=18446744073709551614", "a",
         "deploy_one shop  0 a after 18446744073709551614"},
        {"PUT", "/api/serve/applications/shop?dry_run=1", "a", "plan_one shop  0 a"},
        {"DELETE", "/api/serve/applications/shop?generation=3", NULL, "delete shop  0  after 3"},
        {"DELETE", "/api/serve/applications/", NULL, "delete   0 "},
        {"DELETE", "/api/serve/applications/shop", NULL, "delete shop  0 "},
        {"DELETE", "/api/serve/applications/a%20b", NULL, "delete a b  0 "},
        {"POST", "/api/v1/applications/shop/deployments/main/scale", "{\"target_num_replicas\": 3}",
         "scale shop main 3 "},
        {"POST", "/api/v1/applications/shop/deployments/main/scale", "{\"target_num_replicas\": 0}",
         "scale shop main 0 "},
        {"POST", "/api/v1/applications/shop/deployments/main/scale",
         " {\"target_num_replicas\":1024} ", "scale shop main 1024 "},
        {"POST", "/api/v1/applications/shop/deployments/main/scale",
         "{\"target_num_replicas\": null}", "scale shop main 4294967295 "},
        {"POST", "/api/v1/applications/shop/deployments/main/restart", "", "restart shop main 0 "},
        {"POST", "/api/v1/applications/shop/deployments/ma%2Fin/rollback", "",
         "rollback shop ma/in 0 "},
    };
    struct world *w = open_world();
    struct client *c = connect_client(w);

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        assert_int_equal(request(w, c, rows[i].method, rows[i].target, rows[i].body), 200);
        assert_string_equal(text_of(&w->last_request), rows[i].expected);
    }
    free_client(c);
    close_world(w);
}

static void invalid_requests_get_an_error_and_are_not_carried_out(void **state AS_UNUSED)
{
#define SCALE "/api/v1/applications/shop/deployments/main/scale"
    static const struct {
        const char *method, *target, *body;
        int status;
        const char *why;
    } rows[] = {
        {"PUT", "/api/serve/applications/?dryrun=1", "a", 400,
         "query 'dryrun=1': only dry_run=true or false, and generation=N are known"},
        {"PUT", "/api/serve/applications/shop?generation=18446744073709551615", "a", 400, "query"},
        {"PUT", "/api/serve/applications/shop?generation=", "a", 400, "query"},
        {"DELETE", "/api/serve/applications/shop?dry_run=1", NULL, 400, "takes no dry_run"},
        {"PUT", "/api/serve/applications/?dry_run=2", "a", 400, "query 'dry_run=2'"},
        {"PUT", "/api/serve/applications/?dry_run=1&x=1", "a", 400, "query"},
        {"POST", SCALE, "", 400, "the body {\\\"target_num_replicas\\\": N} is missing"},
        {"POST", SCALE, "{}", 400, "with N from 0 to 1024, and nothing else"},
        {"POST", SCALE, "{\"target_num_replicas\": 1025}", 400, "with N from 0 to 1024"},
        {"POST", SCALE, "{\"target_num_replicas\": -1}", 400, "with N from 0 to 1024"},
        {"POST", SCALE, "{\"target_num_replicas\": 1.5}", 400, "with N from 0 to 1024"},
        {"POST", SCALE, "{\"target_num_replicas\": \"3\"}", 400, "with N from 0 to 1024"},
        {"POST", SCALE, "{\"target_num_replicas\": 1, \"target_num_replicas\": 2}", 400, "N from"},
        {"POST", SCALE, "{\"target_num_replicas\": 1, \"more\": 2}", 400, "and nothing else"},
        {"POST", SCALE, "{\"replicas\": 1}", 400, "and nothing else"},
        {"POST", SCALE, "[3]", 400, "with N from 0 to 1024"},
        {"POST", SCALE, "3", 400, "expected an object"},
        {"POST", SCALE, "{\"target_num_replicas\": 1", 400, "\"error\""},
        {"POST", SCALE, "{\"target_num_replicas\": 1} 2", 400, "\"error\""},
        {"GET", SCALE, NULL, 405, "\"error\""},
        {"POST", "/api/serve/applications/", "a", 405, "\"error\""},
        {"GET", "/v2/health/live", NULL, 404, "\"error\""}, /* this interface serves no models */
    };
    struct world *w = open_world();
    struct client *c = connect_client(w);

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        int status = request(w, c, rows[i].method, rows[i].target, rows[i].body);

        if (status != rows[i].status || !has_received(c, rows[i].why))
            print_error("row %zu: %s\n", i, text_of(&c->received));
        assert_int_equal(status, rows[i].status);
        assert_true(has_received(c, rows[i].why));
        assert_string_equal(text_of(&w->last_request), "");
    }
    free_client(c);
    close_world(w);
#undef SCALE
}

static void the_size_of_a_file_is_limited(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w);
    char text[4098];

    memset(text, 'x', sizeof(text));
    text[4096] = 0;
    assert_int_equal(request(w, c, "PUT", "/api/serve/applications/", text), 200);
    assert_int_equal(w->last_request.n, strlen("deploy   0 ") + 4096);
    text[4096] = 'x';
    text[4097] = 0;
    assert_int_equal(request(w, c, "PUT", "/api/serve/applications/", text), 413);
    assert_true(has_received(c, "--max-spec-bytes"));
    assert_int_equal(w->last_request.n, 0);
    free_client(c);
    close_world(w);
}

static void answers_are_json_but_for_the_config(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w);

    w->text = "{\"a\":1}";
    assert_int_equal(request(w, c, "GET", "/api/serve/applications/", NULL), 200);
    assert_true(has_received(c, "content-type: application/json\r\n") &&
                has_received(c, "\r\n\r\n{\"a\":1}"));
    w->text = "applications: []\n";
    assert_int_equal(request(w, c, "GET", "/api/serve/config", NULL), 200);
    assert_true(has_received(c, "content-type: application/yaml\r\n"));
    assert_true(has_received(c, "\r\n\r\napplications: []\n"));
    free_client(c);
    close_world(w);
}

static void errors_have_their_status_and_text(void **state AS_UNUSED)
{
    static const struct {
        int err, status;
    } rows[] = {{AS_EINVALID, 400}, {AS_ENOTFOUND, 404}, {AS_EEXISTS, 409}, {AS_EUNAVAILABLE, 503}};
    struct world *w = open_world();
    struct client *c = connect_client(w);

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        w->err = rows[i].err;
        w->text = "request:1:2: a \"key\"\nrequest:2:3: another";
        assert_int_equal(request(w, c, "PUT", "/api/serve/applications/", "x"), rows[i].status);
        assert_true(
            has_received(c, "{\"error\":\"request:1:2: a \\\"key\\\"\\nrequest:2:3: another\"}"));
        w->text = NULL; /* without a text: the text of the error code */
        assert_int_equal(request(w, c, "PUT", "/api/serve/applications/", "x"), rows[i].status);
        assert_true(has_received(c, as_err_text(rows[i].err)));
    }
    free_client(c);
    close_world(w);
}

static void an_answer_may_come_later(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w);

    w->answer_later = true;
    send_request(c, "PUT", "/api/serve/applications/", "x");
    UNTIL(w, c, w->pending);
    for (int i = 0; i < 10; i++)
        run_turn(w, c);
    assert_int_equal(c->received.n, 0);
    answer(w, 0, "{\"late\":true}");
    UNTIL(w, c, has_received(c, "{\"late\":true}"));
    assert_int_equal(w->gone, 0);
    free_client(c);
    close_world(w);
}

static void an_answer_after_the_client_has_left(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w), *other = connect_client(w);

    w->answer_later = true;
    send_request(c, "PUT", "/api/serve/applications/", "x");
    UNTIL(w, c, w->pending);
    free_client(c);
    UNTIL(w, NULL, w->gone == 1);
    answer(w, 0, "{}");
    w->answer_later = false;
    assert_int_equal(request(w, other, "GET", "/api/serve/history", NULL),
                     200); /* other requests are answered */
    assert_int_equal(w->gone, 1);
    free_client(other);
    close_world(w);
}

static void shutdown_while_a_request_waits(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w);

    w->answer_later = true;
    send_request(c, "PUT", "/api/serve/applications/", "x");
    UNTIL(w, c, w->pending);
    close_world(w);
    free_client(c);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void pickled_code_is_stored_under_its_name(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w);

    assert_int_equal(request(w, c, "PUT", "/api/serve/code/" HEX, "{}\nPICKLES"), 200);
    assert_string_equal(text_of(&w->last_request), HEX); /* it is kept from now on */
    assert_int_equal(w->stored, strlen("{}\nPICKLES"));
    assert_true(has_received(c, "{\"code\":\"pickle:" HEX "\"}"));
    w->err = AS_EINVALID;
    w->text = "another \"hash\"";
    assert_int_equal(request(w, c, "PUT", "/api/serve/code/" HEX, "x"), 400);
    assert_true(has_received(c, "{\"error\":\"another \\\"hash\\\"\"}"));
    free_client(c);
    close_world(w);
}

static void pickled_code_that_is_refused(void **state AS_UNUSED)
{
    static const struct {
        const char *method, *name, *body;
        int status;
        const char *why;
    } rows[] = {{"PUT", HEX "0", "x", 400, "is no SHA-256"},
                {"PUT", "ABCDEF", "x", 400, "'ABCDEF' is no SHA-256"},
                {"PUT", "..%2Fstate.db", "x", 400, "is no SHA-256"},
                {"PUT", HEX, "", 400, "the pickled code, is missing"},
                {"GET", HEX, NULL, 405, "\"error\""},
                {"PUT", "", "x", 404, "\"error\""}};
    struct world *w = open_world();
    struct client *c = connect_client(w);
    char target[128];

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        snprintf(target, sizeof(target), "/api/serve/code/%s", rows[i].name);
        assert_int_equal(request(w, c, rows[i].method, target, rows[i].body), rows[i].status);
        assert_true(has_received(c, rows[i].why));
        assert_int_equal(w->stored, 0);
    }
    free_client(c);
    close_world(w);
}

static void the_size_of_pickled_code_is_limited(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w);
    char text[8194];

    memset(text, 'x', sizeof(text));
    text[8192] = 0;
    assert_int_equal(request(w, c, "PUT", "/api/serve/code/" HEX, text), 200);
    assert_int_equal(w->stored, 8192);
    w->stored = 0;
    text[8192] = 'x';
    text[8193] = 0;
    assert_int_equal(request(w, c, "PUT", "/api/serve/code/" HEX, text), 413);
    assert_true(has_received(c, "--max-pickle-bytes"));
    assert_int_equal(w->stored, 0);
    free_client(c);
    close_world(w);
}

/* What the helper still works on is not freed before it has ended. */
static void a_client_that_leaves_while_its_code_is_stored(void **state AS_UNUSED)
{
    struct world *w = open_world();
    struct client *c = connect_client(w);

    w->err = AS_EINVALID;
    w->text = "no space";
    send_request(c, "PUT", "/api/serve/code/" HEX, "x");
    UNTIL(w, c, w->last_request.n);
    free_client(c);
    c = connect_client(w);
    assert_int_equal(request(w, c, "PUT", "/api/serve/code/" HEX, "x"), 400);
    free_client(c);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_queries_select_the_verb),
        cmocka_unit_test(invalid_requests_get_an_error_and_are_not_carried_out),
        cmocka_unit_test(the_size_of_a_file_is_limited),
        cmocka_unit_test(answers_are_json_but_for_the_config),
        cmocka_unit_test(errors_have_their_status_and_text),
        cmocka_unit_test(an_answer_may_come_later),
        cmocka_unit_test(an_answer_after_the_client_has_left),
        cmocka_unit_test(shutdown_while_a_request_waits),
        cmocka_unit_test(pickled_code_is_stored_under_its_name),
        cmocka_unit_test(pickled_code_that_is_refused),
        cmocka_unit_test(the_size_of_pickled_code_is_limited),
        cmocka_unit_test(a_client_that_leaves_while_its_code_is_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
