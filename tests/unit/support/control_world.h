/* tests/unit/support/control_world.h — a control interface and its clients over HTTP/1.1, for the
 * tests of edge/admin/control: the test plays the controller, which carries out requests and lists
 * what is served. */
#ifndef AS_TESTS_CONTROL_WORLD_H
#define AS_TESTS_CONTROL_WORLD_H

#include "edge/admin/control_events.h"
#include "edge/edge_internal.h"

#include "unit.h"

#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEARTBEAT  (50 * AS_MS)
#define MAX_UNSENT 2048u
#define PATIENCE   (30 * AS_SEC) /* a test that waits longer fails */
#define ROWS       16

struct client {
    int fd;
    bool eof;
    struct as_buf received; /* with a NUL behind it */
};

struct world {
    struct as_loop *loop;
    struct as_edge_budgets budgets;
    struct as_log log;
    struct as_buf logged;
    struct as_control api;
    struct as_edge *edge;
    /* the last request, and its call if it waits for an answer */
    struct as_buf last_request; /* "VERB application deployment replicas text" */
    struct as_control_call *pending;
    bool answer_later; /* the test calls answer() */
    uint32_t gone;
    size_t stored; /* bytes of the last pickled code */
    int err;       /* of the next answers, with `text` */
    const char *text;
    /* what is served */
    struct as_served rows[ROWS];
    uint32_t n_rows, n_listings;
};

static inline const char *text_of(struct as_buf *b)
{
    as_buf_add(b, "", 1);
    b->n--;
    return (char *)b->p;
}

static inline void answer(struct world *w, int err, const char *text)
{
    struct as_control_call *k = w->pending;
    struct as_buf b;

    w->pending = NULL;
    as_buf_init(&b);
    as_buf_str(&b, text ? text : "");
    as_control_answer(k, err, &b);
    as_buf_fini(&b);
}

static inline void on_gone(void *arg)
{
    ((struct world *)arg)->gone++;
}

static inline void handle(void *ctx, const struct as_control_request *q, struct as_control_call *k)
{
    static const char *const verbs[] = {"show",   "config",   "history",    "plan",
                                        "deploy", "plan_one", "deploy_one", "delete",
                                        "scale",  "restart",  "rollback"};
    struct world *w = ctx;

    as_buf_drop(&w->last_request, w->last_request.n);
    as_buf_printf(&w->last_request, "%s %.*s %.*s %u %.*s", verbs[q->verb],
                  AS_STR_FMT(q->application), AS_STR_FMT(q->deployment), q->replicas,
                  AS_STR_FMT(q->text));
    if (q->generation != AS_CONTROL_ANY && q->generation) /* of verbs that take it */
        as_buf_printf(&w->last_request, " after %lu", (unsigned long)q->generation);
    w->pending = k;
    if (w->answer_later)
        as_control_set_on_gone(k, on_gone, w);
    else
        answer(w, w->err, w->text);
}

static inline void each(void *ctx, as_served_fn *fn, void *arg)
{
    struct world *w = ctx;

    w->n_listings++;
    for (uint32_t i = 0; i < w->n_rows; i++)
        fn(arg, &w->rows[i]);
}

static inline void expect_pickle(void *ctx, struct as_str name)
{
    as_buf_set(&((struct world *)ctx)->last_request, name);
}

/* On the helper's thread; the test waits for its answer. */
static inline int store_pickle(void *ctx, struct as_str name AS_UNUSED, struct as_str content,
                               struct as_buf *err)
{
    struct world *w = ctx;

    w->stored = content.n;
    if (w->err)
        as_buf_str(err, w->text);
    return w->err;
}

static inline void on_log(void *ctx, enum as_log_level level AS_UNUSED, const char *line, size_t n)
{
    as_buf_add(&((struct world *)ctx)->logged, line, n);
}

static inline struct world *open_world(void)
{
    struct world *w = as_xalloc(sizeof(*w));
    struct as_control_events_conf events = {.heartbeat = HEARTBEAT, .max_unsent = MAX_UNSENT};
    struct as_edge_conf conf = {.interface = AS_INTERFACE_CONTROL,
                                .host = "",
                                .api = &w->api,
                                .h1 = {.max_line = 4096,
                                       .max_header_bytes = 8192,
                                       .max_headers = 64,
                                       .max_chunk_ext = 64,
                                       .max_unread = 65536},
                                .max_http_body = 4096,
                                .max_pickle = 8192,
                                .pickle_option = "--max-pickle-bytes",
                                .max_inflated = 4096,
                                .body_option = "--max-spec-bytes",
                                .max_connections = 16,
                                .max_requests = 16,
                                .header_timeout = 60 * AS_SEC,
                                .max_lingering = 16};

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    w->log = (struct as_log){.level = AS_LOG_DEBUG, .sink = on_log, .ctx = w};
    w->budgets.requests = w->budgets.answers = (struct as_budget){.limit = 1 << 20, .share = 100};
    w->api = (struct as_control){.handle = handle,
                                 .each = each,
                                 .expect_pickle = expect_pickle,
                                 .store_pickle = store_pickle,
                                 .ctx = w};
    as_control_events_new(&w->api.events, w->loop, &w->api, &events, &w->log);
    assert_int_equal(as_edge_new(&w->edge, w->loop, NULL, &conf, &w->budgets, &w->log), 0);
    w->text = "{}";
    return w;
}

/* Shuts the server down, with open connections and pending requests. */
static inline void close_world(struct world *w)
{
    as_edge_stop(w->edge);
    if (w->pending)
        answer(w, AS_ECANCELLED, NULL);
    as_edge_close(w->edge);
    as_control_events_close(w->api.events);
    as_loop_free(w->loop);
    as_edge_free(w->edge);
    as_control_events_free(w->api.events);
    as_buf_fini(&w->logged);
    as_buf_fini(&w->last_request);
    free(w);
}

static inline struct client *connect_client(struct world *w)
{
    struct client *c = as_xalloc(sizeof(*c));
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    c->fd = ends[0];
    as_conn_accept(w->edge, ends[1], false);
    return c;
}

static inline void free_client(struct client *c)
{
    close(c->fd);
    as_buf_fini(&c->received);
    free(c);
}

static inline as_ns now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (as_ns)ts.tv_sec * AS_SEC + (as_ns)ts.tv_nsec;
}

/* Runs a turn of the loop; then the client reads. c NULL: nothing is read. */
static inline void run_turn(struct world *w, struct client *c)
{
    uint8_t part[4096];
    ssize_t n;

    uv_run(&w->loop->uv, UV_RUN_NOWAIT);
    while (c && (n = recv(c->fd, part, sizeof(part), 0)) >= 0) {
        as_buf_add(&c->received, part, (size_t)n);
        if (n == 0) {
            c->eof = true;
            break;
        }
    }
}

/* Runs turns until the condition holds. */
#define UNTIL(w, c, condition)                                                                     \
    for (as_ns since_ = now(); !(condition); run_turn(w, c))                                       \
    assert_true(now() - since_ < PATIENCE)

static inline bool has_received(struct client *c, const char *what)
{
    return strstr(text_of(&c->received), what) != NULL;
}

static inline void clear_received(struct client *c)
{
    as_buf_drop(&c->received, c->received.n);
}

static inline void send_request(struct client *c, const char *method, const char *target,
                                const char *body)
{
    struct as_buf b;

    as_buf_init(&b);
    as_buf_printf(&b, "%s %s HTTP/1.1\r\nhost: localhost\r\n", method, target);
    if (body)
        as_buf_printf(&b, "content-length: %zu\r\n", strlen(body));
    as_buf_printf(&b, "\r\n%s", body ? body : "");
    assert_int_equal(send(c->fd, b.p, b.n, MSG_NOSIGNAL), b.n);
    as_buf_fini(&b);
}

#endif
