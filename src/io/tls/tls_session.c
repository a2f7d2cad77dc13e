#include "io/tls/tls_session.h"

#include "base/counter.h"
#include "base/err.h"

#include <errno.h>
#include <openssl/err.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#define FLUSH_IOVS 64

/* Encrypted bytes that the socket has not taken. */
struct rest {
    uint8_t *p;
    size_t n, sent; /* bytes, and how many of them are sent */
    size_t plain,
        released; /* bytes of the queue that it stands for, and that were dropped so far */
};

struct as_tls {
    SSL *ssl;
    int fd;
    struct as_tls_buffer *buffer;
    struct as_tls_input input;
    struct rest rest;
    int ended; /* reported by the next read: AS_EOF or AS_EIO; 0: neither */
    bool waits_for_peer;
    bool more_input;
    bool has_sent;
    bool agreed;         /* the handshake is done */
    uint32_t n_messages; /* of TLS itself in a row, since then: see max_messages */
    const char *failure;
    enum as_tls_cause cause;
};

/* --- the socket, as OpenSSL sees it --- */

static int bio_read(BIO *bio, char *p, int n)
{
    struct as_tls *t = BIO_get_data(bio);
    struct as_tls_buffer *b = t->buffer;
    int k;

    BIO_clear_retry_flags(bio);
    (void)as_tls_input_receive(&t->input, &b->received, t->fd, b->loop);
    k = as_tls_input_take(&t->input, &b->received, p, n);
    if (k == AS_EAGAIN)
        BIO_set_retry_read(bio);
    return k > 0 ? k : k == AS_EOF ? 0 : -1;
}

/* Collects what OpenSSL writes; it is sent when OpenSSL has returned. */
static int bio_write(BIO *bio, const char *p, int n)
{
    struct as_tls *t = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    as_buf_add(&t->buffer->cipher, p, (size_t)n);
    t->has_sent = true;
    return n;
}

static long bio_ctrl(BIO *bio, int command, long num AS_UNUSED, void *p AS_UNUSED)
{
    const struct as_tls *t = BIO_get_data(bio);

    if (command == BIO_CTRL_EOF)
        return t->input.end == AS_EOF;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "anyserve");
    if (!method || !BIO_meth_set_read(method, bio_read) || !BIO_meth_set_write(method, bio_write) ||
        !BIO_meth_set_ctrl(method, bio_ctrl))
        as_fatal_memory(0);
}

static bool is_flooded(const struct as_tls *t)
{
    return t->buffer->max_messages && t->n_messages > t->buffer->max_messages;
}

static void on_message(int is_ours, int version AS_UNUSED, int type, const void *p AS_UNUSED,
                       size_t n AS_UNUSED, SSL *ssl, void *arg)
{
    struct as_tls *t = arg;

    if (is_ours || type != SSL3_RT_HANDSHAKE || !t->agreed)
        return;
    t->n_messages++;
    if (is_flooded(t)) /* OpenSSL reads on until there is data, unless the peer has ended */
        SSL_set_shutdown(ssl, SSL_get_shutdown(ssl) | SSL_RECEIVED_SHUTDOWN);
}

struct as_tls_buffer *as_tls_buffer_new(struct as_loop *loop, uint32_t max_messages)
{
    struct as_tls_buffer *b = as_xalloc(sizeof(*b));

    b->loop = loop;
    b->max_messages = max_messages;
    b->cipher = (struct as_buf){0};
    b->received.at = b->received.n = 0;
    return b;
}

void as_tls_buffer_free(struct as_tls_buffer *b)
{
    if (!b)
        return;
    as_buf_fini(&b->cipher);
    free(b);
}

struct as_tls *as_tls_new(SSL *ssl, bool is_server, int fd, struct as_tls_buffer *b)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct as_tls *t;
    BIO *bio;

    pthread_once(&once, make_method);
    if (!ssl)
        return NULL;
    t = calloc(1, sizeof(*t));
    bio = t ? BIO_new(method) : NULL;
    if (!bio) {
        free(t);
        SSL_free(ssl);
        return NULL;
    }
    *t = (struct as_tls){.ssl = ssl, .fd = fd, .buffer = b};
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio); /* owns it */
    SSL_set_msg_callback(ssl, on_message);
    SSL_set_msg_callback_arg(ssl, t);
    t->waits_for_peer = is_server;
    if (is_server)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    return t;
}

void as_tls_free(struct as_tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    as_tls_input_free(&t->input);
    free(t->rest.p);
    free(t);
}

/* --- output --- */

/* Bytes that the socket has taken; < 0: AS_EAGAIN, AS_EIO. */
static int64_t send_bytes(struct as_tls *t, const uint8_t *p, size_t n)
{
    ssize_t k;

    do {
        as_counter_add(&t->buffer->loop->stat.writes, 1);
        k = send(t->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (k < 0 && errno == EINTR);
    return k >= 0 ? k : errno == EAGAIN ? AS_EAGAIN : AS_EIO;
}

/* Appends bytes to the rest, which stand for `plain` bytes of the queue. False: no memory. */
static bool keep(struct rest *r, const uint8_t *p, size_t n, size_t plain)
{
    uint8_t *grown = realloc(r->p, r->n + n);

    if (!grown)
        return false;
    memcpy(grown + r->n, p, n);
    r->p = grown;
    r->n += n;
    r->plain += plain;
    return true;
}

/* Sends the rest, and drops from the queue what was sent of it. */
static int send_rest(struct as_tls *t, struct as_outq *q)
{
    struct rest *r = &t->rest;

    while (r->sent < r->n) {
        int64_t k = send_bytes(t, r->p + r->sent, r->n - r->sent);
        size_t released;

        if (k < 0)
            return (int)k;
        r->sent += (size_t)k;
        if (!r->plain)
            continue;
        released = r->plain * r->sent / r->n;
        if (released <= r->released) /* the rest has grown meanwhile */
            continue;
        as_outq_drop(q, released - r->released);
        r->released = released;
    }
    free(r->p);
    *r = (struct rest){0};
    return 0;
}

/* Sends what OpenSSL has written, unless a rest is before it, and keeps what the socket does not
 * take. It stands for `plain` bytes of q. 0: all was sent. */
static int send_cipher(struct as_tls *t, struct as_outq *q, size_t plain)
{
    struct as_buf *b = &t->buffer->cipher;
    size_t n = b->n;
    int64_t k = 0;

    b->n = 0;
    if (!n)
        return 0;
    if (!t->rest.n)
        k = send_bytes(t, b->p, n);
    if (k == AS_EIO)
        return AS_EIO;
    if (k == AS_EAGAIN)
        k = 0;
    if ((size_t)k == n) {
        if (plain)
            as_outq_drop(q, plain);
        return 0;
    }
    if (!keep(&t->rest, b->p, n, plain))
        return AS_ENOMEM;
    t->rest.sent += (size_t)k;
    return AS_EAGAIN;
}

/* What a read or a handshake has made OpenSSL write. A failure shows at the next write or read. */
static void send_protocol_bytes(struct as_tls *t)
{
    (void)send_cipher(t, NULL, 0);
}

static bool encrypt(struct as_tls *t, const uint8_t *p, size_t n)
{
    while (n) {
        size_t k;

        if (SSL_write_ex(t->ssl, p, n, &k) != 1)
            return false;
        p += k;
        n -= k;
    }
    return true;
}

/* Encrypts from the front of q. Pieces that are smaller than a record are joined to one. Returns
 * how many bytes; 0: it has failed. */
static size_t encrypt_chunk(struct as_tls *t, const struct as_outq *q)
{
    struct iovec iov[FLUSH_IOVS];
    int n_iov = as_outq_iov(q, iov, FLUSH_IOVS);
    size_t total = 0, joined = 0;
    uint8_t *plain = t->buffer->plain;

    ERR_clear_error();
    for (int i = 0; i < n_iov && total < AS_TLS_CHUNK; i++) {
        const uint8_t *p = iov[i].iov_base;
        size_t n = AS_MIN(iov[i].iov_len, AS_TLS_CHUNK - total);

        total += n;
        while (n) {
            size_t k;

            if (!joined && n >= AS_TLS_RECORD) {
                k = n - n % AS_TLS_RECORD;
                if (!encrypt(t, p, k))
                    return 0;
            } else {
                k = AS_MIN(n, AS_TLS_RECORD - joined);
                memcpy(plain + joined, p, k);
                joined += k;
                if (joined == AS_TLS_RECORD) {
                    if (!encrypt(t, plain, joined))
                        return 0;
                    joined = 0;
                }
            }
            p += k;
            n -= k;
        }
    }
    return encrypt(t, plain, joined) ? total : 0;
}

int as_tls_flush(struct as_tls *t, struct as_outq *q)
{
    if (q->broken)
        return AS_ENOMEM;
    for (;;) {
        int err = t->rest.n ? send_rest(t, q) : 0;
        size_t n;

        if (err || !q->bytes)
            return err;
        t->buffer->cipher.n = 0;
        n = encrypt_chunk(t, q);
        if (!n) {
            ERR_clear_error();
            return AS_EIO;
        }
        err = send_cipher(t, q, n);
        if (err)
            return err;
    }
}

bool as_tls_has_output(const struct as_tls *t)
{
    return t->rest.n != 0;
}

size_t as_tls_kept_output(const struct as_tls *t)
{
    return t->rest.n;
}

size_t as_tls_kept_input(const struct as_tls *t)
{
    return t->input.n_kept;
}

bool as_tls_has_sent(const struct as_tls *t)
{
    return t->has_sent;
}

void as_tls_close_notify(struct as_tls *t)
{
    if (!SSL_is_init_finished(t->ssl) || t->rest.n)
        return;
    ERR_clear_error();
    t->buffer->cipher.n = 0;
    (void)SSL_shutdown(t->ssl);
    ERR_clear_error();
    send_protocol_bytes(t);
}

/* --- input --- */

/* Of a certificate that is in order but for its authority. */
static bool is_untrusted(long verify_result)
{
    switch (verify_result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return true;
    default:
        return false;
    }
}

/* Keeps what OpenSSL's queue of errors and the session know about a failure of TLS. */
static void note_failure(struct as_tls *t)
{
    unsigned long e = ERR_peek_error();
    const char *reason = ERR_reason_error_string(e);
    long verify_result = SSL_get_verify_result(t->ssl);

    t->failure = reason ? reason : "unknown reason";
    if (ERR_GET_LIB(e) != ERR_LIB_SSL)
        return;
    switch (ERR_GET_REASON(e)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        t->failure = X509_verify_cert_error_string(verify_result);
        t->cause = is_untrusted(verify_result) ? AS_TLS_CAUSE_UNTRUSTED : AS_TLS_CAUSE_UNVERIFIED;
        break;
    case SSL_R_WRONG_VERSION_NUMBER: /* no record of TLS begins so */
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        t->cause = AS_TLS_CAUSE_NOT_TLS;
        break;
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        t->cause = AS_TLS_CAUSE_CERTIFICATE_REQUIRED;
        break;
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        t->cause = AS_TLS_CAUSE_CUT_SHORT;
        break;
    default:
        break;
    }
}

/* The result of a call that has failed. */
static int why_failed(struct as_tls *t, int rc)
{
    int e = SSL_get_error(t->ssl, rc);

    if (is_flooded(t)) {
        t->failure = "too many messages of TLS itself";
        t->cause = AS_TLS_CAUSE_FLOOD;
        return AS_EINVALID;
    }
    if (e == SSL_ERROR_WANT_READ)
        return AS_EAGAIN;
    if (e == SSL_ERROR_ZERO_RETURN)
        return AS_EOF;
    if (e == SSL_ERROR_SYSCALL)
        return t->input.end == AS_EOF ? AS_EOF : AS_EIO;
    note_failure(t);
    return AS_EINVALID;
}

/* OpenSSL has bytes, or there are some for it, that polling the socket does not report. */
static bool has_bytes(const struct as_tls *t)
{
    return SSL_has_pending(t->ssl) || as_tls_input_is_ready(&t->input, &t->buffer->received);
}

static int step_handshake(struct as_tls *t)
{
    int rc, err;

    if (t->waits_for_peer &&
        !as_tls_input_receive(&t->input, &t->buffer->received, t->fd, t->buffer->loop))
        return AS_EAGAIN;
    rc = SSL_do_handshake(t->ssl);
    err = rc == 1 ? 0 : why_failed(t, rc);
    if (err == AS_EIO || t->cause == AS_TLS_CAUSE_CUT_SHORT)
        err = AS_EOF;
    t->waits_for_peer = err == AS_EAGAIN;
    t->agreed = !err;
    /* what came with the peer's last message is reported by no poll */
    t->more_input = !err && has_bytes(t);
    return err;
}

int as_tls_handshake(struct as_tls *t)
{
    int err;

    ERR_clear_error();
    t->buffer->cipher.n = 0;
    as_tls_input_begin(&t->input, &t->buffer->received);
    err = step_handshake(t);
    ERR_clear_error();
    send_protocol_bytes(t);
    return as_tls_input_end(&t->input, &t->buffer->received) ? AS_ENOMEM : err;
}

const char *as_tls_failure(const struct as_tls *t)
{
    return t->failure;
}

enum as_tls_cause as_tls_cause(const struct as_tls *t)
{
    return t->cause;
}

int64_t as_tls_read(struct as_tls *t, void *p, size_t n)
{
    size_t total = 0;
    uint32_t n_messages = t->n_messages;
    int err = t->ended;

    ERR_clear_error();
    t->buffer->cipher.n = 0;
    as_tls_input_begin(&t->input, &t->buffer->received);
    while (!err && total < n && t->n_messages == n_messages) {
        size_t k = 0;
        int rc = SSL_read_ex(t->ssl, (uint8_t *)p + total, n - total, &k);

        total += k;
        if (rc != 1) {
            err = why_failed(t, rc);
            break;
        }
        if (!has_bytes(t))
            break; /* the socket is polled for more */
    }
    if (err == AS_EINVALID)
        err = AS_EIO;
    if (err)
        ERR_clear_error();
    send_protocol_bytes(t);
    t->ended = err == AS_EAGAIN ? 0 : err;
    t->more_input =
        total && (t->ended || ((total == n || t->n_messages != n_messages) && has_bytes(t)));
    /* unless our answers to them wait: a peer that reads none would make us keep ever more */
    if (total && !t->rest.n)
        t->n_messages = 0;
    if (as_tls_input_end(&t->input, &t->buffer->received))
        t->ended = AS_EIO;
    return total ? (int64_t)total : err ? err : AS_EAGAIN;
}

bool as_tls_has_input(const struct as_tls *t)
{
    return t->more_input;
}

/* --- what was agreed --- */

struct as_str as_tls_alpn(const struct as_tls *t)
{
    const unsigned char *p = NULL;
    unsigned n = 0;

    SSL_get0_alpn_selected(t->ssl, &p, &n);
    return (struct as_str){(const char *)p, n};
}

bool as_tls_is_resumed(const struct as_tls *t)
{
    return SSL_session_reused(t->ssl) == 1;
}
