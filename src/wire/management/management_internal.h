/* wire/management/management_internal.h — shared by the two readers of wire/management/management;
 * private to management*.c.
 */
#ifndef AS_WIRE_MANAGEMENT_INTERNAL_H
#define AS_WIRE_MANAGEMENT_INTERNAL_H

#include "base/err.h"
#include "wire/management/management.h"

enum as_management_kind {
    AS_MANAGEMENT_TEXT,
    AS_MANAGEMENT_TEXTS,
    AS_MANAGEMENT_LINES, /* texts without line ends */
    AS_MANAGEMENT_FLAG,
    AS_MANAGEMENT_U32,
    AS_MANAGEMENT_U64,
    AS_MANAGEMENT_I64,
    AS_MANAGEMENT_SIZES,
    AS_MANAGEMENT_SPECS,
    AS_MANAGEMENT_GROUP
};

struct as_management_message;
struct as_management_field {
    const char *name;
    uint32_t number;
    enum as_management_kind kind;
    size_t at; /* offset of the field in the target struct, or in the spec for the fields of a
                  tensor */
    const struct as_management_message *of;
};
struct as_management_message {
    const char *name;
    const struct as_management_field *fields;
    uint32_t n;
};

struct as_management_list { /* an array that grows in the arena */
    void *p;
    uint32_t n, cap;
};
struct as_management_spec {
    struct as_str name, datatype;
    struct as_management_list shape, labels;
};
struct as_management_target {
    struct as_management_request q;
    struct as_management_list inputs, outputs, models;
};

/* The state of one reader, of either form. */
struct as_management_reader {
    struct as_arena *arena;
    struct as_json *json;
    char *why;
    size_t cap;
    struct as_str unknown; /* the first JSON key that is not known */
    char path[128];        /* path of the message that is being read, with a dot at its end:
                              "signature.inputs[2]." */
};

/* Writes the error to r->why; returns AS_EINVALID. */
int as_management_fail(struct as_management_reader *r, const char *fmt, ...) AS_PRINTF(2, 3);
/* Appends a field, or one of its elements (index -1: it is no list), to r->path; returns the old
 * length of the path. */
size_t as_management_enter_field(struct as_management_reader *r,
                                 const struct as_management_field *f, int64_t index);
/* Appends an element to a list, within its limits. 0, AS_EINVALID, AS_ENOMEM. */
int as_management_add_size(struct as_management_reader *r, const struct as_management_field *f,
                           struct as_management_list *l, int64_t v);
int as_management_add_text(struct as_management_reader *r, const struct as_management_field *f,
                           struct as_management_list *l, struct as_str s);
/* Appends a tensor to that side of the signature; r->path is the path of the tensor. */
int as_management_add_tensor(struct as_management_reader *r, const struct as_management_field *side,
                             struct as_management_list *l, const struct as_management_spec *s);
int as_management_too_many(struct as_management_reader *r, const struct as_management_field *f,
                           uint32_t most);

/* Reads the root of a JSON text, an object, into a struct as_management_target. */
int as_management_read_json(struct as_management_reader *r, const struct as_management_message *m,
                            struct as_json_value *v, void *to);

#endif
