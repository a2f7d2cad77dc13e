/* edge/methods/rest_oip.h — the resources of the Open Inference Protocol over plain HTTP.
 * Handlers of methods/rest_routes.c. Thread: the loop's.
 */
#ifndef AS_EDGE_REST_OIP_H
#define AS_EDGE_REST_OIP_H

#include "edge/rest/rest.h"

void as_rest_oip_server(struct as_exchange *x, const struct as_rest_match *m);
void as_rest_oip_live(struct as_exchange *x, const struct as_rest_match *m);
void as_rest_oip_ready(struct as_exchange *x, const struct as_rest_match *m);
void as_rest_oip_model(struct as_exchange *x, const struct as_rest_match *m);
void as_rest_oip_model_ready(struct as_exchange *x, const struct as_rest_match *m);

#endif
