/* edge/admin/status_listener.h — the read-only HTTP/1.1 listener of /status, /workers and /metrics.
 *
 * For curl, Prometheus and `anyserve status`, on loopback and on a unix socket; one request per
 * connection. Over TCP, Host must name this machine, so that a web page cannot read it (DNS
 * rebinding). Limits: 8 KiB of request, 64 connections, 5 s. Thread: the dispatch loop.
 */
#ifndef AS_EDGE_STATUS_LISTENER_H
#define AS_EDGE_STATUS_LISTENER_H

#include "edge/admin/status_page.h"

struct as_status_listener;

int as_status_listener_new(struct as_status_listener **ret_s, struct as_loop *loop,
                           struct as_status_page *page);
int as_status_listener_listen(struct as_status_listener *s, int fd); /* fd is duplicated */
/* Closes the listening sockets. Accepted requests are still answered; new ones wait for another
 * process that listens on the same sockets. */
void as_status_listener_stop(struct as_status_listener *s);
/* Asynchronous: frees itself once its handles are closed. */
void as_status_listener_close(struct as_status_listener *s);

/* Parses a request head without its empty line; public for tests and fuzzing. 0, or an HTTP status
 * (400, 403, 405). check_host: the request came over TCP. */
int as_status_listener_parse(struct as_str head, bool check_host, struct as_str *ret_target);

#endif
