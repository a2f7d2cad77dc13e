/* What an application sends: a start, then bodies. The start is kept until the first body, so that
 * both leave in one frame, and an error until then can still be answered. What is beyond the room
 * that the dispatcher has granted waits here; the application waits for it.
 */
#include "http.h"

#include <string.h>

#define FIELDS_MAX    1024  /* what a frame takes */
#define DECLARED_FROM 32768 /* bytes of a whole answer that may not leave in one piece */
#define UNAWAITED_MAX 64    /* messages that wait for room while no coroutine waits for them */

static PyObject *key_type, *key_status, *key_headers, *key_body, *key_more;
static PyObject *start_type, *body_type, *no_bytes, *content_length;

int native_answer_init(void)
{
    key_type = PyUnicode_InternFromString("type");
    key_status = PyUnicode_InternFromString("status");
    key_headers = PyUnicode_InternFromString("headers");
    key_body = PyUnicode_InternFromString("body");
    key_more = PyUnicode_InternFromString("more_body");
    start_type = PyUnicode_InternFromString("http.response.start");
    body_type = PyUnicode_InternFromString("http.response.body");
    no_bytes = PyBytes_FromStringAndSize(NULL, 0);
    content_length = PyBytes_FromString("content-length");
    return key_type && key_status && key_headers && key_body && key_more && start_type &&
                   body_type && no_bytes && content_length
               ? 0
               : -1;
}

/* --- the head --- */

/* The name of a field: bytes in lower case. A new reference. */
static PyObject *lower(PyObject *name)
{
    Py_ssize_t n = PyBytes_GET_SIZE(name);
    const char *p = PyBytes_AS_STRING(name);
    PyObject *low;
    char *to;

    for (Py_ssize_t i = 0;; i++) {
        if (i == n)
            return Py_NewRef(name);
        if (p[i] >= 'A' && p[i] <= 'Z')
            break;
    }
    low = PyBytes_FromStringAndSize(p, n);
    to = low ? PyBytes_AS_STRING(low) : NULL;
    for (Py_ssize_t i = 0; low && i < n; i++)
        to[i] = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] | 0x20) : p[i];
    return low;
}

/* Appends name and value of a header to the list. */
static int add_field(PyObject *list, PyObject *header)
{
    PyObject *pair = PySequence_Fast(header, "a header is a pair of name and value"), *name;
    int err = -1;

    if (!pair)
        return -1;
    if (PySequence_Fast_GET_SIZE(pair) != 2 || !PyBytes_Check(PySequence_Fast_GET_ITEM(pair, 0)) ||
        !PyBytes_Check(PySequence_Fast_GET_ITEM(pair, 1))) {
        PyErr_Format(PyExc_TypeError, "a header is a pair of bytes, name and value, not %R",
                     header);
    } else {
        name = lower(PySequence_Fast_GET_ITEM(pair, 0));
        err = name && PyList_Append(list, name) == 0
                  ? PyList_Append(list, PySequence_Fast_GET_ITEM(pair, 1))
                  : -1;
        Py_XDECREF(name);
    }
    Py_DECREF(pair);
    return err;
}

/* Keeps the head until the first body. headers: an iterable of pairs, or NULL. */
int native_http_keep_head(Http *h, unsigned long status, PyObject *headers)
{
    PyObject *list, *it = NULL, *item;

    if (status <= 100 || status > 999) {
        PyErr_Format(PyExc_ValueError, "the status %lu of an answer is not between 101 and 999",
                     status);
        return -1;
    }
    list = PyList_New(0);
    if (list && headers && !(it = PyObject_GetIter(headers)))
        Py_CLEAR(list);
    while (list && it && (item = PyIter_Next(it))) {
        if (add_field(list, item))
            Py_CLEAR(list);
        Py_DECREF(item);
    }
    Py_XDECREF(it);
    if (list && !PyErr_Occurred() && PyList_GET_SIZE(list) > 2 * FIELDS_MAX)
        PyErr_Format(PyExc_ValueError, "an answer has at most %d headers, not %zd", FIELDS_MAX,
                     PyList_GET_SIZE(list) / 2);
    if (!list || PyErr_Occurred()) {
        Py_XDECREF(list);
        return -1;
    }
    Py_XSETREF(h->fields, list);
    h->status = (unsigned)status;
    return 0;
}

/* --- sending --- */

/* The last byte was sent: the library has freed the request. */
void native_http_end(Http *h)
{
    h->q = NULL;
    native_served_ended((Served *)(void *)h);
}

/* The client has gone: the answer is dropped. */
void native_http_drop_cancelled(Http *h)
{
    native_http_drop_unsent(h);
    h->cancelled = true;
    if (h->complete)
        native_served_fail((Served *)(void *)h, AS_STATUS_CANCELLED, AS_STR("cancelled"));
}

void native_http_drop_unsent(Http *h)
{
    Py_CLEAR(h->unsent);
    h->sent_of = 0;
}

/* Sends the head with the first bytes. Returns how many of them, or an AS_E… code. */
int64_t native_http_send_head(Http *h, struct as_str body, bool last)
{
    struct as_meta few[16] = {0}, *fields = few;
    Py_ssize_t n = PyList_GET_SIZE(h->fields) / 2;
    int64_t sent;

    if ((size_t)n > AS_COUNT(few))
        fields = PyMem_Malloc((size_t)n * sizeof(*fields));
    if (!fields)
        return AS_ENOMEM;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *k = PyList_GET_ITEM(h->fields, 2 * i), *v = PyList_GET_ITEM(h->fields, 2 * i + 1);

        fields[i].key = (struct as_str){PyBytes_AS_STRING(k), (size_t)PyBytes_GET_SIZE(k)};
        fields[i].value = (struct as_str){PyBytes_AS_STRING(v), (size_t)PyBytes_GET_SIZE(v)};
    }
    sent = as_worker_http_answer(h->link->w, h->q, h->status, fields, (uint32_t)n, body, last);
    if (fields != few)
        PyMem_Free(fields);
    if (sent >= 0)
        h->started = true;
    return sent;
}

static int raise_error(int64_t err)
{
    if (err == AS_ENOMEM)
        PyErr_NoMemory();
    else
        PyErr_SetString(PyExc_ValueError, err == AS_ETOOBIG
                                              ? "the headers of an answer have at most 512 KiB"
                                              : as_err_text((int)err));
    return -1;
}

/* What was not sent waits. */
static int keep_rest(Http *h, PyObject *body, Py_ssize_t from)
{
    PyObject *bytes = PyBytes_FromObject(body); /* bytes themselves are not copied */

    if (bytes && !h->unsent) {
        h->unsent = PyList_New(0);
        h->sent_of = from;
    }
    if (!bytes || !h->unsent || PyList_Append(h->unsent, bytes) < 0) {
        if (h->unsent && !PyList_GET_SIZE(h->unsent))
            Py_CLEAR(h->unsent);
        Py_XDECREF(bytes);
        return -1;
    }
    Py_DECREF(bytes);
    if (PyList_GET_SIZE(h->unsent) == 1)
        Py_INCREF(h); /* until it is sent: native_http_flush */
    return 0;
}

static int send_body(Http *h, PyObject *body, bool last)
{
    Py_buffer view;
    int64_t n;
    int err = 0;

    if (PyObject_GetBuffer(body, &view, PyBUF_SIMPLE) < 0)
        return -1;
    h->complete = last;
    if (last) /* the library frees q */
        native_served_settle((Served *)(void *)h);
    if (h->cancelled || !h->q) {
        n = AS_ECANCELLED;
    } else if (h->unsent) {
        n = 0;
    } else if (h->started) {
        n = as_worker_http_write(h->link->w, h->q, (struct as_str){view.buf, (size_t)view.len},
                                 last);
    } else {
        n = native_http_send_head(h, (struct as_str){view.buf, (size_t)view.len}, last);
    }
    if (n == AS_ECANCELLED) {
        native_http_drop_cancelled(h);
    } else if (n < 0) {
        h->complete = false;
        err = raise_error(n);
    } else if (n < view.len || (h->unsent && last)) {
        err = keep_rest(h, body, (Py_ssize_t)n);
        if (!err)
            native_http_flush(h);
    } else if (last) {
        native_http_end(h);
    } else {
        native_link_send(h->link, false);
    }
    PyBuffer_Release(&view);
    if (!err && h->complete)
        native_http_wake_receivers(h); /* receive() says that it is over */
    return err;
}

void native_http_flush(Http *h)
{
    if (h->websocket && h->status == 101) {
        native_websocket_flush(h);
        return;
    }
    while (h->unsent) {
        PyObject *b = PyList_GET_ITEM(h->unsent, 0);
        struct as_str rest = {PyBytes_AS_STRING(b) + h->sent_of,
                              (size_t)(PyBytes_GET_SIZE(b) - h->sent_of)};
        bool last = h->complete && PyList_GET_SIZE(h->unsent) == 1;
        int64_t n = AS_ECANCELLED;

        if (last)
            native_served_settle((Served *)(void *)h);
        if (h->q && !h->cancelled)
            n = as_worker_http_write(h->link->w, h->q, rest, last);
        if (n < 0) {
            native_http_drop_cancelled(h);
            break;
        }
        if ((size_t)n < rest.n) {
            h->sent_of += (Py_ssize_t)n;
            native_link_send(h->link, false);
            if (!as_worker_want(h->link->w, h->q, AS_WANT_ROOM))
                return; /* native_http_ready comes here again */
            continue;
        }
        h->sent_of = 0;
        if (PyList_SetSlice(h->unsent, 0, 1, NULL) < 0)
            PyErr_Clear(); /* it allocates nothing */
        if (PyList_GET_SIZE(h->unsent))
            continue;
        native_http_drop_unsent(h);
        if (last)
            native_http_end(h);
        else
            native_link_send(h->link, false);
    }
    native_http_wake_senders(h);
    Py_DECREF(h);
}

/* --- messages --- */

static bool is_text(PyObject *o, PyObject *text)
{
    return o == text || (PyUnicode_Check(o) && PyUnicode_Compare(o, text) == 0);
}

static int refuse(const char *format, PyObject *type)
{
    PyErr_Format(PyExc_RuntimeError, format, type);
    return -1;
}

int native_http_send_start(Http *h, PyObject *message)
{
    PyObject *status = PyDict_GetItemWithError(message, key_status), *headers;
    unsigned long number;

    if (!status) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_KeyError, "status");
        return -1;
    }
    if (!PyLong_Check(status)) {
        PyErr_Format(PyExc_TypeError, "the status of an answer is an int, not %R", status);
        return -1;
    }
    number = PyLong_AsUnsignedLong(status);
    if (PyErr_Occurred())
        return -1;
    headers = PyDict_GetItemWithError(message, key_headers);
    if (!headers && PyErr_Occurred())
        return -1;
    return native_http_keep_head(h, number, headers);
}

int native_http_send_body(Http *h, PyObject *message)
{
    PyObject *body = PyDict_GetItemWithError(message, key_body), *more;
    int is_more = 0;

    more = body || !PyErr_Occurred() ? PyDict_GetItemWithError(message, key_more) : NULL;
    if (PyErr_Occurred())
        return -1;
    if (more && (is_more = PyObject_IsTrue(more)) < 0)
        return -1;
    return send_body(h, body ? body : no_bytes, !is_more);
}

/* Whether another message may wait for room: an application that does not await its sends, or gives
 * up waiting, would fill the memory for a client that does not read. */
static bool may_keep(const Http *h)
{
    Py_ssize_t n = h->unsent ? PyList_GET_SIZE(h->unsent) : 0;

    if (h->websocket && h->status == 101)
        n /= 2; /* opcode and data by turns */
    return n < UNAWAITED_MAX || n - native_http_n_sending(h) < UNAWAITED_MAX;
}

int native_http_send(Http *h, PyObject *message)
{
    PyObject *type;

    if (!may_keep(h)) {
        PyErr_Format(PyExc_RuntimeError,
                     "send is to be awaited: %d messages that nobody awaits wait for the client",
                     UNAWAITED_MAX);
        return -1;
    }
    if (!PyDict_Check(message)) {
        PyErr_Format(PyExc_TypeError, "send takes a dict, not %R", (PyObject *)Py_TYPE(message));
        return -1;
    }
    type = PyDict_GetItemWithError(message, key_type);
    if (!type) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_KeyError, "type");
        return -1;
    }
    if (h->websocket)
        return native_websocket_send(h, message, type);
    if (h->cancelled && !h->complete) {
        PyErr_SetString(PyExc_OSError, "the client does not wait for the answer any more");
        return -1;
    }
    if (h->complete)
        return refuse("Unexpected ASGI message %R sent, after response already completed.", type);
    if (!h->status)
        return is_text(type, start_type)
                   ? native_http_send_start(h, message)
                   : refuse("Expected ASGI message 'http.response.start', but got %R.", type);
    if (!is_text(type, body_type))
        return refuse("Expected ASGI message 'http.response.body', but got %R.", type);
    return native_http_send_body(h, message);
}

/* As starlette's responses do: it leaves in pieces, and its length would not be known. */
static int declare_length(Http *h, PyObject *body)
{
    PyObject *text = PyBytes_FromFormat("%zd", PyBytes_GET_SIZE(body));
    int err =
        text && PyList_Append(h->fields, content_length) == 0 ? PyList_Append(h->fields, text) : -1;

    Py_XDECREF(text);
    return err;
}

int native_http_respond(Http *h, unsigned status, PyObject *headers, PyObject *body)
{
    if (h->status || h->complete) {
        PyErr_SetString(PyExc_RuntimeError, "the answer has begun");
        return -1;
    }
    if (native_http_keep_head(h, status, headers) ||
        (PyBytes_Check(body) && PyBytes_GET_SIZE(body) >= DECLARED_FROM && declare_length(h, body)))
        return -1;
    return send_body(h, body, true);
}
