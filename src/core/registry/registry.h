/* core/registry/registry.h — which model:version is served by which deployment; an immutable
 * snapshot.
 *
 * Built by its owner, then shared for reading by every loop: a change makes a new snapshot that is
 * swapped in by message; the last unref frees (atomic count). A model without a version in the
 * request goes to its default version: of those that are no canaries the highest integer, else the
 * greatest in natural order. Where all are canaries, one of them is it. What else a request may go
 * to is said by core/registry/traffic.h. Name and version rules: 1–128 of [A-Za-z0-9._/-], no
 * empty, "." ,
 * ".." or "versions" segment, the last segment no REST verb; versions 1–64 of [A-Za-z0-9._-]. The
 * verbs are what servers of the protocol put behind /v2/models/NAME: config, generate,
 * generate_stream, infer, infer_stream, load, ready, setting (of trace/setting), stats, trace,
 * unload. So every path has one reading, with names that hold slashes too.
 */
#ifndef AS_CORE_REGISTRY_H
#define AS_CORE_REGISTRY_H

#include "base/str.h"
#include "base/tensor.h"
#include "core/queue/batch.h"

#include <stdatomic.h>

#define AS_NAME_MAX          128u
#define AS_VERSION_MAX       64u
#define AS_REGISTRY_MAX      16384u /* models of a snapshot */
#define AS_MODEL_TENSORS_MAX 4096u  /* entries of one side of a signature */

/* 0, or AS_EINVALID with the reason (static text). */
int as_registry_check_name(struct as_str name, const char **ret_why);
/* Deployments are named after files, 1–128 of [A-Za-z0-9._-] and no rule about segments, or after
 * the one model that they serve, "name:version": those of workers that came by themselves. */
int as_registry_check_deployment(struct as_str name, const char **ret_why);
int as_registry_check_version(struct as_str version, const char **ret_why);
bool as_registry_is_integer(struct as_str version);
bool as_registry_is_verb(struct as_str segment); /* one of the verbs above */

/* What a deployment says of requests that others get, or that it cannot serve itself. Parts are in
 * units of 1/AS_TRAFFIC_ALL. */
#define AS_TRAFFIC_ALL 100000u /* a hundred percent */
struct as_traffic {            /* all zero: nothing */
    bool is_canary;            /* never the default version beside one that is none … */
    uint32_t canary;           /* … but gets this part of the requests without a version */
    uint32_t mirror;           /* and a copy of this part of what other versions get */
    struct as_str fallback;    /* the deployment that gets what this one cannot serve; or empty */
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
    struct as_str served_by;   /* the deployment's name */
    struct as_traffic traffic; /* of that deployment */
    bool routed;               /* set by the registry: some version of this name has any */
    uint32_t deployment;       /* number of the deployment, given by the owner */
    uint32_t owner;            /* loop that owns the deployment */
    uint32_t index;            /* model within its deployment, given by the owner */
    bool idempotent;
    bool decoupled;      /* any number of responses for a request */
    bool streams_inputs; /* any number of inputs for a request; decoupled too */
    bool unloaded;       /* refused until a client loads it again */
    bool has_inputs, has_outputs;
    /* max_size 0: none. With batching the first size of every shape is -1, the items of a request:
     * what is declared of one item is behind it. */
    struct as_batch_conf batching;
    const struct as_tensor_spec *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
};

struct as_registry;

struct as_registry *as_registry_new(void); /* empty; one reference */
struct as_registry *as_registry_ref(struct as_registry *g);
void as_registry_unref(struct as_registry *g);
/* A new snapshot: those of g and m (deep copy). AS_EEXISTS when another deployment serves
 * name:version, or when the same deployment serves it with another signature; the same again is 0
 * and gives g itself with one more reference. AS_EINVALID for bad names, versions and signatures,
 * AS_EFULL when there are too many. *ret_why: static text. */
int as_registry_with_model(struct as_registry *g, const struct as_model *m,
                           struct as_registry **ret_g, const char **ret_why);
/* A snapshot with all versions of a name loaded, or not; g itself with one more reference when they
 * are; NULL: there is no such name. */
struct as_registry *as_registry_set_loaded(struct as_registry *g, struct as_str name, bool loaded);
/* A snapshot in which all models of a deployment say this; g itself when they do already. */
struct as_registry *as_registry_set_traffic(struct as_registry *g, uint32_t deployment,
                                            const struct as_traffic *t);
/* A snapshot without this model of a deployment; g itself when it has none such. */
struct as_registry *as_registry_without_model(struct as_registry *g, uint32_t deployment,
                                              uint32_t index);
/* A snapshot without the models of one deployment; g itself when it has none. */
struct as_registry *as_registry_without_deployment(struct as_registry *g, uint32_t deployment);

/* The model, or NULL. version.n == 0: the default version. *ret_known (may be NULL): the name
 * exists in some version. Pointers live as long as the snapshot. */
const struct as_model *as_registry_find(const struct as_registry *g, struct as_str name,
                                        struct as_str version, bool *ret_known);
/* All versions of a name in natural order, lowest first; returns how many there are, fills at most
 * cap. */
uint32_t as_registry_versions(const struct as_registry *g, struct as_str name,
                              const struct as_model **ret, uint32_t cap);
uint32_t as_registry_count(const struct as_registry *g);
const struct as_model *as_registry_at(const struct as_registry *g,
                                      uint32_t i); /* by name, version */

/* Request inputs against the declared signature: 0, or AS_EINVALID with a line in `why` that names
 * the tensor: missing, unexpected, wrong datatype, wrong shape. Always 0 without a signature. */
int as_model_check_inputs(const struct as_model *m, const struct as_tensor *t, uint32_t n,
                          char *why, size_t cap);
/* How many items a request to a model with batching has: the first size of each input, the same in
 * all, 1 … max_size; 1 without inputs. 0, or AS_EINVALID with a line in `why` that says the
 * numbers. */
int as_model_items(const struct as_model *m, const struct as_tensor *t, uint32_t n, char *why,
                   size_t cap, uint32_t *ret_items);
/* The worker's outputs likewise (AS_EHANDLER). */
int as_model_check_outputs(const struct as_model *m, const struct as_tensor *t, uint32_t n,
                           char *why, size_t cap);

#endif
