/* bench/clients/churn.c — calls of mixed size and outcome over many connections; see --help.
 *
 * A client that does what clients do to a server over the years: sizes from nothing to a megabyte,
 * every kind of error, deadlines that pass, calls that are reset in the middle, connections that
 * are cut. Every outcome is judged (churn_call.h); the exit code is 1 if one was wrong. One thread,
 * one epoll, HTTP/2 by nghttp2. Prints one JSON object.
 */
#include "churn_call.h"

#include "base/err.h"
#include "io/loop/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS     64
#define RESETS_MAX 300 /* of one connection: servers cut off who resets too much */
#define OUT_MAX    (256u << 10)
#define CUT_SHARE  4000 /* one call in so many cuts its connection instead */

struct run {
    const char *host;
    uint16_t port;
    uint32_t connections, streams;
    uint64_t calls, seed;
    int only; /* a kind, or -1 */
    /* state */
    int epoll;
    as_ns now;
    struct as_rand rand;
    uint64_t started, finished, cut, opened, wrong;
    uint64_t ended[CHURN_KINDS], cancelled_ok, statuses[18]; /* by gRPC status; the last: none */
    char fault[200];
};

struct conn {
    struct run *run;
    int fd;
    nghttp2_session *h2;
    struct churn_call *calls; /* run->streams of them; stream 0: free */
    uint32_t in_flight, resets;
    bool is_blocked, is_lost;
    bool is_doomed; /* will be cut in its next step, with calls in flight */
    uint8_t *out;   /* bytes that the socket did not take */
    size_t out_n, out_at;
};

/* --- calls --- */

static ssize_t on_want_body(nghttp2_session *h2 AS_UNUSED, int32_t stream AS_UNUSED, uint8_t *buf,
                            size_t n, uint32_t *flags, nghttp2_data_source *source,
                            void *user AS_UNUSED)
{
    bool is_end;
    size_t k = churn_call_send(source->ptr, buf, n, &is_end);

    if (is_end)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return k || is_end ? (ssize_t)k : NGHTTP2_ERR_DEFERRED;
}

#define FIELD(n, v)                                                                                \
    (nghttp2_nv)                                                                                   \
    {                                                                                              \
        (uint8_t *)(uintptr_t)(n), (uint8_t *)(uintptr_t)(v), strlen(n), strlen(v),                \
            NGHTTP2_NV_FLAG_NONE                                                                   \
    }

static void start_call(struct conn *c, struct churn_call *call)
{
    struct run *r = c->run;
    nghttp2_data_provider body = {.source = {.ptr = call}, .read_callback = on_want_body};
    nghttp2_nv nv[8];
    size_t n = 0;

    churn_call_draw(call, &r->rand, r->only);
    nv[n++] = FIELD(":method", "POST");
    nv[n++] = FIELD(":scheme", "http");
    nv[n++] = FIELD(":path", call->path);
    nv[n++] = FIELD(":authority", "localhost");
    nv[n++] = FIELD("content-type", "application/grpc");
    nv[n++] = FIELD("te", "trailers");
    if (call->timeout)
        nv[n++] = FIELD("grpc-timeout", call->timeout);
    call->stream = nghttp2_submit_request(c->h2, NULL, nv, n, &body, call);
    AS_ASSERT(call->stream > 0);
    call->cancel_at = call->cancel_after ? r->now + call->cancel_after : 0;
    c->in_flight++;
    r->started++;
    if (r->only < 0 && as_rand_below(&r->rand, CUT_SHARE) == 0)
        c->is_doomed = true;
}

static bool may_start(const struct conn *c)
{
    return c->run->started < c->run->calls && c->resets < RESETS_MAX;
}

static void start_calls(struct conn *c)
{
    for (uint32_t i = 0; i < c->run->streams && may_start(c); i++) {
        if (!c->calls[i].stream)
            start_call(c, &c->calls[i]);
    }
}

static void end_call(struct conn *c, struct churn_call *call)
{
    struct run *r = c->run;
    const char *fault = c->is_lost ? NULL : churn_call_judge(call);

    if (fault) {
        if (!r->wrong++)
            snprintf(r->fault, sizeof(r->fault),
                     "%s of %zu bytes: %s (status %d, %lu bytes of %lu, %.90s)",
                     churn_kind_names[call->kind], call->tensor_n, fault, call->status, call->got,
                     call->announced, call->message);
    }
    r->statuses[call->status >= 0 && call->status < 17 ? call->status : 17]++;
    r->ended[call->kind]++;
    r->finished++;
    call->stream = 0;
    c->in_flight--;
}

/* Resets what has waited long enough; the time of the next one. */
static as_ns cancel_due(struct conn *c)
{
    as_ns next = AS_NEVER;

    for (uint32_t i = 0; i < c->run->streams; i++) {
        struct churn_call *call = &c->calls[i];

        if (!call->stream || !call->cancel_at || call->is_cancelled)
            continue;
        if (call->cancel_at <= c->run->now) {
            call->is_cancelled = true;
            c->resets++;
            nghttp2_submit_rst_stream(c->h2, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
        } else {
            next = AS_MIN(next, call->cancel_at);
        }
    }
    return next;
}

/* --- what nghttp2 tells --- */

static int on_header(nghttp2_session *h2, const nghttp2_frame *f, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags AS_UNUSED,
                     void *user AS_UNUSED)
{
    struct churn_call *call = nghttp2_session_get_stream_user_data(h2, f->hd.stream_id);

    if (call && name_n == 11 && memcmp(name, "grpc-status", 11) == 0) {
        call->status = 0;
        for (size_t i = 0; i < value_n; i++)
            call->status = call->status * 10 + (value[i] - '0');
    }
    if (call && name_n == 12 && memcmp(name, "grpc-message", 12) == 0)
        snprintf(call->message, sizeof(call->message), "%.*s", (int)value_n, (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *h2, uint8_t flags AS_UNUSED, int32_t stream, const uint8_t *p,
                   size_t n, void *user AS_UNUSED)
{
    struct churn_call *call = nghttp2_session_get_stream_user_data(h2, stream);

    if (call)
        churn_call_take(call, p, n);
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t stream, uint32_t code AS_UNUSED, void *user)
{
    struct churn_call *call = nghttp2_session_get_stream_user_data(h2, stream);

    if (call)
        end_call(user, call);
    return 0;
}

/* --- connections --- */

static nghttp2_session *new_session(struct conn *c)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1u << 20}};
    nghttp2_session_callbacks *cb;
    nghttp2_session *h2;

    AS_ASSERT(nghttp2_session_callbacks_new(&cb) == 0);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    AS_ASSERT(nghttp2_session_client_new(&h2, cb, c) == 0);
    nghttp2_session_callbacks_del(cb);
    nghttp2_submit_settings(h2, NGHTTP2_FLAG_NONE, settings, AS_COUNT(settings));
    nghttp2_session_set_local_window_size(h2, NGHTTP2_FLAG_NONE, 0, 8 << 20);
    return h2;
}

static void watch(struct conn *c, int op)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};

    if (c->is_blocked)
        ev.events |= EPOLLOUT;
    epoll_ctl(c->run->epoll, op, c->fd, &ev);
}

static void open_conn(struct conn *c)
{
    struct run *r = c->run;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(r->port)};

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, r->host, &addr.sin_addr) != 1 ||
        connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
        fprintf(stderr, "churn: cannot connect to %s:%u: %s\n", r->host, r->port, strerror(errno));
        exit(1);
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    c->h2 = new_session(c);
    c->resets = 0;
    c->is_blocked = c->is_lost = c->is_doomed = false;
    c->out_n = c->out_at = 0;
    r->opened++;
    watch(c, EPOLL_CTL_ADD);
}

/* Cuts it; calls in flight end with it. */
static void close_conn(struct conn *c)
{
    c->is_lost = true;
    for (uint32_t i = 0; i < c->run->streams; i++) {
        if (c->calls[i].stream)
            end_call(c, &c->calls[i]);
    }
    nghttp2_session_del(c->h2);
    c->h2 = NULL;
    close(c->fd);
}

static void lose(struct conn *c, const char *why)
{
    if (!c->run->wrong++)
        snprintf(c->run->fault, sizeof(c->run->fault), "a connection ended: %s", why);
    c->is_lost = true;
}

static void write_out(struct conn *c)
{
    bool was_blocked = c->is_blocked;

    c->is_blocked = false;
    while (!c->is_blocked && !c->is_lost) {
        ssize_t n;

        while (c->out_n < OUT_MAX / 2) { /* as many frames as fit in one write */
            const uint8_t *p;

            n = nghttp2_session_mem_send(c->h2, &p);
            if (n <= 0)
                break;
            AS_ASSERT(c->out_n + (size_t)n <= OUT_MAX);
            memcpy(c->out + c->out_n, p, (size_t)n);
            c->out_n += (size_t)n;
        }
        if (!c->out_n)
            break;
        n = send(c->fd, c->out + c->out_at, c->out_n - c->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            c->is_blocked = true;
        else if (n < 0)
            lose(c, strerror(errno));
        else
            c->out_at += (size_t)n;
        if (c->out_at == c->out_n)
            c->out_at = c->out_n = 0;
    }
    if (was_blocked != c->is_blocked && !c->is_lost)
        watch(c, EPOLL_CTL_MOD);
}

static void read_in(struct conn *c)
{
    static uint8_t in[256u << 10];
    ssize_t n = recv(c->fd, in, sizeof(in), MSG_DONTWAIT);

    if (n == 0)
        lose(c, "the server closed it");
    else if (n < 0 && errno != EAGAIN)
        lose(c, strerror(errno));
    else if (n > 0 && nghttp2_session_mem_recv(c->h2, in, (size_t)n) < 0)
        lose(c, "broken HTTP/2");
}

/* After anything that happened: new calls, the end of a connection, bytes. */
static as_ns step(struct conn *c)
{
    struct run *r = c->run;
    as_ns next;

    if (c->is_doomed) {
        r->cut++;
        c->is_lost = true;
    }
    if (c->is_lost || (!c->in_flight && c->resets >= RESETS_MAX)) {
        close_conn(c);
        open_conn(c);
    }
    start_calls(c);
    next = cancel_due(c);
    write_out(c);
    return next;
}

static void spin(struct run *r, struct conn *conns)
{
    struct epoll_event events[EVENTS];
    as_ns last = r->now;

    while (r->finished < r->calls) {
        as_ns next = AS_NEVER;
        uint64_t before = r->finished;
        int n, ms;

        for (uint32_t i = 0; i < r->connections; i++)
            next = AS_MIN(next, step(&conns[i]));
        ms = next == AS_NEVER ? 1000 : (int)((next - AS_MIN(next, r->now)) / AS_MS);
        n = epoll_wait(r->epoll, events, EVENTS, ms);
        r->now = as_clock_now();
        for (int i = 0; i < n; i++)
            read_in(events[i].data.ptr);
        if (r->finished > before)
            last = r->now;
        if (r->now - last > 30 * AS_SEC) {
            snprintf(r->fault, sizeof(r->fault), "nothing ended for 30 s");
            r->wrong++;
            return;
        }
    }
}

/* --- the command --- */

static const char help[] =
    "churn [options]: ModelInfer calls of mixed size and outcome, judged, as JSON\n"
    "  --host A, --port P           the server (127.0.0.1, 8000)\n"
    "  --connections N, --streams N calls in flight = N × N (16, 8)\n"
    "  --calls N                    (100000)\n"
    "  --seed N                     (1)\n"
    "  --only KIND                  one kind of call only, such as cancel\n";

static int kind_of(const char *name)
{
    for (int k = 0; k < CHURN_KINDS; k++) {
        if (strcmp(name, churn_kind_names[k]) == 0)
            return k;
    }
    fprintf(stderr, "churn: no kind of call is named %s\n", name);
    exit(2);
}

static void parse(struct run *r, int argc, char **argv)
{
    static const struct option options[] = {
        {"host", 1, 0, 'h'},        {"port", 1, 0, 'p'},
        {"connections", 1, 0, 'c'}, {"streams", 1, 0, 's'},
        {"calls", 1, 0, 'n'},       {"seed", 1, 0, 'S'},
        {"only", 1, 0, 'o'},        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        unsigned long n = optarg ? strtoul(optarg, NULL, 10) : 0;

        switch (c) {
        case 'h':
            r->host = optarg;
            break;
        case 'p':
            r->port = (uint16_t)n;
            break;
        case 'c':
            r->connections = (uint32_t)n;
            break;
        case 's':
            r->streams = (uint32_t)n;
            break;
        case 'n':
            r->calls = n;
            break;
        case 'S':
            r->seed = n;
            break;
        case 'o':
            r->only = kind_of(optarg);
            break;
        default:
            fputs(help, stderr);
            exit(2);
        }
    }
    if (!r->connections || !r->streams) {
        fputs(help, stderr);
        exit(2);
    }
}

static void report(const struct run *r, as_ns time)
{
    printf("{\"calls\": %lu, \"wrong\": %lu, \"seconds\": %.3f, \"connections_opened\": %lu, "
           "\"connections_cut\": %lu, \"kinds\": {",
           r->finished, r->wrong, (double)time / 1e9, r->opened, r->cut);
    for (int k = 0; k < CHURN_KINDS; k++)
        printf("%s\"%s\": %lu", k ? ", " : "", churn_kind_names[k], r->ended[k]);
    printf("}, \"statuses\": {");
    for (int s = 0; s < 17; s++)
        printf("\"%d\": %lu, ", s, r->statuses[s]);
    printf("\"none\": %lu}, \"fault\": \"%s\"}\n", r->statuses[17], r->fault);
}

int main(int argc, char **argv)
{
    static struct run r = {.host = "127.0.0.1",
                           .port = 8000,
                           .connections = 16,
                           .streams = 8,
                           .calls = 100000,
                           .seed = 1,
                           .only = -1};
    struct conn *conns;
    as_ns start;

    parse(&r, argc, argv);
    r.rand.s = r.seed;
    churn_pattern_init(r.seed);
    r.epoll = epoll_create1(EPOLL_CLOEXEC);
    conns = as_xalloc(r.connections * sizeof(*conns));
    start = r.now = as_clock_now();
    for (uint32_t i = 0; i < r.connections; i++) {
        conns[i].run = &r;
        conns[i].calls = as_xalloc(r.streams * sizeof(*conns[i].calls));
        conns[i].out = as_xalloc(OUT_MAX);
        open_conn(&conns[i]);
    }
    spin(&r, conns);
    report(&r, as_clock_now() - start);
    for (uint32_t i = 0; i < r.connections; i++) {
        close_conn(&conns[i]);
        free(conns[i].calls);
        free(conns[i].out);
    }
    close(r.epoll);
    free(conns);
    return r.wrong != 0;
}
