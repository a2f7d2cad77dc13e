/* io/tls/tls_tickets.h — the keys that encrypt session tickets (RFC 5077, RFC 8446 §4.6.1).
 *
 * A key encrypts new tickets for one lifetime and decrypts them for another one; then it is gone.
 * The keys live in memory only: a ticket of another process, or of other certificates, leads to a
 * full handshake. Thread: any.
 */
#ifndef AS_IO_TLS_TICKETS_H
#define AS_IO_TLS_TICKETS_H

#include "base/defs.h"

#include <openssl/ssl.h>

struct as_tls_tickets;

/* lifetime: not 0. clock: CLOCK_MONOTONIC but in tests. */
struct as_tls_tickets *as_tls_tickets_new(as_ns lifetime, as_ns (*clock)(void));
/* Makes ctx issue and accept tickets by these keys, which must outlive it; several may share them.
 * NULL: it issues none. */
void as_tls_tickets_use(struct as_tls_tickets *t, SSL_CTX *ctx);
void as_tls_tickets_free(struct as_tls_tickets *t); /* NULL is fine */

#endif
