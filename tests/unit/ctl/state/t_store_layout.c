/* Specification of ctl/state/store: files of other releases. */
#include "store_case.h"

/* As another program does, while the file is closed. */
static void change_file(const char *text)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void a_newer_layout_is_refused(void **state AS_UNUSED)
{
    as_store_close(open_store(2));
    change_file("PRAGMA user_version = 4");
    check_refused(AS_EPROTO, "newer AnyServe (layout 4");
}

#define WITHOUT_SCALES "DROP TABLE scale; DROP TABLE model;"
#define WITHOUT_FAILURES                                                                           \
    WITHOUT_SCALES "ALTER TABLE generation DROP COLUMN failed_application;"                        \
                   "ALTER TABLE generation DROP COLUMN failed_deployment;"                         \
                   "ALTER TABLE generation DROP COLUMN failed_why;"

/* The first layout has no previous healthy generation. */
static void the_first_layout_is_upgraded(void **state AS_UNUSED)
{
    static const char older[] =
        WITHOUT_FAILURES "ALTER TABLE healthy DROP COLUMN before; PRAGMA user_version = 1;"
                         "INSERT INTO generation(time_ms, cause, spec) VALUES(1, 'old', 'spec');"
                         "INSERT INTO healthy VALUES('app', 'echo', 1);";
    uint64_t g = 0, before = 9;
    struct as_store *s;

    as_store_close(open_store(2));
    change_file(older);
    s = open_store(2);
    assert_int_equal(as_store_healthy(s, AS_STR("app"), AS_STR("echo"), &g, &before, &err), 0);
    assert_int_equal(g, 1);
    assert_int_equal(before, 0);
    as_store_close(s);
}

/* The second layout has a failed update in the cause only. */
static void the_second_layout_is_upgraded(void **state AS_UNUSED)
{
    static const char older[] = WITHOUT_FAILURES
        "PRAGMA user_version = 2; INSERT INTO generation(time_ms, cause, spec) VALUES"
        "(1, 'deploy', 'spec'),"
        "(2, 'update of shop/main failed, back to generation 1: exit 1: no''\nfile: x/y', 'spec'),"
        "(3, 'update of shop/a failed, back to generation 1: update of b/c failed, back to"
        " generation 7: no', 'spec'),"
        "(4, 'update of everything', 'spec'),"
        "(5, 'scale update of a/b failed, back to generation 2: c', 'spec');";
    struct as_store *s;

    as_store_close(open_store(9));
    change_file(older);
    s = open_store(9);
    check_failure(s, 1, "", "", "");
    check_failure(s, 2, "shop", "main", "exit 1: no'\nfile: x/y");
    check_failure(s, 3, "shop", "a", "update of b/c failed, back to generation 7: no");
    check_failure(s, 4, "", "", "");
    check_failure(s, 5, "", "", "");
    as_store_close(s);
    as_store_close(open_store(9)); /* once */
}

/* The version before `scale` had these numbers in the text. */
static void a_file_without_scales_gets_them(void **state AS_UNUSED)
{
    static const char older[] =
        WITHOUT_SCALES "PRAGMA user_version = 3; INSERT INTO generation(time_ms, cause, spec)"
                       " VALUES(1, 'scale echo to 3', 'spec'); INSERT INTO healthy"
                       " VALUES('app', 'echo', 1, 0);";
    uint64_t g = 0, before = 9;
    struct as_store_entry e;
    struct as_store *s;

    as_store_close(open_store(9));
    change_file(older);
    for (int i = 0; i < 2; i++) { /* also a second time */
        s = open_store(9);
        assert_int_equal(as_store_get(s, 0, &e, &err), 0);
        assert_int_equal(e.generation, 1);
        assert_true(as_str_eq(e.spec, AS_STR("spec")));
        check_scales(s, 1, "");
        check_models(s, 1, "");
        assert_int_equal(as_store_healthy(s, AS_STR("app"), AS_STR("echo"), &g, &before, &err), 0);
        assert_int_equal(g, 1);
        as_store_close(s);
    }
}

static int64_t number(const char *pragma)
{
    sqlite3_stmt *q;
    int64_t n;
    sqlite3 *db;

    assert_int_equal(sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, pragma, -1, &q, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(q), SQLITE_ROW);
    n = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

/* What the program of layout 3 that knows no scales does with a file: it looks at the version,
 * inserts a generation, notes who is healthy, and deletes what is no longer kept. */
static void earlier_program(const char *cause, int keep)
{
    static const char text[] =
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL;"
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; BEGIN IMMEDIATE;"
        "INSERT INTO generation(time_ms, cause, failed_application, failed_deployment, failed_why,"
        " spec) VALUES(1, '%s', '', '', '', 'earlier');"
        "DELETE FROM generation WHERE id NOT IN (SELECT id FROM generation ORDER BY id DESC LIMIT"
        " %d) AND id NOT IN (SELECT generation FROM healthy) AND id NOT IN (SELECT before FROM"
        " healthy); COMMIT;";
    char sql[sizeof(text) + 64];
    sqlite3 *db;

    assert_true(number("PRAGMA user_version") <= 3);
    snprintf(sql, sizeof(sql), text, cause, keep);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* A downgrade, and the upgrade again. */
static void an_earlier_version_can_use_the_file(void **state AS_UNUSED)
{
    const struct as_store_scale four = {AS_STR("app/echo"), 4};
    const struct as_store_model model = {AS_STR("echo"), AS_STR("m:1"), AS_STR("frame")};
    struct as_store_entry e = {.cause = AS_STR("scale"),
                               .spec = AS_STR("spec"),
                               .scales = &four,
                               .n_scales = 1,
                               .models = &model,
                               .n_models = 1};
    struct as_store *s = open_store(9);
    uint64_t g = 0;

    put(s, "deploy", "spec");
    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    assert_int_equal(g, 2);
    check_scales(s, 2, "app/echo:4 ");
    as_store_close(s);
    earlier_program("deploy", 2);
    s = open_store(9);
    check_scales(s, 2, "app/echo:4 "); /* still stored */
    check_models(s, 2, "echo/m:1:5 ");
    check_models(s, 3, "");
    check_scales(s, 3, ""); /* the number in the text */
    assert_int_equal(as_store_get(s, 0, &e, &err), 0);
    assert_true(as_str_eq(e.spec, AS_STR("earlier")));
    as_store_close(s);
    earlier_program("deploy again", 1);
    assert_int_equal(number("SELECT count(*) FROM generation"), 1);
    assert_int_equal(number("SELECT count(*) FROM scale"), 0);
    assert_int_equal(number("SELECT count(*) FROM model"), 0);
    s = open_store(9);
    e = (struct as_store_entry){
        .cause = AS_STR("scale"), .spec = AS_STR("spec"), .scales = &four, .n_scales = 1};
    assert_int_equal(as_store_put(s, &e, &g, &err), 0);
    check_scales(s, g, "app/echo:4 ");
    as_store_close(s);
}

/* --- as_store_probe --- */

static int collect_entry(void *arg, const struct as_store_entry *e, struct as_buf *why AS_UNUSED)
{
    as_buf_printf(arg, "%llu:%.*s ", (unsigned long long)e->generation, AS_STR_FMT(e->spec));
    return 0;
}

static int probe(const char *want)
{
    struct as_buf seen = {0};
    int rc;

    err.n = 0;
    rc = as_store_probe(folder, collect_entry, &seen, &err);
    as_buf_add(&seen, "", 1);
    assert_string_equal((char *)seen.p, want);
    as_buf_fini(&seen);
    return rc;
}

/* Also of a store that is open, with data only in its journal. */
static void a_probe_shows_the_newest_generation(void **state AS_UNUSED)
{
    struct as_store *s = open_store(9);
    char copy[160];

    assert_int_equal(probe(""), AS_ENOTFOUND);
    put(s, "a", "one");
    assert_int_equal(probe("1:one "), 0);
    put(s, "b", "two");
    assert_int_equal(probe("2:two "), 0);
    put(s, "c", "three"); /* the open store goes on working */
    as_store_close(s);
    assert_int_equal(probe("3:three "), 0);
    snprintf(copy, sizeof(copy), "%s/upgrade-check", folder);
    assert_int_equal(access(copy, F_OK), -1);
}

/* An upgrade of the schema is done in the copy alone. */
static void a_probe_does_not_upgrade_the_file(void **state AS_UNUSED)
{
    sqlite3 *db;
    struct as_store *s = open_store(9);

    put(s, "a", "one");
    as_store_close(s);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, WITHOUT_SCALES "PRAGMA user_version = 3", NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(probe("1:one "), 0);
    assert_int_equal(number("PRAGMA user_version"), 3);
    assert_int_equal(number("SELECT count(*) FROM sqlite_schema WHERE name = 'scale'"), 0);
}

static int refuse(void *arg AS_UNUSED, const struct as_store_entry *e AS_UNUSED,
                  struct as_buf *why AS_UNUSED)
{
    return AS_EINVALID;
}

static void a_probe_reports_errors(void **state AS_UNUSED)
{
    struct as_store *s;
    sqlite3 *db;

    assert_int_equal(probe(""), AS_ENOTFOUND); /* there is no file */
    s = open_store(9);
    put(s, "a", "one");
    as_store_close(s);
    assert_int_equal(as_store_probe(folder, refuse, NULL, &err), AS_EINVALID);
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 4", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(probe(""), AS_EPROTO);
    assert_non_null(strstr(error_text(), file)); /* the error does not name the copy */
    assert_non_null(strstr(error_text(), "newer AnyServe (layout 4"));
    assert_int_equal(unlink(file), 0);
    assert_int_equal(symlink("/etc/passwd", file), 0);
    assert_int_equal(probe(""), AS_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_newer_layout_is_refused),
        IN_FOLDER(the_first_layout_is_upgraded),
        IN_FOLDER(the_second_layout_is_upgraded),
        IN_FOLDER(a_file_without_scales_gets_them),
        IN_FOLDER(an_earlier_version_can_use_the_file),
        IN_FOLDER(a_probe_shows_the_newest_generation),
        IN_FOLDER(a_probe_does_not_upgrade_the_file),
        IN_FOLDER(a_probe_reports_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
