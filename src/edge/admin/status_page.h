/* edge/admin/status_page.h — /status, /workers and /metrics: the state of the server as JSON and
 * text.
 *
 * Holds what the supervisor and the controller report about processes, applications and
 * deployments. The rest is read from the fleet and the edges when a page is requested.
 * status_page.c: the state and its JSON. status_page_text.c, status_page_workers.c,
 * status_page_probe.c, metrics.c: the other pages. Thread: the dispatch loop.
 */
#ifndef AS_EDGE_STATUS_PAGE_H
#define AS_EDGE_STATUS_PAGE_H

#include "base/buf.h"
#include "edge/edge.h"

#define AS_STATUS_PAGE_EDGES 65u /* 64 loops and the management interface */

struct as_status_page_process { /* one replica's process, as reported by the supervisor */
    struct as_list node;
    char *replica, *deployment, *state, *reason;
    uint32_t pid, restarts;
    int pidfd;   /* of pid, which may be reused later; -1: none */
    bool ranked; /* rank and world_size are set */
    uint32_t rank, world_size;
};

struct as_status_page_status { /* of a deployment; of an application if `deployment` is "" */
    struct as_list node;
    char *application, *deployment, *status, *trigger, *message;
    as_ns since;
    int64_t wanted; /* a deployment's target number of replicas, or AS_STATUS_PAGE_UNKNOWN */
    /* used while a page is written */
    bool is_listed;    /* a deployment that is on the page */
    const char *worst; /* the worst status of an application's deployments; NULL: none is worse than
                          `status` */
};
#define AS_STATUS_PAGE_UNKNOWN (-1)

/* Who may come in from other machines. clear_text, anybody and status_anybody are worth a warning.
 */
struct as_status_page_exposure {
    bool beyond_loopback; /* a listener for clients is bound to an address beyond the loopback … */
    bool clear_text;      /* … in clear text */
    bool anybody;         /* … and asks for neither a key nor a certificate */
    bool status_anybody;  /* the same of the status port */
};

struct as_status_page {
    struct as_fleet *fleet;
    struct as_edge *edges[AS_STATUS_PAGE_EDGES]; /* one per loop, then the management interface's */
    uint32_t n_edges, n_loops;
    const struct as_edge_budgets *budgets;
    struct as_list processes, statuses;
    as_ns started;             /* of the dispatcher */
    struct as_tls_server *tls; /* of the client port; NULL: clear text */
    struct as_status_page_exposure exposure;
    uint64_t control_refusals; /* of the control API, as the controller has said */
    bool draining;
};

void as_status_page_init(struct as_status_page *b, struct as_fleet *fleet,
                         const struct as_edge_budgets *budgets, as_ns now);
void as_status_page_fini(struct as_status_page *b);
void as_status_page_remove(struct as_status_page *b, struct as_str replica);
/* Sets the process of a replica; strings are copied. */
void as_status_page_set_process(struct as_status_page *b, struct as_str replica,
                                struct as_str deployment, struct as_str state, struct as_str reason,
                                uint32_t pid, uint32_t restarts);

/* A no-op for unknown replicas. */
void as_status_page_set_rank(struct as_status_page *b, struct as_str replica, uint32_t rank,
                             uint32_t world_size);
/* Sets the status of a deployment, or of an application (deployment ""). text: status, trigger and
 * message, separated by spaces; "" removes it. Strings are copied. wanted: target number of
 * replicas, or AS_STATUS_PAGE_UNKNOWN. */
void as_status_page_set_status(struct as_status_page *b, struct as_str application,
                               struct as_str deployment, struct as_str text, as_ns since,
                               int64_t wanted);

/* status_page_text.c: appends a sentence for the log and for people; nothing if there is nothing to
 * warn of. */
void as_status_page_describe_exposure(const struct as_status_page_exposure *e, struct as_buf *out);
/* As health reports the server to clients. */
bool as_status_page_is_ready(const struct as_status_page *b);
void as_status_page_json(struct as_status_page *b, as_ns now, struct as_buf *out); /* /status */
/* status_page_text.c: /status?format=text */
void as_status_page_text(struct as_status_page *b, as_ns now, struct as_buf *out);
/* status_page_workers.c: /workers and /workers?format=text: all workers, also processes that have
 * not connected */
void as_status_page_workers_json(struct as_status_page *b, as_ns now, struct as_buf *out);
void as_status_page_workers_text(struct as_status_page *b, as_ns now, struct as_buf *out);
/* status_page_probe.c: for load balancers. True: send requests here, since models are known and the
 * server does not drain. /-/healthz is a word, /-/routes the path of each model with the
 * application that serves its default version. */
bool as_status_page_health(struct as_status_page *b, struct as_buf *out);
bool as_status_page_routes(struct as_status_page *b, struct as_buf *out);
void as_status_page_metrics(struct as_status_page *b, as_ns now,
                            struct as_buf *out); /* /metrics, Prometheus text 0.0.4 */

/* --- for the files of this module --- */

/* A deployment as it is displayed: the dispatcher's state, if any replica has registered, and the
 * controller's status, which may be older. */
struct as_status_page_deployment {
    struct as_deployment *deploy; /* NULL: none of its replicas has registered */
    const struct as_status_page_status
        *status;        /* NULL: unknown to the controller, its workers
                                                           registered themselves */
    struct as_str name; /* its id */
    bool down;
    uint32_t ready, connected;
    int64_t wanted;            /* target number of replicas, or AS_STATUS_PAGE_UNKNOWN */
    const char *shown_status;  /* status->status; UNHEALTHY if that is HEALTHY and no replica is
                                  ready; "" without a status */
    const char *shown_message; /* its message; valid until the next deployment */
};
void as_status_page_each_deployment(struct as_status_page *b,
                                    void (*fn)(void *arg,
                                               const struct as_status_page_deployment *d),
                                    void *arg);
struct as_status_page_process *as_status_page_find(const struct as_status_page *b,
                                                   struct as_str replica); /* or NULL */
/* The sum over all edges of the counter at this offset in as_edge_stat. */
uint64_t as_status_page_sum(const struct as_status_page *b, size_t offset);
uint64_t as_status_page_connections(const struct as_status_page *b); /* open ones */
uint64_t as_status_page_closed_for(const struct as_status_page *b,
                                   uint32_t why); /* why: as for as_close_reason_name */

#endif
