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

/* Copies a text, opens the copy and reads it with as_json_read; call as_record_close in any case.
 */
int as_record_parse(struct as_record *r, struct as_str text, const struct as_json_row *rows,
                    uint32_t n);
void as_record_close(struct as_record *r);

/* Appends a text in a form that is safe for a terminal: control characters become '?'. Of several
 * lines only the last that is not blank is shown (of a traceback: the exception). At most `max`
 * bytes; a longer line is cut and ends in "…". */
void as_record_line(struct as_buf *out, struct as_str text, size_t max);

#endif
