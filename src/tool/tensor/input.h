/* tool/tensor/input.h — one --input of the command line becomes a tensor.
 *
 *   NAME=VALUE  NAME:DTYPE=VALUE  NAME:DTYPE:[SHAPE]=VALUE, VALUE being text
 * (tool/tensor/literal.h) or
 *   @FILE, @-, @raw:FILE, @text:FILE, @npy:FILE
 *
 * Datatype and shape that are not written are those that the model declares, or a .npy file's.
 * Without a prefix a file is NumPy's when it begins with its magic bytes, text when it is "-" or
 * ends in .txt, .csv or .json, else raw bytes as they travel (for BYTES: one element). Errors name
 * input, value and position. Blocking reads.
 */
#ifndef AS_TOOL_INPUT_H
#define AS_TOOL_INPUT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/tensor.h"

struct as_input_form { /* the text taken apart; slices point into it */
    struct as_str name, value;
    enum as_dtype dtype; /* AS_DT_INVALID: not written */
    bool has_shape;
    uint32_t ndim;
    int64_t shape[AS_MAX_DIMS]; /* at most one -1 */
};

struct as_input {
    struct as_tensor tensor; /* name points into the form's text; shape and data are own */
    int64_t shape[AS_MAX_DIMS];
    struct as_buf data;
};

/* 0, or AS_EINVALID with a sentence in `why`. */
int as_input_parse(const char *text, struct as_input_form *ret_f, struct as_buf *why);
/* Whether the datatype, or a shape for its value, must come from the model. */
bool as_input_needs_model(const struct as_input_form *f);
/* spec: what the model declares for this name, or NULL. *stdin_used: whether "@-" was read already.
 * Zero-initialised `in`; fini also after an error. 0; AS_EINVALID; AS_ENOTFOUND: the file cannot be
 * read. */
int as_input_make(const struct as_input_form *f, const struct as_tensor_spec *spec,
                  bool *stdin_used, struct as_input *in, struct as_buf *why);
void as_input_fini(struct as_input *in);

#endif
