/* app/client/control_client_connect.h — connects to a server, and explains why one does not answer.
 *
 * For app/client/control_client.c only. Blocking calls.
 */
#ifndef AS_APP_CONTROL_CLIENT_CONNECT_H
#define AS_APP_CONTROL_CLIENT_CONNECT_H

#include "app/client/control_client.h"
#include "ctl/state/token.h"

struct as_control_client_conn {
    const struct as_option_set *opts;
    const char *remote; /* HOST:PORT, or "" */
    const char *role;   /* the process at the other end: "controller", "dispatcher" */
    char name[320];     /* for messages */
    char host[320];     /* for the Host header */
    char token[AS_TOKEN_MAX + 1];
    int fd;
};

/* The longest time to wait for the next byte. */
as_ns as_control_client_answer_timeout(const struct as_option_set *opts,
                                       const struct as_control_client_request *q);
/* Connects, waiting at most until `end` (as_clock_now). Returns an exit code; on failure
 * stderr has the reason, unless q->is_quiet. Call as_control_client_disconnect in any case. */
int as_control_client_connect(struct as_control_client_conn *c, const struct as_option_set *opts,
                              const struct as_control_client_request *q, as_ns end);
void as_control_client_disconnect(struct as_control_client_conn *c);
/* Prints, unless q->is_quiet, which process does not answer. Returns the exit code. */
int as_control_client_print_silent(const struct as_control_client_conn *c,
                                   const struct as_control_client_request *q);

#endif
