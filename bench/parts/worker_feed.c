/* Plays the dispatcher for one worker and prints what a call costs the worker.
 *
 *   worker_feed [-d depth] [-b bytes] [-t tensors] [-s seconds] [-o result] -- command of the
 * worker …
 *
 * Listens on a socket that the command finds in ANYSERVE_LINK, keeps `depth` requests of one FP32
 * tensor (`bytes` long) under way, and prints calls per second and CPU per call of the worker. -n
 * asks for so many calls and nothing more, for a worker under callgrind.
 */
#include "base/err.h"
#include "io/loop/clock.h"
#include "wire/frame/frame.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* bytes of answers that are read at once; the largest answer must fit */
#define RX_CAP   (8u << 20)
#define PATIENCE 30000 /* ms until the command has connected */

/* The dispatcher's part, as far as one worker notices: no queue, no deadlines, no checks beyond the
 * frames' form. */
struct feed {
    int fd;
    uint8_t *rx;
    size_t at, end, skip;
    struct as_outq out;
    uint64_t next_stream, answered, failed;
    uint32_t depth;
    bool live;
    struct as_msg msg;
    struct as_blob *blob;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_s(void)
{
    return (double)as_clock_now() * 1e-9;
}

/* User and system time of all its threads. The clock is read from outside, so that measuring costs
 * the worker nothing. */
static double cpu_of(pid_t pid)
{
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock))
        die("cpu clock of the worker");
    return (double)as_clock_read(clock) * 1e-9;
}

/* Odd stream ids, increasing, as docs/protocol/link.md has it: the request number is (id - 1) / 2.
 */
static void ask(struct feed *d)
{
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR};

    if (as_frame_put_msg(&d->out, AS_FRAME_OPEN, d->next_stream, &fixed, &d->msg, d->blob))
        die("request too large");
    d->next_stream += 2;
}

static void on_register(struct feed *d, const struct as_frame *f)
{
    struct as_frame_registered a = {0};
    struct as_frame_register r;
    struct as_arena arena;
    const char *why = "";

    as_arena_init(&arena, NULL, 0);
    if (as_frame_get_register(f, &arena, &r, &why)) {
        fprintf(stderr, "bad REGISTER: %s\n", why);
        exit(1);
    }
    a.model = a.target = r.model;
    as_frame_put_registered(&d->out, &a);
    as_arena_fini(&arena);
}

static void on_frame(struct feed *d, const struct as_frame *f)
{
    struct as_frame_hello h = {
        .lo = AS_FRAME_VERSION, .hi = AS_FRAME_VERSION, .epoch = 1, .max_message = 1u << 30};
    struct as_frame_error e;

    switch (f->type) {
    case AS_FRAME_HELLO:
        as_frame_put_hello(&d->out, &h);
        break;
    case AS_FRAME_REGISTER:
        on_register(d, f);
        break;
    /* it has registered everything and serves */
    case AS_FRAME_CREDIT:
        d->live = true;
        break;
    case AS_FRAME_ERROR:
        if (!d->failed++ && as_frame_get_error(f, &e) == 0)
            fprintf(stderr, "ERROR %u: %.*s\n", e.code, AS_STR_FMT(e.message));
        d->answered++;
        break;
    case AS_FRAME_DATA:
        d->answered += f->flags & AS_FRAME_F_END;
        break;
    default:
        break;
    }
}

static void pump(struct feed *d)
{
    struct as_frame f;
    ssize_t n = recv(d->fd, d->rx + d->end, RX_CAP - d->end, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN))
        die("the worker has gone");
    if (n < 0)
        return;
    d->end += (size_t)n;
    for (;;) {
        int64_t k = as_frame_next(d->rx + d->at, d->end - d->at, &f);

        if (k < 0)
            die("malformed frame");
        if (k == 0)
            break;
        d->at += (size_t)k;
        on_frame(d, &f);
    }
    memmove(d->rx, d->rx + d->at, d->end - d->at);
    d->end -= d->at;
    d->at = 0;
}

/* One sendmsg for all that is asked for, one recv for all that is answered: the dispatcher's
 * rhythm, on which the worker's batches depend. */
static void turn(struct feed *d)
{
    struct pollfd p = {.fd = d->fd, .events = POLLIN};
    struct iovec iov[64];
    ssize_t n;

    if (d->out.bytes) {
        int k = as_outq_iov(&d->out, iov, 64);

        n = sendmsg(d->fd, &(struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)k},
                    MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            die("send");
        if (n > 0)
            as_outq_drop(&d->out, (size_t)n);
    }
    if (d->out.bytes)
        p.events |= POLLOUT;
    if (poll(&p, 1, 20000) == 0)
        die("the worker says nothing for 20 s");
    if (p.revents & (POLLIN | POLLHUP))
        pump(d);
}

/* Keeps `depth` requests under way. With `calls` it stops asking in time, so that a worker under
 * callgrind executes exactly as many. */
static void run_for(struct feed *d, double seconds, uint64_t calls)
{
    double until = now_s() + seconds;

    while (calls ? d->answered < calls : now_s() < until) {
        while ((d->next_stream - 1) / 2 - d->answered < d->depth &&
               (!calls || (d->next_stream - 1) / 2 < calls))
            ask(d);
        turn(d);
    }
}

/* What is under way is answered, then the worker ends in order. */
static void finish(struct feed *d, pid_t pid)
{
    as_frame_put_text(&d->out, AS_FRAME_DRAIN, (struct as_str){0});
    while (d->out.bytes || (d->next_stream - 1) / 2 > d->answered)
        turn(d);
    waitpid(pid, NULL, 0);
}

/* The command's connection. One that ends, or never comes, is told, not waited for. */
static int await(int listener, pid_t pid, const char *command)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};

    for (int waited = 0; waited < PATIENCE; waited += 100) {
        int n = poll(&p, 1, 100), status;

        if (n > 0)
            return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (n < 0 && errno != EINTR)
            die("poll");
        if (waitpid(pid, &status, WNOHANG) == pid) {
            fprintf(stderr, "worker_feed: %s ended before it connected\n", command);
            exit(1);
        }
    }
    fprintf(stderr, "worker_feed: %s has not connected within %d s\n", command, PATIENCE / 1000);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    exit(1);
}

static pid_t spawn(char **argv, int *ret_fd)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t pid;

    snprintf(a.sun_path, sizeof(a.sun_path), "/tmp/worker_feed.%d", (int)getpid());
    /* the link stands; nobody else can come */
    unlink(a.sun_path);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 ||
        listen(listener, 1) < 0)
        die(a.sun_path);
    setenv("ANYSERVE_LINK", a.sun_path, 1);
    pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    if (pid < 0)
        die("fork");
    *ret_fd = await(listener, pid, argv[0]);
    unlink(a.sun_path);
    close(listener);
    return pid;
}

static void set_request(struct feed *d, size_t bytes, uint32_t n)
{
    static int64_t shape[1];
    struct as_tensor *t = as_xalloc(n * sizeof(*t));
    size_t at = 0;

    shape[0] = (int64_t)(bytes / 4);
    d->blob = as_blob_new(n * AS_ALIGN(bytes, (size_t)64));
    memset(d->blob->data, 0, d->blob->n);
    for (uint32_t i = 0; i < n; i++) {
        char *name = as_xalloc(16);

        snprintf(name, 16, "in%u", i);
        t[i] = (struct as_tensor){as_str_of(name), AS_DT_FP32, 1, shape, d->blob->data + at, bytes};
        at += AS_ALIGN(bytes, (size_t)64);
    }
    d->msg = (struct as_msg){.id = AS_STR("request-1"), .tensors = t, .n_tensors = n};
}

int main(int argc, char **argv)
{
    struct feed d = {.depth = 128, .next_stream = 1};
    double seconds = 1, t0, c0, s;
    size_t bytes = 128;
    uint32_t tensors = 1;
    uint64_t n0, calls = 0;
    pid_t pid;
    int opt;

    while ((opt = getopt(argc, argv, "+d:b:t:s:n:")) != -1) {
        if (opt == 'd')
            d.depth = (uint32_t)atoi(optarg);
        else if (opt == 'b')
            bytes = (size_t)atol(optarg);
        else if (opt == 't')
            tensors = (uint32_t)atoi(optarg);
        else if (opt == 's')
            seconds = atof(optarg);
        else if (opt == 'n')
            calls = strtoull(optarg, NULL, 10);
        else
            return 64;
    }
    if (optind == argc)
        return 64;
    d.rx = aligned_alloc(64, RX_CAP);
    as_outq_init(&d.out);
    set_request(&d, bytes, tensors);
    pid = spawn(argv + optind, &d.fd);
    while (!d.live)
        turn(&d);
    if (!calls)
        /* warm-up, not counted */
        run_for(&d, seconds / 3, 0);
    t0 = now_s();
    c0 = cpu_of(pid);
    n0 = d.answered;
    run_for(&d, seconds, calls);
    s = now_s() - t0;
    printf("depth %u, %zu bytes: %.0f calls/s, worker CPU %.3f us per call, %lu errors\n", d.depth,
           bytes, (double)(d.answered - n0) / s,
           (cpu_of(pid) - c0) / (double)(d.answered - n0) * 1e6, (unsigned long)d.failed);
    finish(&d, pid);
    as_outq_fini(&d.out);
    return d.failed != 0;
}
