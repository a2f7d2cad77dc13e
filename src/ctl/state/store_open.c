/* The store's file: its schema, how it is made, checked and upgraded. */
#include "ctl/state/state_dir.h"
#include "ctl/state/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define APPLICATION_ID 0x416e5376 /* "AnSv", in the file's header: marks the file as ours */
/* Incremented when an earlier version of the program would misread the file. What it can ignore is
 * in `additions`, so that a downgrade stays possible. */
#define SCHEMA_VERSION 3

/* AUTOINCREMENT: a number is never used again, even after its row was deleted. */
static const char schema[] =
    "CREATE TABLE generation(id INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,"
    " cause TEXT NOT NULL, spec TEXT NOT NULL, failed_application TEXT NOT NULL DEFAULT '',"
    " failed_deployment TEXT NOT NULL DEFAULT '', failed_why TEXT NOT NULL DEFAULT '') STRICT;"
    "CREATE TABLE healthy(application TEXT NOT NULL, deployment TEXT NOT NULL,"
    " generation INTEGER NOT NULL REFERENCES generation(id), before INTEGER NOT NULL DEFAULT 0,"
    " PRIMARY KEY(application, deployment)) STRICT, WITHOUT ROWID;";

/* Made in each file that does not have them. An earlier version of the program removes their rows
 * with the generation's by the foreign keys. */
static const char additions[] =
    "CREATE TABLE IF NOT EXISTS scale(generation INTEGER NOT NULL REFERENCES generation(id)"
    " ON DELETE CASCADE, deployment TEXT NOT NULL, replicas INTEGER NOT NULL,"
    " PRIMARY KEY(generation, deployment)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS model(generation INTEGER NOT NULL REFERENCES generation(id)"
    " ON DELETE CASCADE, place INTEGER NOT NULL, deployment TEXT NOT NULL, name TEXT NOT NULL,"
    " frame BLOB NOT NULL, PRIMARY KEY(generation, place)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS change(generation INTEGER NOT NULL REFERENCES generation(id)"
    " ON DELETE CASCADE, application TEXT NOT NULL, deployment TEXT NOT NULL, step TEXT NOT NULL,"
    " keys TEXT NOT NULL, state TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '',"
    " PRIMARY KEY(deployment, generation, application)) STRICT, WITHOUT ROWID;";

/* From schema version i + 1 to the next. Version 1 had no `before`. Version 2 had a failed update
 * in the cause only: "update of APP/DEPLOYMENT failed, back to generation N: WHY". */
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

static int run_sql(struct as_store *s, const char *text, struct as_buf *err)
{
    return sqlite3_exec(s->db, text, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : as_store_error(s, "open", err);
}

/* Reads the number that a pragma or query returns. */
static int read_pragma(struct as_store *s, const char *text, int64_t *ret_value, struct as_buf *err)
{
    sqlite3_stmt *q = NULL;
    int rc = 0;

    if (sqlite3_prepare_v2(s->db, text, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        *ret_value = sqlite3_column_int64(q, 0);
    else
        rc = as_store_error(s, "read", err);
    sqlite3_finalize(q);
    return rc;
}

/* Checks every page: a clear error at the start is better than one in the middle of an operation.
 */
static int check_pages(struct as_store *s, struct as_buf *err)
{
    sqlite3_stmt *q = NULL;
    int rc = 0;

    if (sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &q, NULL) != SQLITE_OK ||
        sqlite3_step(q) != SQLITE_ROW) {
        rc = as_store_error(s, "read", err);
    } else if (!as_str_eq(as_store_column_text(q, 0), AS_STR("ok"))) {
        as_buf_printf(err, "%s is damaged (%s); move it away to start with an empty one", s->path,
                      (const char *)sqlite3_column_text(q, 0));
        rc = AS_EPROTO;
    }
    sqlite3_finalize(q);
    return rc;
}

/* In the caller's transaction: a process that is killed here leaves all or nothing. */
static int make_schema(struct as_store *s, struct as_buf *err)
{
    char text[sizeof(schema) + 160];

    snprintf(text, sizeof(text), "%sPRAGMA application_id = %d; PRAGMA user_version = %d;", schema,
             APPLICATION_ID, SCHEMA_VERSION);
    return run_sql(s, text, err);
}

static int check_version(struct as_store *s, struct as_buf *err)
{
    int64_t id = 0, version = 0, tables = 0;
    int rc = read_pragma(s, "PRAGMA application_id", &id, err);

    if (rc == 0)
        rc = read_pragma(s, "PRAGMA user_version", &version, err);
    if (rc == 0)
        rc = read_pragma(s, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (rc)
        return rc;
    if (id == 0 && version == 0 && tables == 0) { /* an earlier version was killed here */
        rc = make_schema(s, err);
        return rc ? rc : run_sql(s, additions, err);
    }
    if (id != APPLICATION_ID || version < 1) {
        as_buf_printf(err,
                      "%s is not a state file of AnyServe; move it away or choose another "
                      "--state-dir",
                      s->path);
        return AS_EPROTO;
    }
    if (version > SCHEMA_VERSION) {
        as_buf_printf(err,
                      "%s was written by a newer AnyServe (layout %lld, this one knows %d); use "
                      "that version, or another --state-dir",
                      s->path, (long long)version, SCHEMA_VERSION);
        return AS_EPROTO;
    }
    rc = check_pages(s, err);
    for (; rc == 0 && version < SCHEMA_VERSION; version++)
        rc = run_sql(s, upgrades[version - 1], err);
    return rc ? rc : run_sql(s, additions, err);
}

/* EXCLUSIVE: one process has the file, without a shared-memory file. FULL: a committed generation
 * survives a power cut. */
static int setup_connection(struct as_store *s, struct as_buf *err)
{
    int rc = run_sql(s, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;", err);

    if (rc == 0)
        rc = run_sql(s,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                     "PRAGMA foreign_keys = ON; BEGIN IMMEDIATE;",
                     err);
    if (rc == 0)
        rc = check_version(s, err);
    if (rc == 0)
        rc = run_sql(s, "COMMIT", err);
    for (int i = 0; rc == 0 && i < AS_STORE_STATEMENTS; i++) {
        if (sqlite3_prepare_v3(s->db, as_store_sql[i], -1, SQLITE_PREPARE_PERSISTENT, &s->stmt[i],
                               NULL) != SQLITE_OK)
            rc = as_store_error(s, "read", err);
    }
    return rc;
}

/* --- a new file --- */

/* The bytes of an empty store; the caller frees them by sqlite3_free. */
static int serialize_new(struct as_store *s, unsigned char **ret_p, sqlite3_int64 *ret_n,
                         struct as_buf *err)
{
    int rc = sqlite3_open_v2(":memory:", &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL)
                 ? AS_ENOMEM
                 : make_schema(s, err);

    if (rc == 0)
        rc = run_sql(s, additions, err);
    if (rc == 0) {
        *ret_p = sqlite3_serialize(s->db, "main", ret_n, 0);
        rc = *ret_p ? 0 : AS_ENOMEM;
    }
    if (rc == AS_ENOMEM)
        as_buf_printf(err, "cannot make %s: out of memory", s->path);
    sqlite3_close(s->db);
    s->db = NULL;
    return rc;
}

/* 0 or an errno. */
static int write_file(const char *path, const unsigned char *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), e = 0;

    if (fd < 0)
        return errno;
    while (!e && n) {
        ssize_t k = write(fd, p, n);

        e = k < 0 ? errno : 0;
        p += k < 0 ? 0 : k;
        n -= k < 0 ? 0 : (size_t)k;
    }
    if (!e && fsync(fd) < 0)
        e = errno;
    close(fd);
    return e;
}

static int sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int e = fd < 0 || fsync(fd) < 0 ? errno : 0;

    if (fd >= 0)
        close(fd);
    return e;
}

/* Writes the file under another name and links it when it is complete: so an empty file is always
 * an error. */
static int create_file(struct as_store *s, const char *folder, const char *path, struct as_buf *err)
{
    unsigned char *bytes = NULL;
    sqlite3_int64 n = 0;
    char *name;
    int rc = serialize_new(s, &bytes, &n, err), e = 0;

    if (rc)
        return rc;
    /* SQLite would use the WAL of a file that was moved away for the new one */
    name = as_str_format("%s-wal", path);
    unlink(name);
    free(name);
    name = as_str_format("%s.new-%d", path, (int)getpid());
    unlink(name); /* left by a process that was killed here */
    e = write_file(name, bytes, (size_t)n);
    /* EEXIST: another process has made it meanwhile, and its file is used */
    if (!e && link(name, path) < 0 && errno != EEXIST)
        e = errno;
    /* a file system without hard links: the folder's lock keeps others from making the file now */
    if ((e == EPERM || e == EOPNOTSUPP || e == ENOSYS) && access(path, F_OK) < 0)
        e = rename(name, path) < 0 ? errno : 0;
    unlink(name);
    if (!e)
        e = sync_folder(folder);
    if (e)
        as_buf_printf(err, "cannot make %s: %s", s->path, strerror(e));
    sqlite3_free(bytes);
    free(name);
    return e ? AS_EIO : 0;
}

/* Makes the file if it is missing; refuses an empty one. */
static int check_file(struct as_store *s, const char *folder, const char *path, struct as_buf *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? create_file(s, folder, path, err) : 0; /* the open reports it */
    if (!S_ISREG(st.st_mode) || st.st_size > 0)
        return 0;
    as_buf_printf(err,
                  "%s is empty (0 bytes): its content was lost, perhaps by an incomplete copy or a "
                  "full disk; restore it from a backup, or move it away to start with nothing",
                  s->path);
    return AS_EPROTO;
}

static int open_or_create(struct as_store *s, const char *folder, struct as_buf *err)
{
    char *path = as_str_format("%s/" AS_STORE_FILE, folder);
    int found = check_file(s, folder, path, err), rc = SQLITE_OK;

    if (found == 0)
        rc = sqlite3_open_v2(path, &s->db,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
                                 SQLITE_OPEN_PRIVATECACHE,
                             NULL);
    free(path);
    if (found)
        return found;
    if (!s->db) {
        as_buf_printf(err, "cannot open %s: out of memory", s->path);
        return AS_ENOMEM;
    }
    sqlite3_extended_result_codes(s->db, 1);
    return rc == SQLITE_OK ? setup_connection(s, err) : as_store_error(s, "open", err);
}

int as_store_open(struct as_store **ret_s, const char *folder, uint32_t keep, struct as_buf *err)
{
    return as_store_open_as(ret_s, folder, folder, keep, err);
}

int as_store_open_as(struct as_store **ret_s, const char *folder, const char *shown_folder,
                     uint32_t keep, struct as_buf *err)
{
    struct as_store *s;
    mode_t mask;
    int rc = as_state_dir_make(folder, err);

    AS_ASSERT(keep > 0);
    if (rc)
        return rc;
    s = as_xalloc(sizeof(*s));
    s->keep = keep;
    s->path = as_str_format("%s/" AS_STORE_FILE, shown_folder);
    /* specs may hold secrets, as in environment variables. SQLite gives its journal the mode of the
     * database. */
    mask = umask(077);
    rc = open_or_create(s, folder, err);
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
    for (int i = 0; i < AS_STORE_STATEMENTS; i++)
        sqlite3_finalize(s->stmt[i]);
    sqlite3_close(s->db);
    free(s->path);
    free(s);
}
