/* wire/oip/oip_json_internal.h — shared by the files that parse REST bodies. Private to
 * oip_json*.c. */
#ifndef AS_WIRE_OIP_JSON_INTERNAL_H
#define AS_WIRE_OIP_JSON_INTERNAL_H

#include "wire/oip/oip_json.h"
#include "wire/oip/oip_parse.h"

/* Where a tensor's elements come from. */
struct as_oip_json_source {
    struct as_json_value data; /* its "data", to be read later; set if has_data */
    size_t len;                /* bytes of the text of `data` */
    uint64_t elements;         /* number of elements of the shape */
    uint64_t size;             /* binary_data_size; set if has_size */
    bool has_data, has_size;
    bool in_shm;                          /* its bytes are in shared memory */
    struct as_oip_tensor_options options; /* its shared memory range */
    bool allow_scalar;                    /* `data` may be a single value instead of an array */
};

struct as_oip_json_parse {
    struct as_oip_parse c;
    struct as_json *j;
    const uint8_t *binary, *binary_end; /* binary data not yet assigned to a tensor */
    struct as_tensor *tensors;
    struct as_oip_json_source *sources; /* one for each tensor */
    uint32_t n_tensors, cap_tensors;
    struct as_param *params;
    uint32_t n_params, cap_params;
    struct as_oip_requested_output *outputs;
    uint32_t n_outputs, cap_outputs;
    int8_t binary_output; /* binary_data_output; -1: not given */
    struct as_str model, version, id;
    const struct as_tensor_spec *specs; /* of the model's signature, for flat messages */
    uint32_t n_specs;
    struct as_str error; /* flat: the response is an error, with this text */
};

/* The key of the tensors in this message. */
static inline const char *as_oip_json_tensors_key(const struct as_oip_json_parse *q)
{
    return q->c.response ? "outputs" : "inputs";
}
/* Clients that write typed messages (pydantic, Jackson) and some servers write null for a field
 * that is not set, so null counts as absent. */
static inline bool as_oip_json_is_absent(const struct as_json_value *v)
{
    return v->type == AS_JSON_NULL;
}
/* Refuses the message because a JSON reader returned `err`. AS_EPROTO: with the reader's reason;
 * AS_EINVALID: with the text `what`. */
int as_oip_json_reader_error(struct as_oip_json_parse *q, int err, const char *what);
/* as_json_items of a value that must have this type; otherwise refuses with the text `what`. */
int as_oip_json_items(struct as_oip_json_parse *q, struct as_json_value *v, enum as_json_type type,
                      const char *what, struct as_json_items *ret_it);
/* as_json_next, but skips the members of an object that are absent. False: there is no further
 * item, or there is an error: *err was set before, or is set to what the reader returned. */
bool as_oip_json_next(struct as_oip_json_parse *q, struct as_json_items *it, int *err);
/* err, or an error if the text does not end here. */
int as_oip_json_expect_end(struct as_oip_json_parse *q, int err);
/* Refuses the message; the line begins with "input 'NAME': ", or with "inputs[i]: " while the
 * tensor has no name. */
int as_oip_json_refuse_tensor(struct as_oip_json_parse *q, uint32_t i, const char *fmt, ...)
    AS_PRINTF(3, 4);
/* Adds a zeroed tensor. */
int as_oip_json_add_tensor(struct as_oip_json_parse *q);
/* Adds a tensor of a flat message, which has no shape: `v` are its elements, to be read later. */
int as_oip_json_add_flat_tensor(struct as_oip_json_parse *q, struct as_str name, enum as_dtype t,
                                struct as_json_value *v);
/* Parses a tensor's object and adds the tensor; its "data" are read later. */
int as_oip_json_get_tensor(struct as_oip_json_parse *q, struct as_json_value *v);
/* Reads the value of a parameter whose name is set. */
int as_oip_json_get_param_value(struct as_oip_json_parse *q, struct as_param *m,
                                struct as_json_value *v);
/* as_oip_read_tensor_option of a member of the tensor's parameters. */
int as_oip_json_get_tensor_option(struct as_oip_json_parse *q, const char *what, struct as_str name,
                                  struct as_json_items *it, struct as_oip_tensor_options *options);
/* Adds a parameter of the request; a null is ignored. */
int as_oip_json_add_param(struct as_oip_json_parse *q, struct as_str name, struct as_json_value *v);
/* Parses the request's "parameters" object. */
int as_oip_json_get_params(struct as_oip_json_parse *q, struct as_json_value *v);
/* For generate, after the whole text was read: derives a tensor's shape from its entry in the
 * signature and the number and nesting of its elements. */
int as_oip_json_derive_shape(struct as_oip_json_parse *q, uint32_t i,
                             const struct as_tensor_spec *s);
/* Call it after the whole text was read. Allocates the memory of all tensors whose data are JSON,
 * and reads their elements. */
int as_oip_json_fill(struct as_oip_json_parse *q, struct as_blob **ret_blob);
/* Parses a body of n bytes: `get` reads the root of its text and whatever follows from that; then
 * the tensors are filled, and the message is checked. */
int as_oip_json_parse_body(struct as_oip_json_parse *q, const uint8_t *p, size_t json_len, size_t n,
                           int (*get)(struct as_oip_json_parse *q, struct as_json_value *root),
                           struct as_oip_infer *ret_r);

#endif
