/* app/client/control_client_connect.h — the connection by which app/client/control_client asks a
 * server, and what is said of a server that does not answer on it.
 *
 * For app/client/control_client.c. Blocking calls.
 */
#ifndef AS_APP_CONTACT_WAY_H
#define AS_APP_CONTACT_WAY_H

#include "app/client/control_client.h"
#include "ctl/state/token.h"

struct as_control_client_conn {
    const struct as_option_set *opts;
    const char *remote; /* HOST:PORT, or "" */
    const char *role;   /* which process of the server is asked */
    char name[320];     /* for messages */
    char host[320];     /* as HTTP writes it */
    char token[AS_TOKEN_MAX + 1];
    int fd;
};

/* For as long a silence is waited for at most. */
as_ns as_control_client_answer_timeout(const struct as_option_set *opts,
                                       const struct as_control_client_request *q);
/* A connection, which is not waited for beyond `end` (as_control_client_clock). An exit code;
 * unless q->is_quiet stderr says what is wrong. Closed in any case. */
int as_control_client_connect(struct as_control_client_conn *w, const struct as_option_set *opts,
                              const struct as_control_client_request *q, as_ns end);
void as_control_client_disconnect(struct as_control_client_conn *w);
/* Tells, unless q->is_quiet, who does not answer. The exit code. */
int as_control_client_print_silent(const struct as_control_client_conn *w,
                                   const struct as_control_client_request *q);

#endif
