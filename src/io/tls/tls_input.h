/* io/tls/tls_input.h — what a TLS connection has received, for OpenSSL, record by record.
 *
 * OpenSSL gets a record only when all of it has come. So it holds no buffer between two records,
 * and what a peer has sent of a record costs the server as many bytes as came.
 *
 * Thread: that of the loop whose struct as_tls_received it uses.
 */
#ifndef AS_IO_TLS_INPUT_H
#define AS_IO_TLS_INPUT_H

#include "io/loop/loop.h"

#define AS_TLS_RECEIVE (64u << 10) /* most bytes that one system call receives */

/* Memory of a loop: the encrypted bytes of the session that reads now. */
struct as_tls_received {
    size_t at, n; /* the first byte that is not taken, and the end */
    bool drained; /* the socket had no more */
    uint8_t bytes[AS_TLS_RECEIVE];
};

struct as_tls_input {
    uint8_t *kept; /* not taken yet, between two calls; NULL: nothing */
    size_t n_kept;
    size_t n_record; /* bytes of the current record that OpenSSL has still to take */
    int end;         /* behind all bytes: AS_EOF or AS_EIO; 0: the socket is open */
    bool is_alien;   /* it is no TLS: OpenSSL gets the bytes as they come, and says what is wrong */
};

/* Before and after each use: r holds the bytes of `in` from begin to end. as_tls_input_end: 0 or
 * AS_ENOMEM, when bytes are lost. */
void as_tls_input_begin(struct as_tls_input *in, struct as_tls_received *r);
int as_tls_input_end(struct as_tls_input *in, struct as_tls_received *r);
void as_tls_input_free(struct as_tls_input *in);

/* OpenSSL can read without the socket. */
bool as_tls_input_is_ready(const struct as_tls_input *in, const struct as_tls_received *r);
/* The same, after it has received what it needs, with at most one system call. */
bool as_tls_input_receive(struct as_tls_input *in, struct as_tls_received *r, int fd,
                          struct as_loop *loop);
/* The next bytes, of one record: at most n, at least one; AS_EAGAIN: nothing is ready; AS_EOF;
 * AS_EIO. */
int as_tls_input_take(struct as_tls_input *in, struct as_tls_received *r, void *p, int n);

#endif
