/* tool/server/record.h — JSON objects of a server, as commands read them: the fields whose names they
 * know.
 *
 * What is there beside them is passed over, so that a newer server can say more. Blocking, pure.
 */
#ifndef AS_TOOL_RECORD_H
#define AS_TOOL_RECORD_H

#include "base/memory/arena.h"
#include "wire/json/json.h"

struct as_record { /* a text and its reader */
    struct as_json *json;
    struct as_arena arena;
    struct as_buf text; /* with its padding */
};

/* The root of a text, which is copied. 0, AS_EPROTO, AS_ENOMEM; as_record_close in any case. */
int as_record_open(struct as_record *r, struct as_str text, struct as_json_value *ret_root);
void as_record_close(struct as_record *r);

enum as_record_type { AS_RECORD_STR, AS_RECORD_I64, AS_RECORD_BOOL };

struct as_record_field {
    const char *key;
    enum as_record_type type;
    void *to; /* struct as_str (lives as long as the record), int64_t, bool; left alone by null */
};
/* 0; AS_EINVALID: no object, or a field of another type; AS_EPROTO. */
int as_record_read(struct as_record *r, struct as_json_value *object,
                   const struct as_record_field *fields, uint32_t n);

/* Appends a text that a terminal may be shown: control characters as '?', and of several lines the
 * last that is not blank (of a traceback: what was raised). At most `max` bytes; cut with "…". */
void as_record_line(struct as_buf *out, struct as_str text, size_t max);

#endif
