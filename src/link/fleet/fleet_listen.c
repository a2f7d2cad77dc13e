/* The fleet's listening socket, where workers connect. */
#include "io/loop/sock.h"
#include "link/fleet/upstream.h"

#include <errno.h>
#include <sys/socket.h>

static void log_starved(struct as_fleet *f, int err)
{
    uint64_t skipped;

    if (as_log_ratelimit_allows(&f->accept_log, as_loop_now(f->loop), AS_SOCK_STARVED_LOG_INTERVAL,
                                &skipped))
        as_log_event(f->log, AS_LOG_ERROR, "accept_failed", "reason=\"%s\" failures=%lu",
                     strerror(err), skipped + 1);
}

/* Accepts the whole backlog. Without free descriptors accept4 fails, and the rest stays in the
 * backlog until the next tick. */
static void on_listener(uv_poll_t *h, int status AS_UNUSED, int events AS_UNUSED)
{
    struct as_fleet *f = h->data;

    for (;;) {
        int fd = accept4(f->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && as_sock_is_starved(errno)) { /* as_fleet_resume_listener */
            log_starved(f, errno);
            uv_poll_stop(f->listener);
        }
        if (fd < 0)
            return;
        as_upstream_native.accept(f, fd);
    }
}

void as_fleet_resume_listener(struct as_fleet *f)
{
    if (f->listener && !uv_is_active((uv_handle_t *)f->listener))
        uv_poll_start(f->listener, UV_READABLE, on_listener);
}

int as_fleet_listen(struct as_fleet *f, int fd)
{
    if (f->listener)
        return 0;
    f->listen_fd = fd;
    f->listener = as_xalloc(sizeof(*f->listener));
    if (uv_poll_init(&f->loop->uv, f->listener, fd)) {
        free(f->listener);
        f->listener = NULL;
        return AS_EIO;
    }
    f->listener->data = f;
    as_fleet_resume_listener(f);
    as_fleet_set_flag(&f->accepting, true);
    as_fleet_republish(f);
    return 0;
}

static void free_listener(uv_handle_t *h)
{
    free(h);
}

void as_fleet_close_listener(struct as_fleet *f)
{
    if (f->listener)
        uv_close((uv_handle_t *)f->listener, free_listener);
    f->listener = NULL;
}

bool as_fleet_hand_over(struct as_fleet *f, uint32_t *ret_foreign)
{
    bool all = true;

    as_fleet_close_listener(f);
    f->hands_over = true;
    *ret_foreign = 0;
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &f->upstreams) {
        all = u->ops->hand_over(u, ret_foreign) && all;
    }
    return all;
}
