/* wire/oip/oip_json_internal.h — what the files that read REST bodies share. Private to
 * oip_json*.c. */
#ifndef AS_WIRE_OIP_JSON_OWN_H
#define AS_WIRE_OIP_JSON_OWN_H

#include "wire/oip/oip_json.h"
#include "wire/oip/oip_parse.h"

/* Where a tensor's elements are to come from. */
struct as_oip_json_source {
    struct as_json_value data; /* when has_data */
    size_t len;                /* of its text */
    uint64_t elements;         /* that the shape asks for */
    uint64_t size;             /* binary_data_size, when has_size */
    bool has_data, has_size;
    bool in_shm;                          /* its bytes are in shared memory: */
    struct as_oip_tensor_options options; /* what its parameters say of that */
    bool allow_scalar;                    /* a value without an array around it will do */
};

struct as_oip_json_parse {
    struct as_oip_parse c;
    struct as_json *j;
    const uint8_t *binary, *binary_end; /* binary data that no tensor has taken yet */
    struct as_tensor *tensors;
    struct as_oip_json_source *sources; /* one for each tensor */
    uint32_t n_tensors, cap_tensors;
    struct as_param *params;
    uint32_t n_params, cap_params;
    struct as_oip_requested_output *outputs;
    uint32_t n_outputs, cap_outputs;
    int8_t binary_output; /* -1: nothing was said */
    struct as_str model, version, id;
};

/* What the tensors of this message are called. */
static inline const char *as_oip_json_tensors_key(const struct as_oip_json_parse *q)
{
    return q->c.response ? "outputs" : "inputs";
}
/* Writers that know a message by its type (pydantic, Jackson; some servers) put null where a field
 * is not set. */
static inline bool as_oip_json_is_absent(const struct as_json_value *v)
{
    return v->type == AS_JSON_NULL;
}
/* Turns a reader's AS_EPROTO and AS_ENOMEM into a refusal; AS_EINVALID is refused as `what`. */
int as_oip_json_reader_error(struct as_oip_json_parse *q, int err, const char *what);
/* The members or elements of a value that must be of this type: refused as `what` if not. */
int as_oip_json_items(struct as_oip_json_parse *q, struct as_json_value *v, enum as_json_type type,
                      const char *what, struct as_json_items *ret_it);
/* "input 'NAME': …", or "inputs[i]: …" while it has no name. */
int as_oip_json_refuse_tensor(struct as_oip_json_parse *q, uint32_t i, const char *fmt, ...)
    AS_PRINTF(3, 4);
/* Room for one entry more in an array of the arena; NULL when memory is out. */
void *as_oip_json_grow(struct as_arena *a, void *old, uint32_t n, uint32_t *cap, size_t size);
/* One more tensor, zeroed; NULL: refused, *ret_err says how. */
struct as_tensor *as_oip_json_add_tensor(struct as_oip_json_parse *q, int *ret_err);
/* The next tensor, out of its object. */
int as_oip_json_get_tensor(struct as_oip_json_parse *q, struct as_json_value *v);
/* The value of a parameter, whose name is set. */
int as_oip_json_get_param_value(struct as_oip_json_parse *q, struct as_param *m,
                                struct as_json_value *v);
/* One parameter of the request, its name taken; null is none. */
int as_oip_json_add_param(struct as_oip_json_parse *q, struct as_str name, struct as_json_value *v);
/* The members of a "parameters" object. */
int as_oip_json_get_params(struct as_oip_json_parse *q, struct as_json_value *v);
/* Of generate: the entry of a signature with this name, or NULL; after the whole text was walked,
 * the shape of a tensor from its entry and what came. */
const struct as_tensor_spec *as_oip_json_find_spec(const struct as_tensor_spec *s, uint32_t n,
                                                   struct as_str name);
int as_oip_json_derive_shape(struct as_oip_json_parse *q, uint32_t i,
                             const struct as_tensor_spec *s);
/* After the whole text was walked: memory for all tensors that come as JSON, and their elements. */
int as_oip_json_fill(struct as_oip_json_parse *q, struct as_blob **ret_blob);
/* Names once, table within its limit; hands the result over. */
int as_oip_json_finish(struct as_oip_json_parse *q, struct as_blob *blob,
                       struct as_oip_infer *ret_r);

#endif
