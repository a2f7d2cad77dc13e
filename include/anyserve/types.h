/* anyserve/types.h — the words that workers and AnyServe share: results, slices, tensors, messages.
 *
 * Plain structs over bytes that somebody else owns; who owns them, and for how long, is said where
 * they are handed out. C99 and C++; needs no other library. Numbers and layouts of this file are
 * frozen for a soname: enumerations are appended to, structs stay as they are.
 */
#ifndef ANYSERVE_TYPES_H
#define ANYSERVE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t as_ns; /* nanoseconds; points in time are of CLOCK_MONOTONIC */

#define AS_NEVER ((as_ns)UINT64_MAX) /* a deadline that does not come */

/* Results: functions return 0 or one of these, unless they say otherwise. */
enum as_err_code {
    AS_EINVALID = -1,          /* an argument or a declaration is wrong */
    AS_ENOTFOUND = -2,         /* there is none of that name */
    AS_EFULL = -3,             /* a queue is full */
    AS_ETOOBIG = -4,           /* a message over a limit */
    AS_EHEADERS = -5,          /* header fields over a limit */
    AS_EMEDIA = -6,            /* a media type that is not supported */
    AS_EDEADLINE = -7,         /* the deadline has passed */
    AS_ESLOW = -8,             /* a request stopped coming */
    AS_ECANCELLED = -9,        /* nobody waits for it any more */
    AS_EUNAVAILABLE = -10,     /* not there now; trying again may help */
    AS_EMAYHAVERUN = -11,      /* a worker died over it */
    AS_EHANDLER = -12,         /* a handler failed */
    AS_EINTERNAL = -13,        /* our own mistake */
    AS_EUNIMPLEMENTED = -14,   /* not offered here */
    AS_EPROTO = -15,           /* a peer broke the protocol */
    AS_EEXISTS = -16,          /* somebody else has it already */
    AS_EDENIED = -17,          /* not allowed */
    AS_ENOMEM = -18,           /* no memory */
    AS_EAGAIN = -19,           /* not now; the function says when */
    AS_EOF = -20,              /* nothing more comes */
    AS_EIO = -21,              /* the system refused; errno says why */
    AS_EUNAUTHENTICATED = -22, /* nobody said who it is */
    AS_EHUNG = -23,            /* a handler ran for too long, its worker was ended */
    AS_EPOISON = -24,          /* a request that ends workers, refused for a while */
    AS_ESUSPECT = -25,         /* one like it has ended a worker; none was free for it alone */
    AS_EUNTAKEN = -26          /* an answer, dropped since the client leaves others untaken */
};
const char *as_err_name(int err); /* "EINVALID"; "OK" for 0 */
const char *as_err_text(int err); /* "invalid argument" */

/* What a client is told: the numbers of google.rpc.Code, which gRPC uses. */
enum as_grpc_status {
    AS_STATUS_OK = 0,
    AS_STATUS_CANCELLED = 1,
    AS_STATUS_UNKNOWN = 2,
    AS_STATUS_INVALID_ARGUMENT = 3,
    AS_STATUS_DEADLINE_EXCEEDED = 4,
    AS_STATUS_NOT_FOUND = 5,
    AS_STATUS_ALREADY_EXISTS = 6,
    AS_STATUS_PERMISSION_DENIED = 7,
    AS_STATUS_RESOURCE_EXHAUSTED = 8,
    AS_STATUS_FAILED_PRECONDITION = 9,
    AS_STATUS_ABORTED = 10,
    AS_STATUS_OUT_OF_RANGE = 11,
    AS_STATUS_UNIMPLEMENTED = 12,
    AS_STATUS_INTERNAL = 13,
    AS_STATUS_UNAVAILABLE = 14,
    AS_STATUS_DATA_LOSS = 15,
    AS_STATUS_UNAUTHENTICATED = 16
};

/* Bytes that somebody else owns: not terminated by NUL, and any byte may be among them. */
struct as_str {
    const char *p; /* may be NULL when n is 0 */
    size_t n;      /* bytes */
};
/* For initializers: struct as_str s = AS_STR_INIT("text"). */
#define AS_STR_INIT(literal)                                                                       \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }

/* Datatypes of the Open Inference Protocol, and Triton's BF16. Elements lie row-major and
 * little-endian; an element of BYTES is a little-endian uint32 length and that many bytes. */
enum as_dtype {
    AS_DT_INVALID = 0,
    AS_DT_BOOL = 1, /* one byte, 0 or 1 */
    AS_DT_UINT8 = 2,
    AS_DT_UINT16 = 3,
    AS_DT_UINT32 = 4,
    AS_DT_UINT64 = 5,
    AS_DT_INT8 = 6,
    AS_DT_INT16 = 7,
    AS_DT_INT32 = 8,
    AS_DT_INT64 = 9,
    AS_DT_FP16 = 10,
    AS_DT_FP32 = 11,
    AS_DT_FP64 = 12,
    AS_DT_BYTES = 13,
    AS_DT_BF16 = 14,
    AS_DT_COUNT /* one more than the last; grows */
};
/* "FP32", "BYTES" …; upper case only, as the protocol says. AS_DT_INVALID: there is none such. */
enum as_dtype as_dtype_of(struct as_str name);
const char *as_dtype_name(enum as_dtype t); /* "INVALID" for a number out of range */
size_t as_dtype_size(enum as_dtype t);      /* bytes per element; 0 for BYTES */

#define AS_MAX_DIMS 32

struct as_tensor {
    struct as_str name;
    enum as_dtype dtype;
    uint32_t ndim;        /* 0: a scalar; at most AS_MAX_DIMS */
    const int64_t *shape; /* ndim sizes, each >= 0 */
    const uint8_t *data;  /* nbytes, not necessarily aligned */
    size_t nbytes;
};

/* One entry of a model's signature. -1 in shape: any size. ndim AS_ANY_RANK: any shape. */
#define AS_ANY_RANK UINT32_MAX
struct as_tensor_spec {
    struct as_str name;
    enum as_dtype dtype;
    uint32_t ndim;
    const int64_t *shape;
    const struct as_str *labels; /* of an output: what its classes are called, by their index; */
    uint32_t n_labels; /* classes behind the last, and those with an empty one, have none */
};

enum as_param_type {
    AS_PARAM_BOOL = 1,
    AS_PARAM_INT64 = 2,
    AS_PARAM_STRING = 3,
    AS_PARAM_DOUBLE = 4,
    AS_PARAM_UINT64 = 5
};

/* A parameter of a request or of an answer. */
struct as_param {
    struct as_str name;
    enum as_param_type type; /* which member below */
    __extension__ union {
        bool b;
        int64_t i64;
        uint64_t u64;
        double f64;
        struct as_str str;
    };
};

/* A parameter of one tensor of a request or of an answer. */
struct as_tensor_param {
    struct as_param param;
    uint32_t tensor; /* its index among the tensors of the message */
};
/* Names that say where a tensor's bytes are, or in which form it is wanted (binary_data,
 * binary_data_size, classification, shared_memory_…): the server uses them itself, handlers neither
 * see nor give them as parameters of tensors. */
bool as_tensor_param_reserved(struct as_str name);

/* One header of a request: the key in lower case, the value's bytes (of -bin decoded). */
struct as_meta {
    struct as_str key, value;
};

/* A request, or an answer. Answers carry no id and no meta. */
struct as_msg {
    struct as_str id; /* the client's; may be empty */
    const struct as_tensor *tensors;
    const struct as_param *params;
    const struct as_meta *meta;
    uint32_t n_tensors, n_params, n_meta;
};

#ifdef __cplusplus
}
#endif

#endif
