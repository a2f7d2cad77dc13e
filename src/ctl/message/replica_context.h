/* ctl/message/replica_context.h — passes its context to a replica: who it is, and its user_config.
 *
 * A short context (docs/protocol/link.md, section 10) is passed in the environment, or in the text
 * of ASK. A user_config may have a megabyte: more than an environment variable, a control message
 * or a CONTROL frame takes. A long context is therefore written to a file in the server's folder,
 * which only our user can enter, until the replica has read it. Blocking calls.
 */
#ifndef AS_CTL_REPLICA_CONTEXT_H
#define AS_CTL_REPLICA_CONTEXT_H

#include "base/buf.h"
#include "base/err.h"

#define AS_REPLICA_CONTEXT_INLINE 8192u /* bytes; a longer one is written to a file */
#define AS_REPLICA_CONTEXT_PREFIX "context-"

/* For a start: appends "ANYSERVE_CONTEXT=…", or writes the file and appends
 * "ANYSERVE_CONTEXT_FILE=PATH". 0, or AS_EIO: the file could not be written, errno says why. */
int as_replica_context_env(const char *folder, const char *replica, struct as_str json,
                           struct as_buf *out);
/* For a running replica: appends the JSON object itself, or {"context_file": PATH}. Returns as
 * above. */
int as_replica_context_json(const char *folder, const char *replica, struct as_str json,
                            struct as_buf *out);
/* Removes the file: it was read, or will not be. */
void as_replica_context_remove(const char *folder, const char *replica);

#endif
