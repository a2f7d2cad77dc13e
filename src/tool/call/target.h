/* tool/call/target.h — chooses the server that a command calls, and connects to it.
 *
 * --url names the server. Without it, it is the server of this machine on --port, or the only one
 * that runs under --runtime-dir, as for `anyserve status`. Blocking: for the start of a command.
 */
#ifndef AS_TOOL_TARGET_H
#define AS_TOOL_TARGET_H

#include "conf/option/option.h"

#define AS_TARGET_HOST_MAX 256u

struct as_target {
    char host[AS_TARGET_HOST_MAX];
    uint16_t port;
    char authority[AS_TARGET_HOST_MAX + 16]; /* host:port for HTTP; an IPv6 host is in brackets */
};

/* 0, or AS_EINVALID with a sentence in `why`: --url is not HOST:PORT. */
int as_target_choose(struct as_target *ret_t, const struct as_option_set *o, struct as_buf *why);
/* Parses "HOST:PORT", "HOST" (port 8000) or "[::1]:8000", with or without "grpc://" or "http://".
 * 0, or AS_EINVALID with a sentence in `why`. */
int as_target_parse(struct as_target *ret_t, const char *url, struct as_buf *why);
/* Returns a connected descriptor, or AS_EUNAVAILABLE with the reason and advice in `why`. */
int as_target_connect(const struct as_target *t, const struct as_option_set *o, struct as_buf *why);

/* Appends to the text of a call that ended with this exit code: if a server of this machine did not
 * respond, which of its processes are stopped. */
void as_target_explain(const struct as_option_set *o, int code, struct as_buf *why);

#endif
