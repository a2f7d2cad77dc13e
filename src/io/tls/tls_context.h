/* io/tls/tls_context.h — what servers and clients of TLS have in common.
 *
 * The suites of TLS 1.2 are those that Mozilla's "intermediate" configuration recommends: an
 * ephemeral key exchange and an AEAD, so that HTTP/2 accepts all of them (RFC 9113 §9.2.2). No
 * renegotiation and no compression. The chain that is sent is that of the certificate's file:
 * authorities that are trusted add nothing to it.
 */
#ifndef AS_IO_TLS_CONTEXT_H
#define AS_IO_TLS_CONTEXT_H

#include <openssl/ssl.h>

/* least: TLS1_2_VERSION or TLS1_3_VERSION. NULL: no memory. */
SSL_CTX *as_tls_context_new(const SSL_METHOD *method, int least);

#endif
