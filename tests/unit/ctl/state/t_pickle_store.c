/* Specification of ctl/state/pickle_store: names, storing, finding and removal. */
#include "ctl/state/pickle_store.h"

#include "temporary_folder.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ABC     "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */
#define NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static char copies[96];
static struct as_buf err;

static int make_base(void **state AS_UNUSED)
{
    if (make_temporary_folder() < 0)
        return -1;
    snprintf(copies, sizeof(copies), "%s/code", temporary_folder);
    as_buf_init(&err);
    return 0;
}

static int remove_base(void **state AS_UNUSED)
{
    as_buf_fini(&err);
    return remove_temporary_folder();
}

static const char *path_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/pickles/%s", temporary_folder, name);
    return path;
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static mode_t mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(stat(path_of(name), &st), 0);
    return st.st_mode & 07777;
}

static void make_file(const char *name)
{
    int fd = open(path_of(name), O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static void names_paths_and_targets(void **state AS_UNUSED)
{
    struct as_buf b = {0};

    assert_true(as_pickle_store_is_pickle("pickle:" ABC));
    assert_false(as_pickle_store_is_pickle("sha256:" ABC));
    assert_false(as_pickle_store_is_pickle("pickle:" ABC "0"));
    assert_false(as_pickle_store_is_pickle("pickle:"));
    assert_false(as_pickle_store_is_pickle("copy"));
    assert_false(as_pickle_store_is_pickle(NULL));
    assert_true(as_str_eq(as_pickle_store_name("pickle:" ABC), AS_STR(ABC)));
    as_pickle_store_path("/s/code", AS_STR(ABC), &b);
    assert_string_equal((char *)b.p, "/s/pickles/" ABC);
    b.n = 0;
    as_pickle_store_target("/s/code", "pickle:" ABC, &b);
    assert_string_equal((char *)b.p, "pickle:/s/pickles/" ABC);
    as_buf_fini(&b);
}

static void what_was_stored_is_found(void **state AS_UNUSED)
{
    struct stat before, after;
    char content[4];
    int fd;

    assert_int_equal(as_pickle_store_check(copies, "pickle:" ABC, &err), AS_ENOTFOUND);
    assert_non_null(strstr(as_buf_cstr(&err), "its pickled code is missing"));
    err.n = 0;
    assert_int_equal(as_pickle_store_put(copies, AS_STR(ABC), AS_STR("abc"), &err), 0);
    assert_int_equal(as_pickle_store_check(copies, "pickle:" ABC, &err), 0);
    fd = open(path_of(ABC), O_RDONLY);
    assert_int_equal(read(fd, content, sizeof(content)), 3);
    assert_memory_equal(content, "abc", 3);
    close(fd);
    assert_int_equal(mode_of(ABC), 0600);
    assert_int_equal(mode_of(""), 0700);
    assert_int_equal(stat(path_of(ABC), &before), 0);
    /* once more: it is there already */
    assert_int_equal(as_pickle_store_put(copies, AS_STR(ABC), AS_STR("abc"), &err), 0);
    assert_int_equal(stat(path_of(ABC), &after), 0);
    assert_true(before.st_ino == after.st_ino);
    assert_int_equal(err.n, 0);
}

static void a_file_that_was_cut_is_written_again(void **state AS_UNUSED)
{
    assert_int_equal(as_pickle_store_put(copies, AS_STR(ABC), AS_STR("abc"), &err), 0);
    assert_int_equal(truncate(path_of(ABC), 1), 0);
    assert_int_equal(as_pickle_store_put(copies, AS_STR(ABC), AS_STR("abc"), &err), 0);
    {
        struct stat st;

        assert_int_equal(stat(path_of(ABC), &st), 0);
        assert_int_equal(st.st_size, 3);
    }
}

static void a_content_with_another_name_is_refused(void **state AS_UNUSED)
{
    assert_int_equal(as_pickle_store_put(copies, AS_STR(ABC), AS_STR("abd"), &err), AS_EINVALID);
    assert_non_null(strstr(as_buf_cstr(&err), "the SHA-256 of the 3 bytes is a52d159f"));
    err.n = 0;
    assert_int_equal(as_pickle_store_put(copies, AS_STR("../x"), AS_STR("abc"), &err), AS_EINVALID);
    assert_non_null(strstr(as_buf_cstr(&err), "64 lower-case hex digits"));
    assert_false(exists(""));
}

static void a_folder_that_cannot_be_used(void **state AS_UNUSED)
{
    assert_int_equal(mkdir(path_of(""), 0700), 0);
    assert_int_equal(chmod(path_of(""), 0777), 0);
    assert_int_equal(as_pickle_store_put(copies, AS_STR(ABC), AS_STR("abc"), &err), AS_EDENIED);
    assert_non_null(strstr(as_buf_cstr(&err), "others may write to"));
    assert_false(exists(ABC));
}

static void names_are_a_set(void **state AS_UNUSED)
{
    struct as_pickle_store_names n = {0};

    as_pickle_store_names_add(&n, AS_STR(ABC));
    as_pickle_store_names_add(&n, AS_STR(NOTHING));
    as_pickle_store_names_add(&n, AS_STR(ABC));
    assert_int_equal(n.n, 2);
    as_pickle_store_names_remove(&n, 0);
    assert_int_equal(n.n, 1);
    assert_false(as_pickle_store_names_have(&n, AS_STR(ABC)));
    assert_true(as_pickle_store_names_have(&n, AS_STR(NOTHING)));
    as_pickle_store_names_fini(&n);
}

static void only_what_is_kept_stays(void **state AS_UNUSED)
{
    struct as_pickle_store_names keep = {0};

    assert_int_equal(as_pickle_store_sweep(copies, &keep, &err), 0); /* there is no folder */
    assert_int_equal(as_pickle_store_put(copies, AS_STR(ABC), AS_STR("abc"), &err), 0);
    assert_int_equal(as_pickle_store_put(copies, AS_STR(NOTHING), AS_STR(""), &err), 0);
    make_file(".tmp-abcdef");
    make_file("README");
    as_pickle_store_names_add(&keep, AS_STR(NOTHING));
    assert_int_equal(as_pickle_store_sweep(copies, &keep, &err), 0);
    assert_false(exists(ABC));
    assert_true(exists(NOTHING));
    assert_true(exists(".tmp-abcdef")); /* perhaps it is being written */
    as_pickle_store_clean(copies);
    assert_false(exists(".tmp-abcdef"));
    assert_true(exists(NOTHING) && exists("README"));
    as_pickle_store_names_fini(&keep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_paths_and_targets),
        cmocka_unit_test_setup_teardown(what_was_stored_is_found, make_base, remove_base),
        cmocka_unit_test_setup_teardown(a_file_that_was_cut_is_written_again, make_base,
                                        remove_base),
        cmocka_unit_test_setup_teardown(a_content_with_another_name_is_refused, make_base,
                                        remove_base),
        cmocka_unit_test_setup_teardown(a_folder_that_cannot_be_used, make_base, remove_base),
        cmocka_unit_test(names_are_a_set),
        cmocka_unit_test_setup_teardown(only_what_is_kept_stays, make_base, remove_base),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
