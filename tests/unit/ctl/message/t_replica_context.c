/* Specification of ctl/message/replica_context: a context in the environment or in a file. */
#include "ctl/message/replica_context.h"

#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int set_up(void **state AS_UNUSED)
{
    snprintf(folder, sizeof(folder), "/tmp/as-context-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state AS_UNUSED)
{
    return rmdir(folder);
}

static struct as_buf text_of(size_t n, char c)
{
    struct as_buf b = {0};

    for (size_t i = 0; i < n; i++)
        as_buf_add(&b, &c, 1);
    return b;
}

static void a_short_context_is_inline(void **state AS_UNUSED)
{
    struct as_buf json = text_of(AS_REPLICA_CONTEXT_INLINE, 'x'), out = {0};

    assert_int_equal(as_replica_context_env(folder, "echo-0", as_buf_slice(&json), &out), 0);
    assert_int_equal(out.n, strlen("ANYSERVE_CONTEXT=") + AS_REPLICA_CONTEXT_INLINE);
    as_buf_drop(&out, out.n);
    assert_int_equal(as_replica_context_json(folder, "echo-0", as_buf_slice(&json), &out), 0);
    assert_true(as_str_eq(as_buf_slice(&out), as_buf_slice(&json)));
    as_buf_fini(&json);
    as_buf_fini(&out);
}

static void a_long_context_is_in_a_private_file(void **state AS_UNUSED)
{
    struct as_buf json = text_of(AS_REPLICA_CONTEXT_INLINE + 1, 'x'), other = text_of(20000, 'y'),
                  out = {0};
    char want[128], path[96], first;
    struct stat st;
    FILE *f;

    snprintf(path, sizeof(path), "%s/context-echo-0", folder);
    assert_int_equal(as_replica_context_env(folder, "echo-0", as_buf_slice(&json), &out), 0);
    snprintf(want, sizeof(want), "ANYSERVE_CONTEXT_FILE=%s", path);
    assert_true(as_str_eq(as_buf_slice(&out), as_str_of(want)));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, AS_REPLICA_CONTEXT_INLINE + 1);
    /* a new file replaces it; a process that has the first one open reads that */
    f = fopen(path, "re");
    as_buf_drop(&out, out.n);
    assert_int_equal(as_replica_context_json(folder, "echo-0", as_buf_slice(&other), &out), 0);
    snprintf(want, sizeof(want), "{\"context_file\": \"%s\"}", path);
    assert_true(as_str_eq(as_buf_slice(&out), as_str_of(want)));
    assert_int_equal(fread(&first, 1, 1, f), 1);
    assert_int_equal(first, 'x');
    fclose(f);
    as_replica_context_remove(folder, "echo-0");
    assert_int_equal(access(path, F_OK), -1);
    as_replica_context_remove(folder, "echo-0"); /* again: ignored */
    as_buf_fini(&json);
    as_buf_fini(&other);
    as_buf_fini(&out);
}

static void a_missing_folder_is_an_error(void **state AS_UNUSED)
{
    struct as_buf json = text_of(AS_REPLICA_CONTEXT_INLINE + 1, 'x'), out = {0};

    assert_int_equal(as_replica_context_env("/nonexistent", "echo-0", as_buf_slice(&json), &out),
                     AS_EIO);
    assert_int_equal(as_replica_context_json("/nonexistent", "echo-0", as_buf_slice(&json), &out),
                     AS_EIO);
    assert_int_equal(out.n, 0);
    as_buf_fini(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_context_is_inline),
        cmocka_unit_test(a_long_context_is_in_a_private_file),
        cmocka_unit_test(a_missing_folder_is_an_error),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
