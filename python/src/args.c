/* How a request becomes the arguments of the handler, and the handler is called. */
#include "native.h"

#define ARGS_ON_STACK 16

/* On the C stack for nearly all handlers: no allocation per call. v[0 … n) are owned references. */
struct args {
    PyObject *stack[ARGS_ON_STACK + 1];
    PyObject **v;   /* v[-1] may be used by the callee */
    Py_ssize_t n;   /* filled in */
    PyObject *rest; /* dict for **kwargs, or NULL */
    PyObject *hold;
};

static void args_drop(struct args *a)
{
    for (Py_ssize_t i = 0; i < a->n; i++)
        Py_DECREF(a->v[i]);
    if (a->v != a->stack + 1)
        PyMem_Free(a->v - 1);
    Py_XDECREF(a->rest);
    Py_XDECREF(a->hold);
}

/* Clients mostly send inputs in the order of the signature: `hint` is where the next one should be.
 */
static const struct as_tensor *find(const struct as_msg *msg, struct as_str name, uint32_t *hint)
{
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[(*hint + i) % msg->n_tensors];

        if (as_str_eq(t->name, name)) {
            *hint = (uint32_t)(t - msg->tensors) + 1;
            return t;
        }
    }
    return NULL;
}

static bool is_param(const struct model *m, struct as_str name)
{
    for (Py_ssize_t i = 0; i < m->n_params; i++) {
        if (!m->params[i].request && as_str_eq(m->params[i].utf8, name))
            return true;
    }
    return false;
}

/* The argument for a tensor of the request, or of the group that it leads. */
static PyObject *input_of(struct model *m, struct as_worker_req *q, struct group *g,
                          const struct as_tensor *t, struct args *a)
{
    if (g)
        return native_group_array(m, g, (uint32_t)(t - as_worker_req_msg(q)->tensors));
    return native_array(q, t, &a->hold);
}

/* Inputs that no parameter is named after: for **kwargs, or the client's mistake. */
static int bind_rest(struct model *m, struct as_worker_req *q, struct group *g, struct args *a,
                     char *why, size_t cap)
{
    const struct as_msg *msg = as_worker_req_msg(q);

    a->rest = m->var_keyword ? PyDict_New() : NULL;
    if (m->var_keyword && !a->rest)
        return -1;
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];
        PyObject *k, *v;
        int err;

        if (is_param(m, t->name))
            continue;
        if (!m->var_keyword) {
            snprintf(why, cap, "unexpected input '%.*s' for model '%s'",
                     (int)AS_MIN(t->name.n, (size_t)200), t->name.p, PyUnicode_AsUTF8(m->name));
            return -1;
        }
        k = PyUnicode_FromStringAndSize(t->name.p, (Py_ssize_t)t->name.n);
        v = k ? input_of(m, q, g, t, a) : NULL;
        err = v ? PyDict_SetItem(a->rest, k, v) : -1;
        Py_XDECREF(k);
        Py_XDECREF(v);
        if (err)
            return -1;
    }
    return 0;
}

/* 0; -1 with an exception set, or with the client's mistake in `why`. */
static int bind(struct model *m, struct as_worker_req *q, Request *r, struct group *g,
                struct args *a, char *why, size_t cap)
{
    const struct as_msg *msg = as_worker_req_msg(q);
    uint32_t hint = 0, bound = 0;

    a->n = 0;
    a->rest = a->hold = NULL;
    a->v = a->stack + 1;
    if (m->n_params > ARGS_ON_STACK) {
        /* one more in front: PY_VECTORCALL_ARGUMENTS_OFFSET lends v[-1] to the callee, which puts
         * `self` there */
        PyObject **v = PyMem_Malloc(((size_t)m->n_params + 1) * sizeof(PyObject *));

        if (!v)
            return PyErr_NoMemory(), -1;
        a->v = v + 1;
    }
    for (Py_ssize_t i = 0; i < m->n_params; i++) {
        const struct param *p = &m->params[i];
        const struct as_tensor *t = p->request ? NULL : find(msg, p->utf8, &hint);
        PyObject *v;

        if (p->request) {
            v = Py_NewRef(g ? g->requests : (PyObject *)r);
        } else if (t) {
            v = input_of(m, q, g, t, a);
            bound++;
        } else if (p->fallback) {
            v = Py_NewRef(p->fallback);
        } else {
            snprintf(why, cap, "missing input '%.*s' for model '%s'",
                     (int)AS_MIN(p->utf8.n, (size_t)200), p->utf8.p, PyUnicode_AsUTF8(m->name));
            return -1;
        }
        if (!v)
            return -1;
        a->v[a->n++] = v;
    }
    /* a handler that takes the whole request may ignore inputs: it sees them all there */
    if (m->var_keyword || (bound < msg->n_tensors && !m->takes_request))
        return bind_rest(m, q, g, a, why, cap);
    return 0;
}

static PyObject *vectorcall(struct model *m, struct args *a)
{
    Py_ssize_t n_kw = m->kwnames ? PyTuple_GET_SIZE(m->kwnames) : 0;
    size_t n = (size_t)(a->n - n_kw);

    if (!a->rest)
        return PyObject_Vectorcall(m->handler, a->v, n | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                   m->kwnames);
    for (Py_ssize_t i = 0; i < n_kw; i++) {
        if (PyDict_SetItem(a->rest, PyTuple_GET_ITEM(m->kwnames, i), a->v[(Py_ssize_t)n + i]) < 0)
            return NULL;
    }
    return PyObject_VectorcallDict(m->handler, a->v, n | PY_VECTORCALL_ARGUMENTS_OFFSET, a->rest);
}

PyObject *native_invoke(struct model *m, struct as_worker_req *q, Request *r, struct group *g,
                        char *why, size_t cap)
{
    struct args a;
    PyObject *result = NULL;

    why[0] = 0;
    if (bind(m, q, r, g, &a, why, cap) == 0)
        result = vectorcall(m, &a);
    args_drop(&a);
    return result;
}
