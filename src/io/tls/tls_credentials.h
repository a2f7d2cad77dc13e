/* io/tls/tls_credentials.h — certificates, private keys and authorities, read from files in PEM.
 *
 * The errors name the file, the option that gave it, and what is wrong: it cannot be read, holds no
 * certificate or key, is encrypted (nobody is there who could type a pass phrase), does not belong
 * to the other one, or is not valid now. Each file is read once: what is checked is what is used.
 */
#ifndef AS_IO_TLS_CREDENTIALS_H
#define AS_IO_TLS_CREDENTIALS_H

#include "base/buf.h"
#include "base/digest/sha256.h"

#include <openssl/ssl.h>

/* A larger file is an error. The authorities of a whole system have some 200 KB. */
#define AS_TLS_FILE_MAX (16u << 20)

/* What to do with a certificate that has expired, or is not valid yet. */
enum as_tls_expiry {
    AS_TLS_EXPIRY_ERROR,
    AS_TLS_EXPIRY_ALLOWED /* a process that is started again goes on serving with it */
};

/* The options that gave the files ("--tls-cert"), for errors; NULL: errors name the file only. */
struct as_tls_option_names {
    const char *cert, *key, *ca;
};

/* Reads the files of one or several contexts. */
struct as_tls_loader {
    SSL_CTX *ctx; /* gets what is read */
    struct as_tls_option_names names;
    enum as_tls_expiry expiry;
    int64_t not_after; /* when the first certificate of all chains expires, in seconds since 1970;
                          0: none was read yet */
    uint8_t digest[AS_SHA256_BYTES]; /* of the bytes of all files, in the order of reading */
    struct as_buf *err;
};

/* Loads the chain of `cert`, the end entity's certificate first, and the key.
 * 0; AS_EINVALID: see err. */
int as_tls_credentials_load(struct as_tls_loader *l, const char *cert, const char *key);

/* Loads certificates of authorities, which a peer's certificate is verified against. Each is the
 * end of a chain, even if another authority has signed it. send_names: a server names them to its
 * clients, so that they can choose a certificate. 0; AS_EINVALID. */
int as_tls_credentials_trust(struct as_tls_loader *l, const char *file, bool send_names);

/* Appends the reason of the oldest error in OpenSSL's queue of this thread, and empties it. */
void as_tls_credentials_reason(struct as_buf *err);

#endif
