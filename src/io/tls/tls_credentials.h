/* io/tls/tls_credentials.h — a certificate chain and its private key, read from files in PEM.
 *
 * The errors name the file and what is wrong with it: it cannot be read, holds no certificate or
 * key, is encrypted (nobody is there who could type a pass phrase), does not belong to the other
 * one, or is not valid now.
 */
#ifndef AS_IO_TLS_CREDENTIALS_H
#define AS_IO_TLS_CREDENTIALS_H

#include "base/buf.h"

#include <openssl/ssl.h>

/* What to do with a certificate that has expired, or is not valid yet. */
enum as_tls_expiry {
    AS_TLS_EXPIRY_ERROR,
    AS_TLS_EXPIRY_ALLOWED /* a process that is started again goes on serving with it */
};

/* Loads the chain of `cert`, the end entity's certificate first, and the key into ctx.
 * *ret_not_after: when the first certificate expires, in seconds since 1970.
 * 0; AS_EINVALID: see err. */
int as_tls_credentials_load(SSL_CTX *ctx, const char *cert, const char *key,
                            enum as_tls_expiry expiry, int64_t *ret_not_after, struct as_buf *err);

/* Loads certificates of authorities, which a peer's certificate is verified against. send_names: a
 * server names them to its clients, so that they can choose a certificate. 0; AS_EINVALID. */
int as_tls_credentials_trust(SSL_CTX *ctx, const char *file, bool send_names, struct as_buf *err);

/* Appends the reason of the oldest error in OpenSSL's queue of this thread, and empties it. */
void as_tls_credentials_reason(struct as_buf *err);

#endif
