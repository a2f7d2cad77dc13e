/* Specification of io/socket/rights: datagrams with descriptors. */
#include "io/socket/rights.h"

#include "unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int pair[2];

static int setup(void **state AS_UNUSED)
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state AS_UNUSED)
{
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static ino_t inode(int fd)
{
    struct stat s;

    assert_int_equal(fstat(fd, &s), 0);
    return s.st_ino;
}

static int64_t receive(char *p, size_t cap, int fds[AS_RIGHTS_MAX], uint32_t *n_fds, bool *lost)
{
    *n_fds = 99;
    return as_rights_receive(pair[1], p, cap, fds, n_fds, lost);
}

static void bytes_and_descriptors_arrive_together(void **state AS_UNUSED)
{
    int sent[AS_RIGHTS_MAX], fds[AS_RIGHTS_MAX];
    ino_t was[AS_RIGHTS_MAX];
    uint32_t n;
    bool lost;
    char p[8];

    for (uint32_t i = 0; i < AS_RIGHTS_MAX; i++) {
        sent[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        was[i] = inode(sent[i]);
    }
    assert_int_equal(receive(p, sizeof(p), fds, &n, &lost), AS_EAGAIN);
    assert_int_equal(as_rights_send(pair[0], "all", 3, sent, AS_RIGHTS_MAX), 0);
    assert_int_equal(as_rights_send(pair[0], "none", 4, NULL, 0), 0);
    for (uint32_t i = 0; i < AS_RIGHTS_MAX; i++)
        close(sent[i]); /* they are in flight */
    assert_int_equal(receive(p, sizeof(p), fds, &n, &lost), 3);
    assert_memory_equal(p, "all", 3);
    assert_int_equal(n, AS_RIGHTS_MAX);
    assert_false(lost);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(inode(fds[i]), was[i]);
        assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    assert_int_equal(receive(p, sizeof(p), fds, &n, &lost), 4);
    assert_int_equal(n, 0);
}

static void a_long_datagram_reports_its_full_length(void **state AS_UNUSED)
{
    int fds[AS_RIGHTS_MAX];
    uint32_t n;
    bool lost;
    char p[4] = "....";

    assert_int_equal(as_rights_send(pair[0], "longer", 6, &pair[0], 1), 0);
    assert_int_equal(receive(p, 3, fds, &n, &lost), 6);
    assert_memory_equal(p, "lon.", 4);
    assert_int_equal(n, 1);
    close(fds[0]);
}

static void a_full_socket_and_an_end(void **state AS_UNUSED)
{
    int fds[AS_RIGHTS_MAX], sent = 0;
    uint32_t n;
    bool lost;
    char p[8];

    while (as_rights_send(pair[0], "x", 1, &pair[0], 1) == 0)
        sent++;
    assert_true(sent > 10);
    assert_int_equal(as_rights_send(pair[0], "x", 1, NULL, 0), AS_EAGAIN);
    while (sent-- > 0) {
        assert_int_equal(receive(p, sizeof(p), fds, &n, &lost), 1);
        close(fds[0]);
    }
    close(pair[0]);
    assert_int_equal(receive(p, sizeof(p), fds, &n, &lost), AS_EOF);
    assert_int_equal(n, 0);
    assert_int_equal(as_rights_send(pair[1], "x", 1, NULL, 0), AS_EOF);
    pair[0] = -1;
}

/* Of two descriptors one has room; the bytes come whole. */
static void who_has_no_room_is_told(void **state AS_UNUSED)
{
    int two[2] = {pair[0], pair[1]}, fds[AS_RIGHTS_MAX], next = dup(pair[0]);
    struct rlimit was, one;
    uint32_t n;
    bool lost = false;
    char p[8];

    close(next);
    assert_int_equal(as_rights_send(pair[0], "two", 3, two, 2), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    one = was;
    one.rlim_cur = (rlim_t)next + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
    assert_int_equal(receive(p, sizeof(p), fds, &n, &lost), 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true(lost);
    assert_int_equal(n, 1);
    assert_int_equal(fds[0], next);
    close(fds[0]);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(bytes_and_descriptors_arrive_together),
        TEST(a_long_datagram_reports_its_full_length),
        TEST(a_full_socket_and_an_end),
        TEST(who_has_no_room_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
