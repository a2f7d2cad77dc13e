/* Specification of ctl/state/store: generations that outlive the process. */
#include "store_case.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void a_stored_generation_survives_a_restart(void **state AS_UNUSED)
{
    struct as_store *s = open_store(10);
    struct as_store_entry e;

    assert_int_equal(as_store_get(s, 0, &e, &err), AS_ENOTFOUND);
    assert_int_equal(put(s, "deploy", "{\"a\": 1}"), 1);
    assert_int_equal(put(s, "scale echo", "{\"a\": 2}"), 2);
    as_store_close(s);

    s = open_store(10);
    assert_int_equal(as_store_get(s, 0, &e, &err), 0);
    assert_int_equal(e.generation, 2);
    assert_int_equal(e.time_ms, 1700000000123);
    assert_true(as_str_eq(e.cause, AS_STR("scale echo")));
    assert_true(as_str_eq(e.spec, AS_STR("{\"a\": 2}")));
    assert_int_equal(as_store_get(s, 1, &e, &err), 0);
    assert_true(as_str_eq(e.spec, AS_STR("{\"a\": 1}")));
    err.n = 0;
    assert_int_equal(as_store_get(s, 3, &e, &err), AS_ENOTFOUND);
    assert_string_equal(error_text(), "there is no generation 3");
    as_store_close(s);
}

static void text_is_kept_byte_by_byte(void **state AS_UNUSED)
{
    struct as_store *s = open_store(10);
    struct as_str spec = {"name: \xc3\xa9\n\0after", 15};
    struct as_store_entry e;
    uint64_t g;

    assert_int_equal(put_texts(s, AS_STR(""), spec, &g), 0);
    assert_int_equal(as_store_get(s, g, &e, &err), 0);
    assert_true(as_str_eq(e.spec, spec));
    assert_int_equal(e.cause.n, 0);
    assert_int_equal(put_texts(s, AS_STR(""), (struct as_str){NULL, 0}, &g), 0);
    assert_int_equal(as_store_get(s, g, &e, &err), 0);
    assert_int_equal(e.spec.n, 0);
    as_store_close(s);
}

static bool collect(void *arg, const struct as_store_entry *e)
{
    char **at = arg;

    assert_int_equal(e->spec.n, 0);
    *at += sprintf(*at, "%llu:%.*s ", (unsigned long long)e->generation, AS_STR_FMT(e->cause));
    return e->generation != 2;
}

static void history_is_newest_first_and_bounded(void **state AS_UNUSED)
{
    struct as_store *s = open_store(3);
    char text[256] = "", *at = text, *end = text;

    for (int i = 0; i < 3; i++)
        put(s, "deploy", "x");
    assert_int_equal(as_store_each(s, collect, &at, &err), 0);
    /* the callback may stop the list */
    assert_string_equal(text, "3:deploy 2:deploy ");
    put(s, "fourth", "x");
    assert_int_equal(as_store_each(s, collect, &end, &err), 0);
    assert_string_equal(text, "4:fourth 3:deploy 2:deploy ");
    as_store_close(s);
    s = open_store(1);
    put(s, "fifth", "x");
    end = text;
    assert_int_equal(as_store_each(s, collect, &end, &err), 0);
    assert_string_equal(text, "5:fifth ");
    as_store_close(s);
}

static void numbers_are_never_used_twice(void **state AS_UNUSED)
{
    struct as_store *s = open_store(1);

    put(s, "a", "x");
    put(s, "b", "x");
    as_store_close(s);
    s = open_store(1);
    assert_int_equal(put(s, "c", "x"), 3);
    as_store_close(s);
}

static void limits_hold_at_n_and_n_plus_1(void **state AS_UNUSED)
{
    struct as_store *s = open_store(2);
    char *big = malloc(AS_STORE_SPEC_MAX + 1);
    struct as_str text = {big, AS_STORE_SPEC_MAX};
    struct as_store_entry e;
    uint64_t g = 0;

    memset(big, 'x', AS_STORE_SPEC_MAX + 1);
    assert_int_equal(put_texts(s, AS_STR("c"), text, &g), 0);
    assert_int_equal(as_store_get(s, g, &e, &err), 0);
    assert_int_equal(e.spec.n, AS_STORE_SPEC_MAX);
    text.n++;
    assert_int_equal(put_texts(s, AS_STR("c"), text, &g), AS_ETOOBIG);
    text.n = AS_STORE_CAUSE_MAX;
    assert_int_equal(put_texts(s, text, AS_STR("s"), &g), 0);
    text.n++;
    assert_int_equal(put_texts(s, text, AS_STR("s"), &g), AS_ETOOBIG);
    assert_int_equal(g, 2);
    free(big);
    as_store_close(s);
}

static void one_process_opens_it(void **state AS_UNUSED)
{
    struct as_store *s = open_store(2);
    int status;
    pid_t pid;

    put(s, "a", "x");
    pid = fork();
    if (pid == 0) {
        struct as_store *second = NULL;
        struct as_buf text = {0};

        _exit(as_store_open(&second, folder, 2, &text) == AS_EEXISTS && text.n ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    /* the process that has it goes on */
    assert_int_equal(put(s, "b", "x"), 2);
    as_store_close(s);
}

/* A process that is killed at any moment loses no stored generation, and leaves no lock. */
static void a_killed_process_loses_nothing(void **state AS_UNUSED)
{
    for (int round = 0; round < 20; round++) {
        struct as_store_entry e;
        struct as_store *s;
        uint64_t last = 0, g;
        int ends[2];
        pid_t pid;

        assert_int_equal(pipe(ends), 0);
        pid = fork();
        if (pid == 0) {
            s = open_store(5);
            for (;;) {
                g = put(s, "again", "some text");
                if (write(ends[1], &g, sizeof(g)) < 0)
                    _exit(1);
            }
        }
        close(ends[1]);
        for (int i = 0; i <= round; i++)
            assert_int_equal(read(ends[0], &last, sizeof(last)), sizeof(last));
        kill(pid, SIGKILL);
        while (read(ends[0], &g, sizeof(g)) == sizeof(g))
            last = g;
        close(ends[0]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        s = open_store(5);
        assert_int_equal(as_store_get(s, 0, &e, &err), 0);
        assert_true(e.generation == last || e.generation == last + 1);
        as_store_close(s);
    }
}

static void folder_and_file_are_private(void **state AS_UNUSED)
{
    struct as_store *s = open_store(2);
    struct stat st;

    put(s, "a", "x");
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    as_store_close(s);
    assert_int_equal(chmod(folder, 0770), 0);
    check_refused(AS_EDENIED, "chmod 700");
}

static void a_link_is_not_followed(void **state AS_UNUSED)
{
    as_store_close(open_store(2));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink("/tmp/as_store_elsewhere.db", file), 0);
    check_refused(AS_EIO, "cannot open");
    assert_int_equal(access("/tmp/as_store_elsewhere.db", F_OK), -1);
}

static void write_file(off_t at, const char *text)
{
    int fd = open(file, O_WRONLY | O_CREAT, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    close(fd);
}

static void a_damaged_file_is_named_and_left_alone(void **state AS_UNUSED)
{
    struct as_store *s = open_store(2);
    char big[9000];
    struct stat before, after;

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    for (int i = 0; i < 2; i++)
        put(s, "a", big);
    as_store_close(s);
    /* the first page of a table; behind it pages whose content nobody checks */
    write_file(4096, "this is not what SQLite wrote here, not at all");
    assert_int_equal(stat(file, &before), 0);
    check_refused(AS_EPROTO, "damaged");
    assert_non_null(strstr(error_text(), "move it away"));
    assert_int_equal(stat(file, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
}

/* An empty file is not a new one: its content was lost. */
static void an_empty_file_is_named_and_left_alone(void **state AS_UNUSED)
{
    struct as_store *s = open_store(2);
    struct stat st;

    put(s, "a", "x");
    as_store_close(s);
    assert_int_equal(truncate(file, 0), 0);
    check_refused(AS_EPROTO, "is empty (0 bytes)");
    assert_non_null(strstr(error_text(), "move it away"));
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(unlink(file), 0);
    err.n = 0;
    as_store_close(open_store(2)); /* a missing file is made anew */
}

/* The journal of a file that was moved away: nothing of it gets into the new file. */
static void a_journal_without_its_file_is_dropped(void **state AS_UNUSED)
{
    char journal[200], kept[200];
    struct as_store *s = open_store(2);
    struct as_store_entry e;

    snprintf(journal, sizeof(journal), "%s-wal", file);
    snprintf(kept, sizeof(kept), "%s-kept", file);
    put(s, "a", "x");
    assert_int_equal(link(journal, kept), 0);
    as_store_close(s);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rename(kept, journal), 0);
    s = open_store(2);
    assert_int_equal(as_store_get(s, 0, &e, &err), AS_ENOTFOUND);
    as_store_close(s);
}

/* A process that is killed while it makes the file leaves no file or a complete one. */
static void a_new_file_is_never_empty(void **state AS_UNUSED)
{
    for (int round = 0; round < 30; round++) {
        struct as_store *s;
        struct stat st;
        pid_t pid;
        int ends[2];
        char byte;

        assert_int_equal(pipe(ends), 0);
        pid = fork();
        if (pid == 0) {
            close(ends[0]);
            if (write(ends[1], "x", 1) == 1)
                open_store(2);
            _exit(0);
        }
        close(ends[1]);
        assert_int_equal(read(ends[0], &byte, 1), 1);
        while (lstat(file, &st) < 0 && waitpid(pid, NULL, WNOHANG) == 0)
            ;
        assert_int_equal(lstat(file, &st), 0);
        assert_true(st.st_size > 0);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(ends[0]);
        s = open_store(2);
        as_store_close(s); /* which removes the journal */
        assert_int_equal(unlink(file), 0);
    }
}

static void other_files_are_refused(void **state AS_UNUSED)
{
    sqlite3 *db;

    as_store_close(open_store(2));
    assert_int_equal(truncate(file, 0), 0);
    write_file(0,
               "a text of somebody, which is no database, and is longer than the head of one is: "
               "that has a hundred bytes, and this has more than that, so it will be looked at");
    check_refused(AS_EPROTO, "not a state file");

    assert_int_equal(unlink(file), 0);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    check_refused(AS_EPROTO, "not a state file");
}

static void scales_are_stored_with_their_generation(void **state AS_UNUSED)
{
    const struct as_store_scale two[] = {{AS_STR("echo"), 3}, {AS_STR("b"), 0}};
    struct as_store_entry e = {
        .cause = AS_STR("c"), .spec = AS_STR("s"), .scales = two, .n_scales = 2};
    struct as_store *s = open_store(2);
    uint64_t g;

    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    assert_int_equal(put_texts(s, AS_STR("c"), AS_STR("s"), &g), 0);
    e.n_scales = 1;
    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    as_store_close(s);
    s = open_store(2);
    check_scales(s, 1, ""); /* removed with its generation */
    check_scales(s, 2, "");
    check_scales(s, 3, "echo:3 ");
    e.scales = (const struct as_store_scale[]){{AS_STR("a"), 1}, {AS_STR("a"), 2}};
    e.n_scales = 2;
    assert_int_equal(as_store_put(s, &e, &g, &err), AS_EIO); /* our mistake: nothing is stored */
    assert_int_equal(put_texts(s, AS_STR("c"), AS_STR("s"), &g), 0);
    assert_int_equal(g, 4);
    check_scales(s, 4, "");
    as_store_close(s);
}

static bool collect_why(void *arg, const struct as_store_entry *e)
{
    as_buf_printf(arg, "%.*s:%.*s ", AS_STR_FMT(e->failed.deployment), AS_STR_FMT(e->failed.why));
    return true;
}

static void a_failure_is_stored_with_its_rollback(void **state AS_UNUSED)
{
    struct as_store_entry e = {.cause = AS_STR("back"),
                               .spec = AS_STR("spec"),
                               .failed = {AS_STR("shop"), AS_STR("main"), AS_STR("line\nline")}};
    char *text = calloc(1, AS_STORE_WHY_MAX + 1);
    struct as_store *s = open_store(9);
    struct as_buf all;
    uint64_t g;

    as_buf_init(&all);
    put(s, "deploy", "spec");
    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    check_failure(s, 1, "", "", "");
    check_failure(s, 2, "shop", "main", "line\nline");
    assert_int_equal(as_store_each(s, collect_why, &all, &err), 0);
    assert_true(as_str_eq(as_buf_slice(&all), AS_STR("main:line\nline : ")));
    memset(text, 'x', AS_STORE_WHY_MAX + 1);
    e.failed.why = (struct as_str){text, AS_STORE_WHY_MAX};
    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    e.failed.why.n++;
    assert_int_equal(as_store_put(s, &e, &g, &err), AS_ETOOBIG);
    assert_non_null(strstr(error_text(), "the reason of a failure has 4097 bytes; at most 4096"));
    assert_int_equal(g, 3);
    as_store_close(s);
    as_buf_fini(&all);
    free(text);
}

/* RLIMIT_FSIZE stands for a full disk. */
static void a_full_disk_changes_nothing(void **state AS_UNUSED)
{
    struct as_store *s = open_store(10);
    char *big = calloc(1, 1u << 20);
    struct rlimit old, small = {256u << 10, RLIM_INFINITY};
    struct as_store_entry e;
    uint64_t g = 99;

    memset(big, 'x', (1u << 20) - 1);
    put(s, "good", "x");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    err.n = 0;
    assert_int_equal(put_texts(s, AS_STR("big"), as_str_of(big), &g), AS_EIO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_non_null(strstr(error_text(), file));
    assert_int_equal(g, 99);
    assert_int_equal(as_store_get(s, 0, &e, &err), 0);
    assert_int_equal(e.generation, 1);
    /* when there is room again, it works again */
    assert_int_equal(put(s, "later", big), 2);
    as_store_close(s);
    free(big);
}

static void put_one_change(void *arg, const struct as_store_change *c)
{
    as_buf_printf(arg, "%d %.*s/%.*s %.*s(%.*s) %.*s(%.*s);", (int)c->generation,
                  AS_STR_FMT(c->application), AS_STR_FMT(c->deployment), AS_STR_FMT(c->step),
                  AS_STR_FMT(c->keys), AS_STR_FMT(c->state), AS_STR_FMT(c->why));
}

static void check_changes(struct as_store *s, const char *want)
{
    struct as_buf got = {0};

    assert_int_equal(as_store_each_change(s, put_one_change, &got, &err), 0);
    as_buf_add(&got, "", 1);
    assert_string_equal((char *)got.p, want);
    as_buf_fini(&got);
}

static void put_changes(struct as_store *s, const struct as_store_change *changes, uint32_t n)
{
    struct as_store_entry e = {
        .cause = AS_STR("deploy"), .spec = AS_STR("spec"), .changes = changes, .n_changes = n};
    uint64_t generation;

    assert_int_equal(as_store_put(s, &e, &generation, &err), 0);
}

static const struct as_store_change both[] = {
    {.application = {"a", 1}, .deployment = {"one", 3}, .step = {"added", 5}},
    {.application = {"a", 1}, .deployment = {"two", 3}, .step = {"added", 5}}};
static const struct as_store_change one[] = {{.application = {"a", 1},
                                              .deployment = {"one", 3},
                                              .step = {"changed", 7},
                                              .keys = {"version", 7}}};

static void set_outcome(struct as_store *s, uint64_t generation, const char *deployment,
                        const char *from, const char *state, const char *why)
{
    assert_int_equal(as_store_set_outcome(s, generation, AS_STR("a"), as_str_of(deployment),
                                          as_str_of(from), as_str_of(state), as_str_of(why), &err),
                     0);
}

static void the_outcome_of_a_change_is_stored(void **state AS_UNUSED)
{
    struct as_store *s = open_store(10);

    put_changes(s, both, 2);
    put_changes(s, one, 1);
    set_outcome(s, 1, "one", "", "healthy", "");
    set_outcome(s, 2, "two", "", "healthy", ""); /* of its last change: generation 1 */
    set_outcome(s, 2, "one", "", "failed", "why");
    set_outcome(s, 2, "one", "healthy", "rolled back", ""); /* not its state */
    set_outcome(s, 9, "three", "", "healthy", "");          /* no such change */
    as_store_close(s);
    s = open_store(10);
    check_changes(s, "2 a/one changed(version) failed(why);1 a/one added() healthy();"
                     "1 a/two added() healthy();");
    set_outcome(s, 1, "one", "healthy", "rolled back", "");
    check_changes(s, "2 a/one changed(version) failed(why);1 a/one added() rolled back();"
                     "1 a/two added() healthy();");
    as_store_close(s);
}

static void an_outcome_is_of_one_application(void **state AS_UNUSED)
{
    static const struct as_store_change same_name[] = {
        {.application = {"a", 1}, .deployment = {"one", 3}, .step = {"added", 5}},
        {.application = {"b", 1}, .deployment = {"one", 3}, .step = {"added", 5}}};
    struct as_store *s = open_store(10);

    put_changes(s, same_name, 2);
    set_outcome(s, 1, "one", "", "healthy", "");
    check_changes(s, "1 a/one added() healthy();1 b/one added() ();");
    as_store_close(s);
}

static void changes_are_pruned_with_their_generation(void **state AS_UNUSED)
{
    struct as_store *s = open_store(2);

    put_changes(s, both, 2);
    put_changes(s, one, 1);
    put_changes(s, one, 1);
    check_changes(s, "3 a/one changed(version) ();2 a/one changed(version) ();");
    as_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_stored_generation_survives_a_restart),
        IN_FOLDER(text_is_kept_byte_by_byte),
        IN_FOLDER(history_is_newest_first_and_bounded),
        IN_FOLDER(numbers_are_never_used_twice),
        IN_FOLDER(limits_hold_at_n_and_n_plus_1),
        IN_FOLDER(one_process_opens_it),
        IN_FOLDER(a_killed_process_loses_nothing),
        IN_FOLDER(folder_and_file_are_private),
        IN_FOLDER(a_link_is_not_followed),
        IN_FOLDER(a_damaged_file_is_named_and_left_alone),
        IN_FOLDER(an_empty_file_is_named_and_left_alone),
        IN_FOLDER(a_journal_without_its_file_is_dropped),
        IN_FOLDER(a_new_file_is_never_empty),
        IN_FOLDER(other_files_are_refused),
        IN_FOLDER(scales_are_stored_with_their_generation),
        IN_FOLDER(a_failure_is_stored_with_its_rollback),
        IN_FOLDER(the_outcome_of_a_change_is_stored),
        IN_FOLDER(an_outcome_is_of_one_application),
        IN_FOLDER(changes_are_pruned_with_their_generation),
        IN_FOLDER(a_full_disk_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
