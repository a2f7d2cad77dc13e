/* output.h — the tensors of an answer while it is assembled; private to result.c, output.c, batch.c
 * and lossy_values.c.
 *
 * Names and bytes are not copied: the objects that they lie in are kept until output_fini, because
 * user code may run while a later value is converted. Everything needs the GIL.
 */
#ifndef ANYSERVE_OUTPUT_H
#define ANYSERVE_OUTPUT_H

#include "array.h"

#define OUTPUT_ON_STACK 16

/* The objects that the name and the bytes of one tensor lie in; each may be NULL. */
struct tensor_owner {
    PyObject *array, *packed, *name;
};

/* An answer while it is assembled. The objects that its bytes lie in are kept until it is sent. */
struct output {
    struct model *m;
    struct as_tensor *t;
    struct tensor_owner *keep; /* one per tensor */
    uint32_t n, cap;
    struct as_tensor t_stack[OUTPUT_ON_STACK];
    struct tensor_owner keep_stack[OUTPUT_ON_STACK];
    struct as_param *params;
    uint32_t n_params;
    struct as_tensor_param *tensor_params; /* in the order of t */
    uint32_t n_tensor_params;
};

/* Makes room for n tensors. 0; -1 with an exception. May be called again as long as no tensor was
 * added, when the form of the result becomes known. After a failure output_fini is safe. */
int output_init(struct output *o, struct model *m, Py_ssize_t n);
void output_fini(struct output *o);
/* Appends a value. `spec`: the declaration of the output, or NULL. `name` must outlive o, or be
 * given to o->keep. 0; -1 with an exception that names model and output. */
int output_put(struct output *o, PyObject *name, PyObject *value,
               const struct as_tensor_spec *spec);
/* Converts `result` into an answer in o, which need not be initialised. 0; -1 with an exception.
 * The caller calls output_fini in any case. */
int output_collect(struct output *o, struct model *m, PyObject *result);
/* The answer's tensors and parameters, as the next message of q. Parameters of single outputs are
 * set on q. */
struct as_msg output_message(const struct output *o, struct as_worker_req *q);
/* Checks the rows of every output; -1 with an exception: one has a different number. */
int output_check_rows(struct output *o, int64_t rows, Py_ssize_t requests);
/* Sends it; -1 with an exception: q is unanswered. */
int output_send(Link *l, struct model *m, struct as_worker_req *q, const struct as_msg *msg);
/* lossy_values.c: refuse values of which numpy would lose something. 0; -1 with an exception. A
 * masked array, also within lists … */
int output_check_mask(struct output *o, PyObject *name, PyObject *value);
/* … an object that numpy has put into an array of one object … */
int output_check_object(struct output *o, PyObject *name, PyObject *value, PyArrayObject *a);
/* … numbers that do not fit the declared datatype: the arrays before and after the cast. */
int output_check_range(PyArrayObject *was, PyArrayObject *is, enum as_dtype t);
/* The names in quotes, separated by commas, for a message: a new str; NULL with an exception. */
PyObject *output_quoted(PyObject *names);
/* True: a coroutine, a future or the like, which somebody has forgotten to await. */
bool output_is_awaitable(PyObject *v);
/* Closes a coroutine; otherwise Python would warn, much later, that it was never awaited. */
void output_close_coroutine(PyObject *v);
/* Raises OutputError; always returns -1. */
int output_refuse(const char *format, ...);

#endif
