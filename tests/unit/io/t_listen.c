/* Specification of io/socket/listen: listening on addresses and ports, and the codes of errors. */
#include "io/socket/listen.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int dial(uint16_t port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), rc;

    rc = connect(fd, (struct sockaddr *)&sa, sizeof(sa));
    close(fd);
    return rc;
}

static void port_zero_takes_a_free_port(void **state AS_UNUSED)
{
    uint16_t port = 0;
    int fds[3], e, n = as_listen_tcp("127.0.0.1", 0, fds, 3, &port, &e);

    assert_int_equal(n, 1);
    assert_int_equal(e, 0);
    assert_true(port > 0);
    assert_int_equal(dial(port), 0);
    assert_true(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    close(fds[0]);
    assert_int_equal(dial(port), -1);
}

static void a_busy_port_is_reported(void **state AS_UNUSED)
{
    uint16_t port = 0, other = 0;
    int fds[3], more[3], e;

    assert_int_equal(as_listen_tcp("127.0.0.1", 0, fds, 3, &port, &e), 1);
    assert_int_equal(as_listen_tcp("127.0.0.1", port, more, 3, &other, &e), AS_EEXISTS);
    assert_int_equal(e, EADDRINUSE);
    assert_int_equal(other, 0);
    close(fds[0]);
    assert_int_equal(as_listen_tcp("127.0.0.1", port, more, 3, &other, &e), 1);
    assert_int_equal(other, port);
    close(more[0]);
}

static void a_foreign_address_is_reported(void **state AS_UNUSED)
{
    uint16_t port;
    int fds[3], e;

    assert_int_equal(as_listen_tcp("192.0.2.1", 0, fds, 3, &port, &e), AS_EINVALID);
    assert_int_equal(as_listen_tcp("no such host", 0, fds, 3, &port, &e), AS_EINVALID);
}

static void all_addresses_of_a_name_share_the_port(void **state AS_UNUSED)
{
    uint16_t port = 0;
    int fds[3], e, n = as_listen_tcp("localhost", 0, fds, 3, &port, &e);

    assert_true(n >= 1);
    assert_int_equal(dial(port), 0);
    while (n > 0)
        close(fds[--n]);
}

static void a_unix_socket_is_private_and_replaces_an_old_one(void **state AS_UNUSED)
{
    char dir[] = "/tmp/as_listen_XXXXXX", path[64], path_max[200];
    struct stat st;
    int fd, again, e;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s", dir);
    assert_int_equal(as_listen_unix(path, &fd, &e), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    close(fd);
    assert_int_equal(as_listen_unix(path, &again, &e), 0);
    close(again);
    unlink(path);
    rmdir(dir);
    assert_int_equal(as_listen_unix(path, &fd, &e), AS_EIO);
    assert_int_equal(e, ENOENT);
    memset(path_max, 'x', sizeof(path_max));
    path_max[sizeof(((struct sockaddr_un *)0)->sun_path)] = 0;
    assert_int_equal(as_listen_unix(path_max, &fd, &e), AS_EINVALID);
}

static void check_address(const char *text, const char *host, uint16_t port)
{
    char got[AS_LISTEN_HOST_MAX] = "untouched";
    uint16_t n = 7;
    int rc = as_listen_parse_address(text, got, &n);

    assert_int_equal(rc, host ? 0 : AS_EINVALID);
    assert_string_equal(got, host ? host : "untouched");
    assert_int_equal(n, host ? port : 7);
}

static void addresses(void **state AS_UNUSED)
{
    char text[AS_LISTEN_HOST_MAX + 8];

    check_address("127.0.0.1:9000", "127.0.0.1", 9000);
    check_address("localhost:0", "localhost", 0);
    check_address("[::1]:65535", "::1", 65535);
    check_address("[::1]:65536", NULL, 0);
    check_address("::1:9000", NULL, 0);
    check_address("9000", NULL, 0);
    check_address(":9000", NULL, 0);
    check_address("[]:9000", NULL, 0);
    check_address("host:", NULL, 0);
    check_address("host:-1", NULL, 0);
    check_address("host:9 ", NULL, 0);
    check_address("", NULL, 0);
    memset(text, 'h', sizeof(text));
    strcpy(text + AS_LISTEN_HOST_MAX - 1, ":1");
    text[AS_LISTEN_HOST_MAX - 1] = ':';
    {
        char host[AS_LISTEN_HOST_MAX];

        memset(host, 'h', sizeof(host));
        host[sizeof(host) - 1] = 0;
        check_address(text, host, 1);
    }
    strcpy(text + AS_LISTEN_HOST_MAX - 1, "h:1");
    check_address(text, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(port_zero_takes_a_free_port),
        cmocka_unit_test(a_busy_port_is_reported),
        cmocka_unit_test(a_foreign_address_is_reported),
        cmocka_unit_test(all_addresses_of_a_name_share_the_port),
        cmocka_unit_test(a_unix_socket_is_private_and_replaces_an_old_one),
        cmocka_unit_test(addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
