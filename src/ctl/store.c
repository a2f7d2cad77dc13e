#include "ctl/store.h"

#include "ctl/failpoint.h"
#include "ctl/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x416e5376 /* "AnSv", in the file's head: what kind of file it is */
#define SCHEMA_VERSION 3

/* AUTOINCREMENT: a number that was given is never given again, even when its row is gone. */
static const char schema[] =
    "CREATE TABLE generation(id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,"
    " cause TEXT NOT NULL, spec TEXT NOT NULL, failed_application TEXT NOT NULL DEFAULT '',"
    " failed_deployment TEXT NOT NULL DEFAULT '', failed_why TEXT NOT NULL DEFAULT '') STRICT;"
    "CREATE TABLE healthy(application TEXT NOT NULL, deployment TEXT NOT NULL,"
    " generation INTEGER NOT NULL REFERENCES generation(id), before INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY(application, deployment)) STRICT, WITHOUT ROWID;";

/* From version i + 1 to the next. Version 1 did not know what was healthy before. Version 2 had of
 * a failed update only the cause "update of APP/DEPLOYMENT failed, back to generation N: WHY". */
static const char *const upgrades[SCHEMA_VERSION - 1] = {
    "ALTER TABLE healthy ADD COLUMN before INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = 2;",
    "ALTER TABLE generation ADD COLUMN failed_application TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE generation ADD COLUMN failed_deployment TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE generation ADD COLUMN failed_why TEXT NOT NULL DEFAULT '';"
    "WITH named(id, name, rest) AS (SELECT id,"
    "  substr(cause, 11, instr(cause, ' failed, back to generation ') - 11),"
    "  substr(cause, instr(cause, ' failed, back to generation ') + 28) FROM generation"
    "  WHERE cause GLOB 'update of ?*/?* failed, back to generation ?*: *')"
    "UPDATE generation SET failed_application = substr(name, 1, instr(name, '/') - 1),"
    "  failed_deployment = substr(name, instr(name, '/') + 1),"
    "  failed_why = substr(rest, instr(rest, ': ') + 2)"
    "  FROM named WHERE named.id = generation.id;"
    "PRAGMA user_version = 3;",
};

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    PUT,
    PRUNE,
    NEWEST,
    GET,
    EACH,
    SET_HEALTHY,
    HEALTHY,
    FORGET,
    STATEMENTS
};

#define COLUMNS "id, time_ms, cause, failed_application, failed_deployment, failed_why"
static const char *const sql[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [PUT] = "INSERT INTO generation(time_ms, cause, failed_application, failed_deployment,"
            " failed_why, spec) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [PRUNE] = "DELETE FROM generation WHERE id NOT IN (SELECT id FROM generation ORDER BY id DESC"
              " LIMIT ?1) AND id NOT IN (SELECT generation FROM healthy)"
              " AND id NOT IN (SELECT before FROM healthy)",
    [NEWEST] = "SELECT " COLUMNS ", spec FROM generation ORDER BY id DESC LIMIT 1",
    [GET] = "SELECT " COLUMNS ", spec FROM generation WHERE id = ?1",
    [EACH] = "SELECT " COLUMNS " FROM generation ORDER BY id DESC",
    [SET_HEALTHY] = "INSERT INTO healthy VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET"
                    " generation = excluded.generation, before = excluded.before"
                    " WHERE generation <> excluded.generation OR before <> excluded.before",
    [HEALTHY] = "SELECT generation, before FROM healthy WHERE application = ?1 AND deployment = ?2",
    [FORGET] = "DELETE FROM healthy WHERE application = ?1 AND deployment = ?2",
};

struct as_store {
    sqlite3 *db;
    char *path;
    uint32_t keep;
    sqlite3_stmt *stmt[STATEMENTS];
};

/* --- errors --- */

static int failed(const struct as_store *s, const char *what, struct as_buf *err)
{
    int rc = sqlite3_errcode(s->db);

    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        as_buf_printf(err, "another server uses %s; choose another --state-dir", s->path);
        return AS_EEXISTS;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        as_buf_printf(err,
                      "%s is damaged or no state file of AnyServe (%s); move it away to start "
                      "with an empty one",
                      s->path, sqlite3_errmsg(s->db));
        return AS_EPROTO;
    case SQLITE_NOMEM:
        as_buf_printf(err, "cannot %s %s: out of memory", what, s->path);
        return AS_ENOMEM;
    default:
        as_buf_printf(err, "cannot %s %s: %s", what, s->path, sqlite3_errmsg(s->db));
        return AS_EIO;
    }
}

/* --- statements --- */

static sqlite3_stmt *reset(struct as_store *s, enum statement i)
{
    sqlite3_reset(s->stmt[i]);
    sqlite3_clear_bindings(s->stmt[i]);
    return s->stmt[i];
}

/* The caller's bytes live until the statement has run. A NULL pointer would be SQL's NULL. */
static void bind_text(sqlite3_stmt *q, int at, struct as_str text)
{
    sqlite3_bind_text64(q, at, text.p ? text.p : "", text.n, SQLITE_STATIC, SQLITE_UTF8);
}

/* One that gives no row. Whatever happens, it is not left half run: that would hold the file. */
static int run(struct as_store *s, enum statement i, struct as_buf *err)
{
    int rc = 0;

    if (sqlite3_step(s->stmt[i]) != SQLITE_DONE)
        rc = failed(s, "write", err);
    sqlite3_reset(s->stmt[i]);
    return rc;
}

/* 0 with a row; AS_ENOTFOUND, nothing in err. The row stays readable until the next call. */
static int one_row(struct as_store *s, enum statement i, struct as_buf *err)
{
    switch (sqlite3_step(s->stmt[i])) {
    case SQLITE_ROW:
        return 0;
    case SQLITE_DONE:
        sqlite3_reset(s->stmt[i]);
        return AS_ENOTFOUND;
    default:
        return failed(s, "read", err);
    }
}

static struct as_str text_of(sqlite3_stmt *q, int column)
{
    const unsigned char *p = sqlite3_column_text(q, column);

    return (struct as_str){(const char *)p, p ? (size_t)sqlite3_column_bytes(q, column) : 0};
}

static void entry_of(sqlite3_stmt *q, struct as_store_entry *ret_e)
{
    *ret_e = (struct as_store_entry){.generation = (uint64_t)sqlite3_column_int64(q, 0),
                                     .time_ms = sqlite3_column_int64(q, 1),
                                     .cause = text_of(q, 2),
                                     .failed = {text_of(q, 3), text_of(q, 4), text_of(q, 5)}};
    if (sqlite3_column_count(q) > 6)
        ret_e->spec = text_of(q, 6);
}

/* Rows of the call before are let go, or no write could end. */
static void release(struct as_store *s)
{
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_reset(s->stmt[i]);
}

static bool name_fits(struct as_str application, struct as_str deployment)
{
    return application.n <= AS_STORE_NAME_MAX && deployment.n <= AS_STORE_NAME_MAX;
}

/* --- opening --- */

static int execute(struct as_store *s, const char *text, struct as_buf *err)
{
    return sqlite3_exec(s->db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(s, "open", err);
}

/* The value of a pragma that is a number. */
static int pragma(struct as_store *s, const char *text, int64_t *ret_value, struct as_buf *err)
{
    sqlite3_stmt *q = NULL;
    int rc = 0;

    if (sqlite3_prepare_v2(s->db, text, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        *ret_value = sqlite3_column_int64(q, 0);
    else
        rc = failed(s, "read", err);
    sqlite3_finalize(q);
    return rc;
}

/* Every page is looked at once: better a clear word at the start than an error in the middle. */
static int check_pages(struct as_store *s, struct as_buf *err)
{
    sqlite3_stmt *q = NULL;
    int rc = 0;

    if (sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &q, NULL) != SQLITE_OK ||
        sqlite3_step(q) != SQLITE_ROW) {
        rc = failed(s, "read", err);
    } else if (!as_str_eq(text_of(q, 0), AS_STR("ok"))) {
        as_buf_printf(err, "%s is damaged (%s); move it away to start with an empty one", s->path,
                      (const char *)sqlite3_column_text(q, 0));
        rc = AS_EPROTO;
    }
    sqlite3_finalize(q);
    return rc;
}

/* In one transaction, so that a process that is killed here leaves either nothing or all. */
static int make_schema(struct as_store *s, struct as_buf *err)
{
    char text[sizeof(schema) + 160];

    snprintf(text, sizeof(text), "%sPRAGMA application_id = %d; PRAGMA user_version = %d;", schema,
             APPLICATION_ID, SCHEMA_VERSION);
    return execute(s, text, err);
}

static int check_version(struct as_store *s, struct as_buf *err)
{
    int64_t id = 0, version = 0, tables = 0;
    int rc = pragma(s, "PRAGMA application_id", &id, err);

    if (rc == 0)
        rc = pragma(s, "PRAGMA user_version", &version, err);
    if (rc == 0)
        rc = pragma(s, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (rc)
        return rc;
    if (id == 0 && version == 0 && tables == 0)
        return make_schema(s, err);
    if (id != APPLICATION_ID || version < 1) {
        as_buf_printf(err,
                      "%s is no state file of AnyServe; move it away or choose another "
                      "--state-dir",
                      s->path);
        return AS_EPROTO;
    }
    if (version > SCHEMA_VERSION) {
        as_buf_printf(err,
                      "%s was written by a newer AnyServe (layout %lld, this one knows %d); use "
                      "that one, or another --state-dir",
                      s->path, (long long)version, SCHEMA_VERSION);
        return AS_EPROTO;
    }
    rc = check_pages(s, err);
    for (; rc == 0 && version < SCHEMA_VERSION; version++)
        rc = execute(s, upgrades[version - 1], err);
    return rc;
}

/* EXCLUSIVE: one process has the file, and needs no shared memory beside it. FULL: what was said to
 * be stored outlives a power cut. */
static int set_up(struct as_store *s, struct as_buf *err)
{
    int rc = execute(s, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;", err);

    if (rc == 0)
        rc = execute(s,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                     "PRAGMA foreign_keys = ON; BEGIN IMMEDIATE;",
                     err);
    if (rc == 0)
        rc = check_version(s, err);
    if (rc == 0)
        rc = execute(s, "COMMIT", err);
    for (int i = 0; rc == 0 && i < STATEMENTS; i++) {
        if (sqlite3_prepare_v3(s->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[i], NULL) !=
            SQLITE_OK)
            rc = failed(s, "read", err);
    }
    return rc;
}

static int open_file(struct as_store *s, const char *folder, struct as_buf *err)
{
    struct as_buf path;
    int rc;

    as_buf_init(&path);
    as_buf_printf(&path, "%s/" AS_STORE_FILE, folder);
    s->path = as_str_dup(as_buf_slice(&path));
    as_buf_fini(&path);
    rc = sqlite3_open_v2(s->path, &s->db,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                             SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE,
                         NULL);
    if (!s->db) {
        as_buf_printf(err, "cannot open %s: out of memory", s->path);
        return AS_ENOMEM;
    }
    sqlite3_extended_result_codes(s->db, 1);
    return rc == SQLITE_OK ? set_up(s, err) : failed(s, "open", err);
}

int as_store_open(struct as_store **ret_s, const char *folder, uint32_t keep, struct as_buf *err)
{
    struct as_store *s;
    mode_t mask;
    int rc = as_state_dir_make(folder, err);

    AS_ASSERT(keep > 0);
    if (rc)
        return rc;
    s = as_xalloc(sizeof(*s));
    s->keep = keep;
    /* specs may hold secrets: environment variables, for one. SQLite makes the files of its journal
     * with the mode of the database. */
    mask = umask(077);
    rc = open_file(s, folder, err);
    umask(mask);
    if (rc) {
        as_store_close(s);
        return rc;
    }
    *ret_s = s;
    return 0;
}

void as_store_close(struct as_store *s)
{
    if (!s)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(s->stmt[i]);
    sqlite3_close(s->db);
    free(s->path);
    free(s);
}

/* --- generations --- */

static int insert(struct as_store *s, const struct as_store_entry *e, struct as_buf *err)
{
    sqlite3_stmt *q = reset(s, PUT);
    int rc;

    sqlite3_bind_int64(q, 1, e->time_ms);
    bind_text(q, 2, e->cause);
    bind_text(q, 3, e->failed.application);
    bind_text(q, 4, e->failed.deployment);
    bind_text(q, 5, e->failed.why);
    bind_text(q, 6, e->spec);
    rc = run(s, PUT, err);
    if (rc)
        return rc;
    q = reset(s, PRUNE);
    sqlite3_bind_int64(q, 1, s->keep);
    return run(s, PRUNE, err);
}

static int check_sizes(const struct as_store_entry *e, struct as_buf *err)
{
    const struct {
        const char *what;
        struct as_str text;
        uint32_t max;
    } all[] = {{"the specification", e->spec, AS_STORE_SPEC_MAX},
               {"the cause", e->cause, AS_STORE_CAUSE_MAX},
               {"the reason of a failure", e->failed.why, AS_STORE_WHY_MAX}};

    AS_ASSERT(name_fits(e->failed.application, e->failed.deployment));
    for (size_t i = 0; i < AS_COUNT(all); i++) {
        if (all[i].text.n <= all[i].max)
            continue;
        as_buf_printf(err, "%s has %zu bytes; at most %u can be stored", all[i].what, all[i].text.n,
                      all[i].max);
        return AS_ETOOBIG;
    }
    return 0;
}

int as_store_put(struct as_store *s, const struct as_store_entry *e, uint64_t *ret_generation,
                 struct as_buf *err)
{
    struct as_buf ignored = {0};
    int64_t id = 0;
    int rc = check_sizes(e, err);

    if (rc)
        return rc;
    release(s);
    rc = run(s, BEGIN, err);
    if (rc)
        return rc;
    rc = insert(s, e, err);
    id = sqlite3_last_insert_rowid(s->db);
    as_failpoint("store");
    if (rc == 0)
        rc = run(s, COMMIT, err);
    as_failpoint("stored");
    if (rc) {
        /* what failed may have rolled back by itself: then this fails, and that is fine */
        run(s, ROLLBACK, &ignored);
        as_buf_fini(&ignored);
        return rc;
    }
    *ret_generation = (uint64_t)id;
    return 0;
}

int as_store_get(struct as_store *s, uint64_t generation, struct as_store_entry *ret_e,
                 struct as_buf *err)
{
    enum statement i = generation ? GET : NEWEST;
    sqlite3_stmt *q;
    int rc;

    release(s);
    q = reset(s, i);
    if (generation)
        sqlite3_bind_int64(q, 1, (sqlite3_int64)generation);
    rc = one_row(s, i, err);
    if (rc == 0)
        entry_of(q, ret_e);
    else if (rc == AS_ENOTFOUND && generation)
        as_buf_printf(err, "there is no generation %llu", (unsigned long long)generation);
    else if (rc == AS_ENOTFOUND)
        as_buf_str(err, "nothing was deployed yet");
    return rc;
}

int as_store_each(struct as_store *s, bool (*fn)(void *arg, const struct as_store_entry *e),
                  void *arg, struct as_buf *err)
{
    struct as_store_entry e;
    int rc;

    release(s);
    while ((rc = one_row(s, EACH, err)) == 0) {
        entry_of(s->stmt[EACH], &e);
        if (!fn(arg, &e))
            break;
    }
    sqlite3_reset(s->stmt[EACH]);
    return rc == AS_ENOTFOUND ? 0 : rc;
}

/* --- what was healthy --- */

static sqlite3_stmt *about(struct as_store *s, enum statement i, struct as_str application,
                           struct as_str deployment)
{
    sqlite3_stmt *q;

    release(s);
    q = reset(s, i);
    bind_text(q, 1, application);
    bind_text(q, 2, deployment);
    return q;
}

int as_store_set_healthy(struct as_store *s, struct as_str application, struct as_str deployment,
                         uint64_t generation, uint64_t before, struct as_buf *err)
{
    sqlite3_stmt *q;
    int rc;

    AS_ASSERT(name_fits(application, deployment));
    q = about(s, SET_HEALTHY, application, deployment);
    sqlite3_bind_int64(q, 3, (sqlite3_int64)generation);
    sqlite3_bind_int64(q, 4, (sqlite3_int64)before);
    if (sqlite3_step(q) == SQLITE_DONE) {
        rc = 0;
    } else if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_FOREIGNKEY) {
        as_buf_printf(err, "there is no generation %llu", (unsigned long long)generation);
        rc = AS_ENOTFOUND;
    } else {
        rc = failed(s, "write", err);
    }
    sqlite3_reset(q);
    return rc;
}

int as_store_healthy(struct as_store *s, struct as_str application, struct as_str deployment,
                     uint64_t *ret_generation, uint64_t *ret_before, struct as_buf *err)
{
    sqlite3_stmt *q = about(s, HEALTHY, application, deployment);
    int rc = one_row(s, HEALTHY, err);

    if (rc == 0) {
        *ret_generation = (uint64_t)sqlite3_column_int64(q, 0);
        *ret_before = (uint64_t)sqlite3_column_int64(q, 1);
    } else if (rc == AS_ENOTFOUND) {
        as_buf_printf(err, "%.*s of %.*s has never been healthy", AS_STR_FMT(deployment),
                      AS_STR_FMT(application));
    }
    return rc;
}

int as_store_forget(struct as_store *s, struct as_str application, struct as_str deployment,
                    struct as_buf *err)
{
    about(s, FORGET, application, deployment);
    return run(s, FORGET, err);
}
