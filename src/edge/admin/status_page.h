/* edge/admin/status_page.h — what the status page shows: everything that the dispatcher knows or
 * was told.
 *
 * Assembled by app on the dispatch loop; the supervisor's word on each process is kept here, the
 * rest is asked from the fleet and the edges when somebody looks. Thread: the dispatch loop.
 */
#ifndef AS_EDGE_STATUS_PAGE_H
#define AS_EDGE_STATUS_PAGE_H

#include "base/buf.h"
#include "edge/edge.h"

#define AS_STATUS_PAGE_EDGES 65u /* of 64 loops, and of the management door */

struct as_status_page_process { /* one replica's process, as the supervisor tells it */
    struct as_list node;
    char *replica, *deployment, *state, *reason;
    uint32_t pid, restarts;
    int pidfd;   /* of pid, which may be another process's later; -1: there is none */
    bool ranked; /* rank and world_size were told */
    uint32_t rank, world_size;
};

struct as_status_page_status { /* of a deployment, or, its name being "", of an application */
    struct as_list node;
    char *application, *deployment, *status, *trigger, *message;
    as_ns since;
    int64_t wanted; /* replicas that there are to be; AS_STATUS_PAGE_UNKNOWN; of a deployment */
    /* while a page is written: the deployment is on it; the worst of the application's are */
    bool is_listed;
    const char *worst; /* NULL: none is worse than the controller says */
};
#define AS_STATUS_PAGE_UNKNOWN (-1)

struct as_status_page {
    struct as_fleet *fleet;
    struct as_edge
        *edges[AS_STATUS_PAGE_EDGES]; /* one per loop, then that of the management door */
    uint32_t n_edges, n_loops;
    const struct as_edge_budgets *budgets;
    struct as_list processes, statuses;
    as_ns started; /* of the dispatcher */
    bool draining;
};

void as_status_page_init(struct as_status_page *b, struct as_fleet *fleet,
                         const struct as_edge_budgets *budgets, as_ns now);
void as_status_page_fini(struct as_status_page *b);
void as_status_page_remove(struct as_status_page *b,
                           struct as_str replica); /* there is no such replica */
/* Sets or replaces the process of that replica name; strings are copied. */
void as_status_page_process(struct as_status_page *b, struct as_str replica,
                            struct as_str deployment, struct as_str state, struct as_str reason,
                            uint32_t pid, uint32_t restarts);

/* Of a replica that is known; else nothing happens. */
void as_status_page_set_rank(struct as_status_page *b, struct as_str replica, uint32_t rank,
                             uint32_t world_size);
/* text: status, trigger, message, a space between; empty: it is there no longer. Strings are
 * copied. wanted: replicas, or AS_STATUS_PAGE_UNKNOWN. */
void as_status_page_status(struct as_status_page *b, struct as_str application,
                           struct as_str deployment, struct as_str text, as_ns since,
                           int64_t wanted);

/* The application of a deployment of ours; "" else. Valid until a status is set. */
struct as_str as_status_page_application(struct as_status_page *b, struct as_str deployment);

void as_status_page_json(struct as_status_page *b, as_ns now, struct as_buf *out); /* /status */
/* board_text.c: /status?format=text */
void as_status_page_text(struct as_status_page *b, as_ns now, struct as_buf *out);
/* board_workers.c: every worker, also the processes that have not connected; /workers and
 * /workers?format=text */
void as_status_page_workers_json(struct as_status_page *b, as_ns now, struct as_buf *out);
void as_status_page_workers_text(struct as_status_page *b, as_ns now, struct as_buf *out);
/* board_probe.c: for load balancers. Whether requests should come here: models are known, and the
 * server does not drain. /-/healthz has a word on it, /-/routes the path of each model and the
 * application that serves its default version ("": workers that joined). */
bool as_status_page_health(struct as_status_page *b, struct as_buf *out);
bool as_status_page_routes(struct as_status_page *b, struct as_buf *out);
void as_status_page_metrics(struct as_status_page *b, as_ns now,
                            struct as_buf *out); /* /metrics, Prometheus text 0.0.4 */

/* --- for the files of the board --- */

/* A deployment as people are told of it: what the dispatcher has of it, or nothing yet, and the
 * controller's word, which may be older than that. */
struct as_status_page_deployment {
    struct as_deployment *deploy; /* NULL: none of its replicas has registered */
    const struct as_status_page_status
        *status; /* NULL: none of ours, workers from outside serve it */
    struct as_str name;
    bool down;
    uint32_t ready, connected;
    int64_t wanted;      /* AS_STATUS_PAGE_UNKNOWN, also where it is none of ours */
    const char *word;    /* status->status, but for HEALTHY where no replica is ready; "" */
    const char *message; /* likewise; valid until the next one */
};
void as_status_page_each_deployment(struct as_status_page *b,
                                    void (*fn)(void *arg,
                                               const struct as_status_page_deployment *d),
                                    void *arg);
const struct as_status_page_process *as_status_page_find(const struct as_status_page *b,
                                                         struct as_str replica);
uint64_t as_status_page_connections(const struct as_status_page *b); /* that are open */
uint64_t as_status_page_closed_for(const struct as_status_page *b,
                                   uint32_t why); /* an as_close_reason */

#endif
