/* tests/unit/support/tls_pair.h — a server's and a client's session over a socket pair, and the
 * server's certificate. */
#ifndef AS_TEST_TLS_PAIR_H
#define AS_TEST_TLS_PAIR_H

#include "base/err.h"
#include "certificates.h"
#include "io/tls/tls_context.h"
#include "io/tls/tls_credentials.h"
#include "io/tls/tls_session.h"
#include "unit.h"

#include <sys/socket.h>
#include <unistd.h>

#define MESSAGES 32 /* of TLS itself in a row */

struct tls_pair {
    int fd[2]; /* the server's and the client's */
    struct as_loop *loop;
    struct as_tls_buffer *buffer;
    struct as_tls *server, *client;
    SSL *server_ssl, *client_ssl; /* of the sessions, which own them */
    int server_rc, client_rc;     /* of the handshake */
};

static struct tls_pair pair;

static struct certificate pair_authority;

/* For all tests of a file: a folder with a certificate of localhost, for new_server_context. */
static inline int make_pair_certificate(void **state AS_UNUSED)
{
    if (make_temporary_folder())
        return -1;
    pair_authority = make_certificate(NULL, "authority", NULL, -DAY, DAY);
    put_certificate(&pair_authority, "mine", "DNS:localhost");
    return 0;
}

static inline int remove_pair_certificate(void **state AS_UNUSED)
{
    free_certificate(&pair_authority);
    return remove_temporary_folder();
}

static inline SSL_CTX *new_server_context(void)
{
    SSL_CTX *ctx = as_tls_context_new(TLS_server_method(), TLS1_2_VERSION);
    struct as_buf err = {0};
    struct as_tls_loader l = {.ctx = ctx, .err = &err};

    assert_int_equal(
        as_tls_credentials_load(&l, file_in_folder("mine.pem"), file_in_folder("mine.key")), 0);
    return ctx;
}

/* A socket pair without sessions. */
static inline void pair_sockets(void)
{
    assert_int_equal(as_loop_new(&pair.loop, 0), 0);
    pair.buffer = as_tls_buffer_new(pair.loop, MESSAGES);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.fd),
                     0);
}

static inline void pair_open(SSL *server, SSL *client)
{
    assert_non_null(server);
    assert_non_null(client);
    pair_sockets();
    pair.server_ssl = server;
    pair.client_ssl = client;
    pair.server = as_tls_new(server, true, pair.fd[0], pair.buffer);
    pair.client = as_tls_new(client, false, pair.fd[1], pair.buffer);
    pair.server_rc = pair.client_rc = AS_EAGAIN;
}

static inline void pair_close(void)
{
    as_tls_free(pair.server);
    as_tls_free(pair.client);
    as_tls_buffer_free(pair.buffer);
    for (int i = 0; i < 2; i++) {
        if (pair.fd[i] >= 0)
            close(pair.fd[i]);
    }
    as_loop_free(pair.loop);
    pair = (struct tls_pair){.server = NULL};
}

/* Steps of the handshake, until both sides are done or one can do nothing more. */
static inline void shake_hands(void)
{
    for (int i = 0; i < 10; i++) {
        if (pair.client_rc == AS_EAGAIN)
            pair.client_rc = as_tls_handshake(pair.client);
        if (pair.server_rc == AS_EAGAIN)
            pair.server_rc = as_tls_handshake(pair.server);
    }
}

/* Opens a pair and shakes hands. True: both sides are done. */
static inline bool pair_agrees(SSL *server, SSL *client)
{
    pair_open(server, client);
    shake_hands();
    return pair.server_rc == 0 && pair.client_rc == 0;
}

#endif
