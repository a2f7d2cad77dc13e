/* conf/spec.h — what is to be served, as a deployment file declares it.
 *
 * A file is YAML (or JSON, which is read as YAML): applications, and in each the deployments. Every
 * key is one row of the table in conf/spec_row.h. A key's value comes from the file, else from the
 * code (the Python objects, as_spec_overlay), else from the row. Whole files are read or nothing:
 * the errors of a text are told together, each with file, line, column and key. Pure, but for
 * as_spec_load.
 *
 *     as_spec_load(&spec, &limits, "anyserve.yaml", &err)
 *     for (i = 0; i < as_spec_count(spec->file, AS_SPEC_FILE_APPLICATIONS); i++)
 *         app = as_spec_object(spec->file, AS_SPEC_FILE_APPLICATIONS, i) …
 *             n = as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_NUM_REPLICAS)
 */
#ifndef AS_CONF_SPEC_H
#define AS_CONF_SPEC_H

#include "base/memory/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "conf/declared.h"
#include "conf/spec_row.h"

/* Who said it. A later one wins over an earlier one. */
enum as_spec_from { AS_SPEC_FROM_DEFAULT, AS_SPEC_FROM_CODE, AS_SPEC_FROM_FILE };

struct as_spec_object;

struct as_spec_value {
    bool set; /* there is a value: said, or the row has a default */
    enum as_spec_from from;
    uint32_t line, column; /* of the value in the file, from 1; 0: it is not from the file */
    /* BOOL, INT, NUMBER (thousandths), DURATION (ns), SIZE, ENUM (index), AMOUNT (-1 - percent) */
    int64_t i;
    const char *s;      /* STRING, TEXT, ENUM (the word), JSON (one line, keys sorted); or NULL */
    uint32_t n;         /* of texts or objects */
    const char **texts; /* TEXTS; MAP: "NAME=value", sorted, each name once */
    struct as_spec_object **objects; /* OBJECTS, in the file's order; OBJECT: one */
};

struct as_spec_object { /* what one mapping of the file says */
    enum as_spec_level level;
    uint32_t line, column;
    struct as_spec_value *v; /* by key, from the first of the level */
};

/* Owns everything below it, errors' texts not. Not changed but by as_spec_overlay,
 * as_spec_set_int and as_spec_remove_object. */
struct as_spec {
    struct as_arena arena;
    const char *name; /* of the file, as it is told in errors */
    struct as_spec_object *file;
};

/* All from the option table; as_spec_limits_from_options takes them from there. */
struct as_spec_limits {
    size_t bytes;          /* of the text */
    uint32_t depth;        /* mappings and lists inside each other */
    uint32_t applications; /* of a file */
    uint32_t deployments;  /* of a file, over all applications */
    uint32_t errors;       /* that are told; the rest is counted */
};

struct as_option_set;
void as_spec_limits_from_options(struct as_spec_limits *ret_l, const struct as_option_set *o);

/* A text. 0, or AS_EINVALID with lines "NAME:LINE:COLUMN: KEY: what is wrong\n" in `err`. `name` is
 * copied. */
int as_spec_parse(struct as_spec **ret_s, const struct as_spec_limits *l, const char *name,
                  struct as_str text, struct as_buf *err);
/* The same for a file, "-" for stdin. Also AS_ENOTFOUND, AS_EDENIED, AS_EIO, with a line in `err`.
 */
int as_spec_load(struct as_spec **ret_s, const struct as_spec_limits *l, const char *path,
                 struct as_buf *err);
void as_spec_free(struct as_spec *s);

/* What the code declares goes where the file is silent, for one application of `s` that has an
 * import_path: options of its deployments, and deployments that the file does not name; and which
 * copy of it is served, which takes the place of the file's `code`. AS_EINVALID: the file names a
 * deployment that the code does not have, or the code says what the table refuses; `err` as above,
 * and `s` is good for as_spec_free only. For an application with a command (`code` NULL): one
 * deployment of the application's name when it names none. */
int as_spec_overlay(struct as_spec *s, struct as_spec_object *app, const struct as_declared *code,
                    const struct as_spec_limits *l, struct as_buf *err);

/* When the code of all applications was laid in: what only the whole can say. 0, or AS_EINVALID
 * with at most so many lines in `err`. */
int as_spec_check_whole(const struct as_spec *s, uint32_t lines, struct as_buf *err);

/* A spec of one application as `run` has it: what the code of `target` declares, nothing else. */
int as_spec_new_from_code(struct as_spec **ret_s, const struct as_spec_limits *l, const char *name,
                          const char *target, const struct as_declared *code, struct as_buf *err);

/* Another value for an INT of `o`, as if the file had said it. AS_EINVALID: out of bounds. */
int as_spec_set_int(struct as_spec_object *o, enum as_spec_key id, int64_t value);

/* Takes the i-th of OBJECTS out of the list. */
void as_spec_remove_object(struct as_spec_object *o, enum as_spec_key id, uint32_t i);

/* --- values; the id's level and type are asserted --- */

const struct as_spec_value *as_spec_value(const struct as_spec_object *o, enum as_spec_key id);
bool as_spec_is_set(const struct as_spec_object *o, enum as_spec_key id);
bool as_spec_bool(const struct as_spec_object *o, enum as_spec_key id);
int64_t as_spec_i64(const struct as_spec_object *o, enum as_spec_key id); /* INT, SIZE, ENUM */
int64_t as_spec_thousandths(const struct as_spec_object *o, enum as_spec_key id); /* NUMBER */
as_ns as_spec_ns(const struct as_spec_object *o, enum as_spec_key id);            /* DURATION */
/* AMOUNT: a number, or of 100. */
uint32_t as_spec_amount(const struct as_spec_object *o, enum as_spec_key id, bool *ret_percent);
/* STRING, TEXT, ENUM, JSON; NULL when it is not set. */
const char *as_spec_str(const struct as_spec_object *o, enum as_spec_key id);
/* TEXTS, MAP, OBJECT, OBJECTS: how many; the i-th. */
uint32_t as_spec_count(const struct as_spec_object *o, enum as_spec_key id);
const char *as_spec_text(const struct as_spec_object *o, enum as_spec_key id, uint32_t i);
struct as_spec_object *as_spec_object(const struct as_spec_object *o, enum as_spec_key id,
                                      uint32_t i);
/* The object with this `name`, or NULL. */
struct as_spec_object *as_spec_find(const struct as_spec_object *o, enum as_spec_key id,
                                    struct as_str name);

/* --- what of a deployment depends on its application too --- */

/* "NAME=value" lines of env, the application's first unless the deployment says the name again;
 * sorted. NULL-terminated; the caller frees the array, not the lines. */
const char **as_spec_env(const struct as_spec_object *app, const struct as_spec_object *deployment);
/* The deployment's working_dir, else the application's, else NULL. */
const char *as_spec_working_dir(const struct as_spec_object *app,
                                const struct as_spec_object *deployment);

/* --- texts --- */

/* Only what was said (from code or file) or, all, every value that is set, as a deployment file
 * that reads back the same. */
void as_spec_print(const struct as_spec *s, bool all, struct as_buf *out);
/* One object as JSON, one line, only what was said (from code or file) or, all, what is set. */
void as_spec_json(const struct as_spec_object *o, bool all, struct as_buf *out);
/* JSON Schema (draft 2020-12) of a file; docs/guide/deployment-file.md. */
void as_spec_schema(struct as_buf *out);
void as_spec_markdown(struct as_buf *b);

#endif
