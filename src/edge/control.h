/* edge/control.h — the control API: what is served is read and changed over HTTP.
 *
 * Served at the control door only (edge/door.h), in the controller's process. Paths and shapes are
 * Ray Serve's where it has them. This file knows HTTP; what a request means is behind as_control.
 *
 *   GET    /api/serve/applications/              what there is, and how it is
 *   PUT    /api/serve/applications/[?dry_run=1]  a deployment file, YAML or JSON: this is to be
 *   DELETE /api/serve/applications/              nothing is to be
 *   DELETE /api/serve/applications/NAME
 *   GET    /api/serve/history                    what was deployed when
 *   POST   /api/v1/applications/NAME/deployments/NAME/scale  {"target_num_replicas": 4}
 *   POST   …/restart, …/rollback
 */
#ifndef AS_EDGE_CONTROL_H
#define AS_EDGE_CONTROL_H

#include "edge/exchange.h"
#include "edge/rest.h"

enum as_control_verb {
    AS_CONTROL_SHOW,
    AS_CONTROL_HISTORY,
    AS_CONTROL_PLAN, /* what AS_CONTROL_DEPLOY would change */
    AS_CONTROL_DEPLOY,
    AS_CONTROL_DELETE, /* without an application: all */
    AS_CONTROL_SCALE,
    AS_CONTROL_RESTART,
    AS_CONTROL_ROLLBACK,
};

struct as_control_request { /* valid during the call */
    enum as_control_verb verb;
    struct as_str application, deployment; /* decoded; empty where the verb has none */
    struct as_str text;                    /* PLAN, DEPLOY: of the file */
    uint32_t replicas;                     /* SCALE */
};

#define AS_CONTROL_REPLICAS_MAX 1024u /* core/plan.h */

struct as_control {
    /* Answers at once. 0 with a JSON text in ret_json (empty); else AS_E…, with what is wrong in
     * ret_err, one line or several. Loop's thread. */
    int (*handle)(void *ctx, const struct as_control_request *q, struct as_buf *ret_json,
                  struct as_buf *ret_err);
    void *ctx;
};

void as_control_show(struct as_exchange *x, const struct as_rest_match *m);
void as_control_history(struct as_exchange *x, const struct as_rest_match *m);
void as_control_deploy(struct as_exchange *x, const struct as_rest_match *m);
void as_control_delete(struct as_exchange *x, const struct as_rest_match *m);
void as_control_scale(struct as_exchange *x, const struct as_rest_match *m);
void as_control_restart(struct as_exchange *x, const struct as_rest_match *m);
void as_control_rollback(struct as_exchange *x, const struct as_rest_match *m);

#endif
