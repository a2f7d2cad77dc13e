/* bench/parts/simple_worker.c — an echo on the simple protocol, as fast or as hostile as wanted;
 * see
 * --help.
 *
 * It listens at a socket and answers; who starts it registers it. Each of its threads serves one
 * connection after the other. A ModelInferResponse differs from the request that it echoes in one
 * byte per tensor: raw contents are field 6, not 7. So an answer is made without a copy.
 *
 * --hostile N: of a thousand answers, N are wrong in one of the ways below, drawn from --seed.
 */
#include "base/be.h"
#include "base/rand.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HEAD        4u
#define THREADS_MAX 1024u

enum way {
    FINE,
    PIECES,  /* right, but cut into small writes with pauses */
    LATE,    /* right, but after the deadline */
    SILENT,  /* closed without a word */
    TORN,    /* closed in the middle */
    EMPTY,   /* a length of 0 */
    HUGE,    /* a length of 4 GiB */
    GARBAGE, /* not protobuf */
    OLD,     /* an older answer, with its id */
    TWICE,   /* the second a moment later, when the next request may be here */
    UNASKED, /* bytes on a connection that rests */
    NO_ID,   /* right, without the id */
    WAYS
};
static const char *const way_names[] = {
    [FINE] = "fine", [PIECES] = "pieces", [LATE] = "late",   [SILENT] = "silent",
    [TORN] = "torn", [EMPTY] = "empty",   [HUGE] = "huge",   [GARBAGE] = "garbage",
    [OLD] = "old",   [TWICE] = "twice",   [NO_ID] = "no_id", [UNASKED] = "unasked",
};

static struct {
    const char *path;
    uint32_t threads, hostile, late_ms;
    uint64_t seed;
    int only; /* a way, or -1 */
    int listener;
} run = {.threads = 64, .only = -1, .late_ms = 50};
static uint64_t done[WAYS]; /* atomic */

struct buf {
    uint8_t *p;
    size_t n, cap;
};

struct server {
    int fd;
    struct as_rand rand;
    struct buf in, out, old; /* frames with their heads */
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static uint8_t *reserve(struct buf *b, size_t n)
{
    if (b->cap < n) {
        b->cap = n + n / 2;
        b->p = realloc(b->p, b->cap);
        if (!b->p)
            die("memory");
    }
    return b->p;
}

static void nap(uint64_t us)
{
    const struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

    nanosleep(&t, NULL);
}

/* --- bytes --- */

static bool read_all(int fd, uint8_t *p, size_t n)
{
    while (n) {
        ssize_t k = read(fd, p, n);

        if (k <= 0 && !(k < 0 && errno == EINTR))
            return false;
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return true;
}

static bool write_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k < 0 && errno != EINTR)
            return false;
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return true;
}

static bool read_request(struct server *s)
{
    uint8_t head[HEAD];
    uint32_t n;

    if (!read_all(s->fd, head, HEAD))
        return false;
    n = as_be_get32(head);
    reserve(&s->in, HEAD + (size_t)n);
    s->in.n = HEAD + (size_t)n;
    return read_all(s->fd, s->in.p + HEAD, n);
}

/* --- the answer --- */

static uint64_t varint(const uint8_t *p, size_t n, size_t *at)
{
    uint64_t v = 0;

    for (uint32_t shift = 0; *at < n && shift < 64; shift += 7) {
        uint8_t byte = p[(*at)++];

        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return v;
    }
    fprintf(stderr, "simple_worker: the request is malformed\n");
    exit(1);
}

/* Fields 1 (name), 2 (version), 3 (id) and 5 (tensors) are the same in both; 7 becomes 6. */
static void make_answer(struct server *s, bool with_id)
{
    uint8_t *out = reserve(&s->out, s->in.n) + HEAD;
    const uint8_t *p = s->in.p + HEAD;
    size_t n = s->in.n - HEAD, at = 0;

    while (at < n) {
        size_t start = at, tag = varint(p, n, &at), size = varint(p, n, &at);

        if ((tag & 7) != 2 || size > n - at) {
            fprintf(stderr, "simple_worker: the request has a field that it should not have\n");
            exit(1);
        }
        at += size;
        if (tag >> 3 == 4 || tag >> 3 == 6 || (tag >> 3 == 3 && !with_id))
            continue;
        memcpy(out, p + start, at - start);
        if (tag >> 3 == 7)
            *out = 6 << 3 | 2;
        out += at - start;
    }
    s->out.n = (size_t)(out - s->out.p);
    as_be_put32(s->out.p, (uint32_t)(s->out.n - HEAD));
}

static void keep(struct server *s)
{
    memcpy(reserve(&s->old, s->out.n), s->out.p, s->out.n);
    s->old.n = s->out.n;
}

static bool send_pieces(struct server *s)
{
    for (size_t at = 0; at < s->out.n;) {
        size_t n = 1 + as_rand_below(&s->rand, as_rand_below(&s->rand, 2) ? 8 : s->out.n);

        n = AS_MIN(n, s->out.n - at);
        if (!write_all(s->fd, s->out.p + at, n))
            return false;
        at += n;
        if (as_rand_below(&s->rand, 8) == 0)
            nap(as_rand_below(&s->rand, 200));
    }
    return true;
}

static bool send_head(struct server *s, uint32_t n)
{
    uint8_t head[HEAD];

    as_be_put32(head, n);
    return write_all(s->fd, head, HEAD);
}

static bool send_garbage(struct server *s)
{
    for (size_t i = HEAD; i < s->out.n; i++)
        s->out.p[i] = (uint8_t)as_rand_below(&s->rand, 256);
    s->out.p[HEAD] = 0x07; /* a wire type that there is not */
    return write_all(s->fd, s->out.p, s->out.n);
}

static bool send_answer(struct server *s, enum way way)
{
    bool is_sent;

    switch (way) {
    case PIECES:
        return send_pieces(s);
    case LATE:
        nap(1000 * (run.late_ms / 2 + as_rand_below(&s->rand, run.late_ms)));
        break;
    case SILENT:
        return false;
    case TORN:
        write_all(s->fd, s->out.p, as_rand_below(&s->rand, s->out.n));
        return false;
    case EMPTY:
        return send_head(s, 0);
    case HUGE:
        return send_head(s, 0xffffffff);
    case GARBAGE:
        return send_garbage(s);
    case OLD:
        if (s->old.n)
            return write_all(s->fd, s->old.p, s->old.n);
        break;
    case TWICE:
        if (!write_all(s->fd, s->out.p, s->out.n))
            return false;
        nap(as_rand_below(&s->rand, 300));
        break;
    case UNASKED:
        is_sent = write_all(s->fd, s->out.p, s->out.n);
        nap(as_rand_below(&s->rand, 300));
        return is_sent && write_all(s->fd, s->out.p, 1 + as_rand_below(&s->rand, s->out.n));
    default:
        break;
    }
    return write_all(s->fd, s->out.p, s->out.n);
}

static enum way draw(struct server *s)
{
    if (run.only >= 0 && (!run.hostile || as_rand_below(&s->rand, 1000) < run.hostile))
        return (enum way)run.only;
    if (run.only < 0 && as_rand_below(&s->rand, 1000) < run.hostile)
        return (enum way)(1 + as_rand_below(&s->rand, WAYS - 1));
    return FINE;
}

static void serve(struct server *s)
{
    bool is_open = true;

    while (is_open && read_request(s)) {
        enum way way = draw(s);

        make_answer(s, way != NO_ID);
        is_open = send_answer(s, way);
        if (run.hostile && way == FINE)
            keep(s);
        __atomic_add_fetch(&done[way], 1, __ATOMIC_RELAXED);
    }
}

static void *work(void *arg)
{
    struct server s = {.rand = {run.seed + (uintptr_t)arg}};

    for (;;) {
        s.fd = accept(run.listener, NULL, NULL);
        if (s.fd < 0)
            die("accept");
        serve(&s);
        close(s.fd);
    }
    return NULL;
}

/* --- the program --- */

static void parse(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"threads", 1, NULL, 't'}, {"hostile", 1, NULL, 'h'}, {"only", 1, NULL, 'w'},
        {"late-ms", 1, NULL, 'l'}, {"seed", 1, NULL, 's'},    {"help", 0, NULL, '?'},
        {NULL, 0, NULL, 0},
    };

    for (int c; (c = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        if (c == 't')
            run.threads = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 'h')
            run.hostile = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 'l')
            run.late_ms = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 's')
            run.seed = strtoull(optarg, NULL, 10);
        else if (c == 'w') {
            for (run.only = WAYS - 1; run.only >= 0 && strcmp(way_names[run.only], optarg) != 0;)
                run.only--;
            if (run.only < 0)
                c = '?';
        }
        if (c == '?')
            break;
    }
    run.path = argv[optind];
    if (optind == argc - 1 && run.threads && run.threads <= THREADS_MAX)
        return;
    fprintf(stderr, "usage: simple_worker [--threads N] [--hostile N] [--only WAY] "
                    "[--late-ms N] [--seed N] SOCKET\n"
                    "  --threads N   connections that are served at once (64)\n"
                    "  --hostile N   of 1000 answers, so many are wrong in some way\n"
                    "  --only WAY    all of them in this one:");
    for (int i = 0; i < WAYS; i++)
        fprintf(stderr, " %s", way_names[i]);
    fprintf(stderr, "\nOn SIGTERM it prints how many were answered in which way, as JSON.\n");
    exit(2);
}

static void listen_at(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    if (strlen(run.path) >= sizeof(a.sun_path)) {
        fprintf(stderr, "simple_worker: the path is too long\n");
        exit(2);
    }
    memcpy(a.sun_path, run.path, strlen(run.path) + 1);
    unlink(run.path);
    run.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (run.listener < 0 || bind(run.listener, (const struct sockaddr *)&a, sizeof(a)) ||
        listen(run.listener, 1024))
        die(run.path);
}

int main(int argc, char **argv)
{
    sigset_t ends;
    int signum;

    parse(argc, argv);
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    listen_at();
    for (uint32_t i = 0; i < run.threads; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, work, (void *)(uintptr_t)(i + 1)))
            die("pthread_create");
    }
    printf("listening\n");
    fflush(stdout);
    sigwait(&ends, &signum);
    printf("{");
    for (int i = 0; i < WAYS; i++)
        printf("%s\"%s\": %lu", i ? ", " : "", way_names[i],
               (unsigned long)__atomic_load_n(&done[i], __ATOMIC_RELAXED));
    printf("}\n");
    fflush(stdout);
    _exit(0);
}
