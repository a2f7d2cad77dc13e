/* wire/oip/oip_json_model.h — parses a model's metadata from the JSON of REST, for clients. Pure.
 */
#ifndef AS_WIRE_OIP_JSON_MODEL_H
#define AS_WIRE_OIP_JSON_MODEL_H

#include "wire/json/json.h"
#include "wire/oip/oip.h"

/* Parses the response to GET /v2/models/NAME into what as_oip_parse_model makes of protobuf, with
 * the same limits. A missing member counts as empty. AS_JSON_PADDING bytes after the n bytes at p
 * must be readable. Slices point into the text or the arena. 0; AS_EPROTO: not JSON; AS_EINVALID: a
 * value of another type, a list given twice, or over a limit; AS_ENOMEM. */
int as_oip_json_model_parse(struct as_json *j, const uint8_t *p, size_t n, struct as_arena *a,
                            struct as_oip_model *ret_m);

#endif
