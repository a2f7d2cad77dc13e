/* tool/call/query.h — the request to a model that the command line describes.
 *
 * Reads the options that infer and bench share, fetches the model's metadata if an input's datatype
 * or shape is not given, and encodes the message for gRPC or REST. With --stream the message may
 * hold several requests: an input that is given again begins the next request, which has all other
 * inputs of the request before.
 */
#ifndef AS_TOOL_QUERY_H
#define AS_TOOL_QUERY_H

#include "conf/option/option.h"
#include "tool/call/unary.h"
#include "tool/tensor/input.h"
#include "wire/oip/oip.h"

struct as_query {
    const struct as_option_set *opts;
    enum as_model_call_protocol protocol;
    bool stream; /* ModelStreamInfer, or generate_stream */
    struct as_str model, version, id;
    uint32_t n_inputs, n_requests;
    uint32_t n_given; /* inputs of the command line; the others are sample inputs */
    struct as_input_form *forms;
    uint32_t *request_index; /* for each input: the request that it is given for, from 0 */
    struct as_input *inputs;
    struct as_tensor *tensors;
    struct as_param params[AS_OPTION_ITEMS_MAX];
    struct as_oip_requested_output outputs[AS_OPTION_ITEMS_MAX];
    struct as_http_header metadata[AS_MODEL_CALL_METADATA];
    uint32_t n_params, n_outputs, n_metadata;
    struct as_arena arena;          /* texts of --metadata, and the model's metadata */
    struct as_oip_model model_info; /* set if has_model_info */
    struct as_buf model_info_bytes;
    bool has_model_info;
    as_ns model_info_time;
    struct as_buf path;    /* of the REST resource */
    size_t model_path;     /* bytes of `path` up to the end of the model and version */
    struct as_buf message; /* ModelInferRequest, or JSON and then bytes of tensors */
    size_t json_len;       /* of the message: bytes of JSON */
};

/* Reads the options and the API key, without contact to a server. Texts point into the options. 0, or AS_EINVALID
 * with a sentence in `why`. Call as_query_fini also after an error. */
int as_query_init(struct as_query *r, const struct as_option_set *o, struct as_buf *why);
void as_query_fini(struct as_query *r);
/* Adds a header to the call, unless --metadata has one of this name. */
void as_query_add_metadata(struct as_query *r, const char *name, const char *value);
/* Whether as_query_encode needs the model's metadata. */
bool as_query_needs_model(const struct as_query *r);
/* Fetches it. Returns the gRPC status: 0: r->model_info is set; else a sentence is in `why`. */
uint32_t as_query_fetch_model(struct as_query *r, struct as_unary *u, struct as_buf *why);
/* Parses the values and encodes the message. generate: declared inputs that were not given get
 * sample values, with the size --any-size for variable dimensions. 0; AS_EINVALID; AS_ENOTFOUND: a
 * file cannot be read; AS_ETOOBIG. */
int as_query_encode(struct as_query *r, bool generate, struct as_buf *why);
/* The call to send; it points into r. */
void as_query_request(const struct as_query *r, struct as_model_call_request *ret_q);
/* Parses the response in `call`: 0, or an error with a sentence in `why`. Tensors point into the
 * call, the arena and *ret_blob, which the caller must unref and which may be NULL. */
int as_query_parse_response(struct as_model_call *call, struct as_arena *a,
                            struct as_oip_response *ret_r, struct as_blob **ret_blob,
                            struct as_buf *why);
/* The same for one response of a stream, within on_response. *ret_error: its text if it is an
 * error, else empty. */
int as_query_parse_stream_response(const struct as_query *r, struct as_model_call *call,
                                   struct as_arena *a, struct as_oip_response *ret_r,
                                   struct as_blob **ret_blob, struct as_str *ret_error,
                                   struct as_buf *why);

#endif
