/* edge/triton/extension_rest.h — plain HTTP handlers of the extensions. */
#ifndef AS_EDGE_EXTENSION_REST_H
#define AS_EDGE_EXTENSION_REST_H

#include "edge/rest/rest.h"

void as_extension_rest_config(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_statistics(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_index(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_load(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_unload(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_shm_status(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_shm_register(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_shm_unregister(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_cuda_status(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_cuda_register(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_cuda_unregister(struct as_exchange *x, const struct as_rest_match *m);
/* Without a body they answer as a GET does. */
void as_extension_rest_trace(struct as_exchange *x, const struct as_rest_match *m);
void as_extension_rest_log(struct as_exchange *x, const struct as_rest_match *m);

#endif
