/* edge/rest/openapi.h — the description of what this server answers over plain HTTP, for programs.
 *
 * An OpenAPI 3.1 document, made of the table of routes and the registered models. A path that takes
 * a model is there once for all, as a template; a call of a model that declares its inputs is there
 * by itself as well, with the signature as JSON schema. Thread: the loop's.
 */
#ifndef AS_EDGE_OPENAPI_H
#define AS_EDGE_OPENAPI_H

#include "edge/rest/rest.h"

/* Versions of models whose signatures are described, about 2 KB each; the rest is counted in
 * "info".
 */
#define AS_OPENAPI_MODELS 256u

void as_openapi_serve(struct as_exchange *x, const struct as_rest_match *m); /* GET /openapi.json */
/* The document, appended. */
void as_openapi_put(struct as_buf *b, const struct as_registry *g);

/* "#/components/schemas": name and JSON text, NULL at the end; openapi_schemas.c. */
struct as_openapi_schema {
    const char *name, *json;
};
extern const struct as_openapi_schema as_openapi_schemas[];

#endif
