/* ctl/worker/banner.h — the lines that a server prints for people when it starts: what it serves,
 * where, how to call it. Pure.
 */
#ifndef AS_CTL_BANNER_H
#define AS_CTL_BANNER_H

#include "base/buf.h"
#include "ctl/worker/describe.h"

struct as_banner {
    const char *version, *target; /* target NULL: no models of its own */
    const char *summary;          /* these lines say what is served; NULL: from target and app */
    const struct as_declared *app;
    const char *route;        /* below it requests of HTTP go to the application; NULL: none do */
    uint32_t workers;         /* replicas of each deployment, if … */
    const uint32_t *replicas; /* … this is NULL; else one number for each deployment of app */
    const char *host, *status_host;        /* as given */
    uint16_t port, grpc_port, status_port; /* 0: none */
    bool tls, status_tls;                  /* these ports speak TLS; tls: port and grpc_port */
    const char *more;                      /* further addresses, each on a line; "": none */
    const char *python, *python_why;
    /* Without a target: the socket of workers that are started elsewhere, and where they register.
     */
    const char *link, *registry;
    const char *management, *control; /* "127.0.0.1:9000", or NULL */
};

void as_banner_write(struct as_buf *b, const struct as_banner *v);

#endif
