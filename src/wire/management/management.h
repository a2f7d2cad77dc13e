/* wire/management/management.h — messages of anyserve.WorkerManagement, in protobuf and in JSON.
 *
 * Source: proto/worker_management.proto. Both readers use the same table of fields, so that they
 * accept the same messages. They are written by hand, not over protobuf-c's code, so that an error
 * can say what is wrong and where ("signature.inputs[2].datatype"), and so that texts do not end at
 * a NUL. Unknown fields, and fields of another type, are skipped, as every protobuf reader does, so
 * that a newer worker can register. JSON follows protobuf's mapping: names as in the .proto file or
 * in lowerCamelCase, 64-bit integers also as strings, null for an absent field; a key that is given
 * twice is an error. Unlike other readers of that mapping, this one skips unknown keys. The caller
 * checks the values (names, addresses). Pure.
 */
#ifndef AS_WIRE_MANAGEMENT_H
#define AS_WIRE_MANAGEMENT_H

#include "base/buf.h"
#include "base/memory/arena.h"
#include "base/tensor.h"
#include "wire/json/json.h"

#define AS_MANAGEMENT_SERVICE  "anyserve.WorkerManagement"
#define AS_MANAGEMENT_TENSORS  4096u  /* maximum entries of one side of a signature */
#define AS_MANAGEMENT_MODELS   4096u  /* maximum names in a heartbeat */
#define AS_MANAGEMENT_NAME_MAX 65535u /* maximum bytes of a tensor's name */
#define AS_MANAGEMENT_LABELS   65536u /* maximum labels of an output */
#define AS_MANAGEMENT_LABEL    1024u  /* maximum bytes of each label */

enum as_management_rpc {
    AS_MANAGEMENT_REGISTER,
    AS_MANAGEMENT_UNREGISTER,
    AS_MANAGEMENT_HEARTBEAT,
    AS_MANAGEMENT_RPCS
};

/* A request of any of the three RPCs; a field that its message does not have, or that is absent, is
 * empty. */
struct as_management_request {
    struct as_str model, version, address, worker, platform;
    uint64_t epoch;
    uint32_t max_ongoing;
    int64_t max_queued;
    bool idempotent;
    /* Datatypes are known; sizes are -1 or more; names are present and unique. No shape:
     * AS_ANY_RANK. Labels are lines of UTF-8, of outputs with a datatype that has classes. */
    const struct as_tensor_spec *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    const struct as_str *models;
    uint32_t n_models;
    struct as_str unknown; /* the first JSON key that was skipped; n == 0: none */
};

/* Slices point into the message or the arena; all are UTF-8. 0; AS_EINVALID with a line in `why`;
 * AS_ENOMEM. */
int as_management_parse(enum as_management_rpc rpc, struct as_str message, struct as_arena *a,
                        struct as_management_request *ret_q, char *why, size_t cap);
/* `message` must be as as_json_open requires; `j` must be idle, and is idle afterwards. The slices
 * live as long as message and arena. */
int as_management_parse_json(enum as_management_rpc rpc, struct as_str message, struct as_json *j,
                             struct as_arena *a, struct as_management_request *ret_q, char *why,
                             size_t cap);

struct as_management_response {
    struct as_str message; /* register, unregister; `success` is always true */
    uint64_t epoch;        /* register */
    uint32_t heartbeat_ms; /* register */
    bool healthy;          /* heartbeat */
};
/* Appends a response. JSON has every field, in lowerCamelCase. */
void as_management_put(enum as_management_rpc rpc, const struct as_management_response *r,
                       struct as_buf *out);
void as_management_put_json(enum as_management_rpc rpc, const struct as_management_response *r,
                            struct as_buf *out);

#endif
