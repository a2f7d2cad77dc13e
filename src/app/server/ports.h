/* app/server/ports.h — listens on the TCP ports of a server's options.
 *
 * Before any code is loaded, so that a port in use is reported at once and not after a minute of
 * loading weights. Blocking calls.
 */
#ifndef AS_APP_PORTS_H
#define AS_APP_PORTS_H

#include "app/options/tls_conf.h"
#include "base/buf.h"
#include "conf/option/option.h"
#include "ctl/supervise/handover.h"

struct as_ports {
    struct as_option_set *opts;
    struct as_tls_conf tls; /* certificates; with one, --port and --grpc-port speak TLS */
    struct as_buf more;     /* the addresses of --listen that were bound, one on a line */
    struct as_handover *listeners;
    uint32_t n_more;                   /* how many --listen are bound */
    struct as_buf management, control; /* the addresses that were bound; empty: off */
};

/* Adds the listeners to `listeners`, and sets the options of ports to those that were bound.
 * Returns an exit code (conf/option/exit_code.h); the error is printed, or written to `err`. The
 * caller closes the listeners. */
int as_ports_listen(struct as_ports *p, struct as_option_set *opts, struct as_handover *listeners,
                    struct as_buf *err);
void as_ports_fini(struct as_ports *p);
/* Removes the unix sockets of the first n --listen, when nobody accepts from them any more. */
void as_ports_remove_sockets(const struct as_option_set *opts, uint32_t n);

#endif
