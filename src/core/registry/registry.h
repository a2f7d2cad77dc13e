/* core/registry/registry.h — which deployment serves which model:version, as an immutable snapshot.
 *
 * One thread builds a snapshot; then every loop may read it. A change makes a new snapshot, which
 * is passed to the loops by message. Snapshots are reference counted (atomic); the last unref
 * frees.
 *
 * A request without a version goes to the default version of its model: the highest integer
 * version, or if there is none the greatest in natural order, of the versions that are no canaries
 * (of all, if all are canaries); and one that no worker has served yet only if none has.
 * core/registry/traffic.h says to which other versions a request may go.
 *
 * Model names: 1–128 characters of [A-Za-z0-9._/-]; no segment is empty, ".", ".." or "versions";
 * the last segment is no verb. Versions: 1–64 characters of [A-Za-z0-9._-]. The verbs are the words
 * that the protocol puts behind /v2/models/NAME: config, generate, generate_stream, infer,
 * infer_stream, load, ready, setting (of trace/setting), stats, trace, unload. These rules make
 * every path unambiguous, although names may have slashes.
 */
#ifndef AS_CORE_REGISTRY_H
#define AS_CORE_REGISTRY_H

#include "base/id.h"
#include "base/tensor.h"
#include "core/queue/batch.h"
#include "core/registry/services.h"

#include <stdatomic.h>

#define AS_NAME_MAX          128u
#define AS_VERSION_MAX       64u
#define AS_REGISTRY_MAX      16384u /* models in a snapshot */
#define AS_MODEL_TENSORS_MAX 4096u  /* entries of one side of a signature */

/* Returns 0, or AS_EINVALID with the reason (static text). */
int as_registry_check_name(struct as_str name, const char **ret_why);
/* A deployment's id (base/id.h), or its name alone: 1–128 characters of [A-Za-z0-9._-]; or, for
 * workers that registered themselves, "name:version" of the one model that they serve. */
int as_registry_check_deployment(struct as_str id, const char **ret_why);
int as_registry_check_version(struct as_str version, const char **ret_why);
bool as_registry_is_integer(struct as_str version);
bool as_registry_is_verb(struct as_str segment); /* one of the verbs above */

/* The traffic settings of a deployment: which requests for other versions it gets, and who serves
 * those that it cannot serve. Parts are in units of 1/AS_TRAFFIC_ALL. */
#define AS_TRAFFIC_ALL 100000u /* a hundred percent */
struct as_traffic {            /* all zero: no settings */
    bool is_canary;            /* not the default version, if another version is no canary … */
    uint32_t canary;           /* … but gets this part of the requests without a version */
    uint32_t mirror;           /* gets a copy of this part of the requests to other versions */
    struct as_str fallback;    /* id of the deployment that serves what this one cannot; or empty */
};
static inline bool as_traffic_eq(const struct as_traffic *a, const struct as_traffic *b)
{
    return a->is_canary == b->is_canary && a->canary == b->canary && a->mirror == b->mirror &&
           as_str_eq(a->fallback, b->fallback);
}
static inline bool as_traffic_any(const struct as_traffic *t)
{
    return t->is_canary || t->mirror || t->fallback.n;
}

struct as_model {
    struct as_str name, version, platform;
    struct as_str served_by;   /* the deployment's id */
    struct as_traffic traffic; /* of that deployment */
    bool routed;         /* set by the registry: some version of this name has traffic settings */
    uint32_t deployment; /* number of the deployment, given by the caller */
    uint32_t owner;      /* number of the loop that owns the deployment */
    uint32_t index;      /* index of the model within its deployment, given by the caller */
    bool idempotent;
    bool decoupled;      /* any number of responses for a request */
    bool streams_inputs; /* any number of inputs for a request; decoupled too */
    bool unloaded;       /* requests are refused until a client loads it again */
    bool awaited;        /* declared by code: no worker has served it yet */
    bool has_inputs, has_outputs;
    /* max_size 0: no batching. With batching the first size of every shape is -1 (the items of a
     * request), and the shape of one item follows. */
    struct as_batch_conf batching;
    const struct as_tensor_spec *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
};

struct as_registry;

struct as_registry *as_registry_new(void); /* an empty snapshot with one reference */
struct as_registry *as_registry_ref(struct as_registry *g);
void as_registry_unref(struct as_registry *g);
/* A new snapshot with the models of g and m (deep copy). If g has the same m already, *ret_g is g
 * with one more reference. AS_EEXISTS: another deployment serves name:version, or the same one
 * serves it with another signature. AS_EINVALID: the name, version or signature is invalid.
 * AS_EFULL: too many models. *ret_why: the reason (static text). */
int as_registry_with_model(struct as_registry *g, const struct as_model *m,
                           struct as_registry **ret_g, const char **ret_why);
/* A snapshot in which all versions of a name are loaded, or not. If they are so already, g with one
 * more reference. NULL: there is no such name. */
struct as_registry *as_registry_set_loaded(struct as_registry *g, struct as_str name, bool loaded);
/* A snapshot in which all models of a deployment have these settings. If they have them already, g
 * with one more reference; likewise below. */
struct as_registry *as_registry_set_traffic(struct as_registry *g, uint32_t deployment,
                                            const struct as_traffic *t);
/* A snapshot in which this model of a deployment is not awaited any more. */
struct as_registry *as_registry_set_served(struct as_registry *g, uint32_t deployment,
                                           uint32_t index);
/* A snapshot without this model of a deployment. */
struct as_registry *as_registry_without_model(struct as_registry *g, uint32_t deployment,
                                              uint32_t index);
/* A snapshot in which a deployment of this application serves these gRPC services of the user;
 * NULL: none. */
struct as_registry *as_registry_set_services(struct as_registry *g, uint32_t deployment,
                                             struct as_str application, struct as_service_set *set);
/* A snapshot without the models and services of a deployment. */
struct as_registry *as_registry_without_deployment(struct as_registry *g, uint32_t deployment);

/* The model, or NULL. version.n == 0: the default version. *ret_known (may be NULL): some version
 * of the name exists. The pointer is valid as long as the snapshot. */
const struct as_model *as_registry_find(const struct as_registry *g, struct as_str name,
                                        struct as_str version, bool *ret_known);
/* Writes the versions of a name into ret, at most cap of them, lowest first in natural order.
 * Returns how many there are. */
uint32_t as_registry_versions(const struct as_registry *g, struct as_str name,
                              const struct as_model **ret, uint32_t cap);
uint32_t as_registry_count(const struct as_registry *g);
/* Which deployments serve gRPC services of the user; NULL: none does. */
const struct as_service_table *as_registry_services(const struct as_registry *g);
/* Ordered by name, then version. */
const struct as_model *as_registry_at(const struct as_registry *g, uint32_t i);
bool as_registry_is_first(const struct as_registry *g, uint32_t i); /* row i, of its name */

/* Checks the inputs of a request against the model's signature. Returns 0, or AS_EINVALID with a
 * line in `why` (at most cap bytes) that names the tensor that is missing, unexpected, or has the
 * wrong datatype or shape. Always 0 without a signature. */
int as_model_check_inputs(const struct as_model *m, const struct as_tensor *t, uint32_t n,
                          char *why, size_t cap);
/* Sets *ret_items to the number of items of a request to a model with batching: the first size of
 * its inputs, which must be the same in all, 1 … max_size; 1 without inputs. Returns 0, or
 * AS_EINVALID with a line in `why` that gives the numbers. */
int as_model_items(const struct as_model *m, const struct as_tensor *t, uint32_t n, char *why,
                   size_t cap, uint32_t *ret_items);
/* Checks the outputs of a worker in the same way (AS_EHANDLER). */
int as_model_check_outputs(const struct as_model *m, const struct as_tensor *t, uint32_t n,
                           char *why, size_t cap);

#endif
