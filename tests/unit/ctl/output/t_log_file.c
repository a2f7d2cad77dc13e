/* Specification of ctl/output/log_file: a log that is written to by several processes stays
 * bounded. */
#include "ctl/output/log_file.h"

#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOUND 1024u

static char folder[32], path[64];
static struct as_loop *loop;
static struct as_log_file file;
static char said[512];

static void sink(void *ctx AS_UNUSED, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    snprintf(said, sizeof(said), "%.*s", (int)n, line);
}

static const struct as_log logs = {.level = AS_LOG_INFO, .sink = sink};

static int set_up(void **state AS_UNUSED)
{
    snprintf(folder, sizeof(folder), "/tmp/as_log_XXXXXX");
    said[0] = 0;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/server.log", folder);
    return as_loop_new(&loop, 0);
}

static int tear_down(void **state AS_UNUSED)
{
    char command[64];

    as_loop_free(loop);
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static int open_log(uint32_t count)
{
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    as_log_file_init(&file, loop, fd, path, BOUND, count, &logs);
    return fd;
}

/* Runs the loop until the timer is closed. */
static void close_log(void)
{
    as_log_file_close(&file);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
}

/* n bytes of c. */
static void print(int fd, char c, size_t n)
{
    char *text = malloc(n);

    memset(text, c, n);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
    free(text);
    as_log_file_add_written(&file, n);
}

/* Its size and first byte; -1: there is none. */
static void check(const char *end, int size, char first)
{
    char name[80], byte = 0;
    struct stat st;
    int fd;

    snprintf(name, sizeof(name), "%s%s", path, end);
    fd = open(name, O_RDONLY);
    assert_int_equal(fd >= 0, size >= 0);
    if (fd < 0)
        return;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, size);
    assert_int_equal(st.st_mode & 07777, 0600);
    if (size)
        assert_int_equal(read(fd, &byte, 1), 1);
    assert_int_equal(byte, size ? first : 0);
    close(fd);
}

static void a_file_over_its_bound_is_rotated(void **state AS_UNUSED)
{
    int fd = open_log(2);

    print(fd, 'a', BOUND);
    check("", BOUND, 'a');
    check(".1", -1, 0);
    print(fd, 'a', 1);
    as_log_file_add_written(&file, BOUND); /* checks the size now */
    check("", 0, 0);
    check(".1", BOUND + 1, 'a');
    close_log();
    close(fd);
}

static void count_old_files_are_kept(void **state AS_UNUSED)
{
    int fd = open_log(2);

    for (char c = 'a'; c <= 'd'; c++)
        print(fd, c, BOUND + 1);
    print(fd, 'e', 10);
    check("", 10, 'e');
    check(".1", BOUND + 1, 'd');
    check(".2", BOUND + 1, 'c');
    check(".3", -1, 0);
    close_log();
    close(fd);
}

static void no_old_file_is_kept(void **state AS_UNUSED)
{
    int fd = open_log(0);

    print(fd, 'a', BOUND + 1);
    check("", 0, 0);
    check(".1", -1, 0);
    close_log();
    close(fd);
}

/* Dispatcher and controller have the file open as well. */
static void other_writers_continue_in_the_truncated_file(void **state AS_UNUSED)
{
    int fd = open_log(1), other = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

    print(fd, 'a', BOUND + 1);
    assert_int_equal(write(other, "xyz", 3), 3);
    check("", 3, 'x');
    close_log();
    close(other);
    close(fd);
}

static void another_file_is_left_alone(void **state AS_UNUSED)
{
    int fd = open_log(1);

    close_log();
    assert_int_equal(unlink(path), 0);
    close(open(path, O_RDWR | O_CREAT, 0600));
    as_log_file_init(&file, loop, fd, path, BOUND, 1, &logs);
    print(fd, 'a', 2 * BOUND);
    check("", 0, 0);
    check(".1", -1, 0);
    close_log();
    as_log_file_init(&file, loop, STDIN_FILENO, "/dev/null", BOUND, 1, &logs);
    as_log_file_add_written(&file, 2 * BOUND);
    close_log();
    close(fd);
    as_log_file_add_written(NULL, BOUND);
}

/* The copy cannot be made: nothing is lost, and one line is logged. */
static void a_failed_rotation_is_logged_once(void **state AS_UNUSED)
{
    int fd = open_log(1);
    char name[80];

    snprintf(name, sizeof(name), "%s.2", path);
    assert_int_equal(mkdir(name, 0700), 0);
    print(fd, 'a', BOUND + 1);
    check("", BOUND + 1, 'a');
    assert_string_equal(said, ""); /* not at once: the caller may be the log itself */
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    assert_non_null(strstr(said, "log_not_set_aside"));
    said[0] = 0;
    print(fd, 'a', BOUND);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    assert_string_equal(said, "");
    assert_int_equal(rmdir(name), 0);
    print(fd, 'a', BOUND);
    check("", 0, 0);
    check(".1", 3 * BOUND + 1, 'a');
    close_log();
    close(fd);
}

static void a_long_file_is_renamed_at_the_start(void **state AS_UNUSED)
{
    int fd = open_log(2);

    close_log();
    print(fd, 'a', BOUND);
    as_log_file_rotate(path, BOUND, 2);
    check(".1", -1, 0);
    print(fd, 'a', 1);
    as_log_file_rotate(path, BOUND, 2);
    check("", -1, 0);
    check(".1", BOUND + 1, 'a');
    close(fd);
    fd = open_log(2);
    close_log();
    print(fd, 'b', BOUND + 2);
    as_log_file_rotate(path, BOUND, 2);
    check(".1", BOUND + 2, 'b');
    check(".2", BOUND + 1, 'a');
    close(fd);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_file_over_its_bound_is_rotated),
        IN_FOLDER(count_old_files_are_kept),
        IN_FOLDER(no_old_file_is_kept),
        IN_FOLDER(other_writers_continue_in_the_truncated_file),
        IN_FOLDER(another_file_is_left_alone),
        IN_FOLDER(a_failed_rotation_is_logged_once),
        IN_FOLDER(a_long_file_is_renamed_at_the_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
