/* edge/triton/extension.h — Triton's extensions of the protocol: what measuring tools and clients
 * ask for.
 *
 * extension.c: which there are, and the RPCs; the rest of the files holds one extension each, in
 * functions that do not care how a request came: over gRPC, or by plain HTTP, x->grpc says which,
 * and the answer is written likewise. Requests to models are in edge/infer/infer.h; what extensions
 * change there is in edge/infer/request_options.h, edge/infer/shm_tensors.h and
 * edge/infer/infer_output.h. Thread: the loop's.
 */
#ifndef AS_EDGE_EXTENSION_H
#define AS_EDGE_EXTENSION_H

#include "edge/exchange/exchange.h"
#include "wire/triton/repository.h"
#include "wire/triton/settings.h"
#include "wire/triton/shm_region.h"

/* Those that all of can be used, as server metadata names them; returns how many. */
#define AS_EXTENSIONS 10u
uint32_t as_extension_list(const struct as_edge *e, struct as_str out[AS_EXTENSIONS]);

/* An RPC of an extension; its message is complete. */
void as_extension_call(struct as_exchange *x);

/* --- extension_model.c --- */

void as_extension_config(struct as_exchange *x, struct as_str model, struct as_str version);
/* Of all models without a name, of all versions of it without a version. */
void as_extension_statistics(struct as_exchange *x, struct as_str model, struct as_str version);

/* --- extension_repository.c --- */

void as_extension_index(struct as_exchange *x, bool only_ready);
void as_extension_load(struct as_exchange *x, const struct as_repository_change *c);
void as_extension_unload(struct as_exchange *x, const struct as_repository_change *c);

/* --- extension_shm.c; without a name: all regions --- */

void as_extension_shm_status(struct as_exchange *x, struct as_str name);
void as_extension_shm_register(struct as_exchange *x, const struct as_shm_region *r);
void as_extension_shm_unregister(struct as_exchange *x, struct as_str name);
void as_extension_cuda_status(struct as_exchange *x);
void as_extension_cuda_register(struct as_exchange *x);
void as_extension_cuda_unregister(struct as_exchange *x);

/* --- extension_settings.c; without settings: what they are --- */

void as_extension_trace(struct as_exchange *x, struct as_str model, const struct as_setting *s,
                        uint32_t n);
void as_extension_log(struct as_exchange *x, const struct as_setting *s, uint32_t n);

/* A message of the answer was made in `out` (err: 0), or there was no memory for it; plain HTTP:
 * its JSON, {} when it is empty. Frees out. */
void as_extension_reply(struct as_exchange *x, int err, struct as_buf *out);

#endif
