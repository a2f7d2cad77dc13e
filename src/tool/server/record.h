/* tool/server/record.h — reads the fields that a command needs from a server's JSON objects.
 *
 * Unknown fields are ignored, so that a newer server can send more. Pure.
 */
#ifndef AS_TOOL_RECORD_H
#define AS_TOOL_RECORD_H

#include "base/memory/arena.h"
#include "wire/json/json.h"

struct as_record { /* a JSON text and its reader */
    struct as_json *json;
    struct as_arena arena;
    struct as_buf text; /* a copy, with padding */
};

/* Copies a text and opens it. 0, AS_EPROTO, AS_ENOMEM; call as_record_close in any case. */
int as_record_open(struct as_record *r, struct as_str text, struct as_json_value *ret_root);
void as_record_close(struct as_record *r);

enum as_record_type {
    AS_RECORD_STR,    /* struct as_str, valid until as_record_close */
    AS_RECORD_I64,    /* int64_t */
    AS_RECORD_BOOL,   /* bool */
    AS_RECORD_OBJECT, /* struct as_record_object */
    AS_RECORD_LIST    /* struct as_record_list */
};

struct as_record_field {
    const char *key;
    enum as_record_type type;
    void *to; /* a value of the type; null does not set it */
};

struct as_record_object {
    const struct as_record_field *fields;
    uint32_t n;
};

struct as_record_list {
    int (*each)(struct as_record *r, struct as_json_value *item, void *ctx); /* 0 or AS_E… */
    void *ctx;
    bool seen; /* set when the list has come */
};

/* 0; AS_EINVALID: it is not an object, or a field has another type; AS_EPROTO. */
int as_record_read(struct as_record *r, struct as_json_value *object,
                   const struct as_record_field *fields, uint32_t n);
/* as_record_open, then as_record_read of the whole text. */
int as_record_parse(struct as_record *r, struct as_str text, const struct as_record_field *fields,
                    uint32_t n);

/* Appends a text in a form that is safe for a terminal: control characters become '?'. Of several
 * lines only the last that is not blank is shown (of a traceback: the exception). At most `max`
 * bytes; a longer line is cut and ends in "…". */
void as_record_line(struct as_buf *out, struct as_str text, size_t max);

#endif
