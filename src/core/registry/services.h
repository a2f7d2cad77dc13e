/* core/registry/services.h — the gRPC services of the user: which deployment serves which methods.
 *
 * A set is what one deployment serves. The table of all sets is a part of the registry's snapshot
 * (core/registry/registry.h). Both are immutable and reference counted (atomic), so every loop may
 * read them.
 */
#ifndef AS_CORE_SERVICES_H
#define AS_CORE_SERVICES_H

#include "base/str.h"
#include "core/registry/counts.h"

#include <stdatomic.h>

struct as_service_method {
    struct as_str path;       /* "/package.Service/Method" */
    bool takes_inputs;        /* the client sends any number of messages; else one */
    bool gives_parts;         /* the server sends any number of messages; else one */
    struct as_counts *counts; /* answers; as long as the set, whose own it is */
};

struct as_service_set {
    atomic_uint refs;
    uint32_t n;
    struct as_str descriptors;          /* a FileDescriptorSet; may be empty */
    struct as_service_method methods[]; /* in the order of memcmp, each path once */
};

/* A copy with one reference. The methods must be in order. */
struct as_service_set *as_service_set_new(const struct as_service_method *methods, uint32_t n,
                                          struct as_str descriptors);
struct as_service_set *as_service_set_ref(struct as_service_set *s);
void as_service_set_unref(struct as_service_set *s); /* s may be NULL */
/* Methods that `old` (or NULL) has, too, go on with its counts. s: not published yet. */
void as_service_set_keep_counts(struct as_service_set *s, const struct as_service_set *old);
/* Either may be NULL, which equals only NULL. */
bool as_service_set_eq(const struct as_service_set *a, const struct as_service_set *b);
const struct as_service_method *as_service_set_find(const struct as_service_set *s,
                                                    struct as_str path); /* NULL: it has none */
/* Whether it has a method of this service ("package.Service"). */
bool as_service_set_has(const struct as_service_set *s, struct as_str service);
/* "package.Service" of a path. */
struct as_str as_service_of(struct as_str path);

struct as_service_provider {
    struct as_str application; /* NUL-terminated */
    uint32_t deployment;       /* its number */
    struct as_service_set *set;
};

/* One row for each deployment that has a set. */
struct as_service_table {
    atomic_uint refs;
    uint32_t n;
    struct as_service_provider at[];
};

struct as_service_table *as_service_table_ref(struct as_service_table *t); /* t may be NULL */
void as_service_table_unref(struct as_service_table *t);                   /* likewise */
/* A table in which this deployment has that set; NULL: none. t may be NULL (no rows), and so may
 * the result. */
struct as_service_table *as_service_table_with(const struct as_service_table *t,
                                               uint32_t deployment, struct as_str application,
                                               struct as_service_set *set);

#endif
