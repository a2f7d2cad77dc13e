/* Specification of ctl/message/reexec_state: the state over an upgrade's exec. */
#include "ctl/message/reexec_state.h"

#include "unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Writes the state, and reads it by `read_fn`. Returns the error, or "". */
static const char *read_back(struct as_reexec_writer *c,
                             void (*read_fn)(struct as_reexec_reader *in))
{
    static char text[256];
    struct as_reexec_reader in;
    struct as_buf err = {0};
    int fd = as_reexec_make_memfd(c);

    assert_true(fd >= 0);
    if (as_reexec_reader_load(&in, fd, true, &err) == 0) {
        read_fn(&in);
        as_reexec_reader_fini(&in);
    }
    snprintf(text, sizeof(text), "%.*s", AS_STR_FMT(as_buf_slice(&err)));
    as_buf_fini(&err);
    as_reexec_writer_fini(c);
    close(fd);
    return text;
}

static void read_all(struct as_reexec_reader *in)
{
    char *copy;

    assert_int_equal(as_reexec_get_u64(in, "count", 7), 7);
    assert_true(as_str_eq(as_reexec_get(in, "text"), (struct as_str){"a\nb\0:", 5}));
    assert_true(as_str_eq(as_reexec_get(in, "nothing"), AS_STR("")));
    copy = as_reexec_get_dup(in, "name");
    assert_string_equal(copy, "echo-0");
    free(copy);
    assert_int_equal(as_reexec_get_fd(in, "pipe"), 9);
    assert_int_equal(as_reexec_get_fd(in, "none"), -1);
    assert_false(in->failed);
    assert_int_equal(in->rest.n, 0);
}

static void written_values_are_read(void **state AS_UNUSED)
{
    struct as_reexec_writer c;

    as_reexec_writer_init(&c);
    as_reexec_put_u64(&c, "count", 7);
    as_reexec_put(&c, "text", (struct as_str){"a\nb\0:", 5});
    as_reexec_put(&c, "nothing", AS_STR(""));
    as_reexec_put(&c, "name", AS_STR("echo-0"));
    as_reexec_put_fd(&c, "pipe", 9);
    as_reexec_put_fd(&c, "none", -1);
    assert_string_equal(read_back(&c, read_all), "");
}

static void read_another_key(struct as_reexec_reader *in)
{
    assert_int_equal(as_reexec_get_u64(in, "size", 100), 0);
    assert_true(in->failed);
    /* nothing more is read, and the first error is reported */
    assert_int_equal(as_reexec_get(in, "count").n, 0);
    assert_int_equal(as_reexec_get_fd(in, "count"), -1);
}

static void another_key_is_an_error(void **state AS_UNUSED)
{
    struct as_reexec_writer c;

    as_reexec_writer_init(&c);
    as_reexec_put_u64(&c, "count", 7);
    assert_string_equal(read_back(&c, read_another_key),
                        "the running supervisor's state cannot be read: "
                        "it has no 'size' where it is expected");
}

static void read_numbers(struct as_reexec_reader *in)
{
    assert_int_equal(as_reexec_get_u64(in, "most", 100), 100);
    assert_int_equal(as_reexec_get_u64(in, "more", 100), 0);
    assert_true(in->failed);
}

static void numbers_are_bounded(void **state AS_UNUSED)
{
    struct as_reexec_writer c;

    as_reexec_writer_init(&c);
    as_reexec_put_u64(&c, "most", 100);
    as_reexec_put_u64(&c, "more", 101);
    assert_non_null(strstr(read_back(&c, read_numbers), "'more' is no number in its range"));
}

static void read_nothing(struct as_reexec_reader *in AS_UNUSED)
{
    fail();
}

static void another_format_is_refused(void **state AS_UNUSED)
{
    struct as_reexec_writer c = {0};

    as_reexec_put_u64(&c, "anyserve-supervisor", AS_REEXEC_FORMAT + 1);
    assert_non_null(strstr(read_back(&c, read_nothing), "another format"));
    as_reexec_put(&c, "something", AS_STR("else"));
    assert_non_null(strstr(read_back(&c, read_nothing), "it has no 'anyserve-supervisor'"));
    assert_non_null(strstr(read_back(&c, read_nothing), "it has no 'anyserve-supervisor'"));
}

/* Sparse: it uses no memory. */
static void a_file_that_is_too_large_is_an_error(void **state AS_UNUSED)
{
    struct as_reexec_reader in;
    struct as_buf why;
    int fd = memfd_create("t_carry", MFD_CLOEXEC);

    as_buf_init(&why);
    assert_int_equal(ftruncate(fd, (off_t)AS_REEXEC_MAX + 1), 0);
    assert_int_equal(as_reexec_reader_load(&in, fd, true, &why), AS_EPROTO);
    as_buf_add(&why, "", 1);
    assert_non_null(strstr((char *)why.p, "has more than 67108864 bytes"));
    as_buf_fini(&why);
    close(fd);
}

static void read_rubbish(struct as_reexec_reader *in)
{
    assert_int_equal(as_reexec_get(in, "a").n, 0);
    assert_true(in->failed);
}

static void lengths_are_checked(void **state AS_UNUSED)
{
    static const char *const bad[] = {"a 5:1234\n", "a 3:1234\n", "a :\n",
                                      "a x:\n",     "a 1",        "a 18446744073709551615:1\n",
                                      "a",          "a 4:1234"};

    for (size_t i = 0; i < AS_COUNT(bad); i++) {
        struct as_reexec_writer c;

        as_reexec_writer_init(&c);
        as_buf_str(&c.text, bad[i]);
        assert_non_null(strstr(read_back(&c, read_rubbish), "cannot be read"));
    }
}

static void a_state_is_bounded(void **state AS_UNUSED)
{
    int file = memfd_create("state", MFD_CLOEXEC);
    struct as_reexec_reader in;
    struct as_buf err = {0};

    for (size_t more = 0; more < 2; more++) {
        as_buf_drop(&err, err.n);
        assert_int_equal(ftruncate(file, (off_t)(AS_REEXEC_MAX + more)), 0);
        assert_int_equal(as_reexec_reader_load(&in, file, true, &err), AS_EPROTO);
        as_buf_add(&err, "", 1);
        assert_non_null(strstr((char *)err.p,
                               more ? "'state' is too long" : "it has no 'anyserve-supervisor'"));
    }
    as_buf_fini(&err);
    close(file);
}

static int flags(int fd)
{
    return fcntl(fd, F_GETFD);
}

static void descriptors_live_through_an_exec(void **state AS_UNUSED)
{
    struct as_reexec_writer c;
    struct as_reexec_reader in;
    struct as_buf err = {0};
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), file;

    as_reexec_writer_init(&c);
    as_reexec_put_fd(&c, "null", fd);
    file = as_reexec_make_memfd(&c);
    assert_int_equal(flags(file), FD_CLOEXEC);
    as_reexec_set_inherited(&c, file, true);
    assert_int_equal(flags(fd) | flags(file), 0);
    as_reexec_set_inherited(&c, file, false); /* the exec failed */
    assert_int_equal(flags(fd) & flags(file), FD_CLOEXEC);
    as_reexec_set_inherited(&c, file, true);
    assert_int_equal(as_reexec_reader_load(&in, file, false, &err), 0);
    assert_int_equal(as_reexec_get_fd(&in, "null"), fd);
    assert_int_equal(flags(fd), FD_CLOEXEC);
    as_reexec_reader_fini(&in);
    close(fd);
    assert_int_equal(as_reexec_reader_load(&in, file, false, &err), 0);
    assert_int_equal(as_reexec_get_fd(&in, "null"), -1);
    assert_true(in.failed);
    as_reexec_reader_fini(&in);
    as_buf_fini(&err);
    as_reexec_writer_fini(&c);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_values_are_read),
        cmocka_unit_test(another_key_is_an_error),
        cmocka_unit_test(numbers_are_bounded),
        cmocka_unit_test(another_format_is_refused),
        cmocka_unit_test(a_file_that_is_too_large_is_an_error),
        cmocka_unit_test(lengths_are_checked),
        cmocka_unit_test(a_state_is_bounded),
        cmocka_unit_test(descriptors_live_through_an_exec),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
