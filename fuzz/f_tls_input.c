/* fuzz/f_tls_input.c — any bytes from a socket, in any pieces. The first byte chooses how they are
 * cut and how much is asked for at once. Checked against a second, simple reader of record heads:
 * OpenSSL gets all bytes in order, a record only when all of it has come, and no byte twice; what
 * is kept meanwhile is the rest. */
#include "base/err.h"
#include "base/memory/live.h"
#include "io/tls/tls_input.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD_MAX (5u + 16384u + 2048u)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of `data` that OpenSSL may have when n of them have come: whole records, and all from the
 * first that is none. */
static size_t whole(const uint8_t *data, size_t n)
{
    size_t at = 0;

    while (at < n) {
        const uint8_t *p = data + at;
        size_t left = n - at, length;

        if (p[0] < 20 || p[0] > 23 || (left > 1 && p[1] != 3))
            return n;
        if (left < 5)
            return at;
        length = 5 + ((size_t)p[3] << 8) + p[4];
        if (length > RECORD_MAX)
            return n;
        if (left < length)
            return at;
        at += length;
    }
    return at;
}

/* Takes all that is ready, as OpenSSL does in one call of ours. */
static size_t take(struct as_tls_input *in, struct as_tls_received *r, struct as_loop *loop, int fd,
                   const uint8_t *expected, int most)
{
    static uint8_t out[1 << 16];
    size_t n = 0;

    as_tls_input_begin(in, r);
    while (as_tls_input_receive(in, r, fd, loop)) {
        int k = as_tls_input_take(in, r, out, most);

        if (k < 0) {
            AS_ASSERT(k == in->end);
            break;
        }
        AS_ASSERT(k > 0 && k <= most && memcmp(out, expected + n, (size_t)k) == 0);
        n += (size_t)k;
    }
    AS_ASSERT(as_tls_input_end(in, r) == 0);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t pieces[] = {1, 3, 5, 100, 4000, 20000, 60000, 1 << 20};
    static const int asked[] = {1, 5, 17000, 1 << 16};
    static struct as_tls_received received;
    static struct as_loop *loop;
    struct as_tls_input in = {.kept = NULL};
    size_t sent = 0, taken = 0, piece, live = as_live_bytes();
    int fd[2], most;

    if (!size || (!loop && as_loop_new(&loop, 0)))
        return 0;
    piece = pieces[data[0] % AS_COUNT(pieces)];
    most = asked[data[0] / 8 % AS_COUNT(asked)];
    data++;
    size--;
    AS_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
    while (sent < size) {
        ssize_t k = write(fd[1], data + sent, AS_MIN(piece, size - sent));

        AS_ASSERT(k > 0);
        sent += (size_t)k;
        do {
            k = (ssize_t)take(&in, &received, loop, fd[0], data + taken, most);
            taken += (size_t)k;
        } while (k);
        AS_ASSERT(taken == whole(data, sent));
        AS_ASSERT(in.n_kept == sent - taken && as_live_bytes() == live + in.n_kept);
    }
    close(fd[1]);
    taken += take(&in, &received, loop, fd[0], data + taken, most); /* the end: all that came */
    AS_ASSERT(taken == size && in.end == AS_EOF);
    as_tls_input_free(&in);
    close(fd[0]);
    return 0;
}
