/* ctl/worker/banner.h — what a person reads when the server starts: what, where, how to call it.
 * Pure. */
#ifndef AS_CTL_BANNER_H
#define AS_CTL_BANNER_H

#include "base/buf.h"
#include "ctl/worker/describe.h"

struct as_banner {
    const char *version, *target; /* target NULL: no models of its own */
    const char *summary;          /* or these lines say what is served; NULL: target and app do */
    const struct as_declared *app;
    uint32_t workers;                      /* replicas of each deployment, where … */
    const uint32_t *replicas;              /* … this is NULL: of each of them, as app has them */
    const char *host;                      /* as given */
    uint16_t port, grpc_port, status_port; /* 0: off */
    const char *python, *python_why;
    /* Where workers that nobody here started come in, and where they register; without a target. */
    const char *link, *registry;
    const char *management, *control; /* "127.0.0.1:9000", or NULL */
};

void as_banner_write(struct as_buf *b, const struct as_banner *v);

/* "127.0.0.1:8000", "[::1]:8000". local: every-address hosts become one that a client can call. */
void as_banner_address(struct as_buf *b, const char *host, uint16_t port, bool local);

#endif
