/* Specification of io/loop/fd_io: gathered reads and writes, and descriptors beside the bytes. */
#include "io/loop/fd_io.h"

#include "base/err.h"
#include "unit.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int pair[2];
static struct as_outq out;
static uint64_t calls;

static int setup(void **state AS_UNUSED)
{
    as_outq_init(&out);
    calls = 0;
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair);
}

static int teardown(void **state AS_UNUSED)
{
    as_outq_fini(&out);
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static void one_call_fills_two_pieces(void **state AS_UNUSED)
{
    char a[3], b[8];
    struct iovec iov[2] = {{a, sizeof(a)}, {b, sizeof(b)}};

    assert_int_equal(as_fd_io_read(pair[1], iov, 2, NULL), AS_EAGAIN);
    as_outq_copy(&out, "abcde", 5);
    assert_int_equal(as_fd_io_flush(pair[0], &out, -1, &calls), 0);
    assert_int_equal(calls, 1);
    assert_int_equal(as_fd_io_readable(pair[1]), 5);
    assert_int_equal(as_fd_io_read(pair[1], iov, 2, NULL), 5);
    assert_memory_equal(a, "abc", 3);
    assert_memory_equal(b, "de", 2);
    close(pair[0]);
    assert_int_equal(as_fd_io_read(pair[1], iov, 1, NULL), AS_EOF);
    pair[0] = -1;
}

static void a_descriptor_goes_with_the_first_bytes(void **state AS_UNUSED)
{
    struct stat mine, theirs;
    char first, rest[4];
    struct iovec one = {&first, 1}, more = {rest, sizeof(rest)};
    int fd = 0;

    as_outq_copy(&out, "abc", 3);
    assert_int_equal(as_fd_io_flush(pair[0], &out, pair[1], &calls), 0);
    assert_int_equal(as_fd_io_read(pair[1], &one, 1, &fd), 1);
    assert_int_equal(fstat(pair[1], &mine) + fstat(fd, &theirs), 0);
    assert_int_equal(mine.st_ino, theirs.st_ino);
    close(fd);
    assert_int_equal(as_fd_io_read(pair[1], &more, 1, &fd), 2);
    assert_int_equal(fd, -1);
}

static void what_has_no_room_stays(void **state AS_UNUSED)
{
    static uint8_t bytes[1 << 20];
    struct iovec iov = {bytes, sizeof(bytes)};
    size_t left;

    as_outq_copy(&out, bytes, sizeof(bytes));
    as_outq_copy(&out, bytes, sizeof(bytes));
    assert_int_equal(as_fd_io_flush(pair[0], &out, -1, &calls), AS_EAGAIN);
    left = out.bytes;
    assert_true(left > 0 && left < 2 * sizeof(bytes));
    assert_true(as_fd_io_read(pair[1], &iov, 1, NULL) > 0);
    (void)as_fd_io_flush(pair[0], &out, -1, &calls);
    assert_true(out.bytes < left);
    close(pair[1]);
    assert_int_equal(as_fd_io_flush(pair[0], &out, -1, &calls), AS_EIO);
    out.broken = true;
    assert_int_equal(as_fd_io_flush(pair[0], &out, -1, &calls), AS_ENOMEM);
    pair[1] = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_call_fills_two_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(a_descriptor_goes_with_the_first_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_has_no_room_stays, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
