/* app/server/port_in_use.h — what is said of a TCP port that cannot be had, since somebody listens
 * on it. */
#ifndef AS_APP_TAKEN_H
#define AS_APP_TAKEN_H

#include "base/buf.h"
#include "conf/option.h"

/* "the server on port 8000 (pid 12, …)", "another program: nginx (pid 7)", "another program". */
void as_port_in_use_write_holder(struct as_buf *out, uint16_t port);
/* The whole text for an option's port on `host`: who has it, and what to do. */
void as_port_in_use_print(enum as_option_id id, const char *host, uint16_t port);

#endif
