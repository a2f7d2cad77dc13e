/* edge/admin/control.h — the control API: deploys applications and reports their state, over HTTP.
 *
 * Served on the control interface only (edge/exchange/access.h), in the controller's process. Paths
 * and JSON follow Ray Serve where it has the same. This module handles HTTP; the owner of struct
 * as_control carries the requests out. Thread: the loop's.
 *
 *   GET    /api/serve/applications/              applications and deployments, with their states
 *   PUT    /api/serve/applications/[?dry_run=1]  deploys a deployment file, YAML or JSON
 *   DELETE /api/serve/applications/              deletes all applications
 *   PUT    /api/serve/applications/NAME          deploys one application, the others stay
 *   DELETE /api/serve/applications/NAME          deletes one
 *   GET    /api/serve/config                     what is served now, as a deployment file
 *   PUT    /api/serve/code/SHA256                stores pickled code; only by the unix socket
 *   GET    /api/serve/events                     changes as they happen: control_events.h
 *   GET    /api/serve/history                    the deployments so far
 *   POST   /api/v1/applications/NAME/deployments/NAME/scale  {"target_num_replicas": 4}; null: the
 *                                                deployment's num_replicas
 *   POST   …/restart, …/rollback
 *
 * PUT and DELETE of applications take `generation=N` in the query, or the header If-Match: 412 if
 * what they change was changed after generation N.
 */
#ifndef AS_EDGE_CONTROL_H
#define AS_EDGE_CONTROL_H

#include "core/replicas/served.h"
#include "edge/exchange/exchange.h"
#include "edge/rest/rest.h"

enum as_control_verb {
    AS_CONTROL_SHOW,
    AS_CONTROL_CONFIG, /* answered with YAML */
    AS_CONTROL_HISTORY,
    AS_CONTROL_PLAN, /* what AS_CONTROL_DEPLOY would change (dry run) */
    AS_CONTROL_DEPLOY,
    AS_CONTROL_PLAN_ONE, /* the same for one application */
    AS_CONTROL_DEPLOY_ONE,
    AS_CONTROL_DELETE, /* all applications, if none is named */
    AS_CONTROL_SCALE,
    AS_CONTROL_RESTART,
    AS_CONTROL_ROLLBACK,
};

struct as_control_request { /* valid during the call */
    enum as_control_verb verb;
    struct as_str application, deployment; /* decoded; "" if the verb has none */
    struct as_str text;  /* PLAN, DEPLOY: the deployment file; …_ONE: one application of it */
    uint64_t generation; /* the one that the client has seen; AS_CONTROL_ANY: no check */
    uint32_t replicas;   /* SCALE; AS_CONTROL_NONE: num_replicas of its file */
};

/* The name of the text of PLAN and DEPLOY in errors, "request:12:3: unknown key …", in place of the
 * name of the client's file. */
#define AS_CONTROL_FILE "request"

#define AS_CONTROL_NONE UINT32_MAX
#define AS_CONTROL_ANY  UINT64_MAX

struct as_control_events;

struct as_control_call; /* a request that waits for its answer */

struct as_control {
    /* Carries out the request and calls as_control_answer once, during the call or later. On the
     * loop. */
    void (*handle)(void *ctx, const struct as_control_request *q, struct as_control_call *k);
    /* Calls fn for each application, deployment and replica; an application before its parts. On
     * the loop. */
    void (*each)(void *ctx, as_served_fn *fn, void *arg);
    /* Pickled code of this name (its SHA-256 in hex) is about to be stored, and must be kept until
     * a deployment names it. On the loop. */
    void (*expect_pickle)(void *ctx, struct as_str name);
    /* Stores it. 0 or AS_E…, with a sentence. On a thread of its own, one call at a time. */
    int (*store_pickle)(void *ctx, struct as_str name, struct as_str content, struct as_buf *err);
    struct as_control_events *events;
    void *ctx;
};

/* Answers and frees k, which is also required if the client has gone. err 0: `text` is the answer,
 * JSON or YAML by the verb. AS_ESTALE: `text` is the answer in JSON. Otherwise AS_E…, and `text` is
 * the error, one line or several. */
void as_control_answer(struct as_control_call *k, int err, const struct as_buf *text);
/* gone: called if the client goes before its answer. k must still be answered. */
void as_control_set_on_gone(struct as_control_call *k, void (*gone)(void *arg), void *arg);

void as_control_show(struct as_exchange *x, const struct as_rest_match *m);
void as_control_stream_events(struct as_exchange *x, const struct as_rest_match *m); /* …/events */
void as_control_config(struct as_exchange *x, const struct as_rest_match *m);
void as_control_history(struct as_exchange *x, const struct as_rest_match *m);
void as_control_deploy(struct as_exchange *x, const struct as_rest_match *m);
void as_control_upload(struct as_exchange *x, const struct as_rest_match *m);
void as_control_deploy_one(struct as_exchange *x, const struct as_rest_match *m);
void as_control_delete(struct as_exchange *x, const struct as_rest_match *m);
void as_control_scale(struct as_exchange *x, const struct as_rest_match *m);
void as_control_restart(struct as_exchange *x, const struct as_rest_match *m);
void as_control_rollback(struct as_exchange *x, const struct as_rest_match *m);

#endif
