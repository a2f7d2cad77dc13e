/* app/server/port_in_use.h — error texts for a TCP port on which another process listens. */
#ifndef AS_APP_PORT_IN_USE_H
#define AS_APP_PORT_IN_USE_H

#include "base/buf.h"
#include "conf/option/option.h"

/* Appends who listens on the port: "the server on port 8000 (pid 12, …)", "another program: nginx
 * (pid 7)", "another program". */
void as_port_in_use_write_holder(struct as_buf *out, uint16_t port);
/* Prints the whole error text to stderr: who listens on the port of option `id` at `host`, and what
 * to do. place: the value of --listen, if that is the option. */
void as_port_in_use_print(enum as_option_id id, const char *place, const char *host, uint16_t port);

/* Does a process of a server have the port whose supervisor was killed? It ends by itself, within
 * moments. `runtime_dir` and `server_port` say which server: the one that shall start. */
bool as_port_in_use_is_ending(uint16_t port, const char *runtime_dir, uint16_t server_port);

#endif
