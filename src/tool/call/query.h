/* tool/call/query.h — a request to a model as the command line describes it.
 *
 * Reads the options that infer and bench share, asks the model for its metadata when an input's
 * datatype or shape is not written, and encodes the message once, for gRPC or REST. With --stream
 * it may be several requests: an input that is given again begins the next one, which keeps those
 * inputs of the last that it is not given anew.
 */
#ifndef AS_TOOL_QUERY_H
#define AS_TOOL_QUERY_H

#include "conf/option.h"
#include "tool/tensor/input.h"
#include "tool/call/unary.h"
#include "wire/oip/oip.h"

struct as_query {
    const struct as_option_set *opts;
    enum as_model_call_protocol protocol;
    bool stream; /* ModelStreamInfer, or generate_stream */
    struct as_str model, version, id;
    uint32_t n_inputs, n_requests;
    uint32_t n_given; /* of the inputs; those behind them are made up */
    struct as_input_form *forms;
    uint32_t *request_index; /* of the request that each input is given for, from 0 */
    struct as_input *inputs;
    struct as_tensor *tensors;
    struct as_param params[AS_OPTION_ITEMS_MAX];
    struct as_oip_requested_output outputs[AS_OPTION_ITEMS_MAX];
    struct as_http_header metadata[AS_MODEL_CALL_METADATA];
    uint32_t n_params, n_outputs, n_metadata;
    struct as_arena arena;          /* texts of metadata, the model's metadata */
    struct as_oip_model model_info; /* when has_about */
    struct as_buf model_info_bytes;
    bool has_model_info;
    as_ns model_info_time;
    struct as_buf path;    /* of the model's REST resource */
    size_t model_path;     /* of it: without what follows the model */
    struct as_buf message; /* ModelInferRequest; over REST JSON, then tensors */
    size_t json_len;       /* of it */
};

/* What can be said without a server. 0; AS_EINVALID: a sentence is in `why`. Texts point into the
 * options. fini also after an error. */
int as_query_init(struct as_query *r, const struct as_option_set *o, struct as_buf *why);
void as_query_fini(struct as_query *r);
/* One more header of the call, unless --metadata has given one of this name. */
void as_query_add_metadata(struct as_query *r, const char *name, const char *value);
/* The model's metadata is wanted before as_query_encode. */
bool as_query_needs_model(const struct as_query *r);
/* Asks for it. The gRPC status (0: r->about); a sentence in `why` when it is not 0. */
uint32_t as_query_fetch_model(struct as_query *r, struct as_unary *u, struct as_buf *why);
/* Turns values into tensors and encodes the message. generate: declared inputs that were not given
 * get made-up values, with any_size where any size fits. 0; AS_EINVALID; AS_ENOTFOUND: a file
 * cannot be read; AS_ETOOBIG. */
int as_query_encode(struct as_query *r, bool generate, struct as_buf *why);
/* The call that was made, pointing into r. */
void as_query_request(const struct as_query *r, struct as_model_call_request *ret_q);
/* Reads the answer to it, in `call`: 0, or an error with a sentence in `why`. Tensors point into
 * the call, the arena and *ret_blob, which is the caller's (or NULL). */
int as_query_parse_response(struct as_model_call *call, struct as_arena *a,
                            struct as_oip_response *ret_r, struct as_blob **ret_blob,
                            struct as_buf *why);
/* The same with one response of a stream, while it is told. *ret_error: its text when it is an
 * error (n 0: it is none). */
int as_query_parse_stream_response(const struct as_query *r, struct as_model_call *call,
                                   struct as_arena *a, struct as_oip_response *ret_r,
                                   struct as_blob **ret_blob, struct as_str *ret_error,
                                   struct as_buf *why);

#endif
