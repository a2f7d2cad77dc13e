/* Specification of ctl/store: files of other releases. */
#include "store_case.h"

static void a_newer_layout_is_refused(void **state AS_UNUSED)
{
    sqlite3 *db;

    as_store_close(open_store(2));
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 5", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    check_refused(AS_EPROTO, "newer AnyServe (layout 5");
}

#define WITHOUT_SCALES "DROP TABLE scale;"
#define WITHOUT_FAILURES                                                                           \
    WITHOUT_SCALES "ALTER TABLE generation DROP COLUMN failed_application;"                        \
                   "ALTER TABLE generation DROP COLUMN failed_deployment;"                         \
                   "ALTER TABLE generation DROP COLUMN failed_why;"

/* The first layout did not know what was healthy before. */
static void the_first_layout_is_brought_up_to_date(void **state AS_UNUSED)
{
    static const char older[] =
        WITHOUT_FAILURES "ALTER TABLE healthy DROP COLUMN before; PRAGMA user_version = 1;"
                         "INSERT INTO generation(time_ms, cause, spec) VALUES(1, 'old', 'spec');"
                         "INSERT INTO healthy VALUES('app', 'echo', 1);";
    uint64_t g = 0, before = 9;
    struct as_store *s;
    sqlite3 *db;

    as_store_close(open_store(2));
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, older, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    s = open_store(2);
    assert_int_equal(as_store_healthy(s, AS_STR("app"), AS_STR("echo"), &g, &before, &err), 0);
    assert_int_equal(g, 1);
    assert_int_equal(before, 0);
    as_store_close(s);
}

/* The second one told of a failed update in its cause alone. */
static void the_second_layout_is_brought_up_to_date(void **state AS_UNUSED)
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
    sqlite3 *db;

    as_store_close(open_store(9));
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, older, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    s = open_store(9);
    check_failure(s, 1, "", "", "");
    check_failure(s, 2, "shop", "main", "exit 1: no'\nfile: x/y");
    check_failure(s, 3, "shop", "a", "update of b/c failed, back to generation 7: no");
    check_failure(s, 4, "", "", "");
    check_failure(s, 5, "", "", "");
    as_store_close(s);
    as_store_close(open_store(9)); /* once */
}

/* The third one had such numbers in the text. */
static void the_third_layout_is_brought_up_to_date(void **state AS_UNUSED)
{
    static const char older[] =
        WITHOUT_SCALES "PRAGMA user_version = 3; INSERT INTO generation(time_ms, cause, spec)"
                       " VALUES(1, 'scale echo to 3', 'spec'); INSERT INTO healthy"
                       " VALUES('app', 'echo', 1, 0);";
    uint64_t g = 0, before = 9;
    struct as_store_entry e;
    struct as_store *s;
    sqlite3 *db;

    as_store_close(open_store(9));
    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, older, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    for (int i = 0; i < 2; i++) { /* also when that is done already */
        s = open_store(9);
        assert_int_equal(as_store_get(s, 0, &e, &err), 0);
        assert_int_equal(e.generation, 1);
        assert_true(as_str_eq(e.spec, AS_STR("spec")));
        check_scales(s, 1, "");
        assert_int_equal(as_store_healthy(s, AS_STR("app"), AS_STR("echo"), &g, &before, &err), 0);
        assert_int_equal(g, 1);
        as_store_close(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_newer_layout_is_refused),
        IN_FOLDER(the_first_layout_is_brought_up_to_date),
        IN_FOLDER(the_second_layout_is_brought_up_to_date),
        IN_FOLDER(the_third_layout_is_brought_up_to_date),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
