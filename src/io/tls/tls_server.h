/* io/tls/tls_server.h — what a server needs to speak TLS: certificates, authorities of clients.
 *
 * Versions 1.2 and 1.3, as io/tls/tls_context says. ALPN: h2 and http/1.1, and nothing else (RFC
 * 7301).
 *
 * The files can be loaded again; sessions that exist keep what they have. Thread: any.
 */
#ifndef AS_IO_TLS_SERVER_H
#define AS_IO_TLS_SERVER_H

#include "io/tls/tls_credentials.h"

enum as_tls_version { AS_TLS_1_2, AS_TLS_1_3 };

/* Paths, which must outlive the server. */
struct as_tls_server_conf {
    const char *const *certs; /* chains; the first one is for clients that name no server that is
                                 known (SNI, RFC 6066 §3) */
    const char *const *keys;  /* the key of each */
    uint32_t n;               /* at least 1 */
    const char *client_ca;    /* clients must send a certificate that one of these has signed; NULL:
                                 they send none */
    struct as_tls_option_names names;
    enum as_tls_version least;
    as_ns ticket_lifetime; /* 0: no session is resumed */
};

struct as_tls_server;

/* Loads no file. */
struct as_tls_server *as_tls_server_new(const struct as_tls_server_conf *conf);
void as_tls_server_free(struct as_tls_server *s); /* NULL is fine */

/* Reads the files. If all have the bytes that were loaded before, nothing changes: sessions can
 * still be resumed. 0; AS_EINVALID, AS_ENOMEM: see err, and what was loaded before stays. */
int as_tls_server_load(struct as_tls_server *s, enum as_tls_expiry expiry, struct as_buf *err);
/* When the first certificate of all chains expires, in seconds since 1970; 0: none is loaded. */
int64_t as_tls_server_not_after(struct as_tls_server *s);
/* A new connection's state. NULL: nothing is loaded, or no memory. */
SSL *as_tls_server_open(struct as_tls_server *s);

#endif
