/* conf/spec_internal.h — between the files of the spec module, and its tests. */
#ifndef AS_CONF_SPEC_INTERNAL_H
#define AS_CONF_SPEC_INTERNAL_H

#include "conf/spec.h"
#include "conf/spec_tree.h"

struct as_spec_reader {
    struct as_arena *arena;
    struct as_spec_errors *errors;
    const struct as_spec_limits *limits;
    enum as_spec_from from;
    uint32_t deployments; /* read so far */
};

/* Zeroed; never NULL. */
void *as_spec_alloc(struct as_arena *a, size_t n);
const char *as_spec_dup(struct as_arena *a, struct as_str s);

/* A node as the value of a row. False: told, *v is as it was. A node that is nothing leaves *v
 * alone. */
bool as_spec_read_value(struct as_spec_reader *r, const struct as_spec_row *row,
                        const struct as_spec_node *n, struct as_spec_value *v);
/* The row's default. */
void as_spec_read_default(struct as_arena *a, const struct as_spec_row *row,
                          struct as_spec_value *v);
/* A node as an object: all its keys, what is missing, what does not fit together. NULL: it is no
 * mapping, told; other errors are told and counted only. */
struct as_spec_object *as_spec_read_object(struct as_spec_reader *r, enum as_spec_level level,
                                           const struct as_spec_node *n);
/* An object with all defaults. */
struct as_spec_object *as_spec_new_object(struct as_arena *a, enum as_spec_level level);
/* What no single row can see, for an object whose keys were all read. */
void as_spec_check(struct as_spec_reader *r, const struct as_spec_object *o);

/* The same for every deployment, when what code declares is there too. */
void as_spec_check_merged(struct as_spec_reader *r, const struct as_spec_object *file);

/* That no chain of fallbacks is a circle; `whole`: what code declares is there too, so that every
 * name must be known. */
void as_spec_check_fallbacks(struct as_spec_reader *r, const struct as_spec_object *file,
                             bool whole);

/* A value in the file's own spelling: number, word or JSON, not for objects. */
void as_spec_put_value(const struct as_spec_row *row, const struct as_spec_value *v,
                       struct as_buf *out);

#endif
