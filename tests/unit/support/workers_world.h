/* A supervisor's table of workers whose dispatcher and controller are the test; /bin/sh is the
 * worker. For tests/unit/ctl/supervise. */
#ifndef AS_TEST_WORKERS_WORLD_H
#define AS_TEST_WORKERS_WORLD_H

#include "ctl/message/spawn.h"
#include "ctl/supervise/workers.h"
#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

struct peer { /* the other end of a channel; that of a killed process closes after the next one was
                 opened */
    struct as_sock watch;
    struct world *world;
    struct as_channel *channel;
    struct as_buf received; /* "TYPE replica state text;" of each message */
};

struct world {
    struct as_loop *loop;
    struct as_console console;
    struct as_log log;
    struct as_workers *workers;
    struct peer *dispatcher, *controller;
    uint64_t oom_seen;
    int null;
    uint32_t pid; /* of the last message */
    uint32_t kind, number;
    uint64_t leaves;   /* of the last RUNS */
    const char *until; /* the loop stops when a peer has received this */
    uint32_t stopped;
};

AS_UNUSED static void on_message(void *ctx, const struct as_ctl_message *m)
{
    as_workers_handle(((struct world *)ctx)->workers, m);
}

AS_UNUSED static void on_channel_end(void *ctx)
{
    (void)ctx;
}

AS_UNUSED static const char *received(struct peer *p)
{
    as_buf_add(&p->received, "", 1);
    p->received.n--;
    return (char *)p->received.p;
}

AS_UNUSED static void on_readable(struct as_sock *s, int events AS_UNUSED)
{
    struct peer *p = AS_CONTAINER(s, struct peer, watch);
    struct world *w = p->world;
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message m;

    while (as_ctl_receive(s->fd, buf, &m) == 0) {
        as_buf_printf(&p->received, "%s %.*s %s %.*s;", as_ctl_type_name(m.type),
                      AS_STR_FMT(m.replica), as_ctl_state_name(m.state), AS_STR_FMT(m.text));
        if (m.pid)
            w->pid = m.pid;
        if (m.type == AS_CTL_KNOWN)
            w->number = m.number;
        if (m.type == AS_CTL_RUNS)
            w->leaves = m.id;
        if (m.type == AS_CTL_EXITED) {
            w->kind = m.kind;
            w->number = m.number;
        }
    }
    if (w->until && strstr(received(p), w->until))
        as_loop_stop(w->loop);
}

AS_UNUSED static void run_until(struct world *w, const char *said)
{
    w->until = said;
    if (!strstr(received(w->dispatcher), said) && !strstr(received(w->controller), said))
        as_loop_run(w->loop);
    w->until = NULL;
}

AS_UNUSED static struct peer *open_peer(struct world *w)
{
    static const struct as_channel_ops ops = {on_message, on_channel_end};
    struct peer *p = as_xalloc(sizeof(*p));
    int fd;

    p->world = w;
    assert_int_equal(as_channel_open(&p->channel, w->loop, &ops, w, &fd), 0);
    assert_int_equal(as_sock_open(&p->watch, w->loop, fd, on_readable), 0);
    return p;
}

AS_UNUSED static void on_peer_closed(struct as_sock *s)
{
    struct peer *p = AS_CONTAINER(s, struct peer, watch);

    as_buf_fini(&p->received);
    free(p);
}

AS_UNUSED static void close_peer(struct peer *p)
{
    as_channel_close(p->channel);
    as_sock_close(&p->watch, on_peer_closed);
}

AS_UNUSED static void on_stopped(void *ctx)
{
    struct world *w = ctx;

    w->stopped++;
    as_loop_stop(w->loop);
}

AS_UNUSED static struct world *open_world(void)
{
    struct world *w = as_xalloc(sizeof(*w));
    struct as_workers_conf conf = {.oom_seen = &w->oom_seen, .on_stopped = on_stopped, .ctx = w};

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    w->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    as_console_init(&w->console, w->loop, w->null);
    w->log = as_console_log(&w->console, AS_LOG_ERROR);
    assert_int_equal(as_workers_new(&w->workers, w->loop, &conf, &w->console, &w->log), 0);
    w->dispatcher = open_peer(w);
    w->controller = open_peer(w);
    as_workers_set_dispatcher(w->workers, w->dispatcher->channel);
    as_workers_set_controller(w->workers, w->controller->channel);
    return w;
}

AS_UNUSED static void close_world(struct world *w)
{
    as_workers_stop(w->workers, SIGKILL, 0);
    while (!w->stopped)
        as_loop_run(w->loop);
    as_workers_close(w->workers);
    close_peer(w->dispatcher);
    close_peer(w->controller);
    as_console_close(&w->console);
    as_loop_free(w->loop);
    as_workers_free(w->workers);
    close(w->null);
    free(w);
}

AS_UNUSED static void clear_received(struct world *w)
{
    as_buf_drop(&w->dispatcher->received, w->dispatcher->received.n);
    as_buf_drop(&w->controller->received, w->controller->received.n);
}

/* Through the socket, as dispatcher and controller do. */
AS_UNUSED static void send_message(struct peer *p, struct as_ctl_message m)
{
    assert_int_equal(as_ctl_send(p->watch.fd, &m), 0);
}

AS_UNUSED static struct as_ctl_message message_about(enum as_ctl_type type, const char *replica,
                                                     const char *token, const char *text)
{
    return (struct as_ctl_message){.type = type,
                                   .state = AS_CTL_WAITING_STATE,
                                   .replica = as_str_of(replica),
                                   .deployment = AS_STR("echo"),
                                   .token = as_str_of(token),
                                   .text = as_str_of(text)};
}

AS_UNUSED static void spawn(struct world *w, const char *replica, const char *token,
                            const char *script)
{
    struct as_ctl_message m = message_about(AS_CTL_SPAWN, replica, token, "");
    struct as_buf text;

    as_buf_init(&text);
    as_spawn_put(&text, AS_SPAWN_ARG, "/bin/sh");
    as_spawn_put(&text, AS_SPAWN_ARG, "-c");
    as_spawn_put(&text, AS_SPAWN_ARG, "%s", script);
    m.text = as_buf_slice(&text);
    send_message(w->controller, m);
    as_buf_fini(&text);
}

AS_UNUSED static void run_one(struct world *w)
{
    spawn(w, "echo-0", "t1", "exec sleep 1000");
    run_until(w, "SPAWNED echo-0");
    run_until(w, "NOTE echo-0 starting");
}

AS_UNUSED static void begin_another_dispatcher(struct world *w)
{
    as_workers_set_dispatcher(w->workers, NULL);
    close_peer(w->dispatcher);
    w->dispatcher = open_peer(w);
    as_workers_set_dispatcher(w->workers, w->dispatcher->channel);
    run_until(w, "TOLD");
}

#endif
