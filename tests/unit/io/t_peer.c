/* Specification of io/socket/peer: the user of the socket at the other end. */
#include "io/socket/peer.h"

#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

#define NOBODY (uid_t)4242

struct pair {
    int client, server;
};

static struct sockaddr_storage address(const char *host, in_port_t port, socklen_t *ret_len)
{
    struct sockaddr_storage a = {0};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = port};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = port};

    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(&a, &v4, sizeof(v4));
        *ret_len = sizeof(v4);
    } else {
        assert_int_equal(inet_pton(AF_INET6, host, &v6.sin6_addr), 1);
        memcpy(&a, &v6, sizeof(v6));
        *ret_len = sizeof(v6);
    }
    return a;
}

/* A connection from a socket of one address family to a listener of another address. */
static struct pair connect_to(const char *host, const char *listening)
{
    int listener, off = 0;
    struct pair p;
    socklen_t n, to_n;
    struct sockaddr_storage a = address(listening, 0, &n), to;

    listener = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (a.ss_family == AF_INET6)
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    to = address(host, ((struct sockaddr_in *)&a)->sin_port, &to_n);
    p.client = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(p.client, (struct sockaddr *)&to, to_n), 0);
    p.server = accept(listener, NULL, NULL);
    assert_true(p.server >= 0);
    close(listener);
    return p;
}

static void end(struct pair p)
{
    close(p.client);
    close(p.server);
}

static void tcp(void **state AS_UNUSED)
{
    static const char *const rows[][2] = {{"127.0.0.1", "127.0.0.1"},
                                          {"127.9.9.9", "0.0.0.0"},
                                          {"127.0.0.1", "::"},
                                          {"::ffff:127.0.0.1", "127.0.0.1"},
                                          {"::1", "::"},
                                          {"::ffff:127.0.0.1", "::"}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct pair p = connect_to(rows[i][0], rows[i][1]);
        uid_t user = NOBODY;

        assert_int_equal(as_peer_user(p.server, &user), 0);
        assert_int_equal(user, geteuid());
        end(p);
    }
}

/* A peer that has shut down its write side still has a user. */
static void peer_that_shut_down_its_write_side(void **state AS_UNUSED)
{
    struct pair p = connect_to("127.0.0.1", "127.0.0.1");
    uid_t user = NOBODY;

    assert_int_equal(shutdown(p.client, SHUT_WR), 0);
    assert_int_equal(as_peer_user(p.server, &user), 0);
    assert_int_equal(user, geteuid());
    end(p);
}

/* For a socket without a process the kernel names root, which must not be believed. */
static void peer_that_closed_its_socket(void **state AS_UNUSED)
{
    struct pair p = connect_to("127.0.0.1", "127.0.0.1");
    uid_t user = NOBODY;

    close(p.client);
    assert_int_equal(as_peer_user(p.server, &user), AS_EIO);
    assert_int_equal(user, NOBODY);
    close(p.server);
}

/* The user is the peer's, not ours. */
static void peer_of_another_user(void **state AS_UNUSED)
{
    struct pair p;
    uid_t user = NOBODY, root = geteuid();

    if (root != 0) {
        print_message("not root: a socket cannot be another user's\n");
        skip();
    }
    assert_int_equal(seteuid(NOBODY), 0); /* sockets belong to the effective user */
    p = connect_to("127.0.0.1", "127.0.0.1");
    assert_int_equal(seteuid(root), 0);
    assert_int_equal(as_peer_user(p.server, &user), 0);
    assert_int_equal(user, NOBODY);
    end(p);
}

static void unix_socket(void **state AS_UNUSED)
{
    uid_t user = NOBODY;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(as_peer_user(fds[0], &user), 0);
    assert_int_equal(user, geteuid());
    close(fds[0]);
    close(fds[1]);
}

static void unconnected_socket(void **state AS_UNUSED)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), file = dup(2);
    uid_t user = NOBODY;

    assert_int_equal(as_peer_user(fd, &user), AS_EIO);
    assert_int_equal(as_peer_user(file, &user), AS_EIO);
    assert_int_equal(as_peer_user(-1, &user), AS_EIO);
    assert_int_equal(user, NOBODY);
    close(fd);
    close(file);
}

static void loopback(void **state AS_UNUSED)
{
    static const struct {
        const char *host;
        bool here;
    } rows[] = {
        {"127.0.0.1", true},
        {"127.255.255.254", true},
        {"126.255.255.255", false},
        {"128.0.0.0", false},
        {"10.0.0.1", false},
        {"0.0.0.0", false},
        {"::1", true},
        {"::", false},
        {"::2", false},
        {"::ffff:127.0.0.1", true},
        {"::ffff:10.0.0.1", false},
        {"fe80::1", false},
        {"::127.0.0.1", false},
    };
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    socklen_t n;

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct sockaddr_storage a = address(rows[i].host, 1, &n);

        if (as_peer_is_loopback((struct sockaddr *)&a) != rows[i].here)
            fail_msg("%s", rows[i].host);
    }
    assert_false(as_peer_is_loopback((struct sockaddr *)&un));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp),
        cmocka_unit_test(peer_that_shut_down_its_write_side),
        cmocka_unit_test(peer_that_closed_its_socket),
        cmocka_unit_test(peer_of_another_user),
        cmocka_unit_test(unix_socket),
        cmocka_unit_test(unconnected_socket),
        cmocka_unit_test(loopback),
    };

    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
