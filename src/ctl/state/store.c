#include "ctl/state/store.h"

#include "ctl/state/failpoint.h"
#include "ctl/state/state_dir.h"
#include "ctl/state/store_internal.h"

#define COLUMNS "id, time_ms, cause, failed_application, failed_deployment, failed_why"
const char *const as_store_sql[AS_STORE_STATEMENTS] = {
    [AS_STORE_BEGIN] = "BEGIN IMMEDIATE",
    [AS_STORE_COMMIT] = "COMMIT",
    [AS_STORE_ROLLBACK] = "ROLLBACK",
    [AS_STORE_PUT] = "INSERT INTO generation(time_ms, cause, failed_application, failed_deployment,"
                     " failed_why, spec) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
    [AS_STORE_PRUNE] =
        "DELETE FROM generation WHERE id NOT IN (SELECT id FROM generation ORDER BY id DESC"
        " LIMIT ?1) AND id NOT IN (SELECT generation FROM healthy)"
        " AND id NOT IN (SELECT before FROM healthy)",
    [AS_STORE_NEWEST] = "SELECT " COLUMNS ", spec FROM generation ORDER BY id DESC LIMIT 1",
    [AS_STORE_GET] = "SELECT " COLUMNS ", spec FROM generation WHERE id = ?1",
    [AS_STORE_EACH] = "SELECT " COLUMNS " FROM generation ORDER BY id DESC",
    [AS_STORE_SET_HEALTHY] =
        "INSERT INTO healthy VALUES(?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET"
        " generation = excluded.generation, before = excluded.before"
        " WHERE generation <> excluded.generation OR before <> excluded.before",
    [AS_STORE_HEALTHY] =
        "SELECT generation, before FROM healthy WHERE application = ?1 AND deployment = ?2",
    [AS_STORE_EACH_HEALTHY] =
        "SELECT generation FROM healthy UNION SELECT before FROM healthy WHERE before <> 0",
    [AS_STORE_REMOVE_HEALTHY] = "DELETE FROM healthy WHERE application = ?1 AND deployment = ?2",
    [AS_STORE_PUT_SCALE] = "INSERT INTO scale VALUES(?1, ?2, ?3)",
    [AS_STORE_EACH_SCALE] = "SELECT deployment, replicas FROM scale WHERE generation = ?1",
    [AS_STORE_PUT_MODEL] = "INSERT INTO model VALUES(?1, ?2, ?3, ?4, ?5)",
    [AS_STORE_EACH_MODEL] =
        "SELECT deployment, name, frame FROM model WHERE generation = ?1 ORDER BY place",
    [AS_STORE_PUT_CHANGE] = "INSERT INTO change(generation, application, deployment, step, keys)"
                            " VALUES(?1, ?2, ?3, ?4, ?5)",
    [AS_STORE_EACH_CHANGE] =
        "SELECT generation, application, deployment, step, keys, state, why FROM change"
        " ORDER BY generation DESC",
    [AS_STORE_SET_OUTCOME] =
        "UPDATE change SET state = ?4, why = ?5 WHERE application = ?6 AND deployment = ?2 AND"
        " step <> 'removed' AND state IN ('', ?3) AND generation = (SELECT max(generation) FROM"
        " change WHERE application = ?6 AND deployment = ?2 AND generation <= ?1)",
};

/* --- errors --- */

int as_store_error(const struct as_store *s, const char *what, struct as_buf *err)
{
    int rc = sqlite3_errcode(s->db);

    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        as_state_dir_describe_holder(s->path, s->path, err);
        return AS_EEXISTS;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        as_buf_printf(err,
                      "%s is damaged or not a state file of AnyServe (%s); move it away to start "
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

static sqlite3_stmt *reset_statement(struct as_store *s, enum as_store_statement i)
{
    sqlite3_reset(s->stmt[i]);
    sqlite3_clear_bindings(s->stmt[i]);
    return s->stmt[i];
}

/* The text must live until the statement has run. A NULL pointer would become SQL's NULL. */
static void bind_text(sqlite3_stmt *q, int at, struct as_str text)
{
    sqlite3_bind_text64(q, at, text.p ? text.p : "", text.n, SQLITE_STATIC, SQLITE_UTF8);
}

/* Runs a statement without rows. It is always reset, since an unfinished one would keep the file
 * locked.
 */
static int run_statement(struct as_store *s, enum as_store_statement i, struct as_buf *err)
{
    int rc = 0;

    if (sqlite3_step(s->stmt[i]) != SQLITE_DONE)
        rc = as_store_error(s, "write", err);
    sqlite3_reset(s->stmt[i]);
    return rc;
}

/* 0 with a row, which is readable until the next call; AS_ENOTFOUND, with nothing in err. */
static int step_row(struct as_store *s, enum as_store_statement i, struct as_buf *err)
{
    switch (sqlite3_step(s->stmt[i])) {
    case SQLITE_ROW:
        return 0;
    case SQLITE_DONE:
        sqlite3_reset(s->stmt[i]);
        return AS_ENOTFOUND;
    default:
        return as_store_error(s, "read", err);
    }
}

struct as_str as_store_column_text(sqlite3_stmt *q, int column)
{
    const unsigned char *p = sqlite3_column_text(q, column);

    return (struct as_str){(const char *)p, p ? (size_t)sqlite3_column_bytes(q, column) : 0};
}

static void read_entry(sqlite3_stmt *q, struct as_store_entry *ret_e)
{
    *ret_e =
        (struct as_store_entry){.generation = (uint64_t)sqlite3_column_int64(q, 0),
                                .time_ms = sqlite3_column_int64(q, 1),
                                .cause = as_store_column_text(q, 2),
                                .failed = {as_store_column_text(q, 3), as_store_column_text(q, 4),
                                           as_store_column_text(q, 5)}};
    if (sqlite3_column_count(q) > 6)
        ret_e->spec = as_store_column_text(q, 6);
}

/* An open row of the call before would block writes. */
static void reset_all(struct as_store *s)
{
    for (int i = 0; i < AS_STORE_STATEMENTS; i++)
        sqlite3_reset(s->stmt[i]);
}

static bool name_fits(struct as_str application, struct as_str deployment)
{
    return application.n <= AS_STORE_NAME_MAX && deployment.n <= AS_STORE_NAME_MAX;
}

/* --- generations --- */

static int insert_scale(struct as_store *s, int64_t generation, const struct as_store_scale *scale,
                        struct as_buf *err)
{
    sqlite3_stmt *q = reset_statement(s, AS_STORE_PUT_SCALE);

    AS_ASSERT(scale->deployment.n <= AS_STORE_NAME_MAX);
    sqlite3_bind_int64(q, 1, generation);
    bind_text(q, 2, scale->deployment);
    sqlite3_bind_int64(q, 3, scale->replicas);
    return run_statement(s, AS_STORE_PUT_SCALE, err);
}

static int insert_change(struct as_store *s, int64_t generation, const struct as_store_change *c,
                         struct as_buf *err)
{
    sqlite3_stmt *q = reset_statement(s, AS_STORE_PUT_CHANGE);

    AS_ASSERT(name_fits(c->application, c->deployment));
    sqlite3_bind_int64(q, 1, generation);
    bind_text(q, 2, c->application);
    bind_text(q, 3, c->deployment);
    bind_text(q, 4, c->step);
    bind_text(q, 5, c->keys);
    return run_statement(s, AS_STORE_PUT_CHANGE, err);
}

/* A deployment that was deleted is not rolled back: its healthy generations need not be kept. */
static int remove_healthy(struct as_store *s, const struct as_store_change *c, struct as_buf *err)
{
    sqlite3_stmt *q = reset_statement(s, AS_STORE_REMOVE_HEALTHY);

    bind_text(q, 1, c->application);
    bind_text(q, 2, c->deployment);
    return run_statement(s, AS_STORE_REMOVE_HEALTHY, err);
}

/* A place is a model's number in its generation. */
static int insert_model(struct as_store *s, int64_t generation, uint32_t place,
                        const struct as_store_model *m, struct as_buf *err)
{
    sqlite3_stmt *q = reset_statement(s, AS_STORE_PUT_MODEL);

    sqlite3_bind_int64(q, 1, generation);
    sqlite3_bind_int64(q, 2, place);
    bind_text(q, 3, m->deployment);
    bind_text(q, 4, m->name);
    sqlite3_bind_blob64(q, 5, m->frame.n ? m->frame.p : "", m->frame.n, SQLITE_STATIC);
    return run_statement(s, AS_STORE_PUT_MODEL, err);
}

static int insert_generation(struct as_store *s, const struct as_store_entry *e, int64_t *ret_id,
                             struct as_buf *err)
{
    sqlite3_stmt *q = reset_statement(s, AS_STORE_PUT);
    int rc;

    sqlite3_bind_int64(q, 1, e->time_ms);
    bind_text(q, 2, e->cause);
    bind_text(q, 3, e->failed.application);
    bind_text(q, 4, e->failed.deployment);
    bind_text(q, 5, e->failed.why);
    bind_text(q, 6, e->spec);
    rc = run_statement(s, AS_STORE_PUT, err);
    *ret_id = sqlite3_last_insert_rowid(s->db);
    for (uint32_t i = 0; rc == 0 && i < e->n_scales; i++)
        rc = insert_scale(s, *ret_id, &e->scales[i], err);
    for (uint32_t i = 0; rc == 0 && i < e->n_changes; i++) {
        rc = insert_change(s, *ret_id, &e->changes[i], err);
        if (rc == 0 && as_str_eq(e->changes[i].step, AS_STR("removed")))
            rc = remove_healthy(s, &e->changes[i], err);
    }
    for (uint32_t i = 0; rc == 0 && i < e->n_models; i++)
        rc = insert_model(s, *ret_id, i, &e->models[i], err);
    if (rc)
        return rc;
    q = reset_statement(s, AS_STORE_PRUNE);
    sqlite3_bind_int64(q, 1, s->keep);
    return run_statement(s, AS_STORE_PRUNE, err);
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
    reset_all(s);
    rc = run_statement(s, AS_STORE_BEGIN, err);
    if (rc)
        return rc;
    rc = insert_generation(s, e, &id, err);
    as_failpoint("store");
    if (rc == 0)
        rc = run_statement(s, AS_STORE_COMMIT, err);
    as_failpoint("stored");
    if (rc) {
        /* fails if SQLite has rolled back by itself: ignored */
        run_statement(s, AS_STORE_ROLLBACK, &ignored);
        as_buf_fini(&ignored);
        return rc;
    }
    *ret_generation = (uint64_t)id;
    return 0;
}

int as_store_get(struct as_store *s, uint64_t generation, struct as_store_entry *ret_e,
                 struct as_buf *err)
{
    enum as_store_statement i = generation ? AS_STORE_GET : AS_STORE_NEWEST;
    sqlite3_stmt *q;
    int rc;

    reset_all(s);
    q = reset_statement(s, i);
    if (generation)
        sqlite3_bind_int64(q, 1, (sqlite3_int64)generation);
    rc = step_row(s, i, err);
    if (rc == 0)
        read_entry(q, ret_e);
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

    reset_all(s);
    while ((rc = step_row(s, AS_STORE_EACH, err)) == 0) {
        read_entry(s->stmt[AS_STORE_EACH], &e);
        if (!fn(arg, &e))
            break;
    }
    sqlite3_reset(s->stmt[AS_STORE_EACH]);
    return rc == AS_ENOTFOUND ? 0 : rc;
}

int as_store_each_scale(struct as_store *s, uint64_t generation,
                        void (*fn)(void *arg, const struct as_store_scale *scale), void *arg,
                        struct as_buf *err)
{
    sqlite3_stmt *q;
    int rc;

    reset_all(s);
    q = reset_statement(s, AS_STORE_EACH_SCALE);
    sqlite3_bind_int64(q, 1, (sqlite3_int64)generation);
    while ((rc = step_row(s, AS_STORE_EACH_SCALE, err)) == 0)
        fn(arg, &(struct as_store_scale){.deployment = as_store_column_text(q, 0),
                                         .replicas = (uint32_t)sqlite3_column_int64(q, 1)});
    sqlite3_reset(q);
    return rc == AS_ENOTFOUND ? 0 : rc;
}

int as_store_each_model(struct as_store *s, uint64_t generation,
                        void (*fn)(void *arg, const struct as_store_model *model), void *arg,
                        struct as_buf *err)
{
    sqlite3_stmt *q;
    int rc;

    reset_all(s);
    q = reset_statement(s, AS_STORE_EACH_MODEL);
    sqlite3_bind_int64(q, 1, (sqlite3_int64)generation);
    while ((rc = step_row(s, AS_STORE_EACH_MODEL, err)) == 0) {
        const void *frame = sqlite3_column_blob(q, 2);

        fn(arg, &(struct as_store_model){
                    .deployment = as_store_column_text(q, 0),
                    .name = as_store_column_text(q, 1),
                    .frame = {frame, frame ? (size_t)sqlite3_column_bytes(q, 2) : 0}});
    }
    sqlite3_reset(q);
    return rc == AS_ENOTFOUND ? 0 : rc;
}

/* --- changes and their outcome --- */

int as_store_each_change(struct as_store *s,
                         void (*fn)(void *arg, const struct as_store_change *change), void *arg,
                         struct as_buf *err)
{
    sqlite3_stmt *q;
    int rc;

    reset_all(s);
    q = reset_statement(s, AS_STORE_EACH_CHANGE);
    while ((rc = step_row(s, AS_STORE_EACH_CHANGE, err)) == 0)
        fn(arg, &(struct as_store_change){.generation = (uint64_t)sqlite3_column_int64(q, 0),
                                          .application = as_store_column_text(q, 1),
                                          .deployment = as_store_column_text(q, 2),
                                          .step = as_store_column_text(q, 3),
                                          .keys = as_store_column_text(q, 4),
                                          .state = as_store_column_text(q, 5),
                                          .why = as_store_column_text(q, 6)});
    sqlite3_reset(q);
    return rc == AS_ENOTFOUND ? 0 : rc;
}

int as_store_set_outcome(struct as_store *s, uint64_t generation, struct as_str application,
                         struct as_str deployment, struct as_str from, struct as_str state,
                         struct as_str why, struct as_buf *err)
{
    sqlite3_stmt *q;

    AS_ASSERT(why.n <= AS_STORE_WHY_MAX);
    reset_all(s);
    q = reset_statement(s, AS_STORE_SET_OUTCOME);
    sqlite3_bind_int64(q, 1, (sqlite3_int64)generation);
    bind_text(q, 2, deployment);
    bind_text(q, 3, from);
    bind_text(q, 4, state);
    bind_text(q, 5, why);
    bind_text(q, 6, application);
    return run_statement(s, AS_STORE_SET_OUTCOME, err);
}

/* --- healthy generations --- */

static sqlite3_stmt *bind_names(struct as_store *s, enum as_store_statement i,
                                struct as_str application, struct as_str deployment)
{
    sqlite3_stmt *q;

    reset_all(s);
    q = reset_statement(s, i);
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
    q = bind_names(s, AS_STORE_SET_HEALTHY, application, deployment);
    sqlite3_bind_int64(q, 3, (sqlite3_int64)generation);
    sqlite3_bind_int64(q, 4, (sqlite3_int64)before);
    if (sqlite3_step(q) == SQLITE_DONE) {
        rc = 0;
    } else if (sqlite3_extended_errcode(s->db) == SQLITE_CONSTRAINT_FOREIGNKEY) {
        as_buf_printf(err, "there is no generation %llu", (unsigned long long)generation);
        rc = AS_ENOTFOUND;
    } else {
        rc = as_store_error(s, "write", err);
    }
    sqlite3_reset(q);
    return rc;
}

int as_store_healthy(struct as_store *s, struct as_str application, struct as_str deployment,
                     uint64_t *ret_generation, uint64_t *ret_before, struct as_buf *err)
{
    sqlite3_stmt *q = bind_names(s, AS_STORE_HEALTHY, application, deployment);
    int rc = step_row(s, AS_STORE_HEALTHY, err);

    if (rc == 0) {
        *ret_generation = (uint64_t)sqlite3_column_int64(q, 0);
        *ret_before = (uint64_t)sqlite3_column_int64(q, 1);
    } else if (rc == AS_ENOTFOUND) {
        as_buf_printf(err, "deployment '%.*s' of application '%.*s' has never been healthy",
                      AS_STR_FMT(deployment), AS_STR_FMT(application));
    }
    return rc;
}

int as_store_each_healthy(struct as_store *s, void (*fn)(void *arg, uint64_t generation), void *arg,
                          struct as_buf *err)
{
    int rc;

    reset_all(s);
    while ((rc = step_row(s, AS_STORE_EACH_HEALTHY, err)) == 0)
        fn(arg, (uint64_t)sqlite3_column_int64(s->stmt[AS_STORE_EACH_HEALTHY], 0));
    sqlite3_reset(s->stmt[AS_STORE_EACH_HEALTHY]);
    return rc == AS_ENOTFOUND ? 0 : rc;
}
