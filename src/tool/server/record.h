/* tool/server/record.h — reads the fields that a command needs from a server's JSON objects.
 *
 * Unknown fields are ignored, so that a newer server can send more. Pure.
 */
#ifndef AS_TOOL_RECORD_H
#define AS_TOOL_RECORD_H

#include "wire/json/json_text.h"

/* Opens a text, and reads it with as_json_read; as_json_text_close is due in any case. */
int as_record_parse(struct as_json_text *t, struct as_str text, const struct as_json_row *rows,
                    uint32_t n);

/* Appends a text in a form that is safe for a terminal: control characters become '?'. Of several
 * lines only the last that is not blank is shown (of a traceback: the exception). At most `max`
 * bytes; a longer line is cut and ends in "…". */
void as_record_line(struct as_buf *out, struct as_str text, size_t max);

#endif
