/* tool/bench/load_driver_internal.h — shared by the files of the load driver; private to them.
 *
 *   load_driver.c         connections, timers, the run
 *   load_driver_calls.c   phases and calls
 */
#ifndef AS_TOOL_LOAD_DRIVER_INTERNAL_H
#define AS_TOOL_LOAD_DRIVER_INTERNAL_H

#include "io/loop/tick.h"
#include "io/socket/connect.h"
#include "tool/bench/arrival_schedule.h"
#include "tool/bench/load_driver.h"

/* How late the server's own DEADLINE_EXCEEDED may come. */
#define AS_LOAD_DRIVER_GRACE (100 * AS_MS)

/*  WARM ──warm-up over──► MEASURE ──duration or calls over──► DRAIN ──all answered──► DONE  */
enum as_load_driver_phase {
    AS_LOAD_DRIVER_WARM,
    AS_LOAD_DRIVER_MEASURE,
    AS_LOAD_DRIVER_DRAIN,
    AS_LOAD_DRIVER_DONE
};

struct as_load_driver_connection {
    struct as_load_driver *driver;
    struct as_client_connection client;
    struct as_list calls;  /* calls in flight, oldest first */
    uint32_t free_streams; /* unused streams */
    bool retired;          /* gets no more calls */
    bool reopening;        /* gets no calls until it was opened again */
    bool can_reopen;       /* the server has answered on it, or a call was cancelled */
    struct as_connect_addr addr;
    as_ns opened;
};

struct as_load_driver_call {
    struct as_list node; /* in connection.calls or load_driver.spare_calls */
    struct as_load_driver_connection *connection;
    as_ns due, sent;
    uint32_t stream;
    bool counted;   /* it was due during the measurement */
    bool timed_out; /* it was cancelled at its deadline */
    struct as_model_call model_call;
    /* Of a stream: */
    as_ns response_at;       /* time of the last response; 0: none yet */
    bool has_error;          /* a response was an error */
    char why[AS_TALLY_TEXT]; /* its text */
};

struct as_load_driver {
    const struct as_load_driver_conf *conf;
    struct as_load_driver_result *result;
    struct as_tally *tally;
    struct as_loop *loop;
    struct as_tls_buffer *tls_buffer; /* NULL: clear text */
    struct as_load_driver_connection *connections;
    uint32_t next_connection, alive;
    uint32_t handshaking; /* connections whose handshake is in progress */
    struct as_list spare_calls;
    struct as_tick arrivals;
    struct as_task poll;
    struct as_timer check_timer;
    struct as_arrival_schedule schedule;
    as_ns due; /* when the next call is due */
    enum as_load_driver_phase phase;
    bool running; /* the load; false: connections are being opened, or it is over */
    as_ns phase_end, measure_start, measure_end, progress_at, last_answer;
    uint64_t n_sent;    /* calls of the measurement that were sent */
    uint64_t n_wanted;  /* and how many shall be sent */
    uint64_t in_flight; /* of these, not answered yet */
    struct as_model_call_frame frame;
    struct as_buf body;
    struct as_json *json;  /* NULL over gRPC */
    struct as_arena arena; /* temporary memory for a response */
};

extern const struct as_http_client_ops as_load_driver_ops;

/* Open loop: as_load_driver_send_due is called when the next call is due. */
void as_load_driver_wait_until(struct as_load_driver *d, as_ns due);
void as_load_driver_enter_phase(struct as_load_driver *d, enum as_load_driver_phase to, as_ns now);
/* Enters the phases that are due. A phase ends at its planned time, not when this is called. */
void as_load_driver_enter_due_phases(struct as_load_driver *d, as_ns now);
/* Open loop: sends the calls that are due while streams are free, and sets the timer for the next.
 */
void as_load_driver_send_due(struct as_load_driver *d, as_ns now);
/* Calls for streams that became free. */
void as_load_driver_start_calls(struct as_load_driver_connection *conn, as_ns now);
/* The connection gets no more calls. */
void as_load_driver_retire(struct as_load_driver_connection *conn);
/* Whether it is a connection of HTTP/1.1 that may have ended in the normal way. */
bool as_load_driver_may_reopen(const struct as_load_driver_connection *conn);

/* Called several times for each call, and a phase is seldom over. */
static inline void as_load_driver_advance(struct as_load_driver *d, as_ns now)
{
    if (now >= d->phase_end || d->n_sent == d->n_wanted ||
        (d->phase == AS_LOAD_DRIVER_DRAIN && !d->in_flight) || !d->alive)
        as_load_driver_enter_due_phases(d, now);
}

static inline bool as_load_driver_is_sending(const struct as_load_driver *d)
{
    return d->phase < AS_LOAD_DRIVER_DRAIN && d->alive > 0;
}

#endif
