/* edge/admin/status_listener.h — the read-only status listener: GET /status and /metrics over
 * HTTP/1.1.
 *
 * For curl, Prometheus and `anyserve status`, on loopback and on a unix socket. One request per
 * connection. Host must name this machine when the request came over TCP, so that a page in a
 * browser cannot be tricked into reading it (DNS rebinding). Bounds: 8 KiB of request, 64
 * connections, 5 s. Thread: the dispatch loop.
 */
#ifndef AS_EDGE_STATUS_LISTENER_H
#define AS_EDGE_STATUS_LISTENER_H

#include "edge/admin/status_page.h"

struct as_status_listener;

int as_status_listener_new(struct as_status_listener **ret_s, struct as_loop *loop,
                           struct as_status_page *page);
int as_status_listener_listen(struct as_status_listener *s, int fd); /* fd is duplicated */
/* Requests that come now wait for another process that listens; those that are here are answered.
 */
void as_status_listener_stop(struct as_status_listener *s);
/* Asynchronous: frees itself when its handles are closed. */
void as_status_listener_close(struct as_status_listener *s);

/* The request head up to its empty line → method and target; for tests and fuzzing. 0, or an HTTP
 * status (400, 403, 405, 431) that says why not. check_host: the request came over TCP. */
int as_status_listener_parse(struct as_str head, bool check_host, struct as_str *ret_target);

#endif
