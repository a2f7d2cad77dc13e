/* ctl/message/replica_context.h — what a replica is told of itself, on its way to it.
 *
 * A short one (docs/PROTOCOL.md, section 10) travels in the environment, or in a question. A
 * user_config may be a megabyte: more than a variable of the environment, a control message and a
 * CONTROL frame take. A long one therefore lies in a file in the server's folder, which only our
 * user can enter, until it was read. Blocking calls.
 */
#ifndef AS_CTL_REPLICA_CONTEXT_H
#define AS_CTL_REPLICA_CONTEXT_H

#include "base/buf.h"
#include "base/err.h"

#define AS_REPLICA_CONTEXT_INLINE 8192u /* bytes; longer ones lie in a file */
#define AS_REPLICA_CONTEXT_PREFIX "context-"

/* For the start: "ANYSERVE_CONTEXT=…", or the file is written and it is
 * "ANYSERVE_CONTEXT_FILE=PATH". 0; AS_EIO: the file could not be written, errno says why. */
int as_replica_context_env(const char *folder, const char *replica, struct as_str json,
                           struct as_buf *out);
/* For a running one: the object itself, or {"context_file": PATH}. */
int as_replica_context_json(const char *folder, const char *replica, struct as_str json,
                            struct as_buf *out);
/* It was read, or will not be. */
void as_replica_context_remove(const char *folder, const char *replica);

#endif
