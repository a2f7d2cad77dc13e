/* wire/triton/repository.h — the messages of Triton's model repository extension: index, load,
 * unload.
 *
 * They are the messages Repository… of proto/open_inference.proto. The repository contains the
 * models that the running applications declare; a repository name in a request is ignored. Rarely
 * requested, so it uses protobuf-c's generated code. Pure.
 */
#ifndef AS_WIRE_REPOSITORY_H
#define AS_WIRE_REPOSITORY_H

#include "base/buf.h"
#include "base/memory/arena.h"

/* Parses a RepositoryIndexRequest. 0, AS_EPROTO (malformed, or not UTF-8), AS_ENOMEM. */
int as_repository_parse_index(const uint8_t *p, size_t n, bool *ret_only_ready);

struct as_repository_change {
    struct as_str model;
    /* The keys of all parameters. Of the values only unload_dependents is used. */
    const struct as_str *parameters;
    uint32_t n_parameters;
    bool dependents; /* the parameter unload_dependents is true */
};

/* Parses a RepositoryModelLoadRequest or RepositoryModelUnloadRequest, which have the same fields.
 * The result is in the arena. 0, AS_EPROTO, AS_ENOMEM. */
int as_repository_parse_change(const uint8_t *p, size_t n, struct as_arena *a,
                               struct as_repository_change *ret_c);

struct as_repository_row {
    struct as_str name, version;
    const char *state, *reason;
};

/* Appends a RepositoryIndexResponse, or its models as a JSON array. `a` is for temporary memory. 0
 * or AS_ENOMEM. */
int as_repository_put_index(const struct as_repository_row *rows, uint32_t n, struct as_arena *a,
                            bool json, struct as_buf *out);

#endif
