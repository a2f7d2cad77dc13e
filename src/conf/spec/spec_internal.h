/* conf/spec/spec_internal.h — functions that only the spec_*.c files of conf and their tests use.
 */
#ifndef AS_CONF_SPEC_INTERNAL_H
#define AS_CONF_SPEC_INTERNAL_H

#include "conf/spec/spec.h"
#include "conf/spec/spec_tree.h"

struct as_spec_reader {
    struct as_arena *arena;
    struct as_spec_errors *errors;
    const struct as_spec_limits *limits;
    enum as_spec_from from;
    uint32_t deployments; /* read so far */
};

/* Zeroed memory; never NULL. */
void *as_spec_alloc(struct as_arena *a, size_t n);
const char *as_spec_dup(struct as_arena *a, struct as_str s);

/* Reads a node as the value of a row. A null node leaves *v unchanged. False: an error was
 * reported, and *v is unchanged. */
bool as_spec_read_value(struct as_spec_reader *r, const struct as_spec_row *row,
                        const struct as_spec_node *n, struct as_spec_value *v);
/* Sets *v to the row's default. */
void as_spec_read_default(struct as_arena *a, const struct as_spec_row *row,
                          struct as_spec_value *v);
/* Reads a node as an object: all its keys, with a check for missing ones and of keys together.
 * NULL: the node is not a mapping, which was reported. Other errors are reported and counted, but
 * the object is returned. */
struct as_spec_object *as_spec_read_object(struct as_spec_reader *r, enum as_spec_level level,
                                           const struct as_spec_node *n);
/* An object with all defaults. */
struct as_spec_object *as_spec_new_object(struct as_arena *a, enum as_spec_level level);
/* Checks the keys of an object together, after all of them were read. */
void as_spec_check(struct as_spec_reader *r, const struct as_spec_object *o);

/* The same for all deployments, after the code's values were added. */
void as_spec_check_merged(struct as_spec_reader *r, const struct as_spec_object *file);

/* Replaces the member `runtime_env` of an application by members env and working_dir. */
void as_spec_unfold_runtime_env(struct as_spec_reader *r, struct as_spec_node *app);
/* Checks that no chain of fallbacks is a circle. whole: the deployments of the code were added, so
 * each fallback must exist. */
void as_spec_check_fallbacks(struct as_spec_reader *r, const struct as_spec_object *file,
                             bool whole);

struct as_spec_backpressure {
    uint32_t status; /* 0: not set */
    bool has_retry;
    as_ns retry;
};
/* Reads the JSON of `backpressure_config`. NULL, or what is wrong with it. */
const char *as_spec_read_backpressure(const char *json, struct as_spec_backpressure *ret_b);

/* Appends a number of the row as people write it: in the units of the file, a SIZE as "4G". */
void as_spec_put_number(const struct as_spec_row *row, int64_t v, struct as_buf *out);

/* Appends a value as JSON, in the units of the file; not for objects. */
void as_spec_put_value(const struct as_spec_row *row, const struct as_spec_value *v,
                       struct as_buf *out);

#endif
