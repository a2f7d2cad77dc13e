/* An Out that reserves a slot first: waiting for it, and using it. */
#include "opaque.h"

void native_out_note_slot(Out *x, const struct as_worker_out_msg *msg)
{
    PyObject *name =
        PyUnicode_DecodeUTF8(msg->meta[0].value.p, (Py_ssize_t)msg->meta[0].value.n, "replace");

    Py_INCREF(x);
    if (name) {
        Py_XSETREF(x->replica, name);
        native_out_wake(x);
    } else {
        PyErr_Clear();
        native_out_set_status(x, AS_STATUS_RESOURCE_EXHAUSTED, 0, AS_STR("out of memory"));
        native_out_settle(x);
    }
    Py_DECREF(x);
}

static Await **awaits(PyObject *o)
{
    return &((Out *)(void *)o)->awaits;
}

static void keep(PyObject *o)
{
    native_out_keep((Out *)(void *)o);
}

static void release(PyObject *o)
{
    native_out_release_if_idle((Out *)(void *)o);
}

static int take_replica(PyObject *o, PyObject **ret_value)
{
    Out *x = (Out *)(void *)o;

    if (!x->replica && native_out_pump(x)) {
        *ret_value = native_out_result(x);
        return *ret_value ? 1 : -1;
    }
    *ret_value = Py_XNewRef(x->replica);
    return x->replica != NULL;
}

PyObject *native_out_reserved(PyObject *o, PyObject *unused AS_UNUSED)
{
    static const struct await_kind replica = {take_replica, awaits, keep, release};

    return native_await_new(o, &replica);
}

/* use(method, codec, data, buffers, parts, deadline, id, model_id, session_id, priority, tenant,
 * window) */
PyObject *native_out_use(PyObject *o, PyObject *const *v, Py_ssize_t n)
{
    Out *x = (Out *)(void *)o;
    struct open_args a = {.target = x->target};
    long window;

    if (n != 12) {
        PyErr_SetString(PyExc_TypeError, "use takes 12 arguments");
        return NULL;
    }
    window = PyLong_AsLong(v[11]);
    if (PyErr_Occurred() || native_out_read_args(v, &a))
        return NULL;
    native_out_pump(x);
    if (x->state == OUT_ENDED) /* its slot was taken back: as its result says */
        Py_RETURN_NONE;
    if (!x->reserve || !x->replica || x->state != OUT_OPEN || x->opening) {
        PyErr_SetString(PyExc_RuntimeError, "the call has no slot that is not used");
        return NULL;
    }
    native_out_unlink(x);
    x->state = OUT_WAITS;
    x->stream = window > 0;
    x->window = (uint32_t)window;
    Py_XSETREF(x->id, Py_NewRef(v[6]));
    Py_INCREF(x);
    if (native_out_start(x, &a)) {
        as_worker_out_free(x->o); /* gives the slot back */
        x->o = NULL;
        x->state = OUT_ENDED;
        Py_DECREF(x);
        return NULL;
    }
    Py_DECREF(x);
    Py_RETURN_NONE;
}
