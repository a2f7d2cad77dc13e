/* bench/baselines/uv_echo.c — B0 on libuv: the same echo, its loop replaced by uv_poll.  uv_echo
 * PORT
 *
 * What it costs beyond b0_echo is what libuv costs.
 */
#include "echo_core.h"

#include <signal.h>
#include <uv.h>

/* uv_poll and own recv/send, as io/loop/sock does it: what is compared is the loop, not uv_stream.
 */
struct conn {
    uv_poll_t poll;
    struct as_echo *echo;
    bool was_blocked;
};

static void on_closed(uv_handle_t *h)
{
    struct conn *c = h->data;

    as_echo_free(c->echo);
    free(c);
}

static void on_ready(uv_poll_t *p, int status, int events)
{
    struct conn *c = p->data;

    if (!as_echo_turn(c->echo, status < 0 || (events & UV_READABLE))) {
        uv_close((uv_handle_t *)p, on_closed);
    } else if (as_echo_is_blocked(c->echo) != c->was_blocked) {
        c->was_blocked = !c->was_blocked;
        uv_poll_start(p, c->was_blocked ? UV_READABLE | UV_WRITABLE : UV_READABLE, on_ready);
    }
}

static void on_accept(uv_poll_t *listener, int status AS_UNUSED, int events AS_UNUSED)
{
    struct as_echo *e = as_echo_new((int)(intptr_t)listener->data);
    struct conn *c;

    if (!e)
        return;
    c = as_xalloc(sizeof(*c));
    c->echo = e;
    c->poll.data = c;
    /* our SETTINGS go out before the client has said anything */
    as_echo_turn(e, false);
    uv_poll_init(listener->loop, &c->poll, as_echo_fd(e));
    uv_poll_start(&c->poll, UV_READABLE, on_ready);
}

/* an orderly end, so that callgrind and perf write their files */
static void on_signal(uv_signal_t *s, int number AS_UNUSED)
{
    uv_stop(s->loop);
}

int main(int argc, char **argv)
{
    uv_loop_t *loop = uv_default_loop();
    uv_poll_t listener;
    uv_signal_t term;
    int fd = as_echo_listen(argc > 1 ? argv[1] : "0");

    uv_signal_init(loop, &term);
    uv_signal_start(&term, on_signal, SIGTERM);
    uv_poll_init(loop, &listener, fd);
    listener.data = (void *)(intptr_t)fd;
    uv_poll_start(&listener, UV_READABLE, on_accept);
    uv_run(loop, UV_RUN_DEFAULT);
    return 0;
}
