/* edge/admin/control_events.h — GET /api/serve/events: what is served, told as it changes.
 *
 * An answer that does not end, of server-sent events (WHATWG HTML, 9.2). The data of each is one
 * JSON object without a line break, about one application, deployment or replica:
 *
 *   {"kind":"replica","application":"shop","deployment":"ranker","replica":"ranker-0",
 *    "status":"RUNNING","message":"","pid":4711,"rank":0,"starts":1}
 *
 * First one for each that there is, then {"kind":"synced"}; from then on one whenever any of its
 * fields changes, with the status GONE when it is there no more. What changes and changes back
 * within 20 ms may not be told. When nothing is to be told for a while a comment is. A client that
 * does not read is cut off. Thread: the loop's.
 */
#ifndef AS_EDGE_CONTROL_EVENTS_H
#define AS_EDGE_CONTROL_EVENTS_H

#include "base/log.h"
#include "edge/admin/control.h"

struct as_control_events;

struct as_control_events_conf {
    as_ns heartbeat;     /* between two comments */
    uint64_t max_unsent; /* bytes that wait for one client, beside what it is told first */
};

/* api: its `each` is asked; outlives the events. */
int as_control_events_new(struct as_control_events **ret_e, struct as_loop *loop,
                          const struct as_control *api, const struct as_control_events_conf *conf,
                          const struct as_log *log);
/* Something may have changed. Costs nothing while nobody listens. */
void as_control_events_changed(struct as_control_events *e);
/* After as_edge_stop: nobody listens any more. The loop must run once more before _free. */
void as_control_events_close(struct as_control_events *e);
void as_control_events_free(struct as_control_events *e);

#endif
