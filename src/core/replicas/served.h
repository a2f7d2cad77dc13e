/* core/replicas/served.h — one thing that is served, as the control API shows it: an application, a
 * deployment or a replica. Pure. */
#ifndef AS_CORE_SERVED_H
#define AS_CORE_SERVED_H

#include "core/replicas/plan.h"

enum as_served_kind { AS_SERVED_APPLICATION, AS_SERVED_DEPLOYMENT, AS_SERVED_REPLICA };

struct as_served { /* valid during the call that it is passed to */
    enum as_served_kind kind;
    struct as_str application, deployment, replica; /* names; "" if above its kind */
    struct as_str id;                               /* of the deployment (base/id.h), likewise */
    struct as_str status, message;

    /* DEPLOYMENT */
    const char *trigger; /* of its status */
    as_ns since;         /* its status has its value */
    uint32_t target;     /* target number of replicas */
    uint32_t declared;   /* num_replicas */
    bool ingress;        /* handles of its application call it */
    bool rolled_back;    /* the last update failed, the version before it is served */
    uint64_t generation; /* the last one that changed it */
    uint64_t healthy;    /* the last one in which it was healthy; 0: none */
    const char *code;    /* which code is served: "live", or the name of its copy */

    /* REPLICA */
    uint32_t pid;       /* its process; 0: none */
    uint32_t rank;      /* or AS_RANK_NONE */
    uint32_t starts;    /* number of processes so far */
    int64_t started_ms; /* Unix time at which its process began; 0: not known, or none */
};
typedef void as_served_fn(void *arg, const struct as_served *s);

#endif
