/* wire/oip/oip_parse.h — shared by the files that parse ModelInfer messages, in protobuf and in
 * JSON. Private to oip*.c.
 *
 * struct as_oip_parse is the state of one parse. Every function that gets it can refuse the message
 * with a line that names the tensor.
 */
#ifndef AS_WIRE_OIP_PARSE_H
#define AS_WIRE_OIP_PARSE_H

#include "base/utf8.h"
#include "wire/oip/oip.h"
#include "wire/protobuf/pb.h"

#include <string.h>

struct as_oip_parse {
    struct as_arena *arena;
    char *why;
    size_t cap;
    uint64_t table_bytes; /* bytes that id, names, shapes and parameters take in the link's frame */
    uint64_t typed_bytes; /* bytes allocated for typed contents so far */
    uint64_t typed_max;   /* the most that they may take */
    uint32_t n_inputs;
    uint32_t n_params;                     /* of the message itself */
    struct as_tensor_param *tensor_params; /* of its tensors, in the order of the tensors */
    uint32_t n_tensor_params, cap_tensor_params;
    uint32_t n_shm_inputs;           /* number of inputs in shared memory */
    struct as_oip_shm_range *ranges; /* n_inputs of them; NULL: no input is in shared memory */
    bool has_output_range, has_classification; /* outputs */
    bool has_duplicates;                       /* model, version or id occurred more than once */
    bool response; /* it is a ModelInferResponse: tensors are outputs, raw contents are field 6 */
};

/* What an error repeats of a client's text: the arguments for "%.*s". */
#define AS_OIP_SHOWN(s) (int)as_utf8_cut(s, 64).n, (s).p ? (s).p : ""

/* Writes the line into c->why and returns `err`. */
int as_oip_refuse(struct as_oip_parse *c, int err, const char *fmt, ...) AS_PRINTF(3, 4);
/* The same; the line begins with "input 'NAME': " or "output 'NAME': ". */
int as_oip_refuse_tensor(struct as_oip_parse *c, const struct as_tensor *t, int err,
                         const char *fmt, ...) AS_PRINTF(4, 5);

/* Checks that the shape has no negative size and does not overflow; *ret_n: number of elements. */
int as_oip_check_shape(struct as_oip_parse *c, const struct as_tensor *t, uint64_t *ret_n);
/* The same, and checks that the raw data have exactly the size of the shape. */
int as_oip_check_raw(struct as_oip_parse *c, const struct as_tensor *t);

/* Appends the sizes of one shape field, packed or not, at shape[*n]; shape has AS_MAX_DIMS entries.
 * 0; AS_EPROTO: wrong wire type or malformed; AS_EINVALID: too many dimensions. */
int as_oip_get_shape(const struct as_pb_field *f, int64_t *shape, uint32_t *n);

/* A shape as text, "[2,-1]"; a long one is cut. Returns `out`. */
#define AS_OIP_SHAPE_TEXT 128u
const char *as_oip_shape_text(char out[AS_OIP_SHAPE_TEXT], const struct as_tensor *t);

/* Sets t->data and t->nbytes from the contents fields of an InferInputTensor message. t has name,
 * dtype and shape already; n is the number of its elements. */
int as_oip_get_typed_contents(struct as_oip_parse *c, struct as_tensor *t, uint64_t n,
                              struct as_str message);
/* 1: the InferTensorContents message has elements; 0: it has none; AS_EPROTO. */
int as_oip_has_contents(struct as_str contents);

/* --- parameters (oip_param.c) --- */

/* The number of raw entries does not fit the number of inputs. */
int as_oip_refuse_raw_count(struct as_oip_parse *c, uint64_t n_raw, uint64_t n_inputs);

/* Parses one entry of map<string, InferParameter>. */
int as_oip_get_param(struct as_oip_parse *c, struct as_param *m, struct as_str entry);

/* The parameters of a tensor that the server itself uses. The caller sets `given` to 0; the other
 * fields are valid once `given` is not 0. */
struct as_oip_tensor_options {
    uint8_t given; /* AS_OIP_OPTION_… */
    struct as_oip_shm_range range;
    uint32_t classification;
};
enum {
    AS_OIP_OPTION_REGION = 1,
    AS_OIP_OPTION_OFFSET = 2,
    AS_OIP_OPTION_SIZE = 4,
    AS_OIP_OPTION_CLASSES = 8
};
/* Whether a parameter is one of them. `what`: "input" or "output". */
bool as_oip_is_tensor_option(const char *what, struct as_str key);
/* The message has more than AS_OIP_PARAMS_MAX parameters. */
int as_oip_refuse_param_count(struct as_oip_parse *c);
/* Adds a tensor's parameter that the server does not use itself to tensor_params. */
int as_oip_add_tensor_param(struct as_oip_parse *c, const struct as_param *m, uint32_t tensor);
/* Sets the option that the parameter m names. `name` is the tensor's, for errors. */
int as_oip_read_tensor_option(struct as_oip_parse *c, const char *what, struct as_str name,
                              const struct as_param *m, struct as_oip_tensor_options *options);
/* Parses an entry of a tensor's parameter map and does one of these two. `tensor`: the input's
 * index. Parameters of requested outputs that the server does not use are skipped. */
int as_oip_get_tensor_param(struct as_oip_parse *c, const char *what, struct as_str name,
                            const struct as_pb_field *f, struct as_oip_tensor_options *options,
                            uint32_t tensor);
/* 1: the input is in shared memory, and the range has the size of its shape; 0: it is not in shared
 * memory; or an error. */
int as_oip_check_shm_input(struct as_oip_parse *c, const struct as_tensor *t,
                           const struct as_oip_tensor_options *options);
/* The same for the index-th input, whose protobuf message this is; sets c->ranges and c->in_shm
 * when the result is 1. */
int as_oip_set_shm_input(struct as_oip_parse *c, struct as_tensor *t,
                         const struct as_oip_tensor_options *options, struct as_str message,
                         uint32_t index);
/* Call it after all entries were parsed. The n_raw raw entries were stored in the first n_raw
 * tensors; moves them to the tensors that are not in shared memory. Refuses a wrong number of
 * entries. */
int as_oip_assign_raw(struct as_oip_parse *c, struct as_tensor *t, uint64_t n_raw);
/* Checks the options of a requested output and stores them in it. */
int as_oip_set_output_options(struct as_oip_parse *c, struct as_oip_requested_output *o,
                              const struct as_oip_tensor_options *options);

/* The size of a message with `head` bytes before the raw contents of its tensors; UINT64_MAX when
 * it is over 2^31-1. */
uint64_t as_oip_message_len(size_t head, const struct as_tensor *t, uint32_t n_tensors);

/* A response is parsed as a request whose inputs are the outputs. */
static inline struct as_oip_response as_oip_response_of(const struct as_oip_infer *m)
{
    return (struct as_oip_response){.model = m->model,
                                    .version = m->version,
                                    .id = m->id,
                                    .outputs = m->inputs,
                                    .n_outputs = m->n_inputs,
                                    .params = m->params,
                                    .n_params = m->n_params,
                                    .tensor_params = m->tensor_params};
}

#endif
