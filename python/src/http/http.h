/* http/http.h — requests of HTTP (anyserve/http.h) for Python, as ASGI has them.
 *
 *   http.c     Http: a request; its body, its end
 *   scope.c    the scope of a request
 *   answer.c   what an application sends: checked, and sent as the client reads
 *   websocket.c  the messages of a websocket
 *   wait.c     the awaitables of receive() and send()
 *
 * The handler of a model with `http` is called with an Http and returns a coroutine, as for a call.
 * Its receive and send belong to the thread of the link's event loop.
 */
#ifndef ANYSERVE_NATIVE_HTTP_H
#define ANYSERVE_NATIVE_HTTP_H

#include "../calls/opaque.h"

typedef struct {
    NATIVE_SERVED_HEAD;
    PyObject *scope, *model_id, *session_id;
    /* the body of the request */
    PyObject *first; /* the bytes that came with the head; NULL: they were received */
    bool whole;      /* nothing follows these */
    bool received;   /* the whole body was received */
    /* the answer */
    unsigned status; /* 0: none was given */
    PyObject
        *fields; /* of an answer that was given, not sent: names and values by turns, in a list */
    PyObject *unsent;   /* bytes of its body that wait for room: a list; or NULL */
    Py_ssize_t sent_of; /* how many bytes of the first of these were sent */
    bool started;       /* its head was sent */
    bool complete;      /* all of it was given */
    /* of a websocket */
    bool websocket, connected, disconnected; /* the client wants one; receive() has said so; the
                                                client has closed or gone */
    unsigned close_code;                     /* of its end, for receive(); 0: it is not over */
    PyObject *close_reason;                  /* of the client's close; or NULL */
    bool keeps_task;                         /* a client that goes away does not cancel the task */
    Await *waits; /* coroutines that wait, the last one first: references */
} Http;

extern PyTypeObject native_http_type;

/* --- http.c --- */

int native_http_init(void);
int native_http_start(Link *l, struct as_worker_req *q);
/* The client has gone, or the deadline has passed. */
void native_http_cancel(Http *h);
/* what: bits of enum as_worker_want */
void native_http_ready(Http *h, unsigned what);
/* The next message for the application: 1 *ret_message; 0 none now; -1 with an exception. */
int native_http_receive(Http *h, PyObject **ret_message);

/* --- scope.c --- */

int native_scope_init(void);
/* The scope of a request, a new dict; sets what else h has of the head. NULL: an exception. */
PyObject *native_scope_new(Http *h, const struct as_worker_http *head);

/* --- answer.c --- */

int native_answer_init(void);
/* Takes a message, and sends what there is room for. -1 with an exception. */
int native_http_send(Http *h, PyObject *message);
/* The same of a whole answer. */
int native_http_respond(Http *h, unsigned status, PyObject *headers, PyObject *body);
/* Sends what waits for room, as much as there is now; ends the request after the last byte. Only
 * while something is unsent: it drops the reference that keeps h until then. */
void native_http_flush(Http *h);
void native_http_drop_unsent(Http *h);

/* Parts of these, for websocket.c. The head waits in `fields`; native_http_send_head returns how
 * many bytes of the body it has sent, or an AS_E… code; `drop_cancelled`: the client has gone;
 * `end`: the library has freed the request. */
int native_http_keep_head(Http *h, unsigned long status, PyObject *headers);
int64_t native_http_send_head(Http *h, struct as_str body, bool last);
int native_http_send_start(Http *h, PyObject *message);
int native_http_send_body(Http *h, PyObject *message);
void native_http_drop_cancelled(Http *h);
void native_http_end(Http *h);

/* --- websocket.c --- */

int native_websocket_init(void);
/* Makes the scope of a request that of a websocket. -1 with an exception. */
int native_websocket_scope(PyObject *scope, const struct as_worker_http *head);
/* As native_http_receive, native_http_send and native_http_flush. */
int native_websocket_receive(Http *h, PyObject **ret_message);
int native_websocket_send(Http *h, PyObject *message, PyObject *type);
void native_websocket_flush(Http *h);

/* --- wait.c --- */

/* Awaitables of a message; of the time when nothing is unsent; one that is done. */
PyObject *native_http_wait_message(Http *h);
PyObject *native_http_wait_sent(Http *h);
PyObject *native_http_done(void);
/* How many coroutines wait until nothing is unsent. */
Py_ssize_t native_http_n_sending(const Http *h);
void native_http_wake_receivers(Http *h);
void native_http_wake_senders(Http *h);
int native_wait_init(void);

#endif
