/* ctl/state/store_internal.h — shared by the store's files: store_open.c makes, checks and upgrades
 * the file, store.c reads and writes it, store_copy.c works on a copy.
 */
#ifndef AS_CTL_STORE_INTERNAL_H
#define AS_CTL_STORE_INTERNAL_H

#include "ctl/state/store.h"

#include <sqlite3.h>

enum as_store_statement {
    AS_STORE_BEGIN,
    AS_STORE_COMMIT,
    AS_STORE_ROLLBACK,
    AS_STORE_PUT,
    AS_STORE_PRUNE,
    AS_STORE_NEWEST,
    AS_STORE_GET,
    AS_STORE_EACH,
    AS_STORE_SET_HEALTHY,
    AS_STORE_HEALTHY,
    AS_STORE_EACH_HEALTHY,
    AS_STORE_REMOVE_HEALTHY,
    AS_STORE_PUT_SCALE,
    AS_STORE_EACH_SCALE,
    AS_STORE_PUT_MODEL,
    AS_STORE_EACH_MODEL,
    AS_STORE_PUT_CHANGE,
    AS_STORE_EACH_CHANGE,
    AS_STORE_SET_OUTCOME,
    AS_STORE_STATEMENTS
};

struct as_store {
    sqlite3 *db;
    char *path; /* for errors */
    uint32_t keep;
    sqlite3_stmt *stmt[AS_STORE_STATEMENTS];
};

/* As as_store_open; errors name the file as if it were in `shown_folder`. */
int as_store_open_as(struct as_store **ret_s, const char *folder, const char *shown_folder,
                     uint32_t keep, struct as_buf *err);
/* The last error of SQLite as AS_E…, and a sentence in `err`. what: "read", "write", "open". */
int as_store_error(const struct as_store *s, const char *what, struct as_buf *err);
/* Valid until the next step of q. */
struct as_str as_store_column_text(sqlite3_stmt *q, int column);
/* The texts of the statements. */
extern const char *const as_store_sql[AS_STORE_STATEMENTS];

#endif
