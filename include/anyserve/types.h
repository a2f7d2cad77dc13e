/* anyserve/types.h — types that workers and AnyServe share: results, slices, tensors, messages.
 *
 * These structs refer to bytes that they do not own; the function that returns one says who owns
 * the bytes and how long they are valid. C99 and C++; needs no other library. Numbers and layouts
 * are fixed for a soname: enumerations may grow at their end, structs do not change.
 */
#ifndef ANYSERVE_TYPES_H
#define ANYSERVE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t as_ns; /* nanoseconds; points in time are those of CLOCK_MONOTONIC */

#define AS_NEVER ((as_ns)UINT64_MAX) /* no deadline */

/* Results: functions return 0 or one of these, unless they say otherwise. */
enum as_err_code {
    AS_EINVALID = -1,          /* an argument or a declaration is wrong */
    AS_ENOTFOUND = -2,         /* there is nothing of that name */
    AS_EFULL = -3,             /* a queue is full */
    AS_ETOOBIG = -4,           /* a message is over a limit */
    AS_EHEADERS = -5,          /* header fields are over a limit */
    AS_EMEDIA = -6,            /* the media type is not supported */
    AS_EDEADLINE = -7,         /* the deadline has passed */
    AS_ESLOW = -8,             /* a client stopped sending its request */
    AS_ECANCELLED = -9,        /* the client does not wait any more */
    AS_EUNAVAILABLE = -10,     /* not available now; trying again may help */
    AS_EMAYHAVERUN = -11,      /* the worker died while the request may have executed */
    AS_EHANDLER = -12,         /* a handler failed */
    AS_EINTERNAL = -13,        /* an error of AnyServe */
    AS_EUNIMPLEMENTED = -14,   /* not supported here */
    AS_EPROTO = -15,           /* a peer broke the protocol */
    AS_EEXISTS = -16,          /* it exists already, and belongs to another */
    AS_EDENIED = -17,          /* not allowed */
    AS_ENOMEM = -18,           /* out of memory */
    AS_EAGAIN = -19,           /* not now; the function's comment says when */
    AS_EOF = -20,              /* there is nothing more */
    AS_EIO = -21,              /* a system call failed; errno says why */
    AS_EUNAUTHENTICATED = -22, /* the caller gave no credentials */
    AS_EHUNG = -23,            /* a handler ran for too long, and its worker was killed */
    AS_EPOISON = -24,          /* requests like this kill workers, and are refused for a while */
    AS_ESUSPECT = -25, /* a request like this killed a worker; no worker was free to run it alone */
    AS_EUNTAKEN = -26, /* the answer was dropped, since the client does not read earlier ones */
    AS_ESTALE = -27,   /* what is to be changed was changed meanwhile */
    AS_EREPLICA = -28, /* the replica that was chosen is no longer available */
    AS_EUNUSED = -29   /* the slot that was reserved was not used in time */
};
const char *as_err_name(int err); /* "EINVALID"; "OK" for 0 */
const char *as_err_text(int err); /* "invalid argument" */

/* Statuses for clients: the numbers of google.rpc.Code, which gRPC uses. */
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

/* A slice of bytes that it does not own: without a NUL at its end, and with any bytes in it. */
struct as_str {
    const char *p; /* may be NULL when n is 0 */
    size_t n;      /* bytes */
};
/* For initializers: struct as_str s = AS_STR_INIT("text"). */
#define AS_STR_INIT(literal)                                                                       \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }

/* Datatypes of the Open Inference Protocol, and Triton's BF16. Elements are stored row-major and
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
    AS_DT_COUNT /* one more than the last; it may grow */
};
/* name: "FP32", "BYTES" …, in upper case as in the protocol. AS_DT_INVALID: unknown. */
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
    const struct as_str *labels; /* of an output: the labels of its classes, by index … */
    uint32_t n_labels;           /* … an empty label, or none, means that a class has no label */
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
    enum as_param_type type; /* which member of the union is valid */
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
/* Whether the server reserves this name: those that say where a tensor's bytes are, or in which
 * form it is requested (binary_data, binary_data_size, classification, shared_memory_…). Handlers
 * neither get nor set parameters of tensors with such names. */
bool as_tensor_param_reserved(struct as_str name);

/* One header of a request: the key in lower case, the value as bytes (decoded, if the key ends in
 * -bin). */
struct as_meta {
    struct as_str key, value;
};

/* A request or an answer. Answers have no id and no meta. */
struct as_msg {
    struct as_str id; /* the client's; may be empty */
    const struct as_tensor *tensors;
    const struct as_param *params;
    const struct as_meta *meta;
    uint32_t n_tensors, n_params, n_meta;
};

/* The body of a call between handlers, or of its answer: opaque to AnyServe, which checks counts
 * and lengths only. */
enum as_body_codec {
    AS_BODY_PICKLE = 1, /* data is a Python pickle, whose out-of-band buffers are `buffers`; part i
                           has the persistent id i */
    AS_BODY_BYTES = 2   /* data is the value itself: bytes */
};
#define AS_BODY_F_EXCEPTION 0x1u /* an answer: data describes an exception; bytes: it is a text */
struct as_body {
    uint8_t codec;        /* enum as_body_codec */
    uint8_t flags;        /* AS_BODY_F_… */
    struct as_str method; /* UTF-8, without line ends, at most 1,024 bytes; empty: __call__, and in
                             every answer */
    struct as_str data;
    uint32_t n_buffers, n_parts;
    const struct as_str *buffers; /* each starts at a multiple of 64 bytes when it is received */
    const struct as_str *parts;   /* each is a whole body: the answer of another call */
};

#ifdef __cplusplus
}
#endif

#endif
