/* wire/json/json_text.h — a JSON text that is read from a copy of its own, since few texts have the
 * padding that a reader needs (wire/json/json.h). Pure. The text may be hostile.
 */
#ifndef AS_WIRE_JSON_TEXT_H
#define AS_WIRE_JSON_TEXT_H

#include "wire/json/json.h"

struct as_json_text {
    struct as_json *json; /* its reader; NULL: out of memory */
    struct as_arena arena;
    uint8_t *copy; /* the text, with padding */
};

/* Copies the text and opens the copy. As as_json_open; AS_ENOMEM if there is no reader. Strings
 * that are read are valid until as_json_text_close, which is due in any case. */
int as_json_text_open(struct as_json_text *t, struct as_str text, struct as_json_value *ret_root);
void as_json_text_close(struct as_json_text *t);

#endif
