#include "io/tls/tls_context.h"

#include "base/err.h"
#include "io/tls/tls_memory.h"

#define SUITES_1_2                                                                                 \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"                                   \
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"                                   \
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"

SSL_CTX *as_tls_context_new(const SSL_METHOD *method, int least)
{
    static char groups[] = "X25519:P-256:P-384", groups_of_nist[] = "P-256:P-384";
    SSL_CTX *ctx;

    as_tls_memory_use();
    ctx = SSL_CTX_new(method);
    if (!ctx)
        return NULL;
    SSL_CTX_set_min_proto_version(ctx, least);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    AS_ASSERT(SSL_CTX_set_cipher_list(ctx, SUITES_1_2) == 1);
    if (SSL_CTX_set1_groups_list(ctx, groups) != 1) /* a provider for FIPS has no X25519 */
        AS_ASSERT(SSL_CTX_set1_groups_list(ctx, groups_of_nist) == 1);
    return ctx;
}
