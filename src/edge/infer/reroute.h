/* edge/infer/reroute.h — sends a request to another version: canaries, and deployments to fall back
 * to. core/registry/traffic.h decides.
 *
 * Only for models that are `routed`. If every deployment refuses the request, its client gets the
 * first refusal. Thread: the loop's.
 */
#ifndef AS_EDGE_REROUTE_H
#define AS_EDGE_REROUTE_H

#include "edge/exchange/exchange.h"

/* In the request's arena. */
struct as_reroute {
    const struct as_model *requested; /* the model of the request */
    const struct as_model *next;      /* the fallback of x->model; NULL: none */
    uint32_t n_refused;               /* deployments that have refused it */
    bool may_have_run;                /* a worker may have executed it */
    bool pending;                     /* to be submitted again when the fleet has released it */
    struct as_param *params;          /* array for the parameters of an answer, and one more */
    uint32_t cap;
    int err;                             /* the first refusal */
    as_ns retry_after;                   /* of the first refusal … */
    struct as_backpressure backpressure; /* … likewise */
};

/* Before the inputs are checked: may replace the default version by a canary that accepts them. */
void as_reroute_choose_canary(struct as_exchange *x);
/* The call was filled for x->model: sets in it whether there is a fallback. */
void as_reroute_prepare(struct as_exchange *x);
/* Handles an error of x->call. True: it will be submitted to the fallback after its release, so the
 * error must not be sent. False: send the error, which is in x->call and x->model. */
bool as_reroute_after_error(struct as_exchange *x);
/* The fleet has released a call that is pending. True: submit it to x->model, which is the
 * fallback. False: it cannot be submitted, since further inputs were sent or the client has gone;
 * send the error, which is in x->call and x->model. */
bool as_reroute_to_next(struct as_exchange *x);
/* A parameter of answers of fallbacks: the name of the deployment that has answered. */
#define AS_REROUTE_PARAM "anyserve_served_by"
void as_reroute_add_param(struct as_exchange *x, struct as_oip_response *r);

/* The request names a version. */
static inline bool as_reroute_names_version(const struct as_exchange *x)
{
    return x->grpc ? x->infer.version.n : x->rest.version.n;
}

#endif
