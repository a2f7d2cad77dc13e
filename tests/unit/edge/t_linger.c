/* Specification of edge/conn/linger: how long a socket stays open after its connection, and what
 * the client receives. */
#include "edge/conn/linger.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT (500 * AS_MS)
#define MOST    64u

static struct as_loop *loop;
static struct as_linger linger;
static uint8_t rx[4096];

static int setup(void **state AS_UNUSED)
{
    as_loop_new(&loop, 0);
    as_linger_init(&linger, loop, rx, sizeof(rx), TIMEOUT, MOST);
    return 0;
}

static int teardown(void **state AS_UNUSED)
{
    as_linger_close(&linger);
    assert_int_equal(linger.n, 0);
    as_loop_free(loop);
    return 0;
}

static void turn(void)
{
    uv_run(&loop->uv, UV_RUN_NOWAIT);
}

/* A TCP connection whose server end lingers; returns the client's end. */
static int client(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), server;

    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, len), 0);
    server = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(server >= 0);
    close(listener);
    assert_int_equal(send(server, "bye", 3, 0), 3);
    as_linger_add(&linger, server);
    return fd;
}

/* The client sends n bytes, and the loop runs. False: the socket is closed. */
static bool say(int fd, size_t n)
{
    static const uint8_t bytes[65536];

    while (n) {
        ssize_t k = send(fd, bytes, AS_MIN(n, sizeof(bytes)), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (k < 0 && errno != EAGAIN)
            return false;
        n -= k > 0 ? (size_t)k : 0;
        turn();
    }
    return true;
}

static bool is_reset(int fd)
{
    struct pollfd p = {.fd = fd, .events = 0};

    poll(&p, 1, 0);
    return p.revents & POLLERR;
}

static void a_client_that_keeps_sending_gets_everything(void **state AS_UNUSED)
{
    int fd = client();
    char text[8];

    assert_true(say(fd, 100000));
    assert_int_equal(recv(fd, text, sizeof(text), 0), 3);
    assert_memory_equal(text, "bye", 3);
    assert_int_equal(recv(fd, text, sizeof(text), 0), 0);
    assert_true(say(fd, 100000));
    assert_false(is_reset(fd));
    assert_int_equal(linger.n, 1);
    close(fd);
}

static void it_ends_when_the_client_closes(void **state AS_UNUSED)
{
    int fd = client();

    shutdown(fd, SHUT_WR);
    while (linger.n)
        turn();
    close(fd);
}

static void bytes_are_limited(void **state AS_UNUSED)
{
    int fd = client();

    assert_true(say(fd, AS_LINGER_BYTES - 1));
    for (int i = 0; i < 1000; i++)
        turn();
    assert_int_equal(linger.n, 1);
    say(fd, 1);
    while (linger.n)
        turn();
    close(fd);
}

/* Each tick reads at most its share, and nothing is read between ticks. */
static void a_flood_is_slowed_down(void **state AS_UNUSED)
{
    static const uint8_t bytes[65536];
    int fd = client();
    uint64_t reads;

    while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        ;
    for (int looks = 0; looks < 3; looks++) {
        reads = loop->stat.reads;
        while (loop->stat.reads == reads)
            turn(); /* UV_RUN_ONCE runs timers before and after it waits: two ticks */
        assert_true(loop->stat.reads - reads <= AS_LINGER_SHARE / sizeof(rx));
    }
    assert_int_equal(linger.n, 1);
    close(fd);
}

static void time_is_limited(void **state AS_UNUSED)
{
    as_ns start = as_loop_now(loop);
    int fd = client();

    while (linger.n)
        uv_run(&loop->uv, UV_RUN_ONCE);
    assert_true(as_loop_now(loop) - start >= TIMEOUT - AS_MS);
    assert_false(say(fd, 1) && say(fd, 1)); /* the first one is answered by a reset */
    close(fd);
}

static void the_oldest_is_closed_for_a_new_one(void **state AS_UNUSED)
{
    int fds[MOST + 1];

    for (size_t i = 0; i < MOST; i++)
        fds[i] = client();
    assert_int_equal(linger.n, MOST);
    assert_true(say(fds[0], 1));
    fds[MOST] = client();
    assert_int_equal(linger.n, MOST);
    turn();
    assert_false(say(fds[0], 1) && say(fds[0], 1));
    assert_true(say(fds[1], 1) && say(fds[1], 1));
    for (size_t i = 0; i <= MOST; i++)
        close(fds[i]);
}

static void without_a_timeout_it_is_closed_at_once(void **state AS_UNUSED)
{
    int fd;

    linger.timeout = 0;
    fd = client();
    assert_int_equal(linger.n, 0);
    assert_false(say(fd, 1) && say(fd, 1));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_client_that_keeps_sending_gets_everything, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(it_ends_when_the_client_closes, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_are_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flood_is_slowed_down, setup, teardown),
        cmocka_unit_test_setup_teardown(time_is_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_is_closed_for_a_new_one, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_timeout_it_is_closed_at_once, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
