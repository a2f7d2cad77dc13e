/* Specification of io/socket/notify: messages to a service manager. */
#include "io/socket/notify.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A manager's socket at `text`, as $NOTIFY_SOCKET has it. */
static int listen_at(const char *text)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(text));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    memcpy(a.sun_path, text, strlen(text));
    if (text[0] == '@')
        a.sun_path[0] = 0;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    return fd;
}

static void check_heard(int fd, const char *want)
{
    char text[256];
    ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

    assert_true(n >= 0);
    text[n] = 0;
    assert_string_equal(text, want);
}

static void take(struct as_notify *n, const char *text)
{
    setenv("NOTIFY_SOCKET", text, 1);
    assert_int_equal(as_notify_init(n), 0);
    assert_null(getenv("NOTIFY_SOCKET")); /* child processes must not have it */
}

static void each_message_is_one_datagram(void **state AS_UNUSED)
{
    char path[64];
    struct as_notify n;
    int fd;

    snprintf(path, sizeof(path), "/tmp/as_notify_%d", (int)getpid());
    fd = listen_at(path);
    take(&n, path);
    assert_int_equal(as_notify_send(&n, "READY=1\nSTATUS=4 replicas"), 0);
    assert_int_equal(as_notify_send(&n, "STOPPING=1"), 0);
    check_heard(fd, "READY=1\nSTATUS=4 replicas");
    check_heard(fd, "STOPPING=1");
    close(fd);
    /* the manager has gone: an error, and nothing else happens */
    assert_int_equal(as_notify_send(&n, "READY=1"), AS_EIO);
    unlink(path);
    assert_int_equal(as_notify_send(&n, "READY=1"), AS_EIO);
}

static void an_abstract_name_starts_with_an_at(void **state AS_UNUSED)
{
    char name[64];
    struct as_notify n;
    int fd;

    snprintf(name, sizeof(name), "@as_notify_%d", (int)getpid());
    fd = listen_at(name);
    take(&n, name);
    assert_int_equal(as_notify_send(&n, "READY=1"), 0);
    check_heard(fd, "READY=1");
    close(fd);
    /* the abstract socket has vanished, which is no error */
    assert_int_equal(as_notify_send(&n, "STOPPING=1"), 0);
}

static void without_a_manager_nothing_is_sent(void **state AS_UNUSED)
{
    struct as_notify n;

    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(as_notify_init(&n), 0);
    assert_int_equal(as_notify_send(&n, "READY=1"), 0);
    take(&n, "");
    assert_int_equal(as_notify_send(&n, "READY=1"), 0);
}

static void an_invalid_address_is_refused(void **state AS_UNUSED)
{
    char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
    const char *bad[] = {"relative/path", "/", "@", path};
    struct as_notify n;

    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = 0;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("NOTIFY_SOCKET", bad[i], 1);
        assert_int_equal(as_notify_init(&n), AS_EINVALID);
        assert_null(getenv("NOTIFY_SOCKET"));
        assert_int_equal(as_notify_send(&n, "READY=1"), 0);
    }
    /* one byte less fits */
    path[sizeof(path) - 2] = 0;
    take(&n, path);
    assert_int_equal(n.n, sizeof(struct sockaddr_un));
}

/* Calls as_notify_init_watchdog with the two variables. */
static int watchdog(struct as_notify *n, const char *usec, const char *pid)
{
    int rc;

    as_notify_unset_watchdog();
    if (usec)
        setenv("WATCHDOG_USEC", usec, 1);
    if (pid)
        setenv("WATCHDOG_PID", pid, 1);
    rc = as_notify_init_watchdog(n);
    assert_null(getenv("WATCHDOG_USEC"));
    assert_null(getenv("WATCHDOG_PID"));
    return rc;
}

static void a_watchdog_of_another_process_is_ignored(void **state AS_UNUSED)
{
    struct as_notify n;
    char own[16], other[16];

    snprintf(own, sizeof(own), "%d", (int)getpid());
    snprintf(other, sizeof(other), "%d", (int)getppid());
    take(&n, "/tmp/as_notify");
    assert_int_equal(watchdog(&n, NULL, NULL), 0);
    assert_int_equal(n.watchdog_us, 0);
    assert_int_equal(watchdog(&n, "30000000", own), 0);
    assert_int_equal(n.watchdog_us, 30000000);
    assert_int_equal(watchdog(&n, "1", NULL), 0);
    assert_int_equal(n.watchdog_us, 1);
    assert_int_equal(watchdog(&n, "30000000", other), 0);
    assert_int_equal(n.watchdog_us, 0);
    /* there is no manager */
    take(&n, "");
    assert_int_equal(watchdog(&n, "30000000", own), 0);
    assert_int_equal(n.watchdog_us, 0);
}

static void an_invalid_watchdog_is_refused(void **state AS_UNUSED)
{
    const char *bad[] = {"", "soon", "-1", "1.5", "18446744073709552", "99999999999999999999"};
    struct as_notify n;

    take(&n, "/tmp/as_notify");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(watchdog(&n, bad[i], NULL), AS_EINVALID);
        assert_int_equal(n.watchdog_us, 0);
    }
    assert_int_equal(watchdog(&n, "1", "me"), AS_EINVALID);
    assert_int_equal(n.watchdog_us, 0);
    /* the largest value in nanoseconds */
    assert_int_equal(watchdog(&n, "18446744073709551", NULL), 0);
    assert_true(n.watchdog_us == 18446744073709551u);
}

static void the_next_program_gets_the_watchdog(void **state AS_UNUSED)
{
    struct as_notify n;

    take(&n, "/tmp/as_notify");
    n.watchdog_us = 1234;
    assert_int_equal(as_notify_export_watchdog(&n), 0);
    n.watchdog_us = 0;
    assert_int_equal(as_notify_init_watchdog(&n), 0);
    assert_int_equal(n.watchdog_us, 1234);
    assert_null(getenv("WATCHDOG_USEC"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_message_is_one_datagram),
        cmocka_unit_test(an_abstract_name_starts_with_an_at),
        cmocka_unit_test(without_a_manager_nothing_is_sent),
        cmocka_unit_test(an_invalid_address_is_refused),
        cmocka_unit_test(a_watchdog_of_another_process_is_ignored),
        cmocka_unit_test(an_invalid_watchdog_is_refused),
        cmocka_unit_test(the_next_program_gets_the_watchdog),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
