/* Opening a call: at once, or when the answers that are its arguments are here. */
#include "opaque.h"

#define OPEN_META 4

/* The time that is left, for as_worker_open: 0 means none is set. */
static as_ns timeout_of(double deadline)
{
    double left;

    if (deadline <= 0)
        return 0;
    left = deadline - (double)native_sync_clock() / 1e9;
    return left <= 1e-9 ? 1 : left > 1e9 ? 0 : (as_ns)(left * 1e9);
}

static uint32_t add_meta(struct as_meta *meta, uint32_t n, struct as_str key, PyObject *value)
{
    if (!value || !PyUnicode_GET_LENGTH(value) || native_utf8(value, &meta[n].value))
        return n;
    meta[n].key = key;
    return n + 1;
}

static uint32_t metadata_of(const struct open_args *a, struct as_meta meta[OPEN_META])
{
    static const char digits[] = "123";
    uint32_t n = add_meta(meta, 0, AS_STR("serve_multiplexed_model_id"), a->model_id);

    n = add_meta(meta, n, AS_STR("serve_session_id"), a->session_id);
    n = add_meta(meta, n, AS_STR("anyserve-tenant"), a->tenant);
    if (a->priority >= 1 && a->priority <= 3)
        meta[n++] = (struct as_meta){AS_STR("anyserve-priority"), {digits + a->priority - 1, 1}};
    PyErr_Clear(); /* surrogates: it is no id that anyone gave */
    return n;
}

/* Calls as_worker_open without the lock of the interpreter. Meanwhile the parent cannot be
 * answered, the link cannot be freed, and the call may be cancelled. */
static int open_unlocked(Out *x, const struct as_worker_open *open, Served *parent)
{
    struct as_worker_out *o = x->o;
    bool uses = o != NULL;
    int err;

    x->opening = true;
    x->link->n_blocked++;
    if (parent)
        parent->n_using++;
    Py_BEGIN_ALLOW_THREADS;
    err = uses ? as_worker_use_slot(o, open) : as_worker_open(x->link->w, open, &o);
    Py_END_ALLOW_THREADS;
    if (parent)
        parent->n_using--;
    x->link->n_blocked--;
    x->opening = false;
    x->o = o;
    if (o && x->state == OUT_ENDED) {
        as_worker_out_free(o);
        x->o = NULL;
    }
    if (x->o && x->cancelled)
        as_worker_out_cancel(x->o);
    return err;
}

static void fail_open(Out *x, int err)
{
    struct as_str why = err == AS_ETOOBIG ? AS_STR("the request's id and metadata are too large")
                                          : as_str_of(as_err_text(err));

    native_out_set_status(
        x, err == AS_ENOMEM ? AS_STATUS_RESOURCE_EXHAUSTED : AS_STATUS_INVALID_ARGUMENT, 0, why);
}

/* The request in whose context the call is made. NULL: there is none, or it has ended. */
static struct as_worker_req *request_of(const Link *l, PyObject *parent)
{
    Served *in = native_served_of(parent);
    Request *r = (Request *)(void *)parent;

    if (in)
        return in->link == l ? in->q : NULL;
    return parent && r->link == l ? r->q : NULL;
}

static bool is_cancelled(const Link *l, PyObject *parent)
{
    struct as_worker_req *q = request_of(l, parent);

    return (native_served_of(parent) && native_served_of(parent)->cancelled) ||
           (q && as_worker_req_cancelled(q));
}

/* x becomes OPEN, or gets a status: then the caller must settle it. large: other threads may run
 * meanwhile. */
static void open_body(Out *x, const struct open_args *a, const struct body_sent *body, bool large)
{
    struct as_worker_req *parent = request_of(x->link, a->parent);
    struct as_meta meta[OPEN_META];
    struct as_worker_open open = {.size = sizeof(open),
                                  .target = a->target,
                                  .timeout = timeout_of(a->deadline),
                                  .stream = x->stream,
                                  .every = x->every,
                                  .reserve = x->reserve && !x->o,
                                  .parent = parent,
                                  .body = &body->body,
                                  .meta = meta,
                                  .n_meta = metadata_of(a, meta),
                                  .window = x->window,
                                  .data = x};
    int err;

    if (native_utf8(x->id, &open.id)) {
        PyErr_Clear();
        open.id = (struct as_str){0};
    }
    x->state = OUT_OPEN;
    x->reserve = open.reserve;
    native_out_link(x);
    if (large && (!parent || native_served_of(a->parent)))
        err = open_unlocked(x, &open, parent ? native_served_of(a->parent) : NULL);
    else
        err = x->o ? as_worker_use_slot(x->o, &open) : as_worker_open(x->link->w, &open, &x->o);
    if (x->state == OUT_ENDED)
        return;
    if (err)
        fail_open(x, err);
    else if (x->link->w)
        native_link_send(x->link, false);
}

/* Its arguments are here. Runs no Python code. */
void native_out_open_now(Out *x)
{
    struct open_args *a = x->args;
    struct body_sent body;

    native_out_unlink(x);
    if (is_cancelled(x->link, a->parent)) {
        native_out_set_status(x, AS_STATUS_CANCELLED, 0, AS_STR("the caller was cancelled"));
    } else if (!x->link->w) {
        native_out_set_status(x, AS_STATUS_UNAVAILABLE, 0, AS_STR("the link is closed"));
    } else if (native_body_read(&body, a->method, a->codec, 0, a->data, a->buffers, a->parts)) {
        PyErr_Clear();
        native_out_set_status(x, AS_STATUS_RESOURCE_EXHAUSTED, 0, AS_STR("out of memory"));
    } else {
        open_body(x, a, &body, false);
        native_body_release(&body);
        native_out_free_args(x);
    }
}

/* How many parts have not ended. Sets x->failed if one has failed. */
static Py_ssize_t count_missing(Out *x, PyObject *parts)
{
    Py_ssize_t missing = 0;

    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); i++) {
        Out *dep = (Out *)(void *)PyList_GET_ITEM(parts, i);

        if (dep->state != OUT_ENDED)
            missing++;
        else if (native_out_has_failed(dep) && !x->failed)
            x->failed = (Out *)Py_NewRef((PyObject *)dep);
    }
    return missing;
}

/* Adds x to those that wait for its parts. Returns how many have not ended; -1 with an exception.
 * Sets x->failed if one has failed. */
static Py_ssize_t wait_for_parts(Out *x, PyObject *parts)
{
    if (Py_IsNone(parts))
        return 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts); i++) {
        Out *dep = (Out *)(void *)PyList_GET_ITEM(parts, i);

        if (!PyObject_TypeCheck((PyObject *)dep, &native_out_type) || dep->stream) {
            PyErr_SetString(PyExc_TypeError, "parts are calls with one answer");
            return -1;
        }
        if (native_out_pump(dep))
            continue;
        if (!dep->dependents)
            dep->dependents = PyList_New(0);
        if (!dep->dependents || PyList_Append(dep->dependents, (PyObject *)x) < 0)
            return -1;
        native_out_keep(dep);
    }
    /* at last: reading one part may run Python code, in which others end */
    return count_missing(x, parts);
}

/* Keeps what is needed to open x later. */
static int keep_args(Out *x, const struct open_args *a, Py_ssize_t missing)
{
    struct open_args *kept = PyMem_Malloc(sizeof(*kept));

    if (!kept) {
        PyErr_NoMemory();
        return -1;
    }
    *kept = *a;
    kept->n_missing = missing;
    Py_XINCREF(kept->method);
    Py_INCREF(kept->data);
    Py_INCREF(kept->buffers);
    Py_INCREF(kept->parts);
    Py_XINCREF(kept->model_id);
    Py_XINCREF(kept->session_id);
    Py_XINCREF(kept->tenant);
    Py_XINCREF(kept->parent);
    x->args = kept;
    native_out_link(x);
    return 0;
}

static Out *out_new(Link *l, PyObject *id)
{
    Out *x = PyObject_GC_New(Out, &native_out_type);

    if (!x)
        return NULL;
    memset((char *)x + sizeof(PyObject), 0, sizeof(*x) - sizeof(PyObject));
    x->link = (Link *)Py_NewRef((PyObject *)l);
    x->id = Py_NewRef(id);
    PyObject_GC_Track(x);
    return x;
}

int native_out_start(Out *x, const struct open_args *a)
{
    Py_ssize_t missing = wait_for_parts(x, a->parts);
    struct body_sent body;

    if (missing < 0) {
        x->state = OUT_ENDED; /* those that it waits for may refer to it */
        return -1;
    }
    if (x->state == OUT_ENDED) /* it was cancelled meanwhile */
        return 0;
    if (!x->failed && missing)
        return keep_args(x, a, missing);
    if (!x->failed) {
        if (native_body_read(&body, a->method, a->codec, 0, a->data, a->buffers, a->parts))
            return -1;
        open_body(x, a, &body, body.bytes >= NATIVE_LARGE);
        native_body_release(&body);
    }
    if (x->state == OUT_ENDED)
        return 0;
    if (x->failed || x->status)
        native_out_settle(x);
    else if (x->cancelled)
        native_out_news(x); /* while it was opened */
    return 0;
}

int native_out_read_args(PyObject *const *v, struct open_args *a)
{
    a->codec = (int)PyLong_AsLong(v[1]);
    a->priority = PyErr_Occurred() ? 0 : (int)PyLong_AsLong(v[9]);
    a->deadline = PyErr_Occurred() || Py_IsNone(v[5]) ? 0 : PyFloat_AsDouble(v[5]);
    if (PyErr_Occurred())
        return -1;
    if (!PyUnicode_Check(v[6]) || !PyUnicode_Check(v[7]) || !PyUnicode_Check(v[8]) ||
        !PyUnicode_Check(v[10]) || (!Py_IsNone(v[4]) && !PyList_CheckExact(v[4]))) {
        PyErr_SetString(PyExc_TypeError, "ids are texts, and parts a list");
        return -1;
    }
    a->method = Py_IsNone(v[0]) ? NULL : v[0];
    a->data = v[2];
    a->buffers = v[3];
    a->parts = v[4];
    a->model_id = v[7];
    a->session_id = v[8];
    a->tenant = v[10];
    return 0;
}

/* open(method, codec, data, buffers, parts, deadline, id, model_id, session_id, priority, tenant,
 * target, parent, window, every, reserve) */
PyObject *native_link_open(PyObject *self, PyObject *const *v, Py_ssize_t n)
{
    Link *l = (Link *)(void *)self;
    struct open_args a = {0};
    long window;
    Out *x;

    if (n != 16) {
        PyErr_SetString(PyExc_TypeError, "open takes 16 arguments");
        return NULL;
    }
    a.target = (uint32_t)PyLong_AsUnsignedLong(v[11]);
    window = PyErr_Occurred() ? 0 : PyLong_AsLong(v[13]);
    if (PyErr_Occurred() || native_out_read_args(v, &a))
        return NULL;
    if (l->forked) {
        PyErr_SetString(PyExc_RuntimeError, "the link belongs to the process that was forked");
        return NULL;
    }
    a.parent = native_served_of(v[12]) || Py_IS_TYPE(v[12], &native_request_type) ? v[12] : NULL;
    x = out_new(l, v[6]);
    if (!x)
        return NULL;
    x->stream = window > 0;
    x->every = v[14] == Py_True;
    x->reserve = v[15] == Py_True;
    x->target = a.target;
    x->window = (uint32_t)window;
    if (native_out_start(x, &a))
        Py_CLEAR(x);
    return (PyObject *)x;
}
