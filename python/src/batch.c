/* Several requests in one call: their inputs are stacked or listed, its result is split. */
#include "output.h"

#include <string.h>

/* --- the group --- */

static const struct as_msg *msg_of(const struct group *g, Py_ssize_t i)
{
    return as_worker_req_msg(g->at[i].q);
}

/* True: both requests have the same form, so that their inputs can be stacked. Otherwise the sender
 * of the batch has broken the protocol. */
static bool have_same_form(const struct model *m, const struct as_msg *a, const struct as_msg *b)
{
    if (a->n_tensors != b->n_tensors)
        return false;
    for (uint32_t k = 0; k < a->n_tensors; k++) {
        const struct as_tensor *s = &a->tensors[k], *t = &b->tensors[k];

        if (s->dtype != t->dtype || s->ndim != t->ndim || !t->ndim ||
            !as_str_eq(s->name, t->name) || t->shape[0] != b->tensors[0].shape[0])
            return false;
        if (!m->ragged && memcmp(s->shape + 1, t->shape + 1, (t->ndim - 1) * sizeof(int64_t)) != 0)
            return false;
    }
    return true;
}

static PyObject *make_requests(const struct execution *x, struct group *g)
{
    PyObject *list = PyList_New(g->n);

    for (Py_ssize_t i = 0; list && i < g->n; i++) {
        Request *r = native_request_new(x->link, x->m, g->at[i].q);

        if (!r) {
            Py_CLEAR(list);
            break;
        }
        r->items = (uint32_t)g->at[i].items;
        PyList_SET_ITEM(list, i, (PyObject *)r);
    }
    return list;
}

struct group *native_group_new(struct execution *x, bool *ret_failed)
{
    struct as_worker_req *q = x->q;
    Link *l = x->link;
    struct group *g;
    Py_ssize_t n = 0;
    bool ok = true;

    for (; q; q = as_worker_next_member(l->w, q))
        n++;
    q = x->q;
    g = PyMem_Calloc(1, sizeof(*g) + (size_t)n * sizeof(struct member));
    if (!g) {
        PyErr_NoMemory();
        return NULL; /* the process ends, as it does when a Call cannot be made */
    }
    x->group = g;
    g->n = n;
    l->calls += n - 1;
    for (Py_ssize_t i = 0; i < n; i++, q = as_worker_next_member(l->w, q)) {
        const struct as_msg *msg = as_worker_req_msg(q);

        g->at[i].q = q;
        g->at[i].items = msg->n_tensors && msg->tensors[0].ndim ? msg->tensors[0].shape[0] : 1;
        ok = ok && have_same_form(x->m, msg_of(g, 0), msg);
    }
    if (ok && x->m->takes_request)
        g->requests = make_requests(x, g);
    if (ok && (g->requests || !x->m->takes_request))
        return g;
    PyErr_Clear();
    native_group_fail(x, AS_STATUS_INTERNAL,
                      ok ? AS_STR("no memory for the requests of a batch")
                         : AS_STR("the requests of a batch do not fit each other"));
    native_group_free(g);
    x->group = NULL;
    *ret_failed = true;
    return NULL;
}

void native_group_free(struct group *g)
{
    if (!g)
        return;
    Py_XDECREF(g->requests);
    for (Py_ssize_t i = 0; i < g->n; i++)
        Py_XDECREF(g->at[i].hold);
    PyMem_Free(g);
}

void native_group_fail(struct execution *x, uint32_t code, struct as_str text)
{
    struct group *g = x->group;

    for (Py_ssize_t i = 0; i < g->n; i++) {
        struct as_worker_req *q = g->at[i].q;

        g->at[i].q = NULL;
        if (q)
            native_fail(x->link, q, code, text);
    }
}

/* --- arguments --- */

static PyObject *list_arrays(struct group *g, uint32_t k)
{
    PyObject *list = PyList_New(g->n);

    for (Py_ssize_t i = 0; list && i < g->n; i++) {
        PyObject *a = native_array(g->at[i].q, &msg_of(g, i)->tensors[k], &g->at[i].hold);

        if (a)
            PyList_SET_ITEM(list, i, a);
        else
            Py_CLEAR(list);
    }
    return list;
}

PyObject *native_group_array(struct model *m, struct group *g, uint32_t k)
{
    const struct as_tensor **t;
    int64_t rows = 0;
    PyObject *a;

    if (m->as_list)
        return list_arrays(g, k);
    if (g->n == 1)
        return native_array(g->at[0].q, &msg_of(g, 0)->tensors[k], &g->at[0].hold);
    t = PyMem_Malloc((size_t)g->n * sizeof(const struct as_tensor *));
    if (!t)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < g->n; i++) {
        t[i] = &msg_of(g, i)->tensors[k];
        rows += g->at[i].items;
    }
    a = native_stack(t, g->n, rows);
    PyMem_Free(t);
    return a;
}

/* --- results --- */

/* Fails one request of the batch; the others are not affected. Consumes exc. */
static void fail_member(struct execution *x, struct member *at, PyObject *exc)
{
    struct as_worker_req *q = at->q;
    struct handler_error v;

    native_handler_error(x->link, x->m, q, exc, &v);
    at->q = NULL;
    native_fail(x->link, q, v.code, v.text);
    Py_XDECREF(v.text_owner);
    Py_DECREF(exc);
}

/* Answers with a list that has an answer, or an exception, for each request. */
static int answer_each(struct execution *x, PyObject *list)
{
    struct group *g = x->group;

    if (PyList_GET_SIZE(list) != g->n)
        return output_refuse("model '%U' returned a list of %zd for a call with %zd request%s; a "
                             "list has one answer for each",
                             x->m->name, PyList_GET_SIZE(list), g->n, g->n == 1 ? "" : "s");
    for (Py_ssize_t i = 0; i < g->n; i++) {
        /* converting an answer may run code that changes the list */
        PyObject *v =
            i < PyList_GET_SIZE(list) ? Py_NewRef(PyList_GET_ITEM(list, i)) : Py_NewRef(Py_None);

        if (PyExceptionInstance_Check(v)) {
            fail_member(x, &g->at[i], v);
            continue;
        }
        if (native_answer_rows(x->link, x->m, g->at[i].q, v, g->at[i].items) < 0)
            fail_member(x, &g->at[i], native_fetch_exception());
        g->at[i].q = NULL;
        Py_DECREF(v);
    }
    return 0;
}

/* Takes the rows of one request out of a tensor. *at: where they begin; it advances to the next
 * request. */
static void slice_rows(const struct as_tensor *all, int64_t rows, struct as_tensor *t,
                       int64_t *shape, const uint8_t **at)
{
    *t = *all;
    memcpy(shape, all->shape, all->ndim * sizeof(shape[0]));
    shape[0] = rows;
    t->shape = shape;
    t->data = *at;
    if (all->dtype == AS_DT_BYTES) {
        for (uint64_t n = native_count(t); n > 0; n--) {
            uint32_t len;

            memcpy(&len, *at, 4); /* output.c has packed the elements */
            *at += 4 + len;
        }
    } else {
        *at += all->shape[0] ? all->nbytes / (uint64_t)all->shape[0] * (uint64_t)rows : 0;
    }
    t->nbytes = (size_t)(*at - t->data);
}

static int64_t rows_of(const struct group *g)
{
    int64_t rows = 0;

    for (Py_ssize_t i = 0; i < g->n; i++)
        rows += g->at[i].items;
    return rows;
}

/* Reused for each request: a tensor, its shape, and where its rows begin. */
struct row_slices {
    struct as_tensor *t;
    int64_t (*shape)[AS_MAX_DIMS];
    const uint8_t **at;
};

static bool row_slices_init(struct row_slices *c, const struct output *o)
{
    size_t n = o->n + 1; /* + 1: without outputs NULL would mean out of memory */

    c->t = PyMem_Malloc(n * sizeof(*c->t));
    c->shape = PyMem_Malloc(n * sizeof(*c->shape));
    c->at = PyMem_Malloc(n * sizeof(*c->at));
    for (uint32_t k = 0; c->at && k < o->n; k++)
        c->at[k] = o->t[k].data;
    return c->t && c->shape && c->at;
}

static void row_slices_fini(struct row_slices *c)
{
    PyMem_Free(c->t);
    PyMem_Free(c->shape);
    PyMem_Free(c->at);
}

static void answer_rows(struct execution *x, struct output *o, struct row_slices *c)
{
    struct group *g = x->group;

    for (Py_ssize_t i = 0; i < g->n; i++) {
        struct as_msg msg = output_message(o, g->at[i].q);

        msg.tensors = c->t;
        for (uint32_t k = 0; k < o->n; k++)
            slice_rows(&o->t[k], g->at[i].items, &c->t[k], c->shape[k], &c->at[k]);
        if (output_send(x->link, x->m, g->at[i].q, &msg) < 0)
            fail_member(x, &g->at[i], native_fetch_exception());
        g->at[i].q = NULL;
    }
}

/* Answers with arrays that have a row for each item, in the order of the inputs. */
static int answer_stacked(struct execution *x, PyObject *result)
{
    struct output o;
    struct row_slices c = {0};
    int err = output_collect(&o, x->m, result);

    if (!err)
        err = output_check_rows(&o, rows_of(x->group), x->group->n);
    if (!err && !row_slices_init(&c, &o)) {
        PyErr_NoMemory();
        err = -1;
    }
    if (!err)
        answer_rows(x, &o, &c);
    row_slices_fini(&c);
    output_fini(&o);
    return err;
}

int native_group_answer(struct execution *x, PyObject *result)
{
    return PyList_Check(result) ? answer_each(x, result) : answer_stacked(x, result);
}
