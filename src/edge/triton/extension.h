/* edge/triton/extension.h — Triton's extensions of the Open Inference Protocol.
 *
 * extension.c: the list of extensions, and their RPCs. The other files have an extension each, as
 * functions that serve gRPC and plain HTTP: x->grpc selects the form of the answer. Extensions of
 * requests to models are in edge/infer/request_options.h, edge/infer/shm_tensors.h and
 * edge/infer/infer_output.h. Thread: the loop's.
 */
#ifndef AS_EDGE_EXTENSION_H
#define AS_EDGE_EXTENSION_H

#include "edge/exchange/exchange.h"
#include "wire/triton/repository.h"
#include "wire/triton/settings.h"
#include "wire/triton/shm_region.h"

/* Lists the available extensions by their names in server metadata; returns their number. */
#define AS_EXTENSIONS 10u
uint32_t as_extension_list(const struct as_edge *e, struct as_str out[AS_EXTENSIONS]);

/* An RPC of an extension; the message is complete. */
void as_extension_call(struct as_exchange *x);

/* --- extension_model.c --- */

void as_extension_config(struct as_exchange *x, struct as_str model, struct as_str version);
/* model "": all models; version "": all versions. */
void as_extension_statistics(struct as_exchange *x, struct as_str model, struct as_str version);

/* --- extension_repository.c --- */

void as_extension_index(struct as_exchange *x, bool only_ready);
void as_extension_load(struct as_exchange *x, const struct as_repository_change *c);
void as_extension_unload(struct as_exchange *x, const struct as_repository_change *c);

/* --- extension_shm.c; name "": all regions --- */

void as_extension_shm_status(struct as_exchange *x, struct as_str name);
void as_extension_shm_register(struct as_exchange *x, const struct as_shm_region *r);
void as_extension_shm_unregister(struct as_exchange *x, struct as_str name);
void as_extension_cuda_status(struct as_exchange *x);
void as_extension_cuda_register(struct as_exchange *x);
void as_extension_cuda_unregister(struct as_exchange *x);

/* --- extension_settings.c; changes the n settings, then answers with all of them --- */

void as_extension_trace(struct as_exchange *x, struct as_str model, const struct as_setting *s,
                        uint32_t n);
void as_extension_log(struct as_exchange *x, const struct as_setting *s, uint32_t n);

/* Answers with the message in `out`, or for plain HTTP with its JSON ("" is {}). err: not 0 if
 * there was no memory to write it. Frees out. */
void as_extension_reply(struct as_exchange *x, int err, struct as_buf *out);

#endif
