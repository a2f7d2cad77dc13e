#include "app/contact.h"

#include "conf/exit_code.h"
#include "ctl/token.h"
#include "io/connect.h"
#include "io/listen.h"
#include "io/runtime.h"
#include "wire/h1_client.h"
#include "wire/json.h"
#include "wire/sse.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX   ((size_t)64 << 20)
#define ANSWER_WAIT  (10 * AS_SEC) /* without a byte */
#define CONNECT_WAIT (5 * AS_SEC)
#define READ         65536u
#define IOVS         16

static const struct as_h1_client_conf conf = {
    .max_line = 8192, .max_header_bytes = 64u << 10, .max_headers = 100, .max_chunk_ext = 1024};

as_ns as_contact_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (as_ns)t.tv_sec * AS_SEC + (as_ns)t.tv_nsec;
}

int as_contact_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* --- which server --- */

static void find(struct as_runtime_found *f, const struct as_option_set *o)
{
    as_runtime_find(f, as_option_str(o, AS_OPT_RUNTIME_DIR), o->v[AS_OPT_PORT].given,
                    (uint16_t)as_option_u64(o, AS_OPT_PORT));
}

uint16_t as_contact_place(const struct as_option_set *opts, char **ret_base)
{
    struct as_runtime_found f;

    find(&f, opts);
    *ret_base = as_str_dup(as_str_of(f.chosen.base));
    as_runtime_found_fini(&f);
    return f.chosen.port;
}

int as_contact_missing(const struct as_option_set *opts)
{
    struct as_runtime_found f;
    struct as_buf text;

    find(&f, opts);
    as_buf_init(&text);
    as_buf_printf(&text, "anyserve: no server on port %u in %s.", f.chosen.port, f.chosen.base);
    if (!f.n)
        as_buf_str(&text, "\n  No server runs there; another place is chosen with --runtime-dir.");
    as_runtime_list(&f, &text);
    fprintf(stderr, "%.*s\n", AS_STR_FMT(as_buf_slice(&text)));
    as_buf_fini(&text);
    as_runtime_found_fini(&f);
    return AS_CODE_FAILED;
}

/* --- the way there --- */

struct way {
    const struct as_option_set *opts;
    const char *remote; /* HOST:PORT, or "" */
    char name[320];     /* for messages */
    char host[320];     /* as HTTP writes it */
    char token[AS_TOKEN_MAX + 1];
    int fd;
};

static int open_unix(struct way *w, const struct as_contact_request *q)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    char path[AS_RUNTIME_PATH_MAX], *base;
    uint16_t port = as_contact_place(w->opts, &base);
    int rc = as_runtime_path(path, base, port, q->socket);

    free(base);
    snprintf(w->name, sizeof(w->name), "%s of the server on port %u", q->socket, port);
    snprintf(w->host, sizeof(w->host), "localhost");
    w->fd = rc < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (w->fd >= 0) {
        /* as_runtime_path bounds it by the size of sun_path */
        memcpy(sa.sun_path, path, strlen(path));
        if (connect(w->fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
            return AS_CODE_OK;
        close(w->fd);
        w->fd = -1;
    }
    return q->is_quiet ? AS_CODE_FAILED : as_contact_missing(w->opts);
}

static int refuse(const struct as_buf *why, int code)
{
    fprintf(stderr, "anyserve: %.*s\n", AS_STR_FMT(as_buf_slice(why)));
    return code;
}

static int read_token(struct way *w, struct as_buf *why)
{
    const char *file = as_option_str(w->opts, AS_OPT_CONTROL_TOKEN_FILE);

    if (file[0])
        return as_token_read(file, w->token, why) < 0 ? refuse(why, AS_CODE_CONFIG) : AS_CODE_OK;
    as_buf_str(why, "--control needs --control-token-file: a file that holds the server's token");
    return refuse(why, AS_CODE_USAGE);
}

static int open_tcp(struct way *w, const struct as_contact_request *q)
{
    char host[AS_LISTEN_HOST_MAX], reason[160];
    struct as_buf why;
    uint16_t port;
    int code = AS_CODE_USAGE;

    as_buf_init(&why);
    snprintf(w->name, sizeof(w->name), "the control API at %s", w->remote);
    snprintf(w->host, sizeof(w->host), "%s", w->remote);
    if (strcmp(q->socket, AS_RUNTIME_CONTROL) != 0) {
        as_buf_str(&why, "--control reaches the control API of a server only, not its status page");
        refuse(&why, code);
    } else if (as_listen_address(w->remote, host, &port) < 0 || !port) {
        as_buf_printf(&why, "--control '%s' is no ADDRESS:PORT, as gpu1:9001 or [::1]:9001",
                      w->remote);
        refuse(&why, code);
    } else {
        code = read_token(w, &why);
    }
    if (code == AS_CODE_OK &&
        as_connect_tcp(host, port, CONNECT_WAIT, &w->fd, reason, sizeof(reason)) < 0) {
        as_buf_printf(&why, "cannot connect to %s: %s", w->remote, reason);
        code = q->is_quiet ? AS_CODE_FAILED : refuse(&why, AS_CODE_FAILED);
    }
    as_buf_fini(&why);
    return code;
}

static int open_way(struct way *w, const struct as_option_set *opts,
                    const struct as_contact_request *q)
{
    *w = (struct way){.opts = opts, .fd = -1, .remote = as_option_str(opts, AS_OPT_CONTROL)};
    return w->remote[0] ? open_tcp(w, q) : open_unix(w, q);
}

static void close_way(struct way *w)
{
    if (w->fd >= 0)
        close(w->fd);
    explicit_bzero(w->token, sizeof(w->token));
}

/* --- a request and its answer --- */

struct talk {
    const struct as_contact_request *q;
    const struct as_contact_stream *stream; /* NULL: one answer */
    int fd;
    struct as_h1_client *h1;
    struct as_outq out;
    struct as_buf body; /* or the data of an event */
    struct as_sse sse;
    unsigned status;
    bool is_events, over, whole, too_big, stopped;
};

static void on_field(void *conn, void *call AS_UNUSED, struct as_str name, struct as_str value,
                     bool trailer AS_UNUSED)
{
    static const char events[] = "text/event-stream";
    struct talk *t = conn;
    uint64_t status;

    if (as_str_eq(name, AS_STR(":status")) && as_str_u64(value, &status) == 0)
        t->status = (unsigned)status;
    if (as_str_eq(name, AS_STR("content-type")))
        t->is_events =
            value.n >= sizeof(events) - 1 && memcmp(value.p, events, sizeof(events) - 1) == 0;
}

static void on_events(struct talk *t, const uint8_t *p, size_t n)
{
    while (!t->stopped && !t->too_big) {
        switch (as_sse_read(&t->sse, &p, &n, &t->body, ANSWER_MAX)) {
        case AS_SSE_MORE:
            return; /* what came at once is told */
        case AS_SSE_EVENT:
            t->stopped = !t->stream->on_event(t->stream->ctx, as_buf_slice(&t->body));
            as_buf_drop(&t->body, t->body.n);
            break;
        case AS_SSE_TOO_BIG:
            t->too_big = true;
        }
    }
}

static void on_data(void *conn, void *call AS_UNUSED, const uint8_t *p, size_t n)
{
    struct talk *t = conn;

    if (t->stream && t->is_events && t->status == 200)
        on_events(t, p, n);
    else if (n > ANSWER_MAX - t->body.n)
        t->too_big = true;
    else
        as_buf_add(&t->body, p, n);
}

static void on_close(void *conn, void *call AS_UNUSED, uint32_t code AS_UNUSED, bool whole)
{
    struct talk *t = conn;

    t->over = true;
    t->whole = whole;
}

static int begin(struct talk *t, const struct way *w, struct as_buf *bearer)
{
    static const struct as_http_client_ops ops = {on_field, on_data, on_close};
    struct as_http_header h[6] = {{AS_STR(":method"), as_str_of(t->q->method)},
                                  {AS_STR(":scheme"), AS_STR("http")},
                                  {AS_STR(":path"), as_str_of(t->q->target)},
                                  {AS_STR(":authority"), as_str_of(w->host)},
                                  {AS_STR("user-agent"), AS_STR("anyserve/" AS_VERSION)}};
    struct as_http_client_request r = {.headers = h, .n_headers = 5};
    uint32_t stream;
    int rc = as_h1_client_new(&t->h1, &conf, &ops, t);

    if (w->token[0]) {
        as_buf_printf(bearer, "Bearer %s", w->token);
        h[r.n_headers++] = (struct as_http_header){AS_STR("authorization"), as_buf_slice(bearer)};
    }
    if (t->q->body.n) {
        r.body = &t->q->body;
        r.n_body = 1;
    }
    return rc < 0 ? rc : as_h1_client_request(t->h1, &r, t, &stream);
}

/* What is ready goes out as far as the socket takes it. 0 or an errno. */
static int write_out(struct talk *t)
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

static int read_in(struct talk *t)
{
    uint8_t part[READ];
    ssize_t n = recv(t->fd, part, sizeof(part), MSG_DONTWAIT);

    if (n > 0)
        return as_h1_client_recv(t->h1, part, (size_t)n) < 0 ? EPROTO : 0;
    if (n == 0) {
        as_h1_client_eof(t->h1);
        /* an answer without an end of its own ends so; any other one is cut off */
        as_h1_client_send(t->h1, &t->out, READ);
        return t->over ? 0 : ECONNRESET;
    }
    return errno == EAGAIN || errno == EINTR ? 0 : errno;
}

static int milliseconds(as_ns from, as_ns to)
{
    return to == AS_NEVER ? -1
           : to <= from   ? 0
                          : (int)AS_MIN((to - from + AS_MS - 1) / AS_MS, (as_ns)3600000);
}

/* Until the answer is over, or something else is. 0, or an errno: ECANCELED for stop_fd, ETIMEDOUT
 * for the caller's deadline, ETIME when the server is silent. */
static int run(struct talk *t)
{
    as_ns wait = t->q->wait ? t->q->wait : ANSWER_WAIT, now = as_contact_clock();
    as_ns end = t->stream ? t->stream->deadline : AS_NEVER;
    as_ns silent = wait == AS_NEVER ? AS_NEVER : now + wait;
    int e = write_out(t);

    while (!e && !t->over && !t->too_big && !t->stopped) {
        struct pollfd p[2] = {{.fd = t->fd, .events = POLLIN},
                              {.fd = t->stream ? t->stream->stop_fd : -1, .events = POLLIN}};
        int n;

        if (t->out.bytes)
            p[0].events |= POLLOUT;
        n = poll(p, 2, milliseconds(now, AS_MIN(end, silent)));
        now = as_contact_clock();
        if (n < 0)
            e = errno == EINTR ? 0 : errno;
        else if (p[1].revents)
            e = ECANCELED;
        else if (now >= end)
            e = ETIMEDOUT;
        else if (now >= silent && !n)
            e = ETIME;
        if (!e && n > 0 && p[0].revents) {
            silent = wait == AS_NEVER ? AS_NEVER : now + wait;
            e = p[0].revents & (POLLIN | POLLHUP | POLLERR) ? read_in(t) : 0;
            if (!e && !t->over)
                e = write_out(t);
            if (t->stream && t->is_events && !t->stopped)
                t->stopped = !t->stream->on_pause(t->stream->ctx);
        }
    }
    return t->too_big ? EMSGSIZE : e;
}

/* The errno of run. */
static int converse(struct talk *t, const struct way *w)
{
    struct as_buf bearer;
    int e;

    t->fd = w->fd;
    as_outq_init(&t->out);
    as_buf_init(&t->body);
    as_buf_init(&bearer);
    e = begin(t, w, &bearer) < 0 ? EINVAL : run(t);
    as_h1_client_free(t->h1);
    as_outq_fini(&t->out);
    as_buf_fini(&bearer);
    return e;
}

/* The answer's bytes become the caller's. */
static void hand_over(struct talk *t, struct as_contact_answer *ret_a)
{
    ret_a->status = t->status;
    ret_a->bytes = t->body;
    ret_a->body = as_buf_slice(&ret_a->bytes);
}

int as_contact_ask(const struct as_option_set *opts, const struct as_contact_request *q,
                   struct as_contact_answer *ret_a)
{
    struct talk t = {.q = q};
    struct way w;
    int code = open_way(&w, opts, q), e;

    *ret_a = (struct as_contact_answer){0};
    if (code == AS_CODE_OK) {
        e = converse(&t, &w);
        hand_over(&t, ret_a);
        if (e || !t.whole) {
            code = AS_CODE_FAILED;
            if (!q->is_quiet)
                fprintf(stderr, "anyserve: %s gave no whole answer%s%s\n", w.name, e ? ": " : "",
                        e == ETIME ? "it is silent"
                        : e        ? strerror(e)
                                   : "");
        }
    }
    close_way(&w);
    return code;
}

enum as_contact_end as_contact_watch(const struct as_option_set *opts,
                                     const struct as_contact_request *q,
                                     const struct as_contact_stream *s,
                                     struct as_contact_answer *ret_a, int *ret_code)
{
    struct talk t = {.q = q, .stream = s};
    struct way w;
    int e;

    *ret_a = (struct as_contact_answer){0};
    *ret_code = open_way(&w, opts, q);
    e = *ret_code == AS_CODE_OK ? converse(&t, &w) : 0;
    close_way(&w);
    if (*ret_code != AS_CODE_OK)
        return AS_CONTACT_ABSENT;
    hand_over(&t, ret_a);
    if (e == ECANCELED)
        return AS_CONTACT_SIGNAL;
    if (e == ETIMEDOUT)
        return AS_CONTACT_DEADLINE;
    if (t.stopped)
        return AS_CONTACT_STOPPED;
    return t.whole && !t.is_events ? AS_CONTACT_REFUSED : AS_CONTACT_BROKEN;
}

void as_contact_fini(struct as_contact_answer *a)
{
    as_buf_fini(&a->bytes);
}

/* {"error": text} as the text alone; what is none, as it is. */
void as_contact_error(const struct as_contact_answer *a, struct as_buf *ret_text)
{
    struct as_str text = a->body;
    struct as_arena arena;
    struct as_json *j = as_json_new();
    struct as_json_value root;
    struct as_json_items it;
    struct as_buf padded;

    as_arena_init(&arena, NULL, 0);
    as_buf_init(&padded);
    memset(as_buf_reserve(&padded, a->body.n + AS_JSON_PADDING), 0, a->body.n + AS_JSON_PADDING);
    if (a->body.n)
        memcpy(padded.p, a->body.p, a->body.n);
    if (j && as_json_open(j, &arena, padded.p, a->body.n, &root) == 0 &&
        as_json_items(j, &root, &it) == 0 && it.object && as_json_next(j, &it) > 0 &&
        as_str_eq(it.key, AS_STR("error")))
        as_json_string(j, &it.value, &text);
    as_buf_add(ret_text, text.p, text.n);
    if (j)
        as_json_close(j);
    as_json_free(j);
    as_arena_fini(&arena);
    as_buf_fini(&padded);
}

int as_contact_print(const struct as_contact_request *q, const struct as_contact_answer *a)
{
    struct as_buf text;

    if (a->status != 200) {
        as_buf_init(&text);
        as_contact_error(a, &text);
        fprintf(stderr, "anyserve: %s answered %u: %.*s\n", q->socket, a->status,
                AS_STR_FMT(as_buf_slice(&text)));
        as_buf_fini(&text);
        return AS_CODE_FAILED;
    }
    fwrite(a->body.p, 1, a->body.n, stdout);
    if (a->body.n && a->body.p[a->body.n - 1] != '\n')
        fputc('\n', stdout);
    return fflush(stdout) == 0 ? AS_CODE_OK : AS_CODE_FAILED;
}

int as_contact_show(const struct as_option_set *opts, const struct as_contact_request *q)
{
    struct as_contact_answer a;
    int code = as_contact_ask(opts, q, &a);

    if (code == AS_CODE_OK)
        code = as_contact_print(q, &a);
    as_contact_fini(&a);
    return code;
}
