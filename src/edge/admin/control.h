/* edge/admin/control.h — the control API: what is served is read and changed over HTTP.
 *
 * Served at the control door only (edge/conn/access.h), in the controller's process. Paths and
 * shapes are Ray Serve's where it has them. This file knows HTTP; what a request means is behind
 * as_control.
 *
 *   GET    /api/serve/applications/              what there is, and how it is
 *   PUT    /api/serve/applications/[?dry_run=1]  a deployment file, YAML or JSON: this is to be
 *   DELETE /api/serve/applications/              nothing is to be
 *   DELETE /api/serve/applications/NAME
 *   GET    /api/serve/config                     what is served now, as a deployment file
 *   GET    /api/serve/events                     every change, as it comes:
 * edge/admin/control_events.h GET    /api/serve/history                    what was deployed when
 *   POST   /api/v1/applications/NAME/deployments/NAME/scale  {"target_num_replicas": 4}; null: what
 *                                                its num_replicas says
 *   POST   …/restart, …/rollback
 */
#ifndef AS_EDGE_CONTROL_H
#define AS_EDGE_CONTROL_H

#include "edge/exchange/exchange.h"
#include "edge/rest/rest.h"

enum as_control_verb {
    AS_CONTROL_SHOW,
    AS_CONTROL_CONFIG, /* answered with YAML */
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
    uint32_t replicas;                     /* SCALE; AS_CONTROL_NONE: what its file says */
};

/* What errors call the text of PLAN and DEPLOY: "request:12:3: unknown key …". Whoever sent a file
 * knows its name. */
#define AS_CONTROL_FILE "request"

#define AS_CONTROL_REPLICAS_MAX 1024u /* core/replicas/plan.h */

enum as_control_kind { AS_CONTROL_APPLICATION, AS_CONTROL_DEPLOYMENT, AS_CONTROL_REPLICA };
#define AS_CONTROL_NONE UINT32_MAX

struct as_control_row { /* valid during the call */
    enum as_control_kind kind;
    struct as_str application, deployment, replica; /* empty above its kind */
    struct as_str status, message;
    uint32_t target;     /* DEPLOYMENT: replicas that there are to be … */
    uint32_t declared;   /* … and what its num_replicas says */
    bool rolled_back;    /* DEPLOYMENT: the last update failed, and what was before is served */
    uint64_t generation; /* DEPLOYMENT: the last one that changed it */
    uint32_t pid;        /* REPLICA: of its process; 0: none */
    uint32_t rank;       /* REPLICA, or AS_CONTROL_NONE */
    uint32_t starts;     /* REPLICA: processes so far */
};
typedef void as_control_row_fn(void *arg, const struct as_control_row *r);

struct as_control_events;

struct as_control_call; /* a request that waits for its answer */

struct as_control {
    /* Carries the request out, and answers k once, by as_control_answer, within the call or later.
     * Loop's thread. */
    void (*handle)(void *ctx, const struct as_control_request *q, struct as_control_call *k);
    /* Tells of all that there is now, each application before what it consists of. Loop's thread.
     */
    void (*each)(void *ctx, as_control_row_fn *fn, void *arg);
    struct as_control_events *events;
    void *ctx;
};

/* err 0: `text` (JSON, or as the verb says) is the answer. Else AS_E…, and `text` is what is wrong,
 * one line or several. k is gone. Also when the client has gone meanwhile. */
void as_control_answer(struct as_control_call *k, int err, const struct as_buf *text);
/* gone: called when the client goes before its answer. k still has to be answered. */
void as_control_set_on_gone(struct as_control_call *k, void (*gone)(void *arg), void *arg);

void as_control_show(struct as_exchange *x, const struct as_rest_match *m);
void as_control_stream_events(struct as_exchange *x, const struct as_rest_match *m); /* …/events */
void as_control_config(struct as_exchange *x, const struct as_rest_match *m);
void as_control_history(struct as_exchange *x, const struct as_rest_match *m);
void as_control_deploy(struct as_exchange *x, const struct as_rest_match *m);
void as_control_delete(struct as_exchange *x, const struct as_rest_match *m);
void as_control_scale(struct as_exchange *x, const struct as_rest_match *m);
void as_control_restart(struct as_exchange *x, const struct as_rest_match *m);
void as_control_rollback(struct as_exchange *x, const struct as_rest_match *m);

#endif
