/* app/client/server_names.h — the applications and deployments that a server has, for commands that
 * are given a name: which one it is, and what was named instead when it is none.
 *
 * Blocking calls, for commands.
 */
#ifndef AS_APP_NAMES_H
#define AS_APP_NAMES_H

#include "conf/option.h"

struct as_server_names {
    struct as_server_names_deployment {
        char *application, *deployment;
    } * all;
    uint32_t n;
};

/* Asks the server. An exit code; stderr says why there are none. as_server_names_fini in any case.
 */
int as_server_names_fetch(struct as_server_names *ret_s, const struct as_option_set *opts);
void as_server_names_fini(struct as_server_names *s);

/* The application of the deployment of this name, of which a file has one; NULL: none. */
const char *as_server_names_find_application(const struct as_server_names *s,
                                             struct as_str deployment);

/* A sentence about a deployment that there is not: `name` is another thing, and `command` with
 * `rest` behind it ("scale", "3") is what to type; or the nearest name, or all. */
void as_server_names_write_no_deployment(const struct as_server_names *s, const char *name,
                                         const char *command, const char *rest, struct as_buf *out);
/* Likewise about an application. */
void as_server_names_write_no_application(const struct as_server_names *s, const char *name,
                                          const char *command, struct as_buf *out);

#endif
