/* Specification of the status interface: which requests are accepted, and the status of the others.
 */
#include "edge/conn/conn.h"

#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static struct as_loop *loop;
static struct as_edge *edge;
static struct as_edge_budgets budgets;

static void drop_line(void *ctx AS_UNUSED, enum as_log_level level AS_UNUSED,
                      const char *line AS_UNUSED, size_t n AS_UNUSED)
{
}
static const struct as_log quiet = {.level = AS_LOG_ERROR, .sink = drop_line};

static int open_edge(void **state AS_UNUSED)
{
    struct as_edge_conf conf = {
        .interface = AS_INTERFACE_STATUS,
        .one_request = true,
        .h1 = {.max_line = 8192, .max_header_bytes = 8192, .max_headers = 64, .max_unread = 65536},
        .max_connections = 4,
        .max_requests = 4,
        .header_timeout = 60 * AS_SEC,
        .send_timeout = 60 * AS_SEC,
    };

    budgets.requests = budgets.answers = (struct as_budget){.limit = 1 << 20, .share = 100};
    assert_int_equal(as_loop_new(&loop, 0), 0);
    return as_edge_new(&edge, loop, NULL, &conf, &budgets, &quiet);
}

static int close_edge(void **state AS_UNUSED)
{
    as_edge_stop(edge);
    as_edge_close(edge);
    as_loop_free(loop);
    as_edge_free(edge);
    return 0;
}

/* Two ends of a connection over loopback. */
static void connect_tcp(int ends[2])
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(at);

    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)connect(ends[0], (struct sockaddr *)&at, sizeof(at));
    ends[1] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(ends[1] >= 0);
    close(listener);
}

/* Sends a head of n bytes, and an empty line if `whole`; returns the status, 0: no answer after the
 * client has shut down its side. */
static int request(const char *head, size_t n, bool tcp, bool whole)
{
    char answer[4096] = "";
    size_t got = 0;
    ssize_t k = -1;
    int ends[2];

    if (tcp)
        connect_tcp(ends);
    else
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_non_null(as_conn_accept(edge, ends[1], false));
    assert_int_equal(send(ends[0], head, n, MSG_NOSIGNAL), n);
    if (whole)
        assert_int_equal(send(ends[0], "\r\n\r\n", 4, MSG_NOSIGNAL), 4);
    else
        shutdown(ends[0], SHUT_WR);
    for (int turn = 0; turn < 100000 && k != 0; turn++) { /* until the server closes it */
        uv_run(&loop->uv, UV_RUN_NOWAIT);
        k = recv(ends[0], answer + got, sizeof(answer) - 1 - got, 0);
        got += k > 0 ? (size_t)k : 0;
    }
    assert_int_equal(k, 0);
    close(ends[0]);
    return got ? atoi(answer + strlen("HTTP/1.1 ")) : 0;
}

struct row {
    const char *head;
    int status;
};

static void check(const struct row *rows, size_t n, bool tcp)
{
    for (size_t i = 0; i < n; i++) {
        int status = request(rows[i].head, strlen(rows[i].head), tcp, true);

        if (status != rows[i].status)
            print_error("%s: %d\n", rows[i].head, status);
        assert_int_equal(status, rows[i].status);
    }
}

/* No page is needed for these: the path is not known, or the method is not allowed. */
static void a_path_is_found_or_not(void **state AS_UNUSED)
{
    static const struct row rows[] = {
        {"GET /nope HTTP/1.1\r\nHost: localhost:8002", 404},
        {"GET /status?format=html HTTP/1.1\r\nHost: localhost:8002", 404},
        {"GET /v2/health/live HTTP/1.1\r\nHost: localhost:8002", 404},
        {"GET /nope HTTP/1.0\r\nAccept: */*", 404},
    };

    check(rows, AS_COUNT(rows), false);
    check(rows, AS_COUNT(rows) - 1, true);
}

static void host_must_name_this_machine_over_tcp_on_loopback(void **state AS_UNUSED)
{
    static const struct row rows[] = {
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1", 404},
        {"GET / HTTP/1.1\r\nhOST:\t[::1]:8002", 404},
        {"GET / HTTP/1.1\r\nHost: LOCALHOST", 404},
        {"GET / HTTP/1.1\r\nHost: localhost.evil.example", 403},
        {"GET / HTTP/1.1\r\nHost: evil.example", 403},
        {"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example", 403},
        {"GET / HTTP/1.1\r\nHost:", 403},
        {"GET / HTTP/1.1\r\nAccept: a", 400},
        {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost", 400},
        {"GET http://evil.example/ HTTP/1.1\r\nHost: localhost", 400},
    };
    static const struct row local = {"GET / HTTP/1.1\r\nHost: evil.example", 404};

    edge->loopback = true;
    check(rows, AS_COUNT(rows), true);
    check(&local, 1, false);
}

static void on_another_address_any_host_will_do(void **state AS_UNUSED)
{
    static const struct row rows[] = {
        {"GET / HTTP/1.1\r\nHost: evil.example", 404},
        {"GET / HTTP/1.1\r\nHost:", 404},
        {"GET / HTTP/1.0\r\nAccept: a", 404},
        {"GET / HTTP/1.1\r\nAccept: a", 400},
        {"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost", 400},
    };

    check(rows, AS_COUNT(rows), true);
}

static void anything_else_is_refused(void **state AS_UNUSED)
{
    static const struct row rows[] = {
        {"GET", 400},
        {"GET /", 400},
        {"GET / HTTP/2.0\r\nHost: localhost", 505},
        {"GET / HTTP/1.1 \r\nHost: localhost", 400},
        {"GET  / HTTP/1.1\r\nHost: localhost", 400},
        {"POST /status HTTP/1.1\r\nHost: localhost", 405},
        {"PUT /metrics HTTP/1.1\r\nHost: localhost", 405},
        {"GET / HTTP/1.1\r\nHost: localhost\r\nno colon", 400},
        {"GET / HTTP/1.1\r\nHost: localhost\r\n: empty name", 400},
        {"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n folded", 400},
    };

    check(rows, AS_COUNT(rows), false);
    check(rows, AS_COUNT(rows), true);
}

/* Every prefix of a valid request is answered or not, and the connection closed. */
static void cut_heads_are_safe(void **state AS_UNUSED)
{
    static const char head[] = "GET /nope HTTP/1.1\r\nHost: localhost:8002\r\nAccept: */*";

    for (size_t n = 1; n < sizeof(head); n++)
        assert_int_equal(request(head, n, n % 2, false), 0);
}

/* --- many connections --- */

static int connect_to(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)at, sizeof(*at)), 0);
    return fd;
}

/* Nobody is refused for want of a place that a client has left before, whatever the loop is told
 * first: that somebody comes, or that others have left. */
static void who_has_left_makes_room(void **state AS_UNUSED)
{
    static const char head[] = "GET /nope HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), fds[6];
    socklen_t n = sizeof(at);
    char answer[512] = "";

    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &n), 0);
    assert_int_equal(as_edge_listen(edge, listener, false), 0);
    for (size_t i = 0; i < AS_COUNT(fds); i++) {
        fds[i] = connect_to(&at);
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    }
    assert_int_equal(edge->n_conns, 4); /* all that may be */
    assert_int_equal(edge->stat.refused, 2);
    for (size_t i = 0; i < AS_COUNT(fds); i++)
        close(fds[i]);
    fds[0] = connect_to(&at);
    assert_int_equal(send(fds[0], head, sizeof(head) - 1, 0), sizeof(head) - 1);
    for (int turn = 0; turn < 1000 && recv(fds[0], answer, sizeof(answer) - 1, MSG_DONTWAIT) <= 0;
         turn++)
        uv_run(&loop->uv, UV_RUN_NOWAIT);
    assert_int_equal(strncmp(answer, "HTTP/1.1 404", 12), 0);
    close(fds[0]);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_path_is_found_or_not, open_edge, close_edge),
        cmocka_unit_test_setup_teardown(host_must_name_this_machine_over_tcp_on_loopback, open_edge,
                                        close_edge),
        cmocka_unit_test_setup_teardown(on_another_address_any_host_will_do, open_edge, close_edge),
        cmocka_unit_test_setup_teardown(anything_else_is_refused, open_edge, close_edge),
        cmocka_unit_test_setup_teardown(cut_heads_are_safe, open_edge, close_edge),
        cmocka_unit_test_setup_teardown(who_has_left_makes_room, open_edge, close_edge),
    };

    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
