/* wire/oip/oip_parse.h — what the files that read ModelInfer messages share. Private to oip*.c.
 *
 * One parse carries where errors are written and what the arena has given, so that every helper
 * can refuse with a line that names the tensor.
 */
#ifndef AS_WIRE_OIP_PARSE_H
#define AS_WIRE_OIP_PARSE_H

#include "wire/oip/oip.h"
#include "wire/protobuf/pb.h"

#include <string.h>

struct as_oip_parse {
    struct as_arena *arena;
    char *why;
    size_t cap;
    uint64_t table;     /* bytes that the message's names, shapes and parameters take on the link */
    uint64_t typed;     /* bytes that typed contents took */
    uint64_t typed_max; /* and may take */
    uint32_t n_inputs;
    uint32_t n_params;                     /* of the message itself */
    struct as_tensor_param *tensor_params; /* of its tensors, as many as were read */
    uint32_t n_tensor_params, cap_tensor_params;
    uint32_t in_shm;                           /* inputs that lie in shared memory */
    struct as_oip_shm_range *ranges;           /* of n_inputs; NULL while there is none */
    bool has_output_range, has_classification; /* outputs */
    bool has_duplicates; /* a text of which there is one was given more than once */
    bool response; /* a ModelInferResponse: its raw contents are field 6, its tensors outputs */
};

/* Bytes of a client's name that an error repeats: no cut through a character. */
static inline size_t as_oip_shown_len(struct as_str s)
{
    size_t n = AS_MIN(s.n, (size_t)64);

    while (n < s.n && n && ((uint8_t)s.p[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* For "%.*s". */
#define AS_OIP_SHOWN(s) (int)as_oip_shown_len(s), (s).p ? (s).p : ""

/* Writes the line and returns `err`. */
int as_oip_refuse(struct as_oip_parse *c, int err, const char *fmt, ...) AS_PRINTF(3, 4);
/* The same behind "input 'NAME': " or "output 'NAME': ". */
int as_oip_refuse_tensor(struct as_oip_parse *c, const struct as_tensor *t, int err,
                         const char *fmt, ...) AS_PRINTF(4, 5);

/* The tensor's shape has no negative size and does not overflow; *ret_n: its elements. */
int as_oip_check_shape(struct as_oip_parse *c, const struct as_tensor *t, uint64_t *ret_n);
/* The same, and its raw data is of just that size. */
int as_oip_check_raw(struct as_oip_parse *c, const struct as_tensor *t);

/* Appends the sizes of one shape field, packed or not, to shape[*n]; there is room for AS_MAX_DIMS.
 * 0; AS_EPROTO: wire type or number; AS_EINVALID: too many. */
int as_oip_get_shape(const struct as_pb_field *f, int64_t *shape, uint32_t *n);

/* A shape as text, "[2,-1]", cut after a few sizes; returns `out`. */
#define AS_OIP_SHAPE_TEXT 128u
const char *as_oip_shape_text(char out[AS_OIP_SHAPE_TEXT], const struct as_tensor *t);

/* Fills t->data and t->nbytes from the contents fields of one InferInputTensor message; t has name,
 * dtype and shape already, n is the product of the shape. */
int as_oip_get_typed_contents(struct as_oip_parse *c, struct as_tensor *t, uint64_t n,
                              struct as_str message);
/* Whether an InferTensorContents message has any element: 0, 1 or AS_EPROTO. */
int as_oip_has_contents(struct as_str contents);

/* --- oip_param.c --- */

int as_oip_refuse_raw_count(struct as_oip_parse *c, uint64_t n_raw, uint64_t n_inputs);

/* One entry of map<string, InferParameter>. */
int as_oip_get_param(struct as_oip_parse *c, struct as_param *m, struct as_str entry);

/* What a tensor's own parameters say. Only `given` is set before the first of them is read. */
struct as_oip_tensor_options {
    uint8_t given; /* AS_OWN_… */
    struct as_oip_shm_range range;
    uint32_t classification;
};
enum {
    AS_OIP_OPTION_REGION = 1,
    AS_OIP_OPTION_OFFSET = 2,
    AS_OIP_OPTION_SIZE = 4,
    AS_OIP_OPTION_CLASSES = 8
};
/* Is a parameter one of them? `what`: "input" or "output". */
bool as_oip_is_tensor_option(const char *what, struct as_str key);
/* A message has one parameter more than it may have. */
int as_oip_refuse_param_count(struct as_oip_parse *c);
/* One of a tensor's parameters that is not the server's own. */
int as_oip_add_tensor_param(struct as_oip_parse *c, const struct as_param *m, uint32_t tensor);
/* One more of those that the server uses. */
int as_oip_read_tensor_option(struct as_oip_parse *c, const char *what, struct as_str name,
                              const struct as_param *m, struct as_oip_tensor_options *options);
/* Either, out of an entry of protobuf's map; `tensor`: the input's index. Those of requested
 * outputs are used or skipped. */
int as_oip_get_tensor_param(struct as_oip_parse *c, const char *what, struct as_str name,
                            const struct as_pb_field *f, struct as_oip_tensor_options *options,
                            uint32_t tensor);
/* 1: the input's data is in shared memory, and of the size of its shape; 0: it is not; or refused.
 */
int as_oip_check_shm_input(struct as_oip_parse *c, const struct as_tensor *t,
                           const struct as_oip_tensor_options *options);
/* The index-th input, whose message this is, has parameters of its own. 1: its data is in shared
 * memory, which is noted; 0: it is not; or refused. */
int as_oip_set_shm_input(struct as_oip_parse *c, struct as_tensor *t,
                         const struct as_oip_tensor_options *options, struct as_str message,
                         uint32_t index);
/* After all entries were read: raw contents, `n_raw` of which lie in the first tensors, go to those
 * that have no range. Refused when their number does not fit. */
int as_oip_assign_raw(struct as_oip_parse *c, struct as_tensor *t, uint64_t n_raw);
/* A requested output has parameters of its own. */
int as_oip_set_output_options(struct as_oip_parse *c, struct as_oip_requested_output *o,
                              const struct as_oip_tensor_options *options);

#endif
