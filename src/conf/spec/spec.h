/* conf/spec/spec.h — the spec: a deployment file as objects and values.
 *
 * A file is YAML (or JSON, which is read as YAML): a list of applications, each with its
 * deployments. Each key is a row of the table in conf/spec/spec_row.h. The value of a key comes
 * from the file, else from the code (the Python objects, as_spec_overlay), else from the row. A
 * file with an error is refused as a whole; all its errors are reported, each with file, line,
 * column and key. Pure, except as_spec_load. One thread for each spec.
 *
 *     as_spec_load(&spec, &limits, "anyserve.yaml", &err)
 *     for (i = 0; i < as_spec_count(spec->file, AS_SPEC_FILE_APPLICATIONS); i++)
 *         app = as_spec_object(spec->file, AS_SPEC_FILE_APPLICATIONS, i) …
 *             n = as_spec_i64(deployment, AS_SPEC_DEPLOYMENT_NUM_REPLICAS)
 */
#ifndef AS_CONF_SPEC_H
#define AS_CONF_SPEC_H

#include "base/buf.h"
#include "base/err.h"
#include "base/memory/arena.h"
#include "conf/spec/declared.h"
#include "conf/spec/spec_row.h"

/* Where a value comes from. A later source overrides an earlier one. */
enum as_spec_from { AS_SPEC_FROM_DEFAULT, AS_SPEC_FROM_CODE, AS_SPEC_FROM_FILE };

struct as_spec_object;

struct as_spec_value {
    bool set; /* false: neither file nor code set it, and the row has no default */
    enum as_spec_from from;
    uint32_t line, column; /* of the value in the file, from 1; 0: it is not from the file */
    /* BOOL, INT, NUMBER (thousandths), DURATION (ns), SIZE, ENUM (the index of the word), AMOUNT (a
     * percentage p is -1 - p) */
    int64_t i;
    const char *s;      /* STRING, TEXT, ENUM (the word), JSON (one line, keys sorted); or NULL */
    uint32_t n;         /* number of texts or objects */
    const char **texts; /* TEXTS; MAP: "NAME=value", sorted, each name once */
    struct as_spec_object **objects; /* OBJECTS, in the file's order; OBJECT: one */
};

struct as_spec_object { /* one mapping of the file */
    enum as_spec_level level;
    uint32_t line, column;
    struct as_spec_value *v; /* one for each key of the level, in the order of the table */
};

/* Owns all its objects and values. Only changed by as_spec_overlay, as_spec_set_int and
 * as_spec_remove_object. */
struct as_spec {
    struct as_arena arena;
    const char *name; /* of the file, for error texts */
    struct as_spec_object *file;
};

/* Limits of a file, which are options. */
struct as_spec_limits {
    size_t bytes;          /* of the text */
    uint32_t depth;        /* of nested mappings and lists */
    uint32_t applications; /* of a file */
    uint32_t deployments;  /* of a file, in all applications together */
    uint32_t errors;       /* that are reported; the others are only counted */
    bool stored;           /* it is a text of the store, maybe of an earlier version */
};

struct as_option_set;
void as_spec_limits_from_options(struct as_spec_limits *ret_l, const struct as_option_set *o);

/* Parses a text. 0; AS_EINVALID: `err` gets lines "NAME:LINE:COLUMN: KEY: what is wrong\n". `name`
 * is copied. */
int as_spec_parse(struct as_spec **ret_s, const struct as_spec_limits *l, const char *name,
                  struct as_str text, struct as_buf *err);
/* The same for a text that is one application: a spec with it alone. Its name is `application`,
 * which the text need not have; another name in it is an error. */
int as_spec_parse_application(struct as_spec **ret_s, const struct as_spec_limits *l,
                              const char *name, const char *application, struct as_str text,
                              struct as_buf *err);
/* Reads and parses a file; "-" is stdin. Also AS_ENOTFOUND, AS_EDENIED, AS_EIO, with a line in
 * `err`. */
int as_spec_load(struct as_spec **ret_s, const struct as_spec_limits *l, const char *path,
                 struct as_buf *err);
void as_spec_free(struct as_spec *s);

/* Adds what the code of one application declares, where the file has no value: options of its
 * deployments, and deployments that the file does not list. The copy of the code that is served
 * replaces the file's `code`. For an application with a command (`code` is NULL): adds a deployment
 * with the application's name when the file lists none. 0; AS_EINVALID: the file lists a deployment
 * that the code does not have, or the code sets an invalid value; `err` as above, and `s` must only
 * be freed. */
int as_spec_overlay(struct as_spec *s, struct as_spec_object *app, const struct as_declared *code,
                    const struct as_spec_limits *l, struct as_buf *err);

/* The checks that need the code of all applications; call it after as_spec_overlay for each. 0;
 * AS_EINVALID: with at most `lines` lines in `err`. */
int as_spec_check_whole(const struct as_spec *s, uint32_t lines, struct as_buf *err);

/* A spec with one application and nothing but what its code declares, for `anyserve run TARGET`. */
int as_spec_new_from_code(struct as_spec **ret_s, const struct as_spec_limits *l, const char *name,
                          const char *target, const struct as_declared *code, struct as_buf *err);

/* Sets an INT of `o` as if the file had this value. 0; AS_EINVALID: out of bounds. */
int as_spec_set_int(struct as_spec_object *o, enum as_spec_key id, int64_t value);

/* Puts an object that another spec owns, and which must live as long as `s` is used, into a list of
 * the file: in place of the one with its name, else at the end. */
void as_spec_put_object(struct as_spec *s, enum as_spec_key list, struct as_spec_object *o);
/* Removes the i-th of OBJECTS from its list. */
void as_spec_remove_object(struct as_spec_object *o, enum as_spec_key id, uint32_t i);

/* --- values; level and type of the key are asserted --- */

const struct as_spec_value *as_spec_value(const struct as_spec_object *o, enum as_spec_key id);
bool as_spec_is_set(const struct as_spec_object *o, enum as_spec_key id);
int64_t as_spec_i64(const struct as_spec_object *o, enum as_spec_key id); /* INT, SIZE, ENUM */
int64_t as_spec_thousandths(const struct as_spec_object *o, enum as_spec_key id); /* NUMBER */
as_ns as_spec_ns(const struct as_spec_object *o, enum as_spec_key id);            /* DURATION */
/* AMOUNT: a number, or a percentage. */
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

/* The deployments of all applications, in the order of the file:
 *     for (struct as_spec_walk w = {0}; as_spec_next(file, &w);) … w.app, w.deployment */
struct as_spec_walk {
    struct as_spec_object *app, *deployment;
    uint32_t next_app, next; /* private */
};
bool as_spec_next(const struct as_spec_object *file, struct as_spec_walk *w);
/* The deployment with this id (base/id.h). A name alone, as earlier versions have stored it, is
 * that of the first one in any application. False: there is none. */
bool as_spec_find_deployment(const struct as_spec_object *file, struct as_str id,
                             struct as_spec_walk *ret_w);
/* The id of a deployment of `app`, in *id. */
struct as_str as_spec_id(const struct as_spec_object *app, const struct as_spec_object *deployment,
                         struct as_id *id);
/* The id as a text that an earlier version reads, too: the name alone, if no other deployment of
 * the file has it. Part of `id`. */
struct as_str as_spec_plain_id(const struct as_spec_object *file, struct as_str id);

/* --- values of a deployment that its application may set, too --- */

/* The lines "NAME=value" of both, sorted; the deployment's line overrides the application's.
 * NULL-terminated. The caller frees the array; the lines belong to the spec. */
const char **as_spec_env(const struct as_spec_object *app, const struct as_spec_object *deployment);
/* The deployment's working_dir, else the application's, else NULL. */
const char *as_spec_working_dir(const struct as_spec_object *app,
                                const struct as_spec_object *deployment);

/* --- texts --- */

/* Appends the spec as a deployment file (YAML) that is read as the same spec. Without `all` only
 * the values of file and code, with `all` also the defaults. */
void as_spec_print(const struct as_spec *s, bool all, struct as_buf *out);
/* Appends one object as JSON in one line; `all` as above. */
void as_spec_json(const struct as_spec_object *o, bool all, struct as_buf *out);
/* Appends the JSON Schema (draft 2020-12) of a file; the page docs/guide/deployment-file.md. */
void as_spec_schema(struct as_buf *out);
void as_spec_markdown(struct as_buf *b);

#endif
