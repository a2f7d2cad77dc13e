/* edge/admin/control_events.h — GET /api/serve/events: streams changes of applications, deployments
 * and replicas.
 *
 * The answer is an endless stream of server-sent events (WHATWG HTML, 9.2). The data of each event
 * is one JSON object on one line, about one application, deployment or replica:
 *
 *   {"kind":"replica","application":"shop","deployment":"ranker","replica":"ranker-0",
 *    "status":"RUNNING","message":"","pid":4711,"rank":0,"starts":1}
 *
 * First there is an event for each object, then {"kind":"synced"}. After that there is an event
 * whenever a field of an object changes, with the status GONE when it is removed. A change that is
 * undone within 20 ms may not be reported. A comment is sent as a heartbeat. A client that does not
 * read is disconnected. Thread: the loop's.
 */
#ifndef AS_EDGE_CONTROL_EVENTS_H
#define AS_EDGE_CONTROL_EVENTS_H

#include "base/log.h"
#include "edge/admin/control.h"

struct as_control_events;

struct as_control_events_conf {
    as_ns heartbeat;     /* interval of the comments */
    uint64_t max_unsent; /* most unsent bytes of one client, beside the first events */
};

/* api: the source of the state; must outlive the events. */
int as_control_events_new(struct as_control_events **ret_e, struct as_loop *loop,
                          const struct as_control *api, const struct as_control_events_conf *conf,
                          const struct as_log *log);
/* Something may have changed. Does nothing while there are no listeners. */
void as_control_events_changed(struct as_control_events *e);
/* After as_edge_stop, when there are no listeners. The loop must run once more before _free. */
void as_control_events_close(struct as_control_events *e);
void as_control_events_free(struct as_control_events *e);

#endif
