/* The awaitables of receive() and send(). */
#include "http.h"

static PyObject *done; /* the awaitable of a send that had room: it has no state */

static Await **waits(PyObject *o)
{
    return &((Http *)(void *)o)->waits;
}

static int take_message(PyObject *o, PyObject **ret_value)
{
    return native_http_receive((Http *)(void *)o, ret_value);
}

/* o: NULL: there was room */
static int take_sent(PyObject *o, PyObject **ret_value)
{
    if (o && ((Http *)(void *)o)->unsent)
        return 0;
    *ret_value = Py_NewRef(Py_None);
    return 1;
}

static const struct await_kind receives = {.take = take_message, .list = waits};
static const struct await_kind sends = {.take = take_sent, .list = waits};

int native_wait_init(void)
{
    done = native_await_new(NULL, &sends);
    return done ? 0 : -1;
}

PyObject *native_http_done(void)
{
    return Py_NewRef(done);
}

PyObject *native_http_wait_message(Http *h)
{
    return native_await_new((PyObject *)h, &receives);
}

PyObject *native_http_wait_sent(Http *h)
{
    return native_await_new((PyObject *)h, &sends);
}

void native_http_wake_receivers(Http *h)
{
    native_awaits_wake(&h->waits, &receives, h->link);
}

void native_http_wake_senders(Http *h)
{
    native_awaits_wake(&h->waits, &sends, h->link);
}

Py_ssize_t native_http_n_sending(const Http *h)
{
    Py_ssize_t n = 0;

    for (const Await *a = h->waits; a; a = a->next)
        n += a->kind == &sends;
    return n;
}
