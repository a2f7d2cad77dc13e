/* Specification of ctl/state/code_store: names of copies, lookup and removal. */
#include "ctl/state/code_store.h"

#include "temporary_folder.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define A    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define B    "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define COPY "sha256:"

static char store[96];
static struct as_buf err;

static int make_base(void **state AS_UNUSED)
{
    if (make_temporary_folder() < 0)
        return -1;
    snprintf(store, sizeof(store), "%s/code", temporary_folder);
    as_buf_init(&err);
    return 0;
}

static int remove_base(void **state AS_UNUSED)
{
    as_buf_fini(&err);
    return remove_temporary_folder();
}

static void run(const char *what, const char *name)
{
    struct as_buf b = {0};

    as_buf_printf(&b, "mkdir -p %s && cd %s && N='%s' && %s", store, store, name, what);
    as_buf_add(&b, "", 1);
    assert_int_equal(system((char *)b.p), 0);
    as_buf_fini(&b);
}

static void make(const char *name)
{
    run("mkdir -p $N/sub/deep && echo 1 > $N/sub/deep/x && ln -s /etc $N/link", name);
}

static bool exists(const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", store, name);
    return access(path, F_OK) == 0;
}

static struct as_code_store_names names_of(const char *x, const char *y)
{
    struct as_code_store_names n = {0};

    as_code_store_names_add(&n, x);
    as_code_store_names_add(&n, y);
    return n;
}

static void paths_and_targets_of_a_copy(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    assert_true(as_code_store_is_copy(COPY A));
    assert_true(as_code_store_is_copy(COPY A "/x.py"));
    assert_false(as_code_store_is_copy("live"));
    assert_false(as_code_store_is_copy("copy"));
    assert_false(as_code_store_is_copy(NULL));
    as_code_store_path("/s/code", COPY A "/x.py", &b);
    assert_string_equal((char *)b.p, "/s/code/" A);
    b.n = 0;
    as_code_store_target(COPY A, "shop.models:app", &b);
    assert_string_equal((char *)b.p, "shop.models:app");
    b.n = 0;
    as_code_store_target(COPY A "/sub/x.py", "../far/x.py:app", &b);
    assert_string_equal((char *)b.p, "sub/x.py:app");
    b.n = 0;
    as_code_store_target(COPY A "/x.py", "x.py", &b);
    assert_string_equal((char *)b.p, "x.py");
    as_buf_fini(&b);
}

static void the_source_option_has_an_absolute_path(void **state AS_UNUSED)
{
    static const struct {
        const char *dir, *code, *target, *source;
    } cases[] = {{NULL, COPY A, "m:app", "/here"},
                 {"sub", COPY A, "m:app", "/here/sub"},
                 {"/there", COPY A, "m:app", "/there"},
                 {NULL, COPY A "/x.py", "x.py:app", "/here/x.py"},
                 {"sub", COPY A "/x.py", "../far/x.py", "/here/sub/../far/x.py"},
                 {"/there", COPY A "/a/x.py", "a/x.py:app", "/there/a/x.py"},
                 {"/there", COPY A "/x.py", "/far/x.py:app", "/far/x.py"}};

    for (size_t i = 0; i < AS_COUNT(cases); i++) {
        struct as_buf b = {0};

        as_code_store_source("/here", cases[i].dir, cases[i].code, cases[i].target, &b);
        assert_memory_equal(b.p, "--source=", 9);
        assert_string_equal((char *)b.p + 9, cases[i].source);
        as_buf_fini(&b);
    }
}

static void a_missing_copy_is_an_error(void **state AS_UNUSED)
{
    assert_int_equal(as_code_store_check(store, COPY A, &err), AS_ENOTFOUND);
    as_buf_add(&err, "", 1);
    assert_non_null(strstr((char *)err.p, "the copy of its code is missing: "));
    assert_non_null(strstr((char *)err.p, "/code/" A "; deploy its files again"));
    run("echo > $N", A); /* a file is no copy */
    assert_int_equal(as_code_store_check(store, COPY A, &err), AS_ENOTFOUND);
    make(B);
    err.n = 0;
    assert_int_equal(as_code_store_check(store, COPY B "/x.py", &err), 0);
    assert_int_equal(err.n, 0);
}

static void a_set_has_each_name_once(void **state AS_UNUSED)
{
    struct as_code_store_names n = names_of(COPY A, COPY A "/x.py");

    as_code_store_names_add(&n, "live");
    as_code_store_names_add(&n, NULL);
    assert_int_equal(n.n, 1);
    assert_string_equal(n.all[0], A);
    as_code_store_names_fini(&n);
}

static void unused_copies_are_removed(void **state AS_UNUSED)
{
    struct as_code_store_names keep = names_of(COPY A, NULL);

    assert_int_equal(as_code_store_discard(store, &keep, &err), 0); /* no store yet */
    assert_int_equal(as_code_store_remove_discarded(store, &err), 0);
    make(A);
    make(B);
    make(".tmp-half");
    run("mkdir other", "");
    assert_int_equal(as_code_store_discard(store, &keep, &err), 2);
    /* at once they are not found any more; their files are removed later */
    assert_false(exists(B) || exists(".tmp-half"));
    make(B);
    /* one of the same name is discarded already */
    assert_int_equal(as_code_store_discard(store, &keep, &err), 1);
    make(B);
    assert_int_equal(as_code_store_remove_discarded(store, &err), 3);
    assert_true(exists(A) && exists(A "/sub/deep/x") && exists(B) && exists("other"));
    assert_int_equal(as_code_store_remove_discarded(store, &err), 0);
    assert_int_equal(err.n, 0);
    assert_int_equal(access("/etc", F_OK), 0); /* no link was followed */
    as_code_store_names_fini(&keep);
}

static void folders_without_write_permission_are_removed(void **state AS_UNUSED)
{
    struct as_code_store_names none = {0};

    make(A);
    run("chmod 0400 $N/sub/deep $N/sub", A);
    assert_int_equal(as_code_store_discard(store, &none, &err), 1);
    assert_int_equal(as_code_store_remove_discarded(store, &err), 1);
    assert_int_equal(err.n, 0);
}

static void a_store_can_be_removed(void **state AS_UNUSED)
{
    make(A);
    make(".old-x");
    as_code_store_clear(store);
    assert_int_equal(access(store, F_OK), -1);
    as_code_store_clear(store);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_base, remove_base)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_targets_of_a_copy),
        cmocka_unit_test(the_source_option_has_an_absolute_path),
        IN_FOLDER(a_missing_copy_is_an_error),
        cmocka_unit_test(a_set_has_each_name_once),
        IN_FOLDER(unused_copies_are_removed),
        IN_FOLDER(folders_without_write_permission_are_removed),
        IN_FOLDER(a_store_can_be_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
