/* edge/edge_own.h — what the files of the client side share: the edge, its connections, its pool.
 */
#ifndef AS_EDGE_EDGE_OWN_H
#define AS_EDGE_EDGE_OWN_H

#include "edge/edge.h"
#include "io/sock.h"

#define AS_EDGE_RX        (128u << 10) /* bytes of one read from a connection */
#define AS_EDGE_LISTENERS 8u

struct as_exchange;

struct as_edge {
    struct as_loop *loop;
    struct as_client client;
    struct as_edge_conf conf;
    struct as_budget *budget;
    const struct as_log *log;
    struct as_edge_stat stat;
    struct as_list conns;
    uint32_t n_conns;
    struct as_exchange *pool;                    /* free ones */
    struct as_sock listeners[AS_EDGE_LISTENERS]; /* own duplicates of the shared descriptors */
    uint32_t n_listeners;
    struct as_timer sweep; /* time-outs of connections; set while there are any */
    bool draining;
    as_ns drain_final; /* when the final GOAWAY goes out; AS_NEVER: sent */
    void (*drained)(void *arg);
    void *drained_arg;
    uint8_t *rx; /* read buffer, shared: h2 copies what it keeps */
};

struct as_conn {
    struct as_sock sock;
    struct as_task flush;
    struct as_outq out;
    struct as_edge *edge;
    struct as_h2 *h2;
    struct as_list node;
    as_ns opened, active; /* active: last time that a request was there */
    uint32_t n_open;      /* requests on it */
    bool greeted;         /* had a complete request header */
    bool ending;          /* close when everything is written */
};

/* A connected socket; the connection lives until it ends by itself. */
void as_conn_accept(struct as_edge *e, int fd);
void as_conn_close(struct as_conn *c);     /* at once */
void as_conn_touch(struct as_conn *c);     /* h2 has something to say */
void as_edge_conn_gone(struct as_edge *e); /* bookkeeping after a connection */

extern const struct as_h2_ops as_exchange_ops; /* the requests' side of h2's callbacks */

#endif
