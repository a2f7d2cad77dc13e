/* Specification of ctl/message/reexec_state: the state over an upgrade's exec, also to and from
 * other versions. */
#include "ctl/message/reexec_state.h"

#include "unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct as_buf err;

static int memfd_of(const void *p, size_t n)
{
    int fd = memfd_create("state", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), (ssize_t)n);
    return fd;
}

/* A dry read. The error is a text in `err`. */
static int load(int fd, struct as_reexec_reader *in)
{
    int rc;

    as_buf_fini(&err);
    rc = as_reexec_reader_load(in, fd, true, &err);
    as_buf_add(&err, "", 1);
    close(fd);
    return rc;
}

static void expect_refused(const char *text, size_t n, const char *why)
{
    struct as_reexec_reader in;

    assert_int_equal(load(memfd_of(text, n), &in), AS_EPROTO);
    assert_non_null(strstr((char *)err.p, "the running supervisor's state cannot be read"));
    assert_non_null(strstr((char *)err.p, why));
    as_buf_fini(&err);
}

/* A state that this version writes, as bytes. */
static struct as_buf written(As__Supervisor *state)
{
    struct as_buf b = {0};
    int fd = as_reexec_make_memfd(state);
    ssize_t n = lseek(fd, 0, SEEK_END);

    assert_int_equal(pread(fd, as_buf_reserve(&b, (size_t)n), (size_t)n, 0), n);
    b.n = (size_t)n;
    close(fd);
    as_reexec_free(state);
    return b;
}

static As__Supervisor *sample(void)
{
    As__Supervisor *s = as_reexec_new(&as__supervisor__descriptor);
    As__Replica *r = as_reexec_new(&as__replica__descriptor);

    s->minor = AS_REEXEC_MINOR;
    s->oom_seen = UINT64_MAX;
    s->app = as_reexec_put_fd(s, 9);
    s->signals = as_reexec_put_fd(s, -1);
    s->console = as_reexec_bytes((struct as_str){"a\nb\0:", 5});
    r->name = as_str_dup(AS_STR("echo-0"));
    AS_REEXEC_APPEND(s, replicas, r);
    return s;
}

static void written_values_are_read(void **state AS_UNUSED)
{
    struct as_buf b = written(sample());
    struct as_reexec_reader in;

    assert_int_equal(load(memfd_of(b.p, b.n), &in), 0);
    assert_int_equal(in.state->minor, AS_REEXEC_MINOR);
    assert_true(in.state->oom_seen == UINT64_MAX);
    assert_true(as_str_eq(as_reexec_str(in.state->console), (struct as_str){"a\nb\0:", 5}));
    assert_int_equal(in.state->n_replicas, 1);
    assert_string_equal(in.state->replicas[0]->name, "echo-0");
    assert_int_equal(as_reexec_take_fd(&in, "app", in.state->app), 9);
    assert_int_equal(as_reexec_take_fd(&in, "signals", in.state->signals), -1);
    assert_false(in.failed);
    assert_int_equal(in.state->n_fds, 0);
    as_reexec_reader_fini(&in);
    as_buf_fini(&b);
}

static void missing_values_have_defaults(void **state AS_UNUSED)
{
    struct as_buf b = written(as_reexec_new(&as__supervisor__descriptor));
    struct as_reexec_reader in;

    assert_int_equal(load(memfd_of(b.p, b.n), &in), 0);
    assert_string_equal(in.state->program, "");
    assert_int_equal(in.state->console.len, 0);
    assert_int_equal(in.state->n_replicas, 0);
    assert_null(in.state->command);
    assert_int_equal(as_reexec_take_fd(&in, "app", in.state->app), -1);
    assert_false(in.failed);
    as_reexec_reader_fini(&in);
    as_buf_fini(&b);
}

static void another_format_is_refused(void **state AS_UNUSED)
{
    static const char later[] = "anyserve-supervisor 1:5\n", other[] = "something 4:else\n";
    static const char no_message[] = "anyserve-supervisor 1:4\n\xff\xff";

    expect_refused(later, sizeof(later) - 1, "another format");
    expect_refused(other, sizeof(other) - 1, "another format");
    expect_refused(later, 5, "another format");
    expect_refused(later, 0, "another format");
    expect_refused(no_message, sizeof(no_message) - 1, "is no message of proto/state.proto");
}

/* Sparse: it uses no memory. */
static void a_state_is_bounded(void **state AS_UNUSED)
{
    for (size_t more = 0; more < 2; more++) {
        int fd = memfd_create("t_carry", MFD_CLOEXEC);
        struct as_reexec_reader in;

        assert_int_equal(ftruncate(fd, (off_t)(AS_REEXEC_MAX + more)), 0);
        assert_int_equal(load(fd, &in), AS_EPROTO);
        assert_non_null(strstr((char *)err.p, more ? "has more than 67108864 bytes" : "format"));
    }
    as_buf_fini(&err);
}

/* Whatever is cut off: refused, or read with what is left. */
static void a_cut_state_does_no_harm(void **state AS_UNUSED)
{
    struct as_buf b = written(sample());
    size_t n_refused = 0;

    for (size_t n = 0; n < b.n; n++) {
        struct as_reexec_reader in;

        if (load(memfd_of(b.p, n), &in) == 0)
            as_reexec_reader_fini(&in);
        else
            n_refused++;
    }
    assert_true(n_refused > b.n / 2);
    as_buf_fini(&err);
    as_buf_fini(&b);
}

static void expect_former_refused(const char *body, const char *why)
{
    struct as_buf b = {0};

    as_buf_printf(&b, "anyserve-supervisor 1:3\n%s", body);
    expect_refused((const char *)b.p, b.n, why);
    as_buf_fini(&b);
}

static void lengths_of_the_former_format_are_checked(void **state AS_UNUSED)
{
    static const char *const bad[] = {"messages 5:1234\n", "messages 3:1234\n",
                                      "messages :\n",      "messages x:\n",
                                      "messages 1",        "messages 18446744073709551615:1\n",
                                      "messages",          "messages 4:1234"};

    for (size_t i = 0; i < AS_COUNT(bad); i++)
        expect_former_refused(bad[i], i < 4 || i == 5 ? "length" : "'messages'");
}

static void keys_of_the_former_format_have_an_order(void **state AS_UNUSED)
{
    expect_former_refused("version 1:1\n", "'messages' is not where it is expected");
    expect_former_refused("messages 1:3\nversion 1:1\naddress 1:1\n", "'program'");
}

static void numbers_of_the_former_format_are_bounded(void **state AS_UNUSED)
{
    expect_former_refused("messages 1:3\nversion 1:1\nprogram 1:p\naddress 1:a\ntarget 0:\n"
                          "app 0:\nsignals 0:\nlisteners 1:9\n",
                          "'listeners' is no number in its range");
    expect_former_refused("messages 1:4\n", "'messages' are of another format");
    expect_former_refused("messages 1:x\n", "'messages' is no number");
}

static int flags(int fd)
{
    return fcntl(fd, F_GETFD);
}

static void descriptors_live_through_an_exec(void **state AS_UNUSED)
{
    As__Supervisor *s = as_reexec_new(&as__supervisor__descriptor);
    struct as_reexec_reader in;
    struct as_buf why = {0};
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), file;

    s->app = as_reexec_put_fd(s, fd);
    file = as_reexec_make_memfd(s);
    assert_int_equal(flags(file), FD_CLOEXEC);
    as_reexec_set_inherited(s, file, true);
    assert_int_equal(flags(fd) | flags(file), 0);
    as_reexec_set_inherited(s, file, false); /* the exec failed */
    assert_int_equal(flags(fd) & flags(file), FD_CLOEXEC);
    as_reexec_set_inherited(s, file, true);
    assert_int_equal(as_reexec_reader_load(&in, file, false, &why), 0);
    assert_int_equal(as_reexec_take_fd(&in, "app", in.state->app), fd);
    assert_int_equal(flags(fd), FD_CLOEXEC);
    as_reexec_close_unknown_fds(&in); /* this one is taken */
    assert_int_equal(flags(fd), FD_CLOEXEC);
    as_reexec_reader_fini(&in);
    close(fd);
    assert_int_equal(as_reexec_reader_load(&in, file, false, &why), 0);
    assert_int_equal(as_reexec_take_fd(&in, "app", in.state->app), -1);
    assert_true(in.failed);
    as_reexec_reader_fini(&in);
    as_buf_fini(&why);
    as_reexec_free(s);
    close(file);
}

/* A later version's field has a descriptor, which must not stay open for ever. */
static void descriptors_of_unknown_fields_are_closed(void **state AS_UNUSED)
{
    As__Supervisor *s = as_reexec_new(&as__supervisor__descriptor);
    struct as_reexec_reader in;
    struct as_buf why = {0};
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), file;

    (void)as_reexec_put_fd(s, fd);
    file = as_reexec_make_memfd(s);
    as_reexec_free(s);
    assert_int_equal(as_reexec_reader_load(&in, file, false, &why), 0);
    /* a number that nobody left open is none */
    assert_int_equal(as_reexec_take_fd(&in, "app", (uint32_t)file), -1);
    assert_true(in.failed);
    in.failed = false;
    as_reexec_close_unknown_fds(&in);
    assert_int_equal(flags(fd), -1);
    as_reexec_reader_fini(&in);
    as_buf_fini(&why);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_values_are_read),
        cmocka_unit_test(missing_values_have_defaults),
        cmocka_unit_test(another_format_is_refused),
        cmocka_unit_test(a_state_is_bounded),
        cmocka_unit_test(a_cut_state_does_no_harm),
        cmocka_unit_test(lengths_of_the_former_format_are_checked),
        cmocka_unit_test(keys_of_the_former_format_have_an_order),
        cmocka_unit_test(numbers_of_the_former_format_are_bounded),
        cmocka_unit_test(descriptors_live_through_an_exec),
        cmocka_unit_test(descriptors_of_unknown_fields_are_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
