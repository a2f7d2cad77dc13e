/* wire/management/management_internal.h — what the two readers of wire/management/management share.
 * Private to wire/management/management*.c. */
#ifndef AS_WIRE_MANAGEMENT_OWN_H
#define AS_WIRE_MANAGEMENT_OWN_H

#include "base/err.h"
#include "wire/management/management.h"

enum as_management_kind {
    AS_MANAGEMENT_TEXT,
    AS_MANAGEMENT_TEXTS,
    AS_MANAGEMENT_LINES, /* texts without ends of lines */
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
    size_t at; /* in what is filled: a target, or a spec for the fields of a tensor */
    const struct as_management_message *of;
};
struct as_management_message {
    const char *name;
    const struct as_management_field *fields;
    uint32_t n;
};

struct as_management_list { /* grows in the arena */
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

/* One read, in either form. */
struct as_management_reader {
    struct as_arena *arena;
    struct as_json *json;
    char *why;
    size_t cap;
    struct as_str unknown; /* the first key of the JSON that is not known */
    char path[128]; /* of the message that is being read, with its dot: "signature.inputs[2]." */
};

/* AS_EINVALID, with the line in r->why. */
int as_management_fail(struct as_management_reader *r, const char *fmt, ...) AS_PRINTF(2, 3);
/* r->path goes into a field, or into one of its elements (-1: it is no list); returns where it
 * ended before. */
size_t as_management_enter_field(struct as_management_reader *r,
                                 const struct as_management_field *f, int64_t index);
/* What was read becomes an element, within its bounds. 0, AS_EINVALID, AS_ENOMEM. */
int as_management_add_size(struct as_management_reader *r, const struct as_management_field *f,
                           struct as_management_list *l, int64_t v);
int as_management_add_text(struct as_management_reader *r, const struct as_management_field *f,
                           struct as_management_list *l, struct as_str s);
/* What was read of one tensor becomes an entry of that side of the signature; r->path is its own.
 */
int as_management_add_tensor(struct as_management_reader *r, const struct as_management_field *side,
                             struct as_management_list *l, const struct as_management_spec *s);
int as_management_too_many(struct as_management_reader *r, const struct as_management_field *f,
                           uint32_t most);

/* The root of a text, an object, into a struct as_management_target. */
int as_management_read_json(struct as_management_reader *r, const struct as_management_message *m,
                            struct as_json_value *v, void *to);

#endif
