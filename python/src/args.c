/* Converts a request into the arguments of its handler, and calls the handler. */
#include "array.h"

#include <stdarg.h>
#include <strings.h>

#define ARGS_ON_STACK 16

/* On the C stack for nearly all handlers, so that a call allocates nothing. v[0 … n) are owned
 * references. */
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

/* Finds a tensor by name. Most clients send inputs in the order of the signature: `hint` is where
 * the next one is expected. */
static const struct as_tensor *find_tensor(const struct as_msg *msg, struct as_str name,
                                           uint32_t *hint)
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

/* --- texts about a client's mistake --- */

#define SHOWN_NAME  64u /* bytes of a name … */
#define SHOWN_NAMES 16u /* … and how many of them */
#define HINT        "to receive the request, call it `request` or annotate it with anyserve.Request"

struct line {
    char *p;
    size_t n, cap;
};

static void line_printf(struct line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void line_printf(struct line *l, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(l->p + l->n, l->cap - l->n, fmt, ap);
    va_end(ap);
    if (n > 0)
        l->n = AS_MIN(l->n + (size_t)n, l->cap - 1);
}

static void add_name(struct line *l, uint32_t i, struct as_str name)
{
    if (i < SHOWN_NAMES)
        line_printf(l, "%s'%.*s'", i ? ", " : "", (int)AS_MIN(name.n, (size_t)SHOWN_NAME), name.p);
    else if (i == SHOWN_NAMES)
        line_printf(l, ", …");
}

static void add_taken(struct line *l, const struct model *m)
{
    uint32_t n = 0;

    line_printf(l, "its handler takes ");
    for (Py_ssize_t i = 0; i < m->n_params; i++) {
        if (!m->params[i].request)
            add_name(l, n++, m->params[i].utf8);
    }
    if (!n)
        line_printf(l, "none");
}

/* True: the name is one that authors give to a parameter for the request. */
static bool resembles_request(const struct model *m, struct as_str name)
{
    return !m->takes_request &&
           ((name.n >= 3 && strncasecmp(name.p, "req", 3) == 0) || as_str_eq(name, AS_STR("r")));
}

/* File name and line of the handler; a client need not know the folders of the server. */
static const char *place_without_folder(const struct model *m)
{
    const char *where = PyUnicode_AsUTF8(m->where), *slash = where ? strrchr(where, '/') : NULL;

    if (!where)
        PyErr_Clear(); /* the path is not UTF-8 */
    return slash ? slash + 1 : where ? where : "?";
}

static void describe_missing(struct line *l, const struct model *m, const struct as_msg *msg,
                             struct as_str name)
{
    line_printf(l, "missing input ");
    add_name(l, 0, name);
    line_printf(l, " for model '%s': ", PyUnicode_AsUTF8(m->name));
    add_taken(l, m);
    line_printf(l, ", the request has ");
    for (uint32_t i = 0; i < msg->n_tensors; i++)
        add_name(l, i, msg->tensors[i].name);
    if (!msg->n_tensors)
        line_printf(l, "none");
    if (resembles_request(m, name))
        line_printf(l, "; handler parameter '%.*s' (%s) is taken for an input tensor; " HINT,
                    (int)name.n, name.p, place_without_folder(m));
}

/* --- inputs --- */

/* The argument for a tensor of the request, or of the group that begins with it. */
static PyObject *input_of(struct execution *x, const struct as_tensor *t, struct args *a)
{
    if (x->group)
        return native_group_array(x->m, x->group, (uint32_t)(t - as_worker_req_msg(x->q)->tensors));
    return native_array(x->q, t, &a->hold);
}

/* Handles inputs without a parameter of that name: they go to **kwargs, or are a mistake of the
 * client. */
static int bind_var_keyword(struct execution *x, struct args *a, char why[NATIVE_WHY])
{
    const struct as_msg *msg = as_worker_req_msg(x->q);
    const struct model *m = x->m;

    a->rest = m->var_keyword ? PyDict_New() : NULL;
    if (m->var_keyword && !a->rest)
        return -1;
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];
        PyObject *k, *v;

        if (is_param(m, t->name))
            continue;
        if (!m->var_keyword) {
            struct line l = {why, 0, NATIVE_WHY};

            line_printf(&l, "unexpected input ");
            add_name(&l, 0, t->name);
            line_printf(&l, " for model '%s': ", PyUnicode_AsUTF8(m->name));
            add_taken(&l, m);
            return -1;
        }
        k = PyUnicode_FromStringAndSize(t->name.p, (Py_ssize_t)t->name.n);
        v = k ? input_of(x, t, a) : NULL;
        if (native_dict_put(a->rest, k, v) < 0)
            return -1;
    }
    return 0;
}

/* 0; -1 with an exception set, or with the client's mistake in `why`. */
static int bind_arguments(struct execution *x, struct args *a, char why[NATIVE_WHY])
{
    const struct as_msg *msg = as_worker_req_msg(x->q);
    const struct model *m = x->m;
    uint32_t hint = 0, bound = 0;

    a->n = 0;
    a->rest = a->hold = NULL;
    a->v = a->stack + 1;
    if (m->n_params > ARGS_ON_STACK) {
        /* one more element in front: PY_VECTORCALL_ARGUMENTS_OFFSET lets the callee put `self` into
         * v[-1] */
        PyObject **v = PyMem_Malloc(((size_t)m->n_params + 1) * sizeof(PyObject *));

        if (!v)
            return PyErr_NoMemory(), -1;
        a->v = v + 1;
    }
    for (Py_ssize_t i = 0; i < m->n_params; i++) {
        const struct param *p = &m->params[i];
        const struct as_tensor *t = p->request ? NULL : find_tensor(msg, p->utf8, &hint);
        PyObject *v;

        if (p->request) {
            v = Py_NewRef(x->group ? x->group->requests : (PyObject *)x->request);
        } else if (t) {
            v = input_of(x, t, a);
            bound++;
        } else if (p->fallback) {
            v = Py_NewRef(p->fallback);
        } else {
            describe_missing(&(struct line){why, 0, NATIVE_WHY}, m, msg, p->utf8);
            return -1;
        }
        if (!v)
            return -1;
        a->v[a->n++] = v;
    }
    /* a handler that takes the Request may ignore inputs: it has all of them there */
    if (m->var_keyword || (bound < msg->n_tensors && !m->takes_request))
        return bind_var_keyword(x, a, why);
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

PyObject *native_call_handler(struct execution *x, char why[NATIVE_WHY])
{
    struct args a;
    PyObject *result = NULL;

    why[0] = 0;
    if (bind_arguments(x, &a, why) == 0)
        result = vectorcall(x->m, &a);
    args_drop(&a);
    return result;
}
