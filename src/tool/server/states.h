/* tool/server/states.h — a table of applications, deployments and replicas, built from a server's
 * events.
 *
 * The events come from GET /api/serve/events (edge/admin/control_events.h): first the current state
 * of everything, then SYNCED, then each change. The server's texts are copied, and printed in a
 * form that is safe for a terminal. Pure.
 */
#ifndef AS_TOOL_STATES_H
#define AS_TOOL_STATES_H

#include "base/buf.h"

enum as_state_kind { AS_STATE_APPLICATION, AS_STATE_DEPLOYMENT, AS_STATE_REPLICA };

struct as_state {
    enum as_state_kind kind;
    char *application, *deployment, *replica; /* "" for the kinds above */
    char *status, *message;
    int64_t target;     /* DEPLOYMENT: target number of replicas */
    int64_t generation; /* DEPLOYMENT: the generation that changed it last; 0: unknown. A new one
                           alone is no change */
    int64_t pid, rank;  /* REPLICA: -1: none */
    bool rolled_back;   /* DEPLOYMENT: the last update failed, the previous version is served */
    uint32_t stream_number; /* the stream that sent its last event */
};

struct as_states {
    struct as_state *
        *all; /* an application is followed by its deployments, each of them by its replicas */
    uint32_t n, cap, stream_number;
    bool synced;              /* SYNCED has come */
    struct as_state *removed; /* the state that the last call removed */
};

void as_states_init(struct as_states *s);
void as_states_fini(struct as_states *s);
/* Call it before the events of another stream, which begins with the current state of everything.
 * The known states stay. After SYNCED, as_states_next_missing removes those that did not come
 * again. */
void as_states_restart(struct as_states *s);

enum as_states_result {
    AS_STATES_NOTHING, /* nothing has changed, or the kind is unknown */
    AS_STATES_SYNCED,
    AS_STATES_CHANGED, /* changed or new */
    AS_STATES_GONE,
    AS_STATES_INVALID /* not an event of the server */
};
/* Processes the data of one event. *ret_state: the state that it is about (CHANGED, GONE), valid
 * until the next call. */
enum as_states_result as_states_event(struct as_states *s, struct as_str json,
                                      const struct as_state **ret_state);

/* Removes the next state that the current stream did not send, and returns it; it is valid until
 * the next call. NULL: there are no more. */
const struct as_state *as_states_next_missing(struct as_states *s);

const struct as_state *as_states_application(const struct as_states *s, const char *name);
const struct as_state *as_states_deployment(const struct as_states *s, const char *application,
                                            const char *name); /* NULL: not found */

/* Prints a table with `columns` and at most `lines` (0: any number); states that do not fit are
 * counted in the last line. */
void as_states_table(const struct as_states *s, uint32_t columns, uint32_t lines,
                     struct as_buf *out);
/* Prints one line: "replica shop/ranker/ranker-0: RUNNING, pid 4711". */
void as_states_line(const struct as_state *st, bool gone, struct as_buf *out);

#endif
