/* anyserve/policy.h — a worker that chooses replicas for another deployment: a policy process. Part
 * of anyserve/worker.h, which includes it.
 *
 * The server sends it records of the frame POLICY (docs/protocol/link.md, section 19): the replicas
 * that there are, and questions which of them should get a request. It answers with records, over
 * the link by which the question came. The library does not look into either.
 *
 * What is said in worker.h about threads and errors holds here, too.
 */
#ifndef ANYSERVE_POLICY_H
#define ANYSERVE_POLICY_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct as_worker;
struct as_worker_policy; /* records that have come; the caller's until it frees them */

/* The oldest records that were not taken yet; NULL: there are none. From the first call of this
 * function or of as_worker_send_policy on, the records that come are kept, and as_worker_wait and
 * as_worker_poll return 0 while there are some. Those of a link that has ended are dropped. Runner.
 */
struct as_worker_policy *as_worker_next_policy(struct as_worker *w);
/* The link by which they came: a number that no other link of this worker has. */
uint64_t as_worker_policy_origin(const struct as_worker_policy *p);
struct as_str as_worker_policy_records(const struct as_worker_policy *p);
void as_worker_policy_free(struct as_worker_policy *p); /* any thread; p may be NULL */

#define AS_WORKER_POLICY_BYTES ((size_t)1 << 20)
/* Sends records by the link of that number; 0: by each link, also by those to come, in place of
 * what was sent so before. 0; AS_ECANCELLED: that link has ended; AS_EINVALID: no bytes, or more
 * than AS_WORKER_POLICY_BYTES, or no multiple of 8. Any thread. */
int as_worker_send_policy(struct as_worker *w, uint64_t origin, struct as_str records);

#ifdef __cplusplus
}
#endif

#endif
