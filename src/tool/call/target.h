/* tool/call/target.h — which server a command talks to, and the way there.
 *
 * --url names it; else it is the one on this machine that --port means, or the only one that runs
 * under --runtime-dir, as for `anyserve status`. Blocking, for start-up.
 */
#ifndef AS_TOOL_TARGET_H
#define AS_TOOL_TARGET_H

#include "conf/option.h"

#define AS_TARGET_HOST_MAX 256u

struct as_target {
    char host[AS_TARGET_HOST_MAX];
    uint16_t port;
    char authority[AS_TARGET_HOST_MAX + 16]; /* host:port, as HTTP writes it */
    bool found;                              /* under the runtime directory */
};

/* 0, or AS_EINVALID with a sentence in `why`: --url is not HOST:PORT. */
int as_target_choose(struct as_target *ret_t, const struct as_option_set *o, struct as_buf *why);
/* "HOST:PORT", "HOST" (port 8000), "[::1]:8000", with or without "grpc://" or "http://". */
int as_target_parse(struct as_target *ret_t, const char *url, struct as_buf *why);
/* A connected descriptor, or AS_EUNAVAILABLE with a sentence in `why` that says what to do. */
int as_target_connect(const struct as_target *t, const struct as_option_set *o, struct as_buf *why);

/* Behind the text of a call that ended with this exit code: of a server of this machine that did
 * not answer, which of its processes are stopped. */
void as_target_explain(const struct as_option_set *o, int code, struct as_buf *why);

#endif
