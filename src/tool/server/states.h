/* tool/server/states.h — what a server serves and how that is, put together from its events.
 *
 * The events of GET /api/serve/events (edge/admin/control_events.h): first all that there is, then
 * SYNCED, then each change. Pure; the server's texts are copied, and shown without what could
 * harm a terminal.
 */
#ifndef AS_TOOL_STATES_H
#define AS_TOOL_STATES_H

#include "base/buf.h"

enum as_state_kind { AS_STATE_APPLICATION, AS_STATE_DEPLOYMENT, AS_STATE_REPLICA };

struct as_state {
    enum as_state_kind kind;
    char *application, *deployment, *replica; /* "" above its kind */
    char *status, *message;
    int64_t target; /* DEPLOYMENT: replicas that there are to be */
    int64_t
        generation; /* DEPLOYMENT: the last one that changed it; 0: not told. No news by itself */
    int64_t pid, rank;      /* REPLICA: -1: none */
    bool rolled_back;       /* DEPLOYMENT: the last update failed, and what was before is served */
    uint32_t stream_number; /* as_states_restart that it was told after */
};

struct as_states {
    struct as_state *
        *all; /* each application, behind it its deployments, behind each its replicas */
    uint32_t n, cap, stream_number;
    bool synced;           /* all that there was has been told */
    struct as_state *gone; /* of the last call */
};

void as_states_init(struct as_states *s);
void as_states_fini(struct as_states *s);
/* What follows is told from the beginning: another stream begins. What is known stays until it is
 * told again; behind SYNCED as_states_next_missing has what was not. */
void as_states_restart(struct as_states *s);

enum as_states_result {
    AS_STATES_NOTHING, /* it is known already, or of a kind that we do not know */
    AS_STATES_SYNCED,
    AS_STATES_CHANGED, /* also what is new */
    AS_STATES_GONE,
    AS_STATES_INVALID /* no event of ours */
};
/* The data of one event. *ret_state: what it is about (CHANGED, GONE); until the next call. */
enum as_states_result as_states_event(struct as_states *s, struct as_str json,
                                      const struct as_state **ret_state);

/* The next one that is there no more, until the next call; NULL: no other. */
const struct as_state *as_states_next_missing(struct as_states *s);

const struct as_state *as_states_application(const struct as_states *s, const char *name);
const struct as_state *as_states_deployment(const struct as_states *s, const char *application,
                                            const char *name); /* NULL: there is none */

/* A table of `columns` and at most `lines` (0: all): what does not fit is counted. */
void as_states_table(const struct as_states *s, uint32_t columns, uint32_t lines,
                     struct as_buf *out);
/* One line: "replica shop/ranker/ranker-0: RUNNING, pid 4711". */
void as_states_line(const struct as_state *st, bool gone, struct as_buf *out);

#endif
