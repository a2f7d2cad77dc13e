/* What the client gets for an exception of the user's code; what a cancellation is. */
#include "native.h"

static PyObject *cancelled_substitute; /* used while asyncio is not loaded */

/* Asks the SDK for the status and the text for the client; the SDK also logs. */
static void ask_sdk(Link *l, struct model *m, PyObject *exc, struct handler_error *v)
{
    Py_ssize_t n = 0;

    v->text_owner = PyObject_CallFunctionObjArgs(l->on_error, m->name, m->where, exc, NULL);
    if (v->text_owner && PyArg_ParseTuple(v->text_owner, "Is#", &v->code, &v->text.p, &n) &&
        v->code >= 1 && v->code <= 16) {
        v->text.n = (size_t)n;
        return;
    }
    PyErr_WriteUnraisable(l->on_error);
    v->code = AS_STATUS_INTERNAL;
    v->text = AS_STR("the handler failed, and the SDK could not report why");
}

/* asyncio.CancelledError, or NULL. A worker without an event loop does not import asyncio, which
 * would take a fifth of its start. */
static PyObject *asyncio_cancelled(void)
{
    return native_loaded("asyncio.exceptions", "CancelledError");
}

void native_set_cancelled(void)
{
    PyObject *e = asyncio_cancelled();

    PyErr_SetNone(e ? e : cancelled_substitute);
    Py_XDECREF(e);
}

bool native_is_cancelled(PyObject *exc)
{
    PyObject *e = asyncio_cancelled();
    bool is = PyErr_GivenExceptionMatches(exc, cancelled_substitute) ||
              (e && PyErr_GivenExceptionMatches(exc, e));

    Py_XDECREF(e);
    return is;
}

bool native_raised_cancelled(void)
{
    PyObject *exc = native_fetch_exception();
    bool is = native_is_cancelled(exc);

    if (is)
        Py_DECREF(exc);
    else
        native_restore_exception(exc);
    return is;
}

/* The request was cancelled, so a call that the handler had made of another deployment was, too,
 * and it raises what that call raised: no fault of the handler. */
static bool was_stopped(const struct as_worker_req *q, PyObject *exc)
{
    PyObject *e;
    bool is;

    if (!q || !as_worker_req_cancelled(q))
        return false;
    e = native_loaded("anyserve.serve.exceptions", "TaskCancelledError");
    is = e && PyErr_GivenExceptionMatches(exc, e);
    Py_XDECREF(e);
    return is;
}

/* SystemExit and KeyboardInterrupt are treated like other exceptions of the handler: signals raise
 * nothing in it, and one request must not end a worker that serves others. */
void native_handler_error(Link *l, struct model *m, const struct as_worker_req *q, PyObject *exc,
                          struct handler_error *v)
{
    *v = (struct handler_error){.is_cancelled = native_is_cancelled(exc)};
    if (v->is_cancelled || was_stopped(q, exc)) {
        v->code = AS_STATUS_CANCELLED;
        v->text = AS_STR("the handler was cancelled");
    } else {
        ask_sdk(l, m, exc, v);
    }
}

int native_handler_error_init(void)
{
    cancelled_substitute = PyErr_NewExceptionWithDoc(
        "anyserve._native.Cancelled", "What asyncio.CancelledError is where asyncio is not loaded.",
        PyExc_BaseException, NULL);
    return cancelled_substitute ? 0 : -1;
}
