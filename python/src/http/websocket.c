/* Websockets, as ASGI has them: a Http whose scope has the type "websocket".
 *
 *   accept ──► send … close             every message is a frame of the link; what is beyond the
 * room or a denial: close, which is 403,   waits in `unsent`, opcode and data by turns or
 * http.response.start and bodies
 */
#include "http.h"

#include <string.h>

#define CODE_NORMAL   1000
#define CODE_NONE     1005
#define CODE_ABNORMAL 1006
#define CODE_MAX      4999
#define CLOSE_SHIFT   8 /* in `unsent` a close is opcode | code << CLOSE_SHIFT */

enum text {
    TYPE,
    WEBSOCKET,
    SUBPROTOCOLS,
    EXTENSIONS,
    METHOD,
    SCHEME,
    WS,
    WSS,
    TEXT,
    BYTES,
    CODE,
    REASON,
    HEADERS,
    SUBPROTOCOL,
    CONNECT,
    RECEIVE,
    DISCONNECT,
    ACCEPT,
    SEND,
    CLOSE,
    DENIAL_START,
    DENIAL_BODY,
    N_TEXTS
};
static const char *const text_of[N_TEXTS] = {"type",
                                             "websocket",
                                             "subprotocols",
                                             "extensions",
                                             "method",
                                             "scheme",
                                             "ws",
                                             "wss",
                                             "text",
                                             "bytes",
                                             "code",
                                             "reason",
                                             "headers",
                                             "subprotocol",
                                             "websocket.connect",
                                             "websocket.receive",
                                             "websocket.disconnect",
                                             "websocket.accept",
                                             "websocket.send",
                                             "websocket.close",
                                             "websocket.http.response.start",
                                             "websocket.http.response.body"};
static PyObject *texts[N_TEXTS];
static PyObject *no_headers, *no_body, *protocol_field;

int native_websocket_init(void)
{
    for (int i = 0; i < N_TEXTS; i++) {
        if (!(texts[i] = PyUnicode_InternFromString(text_of[i])))
            return -1;
    }
    no_headers = PyTuple_New(0);
    no_body = PyBytes_FromStringAndSize(NULL, 0);
    protocol_field = PyBytes_FromString("sec-websocket-protocol");
    return no_headers && no_body && protocol_field ? 0 : -1;
}

/* --- the scope --- */

static int append_protocols(PyObject *list, struct as_str s)
{
    const char *p = s.p, *end = s.p + s.n;

    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *to = comma ? comma : end;
        const char *next = comma ? comma + 1 : end;
        PyObject *name;
        int err;

        while (p < to && (*p == ' ' || *p == '\t'))
            p++;
        while (to > p && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        name = native_text((struct as_str){p, (size_t)(to - p)});
        err = name ? PyList_Append(list, name) : -1;
        Py_XDECREF(name);
        if (err)
            return -1;
        p = next;
    }
    return 0;
}

/* Consumes v. */
static int put(PyObject *d, enum text key, PyObject *v)
{
    int err = v ? PyDict_SetItem(d, texts[key], v) : -1;

    Py_XDECREF(v);
    return err;
}

int native_websocket_scope(PyObject *scope, const struct as_worker_http *head)
{
    bool secure = head->scheme.n == 5 && !memcmp(head->scheme.p, "https", 5);
    PyObject *list = PyList_New(0);
    int err = list ? 0 : -1;

    for (uint32_t i = 0; !err && i < head->n_fields; i++) {
        const struct as_meta *f = &head->fields[i];

        if (f->key.n == 22 && !memcmp(f->key.p, "sec-websocket-protocol", 22))
            err = append_protocols(list, f->value);
    }
    if (err || put(scope, SUBPROTOCOLS, list) < 0) {
        if (err)
            Py_XDECREF(list);
        return -1;
    }
    if (put(scope, EXTENSIONS, Py_BuildValue("{s{}}", "websocket.http.response")) ||
        PyDict_SetItem(scope, texts[TYPE], texts[WEBSOCKET]) ||
        PyDict_SetItem(scope, texts[SCHEME], texts[secure ? WSS : WS]))
        return -1;
    return PyDict_DelItem(scope, texts[METHOD]);
}

/* --- messages from the client --- */

static PyObject *message_new(enum text type)
{
    PyObject *d = PyDict_New();

    if (d && PyDict_SetItem(d, texts[TYPE], texts[type]) < 0)
        Py_CLEAR(d);
    return d;
}

static int given(PyObject *d, PyObject **ret_message)
{
    *ret_message = d;
    return d ? 1 : -1;
}

/* The websocket is over; every further receive() says so again. */
static int disconnected(Http *h, unsigned code, PyObject **ret_message)
{
    PyObject *d = message_new(DISCONNECT);

    if (!h->close_code)
        h->close_code = code;
    if (d && (put(d, CODE, PyLong_FromUnsignedLong(h->close_code)) ||
              (h->close_reason && PyDict_SetItem(d, texts[REASON], h->close_reason) < 0)))
        Py_CLEAR(d);
    return given(d, ret_message);
}

static int received(Http *h, const struct as_worker_ws_message *m, PyObject **ret_message)
{
    const char *p = m->bytes.p ? m->bytes.p : "";
    Py_ssize_t n = (Py_ssize_t)m->bytes.n;
    bool text = m->opcode == AS_WORKER_WS_TEXT;
    PyObject *d;

    if (m->opcode == AS_WORKER_WS_CLOSE) {
        h->disconnected = true;
        h->close_reason = PyUnicode_DecodeUTF8(p, n, "replace");
        if (!h->close_reason)
            return -1;
        return disconnected(h, m->code ? m->code : CODE_NONE, ret_message);
    }
    d = message_new(RECEIVE);
    if (d && put(d, text ? TEXT : BYTES,
                 text ? PyUnicode_DecodeUTF8(p, n, "replace") : PyBytes_FromStringAndSize(p, n)))
        Py_CLEAR(d);
    return given(d, ret_message);
}

static int next_message(Http *h, PyObject **ret_message)
{
    struct as_worker_ws_message m;
    void *hold;
    int err;

    do
        err = as_worker_ws_read(h->link->w, h->q, &m, &hold);
    while (err == AS_EAGAIN && as_worker_want(h->link->w, h->q, AS_WANT_INPUT));
    if (err == AS_EAGAIN)
        return 0;
    if (err) {
        h->disconnected = true;
        return disconnected(h, CODE_ABNORMAL, ret_message);
    }
    err = received(h, &m, ret_message);
    as_worker_release_hold(hold);
    native_link_send(h->link, false); /* what it may send again */
    return err;
}

int native_websocket_receive(Http *h, PyObject **ret_message)
{
    if (!h->connected) {
        h->connected = true;
        return given(message_new(CONNECT), ret_message);
    }
    if (h->close_code || h->complete || h->cancelled || !h->q || h->link->forked)
        return disconnected(h, CODE_ABNORMAL, ret_message);
    return h->status == 101 ? next_message(h, ret_message) : 0;
}

/* --- messages to the client --- */

static int raise_gone(void)
{
    PyErr_SetString(PyExc_ConnectionError, "the client of the websocket has gone");
    return -1;
}

/* Sends data, of a str or of bytes, or a reason. 0, or an AS_E… code; 1: with an exception. */
static int send_now(Http *h, unsigned long opcode, PyObject *data)
{
    struct as_worker_ws_message m = {
        .opcode = (enum as_worker_ws_opcode)(opcode & ((1u << CLOSE_SHIFT) - 1)),
        .code = (uint32_t)(opcode >> CLOSE_SHIFT)};
    bool close = m.opcode == AS_WORKER_WS_CLOSE;
    Py_buffer view = {0};
    Py_ssize_t n;
    int err;

    if (!h->q || h->cancelled)
        return AS_ECANCELLED;
    if (PyUnicode_Check(data)) {
        m.bytes.p = PyUnicode_AsUTF8AndSize(data, &n);
        m.bytes.n = (size_t)n;
        if (!m.bytes.p)
            return 1;
    } else {
        if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
            return 1;
        m.bytes = (struct as_str){view.buf, (size_t)view.len};
    }
    if (close) /* the library frees q */
        native_served_settle((Served *)(void *)h);
    err = as_worker_ws_send(h->link->w, h->q, &m);
    if (view.obj)
        PyBuffer_Release(&view);
    if (!err && close)
        native_http_end(h);
    else if (!err)
        native_link_send(h->link, false);
    return err;
}

/* The data of a message that is kept: of a buffer that the application may change, a copy. NULL
 * with the exception that send_now would have raised: later there is nobody who gets it. */
static PyObject *own_data(PyObject *data)
{
    Py_buffer view;
    Py_ssize_t n;

    if (PyUnicode_Check(data))
        return PyUnicode_AsUTF8AndSize(data, &n) ? Py_NewRef(data) : NULL;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    PyBuffer_Release(&view);
    return PyBytes_FromObject(data); /* bytes themselves are not copied */
}

/* Keeps a message until there is room. */
static int keep(Http *h, unsigned long opcode, PyObject *data)
{
    PyObject *own = own_data(data);
    PyObject *number = own ? PyLong_FromUnsignedLong(opcode) : NULL;
    bool first = !h->unsent;
    int err = -1;

    if (number && first)
        h->unsent = PyList_New(0);
    if (number && h->unsent && PyList_Append(h->unsent, number) == 0) {
        err = PyList_Append(h->unsent, own);
        if (err)
            (void)PyList_SetSlice(h->unsent, PyList_GET_SIZE(h->unsent) - 1,
                                  PyList_GET_SIZE(h->unsent), NULL);
    }
    Py_XDECREF(number);
    Py_XDECREF(own);
    if (err && first)
        Py_CLEAR(h->unsent);
    if (!err && first) {
        Py_INCREF(h); /* until it is sent: native_websocket_flush */
        native_websocket_flush(h);
    }
    return err;
}

void native_websocket_flush(Http *h)
{
    while (h->unsent) {
        unsigned long opcode = PyLong_AsUnsignedLong(PyList_GET_ITEM(h->unsent, 0));
        int err = send_now(h, opcode, PyList_GET_ITEM(h->unsent, 1));

        if (err == AS_EAGAIN) {
            if (!as_worker_want(h->link->w, h->q, AS_WANT_ROOM))
                return; /* native_http_ready comes here again */
            continue;
        }
        if (err) {
            PyErr_Clear();
            native_http_drop_cancelled(h);
            break;
        }
        if (PyList_SetSlice(h->unsent, 0, 2, NULL) < 0)
            PyErr_Clear(); /* it allocates nothing */
        if (!PyList_GET_SIZE(h->unsent))
            native_http_drop_unsent(h);
    }
    native_http_wake_senders(h);
    Py_DECREF(h);
}

static int send_or_keep(Http *h, unsigned long opcode, PyObject *data)
{
    int err = h->unsent ? AS_EAGAIN : send_now(h, opcode, data);

    if (err == AS_EAGAIN)
        return keep(h, opcode, data);
    if (err == AS_ECANCELLED) {
        native_http_drop_cancelled(h);
        return raise_gone();
    }
    if (err < 0)
        PyErr_SetString(PyExc_ValueError, as_err_text(err));
    return err ? -1 : 0;
}

static int send_data(Http *h, PyObject *message)
{
    PyObject *bytes = PyDict_GetItemWithError(message, texts[BYTES]), *text;

    if (!bytes && PyErr_Occurred())
        return -1;
    text = PyDict_GetItemWithError(message, texts[TEXT]);
    if (!text && PyErr_Occurred())
        return -1;
    if (h->disconnected)
        return raise_gone();
    if (bytes && bytes != Py_None)
        return send_or_keep(h, AS_WORKER_WS_BINARY, bytes);
    if (text && PyUnicode_Check(text))
        return send_or_keep(h, AS_WORKER_WS_TEXT, text);
    PyErr_Format(PyExc_TypeError, "websocket.send needs bytes, or text that is a str, not %R",
                 text ? text : Py_None);
    return -1;
}

/* The reason of a close, cut to what a frame takes; a new reference. */
static PyObject *reason_of(PyObject *message)
{
    PyObject *reason = PyDict_GetItemWithError(message, texts[REASON]);
    Py_ssize_t n;
    const char *p;

    if (!reason && PyErr_Occurred())
        return NULL;
    if (!reason || reason == Py_None)
        return Py_NewRef(no_body);
    if (!PyUnicode_Check(reason)) {
        PyErr_Format(PyExc_TypeError, "the reason of a close is a str, not %R", reason);
        return NULL;
    }
    p = PyUnicode_AsUTF8AndSize(reason, &n);
    if (!p)
        return NULL;
    if (n > (Py_ssize_t)AS_WORKER_WS_REASON) {
        n = (Py_ssize_t)AS_WORKER_WS_REASON;
        while (n > 0 && ((unsigned char)p[n] & 0xc0) == 0x80)
            n--;
    }
    return PyBytes_FromStringAndSize(p, n);
}

/* -1 with an exception */
static long code_of(PyObject *message)
{
    PyObject *code = PyDict_GetItemWithError(message, texts[CODE]);
    long n = CODE_NORMAL;

    if (!code && PyErr_Occurred())
        return -1;
    if (code && code != Py_None)
        n = PyLong_AsLong(code);
    if (n == -1 && PyErr_Occurred())
        return -1;
    if (n < CODE_NORMAL || n > CODE_MAX || (n > 1003 && n < 1007) || (n > 1014 && n < 3000)) {
        PyErr_Format(PyExc_ValueError, "the code %ld of a close may not be sent", n);
        return -1;
    }
    return n;
}

static int send_close(Http *h, PyObject *message)
{
    long code = code_of(message);
    PyObject *reason = code < 0 ? NULL : reason_of(message);
    int err;

    if (!reason)
        return -1;
    h->complete = true;
    if (!h->close_code)
        h->close_code = (unsigned)code;
    if (h->disconnected) /* both sides have closed */
        err = send_or_keep(h, AS_WORKER_WS_CLOSE, no_body);
    else
        err = send_or_keep(h, AS_WORKER_WS_CLOSE | (unsigned long)code << CLOSE_SHIFT, reason);
    Py_DECREF(reason);
    native_http_wake_receivers(h);
    return err;
}

static int accept_it(Http *h, PyObject *message)
{
    PyObject *headers = PyDict_GetItemWithError(message, texts[HEADERS]), *subprotocol;
    PyObject *value = NULL;
    int64_t n;
    int err;

    if (!headers && PyErr_Occurred())
        return -1;
    subprotocol = PyDict_GetItemWithError(message, texts[SUBPROTOCOL]);
    if (!subprotocol && PyErr_Occurred())
        return -1;
    if (subprotocol && subprotocol != Py_None &&
        !(value = PyUnicode_AsEncodedString(subprotocol, "latin-1", NULL)))
        return -1;
    err = native_http_keep_head(h, 101, headers ? headers : no_headers);
    if (!err && value &&
        (PyList_Append(h->fields, protocol_field) || PyList_Append(h->fields, value)))
        err = -1;
    Py_XDECREF(value);
    if (err) {
        h->status = 0;
        return -1;
    }
    n = h->q && !h->cancelled ? native_http_send_head(h, (struct as_str){0}, false) : AS_ECANCELLED;
    if (n == AS_ECANCELLED) {
        native_http_drop_cancelled(h);
        return raise_gone();
    }
    if (n < 0) {
        h->status = 0;
        PyErr_SetString(PyExc_ValueError, as_err_text((int)n));
        return -1;
    }
    native_link_send(h->link, false);
    native_http_wake_receivers(h); /* receive() may wait already */
    return 0;
}

static bool is_text(PyObject *o, enum text text)
{
    return o == texts[text] || (PyUnicode_Check(o) && PyUnicode_Compare(o, texts[text]) == 0);
}

static int refuse(const char *format, PyObject *type)
{
    PyErr_Format(PyExc_RuntimeError, format, type);
    return -1;
}

int native_websocket_send(Http *h, PyObject *message, PyObject *type)
{
    if (h->complete)
        return refuse("Unexpected ASGI message %R, after sending 'websocket.close' or response "
                      "already completed.",
                      type);
    if (h->status == 101 && is_text(type, SEND))
        return send_data(h, message);
    if (h->status == 101 && is_text(type, CLOSE))
        return send_close(h, message);
    if (h->status == 101)
        return refuse("Expected ASGI message 'websocket.send' or 'websocket.close', but got %R.",
                      type);
    if (h->status)
        return is_text(type, DENIAL_BODY)
                   ? native_http_send_body(h, message)
                   : refuse("Expected ASGI message 'websocket.http.response.body', but got %R.",
                            type);
    if (is_text(type, ACCEPT))
        return accept_it(h, message);
    if (is_text(type, CLOSE))
        return native_http_respond(h, 403, no_headers, no_body);
    if (is_text(type, DENIAL_START))
        return native_http_send_start(h, message);
    return refuse("Expected ASGI message 'websocket.accept', 'websocket.close' or "
                  "'websocket.http.response.start' but got %R.",
                  type);
}
