/* edge/rest/openapi.h — GET /openapi.json: the OpenAPI 3.1 document of the plain HTTP API.
 *
 * It is made of the table of routes and of the registered models. A path with {model} appears once
 * as a template, and once for each model that declares its inputs, with the signature as JSON
 * schema. Thread: the loop's.
 */
#ifndef AS_EDGE_OPENAPI_H
#define AS_EDGE_OPENAPI_H

#include "edge/rest/rest.h"

/* Most model versions that are described by their signatures, of those that the client may use;
 * about 2 KB each. "info" has the number of all of them, if there are more. */
#define AS_OPENAPI_MODELS 256u

void as_openapi_serve(struct as_exchange *x, const struct as_rest_match *m); /* GET /openapi.json */
/* Appends the document, with the models that the client of x may use; NULL: all. */
void as_openapi_put(struct as_buf *b, const struct as_registry *g, const struct as_exchange *x);

/* "#/components/schemas": name and JSON text, NULL at the end; openapi_schemas.c. */
struct as_openapi_schema {
    const char *name, *json;
};
extern const struct as_openapi_schema as_openapi_schemas[];

#endif
