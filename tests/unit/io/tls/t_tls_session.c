/* Specification of io/tls/tls_session: bytes in both directions, what the queue says meanwhile, and
 * the ways in which a connection ends. */
#include "io/tls/tls_session.h"

#include "base/memory/live.h"
#include "tls_pair.h"

#define MIB ((size_t)1 << 20)

static SSL_CTX *server, *client;
static struct as_outq out;
static uint8_t bytes[4096];

static int set_up(void **state AS_UNUSED)
{
    server = new_server_context();
    client = as_tls_context_new(TLS_client_method(), TLS1_2_VERSION);
    as_outq_init(&out);
    return 0;
}

static int tear_down(void **state AS_UNUSED)
{
    as_outq_fini(&out);
    pair_close();
    SSL_CTX_free(server);
    SSL_CTX_free(client);
    return 0;
}

static void agree(void)
{
    assert_true(pair_agrees(SSL_new(server), SSL_new(client)));
}

static void send_text(struct as_tls *t, const char *text)
{
    as_outq_copy(&out, text, strlen(text));
    assert_int_equal(as_tls_flush(t, &out), 0);
    assert_int_equal(out.bytes, 0);
    assert_false(as_tls_has_output(t));
}

/* --- the handshake --- */

static void it_waits_for_the_peer(void **state AS_UNUSED)
{
    pair_open(SSL_new(server), SSL_new(client));
    assert_int_equal(as_tls_handshake(pair.server), AS_EAGAIN);
    assert_false(as_tls_has_sent(pair.server));
    assert_int_equal(as_tls_handshake(pair.client), AS_EAGAIN);
    assert_int_equal(as_tls_handshake(pair.client), AS_EAGAIN);
    assert_int_equal(as_tls_handshake(pair.server), AS_EAGAIN);
    assert_true(as_tls_has_sent(pair.server));
    shake_hands();
    assert_int_equal(pair.server_rc, 0);
    assert_int_equal(pair.client_rc, 0);
    assert_string_equal(SSL_get_version(pair.client_ssl), "TLSv1.3");
    assert_false(as_tls_is_resumed(pair.server));
    assert_int_equal(as_tls_alpn(pair.server).n, 0);
    assert_null(as_tls_failure(pair.server));
}

#define BYTES(text) text, sizeof(text) - 1

/* Whoever speaks another protocol gets no further, whichever side it is. */
static void garbage(void **state AS_UNUSED)
{
    static const struct {
        const char *p;
        size_t n;
        bool to_server;
        enum as_tls_cause cause;
    } rows[] = {{BYTES("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true, AS_TLS_CAUSE_NOT_TLS},
                {BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), true, AS_TLS_CAUSE_NOT_TLS},
                {BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), false, AS_TLS_CAUSE_NOT_TLS},
                /* SETTINGS of HTTP/2 */
                {BYTES("\0\0\x06\4\0\0\0\0\0\0\x03\0\0\0\x64"), false, AS_TLS_CAUSE_NOT_TLS},
                /* a ClientHello without content, in place of a ServerHello, too */
                {BYTES("\x16\x03\x01\0\x04\x01\0\0\0"), true, AS_TLS_CAUSE_OTHER},
                {BYTES("\x16\x03\x03\0\x04\x01\0\0\0"), false, AS_TLS_CAUSE_OTHER},
                /* an alert: handshake failure */
                {BYTES("\x15\x03\x03\0\x02\x02\x28"), false, AS_TLS_CAUSE_OTHER},
                /* a record that is longer than one may be */
                {BYTES("\x16\x03\x03\xff\xff"), false, AS_TLS_CAUSE_OTHER}};

    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        struct as_tls *t;
        int rc = AS_EAGAIN;

        pair_open(SSL_new(server), SSL_new(client));
        t = rows[i].to_server ? pair.server : pair.client;
        assert_int_equal(as_tls_handshake(t), AS_EAGAIN);
        for (size_t k = 0; k < rows[i].n && rc == AS_EAGAIN; k++) { /* byte by byte */
            assert_int_equal(write(pair.fd[rows[i].to_server], rows[i].p + k, 1), 1);
            rc = as_tls_handshake(t);
        }
        assert_int_equal(rc, AS_EINVALID);
        assert_non_null(as_tls_failure(t));
        assert_int_equal(as_tls_cause(t), rows[i].cause);
        pair_close();
    }
    pair_sockets(); /* for tear_down */
}

static void the_peer_ends_within_the_handshake(void **state AS_UNUSED)
{
    pair_open(SSL_new(server), SSL_new(client));
    assert_int_equal(as_tls_handshake(pair.client), AS_EAGAIN);
    shutdown(pair.fd[0], SHUT_WR);
    assert_int_equal(as_tls_handshake(pair.client), AS_EOF);
    assert_int_equal(as_tls_cause(pair.client), AS_TLS_CAUSE_CUT_SHORT);
}

/* What comes with the last message of the handshake is reported by no poll. */
static void bytes_behind_the_handshake(void **state AS_UNUSED)
{
    pair_open(SSL_new(server), SSL_new(client));
    pair.client_rc = as_tls_handshake(pair.client);
    pair.server_rc = as_tls_handshake(pair.server);
    pair.client_rc = as_tls_handshake(pair.client);
    assert_int_equal(pair.client_rc, 0);
    send_text(pair.client, "early");
    assert_int_equal(as_tls_handshake(pair.server), 0);
    assert_true(as_tls_has_input(pair.server));
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), 5);
    assert_memory_equal(bytes, "early", 5);
    assert_false(as_tls_has_input(pair.server));
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EAGAIN);
}

/* --- bytes --- */

/* A read that fills its memory leaves the rest in the session. */
static void a_read_into_little_memory(void **state AS_UNUSED)
{
    agree();
    send_text(pair.server, "abc");
    send_text(pair.server, "defgh");
    assert_int_equal(as_tls_read(pair.client, bytes, 2), 2);
    assert_true(as_tls_has_input(pair.client));
    assert_int_equal(as_tls_read(pair.client, bytes + 2, 6), 6);
    assert_memory_equal(bytes, "abcdefgh", 8);
    assert_int_equal(as_tls_read(pair.client, bytes, 1), AS_EAGAIN);
}

static void small_pieces_are_one_record(void **state AS_UNUSED)
{
    uint64_t writes;

    agree();
    assert_int_equal(as_tls_read(pair.client, bytes, 1), AS_EAGAIN); /* the tickets */
    for (int i = 0; i < 50; i++) {
        struct as_blob *b = as_blob_new(1); /* a piece of its own */

        b->data[0] = (uint8_t)i;
        as_outq_ref(&out, b, b->data, 1);
        as_blob_unref(b);
    }
    writes = pair.loop->stat.writes;
    assert_int_equal(as_tls_flush(pair.server, &out), 0);
    assert_int_equal(pair.loop->stat.writes, writes + 1);
    /* a header, the type of the content and the AEAD's tag (RFC 8446 §5.2) */
    assert_int_equal(recv(pair.fd[1], bytes, sizeof(bytes), MSG_PEEK), 5 + 50 + 1 + 16);
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), 50);
    for (int i = 0; i < 50; i++)
        assert_int_equal(bytes[i], i);
}

/* 1 MiB of a pattern, in pieces of many sizes: copied ones and referenced ones. */
static void fill(struct as_outq *q, uint8_t seed)
{
    static const size_t sizes[] = {1, 7, 16384, 100, 16385, 40000, 3, 65536, 200000};
    size_t done = 0;

    for (size_t i = 0; done < MIB; i++) {
        size_t n = AS_MIN(sizes[i % AS_COUNT(sizes)], MIB - done);
        struct as_blob *b = as_blob_new(n);

        for (size_t k = 0; k < n; k++)
            b->data[k] = (uint8_t)((done + k) * 7 + (done + k) / 251 + seed);
        if (i % 2)
            as_outq_ref(q, b, b->data, n);
        else
            as_outq_copy(q, b->data, n);
        as_blob_unref(b);
        done += n;
    }
}

struct direction {
    struct as_tls *from, *to;
    struct as_outq q;
    uint8_t seed;
    size_t received, steps; /* how often the queue became shorter */
};

/* Sends what the socket takes, and reads at most n bytes. */
static void move(struct direction *d, size_t n, size_t room)
{
    static uint8_t in[100000];
    size_t before = d->q.bytes;
    int rc = as_tls_flush(d->from, &d->q);
    int64_t k;

    assert_int_equal(rc, as_tls_has_output(d->from) ? AS_EAGAIN : 0);
    assert_true(d->q.bytes <= before);
    d->steps += d->q.bytes < before;
    /* the queue is ahead of the peer by what is in the socket */
    assert_true(MIB - d->q.bytes <= d->received + room);
    k = as_tls_read(d->to, in, n);
    if (k == AS_EAGAIN)
        return;
    assert_true(k > 0);
    for (int64_t i = 0; i < k; i++) {
        size_t at = d->received + (size_t)i;

        if (in[i] != (uint8_t)(at * 7 + at / 251 + d->seed))
            fail_msg("byte %zu differs", at);
    }
    d->received += (size_t)k;
}

static void a_mebibyte_through_a_small_socket(int version)
{
    struct direction d[2] = {{.seed = 1}, {.seed = 2}};
    int size = 4096; /* of each socket's buffer; the kernel doubles it */
    size_t room = 0;

    SSL_CTX_set_max_proto_version(client, version);
    agree();
    for (int i = 0; i < 2; i++) {
        socklen_t n = sizeof(size);
        int got;

        assert_int_equal(setsockopt(pair.fd[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
        assert_int_equal(getsockopt(pair.fd[i], SOL_SOCKET, SO_SNDBUF, &got, &n), 0);
        /* and what the receiver has decrypted or read, and not handed over */
        room = (size_t)got + 2 * AS_TLS_CHUNK;
        as_outq_init(&d[i].q);
        fill(&d[i].q, d[i].seed);
        assert_int_equal(d[i].q.bytes, MIB);
    }
    d[0].from = d[1].to = pair.server;
    d[0].to = d[1].from = pair.client;
    /* nobody reads: the queue keeps all but what the socket has taken */
    assert_int_equal(as_tls_flush(d[0].from, &d[0].q), AS_EAGAIN);
    assert_int_equal(as_tls_flush(d[0].from, &d[0].q), AS_EAGAIN);
    assert_true(as_tls_has_output(d[0].from));
    assert_in_range(d[0].q.bytes, MIB - (room - 2 * AS_TLS_CHUNK), MIB);
    for (int i = 0; i < 100000 && d[0].received + d[1].received < 2 * MIB; i++) {
        move(&d[0], i % 3 ? 100000 : 333, room);
        move(&d[1], i % 2 ? 5000 : 1, room);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(d[i].received, MIB);
        assert_int_equal(as_tls_flush(d[i].from, &d[i].q), 0);
        assert_int_equal(d[i].q.bytes, 0);
        assert_false(as_tls_has_output(d[i].from));
        assert_true(d[i].steps > 50);
        as_outq_fini(&d[i].q);
    }
}

static void a_mebibyte_by_1_3(void **state AS_UNUSED)
{
    a_mebibyte_through_a_small_socket(TLS1_3_VERSION);
}

static void a_mebibyte_by_1_2(void **state AS_UNUSED)
{
    a_mebibyte_through_a_small_socket(TLS1_2_VERSION);
}

/* --- ends --- */

static void the_peer_says_that_it_ends(void **state AS_UNUSED)
{
    agree();
    send_text(pair.server, "last");
    as_tls_close_notify(pair.server);
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), 4);
    assert_true(as_tls_has_input(pair.client)); /* the end */
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), AS_EOF);
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), AS_EOF);
    assert_null(as_tls_failure(pair.client));
    send_text(pair.client, "the other direction is still open");
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), 33);
}

/* Without close_notify somebody may have cut the connection (RFC 8446 §6.1). */
static void the_peer_ends_without_a_word(void **state AS_UNUSED)
{
    agree();
    send_text(pair.server, "last");
    close(pair.fd[0]);
    pair.fd[0] = -1;
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), 4);
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), AS_EIO);
    assert_int_equal(as_tls_cause(pair.client), AS_TLS_CAUSE_CUT_SHORT);
    assert_string_equal(as_tls_failure(pair.client), "unexpected eof while reading");
}

/* A server allows it: HTTP itself says where a request ends. */
static void a_server_takes_it_for_an_end(void **state AS_UNUSED)
{
    SSL_CTX_set_options(server, SSL_OP_IGNORE_UNEXPECTED_EOF);
    agree();
    shutdown(pair.fd[1], SHUT_WR);
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EOF);
    assert_null(as_tls_failure(pair.server));
}

static void a_record_that_was_changed(void **state AS_UNUSED)
{
    ssize_t n;

    agree();
    assert_int_equal(as_tls_read(pair.client, bytes, 1), AS_EAGAIN); /* the tickets */
    send_text(pair.server, "payload");
    n = recv(pair.fd[1], bytes, sizeof(bytes), 0);
    bytes[n - 1] ^= 1;
    assert_int_equal(write(pair.fd[0], bytes, (size_t)n), n);
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), AS_EIO);
    assert_string_equal(as_tls_failure(pair.client), "decryption failed or bad record mac");
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), AS_EIO);
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EIO); /* by an alert */
    assert_string_equal(as_tls_failure(pair.server), "sslv3 alert bad record mac");
}

static void a_peer_that_is_gone(void **state AS_UNUSED)
{
    agree();
    close(pair.fd[1]);
    pair.fd[1] = -1;
    as_outq_copy(&out, "x", 1);
    assert_int_equal(as_tls_flush(pair.server, &out), AS_EIO);
    as_tls_close_notify(pair.server);
}

static void send_key_updates_of(int type, int n)
{
    struct as_buf *b = &pair.buffer->cipher;

    b->n = 0;
    for (int i = 0; i < n; i++) {
        assert_int_equal(SSL_key_update(pair.client_ssl, type), 1);
        assert_int_equal(SSL_do_handshake(pair.client_ssl), 1);
    }
    assert_int_equal(write(pair.fd[1], b->p, b->n), b->n);
}

/* n that ask for no answer: the client would count those. */
static void send_key_updates(int n)
{
    send_key_updates_of(SSL_KEY_UPDATE_NOT_REQUESTED, n);
}

/* As many as are allowed, again and again, as long as there is data between them. */
static void key_updates_and_data(void **state AS_UNUSED)
{
    agree();
    for (int i = 0; i < 3; i++) {
        send_key_updates(MESSAGES);
        assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EAGAIN);
        send_text(pair.client, "x");
        send_text(pair.server, "y");
        assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), 1);
        assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), 1);
    }
    assert_int_equal(as_tls_cause(pair.server), AS_TLS_CAUSE_OTHER);
}

static void one_key_update_too_many(void **state AS_UNUSED)
{
    agree();
    send_key_updates(MESSAGES + 1);
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EIO);
    assert_int_equal(as_tls_cause(pair.server), AS_TLS_CAUSE_FLOOD);
    assert_string_equal(as_tls_failure(pair.server), "too many messages of TLS itself");
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EIO);
}

static void any_number_of_key_updates(void **state AS_UNUSED)
{
    agree();
    pair.buffer->max_messages = 0;
    send_key_updates(10 * MESSAGES);
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EAGAIN);
    assert_int_equal(as_tls_cause(pair.server), AS_TLS_CAUSE_OTHER);
}

/* Data between them is no help when nobody takes the answers, which would be more and more. */
static void key_updates_whose_answers_nobody_reads(void **state AS_UNUSED)
{
    int size = 4096, rounds = 0;
    int64_t k = 1;

    agree();
    assert_int_equal(setsockopt(pair.fd[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    while (k == 1) {
        assert_true(rounds++ < 1000);
        assert_true(as_tls_kept_output(pair.server) < 4096);
        send_key_updates_of(SSL_KEY_UPDATE_REQUESTED, MESSAGES);
        send_text(pair.client, "x");
        k = as_tls_read(pair.server, bytes, sizeof(bytes));
    }
    assert_true(rounds > 2); /* the socket takes some */
    assert_int_equal(k, AS_EIO);
    assert_int_equal(as_tls_cause(pair.server), AS_TLS_CAUSE_FLOOD);
}

/* A read takes the messages before one piece of data, whatever follows. */
static void key_updates_between_data(void **state AS_UNUSED)
{
    agree();
    for (int i = 0; i < 4; i++) {
        send_key_updates(MESSAGES);
        send_text(pair.client, "x");
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), 1);
        assert_int_equal(as_tls_has_input(pair.server), i < 3);
    }
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EAGAIN);
    /* data, and then too many: the data first */
    send_text(pair.client, "x");
    send_key_updates(MESSAGES + 2);
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), 1);
    assert_true(as_tls_has_input(pair.server));
    assert_int_equal(as_tls_read(pair.server, bytes, sizeof(bytes)), AS_EIO);
    assert_int_equal(as_tls_cause(pair.server), AS_TLS_CAUSE_FLOOD);
}

/* A record that has come in part costs as many bytes, and is read when the rest comes. */
static void a_part_of_a_record(void **state AS_UNUSED)
{
    size_t live;
    ssize_t n;

    agree();
    send_text(pair.client, "the text of a record");
    live = as_live_bytes(); /* the queue keeps a chunk */
    n = recv(pair.fd[0], bytes, sizeof(bytes), 0);
    for (ssize_t i = 0; i < n - 1; i++) { /* byte by byte */
        uint64_t reads = pair.loop->stat.reads;

        assert_int_equal(write(pair.fd[1], bytes + i, 1), 1);
        assert_int_equal(as_tls_read(pair.server, bytes + 1000, 1000), AS_EAGAIN);
        assert_int_equal(pair.loop->stat.reads, reads + 1);
        assert_int_equal(as_live_bytes(), live + (size_t)i + 1);
        assert_false(as_tls_has_input(pair.server));
    }
    assert_int_equal(write(pair.fd[1], bytes + n - 1, 1), 1);
    assert_int_equal(as_tls_read(pair.server, bytes, 1000), 20);
    assert_memory_equal(bytes, "the text of a record", 20);
    assert_int_equal(as_live_bytes(), live);
}

/* What no read has asked for yet stays, and is given back with the session. */
static void records_that_nobody_reads(void **state AS_UNUSED)
{
    size_t live;

    agree();
    for (int i = 0; i < 10; i++)
        send_text(pair.client, "abcd");
    live = as_live_bytes();
    assert_int_equal(as_tls_read(pair.server, bytes, 4), 4);
    assert_true(as_tls_has_input(pair.server));
    assert_true(as_live_bytes() > live + 9 * 4);
    as_tls_free(pair.server);
    pair.server = NULL;
    assert_int_equal(as_live_bytes(), live);
}

/* The end in the middle of a record is no clean end for a client. */
static void a_record_that_is_cut(void **state AS_UNUSED)
{
    ssize_t n;

    agree();
    send_text(pair.server, "text");
    n = recv(pair.fd[1], bytes, sizeof(bytes), 0);
    assert_int_equal(write(pair.fd[0], bytes, (size_t)n - 1), n - 1);
    shutdown(pair.fd[0], SHUT_WR);
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), AS_EAGAIN);
    assert_int_equal(as_tls_read(pair.client, bytes, sizeof(bytes)), AS_EIO);
    assert_int_equal(as_tls_cause(pair.client), AS_TLS_CAUSE_CUT_SHORT);
}

static void a_queue_that_is_broken(void **state AS_UNUSED)
{
    agree();
    out.broken = true;
    assert_int_equal(as_tls_flush(pair.server, &out), AS_ENOMEM);
}

static void no_close_notify_before_the_end_of_the_handshake(void **state AS_UNUSED)
{
    pair_open(SSL_new(server), SSL_new(client));
    as_tls_close_notify(pair.client);
    assert_int_equal(recv(pair.fd[0], bytes, 1, MSG_DONTWAIT), -1);
    as_tls_free(NULL);
    as_tls_buffer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_waits_for_the_peer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(garbage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_peer_ends_within_the_handshake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_behind_the_handshake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_read_into_little_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_pieces_are_one_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_mebibyte_by_1_3, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_mebibyte_by_1_2, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_peer_says_that_it_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_peer_ends_without_a_word, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_server_takes_it_for_an_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_that_was_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_updates_and_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_key_update_too_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_updates_whose_answers_nobody_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_number_of_key_updates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(key_updates_between_data, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_part_of_a_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(records_that_nobody_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_that_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_queue_that_is_broken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_close_notify_before_the_end_of_the_handshake, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, make_pair_certificate, remove_pair_certificate);
}
