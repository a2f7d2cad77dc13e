/* app/client/event_stream.h — follows the events of a server's control API.
 *
 * A table holds the state of all applications, deployments and replicas, and is kept up to date by
 * the events. A stream that breaks is opened again: the controller may be killed at any moment, and
 * the next one answers within milliseconds. Blocking calls, for commands.
 */
#ifndef AS_APP_EVENT_STREAM_H
#define AS_APP_EVENT_STREAM_H

#include "app/client/control_client.h"
#include "tool/server/states.h"

#define AS_EVENT_STREAM_TARGET "/api/serve/events"

struct as_event_stream {
    struct as_states states;
    /* Called for each change, and for each row that exists at the start. May be NULL. */
    void (*on_change)(void *ctx, const struct as_state *st, bool gone);
    void (*on_raw)(void *ctx, struct as_str data); /* each event as it was received; may be NULL */
    /* All events that have come so far were handled, and the table is complete. False: stop. */
    bool (*on_caught_up)(void *ctx, const struct as_states *s);
    void *ctx;
    int stop_fd;       /* as in as_control_client_stream */
    as_ns deadline;    /* likewise */
    bool has_received; /* an event, on the current stream */
    int code;          /* the exit code of the command, when the stream ends by an error */
};

/* Runs until a callback, a signal or the deadline ends it (STOPPED, SIGNAL, DEADLINE), or an error,
 * which is printed to stderr (NO_SERVER, SILENT, REFUSED, BROKEN). The caller zeroes *f, sets the
 * callbacks, ctx, stop_fd and deadline, and calls as_event_stream_fini in any case. */
enum as_control_client_end as_event_stream_run(struct as_event_stream *f,
                                               const struct as_option_set *opts);
void as_event_stream_fini(struct as_event_stream *f);

#endif
