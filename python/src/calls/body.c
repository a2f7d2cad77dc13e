/* Bodies of calls: those that have come, as Python objects over the link's bytes; and those that
 * are to be sent, made of Python objects.
 */
#include "opaque.h"

#define HEAD 24u /* bytes before the lengths of buffers and parts */
#define COPY_BELOW                                                                                 \
    1024 /* a pickle that is smaller is copied; else pickle reads the link's bytes                 \
          */

static struct {
    PyObject *load;      /* (Body): the value, of a body with parts */
    PyObject *exception; /* (Body): the exception, of a body with EXCEPTION */
    PyObject *status;    /* (Out, status, flags, text): the exception */
} hooks;
static PyObject *pickle_loads, *buffers_keyword; /* pickle.loads; ("buffers",) */

PyObject *native_set_body_hooks(PyObject *module AS_UNUSED, PyObject *args)
{
    PyObject *load, *exception, *status;

    if (!PyArg_ParseTuple(args, "OOO:set_body_hooks", &load, &exception, &status))
        return NULL;
    if (!pickle_loads) {
        pickle_loads = native_import("pickle", "loads");
        buffers_keyword = Py_BuildValue("(s)", "buffers");
    }
    if (!pickle_loads || !buffers_keyword)
        return NULL;
    Py_XSETREF(hooks.load, Py_NewRef(load));
    Py_XSETREF(hooks.exception, Py_NewRef(exception));
    Py_XSETREF(hooks.status, Py_NewRef(status));
    Py_RETURN_NONE;
}

/* --- Piece: some bytes of a body --- */

typedef struct {
    PyObject_HEAD Body *body;
    struct as_str s;
} Piece;

static int piece_getbuffer(PyObject *o, Py_buffer *view, int flags)
{
    Piece *p = (Piece *)(void *)o;

    return PyBuffer_FillInfo(view, o, (void *)(uintptr_t)p->s.p, (Py_ssize_t)p->s.n, 1, flags);
}

static void piece_dealloc(PyObject *o)
{
    Py_DECREF(((Piece *)(void *)o)->body);
    PyObject_Free(o);
}

static PyBufferProcs piece_buffer = {.bf_getbuffer = piece_getbuffer};

PyTypeObject native_piece_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Piece",
    .tp_basicsize = sizeof(Piece),
    .tp_dealloc = piece_dealloc,
    .tp_as_buffer = &piece_buffer,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Some bytes of a body, which it keeps.",
};

/* A read-only memoryview that keeps the body. */
static PyObject *view_of(Body *b, struct as_str s)
{
    Piece *p = PyObject_New(Piece, &native_piece_type);
    PyObject *view;

    if (!p)
        return NULL;
    p->body = (Body *)Py_NewRef((PyObject *)b);
    p->s = s.p ? s : AS_STR("");
    view = PyMemoryView_FromObject((PyObject *)p);
    Py_DECREF(p);
    return view;
}

static PyObject *views_of(Body *b, uint32_t from, uint32_t n)
{
    PyObject *list = PyList_New(n);

    for (uint32_t i = 0; list && i < n; i++) {
        PyObject *view = view_of(b, b->slices[from + i]);

        if (view)
            PyList_SET_ITEM(list, i, view);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* --- Body --- */

/* All bytes of a body that was received: its data stands behind head, lengths and method. */
static struct as_str whole_of(const struct as_body *b)
{
    struct as_str last = b->data;
    size_t before = HEAD + 8 * ((size_t)b->n_buffers + b->n_parts) + b->method.n;
    const char *from;

    if (!last.p)
        return (struct as_str){0};
    from = last.p - (before + 7) / 8 * 8;
    if (b->n_parts)
        last = b->parts[b->n_parts - 1];
    else if (b->n_buffers)
        last = b->buffers[b->n_buffers - 1];
    return (struct as_str){from, (size_t)(last.p + last.n - from)};
}

Body *native_body_new(const struct as_body *b, void *hold)
{
    uint32_t n = b->n_buffers + b->n_parts;
    Body *o = PyObject_NewVar(Body, &native_body_type, n);

    if (!o) {
        as_worker_release_hold(hold);
        return NULL;
    }
    o->hold = hold;
    o->whole = whole_of(b);
    o->method = b->method;
    o->data = b->data;
    o->codec = b->codec;
    o->flags = b->flags;
    o->n_buffers = b->n_buffers;
    o->n_parts = b->n_parts;
    for (uint32_t i = 0; i < n; i++)
        o->slices[i] = i < b->n_buffers ? b->buffers[i] : b->parts[i - b->n_buffers];
    return o;
}

static void body_dealloc(PyObject *o)
{
    as_worker_release_hold(((Body *)(void *)o)->hold);
    PyObject_Free(o);
}

static PyObject *body_data(PyObject *o, void *unused AS_UNUSED)
{
    return view_of((Body *)(void *)o, ((Body *)(void *)o)->data);
}

static PyObject *body_buffers(PyObject *o, void *unused AS_UNUSED)
{
    return views_of((Body *)(void *)o, 0, ((Body *)(void *)o)->n_buffers);
}

static PyObject *body_parts(PyObject *o, void *unused AS_UNUSED)
{
    Body *b = (Body *)(void *)o;

    return views_of(b, b->n_buffers, b->n_parts);
}

static PyObject *body_method(PyObject *o, void *unused AS_UNUSED)
{
    return native_text(((Body *)(void *)o)->method);
}

static PyObject *body_codec(PyObject *o, void *unused AS_UNUSED)
{
    return PyLong_FromLong(((Body *)(void *)o)->codec);
}

static PyObject *body_flags(PyObject *o, void *unused AS_UNUSED)
{
    return PyLong_FromLong(((Body *)(void *)o)->flags);
}

static PyObject *body_whole(PyObject *o, void *unused AS_UNUSED)
{
    return view_of((Body *)(void *)o, ((Body *)(void *)o)->whole);
}

/* pickle.loads(data, buffers=views) */
static PyObject *load_pickle(Body *b)
{
    PyObject *data = b->data.n < COPY_BELOW
                         ? PyBytes_FromStringAndSize(b->data.p, (Py_ssize_t)b->data.n)
                         : view_of(b, b->data);
    PyObject *buffers = data && b->n_buffers ? views_of(b, 0, b->n_buffers) : NULL, *v = NULL;
    PyObject *args[] = {data, buffers};

    if (data && (buffers || !b->n_buffers))
        v = PyObject_Vectorcall(pickle_loads, args, 1, buffers ? buffers_keyword : NULL);
    Py_XDECREF(data);
    Py_XDECREF(buffers);
    return v;
}

PyObject *native_body_load(Body *b)
{
    if (!pickle_loads) {
        PyErr_SetString(PyExc_RuntimeError, "set_body_hooks was not called");
        return NULL;
    }
    if (b->codec == AS_BODY_BYTES)
        return PyBytes_FromStringAndSize(b->data.p, (Py_ssize_t)b->data.n);
    return b->n_parts ? PyObject_CallOneArg(hooks.load, (PyObject *)b) : load_pickle(b);
}

static PyObject *body_load(PyObject *o, PyObject *unused AS_UNUSED)
{
    return native_body_load((Body *)(void *)o);
}

/* Makes sure that a hook has given an exception. Consumes e. */
static PyObject *checked_exception(PyObject *e)
{
    if (e && !PyExceptionInstance_Check(e)) {
        PyErr_SetString(PyExc_TypeError, "a hook of set_body_hooks gave no exception");
        Py_CLEAR(e);
    }
    return e ? e : native_fetch_exception();
}

PyObject *native_body_exception(Body *b)
{
    return checked_exception(PyObject_CallOneArg(hooks.exception, (PyObject *)b));
}

PyObject *native_status_exception(PyObject *out, unsigned status, unsigned flags,
                                  struct as_str text)
{
    PyObject *s = native_text(text);
    PyObject *e = s ? PyObject_CallFunction(hooks.status, "OIIO", out, status, flags, s) : NULL;

    Py_XDECREF(s);
    return checked_exception(e);
}

static PyMethodDef body_methods[] = {
    {"load", body_load, METH_NOARGS, "The value; of a body with EXCEPTION, what its pickle has."},
    {0},
};

static PyGetSetDef body_getset[] = {
    {"data", body_data, NULL, NULL, NULL},   {"buffers", body_buffers, NULL, NULL, NULL},
    {"parts", body_parts, NULL, NULL, NULL}, {"method", body_method, NULL, NULL, NULL},
    {"codec", body_codec, NULL, NULL, NULL}, {"flags", body_flags, NULL, NULL, NULL},
    {"whole", body_whole, NULL, NULL, NULL}, {0},
};

PyTypeObject native_body_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "anyserve._native.Body",
    .tp_basicsize = sizeof(Body),
    .tp_itemsize = sizeof(struct as_str),
    .tp_dealloc = body_dealloc,
    .tp_methods = body_methods,
    .tp_getset = body_getset,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A body that has come: read-only views of the link's bytes, which it keeps.",
};

/* --- bodies that are to be sent --- */

void native_body_release(struct body_sent *s)
{
    for (uint32_t i = 0; i < s->n_views; i++)
        PyBuffer_Release(&s->views[i]);
    PyBuffer_Release(&s->data);
    if (s->views != s->few_views)
        PyMem_Free(s->views);
    if (s->slices != s->few_slices)
        PyMem_Free(s->slices);
}

/* Room for so many slices and views. */
static int make_room(struct body_sent *s, Py_ssize_t n_buffers, Py_ssize_t n_parts)
{
    size_t n = (size_t)(n_buffers + n_parts);

    s->slices = s->few_slices;
    s->views = s->few_views;
    if (n_buffers > (Py_ssize_t)AS_WORKER_BODY_BUFFERS ||
        n_parts > (Py_ssize_t)AS_WORKER_BODY_PARTS) {
        PyErr_Format(PyExc_ValueError,
                     "a body has at most %u buffers and %u parts, not %zd and %zd",
                     AS_WORKER_BODY_BUFFERS, AS_WORKER_BODY_PARTS, n_buffers, n_parts);
        return -1;
    }
    if (n <= NATIVE_FEW_SLICES)
        return 0;
    s->slices = PyMem_Calloc(n, sizeof(*s->slices));
    s->views = PyMem_Calloc(n, sizeof(*s->views));
    if (s->slices && s->views)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static int read_buffers(struct body_sent *s, PyObject *buffers, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_buffer *view = &s->views[i];

        /* any order of an array's elements: the pickle says which it has */
        if (PyObject_GetBuffer(PyList_GET_ITEM(buffers, i), view, PyBUF_ANY_CONTIGUOUS) < 0)
            return -1;
        s->n_views++;
        s->slices[i] = (struct as_str){view->buf, (size_t)view->len};
        s->bytes += (size_t)view->len;
    }
    return 0;
}

static int read_parts(struct body_sent *s, PyObject *parts, Py_ssize_t n, struct as_str *to)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        Out *x = (Out *)(void *)PyList_GET_ITEM(parts, i);

        if (!PyObject_TypeCheck((PyObject *)x, &native_out_type) || !x->body || !x->body->whole.p) {
            PyErr_SetString(PyExc_ValueError, "a part is the answer of a call that has ended well");
            return -1;
        }
        to[i] = x->body->whole;
        s->bytes += to[i].n;
    }
    return 0;
}

/* The length of None or () (0) or of a list; -1 with an exception. */
static Py_ssize_t list_size(PyObject *list)
{
    if (Py_IsNone(list) || (PyTuple_CheckExact(list) && PyTuple_GET_SIZE(list) == 0))
        return 0;
    if (PyList_CheckExact(list))
        return PyList_GET_SIZE(list);
    PyErr_SetString(PyExc_TypeError, "buffers and parts are lists, or None");
    return -1;
}

int native_body_read(struct body_sent *s, PyObject *method, int codec, int flags, PyObject *data,
                     PyObject *buffers, PyObject *parts)
{
    Py_ssize_t n_buffers = list_size(buffers), n_parts = n_buffers < 0 ? -1 : list_size(parts);

    s->n_views = 0;
    if (n_parts < 0 || (method && native_utf8(method, &s->body.method)))
        return -1;
    if (!method)
        s->body.method = (struct as_str){0};
    if (PyObject_GetBuffer(data, &s->data, PyBUF_SIMPLE) < 0)
        return -1;
    s->bytes = (size_t)s->data.len;
    if (make_room(s, n_buffers, n_parts) || read_buffers(s, buffers, n_buffers) ||
        read_parts(s, parts, n_parts, s->slices + n_buffers)) {
        native_body_release(s);
        return -1;
    }
    s->body.codec = (uint8_t)codec;
    s->body.flags = (uint8_t)flags;
    s->body.data = (struct as_str){s->data.buf, (size_t)s->data.len};
    s->body.n_buffers = (uint32_t)n_buffers;
    s->body.n_parts = (uint32_t)n_parts;
    s->body.buffers = s->slices;
    s->body.parts = s->slices + n_buffers;
    return 0;
}
