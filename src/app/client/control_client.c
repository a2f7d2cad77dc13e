#include "app/client/control_client.h"

#include "app/client/control_client_connect.h"
#include "conf/option/exit_code.h"
#include "io/loop/clock.h"
#include "wire/h1/h1_client.h"
#include "wire/http/sse.h"
#include "wire/json/json_text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)64 << 20)
#define READ       65536u
#define IOVS       16

static const struct as_h1_client_conf conf = {
    .max_line = 8192, .max_header_bytes = 64u << 10, .max_headers = 100, .max_chunk_ext = 1024};

static as_ns command_start; /* a process runs one command */

void as_control_client_start_clock(void)
{
    command_start = as_clock_now();
}

as_ns as_control_client_deadline(const struct as_option_set *opts)
{
    as_ns wait = as_option_ns(opts, AS_OPT_WAIT_TIMEOUT);

    if (!(opts->scope & (AS_SCOPE_DEPLOY | AS_SCOPE_CHANGE | AS_SCOPE_SCALE)) || !wait)
        return AS_NEVER;
    return command_start + wait;
}

int as_control_client_signal_fd(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* --- a request and its answer --- */

struct http_call {
    const struct as_control_client_request *q;
    const struct as_control_client_stream *stream; /* NULL: one answer */
    const struct as_option_set *opts;
    int fd, stop_fd;
    as_ns deadline;
    struct as_h1_client *h1;
    struct as_outq out;
    struct as_buf body; /* or the data of an event */
    struct as_sse sse;
    unsigned status;
    bool is_events, finished, whole, too_big, stopped;
};

static void on_field(void *conn, void *call AS_UNUSED, struct as_str name, struct as_str value,
                     bool trailer AS_UNUSED)
{
    static const char events[] = "text/event-stream";
    struct http_call *t = conn;
    uint64_t status;

    if (as_str_eq(name, AS_STR(":status")) && as_str_u64(value, &status) == 0)
        t->status = (unsigned)status;
    if (as_str_eq(name, AS_STR("content-type")))
        t->is_events =
            value.n >= sizeof(events) - 1 && memcmp(value.p, events, sizeof(events) - 1) == 0;
}

static void on_events(struct http_call *t, const uint8_t *p, size_t n)
{
    while (!t->stopped && !t->too_big) {
        switch (as_sse_read(&t->sse, &p, &n, &t->body, ANSWER_MAX)) {
        case AS_SSE_MORE:
            return; /* all whole events are delivered */
        case AS_SSE_EVENT:
            t->stopped = !t->stream->on_event(t->stream->ctx, as_buf_slice(&t->body));
            t->body.n = 0;
            break;
        case AS_SSE_TOO_BIG:
            t->too_big = true;
        }
    }
}

static void on_data(void *conn, void *call AS_UNUSED, const uint8_t *p, size_t n)
{
    struct http_call *t = conn;

    if (t->stream && t->is_events && t->status == 200)
        on_events(t, p, n);
    else if (n > ANSWER_MAX - t->body.n)
        t->too_big = true;
    else
        as_buf_add(&t->body, p, n);
}

static void on_close(void *conn, void *call AS_UNUSED, uint32_t code AS_UNUSED, bool whole)
{
    struct http_call *t = conn;

    t->finished = true;
    t->whole = whole;
}

static int start_request(struct http_call *t, const struct as_control_client_conn *c,
                         struct as_buf *bearer)
{
    static const struct as_http_client_ops ops = {on_field, on_data, on_close};
    struct as_http_header h[6] = {{AS_STR(":method"), as_str_of(t->q->method)},
                                  {AS_STR(":scheme"), AS_STR("http")},
                                  {AS_STR(":path"), as_str_of(t->q->target)},
                                  {AS_STR(":authority"), as_str_of(c->host)},
                                  {AS_STR("user-agent"), AS_STR("anyserve/" AS_VERSION)}};
    struct as_http_client_request r = {.headers = h, .n_headers = 5};
    uint32_t stream;
    int rc = as_h1_client_new(&t->h1, &conf, &ops, t);

    if (c->token[0]) {
        as_buf_printf(bearer, "Bearer %s", c->token);
        h[r.n_headers++] = (struct as_http_header){AS_STR("authorization"), as_buf_slice(bearer)};
    }
    if (t->q->body.n) {
        r.body = &t->q->body;
        r.n_body = 1;
    }
    return rc < 0 ? rc : as_h1_client_request(t->h1, &r, t, &stream);
}

/* Sends what is ready, as far as the socket takes it. 0 or an errno. */
static int send_pending(struct http_call *t)
{
    struct iovec iov[IOVS];
    ssize_t n = 0;

    if (as_h1_client_send(t->h1, &t->out, READ) < 0 || t->out.broken)
        return EPROTO;
    while (t->out.bytes && n >= 0) {
        struct msghdr m = {.msg_iov = iov};

        m.msg_iovlen = (size_t)as_outq_iov(&t->out, iov, IOVS);
        n = sendmsg(t->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            as_outq_drop(&t->out, (size_t)n);
        if (as_h1_client_send(t->h1, &t->out, READ) < 0)
            return EPROTO;
    }
    return n >= 0 || errno == EAGAIN || errno == EINTR ? 0 : errno;
}

static int receive_available(struct http_call *t)
{
    uint8_t part[READ];
    ssize_t n = recv(t->fd, part, sizeof(part), MSG_DONTWAIT);

    if (n > 0)
        return as_h1_client_recv(t->h1, part, (size_t)n) < 0 ? EPROTO : 0;
    if (n == 0) {
        as_h1_client_eof(t->h1);
        /* the end of an answer without a length; any other answer is cut off */
        as_h1_client_send(t->h1, &t->out, READ);
        return t->finished ? 0 : ECONNRESET;
    }
    return errno == EAGAIN || errno == EINTR ? 0 : errno;
}

static int milliseconds(as_ns from, as_ns to)
{
    return to == AS_NEVER ? -1
           : to <= from   ? 0
                          : (int)AS_MIN((to - from + AS_MS - 1) / AS_MS, (as_ns)3600000);
}

static int probe_server(const struct http_call *t);

/* Sends and receives until the answer is finished or an error ends the call. 0, or an errno:
 * ECANCELED for stop_fd, ETIMEDOUT for the deadline, ETIME when the server is silent. */
static int transfer(struct http_call *t)
{
    as_ns wait = as_control_client_answer_timeout(t->opts, t->q), now = as_clock_now(),
          silent = now + wait;
    int e = send_pending(t);

    while (!e && !t->finished && !t->too_big && !t->stopped) {
        struct pollfd p[2] = {{.fd = t->fd, .events = POLLIN},
                              {.fd = t->stop_fd, .events = POLLIN}};
        int n;

        if (t->out.bytes)
            p[0].events |= POLLOUT;
        n = poll(p, 2, milliseconds(now, AS_MIN(t->deadline, silent)));
        now = as_clock_now();
        if (n < 0)
            e = errno == EINTR ? 0 : errno;
        else if (p[1].revents)
            e = ECANCELED;
        else if (now >= t->deadline)
            e = ETIMEDOUT;
        else if (now >= silent && !n)
            e = t->q->is_slow ? probe_server(t) : ETIME;
        if (!e && n > 0 && p[0].revents) {
            e = p[0].revents & (POLLIN | POLLHUP | POLLERR) ? receive_available(t) : 0;
            if (!e && !t->finished)
                e = send_pending(t);
            if (t->stream && t->is_events && !t->stopped)
                t->stopped = !t->stream->on_batch_end(t->stream->ctx);
        }
        if (!e && now >= silent)
            silent = as_clock_now() + wait; /* probe_server got an answer */
        else if (n > 0)
            silent = now + wait;
    }
    return t->too_big ? EMSGSIZE : e;
}

/* 0, or an errno of `transfer`. */
static int run_call(struct http_call *t, const struct as_control_client_conn *c)
{
    as_ns deadline = as_control_client_deadline(c->opts);
    struct as_buf bearer = {0};
    int e;

    t->opts = c->opts;
    t->fd = c->fd;
    t->deadline = AS_MIN(t->deadline, deadline);
    as_outq_init(&t->out);
    e = start_request(t, c, &bearer) < 0 ? EINVAL : transfer(t);
    as_h1_client_free(t->h1);
    as_outq_fini(&t->out);
    as_buf_fini(&bearer);
    return e;
}

/* A slow answer looks like a server that hangs. A server that does not hang answers another request
 * meanwhile, with whatever status. 0, or an errno of `transfer`. */
static int probe_server(const struct http_call *t)
{
    const struct as_control_client_request q = {.socket = t->q->socket,
                                                .method = "GET",
                                                .target = "/",
                                                .wait = t->q->wait,
                                                .is_quiet = true};
    struct http_call other = {.q = &q, .stop_fd = t->stop_fd, .deadline = t->deadline};
    struct as_control_client_conn c;
    int e = ETIME;

    if (as_control_client_connect(&c, t->opts, &q, t->deadline) == AS_EXIT_CODE_OK) {
        e = run_call(&other, &c);
        if (e != ECANCELED && e != ETIMEDOUT)
            e = other.status ? 0 : ETIME;
        as_buf_fini(&other.body);
    }
    as_control_client_disconnect(&c);
    return e;
}

/* Moves the status and the bytes of the body to the caller. */
static void move_answer(struct http_call *t, struct as_control_client_answer *ret_a)
{
    ret_a->status = t->status;
    ret_a->bytes = t->body;
    ret_a->body = as_buf_slice(&ret_a->bytes);
}

/* Prints why there is no whole answer. Returns the exit code. */
static int print_no_answer(const struct as_control_client_conn *c,
                           const struct as_control_client_request *q, int e)
{
    if (e == ETIME)
        return as_control_client_print_silent(c, q);
    if (e == ETIMEDOUT)
        return q->is_quiet ? AS_EXIT_CODE_TIMEOUT
                           : as_control_client_print_timeout(
                                 c->opts, "not done within --timeout: no answer came");
    if (!q->is_quiet)
        fprintf(stderr, "anyserve: %s did not send a whole answer%s%s\n", c->name, e ? ": " : "",
                e ? strerror(e) : "");
    return AS_EXIT_CODE_FAILED;
}

int as_control_client_call(const struct as_option_set *opts,
                           const struct as_control_client_request *q,
                           struct as_control_client_answer *ret_a)
{
    struct http_call t = {.q = q, .stop_fd = -1, .deadline = AS_NEVER};
    struct as_control_client_conn c;
    int code = as_control_client_connect(&c, opts, q, AS_NEVER), e;

    *ret_a = (struct as_control_client_answer){0};
    if (code == AS_EXIT_CODE_OK) {
        e = run_call(&t, &c);
        move_answer(&t, ret_a);
        if (e || !t.whole)
            code = print_no_answer(&c, q, e);
    }
    as_control_client_disconnect(&c);
    return code;
}

enum as_control_client_end as_control_client_watch(const struct as_option_set *opts,
                                                   const struct as_control_client_request *q,
                                                   const struct as_control_client_stream *s,
                                                   struct as_control_client_answer *ret_a,
                                                   int *ret_code)
{
    struct http_call t = {.q = q, .stream = s, .stop_fd = s->stop_fd, .deadline = s->deadline};
    struct as_control_client_conn c;
    int e;

    *ret_a = (struct as_control_client_answer){0};
    *ret_code = as_control_client_connect(&c, opts, q, s->deadline);
    e = *ret_code == AS_EXIT_CODE_OK ? run_call(&t, &c) : 0;
    if (e == ETIME)
        *ret_code = as_control_client_print_silent(&c, q);
    as_control_client_disconnect(&c);
    if (*ret_code != AS_EXIT_CODE_OK && !e)
        return AS_CONTROL_CLIENT_NO_SERVER;
    move_answer(&t, ret_a);
    switch (e) {
    case ECANCELED:
        return AS_CONTROL_CLIENT_SIGNAL;
    case ETIMEDOUT:
        return AS_CONTROL_CLIENT_DEADLINE;
    case ETIME:
        return AS_CONTROL_CLIENT_SILENT;
    default:
        break;
    }
    if (t.stopped)
        return AS_CONTROL_CLIENT_STOPPED;
    return t.whole && !t.is_events ? AS_CONTROL_CLIENT_REFUSED : AS_CONTROL_CLIENT_BROKEN;
}

void as_control_client_answer_fini(struct as_control_client_answer *a)
{
    as_buf_fini(&a->bytes);
}

bool as_control_client_error_text(const struct as_control_client_answer *a, struct as_buf *ret_text)
{
    bool found = false;
    struct as_str text = a->body;
    struct as_json_value root;
    struct as_json_items it;
    struct as_json_text t;

    if (as_json_text_open(&t, a->body, &root) == 0 && as_json_items(t.json, &root, &it) == 0 &&
        it.object && as_json_next(t.json, &it) > 0 && as_str_eq(it.key, AS_STR("error")))
        found = as_json_string(t.json, &it.value, &text) == 0;
    as_buf_add(ret_text, text.p, text.n);
    as_json_text_close(&t);
    return found;
}

int as_control_client_print_refused(const struct as_control_client_answer *a)
{
    struct as_buf text = {0};

    /* these statuses are about the request, and their text is enough; others are about the server
     * or the connection, and the status helps */
    if (as_control_client_error_text(a, &text) &&
        (a->status == 400 || a->status == 404 || a->status == 409))
        fprintf(stderr, "anyserve: %.*s\n", AS_STR_FMT(as_buf_slice(&text)));
    else
        fprintf(stderr, "anyserve: the server answered %u: %.*s\n", a->status,
                AS_STR_FMT(as_buf_slice(&text)));
    as_buf_fini(&text);
    return AS_EXIT_CODE_FAILED;
}

int as_control_client_print(const struct as_control_client_answer *a)
{
    if (a->status != 200)
        return as_control_client_print_refused(a);
    fwrite(a->body.p, 1, a->body.n, stdout);
    if (a->body.n && a->body.p[a->body.n - 1] != '\n')
        fputc('\n', stdout);
    return fflush(stdout) == 0 ? AS_EXIT_CODE_OK : AS_EXIT_CODE_FAILED;
}

int as_control_client_call_print(const struct as_option_set *opts,
                                 const struct as_control_client_request *q)
{
    struct as_control_client_answer a;
    int code = as_control_client_call(opts, q, &a);

    if (code == AS_EXIT_CODE_OK)
        code = as_control_client_print(&a);
    as_control_client_answer_fini(&a);
    return code;
}
