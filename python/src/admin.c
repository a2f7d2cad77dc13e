/* Requests to the replica itself (health, reconfigure …), and its options. A Python callable gets
 * each request with a capsule, under which it is answered, at once or later.
 */
#include "native.h"

#define CAPSULE "anyserve.ask"

/* Nobody can answer the request any more: it gets an error, so that the server does not wait. */
static void on_capsule_freed(PyObject *capsule)
{
    struct as_worker_ask *ask = PyCapsule_GetPointer(capsule, CAPSULE);
    Link *l = PyCapsule_GetContext(capsule);

    if (!ask)
        PyErr_Clear(); /* it was answered: the capsule has another name */
    else if (l->w)
        as_worker_reply(l->w, ask, AS_STATUS_INTERNAL, AS_STR("the worker gave no answer"));
    Py_XDECREF((PyObject *)l);
}

static PyObject *new_capsule(Link *l, struct as_worker_ask *ask)
{
    PyObject *capsule = PyCapsule_New(ask, CAPSULE, on_capsule_freed);

    if (!capsule) {
        as_worker_reply(l->w, ask, AS_STATUS_RESOURCE_EXHAUSTED, AS_STR("out of memory"));
        return NULL;
    }
    (void)PyCapsule_SetContext(capsule, Py_NewRef((PyObject *)l));
    return capsule;
}

int native_admin_poll(Link *l)
{
    struct as_worker_ask *ask;

    while (l->on_ask && (ask = as_worker_next_ask(l->w))) {
        struct as_str text = as_worker_ask_text(ask);
        int op = (int)as_worker_ask_op(ask);
        PyObject *s = native_text(text);
        PyObject *capsule = new_capsule(l, ask);
        PyObject *r = s && capsule ? PyObject_CallFunction(l->on_ask, "iOO", op, s, capsule) : NULL;

        Py_XDECREF(s);
        Py_XDECREF(capsule);
        Py_XDECREF(r);
        if (r)
            continue;
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return -1; /* the exception ends the worker */
        PyErr_WriteUnraisable(l->on_ask);
    }
    return 0;
}

PyObject *native_link_on_ask(PyObject *self, PyObject *callable)
{
    Link *l = (Link *)(void *)self;

    Py_XSETREF(l->on_ask, Py_NewRef(callable));
    Py_RETURN_NONE;
}

PyObject *native_link_reply(PyObject *self, PyObject *args)
{
    Link *l = (Link *)(void *)self;
    struct as_worker_ask *ask;
    struct as_str text;
    PyObject *capsule;
    unsigned status;
    Py_ssize_t n;

    if (!PyArg_ParseTuple(args, "OIs#", &capsule, &status, &text.p, &n))
        return NULL;
    ask = PyCapsule_GetPointer(capsule, CAPSULE);
    if (!ask)
        return NULL;
    (void)PyCapsule_SetName(capsule, "anyserve.answered"); /* so that it cannot be answered again */
    text.n = (size_t)n;
    as_worker_reply(l->w, ask, status, text);
    Py_RETURN_NONE;
}

/* -1: never; 0: as the server is set. */
static as_ns timeout_of(long long v)
{
    return v < 0 ? AS_NEVER : (as_ns)v;
}

PyObject *native_link_set_traffic(PyObject *self, PyObject *args)
{
    struct as_worker_traffic t = {.size = sizeof(t)};
    int canary;

    if (!PyArg_ParseTuple(args, "iIz", &canary, &t.mirror, &t.fallback))
        return NULL;
    t.is_canary = canary >= 0;
    t.canary = canary >= 0 ? (uint32_t)canary : 0;
    if (as_worker_set_traffic(((Link *)(void *)self)->w, &t)) {
        PyErr_SetString(PyExc_ValueError, "a part or a name is out of range");
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *native_link_set_router(PyObject *self, PyObject *args)
{
    struct as_worker_router r = {.size = sizeof(r)};
    long long wait, ttl, first, last;
    int fallbacks, local;

    if (!PyArg_ParseTuple(args, "zzLIiILIpLIL", &r.policy, &r.session_header, &wait,
                          &r.virtual_nodes, &fallbacks, &r.bound, &ttl, &r.max_sessions, &local,
                          &first, &r.ask_factor, &last))
        return NULL;
    r.max_wait = timeout_of(wait);
    r.fallbacks = fallbacks;
    r.session_ttl = timeout_of(ttl);
    r.prefer_local = local;
    r.ask_first = timeout_of(first);
    r.ask_max = timeout_of(last);
    if (as_worker_set_router(((Link *)(void *)self)->w, &r)) {
        PyErr_SetString(PyExc_ValueError, "a setting of the router is out of range");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Paths and flags of the methods; -1 with an exception. */
static int read_methods(PyObject *list, struct as_worker_service_method *methods, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        int takes_inputs, gives_parts;

        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "spp", &methods[i].path, &takes_inputs,
                              &gives_parts))
            return -1;
        methods[i].takes_inputs = takes_inputs;
        methods[i].gives_parts = gives_parts;
    }
    return 0;
}

PyObject *native_link_set_services(PyObject *self, PyObject *args)
{
    struct as_worker_service_method *methods;
    struct as_str descriptors;
    Py_ssize_t n, len;
    PyObject *list;
    int err;

    if (!PyArg_ParseTuple(args, "O!y#", &PyList_Type, &list, &descriptors.p, &len))
        return NULL;
    descriptors.n = (size_t)len;
    n = PyList_GET_SIZE(list);
    methods = PyMem_Calloc((size_t)n + 1, sizeof(*methods));
    if (!methods)
        return PyErr_NoMemory();
    err = read_methods(list, methods, n);
    if (!err &&
        as_worker_set_services(((Link *)(void *)self)->w, methods, (uint32_t)n, descriptors)) {
        PyErr_SetString(PyExc_ValueError, "the services are malformed or too large");
        err = -1;
    }
    PyMem_Free(methods);
    return err ? NULL : Py_NewRef(Py_None);
}

PyObject *native_link_set_options(PyObject *self, PyObject *args)
{
    struct as_worker_options o = {.size = sizeof(o)};
    long long period, timeout, execution, request, max_queued, retry, target, interval, start,
        delay;
    int idempotent, per_caller, adaptive;

    if (!PyArg_ParseTuple(args, "LLLLIIIiLpILIILLLpIIL", &period, &timeout, &execution, &request,
                          &o.health_failures, &o.dump_signal, &o.slots, &idempotent, &max_queued,
                          &per_caller, &o.backpressure_status, &retry, &o.priority_share,
                          &o.fairness, &target, &interval, &start, &adaptive, &o.hedge_quantile,
                          &o.hedge_budget, &delay))
        return NULL;
    o.codel_target = timeout_of(target);
    o.codel_interval = timeout_of(interval);
    o.slow_start = timeout_of(start);
    o.adaptive_concurrency = adaptive;
    o.hedge_min_delay = timeout_of(delay);
    o.idempotent = idempotent;
    o.max_queued = max_queued;
    o.queued_per_caller = per_caller;
    o.backpressure_retry = timeout_of(retry);
    o.health_period = timeout_of(period);
    o.health_timeout = timeout_of(timeout);
    o.execution_timeout = timeout_of(execution);
    o.request_timeout = timeout_of(request);
    if (as_worker_set_options(((Link *)(void *)self)->w, &o)) {
        PyErr_SetString(PyExc_ValueError, "an option is out of range");
        return NULL;
    }
    Py_RETURN_NONE;
}
