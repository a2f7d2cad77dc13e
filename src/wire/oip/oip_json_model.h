/* wire/oip/oip_json_model.h — reads a model's metadata from the JSON of REST, for clients. Pure. */
#ifndef AS_WIRE_OIP_JSON_MODEL_H
#define AS_WIRE_OIP_JSON_MODEL_H

#include "wire/json/json.h"
#include "wire/oip/oip.h"

/* GET /v2/models/NAME: as as_oip_parse_model does for protobuf, with the same bounds; a member that
 * is missing counts as empty. p has AS_JSON_PADDING readable bytes behind n. Slices point into the
 * text or the arena. 0; AS_EPROTO (no JSON), AS_EINVALID (a value of another type, named twice, or
 * over a limit), AS_ENOMEM. */
int as_oip_json_model_parse(struct as_json *j, const uint8_t *p, size_t n, struct as_arena *a,
                            struct as_oip_model *ret_m);

#endif
