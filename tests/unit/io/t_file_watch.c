/* Specification of io/loop/file_watch: which changes of which files are reported. */
#include "io/loop/file_watch.h"

#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct as_loop *loop;
static struct as_file_watch *watch;
static char folder[] = "/tmp/as_watch_XXXXXX";
static int n_reports;

static void on_changed(void *ctx)
{
    assert_ptr_equal(ctx, &n_reports);
    n_reports++;
}

static char *at(const char *name)
{
    static char paths[8][64];
    static unsigned i;
    char *path = paths[i++ % 8];

    snprintf(path, 64, "%s/%s", folder, name);
    return path;
}

static void put(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0 && write(fd, "x", 1) == 1);
    close(fd);
}

/* Runs the loop once. The kernel reports all changes that were made before. */
static int has_report(void)
{
    n_reports = 0;
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    return n_reports;
}

static int setup(void **state AS_UNUSED)
{
    strcpy(folder, "/tmp/as_watch_XXXXXX");
    assert_non_null(mkdtemp(folder));
    as_loop_new(&loop, 0);
    assert_int_equal(as_file_watch_new(&watch, on_changed, &n_reports), 0);
    assert_int_equal(as_file_watch_start(watch, loop), 0);
    return 0;
}

static int teardown(void **state AS_UNUSED)
{
    char command[80];

    as_file_watch_close(watch);
    as_loop_free(loop);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void each_kind_of_change_is_reported(void **state AS_UNUSED)
{
    put(at("a"));
    put(at("new"));
    assert_int_equal(as_file_watch_set(watch, (char *[]){at("a")}, 1), 0);
    assert_false(has_report());
    put(at("a"));
    assert_true(has_report());
    assert_int_equal(rename(at("new"), at("a")), 0);
    assert_true(has_report());
    assert_int_equal(rename(at("a"), at("old")), 0);
    assert_true(has_report());
    put(at("a")); /* it exists again */
    assert_true(has_report());
    assert_int_equal(chmod(at("a"), 0644), 0);
    assert_true(has_report());
    assert_int_equal(unlink(at("a")), 0);
    assert_true(has_report());
}

static void other_files_are_not_reported(void **state AS_UNUSED)
{
    struct stat st;

    put(at("a"));
    as_file_watch_set(watch, (char *[]){at("a")}, 1);
    put(at("b"));
    put(at("a~"));
    assert_int_equal(mkdir(at("d"), 0700), 0);
    put(at("d/a")); /* the same name in another folder */
    assert_int_equal(stat(at("a"), &st), 0);
    close(open(at("a"), O_RDONLY | O_CLOEXEC));
    assert_false(has_report());
}

static void the_set_of_files_can_be_replaced(void **state AS_UNUSED)
{
    mkdir(at("d"), 0700);
    mkdir(at("e"), 0700);
    as_file_watch_set(watch, (char *[]){at("a"), at("d/x")}, 2);
    as_file_watch_set(watch, (char *[]){at("e/y"), at("b"), at("e/z")}, 3);
    put(at("a"));
    put(at("d/x"));
    has_report(); /* may also report that the folder is not watched any more */
    put(at("d/x"));
    assert_false(has_report());
    put(at("e/z"));
    assert_true(has_report());
    put(at("b"));
    assert_true(has_report());
    as_file_watch_set(watch, NULL, 0);
    has_report();
    put(at("b"));
    assert_false(has_report());
}

static void files_in_missing_folders_are_counted(void **state AS_UNUSED)
{
    assert_int_equal(as_file_watch_set(watch, (char *[]){at("none/x"), at("a"), at("none/y")}, 3),
                     2);
    put(at("a"));
    assert_true(has_report());
}

/* l -> d/l -> e/a, and d is a link itself */
static void make_links(void)
{
    assert_int_equal(mkdir(at("e"), 0700), 0);
    assert_int_equal(mkdir(at("folder"), 0700), 0);
    assert_int_equal(symlink("folder", at("d")), 0);
    assert_int_equal(symlink("d/l", at("l")), 0);
    assert_int_equal(symlink(at("e/a"), at("folder/l")), 0);
    put(at("e/a"));
}

static void put_link(const char *target, const char *path)
{
    assert_int_equal(symlink(target, at("fresh")), 0);
    assert_int_equal(rename(at("fresh"), path), 0);
}

static void links_are_watched_where_they_lie_and_where_they_lead(void **state AS_UNUSED)
{
    make_links();
    assert_int_equal(as_file_watch_set(watch, (char *[]){at("l")}, 1), 0);
    assert_false(has_report());
    put(at("new"));
    put(at("e/b"));
    assert_false(has_report());
    assert_int_equal(rename(at("new"), at("e/a")), 0);
    assert_true(has_report());
    put_link(at("e/b"), at("folder/l"));
    assert_true(has_report());
    put_link("e", at("d"));
    assert_true(has_report());
    put_link("e/b", at("l"));
    assert_true(has_report());
    /* where they lead now is known to the next set */
    put(at("e/b"));
    assert_false(has_report());
    assert_int_equal(as_file_watch_set(watch, (char *[]){at("l")}, 1), 0);
    put(at("e/b"));
    assert_true(has_report());
}

static void links_that_lead_nowhere(void **state AS_UNUSED)
{
    assert_int_equal(symlink("none", at("l")), 0);
    assert_int_equal(symlink("loop", at("loop")), 0);
    assert_int_equal(as_file_watch_set(watch, (char *[]){at("l"), at("loop")}, 2), 1);
    put(at("none"));
    assert_true(has_report());
}

/* 40: path_resolution(7) */
static void as_many_links_as_the_kernel_follows(void **state AS_UNUSED)
{
    char name[16], target[16] = "file", path[64], *last[1] = {path};

    put(at("file"));
    for (int i = 1; i <= 41; i++) {
        snprintf(name, sizeof(name), "%d", i);
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        assert_int_equal(symlink(target, path), 0);
        strcpy(target, name);
        assert_int_equal(access(path, F_OK), i <= 40 ? 0 : -1);
        assert_int_equal(as_file_watch_set(watch, last, 1), i <= 40 ? 0 : 1);
    }
}

/* What happens between the making of the set and the start is not lost. */
static void it_is_made_before_its_loop(void **state AS_UNUSED)
{
    struct as_file_watch *w;

    put(at("a"));
    assert_int_equal(as_file_watch_new(&w, on_changed, &n_reports), 0);
    assert_int_equal(as_file_watch_set(w, (char *[]){at("a")}, 1), 0);
    put(at("a"));
    assert_int_equal(as_file_watch_start(w, loop), 0);
    assert_true(has_report());
    as_file_watch_close(w);
    assert_int_equal(as_file_watch_new(&w, on_changed, &n_reports), 0);
    assert_int_equal(as_file_watch_set(w, (char *[]){at("a")}, 1), 0);
    as_file_watch_close(w); /* it was never started */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_kind_of_change_is_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(other_files_are_not_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(the_set_of_files_can_be_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(files_in_missing_folders_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(links_are_watched_where_they_lie_and_where_they_lead, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(links_that_lead_nowhere, setup, teardown),
        cmocka_unit_test_setup_teardown(as_many_links_as_the_kernel_follows, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_made_before_its_loop, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
