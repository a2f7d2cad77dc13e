/* Specification of tool/bench/load_driver over HTTP/1.1, against a server in threads: connections
 * stay open, end after a response and are opened again, or are lost; errors and calls without a
 * response are reported. */
#include "tool/bench/load_driver.h"

#include "base/err.h"
#include "io/socket/connect.h"
#include "unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MESSAGE "{\"a question\": 1}"

/* --- a server: one thread accepts connections, each has a thread of its own --- */

static struct {
    int listener;
    uint16_t port;
    pthread_t thread;
    /* every n-th request, counted over all connections; 0: never */
    uint32_t close_each, silent_each, refuse_each, chunk_each, hang_up_each;
    uint32_t end_after; /* the server stops after so many requests */
    atomic_uint requests, connections, wrong;
} server;

static bool is_nth(uint32_t n, uint32_t each)
{
    return each && n % each == 0;
}

static const char *answer_of(uint32_t n)
{
    if (is_nth(n, server.close_each))
        return "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    if (is_nth(n, server.refuse_each))
        return "HTTP/1.1 503 no\r\ncontent-length: 19\r\n\r\n{\"error\":\"as told\"}";
    if (is_nth(n, server.chunk_each))
        return "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    return "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
}

/* False: the client has closed the connection. */
static bool read_request(int fd)
{
    char in[4096] = "", *body;
    size_t n = 0;
    ssize_t k;

    while (!(body = strstr(in, "\r\n\r\n")) || strlen(body + 4) < strlen(MESSAGE)) {
        k = read(fd, in + n, sizeof(in) - 1 - n);
        if (k <= 0)
            return false;
        n += (size_t)k;
    }
    if (strncmp(in, "POST /v2/models/m/infer HTTP/1.1\r\n", 34) != 0 ||
        strcmp(body + 4, MESSAGE) != 0 || !strstr(in, "\r\nhost: h:1\r\n") ||
        !strstr(in, "\r\ncontent-type: application/json\r\n") || !strstr(in, "\r\nkey: value\r\n"))
        server.wrong++;
    return true;
}

static void *serve_connection(void *arg)
{
    int fd = (int)(intptr_t)arg;

    while (read_request(fd)) {
        uint32_t n = ++server.requests;
        const char *a = answer_of(n);

        if ((server.end_after && n > server.end_after) || is_nth(n, server.hang_up_each))
            break;
        if (is_nth(n, server.silent_each)) {
            char c;

            while (read(fd, &c, 1) > 0) /* until the client closes the connection */
                ;
            break;
        }
        if (write(fd, a, strlen(a)) < 0 || strstr(a, "connection: close"))
            break;
        if (server.end_after && n == server.end_after)
            shutdown(server.listener, SHUT_RDWR);
    }
    close(fd);
    return NULL;
}

static void *accept_connections(void *arg AS_UNUSED)
{
    pthread_t threads[1024];
    uint32_t n = 0;
    int fd;

    while ((fd = accept4(server.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        server.connections++;
        AS_ASSERT(n < AS_COUNT(threads));
        AS_ASSERT(pthread_create(&threads[n++], NULL, serve_connection, (void *)(intptr_t)fd) == 0);
    }
    close(server.listener);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return NULL;
}

static void start_server(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);

    memset(&server, 0, sizeof(server));
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(server.listener, 100), 0);
    assert_int_equal(getsockname(server.listener, (struct sockaddr *)&a, &n), 0);
    server.port = ntohs(a.sin_port);
}

static struct as_load_driver_result result;

static int run_load(uint32_t connections, struct as_load_driver_conf *conf)
{
    static const struct as_http_header metadata = {{"key", 3}, {"value", 5}};
    int fds[8], rc;
    char why[100];

    assert_int_equal(pthread_create(&server.thread, NULL, accept_connections, NULL), 0);
    for (uint32_t i = 0; i < connections; i++)
        assert_int_equal(
            as_connect_tcp("127.0.0.1", server.port, AS_SEC, &fds[i], why, sizeof(why)), 0);
    conf->fds = fds;
    conf->connections = connections;
    conf->streams = 1;
    conf->protocol = AS_MODEL_CALL_HTTP;
    conf->authority = "h:1";
    conf->request = (struct as_model_call_request){
        .method = AS_STR("POST"),
        .path = AS_STR("/v2/models/m/infer"),
        .message = AS_STR(MESSAGE),
        .timeout = conf->request.timeout ? conf->request.timeout : 10 * AS_SEC,
        .limit = 1000,
        .metadata = &metadata,
        .n_metadata = 1};
    rc = as_load_driver_run(conf, &result);
    shutdown(server.listener, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    assert_int_equal(server.wrong, 0);
    return rc;
}

/* --- connections that stay --- */

static void a_closed_loop_sends_the_requested_calls(void **state AS_UNUSED)
{
    struct as_load_driver_conf conf = {.requests = 500};

    start_server();
    server.chunk_each = 3;
    assert_int_equal(run_load(3, &conf), 0);
    assert_int_equal(result.tally.status[0], 500);
    assert_int_equal(as_tally_due(&result.tally), 500);
    assert_int_equal(server.requests, 500);
    assert_int_equal(server.connections, 3);
    assert_int_equal(result.lost, 0);
    assert_int_equal(result.reopened, 0);
}

/* Each call is sent and ok, except some at the end: on a busy machine both connections may be in
 * use then, so that the last calls are due and unsent. */
static void check_open_loop(uint64_t due)
{
    assert_int_equal(as_tally_due(&result.tally), due);
    assert_int_equal(result.tally.status[0] + result.tally.unsent, due);
    assert_true(result.tally.status[0] > due / 2);
}

static void an_open_loop(void **state AS_UNUSED)
{
    struct as_load_driver_conf conf = {.rate = 1000, .duration = 200 * AS_MS};

    start_server();
    assert_int_equal(run_load(2, &conf), 0);
    check_open_loop(200);
}

/* Sequential calls, of which exactly every tenth fails. */
static void check_each_tenth_fails(uint32_t requests, const char *text)
{
    struct as_load_driver_conf conf = {.requests = requests};

    assert_int_equal(run_load(1, &conf), 0);
    assert_int_equal(result.tally.status[0], requests - requests / 10);
    assert_int_equal(result.tally.status[14], requests / 10);
    assert_string_equal(result.tally.text[14], text);
    assert_int_equal(result.lost, 0);
}

static void errors_are_counted_by_status(void **state AS_UNUSED)
{
    start_server();
    server.refuse_each = 10;
    check_each_tenth_fails(100, "HTTP 503: as told");
    assert_int_equal(server.connections, 1);
}

/* --- connections that end --- */

static void a_connection_that_ended_after_a_response_is_reopened(void **state AS_UNUSED)
{
    struct as_load_driver_conf conf = {.requests = 400};

    start_server();
    server.close_each = 10;
    assert_int_equal(run_load(3, &conf), 0);
    assert_int_equal(result.tally.status[0], 400);
    assert_int_equal(result.lost, 0);
    assert_true(result.reopened >= 37); /* except connections that end with the load */
    assert_true(server.connections >= 40);
    assert_string_equal(result.why_reopened, "the server closes the connection after its answer");
}

static void an_open_loop_reopens_connections(void **state AS_UNUSED)
{
    struct as_load_driver_conf conf = {.rate = 500, .duration = 200 * AS_MS};

    start_server();
    server.close_each = 7;
    assert_int_equal(run_load(2, &conf), 0);
    check_open_loop(100);
    assert_int_equal(result.lost, 0);
}

static void an_unanswered_call_ends_at_its_deadline(void **state AS_UNUSED)
{
    struct as_load_driver_conf conf = {.requests = 40, .request.timeout = 50 * AS_MS};

    start_server();
    server.silent_each = 20;
    assert_int_equal(run_load(1, &conf), 0);
    assert_int_equal(result.tally.status[0], 38);
    assert_int_equal(result.tally.status[4], 2);
    assert_string_equal(result.tally.text[4], "no answer within the timeout");
    assert_int_equal(result.lost, 0);
    assert_int_equal(server.connections, 2); /* the last one ends with the load */
}

static void a_dropped_connection_fails_only_its_call(void **state AS_UNUSED)
{
    start_server();
    server.hang_up_each = 10;
    check_each_tenth_fails(95, "the server closed the connection");
    assert_int_equal(result.reopened, 9);
}

static void a_server_that_stopped_ends_the_load(void **state AS_UNUSED)
{
    struct as_load_driver_conf conf = {.duration = 3600 * AS_SEC};

    start_server();
    server.end_after = 50;
    assert_int_equal(run_load(2, &conf), 0);
    assert_int_equal(result.tally.status[0], 50);
    assert_int_equal(result.lost, 2);
    assert_true(strlen(result.why) > 0);
    /* each connection's call, and one for which no connection is left */
    assert_true(result.tally.status[14] >= 2 && result.tally.status[14] <= 4);
}

static void a_connection_without_a_response_is_not_reopened(void **state AS_UNUSED)
{
    struct as_load_driver_conf conf = {.warmup = 3600 * AS_SEC, .duration = AS_SEC};

    start_server();
    server.hang_up_each = 1;
    assert_int_equal(run_load(2, &conf), AS_EUNAVAILABLE);
    assert_int_equal(result.lost, 2);
    assert_int_equal(server.connections, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_loop_sends_the_requested_calls),
        cmocka_unit_test(an_open_loop),
        cmocka_unit_test(errors_are_counted_by_status),
        cmocka_unit_test(a_connection_that_ended_after_a_response_is_reopened),
        cmocka_unit_test(an_open_loop_reopens_connections),
        cmocka_unit_test(an_unanswered_call_ends_at_its_deadline),
        cmocka_unit_test(a_dropped_connection_fails_only_its_call),
        cmocka_unit_test(a_server_that_stopped_ends_the_load),
        cmocka_unit_test(a_connection_without_a_response_is_not_reopened),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("drive_http", tests, NULL, NULL);
}
