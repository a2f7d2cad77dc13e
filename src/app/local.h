/* app/local.h — one HTTP request to a server of this machine, by a unix socket in its folder.
 *
 * By the socket, not a TCP port: it works whichever ports are off, and the folder proves whose
 * server it is. Blocking calls, for commands.
 */
#ifndef AS_APP_LOCAL_H
#define AS_APP_LOCAL_H

#include "base/buf.h"
#include "ctl/option.h"

struct as_local_request {
    const char *socket; /* a file of io/runtime.h, AS_RUNTIME_STATUS */
    const char *method, *target;
    struct as_str body; /* JSON or YAML; empty: none */
};

struct as_local_answer {
    unsigned status;    /* of HTTP */
    struct as_str body; /* lies in `bytes` */
    struct as_buf bytes;
};

/* --port and --runtime-dir of `opts` say which server; without --port, the only one there is.
 * AS_CODE_OK: it answered, and the answer is whole; else stderr says why not, and the exit code
 * comes back. as_local_fini in any case. */
int as_local_ask(const struct as_option_set *opts, const struct as_local_request *q,
                 struct as_local_answer *ret_a);
void as_local_fini(struct as_local_answer *a);

/* The usual end of a command: a body with 200 goes to stdout, anything else to stderr. The exit
 * code. */
int as_local_print(const struct as_local_request *q, const struct as_local_answer *a);

#endif
