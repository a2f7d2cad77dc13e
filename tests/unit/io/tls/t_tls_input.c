/* Specification of io/tls/tls_input: which bytes OpenSSL gets, and when. */
#include "io/tls/tls_input.h"

#include "base/err.h"
#include "base/memory/live.h"
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD_MAX (16384u + 2048u) /* bytes of the content of TLS 1.2's longest record */

static struct as_loop *loop;
static struct as_tls_received *received;
static struct as_tls_input input;
static int fd[2];
static uint8_t out[70000];

static int set_up(void **state AS_UNUSED)
{
    assert_int_equal(as_loop_new(&loop, 0), 0);
    received = as_xalloc(sizeof(*received));
    input = (struct as_tls_input){.kept = NULL};
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd);
}

static int tear_down(void **state AS_UNUSED)
{
    as_tls_input_free(&input);
    free(received);
    close(fd[0]);
    if (fd[1] >= 0)
        close(fd[1]);
    as_loop_free(loop);
    return 0;
}

/* Sends the head of a record of n bytes, and `sent` of these. */
static void send_record(size_t n, size_t sent)
{
    static uint8_t record[5 + 70000];

    record[0] = 23;
    record[1] = record[2] = 3;
    record[3] = (uint8_t)(n >> 8);
    record[4] = (uint8_t)n;
    assert_int_equal(write(fd[1], record, 5 + sent), 5 + sent);
}

/* One use of the input, as by OpenSSL: takes at most n bytes. */
static int take(int n)
{
    int k;

    as_tls_input_begin(&input, received);
    (void)as_tls_input_receive(&input, received, fd[0], loop);
    k = as_tls_input_take(&input, received, out, n);
    assert_int_equal(as_tls_input_end(&input, received), 0);
    return k;
}

static void records_one_by_one(void **state AS_UNUSED)
{
    uint64_t reads = loop->stat.reads;

    assert_int_equal(take(5), AS_EAGAIN);
    assert_int_equal(loop->stat.reads, reads + 1);
    send_record(10, 10);
    send_record(20, 20);
    reads = loop->stat.reads;
    assert_int_equal(take(5), 5);
    assert_int_equal(take(1000), 10); /* not the next record */
    assert_int_equal(take(1000), 25);
    assert_int_equal(loop->stat.reads, reads + 1);
    assert_int_equal(take(1000), AS_EAGAIN);
}

/* Nothing of a record before all of it is there; meanwhile it costs what has come. */
static void parts(void **state AS_UNUSED)
{
    size_t live = as_live_bytes();

    send_record(4000, 100);
    assert_int_equal(take(5), AS_EAGAIN);
    assert_int_equal(as_live_bytes(), live + 105);
    assert_int_equal(write(fd[1], out, 3899), 3899);
    assert_int_equal(take(5), AS_EAGAIN);
    assert_int_equal(as_live_bytes(), live + 4004);
    assert_int_equal(write(fd[1], out, 1), 1);
    assert_int_equal(take(5000), 4005);
    assert_int_equal(as_live_bytes(), live);
}

static void a_use_receives_once(void **state AS_UNUSED)
{
    uint64_t reads = loop->stat.reads;

    send_record(10, 10);
    as_tls_input_begin(&input, received);
    assert_false(as_tls_input_is_ready(&input, received));
    assert_true(as_tls_input_receive(&input, received, fd[0], loop));
    assert_int_equal(as_tls_input_take(&input, received, out, 1000), 15);
    send_record(10, 10); /* for the next use: the socket had no more */
    assert_false(as_tls_input_receive(&input, received, fd[0], loop));
    assert_int_equal(as_tls_input_take(&input, received, out, 1000), AS_EAGAIN);
    assert_int_equal(as_tls_input_end(&input, received), 0);
    assert_int_equal(loop->stat.reads, reads + 1);
    assert_int_equal(take(1000), 15);
}

/* The longest record that there may be, and one that is longer: OpenSSL says what is wrong. */
static void the_longest_record(void **state AS_UNUSED)
{
    send_record(RECORD_MAX, RECORD_MAX - 1);
    assert_int_equal(take(5), AS_EAGAIN);
    assert_int_equal(write(fd[1], out, 1), 1);
    assert_int_equal(take(70000), 5 + RECORD_MAX);
    assert_false(input.is_alien);
    send_record(RECORD_MAX + 1, 0);
    assert_int_equal(take(70000), 5);
    assert_true(input.is_alien);
}

static void what_is_no_record(void **state AS_UNUSED)
{
    static const char *texts[] = {"G", "\x18\x03", "\x13", "\x17\x02\x03", "\x16\x04"};

    for (size_t i = 0; i < AS_COUNT(texts); i++) {
        int n = (int)strlen(texts[i]);

        input.is_alien = false;
        assert_int_equal(write(fd[1], texts[i], (size_t)n), n);
        assert_int_equal(take(1000), n);
        assert_true(input.is_alien);
        assert_int_equal(take(1000), AS_EAGAIN);
        assert_int_equal(write(fd[1], "\x16", 1), 1); /* no record begins any more */
        assert_int_equal(take(1000), 1);
    }
}

static void the_end(void **state AS_UNUSED)
{
    send_record(10, 10);
    send_record(10, 3);
    close(fd[1]);
    fd[1] = -1;
    assert_int_equal(take(1000), 15);
    assert_int_equal(take(1000), 8); /* as much as came of the last one */
    assert_int_equal(take(1000), AS_EOF);
    assert_int_equal(take(1000), AS_EOF);
}

static void a_socket_that_fails(void **state AS_UNUSED)
{
    close(fd[0]);
    fd[0] = open("/dev/null", O_RDONLY | O_CLOEXEC); /* no socket */
    assert_int_equal(take(1000), AS_EIO);
    assert_int_equal(take(1000), AS_EIO);
}

/* More than one system call receives: many records, the last one cut. */
static void more_than_the_buffer(void **state AS_UNUSED)
{
    size_t taken = 0, live = as_live_bytes();
    int k;

    for (int i = 0; i < 10; i++)
        send_record(9000, 9000);
    while ((k = take(100000)) > 0) {
        assert_int_equal(k, 9005);
        taken += (size_t)k;
        assert_true(as_live_bytes() - live < AS_TLS_RECEIVE);
    }
    assert_int_equal(k, AS_EAGAIN);
    assert_int_equal(taken, 10 * 9005);
    assert_int_equal(as_live_bytes(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_use_receives_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_longest_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_socket_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_the_buffer, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
