/* app/client/event_stream.h — what a server serves, followed by its events for as long as a command
 * wants.
 *
 * A stream that breaks is begun again: the controller may be killed at any moment, and the next one
 * is there in milliseconds. Blocking calls, for commands.
 */
#ifndef AS_APP_FOLLOW_H
#define AS_APP_FOLLOW_H

#include "app/client/control_client.h"
#include "tool/server/states.h"

#define AS_EVENT_STREAM_TARGET "/api/serve/events"

struct as_event_stream {
    struct as_states states;
    /* Each change, also of what there was in the beginning. May be NULL. */
    void (*on_change)(void *ctx, const struct as_state *st, bool gone);
    void (*on_raw)(void *ctx, struct as_str data); /* each event as it came; may be NULL */
    /* All that has come was told, and the table is whole. False: that is enough. */
    bool (*on_caught_up)(void *ctx, const struct as_states *s);
    void *ctx;
    int stop_fd;       /* as in as_control_client_stream */
    as_ns deadline;    /* likewise */
    bool has_received; /* something, on this stream */
    int code;          /* the exit code of a command that cannot go on, with the ends that fail */
};

/* Zeroed but for what the caller sets; as_event_stream_fini in any case. STOPPED, SIGNAL, DEADLINE;
 * ABSENT, SILENT, REFUSED, BROKEN: there is no server, or none any more, or it does not answer, or
 * does not tell; stderr says which. */
enum as_control_client_end as_event_stream_run(struct as_event_stream *f,
                                               const struct as_option_set *opts);
void as_event_stream_fini(struct as_event_stream *f);

#endif
