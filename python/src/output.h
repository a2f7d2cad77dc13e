/* output.h — the tensors of an answer while it is put together; private to result.c, output.c and
 * losses.c.
 *
 * Names and bytes are not copied: whatever they lie in is kept until output_fini, because user code
 * may run while a later value is converted. Everything needs the GIL.
 */
#ifndef ANYSERVE_OUTPUT_H
#define ANYSERVE_OUTPUT_H

#include "native.h"

#define OUTPUT_ON_STACK 16

/* What the bytes of one tensor lie in; each may be NULL. */
struct tensor_owner {
    PyObject *array, *packed, *name;
};

/* The answer while it is put together. Everything that its bytes lie in is kept until it is sent.
 */
struct output {
    struct model *m;
    struct as_tensor *t;
    struct tensor_owner *keep; /* of each tensor */
    uint32_t n, cap;
    struct as_tensor t_stack[OUTPUT_ON_STACK];
    struct tensor_owner keep_stack[OUTPUT_ON_STACK];
    struct as_param *params;
    uint32_t n_params;
    struct as_tensor_param *tensor_params; /* in the order of t */
    uint32_t n_tensor_params;
};

/* Room for n tensors. 0; -1 with an exception. May be called again while nothing has been put, for
 * the form of the result that turned out. On failure output_fini is safe. */
int output_init(struct output *o, struct model *m, Py_ssize_t n);
void output_fini(struct output *o);
/* Appends a value; `spec`: what is declared of it, or NULL. `name` must outlive o, or be given to
 * o->keep. 0; -1 with an exception that names model and output. */
int output_put(struct output *o, PyObject *name, PyObject *value,
               const struct as_tensor_spec *spec);
/* The answer that `result` is, in o, which needs no init before. 0; -1 with an exception. The
 * caller calls output_fini in any case. */
int output_collect(struct output *o, struct model *m, PyObject *result);
/* Its tensors and parameters, as a message for q, whose next one it is: what belongs to single
 * outputs goes beside it. */
struct as_msg output_message(const struct output *o, struct as_worker_req *q);
/* -1 with an exception: some output has not so many rows. */
int output_check_rows(struct output *o, int64_t rows, Py_ssize_t requests);
/* Sends it; -1 with an exception: q is unanswered. */
int output_send(Link *l, struct model *m, struct as_worker_req *q, const struct as_msg *msg);
/* losses.c: what numpy would lose. 0; -1 with an exception. A masked array, also within lists … */
int output_check_mask(struct output *o, PyObject *name, PyObject *value);
/* … an object of which numpy has made an array of one object … */
int output_check_object(struct output *o, PyObject *name, PyObject *value, PyArrayObject *a);
/* … numbers that the declared datatype has no place for: before and after the cast to it. */
int output_check_range(PyArrayObject *was, PyArrayObject *is, enum as_dtype t);
/* The names, quoted and parted by commas, for a message: a new str; NULL with an exception. */
PyObject *output_quoted(PyObject *names);
/* A coroutine, a future or the like: somebody has forgotten to await it. */
bool output_is_awaitable(PyObject *v);
/* Or Python would warn, long after, that it was never awaited. */
void output_close_coroutine(PyObject *v);
/* Raises OutputError; always -1. */
int output_refuse(const char *format, ...);

#endif
