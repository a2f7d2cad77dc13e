/* Specification of io/socket/connect and io/loop/tick: connections by name, and a precise
 * timer. */
#include "io/socket/connect.h"

#include "io/loop/tick.h"
#include "io/socket/listen.h"
#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char why[128];

static void connects_to_a_server(void **state AS_UNUSED)
{
    static const char *const names[] = {"127.0.0.1", "localhost"};
    uint16_t port = 0;
    int fds[3], e, n = as_listen_tcp("127.0.0.1", 0, fds, 3, &port, &e), fd, on = 0;
    socklen_t size = sizeof(on);

    assert_int_equal(n, 1);
    for (size_t i = 0; i < AS_COUNT(names); i++) {
        assert_int_equal(as_connect_tcp(names[i], port, 5 * AS_SEC, &fd, why, sizeof(why)), 0);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size), 0);
        assert_true(on);
        close(fd);
    }
    close(fds[0]);
    assert_int_equal(as_connect_tcp("127.0.0.1", port, AS_SEC, &fd, why, sizeof(why)),
                     AS_EUNAVAILABLE);
    assert_string_equal(why, "Connection refused");
}

static void an_unknown_host_is_reported(void **state AS_UNUSED)
{
    int fd;

    assert_int_equal(as_connect_tcp("no such host", 1, AS_SEC, &fd, why, sizeof(why)),
                     AS_ENOTFOUND);
    assert_true(strlen(why) > 0);
}

/* With a full backlog, connect waits for ever. */
static void a_silent_host_times_out(void **state AS_UNUSED)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(sa);
    int s = socket(AF_INET, SOCK_STREAM, 0), fd[8], rc = 0, opened = 0;

    assert_int_equal(bind(s, (struct sockaddr *)&sa, n), 0);
    assert_int_equal(listen(s, 0), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&sa, &n), 0);
    while (opened < 8 && rc == 0) {
        rc = as_connect_tcp("127.0.0.1", ntohs(sa.sin_port), 20 * AS_MS, &fd[opened], why,
                            sizeof(why));
        opened += rc == 0;
    }
    assert_int_equal(rc, AS_EDEADLINE);
    assert_string_equal(why, "Connection timed out");
    while (opened > 0)
        close(fd[--opened]);
    close(s);
}

struct bell {
    struct as_tick tick;
    struct as_loop *loop;
    as_ns at, rang;
    unsigned n;
    bool closed;
};

static void on_ring(struct as_tick *t)
{
    struct bell *b = AS_CONTAINER(t, struct bell, tick);

    b->rang = as_loop_now(b->loop);
    b->n++;
    as_loop_stop(b->loop);
}

static void on_closed(struct as_tick *t)
{
    AS_CONTAINER(t, struct bell, tick)->closed = true;
}

static void a_tick_fires_once_and_never_early(void **state AS_UNUSED)
{
    static const as_ns after[] = {0, 200 * AS_US, 3 * AS_MS};
    struct bell b = {.n = 0};

    assert_int_equal(as_loop_new(&b.loop, 0), 0);
    assert_int_equal(as_tick_open(&b.tick, b.loop, on_ring), 0);
    as_tick_set(&b.tick, 1); /* in the past */
    as_loop_run(b.loop);
    assert_int_equal(b.n, 1);
    for (size_t i = 0; i < AS_COUNT(after); i++) {
        b.at = as_loop_now(b.loop) + after[i];
        as_tick_set(&b.tick, AS_NEVER);
        as_tick_set(&b.tick, b.at + AS_SEC);
        as_tick_set(&b.tick, b.at); /* set again */
        as_loop_run(b.loop);
        assert_int_equal(b.n, 2 + i);
        assert_true(b.rang >= b.at);
    }
    as_tick_close(&b.tick, on_closed);
    as_loop_free(b.loop);
    assert_true(b.closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connects_to_a_server),
        cmocka_unit_test(an_unknown_host_is_reported),
        cmocka_unit_test(a_silent_host_times_out),
        cmocka_unit_test(a_tick_fires_once_and_never_early),
    };

    return cmocka_run_group_tests_name("connect", tests, NULL, NULL);
}
