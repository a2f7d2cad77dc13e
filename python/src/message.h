/* message.h — messages of the worker library, made of Python values. Needs the GIL. */
#ifndef ANYSERVE_MESSAGE_H
#define ANYSERVE_MESSAGE_H

#include "py_util.h"

/* Made of (tensors, parameters, id, metadata). tensors: a list of
 * (name, datatype, shape, bytes) or (…, parameters); parameters and metadata: dicts; id: a str. The
 * message points into these. */
struct message {
    struct as_msg msg;
    struct as_tensor *t;
    int64_t (*dims)[AS_MAX_DIMS];
    struct as_param *p;
    struct as_meta *m;
    struct as_tensor_param *tensor_params; /* parameters of single tensors */
    uint32_t n_tensor_params;
};
int native_message_read(struct message *s, PyObject *values); /* -1 with an exception */
void native_message_free(struct message *s);
/* Reads a parameter, which points into k and v. -1 with an exception. */
int native_param_read(PyObject *k, PyObject *v, struct as_param *p);

#endif
