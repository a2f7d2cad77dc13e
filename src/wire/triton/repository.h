/* wire/triton/repository.h — the model repository's messages: what is there, load, unload.
 *
 * Source: messages Repository… of proto/open_inference.proto. The repository is what the running
 * application declares; its name in requests is ignored. Small and cold: over protobuf-c's
 * generated code. Pure.
 */
#ifndef AS_WIRE_REPOSITORY_H
#define AS_WIRE_REPOSITORY_H

#include "base/memory/arena.h"
#include "base/buf.h"

/* RepositoryIndexRequest. 0, AS_EPROTO (malformed, or not UTF-8), AS_ENOMEM. */
int as_repository_parse_index(const uint8_t *p, size_t n, bool *ret_only_ready);

struct as_repository_change {
    struct as_str model;
    /* Keys of parameters; values of those that the server knows none of do not matter. */
    const struct as_str *parameters;
    uint32_t n_parameters;
    bool dependents; /* unload_dependents is there and true */
};

/* RepositoryModelLoadRequest and …UnloadRequest, which are alike. The result lies in the arena. 0,
 * AS_EPROTO, AS_ENOMEM. */
int as_repository_parse_change(const uint8_t *p, size_t n, struct as_arena *a,
                               struct as_repository_change *ret_c);

struct as_repository_row {
    struct as_str name, version;
    const char *state, *reason;
};

/* RepositoryIndexResponse, appended. `a` for what is needed meanwhile. 0 or AS_ENOMEM. */
int as_repository_put_index(const struct as_repository_row *rows, uint32_t n, struct as_arena *a,
                            struct as_buf *out);
/* An array of them as JSON, appended. */
void as_repository_json_index(const struct as_repository_row *rows, uint32_t n, struct as_buf *out);

#endif
