/* tool/tensor/input.h — makes a tensor from one --input of the command line.
 *
 *   NAME=VALUE  NAME:DTYPE=VALUE  NAME:DTYPE:[SHAPE]=VALUE
 *   VALUE: text (tool/tensor/literal.h), or @FILE, @-, @raw:FILE, @text:FILE, @npy:FILE
 *
 * A datatype or shape that is not given is the model's, or that of a .npy file. A file without a
 * prefix is a .npy file if it begins with NumPy's magic bytes, text if it is "-" or ends in .txt,
 * .csv or .json, otherwise the tensor's raw bytes (for BYTES: one element). Errors name the input,
 * the value and its position. Reads files, blocking.
 */
#ifndef AS_TOOL_INPUT_H
#define AS_TOOL_INPUT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/tensor.h"

struct as_input_form { /* a parsed option; slices point into its text */
    struct as_str name, value;
    enum as_dtype dtype; /* AS_DT_INVALID: not given */
    bool has_shape;
    uint32_t ndim;
    int64_t shape[AS_MAX_DIMS]; /* at most one -1 */
};

struct as_input {
    struct as_tensor
        tensor; /* its name points into the option's text; shape and data are in this struct */
    int64_t shape[AS_MAX_DIMS];
    struct as_buf data;
};

/* 0, or AS_EINVALID with a sentence in `why`. */
int as_input_parse(const char *text, struct as_input_form *ret_f, struct as_buf *why);
/* Whether the datatype must come from the model's metadata. */
bool as_input_needs_model(const struct as_input_form *f);
/* Makes the tensor. spec: what the model declares for this name, or NULL. *stdin_used: "@-" was
 * read already. `in` must be zero-initialised; call as_input_fini also after an error. 0;
 * AS_EINVALID; AS_ENOTFOUND: the file cannot be read. After an error a sentence is in `why`. */
int as_input_make(const struct as_input_form *f, const struct as_tensor_spec *spec,
                  bool *stdin_used, struct as_input *in, struct as_buf *why);
void as_input_fini(struct as_input *in);

#endif
