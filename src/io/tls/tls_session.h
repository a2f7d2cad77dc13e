/* io/tls/tls_session.h — one TLS connection over a non-blocking socket.
 *
 * The session reads from the socket by itself (io/tls/tls_input) and decrypts into the caller's
 * memory. It encrypts up
 * to AS_TLS_CHUNK bytes of a queue at once and writes them with one system call. What the socket
 * does not take waits in the session, and the bytes of the queue that it stands for stay in the
 * queue until then: the queue always tells how much the peer has not taken.
 *
 * Thread: that of the loop whose buffer it uses.
 */
#ifndef AS_IO_TLS_SESSION_H
#define AS_IO_TLS_SESSION_H

#include "base/memory/outq.h"
#include "io/loop/loop.h"
#include "io/tls/tls_input.h"

#include <openssl/ssl.h>

#define AS_TLS_RECORD (16u << 10) /* most bytes of one record (RFC 8446 §5.1) */
#define AS_TLS_CHUNK  (64u << 10) /* of the queue that are encrypted before they are written */
/* Memory that all sessions of a loop use in turn. */
struct as_tls_buffer {
    struct as_loop *loop;
    uint32_t max_messages;
    struct as_buf cipher; /* what OpenSSL has written, until it is sent or kept */
    uint8_t plain[AS_TLS_RECORD];
    struct as_tls_received received;
};
/* max_messages: of TLS itself that a peer may send in a row behind the handshake, without data or
 * while it does not read our answers to them: KeyUpdate (RFC 8446 §4.6.3), a further handshake
 * (which is refused). Each costs us as much as a small request; no peer needs many: BoringSSL
 * allows 32 (its kMaxKeyUpdates). 0: any number. */
struct as_tls_buffer *as_tls_buffer_new(struct as_loop *loop, uint32_t max_messages);
void as_tls_buffer_free(struct as_tls_buffer *b); /* NULL is fine */

struct as_tls;

/* Owns ssl from here on, not fd, which must be valid until as_tls_free. NULL: no memory, or ssl is
 * NULL. */
struct as_tls *as_tls_new(SSL *ssl, bool is_server, int fd, struct as_tls_buffer *b);
/* Closes nothing: what the peer has not been told is lost. NULL is fine. */
void as_tls_free(struct as_tls *t);

/* One step. 0: done; AS_EAGAIN: it waits for the peer; AS_EINVALID: it has failed, as
 * as_tls_failure says; AS_EOF: the peer has closed; AS_ENOMEM. */
int as_tls_handshake(struct as_tls *t);
/* Why TLS has failed: "wrong version number"; of the peer's certificate: "certificate has expired".
 * NULL: it has not, though the socket may have. Static text. */
const char *as_tls_failure(const struct as_tls *t);
enum as_tls_cause {
    AS_TLS_CAUSE_OTHER,
    AS_TLS_CAUSE_NOT_TLS,              /* the peer's first bytes are of another protocol */
    AS_TLS_CAUSE_UNTRUSTED,            /* no trusted authority has signed the peer's certificate */
    AS_TLS_CAUSE_UNVERIFIED,           /* the peer's certificate is refused for another reason */
    AS_TLS_CAUSE_CERTIFICATE_REQUIRED, /* the peer says that ours is missing (RFC 8446 §6.2) */
    AS_TLS_CAUSE_CUT_SHORT,            /* the socket has ended, but the session has not */
    AS_TLS_CAUSE_FLOOD                 /* more than max_messages in a row */
};
enum as_tls_cause as_tls_cause(const struct as_tls *t); /* of the failure */

/* As as_sock_read: >0 bytes; AS_EAGAIN; AS_EOF; AS_EIO: the socket or TLS has failed. Takes at most
 * max_messages messages of TLS itself. */
int64_t as_tls_read(struct as_tls *t, void *p, size_t n);
/* The last read left bytes, or an end, behind that polling the socket will not report. */
bool as_tls_has_input(const struct as_tls *t);
/* Writes what waits here and then the queue. 0: all is written; AS_EAGAIN; AS_EIO; AS_ENOMEM: the
 * queue is broken, or no memory. */
int as_tls_flush(struct as_tls *t, struct as_outq *q);
bool as_tls_has_output(const struct as_tls *t); /* bytes wait here for the socket */
/* Encrypted bytes that wait here, between two calls: for the socket, and for as_tls_read. */
size_t as_tls_kept_output(const struct as_tls *t);
size_t as_tls_kept_input(const struct as_tls *t);
bool as_tls_has_sent(const struct as_tls *t); /* any byte: a server: it has understood a hello */
/* Tells the peer that nothing follows (RFC 8446 §6.1), as far as the socket takes it now. */
void as_tls_close_notify(struct as_tls *t);

/* What ALPN has chosen (RFC 7301): "h2", "http/1.1"; empty: the peer did not ask. */
struct as_str as_tls_alpn(const struct as_tls *t);
bool as_tls_is_resumed(const struct as_tls *t); /* by a ticket: no certificate was needed */

#endif
