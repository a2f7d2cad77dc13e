/* edge/infer/reroute.h — a request that goes to another version than the default one, or another
 * than was asked requested: canaries, and deployments that another one falls back to.
 * core/registry/traffic.h decides.
 *
 * Only for models that are `routed`. What a request falls back from is kept until its answer: where
 * nobody takes it, its client hears the requested refusal. Thread: the loop's.
 */
#ifndef AS_EDGE_REROUTE_H
#define AS_EDGE_REROUTE_H

#include "edge/exchange/exchange.h"

/* In the request's arena. */
struct as_reroute {
    const struct as_model *requested; /* as it was asked */
    const struct as_model *next;      /* who takes it when x->model does not; NULL: nobody */
    uint32_t n_refused;               /* deployments that did not */
    bool may_have_run;                /* an execution was lost somewhere on the way */
    bool pending;                     /* it goes on as soon as the fleet has released it */
    struct as_param *params;          /* room for those of an answer, and one more */
    uint32_t cap;
    int err;           /* the requested refusal … */
    as_ns retry_after; /* … and what it said */
};

/* Before the inputs are checked: the default version may give way to a canary that takes them. */
void as_reroute_choose_canary(struct as_exchange *x);
/* The call is filled for x->model: says in it whether somebody else would take it. */
void as_reroute_prepare(struct as_exchange *x);
/* An error of x->call that is to be answered. True: it goes elsewhere with its release, and nobody
 * hears of the error. False: what is to be told is in x->call and x->model. */
bool as_reroute_after_error(struct as_exchange *x);
/* The fleet has released a call that goes on. True: x->model is the next one, and the caller
 * submits it there. False: it cannot, as more of its inputs came meanwhile, and its client, if it
 * is still there, is to be told of what is in x->call and x->model. */
bool as_reroute_to_next(struct as_exchange *x);
/* Of an answer: a parameter with the deployment that gave it, where that is not the one asked. */
#define AS_REROUTE_PARAM "anyserve_served_by"
void as_reroute_add_param(struct as_exchange *x, struct as_oip_response *r);

/* The request names a version. */
static inline bool as_reroute_names_version(const struct as_exchange *x)
{
    return x->grpc ? x->infer.version.n : x->rest.version.n;
}

#endif
