/* edge/exchange/offload.h — large work of one request, done on the edge's helper thread
 * (io/loop/helper.h).
 *
 * JSON is parsed and written at some hundred MB/s: a body at the size limit would block the loop
 * for a fifth of a second. Work on more than AS_OFFLOAD_MIN bytes is therefore done on the helper.
 * Until it is done the exchange stays in memory even if its client goes, and only the helper may
 * use its arena, its body and whatever else the work needs. Thread: the edge's loop, except `work`.
 */
#ifndef AS_EDGE_OFFLOAD_H
#define AS_EDGE_OFFLOAD_H

#include "edge/exchange/exchange.h"

#define AS_OFFLOAD_MIN (256u << 10) /* bytes of JSON: about a millisecond of parsing */

struct as_offload { /* in the exchange's arena */
    struct as_exchange *x;
    void (*work)(struct as_offload *a); /* on the helper's thread; must not answer or log */
    void (*done)(struct as_offload *a); /* on the loop, later; not if the client has gone */
    struct as_helper_job job;
};

void as_offload_start(struct as_offload *a);  /* x, work and done must be set */
void as_offload_cancel(struct as_offload *a); /* `done` will not be called; NULL is fine */

#endif
