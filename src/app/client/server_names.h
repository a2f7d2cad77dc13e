/* app/client/server_names.h — the names of a server's applications and deployments.
 *
 * For commands that take such a name: they complete it, or explain why it is wrong and suggest
 * another one. Blocking calls, for commands.
 */
#ifndef AS_APP_SERVER_NAMES_H
#define AS_APP_SERVER_NAMES_H

#include "conf/option/option.h"

struct as_server_names {
    struct as_server_names_deployment {
        char *application, *deployment;
    } * all;
    uint32_t n;
};

/* Fetches the names from the server. Returns an exit code; on failure stderr has the reason. Call
 * as_server_names_fini in any case. */
int as_server_names_fetch(struct as_server_names *ret_s, const struct as_option_set *opts);
void as_server_names_fini(struct as_server_names *s);

/* The application that has the deployment; of several the first. NULL: none. */
const char *as_server_names_find_application(const struct as_server_names *s,
                                             struct as_str deployment);
/* Several applications have a deployment of this name. */
bool as_server_names_is_ambiguous(const struct as_server_names *s, const char *deployment);
/* Appends a sentence that lists them. */
void as_server_names_write_ambiguous(const struct as_server_names *s, const char *deployment,
                                     struct as_buf *out);

/* Appends a sentence for a name that is not a deployment. If `name` is an application or a replica,
 * it gives the command to type instead: `command` and `rest` are its words before and after the
 * name
 * ("scale", "3"). Otherwise it suggests the most similar name, or lists all. */
void as_server_names_write_no_deployment(const struct as_server_names *s, const char *name,
                                         const char *command, const char *rest, struct as_buf *out);
/* The same for a name that is not an application. */
void as_server_names_write_no_application(const struct as_server_names *s, const char *name,
                                          const char *command, struct as_buf *out);

#endif
