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

enum as_record_type { AS_RECORD_STR, AS_RECORD_I64, AS_RECORD_BOOL };

struct as_record_field {
    const char *key;
    enum as_record_type type;
    void *to; /* to a struct as_str (valid until as_record_close), int64_t or bool; null does not
                 set it */
};
/* 0; AS_EINVALID: it is not an object, or a field has another type; AS_EPROTO. */
int as_record_read(struct as_record *r, struct as_json_value *object,
                   const struct as_record_field *fields, uint32_t n);

/* Appends a text in a form that is safe for a terminal: control characters become '?'. Of several
 * lines only the last that is not blank is shown (of a traceback: the exception). At most `max`
 * bytes; a longer line is cut and ends in "…". */
void as_record_line(struct as_buf *out, struct as_str text, size_t max);

#endif
