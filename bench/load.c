/* bench/load.c — closed-loop load of ModelInfer calls over gRPC; see --help.
 *
 * One thread, one epoll. Every answer is checked (load_h2.h); the exit code is 1 if one was wrong.
 * Prints one JSON object. With --watch it also says what CPU time the named processes used, all
 * their threads together, between the end of the warm-up and the end of the measurement.
 */
#include "load_h2.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS    64
#define WATCH_MAX 8
/* an answer that takes longer than this after the last call is reported as missing */
#define DRAIN_TIME (10 * AS_SEC)

/* What was asked for on the command line, and the CPU times before and after. */
struct run {
    struct as_load_options shape;
    const char *host, *port;
    uint32_t connections;
    double seconds, warmup;
    uint64_t requests; /* 0: by time */
    uint32_t n_watch;
    int watch[WATCH_MAX];
    as_ns cpu_before[WATCH_MAX], cpu_after[WATCH_MAX];
};

static const char help[] =
    "load [options]: ModelInfer calls in a closed loop, answers checked, result as JSON\n"
    "  --host A, --port P           the server (127.0.0.1, 8000)\n"
    "  --connections N, --streams N calls in flight = N × N (1, 1)\n"
    "  --payload BYTES              size of the FP32 tensor, a multiple of 4, 8 or more (128)\n"
    "  --model NAME                 (echo)\n"
    "  --timeout-ms N               send grpc-timeout (0: none)\n"
    "  --warmup S, --duration S     seconds (0.3, 1)\n"
    "  --requests N                 exactly N calls instead, no warm-up\n"
    "  --watch PID                  report its CPU time; may be repeated\n";

static void parse(struct run *r, int argc, char **argv)
{
    static const struct option options[] = {
        {"host", 1, 0, 'h'},
        {"port", 1, 0, 'p'},
        {"connections", 1, 0, 'c'},
        {"streams", 1, 0, 's'},
        {"payload", 1, 0, 'b'},
        {"model", 1, 0, 'm'},
        {"warmup", 1, 0, 'w'},
        {"duration", 1, 0, 'd'},
        {"requests", 1, 0, 'n'},
        {"watch", 1, 0, 'W'},
        {"timeout-ms", 1, 0, 't'},
        {"help", 0, 0, '?'},
        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        unsigned long n = optarg ? strtoul(optarg, NULL, 10) : 0;

        switch (c) {
        case 'h':
            r->host = optarg;
            break;
        case 'p':
            r->port = optarg;
            break;
        case 'c':
            r->connections = (uint32_t)n;
            break;
        case 's':
            r->shape.streams = (uint32_t)n;
            break;
        case 'b':
            r->shape.payload = n;
            break;
        case 'm':
            r->shape.model = optarg;
            break;
        case 'w':
            r->warmup = strtod(optarg, NULL);
            break;
        case 'd':
            r->seconds = strtod(optarg, NULL);
            break;
        case 'n':
            r->requests = n;
            break;
        case 't':
            r->shape.timeout_ms = (uint32_t)n;
            break;
        case 'W':
            if (r->n_watch < WATCH_MAX)
                r->watch[r->n_watch++] = (int)n;
            break;
        default:
            fputs(help, stderr);
            exit(2);
        }
    }
    if (!r->connections || !r->shape.streams || r->shape.payload < 8 || r->shape.payload % 4 ||
        r->shape.payload > (1u << 30)) {
        fputs(help, stderr);
        exit(2);
    }
}

/* Blocking, before anything is measured. A server that is not there ends the run: half a load would
 * be a wrong figure. */
static int connect_to(const struct run *r)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)strtoul(r->port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (inet_pton(AF_INET, r->host, &addr.sin_addr) != 1 ||
        connect(fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        fprintf(stderr, "load: cannot connect to %s:%s: %s\n", r->host, r->port, strerror(errno));
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

/* CPU time of all threads of a process; the main thread's file alone would miss the others. */
static as_ns cpu_of(int pid)
{
    char path[300];
    as_ns sum = 0;
    struct dirent *e;
    DIR *d;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    d = opendir(path);
    while (d && (e = readdir(d))) {
        unsigned long long ns = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/proc/%d/task/%.32s/schedstat", pid, e->d_name);
        if (e->d_name[0] == '.' || !(f = fopen(path, "r")))
            continue;
        if (fscanf(f, "%llu", &ns) == 1)
            sum += ns;
        fclose(f);
    }
    if (d)
        closedir(d);
    return sum;
}

static void watch(const struct run *r, as_ns *ret_cpu)
{
    for (uint32_t i = 0; i < r->n_watch; i++)
        ret_cpu[i] = cpu_of(r->watch[i]);
}

/* `now` is read once per turn and again after each read: calls of one turn share their start, which
 * costs less than a clock call each and hides nothing, since they leave in one write. */
struct loop {
    int epoll;
    uint32_t n_open;
    struct as_load_conn **conns;
    as_ns now;
};

/* Level-triggered; EPOLLOUT only while output waits, or the loop would spin. */
static void set_interest(struct loop *l, struct as_load_conn *c, int op)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

    if (as_load_conn_is_blocked(c))
        ev.events |= EPOLLOUT;
    epoll_ctl(l->epoll, op, as_load_conn_fd(c), &ev);
}

/* A connection that breaks is taken out; its calls count as failed (load_h2.c). */
static void turn(struct loop *l, struct as_load_conn *c, uint32_t events)
{
    bool was_blocked = as_load_conn_is_blocked(c);

    if (!as_load_conn_turn(c, events & (EPOLLIN | EPOLLHUP | EPOLLERR), &l->now)) {
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, as_load_conn_fd(c), NULL);
        l->n_open--;
    } else if (as_load_conn_is_blocked(c) != was_blocked) {
        set_interest(l, c, EPOLL_CTL_MOD);
    }
}

static void connect_all(const struct run *r, struct loop *l, const struct as_load_shape *shape,
                        struct as_load_tally *t)
{
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->conns = as_xalloc(r->connections * sizeof(*l->conns));
    for (uint32_t i = 0; i < r->connections; i++) {
        l->conns[i] = as_load_conn_new(connect_to(r), shape, t);
        set_interest(l, l->conns[i], EPOLL_CTL_ADD);
    }
    l->n_open = r->connections;
    l->now = as_load_now();
}

/* Until `end`, or until `finished` calls have been answered. */
static void spin(struct loop *l, const struct as_load_tally *t, as_ns end, uint64_t finished)
{
    struct epoll_event events[EVENTS];

    while (l->n_open && l->now < end && t->finished < finished) {
        int n = epoll_wait(l->epoll, events, EVENTS, 1000);

        l->now = as_load_now();
        for (int i = 0; i < n; i++)
            turn(l, events[i].data.ptr, events[i].events);
    }
}

/* One line, so that bench/run.py reads it with json.loads and people can too. */
static void report(const struct run *r, const struct as_load_tally *t, as_ns time)
{
    double seconds = (double)time / (double)AS_SEC;
    uint64_t done = t->ok + t->failed;
    struct as_buf b;

    as_buf_init(&b);
    as_buf_printf(&b, "{\"connections\": %u, \"streams\": %u, \"payload\": %zu, ", r->connections,
                  r->shape.streams, r->shape.payload);
    as_buf_printf(&b, "\"seconds\": %.4f, \"ok\": %lu, \"failed\": %lu, \"total\": %lu, ", seconds,
                  t->ok, t->failed, t->finished);
    as_buf_printf(&b, "\"per_second\": %.1f, \"p50_us\": %.2f, \"p90_us\": %.2f, ",
                  (double)t->ok / seconds, (double)as_loghist_at(&t->hist, .5) / 1e3,
                  (double)as_loghist_at(&t->hist, .9) / 1e3);
    as_buf_printf(&b, "\"p99_us\": %.2f, \"max_us\": %.2f, \"cpu_us\": {",
                  (double)as_loghist_at(&t->hist, .99) / 1e3, (double)t->hist.max / 1e3);
    for (uint32_t i = 0; i < r->n_watch; i++)
        as_buf_printf(&b, "%s\"%d\": %.4f", i ? ", " : "", r->watch[i],
                      (double)(r->cpu_after[i] - r->cpu_before[i]) / 1e3 / (double)AS_MAX(done, 1));
    as_buf_str(&b, "}, \"fault\": ");
    as_buf_json(&b, as_str_of(t->first_fault));
    printf("%.*s}\n", AS_STR_FMT(as_buf_slice(&b)));
    as_buf_fini(&b);
}

/* The warm-up's calls are made and checked, but not counted: the first fill caches, pools and HPACK
 * tables on both sides. */
static void measure(struct run *r, struct loop *l, struct as_load_tally *t)
{
    as_ns start;

    if (!r->requests) {
        spin(l, t, l->now + (as_ns)(r->warmup * (double)AS_SEC), UINT64_MAX);
        t->hist = (struct as_loghist){0};
        t->ok = 0;
    }
    watch(r, r->cpu_before);
    start = l->now = as_load_now();
    spin(l, t, r->requests ? AS_NEVER : start + (as_ns)(r->seconds * (double)AS_SEC),
         r->requests ? r->requests : UINT64_MAX);
    watch(r, r->cpu_after);
    l->now = as_load_now();
    report(r, t, l->now - start);
}

int main(int argc, char **argv)
{
    static struct as_load_tally tally;
    struct run run = {.shape = {.model = "echo", .streams = 1, .payload = 128},
                      .host = "127.0.0.1",
                      .port = "8000",
                      .connections = 1,
                      .seconds = 1,
                      .warmup = .3};
    struct as_load_shape shape;
    char authority[100];
    struct loop loop;

    parse(&run, argc, argv);
    snprintf(authority, sizeof(authority), "%.60s:%.8s", run.host, run.port);
    run.shape.authority = authority;
    tally.start_max = run.requests ? run.requests : UINT64_MAX;
    as_load_shape_init(&shape, &run.shape);
    connect_all(&run, &loop, &shape, &tally);
    measure(&run, &loop, &tally);
    /* What is in flight must be answered too, and rightly. */
    /* no new ones from here on */
    tally.start_max = tally.started;
    spin(&loop, &tally, loop.now + DRAIN_TIME, tally.started);
    if (tally.finished < tally.started)
        fprintf(stderr, "load: %lu calls were never answered\n", tally.started - tally.finished);
    if (tally.failed)
        fprintf(stderr, "load: %lu calls failed; the first: %s\n", tally.failed, tally.first_fault);
    for (uint32_t i = 0; i < run.connections; i++)
        as_load_conn_free(loop.conns[i]);
    close(loop.epoll);
    free(loop.conns);
    as_load_shape_fini(&shape);
    return tally.failed || tally.finished < tally.started;
}
