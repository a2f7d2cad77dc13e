/* io/tls/tls_client.h — what a client needs to speak TLS with one server.
 *
 * Versions 1.2 and 1.3, as io/tls/tls_context says. The server's certificate must lead to an
 * authority that is trusted, be valid now, and be for the host: for its DNS name (RFC 9525 §6), or
 * its IP address, which must then be in the certificate as an address. The server is told the name
 * (SNI, RFC 6066 §3; never an address). ALPN offers one protocol (RFC 7301). Thread: any.
 */
#ifndef AS_IO_TLS_CLIENT_H
#define AS_IO_TLS_CLIENT_H

#include "io/tls/tls_credentials.h"

#define AS_TLS_CLIENT_MESSAGES 32u /* for as_tls_buffer_new: the default of servers, too */

struct as_tls_client_conf {
    const char *host; /* a DNS name, or an IP address without brackets */
    const char *ca;   /* file of authorities in PEM; NULL: those of the system */
    const char *cert; /* a chain in PEM, for a server that asks for one; NULL: none */
    const char *key;  /* its private key; NULL: it is in the file of cert */
    struct as_tls_option_names names;
    bool http1; /* ALPN offers http/1.1, else h2 */
};

struct as_tls_client;

/* Reads the files; conf is not needed afterwards. 0; AS_EINVALID: see err. */
int as_tls_client_new(struct as_tls_client **ret_c, const struct as_tls_client_conf *conf,
                      struct as_buf *err);
void as_tls_client_free(struct as_tls_client *c); /* NULL is fine; sessions may outlive it */
/* A new connection's state, for as_tls_new. NULL: no memory. */
SSL *as_tls_client_open(struct as_tls_client *c);

#endif
