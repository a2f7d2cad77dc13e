/* The scope of a request of HTTP: what the dispatcher has parsed, as ASGI has it. */
#include "http.h"

#include <string.h>

enum key {
    TYPE,
    ASGI,
    HTTP_VERSION,
    SERVER,
    CLIENT,
    SCHEME,
    METHOD,
    ROOT_PATH,
    PATH,
    RAW_PATH,
    QUERY_STRING,
    HEADERS,
    N_KEYS
};
static const char *const key_texts[N_KEYS] = {"type",   "asgi",     "http_version", "server",
                                              "client", "scheme",   "method",       "root_path",
                                              "path",   "raw_path", "query_string", "headers"};
static PyObject *keys[N_KEYS];
static PyObject *asgi, *name_http, *version_10, *version_11, *version_2, *request_id_name;

#define N_METHODS 7
static const char *const method_texts[N_METHODS] = {"GET",    "POST",  "PUT",    "HEAD",
                                                    "DELETE", "PATCH", "OPTIONS"};
static PyObject *methods[N_METHODS];

int native_scope_init(void)
{
    for (int i = 0; i < N_KEYS; i++) {
        if (!(keys[i] = PyUnicode_InternFromString(key_texts[i])))
            return -1;
    }
    for (int i = 0; i < N_METHODS; i++) {
        if (!(methods[i] = PyUnicode_InternFromString(method_texts[i])))
            return -1;
    }
    asgi = Py_BuildValue("{ssss}", "version", "3.0", "spec_version", "2.4");
    name_http = PyUnicode_InternFromString("http");
    version_10 = PyUnicode_InternFromString("1.0");
    version_11 = PyUnicode_InternFromString("1.1");
    version_2 = PyUnicode_InternFromString("2");
    request_id_name = PyBytes_FromString("x-request-id");
    return asgi && name_http && version_10 && version_11 && version_2 && request_id_name ? 0 : -1;
}

static PyObject *bytes_of(struct as_str s)
{
    return PyBytes_FromStringAndSize(s.p, (Py_ssize_t)s.n);
}

/* A text that repeats: the last one is kept. */
static PyObject *cached(PyObject **kept, struct as_str s)
{
    PyObject *k = *kept;

    if (k && PyUnicode_IS_COMPACT_ASCII(k) && (size_t)PyUnicode_GET_LENGTH(k) == s.n &&
        !memcmp(PyUnicode_1BYTE_DATA(k), s.p, s.n))
        return Py_NewRef(k);
    k = native_text(s);
    if (k)
        Py_XSETREF(*kept, Py_NewRef(k));
    return k;
}

static PyObject *method_of(struct as_str s)
{
    for (int i = 0; i < N_METHODS; i++) {
        if (strlen(method_texts[i]) == s.n && !memcmp(method_texts[i], s.p, s.n))
            return Py_NewRef(methods[i]);
    }
    return native_text(s);
}

/* "ADDRESS:PORT" as a pair, or None. */
static PyObject *pair_of(struct as_str s)
{
    const char *colon = s.n ? memrchr(s.p, ':', s.n) : NULL;
    struct as_str host;
    long port = 0;

    if (!colon)
        Py_RETURN_NONE;
    for (const char *p = colon + 1; p < s.p + s.n; p++) {
        if (*p < '0' || *p > '9' || port > 65535)
            Py_RETURN_NONE;
        port = 10 * port + (*p - '0');
    }
    host = (struct as_str){s.p, (size_t)(colon - s.p)};
    if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = (struct as_str){host.p + 1, host.n - 2};
    return Py_BuildValue("(s#l)", host.p, (Py_ssize_t)host.n, port);
}

static PyObject *server_of(struct as_str s)
{
    static PyObject *kept_text, *kept_pair;
    PyObject *was = kept_text, *text = cached(&kept_text, s), *pair;

    if (text && kept_pair && text == was) {
        Py_DECREF(text);
        return Py_NewRef(kept_pair);
    }
    Py_XDECREF(text);
    pair = text ? pair_of(s) : NULL;
    Py_XSETREF(kept_pair, Py_XNewRef(pair));
    return pair;
}

/* --- the path --- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-decoded; what is not UTF-8 is replaced, and a % without two digits stays. */
static PyObject *path_of(struct as_str s)
{
    PyObject *text;
    char *to;
    size_t n = 0;

    if (!memchr(s.p, '%', s.n))
        return native_text(s);
    to = PyMem_Malloc(s.n);
    if (!to)
        return PyErr_NoMemory();
    for (size_t i = 0; i < s.n; i++) {
        int high = s.p[i] == '%' && i + 2 < s.n ? hex(s.p[i + 1]) : -1;
        int low = high >= 0 ? hex(s.p[i + 2]) : -1;

        to[n++] = low >= 0 ? (char)(16 * high + low) : s.p[i];
        i += low >= 0 ? 2 : 0;
    }
    text = native_text((struct as_str){to, n});
    PyMem_Free(to);
    return text;
}

/* --- the fields --- */

/* name is that of a field, in lower case; text has underscores, for which name may have hyphens. */
static bool is_named(struct as_str name, const char *text)
{
    if (name.n != strlen(text))
        return false;
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] != text[i] && !(text[i] == '_' && name.p[i] == '-'))
            return false;
    }
    return true;
}

static int set_text(PyObject **ret, struct as_str value)
{
    PyObject *text = native_text(value);

    if (!text)
        return -1;
    Py_XSETREF(*ret, text);
    return 0;
}

/* What this package looks for among the fields. */
static int note_field(Http *h, const struct as_meta *f, bool *ret_has_id)
{
    switch (f->key.n) {
    case 12:
        if (is_named(f->key, "x_request_id"))
            *ret_has_id = true;
        else if (is_named(f->key, "x_session_id"))
            return set_text(&h->session_id, f->value);
        return 0;
    case 26:
        return is_named(f->key, "serve_multiplexed_model_id") ? set_text(&h->model_id, f->value)
                                                              : 0;
    case 29:
        if (is_named(f->key, "x_request_disconnect_disabled"))
            h->keeps_task = f->value.n == 2 && !memcmp(f->value.p, "?1", 2);
        return 0;
    default:
        return 0;
    }
}

static int set_field(PyObject *list, Py_ssize_t i, PyObject *name, PyObject *value)
{
    PyObject *pair = name && value ? PyTuple_Pack(2, name, value) : NULL;

    Py_XDECREF(name);
    Py_XDECREF(value);
    if (!pair)
        return -1;
    PyList_SET_ITEM(list, i, pair);
    return 0;
}

/* The request id is among the fields, whether the client has sent it or the dispatcher has made it.
 */
static PyObject *fields_of(Http *h, const struct as_worker_http *head)
{
    PyObject *list = PyList_New((Py_ssize_t)head->n_fields), *pair;
    bool has_id = !head->id.n;

    for (uint32_t i = 0; list && i < head->n_fields; i++) {
        const struct as_meta *f = &head->fields[i];

        if (note_field(h, f, &has_id) ||
            set_field(list, (Py_ssize_t)i, bytes_of(f->key), bytes_of(f->value)))
            Py_CLEAR(list);
    }
    if (!list || has_id)
        return list;
    pair = Py_BuildValue("(Oy#)", request_id_name, head->id.p, (Py_ssize_t)head->id.n);
    if (!pair || PyList_Append(list, pair) < 0)
        Py_CLEAR(list);
    Py_XDECREF(pair);
    return list;
}

/* --- all of it --- */

/* Puts v, which it consumes. */
static int put(PyObject *d, enum key k, PyObject *v)
{
    int err = v ? PyDict_SetItem(d, keys[k], v) : -1;

    Py_XDECREF(v);
    return err;
}

PyObject *native_scope_new(Http *h, const struct as_worker_http *head)
{
    static PyObject *kept_root, *kept_scheme;
    PyObject *d = PyDict_New();
    PyObject *version = head->version == 10   ? version_10
                        : head->version == 20 ? version_2
                                              : version_11;

    if (d && (put(d, TYPE, Py_NewRef(name_http)) || put(d, ASGI, Py_NewRef(asgi)) ||
              put(d, HTTP_VERSION, Py_NewRef(version)) || put(d, SERVER, server_of(head->server)) ||
              put(d, CLIENT, pair_of(head->peer)) ||
              put(d, SCHEME, cached(&kept_scheme, head->scheme)) ||
              put(d, METHOD, method_of(head->method)) ||
              put(d, ROOT_PATH, cached(&kept_root, head->root_path)) ||
              put(d, PATH, path_of(head->path)) || put(d, RAW_PATH, bytes_of(head->path)) ||
              put(d, QUERY_STRING, bytes_of(head->query)) || put(d, HEADERS, fields_of(h, head))))
        Py_CLEAR(d);
    return d;
}
