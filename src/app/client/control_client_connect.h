/* app/client/control_client_connect.h — the connection by which app/client/control_client asks a server, and what is said of a
 * server that does not answer on it.
 *
 * For app/client/control_client.c. Blocking calls.
 */
#ifndef AS_APP_CONTACT_WAY_H
#define AS_APP_CONTACT_WAY_H

#include "app/client/control_client.h"
#include "ctl/state/token.h"

struct as_contact_way {
    const struct as_option_set *opts;
    const char *remote; /* HOST:PORT, or "" */
    const char *role;   /* which process of the server is asked */
    char name[320];     /* for messages */
    char host[320];     /* as HTTP writes it */
    char token[AS_TOKEN_MAX + 1];
    int fd;
};

/* For as long a silence is waited for at most. */
as_ns as_contact_wait(const struct as_option_set *opts, const struct as_contact_request *q);
/* A connection, which is not waited for beyond `end` (as_contact_clock). An exit code; unless
 * q->is_quiet stderr says what is wrong. Closed in any case. */
int as_contact_way_open(struct as_contact_way *w, const struct as_option_set *opts,
                        const struct as_contact_request *q, as_ns end);
void as_contact_way_close(struct as_contact_way *w);
/* Tells, unless q->is_quiet, who does not answer. The exit code. */
int as_contact_way_silent(const struct as_contact_way *w, const struct as_contact_request *q);

#endif
