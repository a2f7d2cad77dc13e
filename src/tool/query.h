/* tool/query.h — a ModelInfer call as the command line describes it.
 *
 * Reads the options that infer and bench share, asks the model for its metadata when an input's
 * datatype or shape is not written, and encodes the message once.
 */
#ifndef AS_TOOL_QUERY_H
#define AS_TOOL_QUERY_H

#include "ctl/option.h"
#include "tool/input.h"
#include "tool/unary.h"
#include "wire/oip.h"

#define AS_QUERY_INFER_PATH "/inference.GRPCInferenceService/ModelInfer"

struct as_query {
    const struct as_option_set *opts;
    struct as_str model, version, id;
    uint32_t n_inputs;
    struct as_input_form *forms;
    struct as_input *inputs;
    struct as_tensor *tensors;
    struct as_param params[AS_OPTION_ITEMS_MAX];
    struct as_oip_requested outputs[AS_OPTION_ITEMS_MAX];
    struct as_http_header metadata[AS_UNARY_METADATA];
    uint32_t n_params, n_outputs, n_metadata;
    struct as_arena arena;     /* texts of metadata, the model's metadata */
    struct as_oip_model about; /* when has_about */
    struct as_buf about_bytes;
    bool has_about;
    as_ns about_took;
    struct as_buf message; /* ModelInferRequest */
};

/* What can be said without a server. 0; AS_EINVALID: a sentence is in `why`. Texts point into the
 * options. fini also after an error. */
int as_query_init(struct as_query *r, const struct as_option_set *o, struct as_buf *why);
void as_query_fini(struct as_query *r);
/* The model's metadata is wanted before as_query_make. */
bool as_query_needs_model(const struct as_query *r);
/* Asks for it. The gRPC status (0: r->about); a sentence in `why` when it is not 0. */
uint32_t as_query_ask(struct as_query *r, struct as_unary *u, struct as_buf *why);
/* Turns values into tensors and encodes the message. generate: declared inputs that were not given
 * get made-up values, with any_size where any size fits. 0; AS_EINVALID; AS_ENOTFOUND: a file
 * cannot be read; AS_ETOOBIG. */
int as_query_make(struct as_query *r, bool generate, struct as_buf *why);

#endif
