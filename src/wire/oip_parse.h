/* wire/oip_parse.h — what the files that read ModelInfer messages share. Private to oip*.c.
 *
 * One parse carries where errors are written and what the arena has given, so that every helper
 * can refuse with a line that names the tensor.
 */
#ifndef AS_WIRE_OIP_PARSE_H
#define AS_WIRE_OIP_PARSE_H

#include "wire/oip.h"
#include "wire/pb.h"

struct as_oip_parse {
    struct as_arena *arena;
    char *why;
    size_t cap;
    uint64_t table; /* bytes that the message's names, shapes and parameters take on the link */
    uint64_t typed; /* bytes that typed contents took */
    uint64_t typed_room; /* and may take */
    bool response; /* a ModelInferResponse: its raw contents are field 6, its tensors outputs */
};

/* Writes the line and returns `err`. */
int as_oip_refuse(struct as_oip_parse *c, int err, const char *fmt, ...) AS_PRINTF(3, 4);
/* The same behind "input 'NAME': " or "output 'NAME': ". */
int as_oip_refuse_input(struct as_oip_parse *c, const struct as_tensor *t, int err, const char *fmt,
                        ...) AS_PRINTF(4, 5);

/* A client's name for "%.*s", cut after a while. */
size_t as_oip_shown(struct as_str s);
#define AS_OIP_SHOWN(s) (int)as_oip_shown(s), (s).p ? (s).p : ""

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
int as_oip_typed(struct as_oip_parse *c, struct as_tensor *t, uint64_t n, struct as_str message);
/* Whether an InferTensorContents message has any element: 0, 1 or AS_EPROTO. */
int as_oip_has_contents(struct as_str contents);

#endif
