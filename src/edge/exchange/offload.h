/* edge/exchange/offload.h — the large work of one request, done beside the loop by its helper
 * (io/loop/helper).
 *
 * JSON is read and printed at some hundred MB/s, so that a body at its limit would keep everybody
 * else waiting for a fifth of a second. What is larger than AS_OFFLOAD_MIN is therefore not done in
 * a turn of the loop; the exchange waits, and stays even when its client goes. Until then nobody
 * but the helper touches its arena, its bodies and what else the work needs. Thread: the loop's,
 * but for `work`.
 */
#ifndef AS_EDGE_OFFLOAD_H
#define AS_EDGE_OFFLOAD_H

#include "edge/exchange/exchange.h"

#define AS_OFFLOAD_MIN (256u << 10) /* bytes of text, about what a loop reads in a millisecond */

struct as_offload { /* in the exchange's arena */
    struct as_exchange *x;
    void (*work)(struct as_offload *a); /* on the helper's thread; fails nobody, logs nothing */
    void (*done)(struct as_offload *a); /* in a later turn; not when the client has gone */
    struct as_helper_job job;
};

void as_offload_start(struct as_offload *a);  /* x, work and done are set */
void as_offload_cancel(struct as_offload *a); /* the client has gone; NULL is fine */

#endif
