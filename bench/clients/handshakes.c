/* Full TLS handshakes, one after the other, each on a connection of its own:
 *
 *   handshakes PORT SECONDS PROCESSES
 *
 * Connects to 127.0.0.1, verifies nothing, resumes nothing, and closes behind the handshake. Prints how many were done and
 * how many failed.
 */
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct count {
    long done, failed;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int shake_hands(SSL_CTX *ctx, const struct sockaddr_in *to)
{
    static const struct linger reset = {1, 0}; /* no port stays in TIME_WAIT */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ok = 0;
    SSL *ssl = SSL_new(ctx);

    if (fd >= 0 && ssl && connect(fd, (const struct sockaddr *)to, sizeof(*to)) == 0 &&
        SSL_set_fd(ssl, fd) == 1)
        ok = SSL_connect(ssl) == 1;
    SSL_free(ssl);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        close(fd);
    }
    return ok;
}

static struct count run(const struct sockaddr_in *to, double seconds)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    double end = now() + seconds;
    struct count n = {0, 0};

    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    while (now() < end) {
        if (shake_hands(ctx, to))
            n.done++;
        else
            n.failed++;
    }
    SSL_CTX_free(ctx);
    return n;
}

int main(int argc, char **argv)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct count all = {0, 0}, n;
    int fds[2], processes;

    if (argc != 4 || pipe(fds) < 0)
        return 64;
    to.sin_port = htons((uint16_t)atoi(argv[1]));
    processes = atoi(argv[3]);
    for (int i = 0; i < processes; i++) {
        if (fork() == 0) {
            n = run(&to, atof(argv[2]));
            return write(fds[1], &n, sizeof(n)) != sizeof(n);
        }
    }
    for (int i = 0; i < processes; i++) {
        if (read(fds[0], &n, sizeof(n)) != sizeof(n))
            return 1;
        all.done += n.done;
        all.failed += n.failed;
    }
    while (wait(NULL) > 0)
        ;
    printf("%ld %ld\n", all.done, all.failed);
    return 0;
}
