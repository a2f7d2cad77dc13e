/* tool/call/target.h — chooses the server that a command calls, and connects to it.
 *
 * --url names the server. Without it, it is the server of this machine on --port, or the only one
 * that runs under --runtime-dir, as for `anyserve status`. The scheme of --url, --tls, or an option
 * that only TLS has (--ca, --cert, --key), makes the calls go by TLS. Blocking: for the start of a
 * command.
 */
#ifndef AS_TOOL_TARGET_H
#define AS_TOOL_TARGET_H

#include "conf/option/option.h"
#include "io/tls/tls_client.h"

#define AS_TARGET_HOST_MAX 256u

enum as_target_scheme { AS_TARGET_ANY, AS_TARGET_CLEAR, AS_TARGET_TLS };

struct as_target {
    enum as_target_scheme scheme; /* that of the URL; any: it has none */
    struct as_tls_client *tls;    /* NULL: clear text */
    char host[AS_TARGET_HOST_MAX];
    uint16_t port;
    char authority[AS_TARGET_HOST_MAX + 16]; /* host:port for HTTP; an IPv6 host is in brackets */
};

/* 0, or AS_EINVALID with a sentence in `why`: --url is not HOST:PORT, the options contradict each
 * other, or a file of TLS cannot be used. ret_t: zero-initialised; call as_target_fini also after
 * an error. */
int as_target_choose(struct as_target *ret_t, const struct as_option_set *o, struct as_buf *why);
void as_target_fini(struct as_target *t);
/* Parses "HOST:PORT", "HOST" (port 8000) or "[::1]:8000", with or without "grpc://" or "http://",
 * or "grpcs://" or "https://" for TLS. Leaves ret_t->tls alone. 0, or AS_EINVALID with a sentence
 * in `why`. */
int as_target_parse(struct as_target *ret_t, const char *url, struct as_buf *why);
/* Returns a connected descriptor, or AS_EUNAVAILABLE with the reason and advice in `why`. */
int as_target_connect(const struct as_target *t, const struct as_option_set *o, struct as_buf *why);

/* Appends to the text of a call that ended with this exit code: if a server of this machine did not
 * respond, which of its processes are stopped. */
void as_target_explain(const struct as_option_set *o, int code, struct as_buf *why);

#endif
