/* tool/call/api_key.h — the API key that `anyserve infer` and `bench` send: of --api-key-file, or
 * of the environment's ANYSERVE_API_KEY.
 *
 * Never of the command line, which other users can read. Blocking calls.
 */
#ifndef AS_TOOL_API_KEY_H
#define AS_TOOL_API_KEY_H

#include "base/memory/arena.h"
#include "conf/option/option.h"

#define AS_API_KEY_MAX      1024u /* bytes */
#define AS_API_KEY_VARIABLE "ANYSERVE_API_KEY"

/* Reads the key of --api-key-file, which is one line of 1 to AS_API_KEY_MAX visible ASCII
 * characters, and else that of the environment. *ret_key is in the arena; empty: there is none. 0;
 * AS_EINVALID with a sentence in `why` that does not have the key. */
int as_api_key_read(const struct as_option_set *o, struct as_arena *a, struct as_str *ret_key,
                    struct as_buf *why);

#endif
