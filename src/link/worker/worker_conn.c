/* Connecting, the end of a link, and freeing the worker. */
#include "io/loop/clock.h"
#include "io/process/runtime.h"
#include "link/worker/worker_internal.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- the end of a link --- */

void as_worker_set_error(struct as_worker *w, struct as_str text)
{
    snprintf(w->error, sizeof(w->error), "%.*s", AS_STR_FMT(text));
}

static void drop_waiting(struct as_worker *w, struct as_worker_link *l)
{
    struct as_list *n;

    if (l->batch && !l->batch->n_open)
        free(l->batch);
    else if (l->batch)
        l->batch->n_expected = 0; /* its last open request frees it */
    l->batch = NULL;
    while ((n = as_list_pop(&l->waiting))) {
        struct as_worker_req *q = AS_LIST_ENTRY(n, struct as_worker_req, node);

        (void)as_worker_leave_batch(w, q);
        as_worker_stream_stop(w, q);
        as_worker_req_put(w, q);
    }
    l->n_waiting = l->n_open = l->n_packed = l->n_beyond = 0;
}

void as_worker_close_link(struct as_worker *w, struct as_worker_link *l, const char *why)
{
    if (!as_transport_is_open(l->transport))
        return;
    l->transport->ops->close(l->transport);
    l->state = AS_WORKER_DOWN;
    l->is_second = false;
    if (!as_worker_connected(w)) {
        w->link_lost = true;
        if (!w->error[0])
            as_worker_set_error(w, as_str_of(why));
    } else { /* the other link stays */
        if (l == w->newest)
            w->newest = as_worker_link_at(w, 0);
        w->error[0] = 0;
    }
    as_worker_rx_reset(w, l);
    as_outq_fini(&l->out);
    as_worker_fail_calls(w, l);
    AS_LIST_EACH_ENTRY(q, struct as_worker_req, node, &w->running) {
        if (q->link == l && as_worker_is_awaited(q))
            as_worker_req_cancel(w, q, 1);
    }
    as_worker_table_clear(&l->started);
    as_worker_drop_policy(w, l);
    l->number = ++w->n_links;
    drop_waiting(w, l);
    as_worker_drop_asks(w, l);
    as_worker_wake(w);
}

/* --- connecting --- */

static int find_server(struct as_worker *w)
{
    int err;

    if (w->conf.path)
        return 0;
    err = as_worker_locate_as(as_worker_is_driver(w) ? AS_RUNTIME_DRIVER : AS_RUNTIME_TOKEN,
                              w->conf.runtime_dir, w->conf.port, w->located.path, w->located.token);
    if (!err)
        return 0;
    snprintf(w->error, sizeof(w->error), "cannot find a server%s%s: %s",
             w->conf.runtime_dir ? " below " : "", w->conf.runtime_dir ? w->conf.runtime_dir : "",
             err == AS_ENOTFOUND ? "none runs there" : as_err_text(err));
    return err == AS_ENOTFOUND ? AS_EUNAVAILABLE : err;
}

/* Sends the page's descriptor with the first bytes. */
static int send_with_page(struct as_worker_link *l)
{
    size_t had = l->out.bytes;
    int err = l->transport->ops->flush(l->transport, &l->out, l->page.fd);

    if (err == AS_ENOMEM)
        return err;
    return err || l->out.bytes == had ? AS_EUNAVAILABLE : 0;
}

#define COMMON_CAPS (AS_CAP_CANCEL | AS_CAP_MOVE | AS_CAP_CALLS | AS_CAP_RESERVE)
#define WORKER_CAPS (COMMON_CAPS | AS_CAP_RECALL | AS_CAP_PAGE | AS_CAP_TENSOR_PARAMS)
#define DRIVER_CAPS (COMMON_CAPS | AS_CAP_DRIVER)

static int send_hello(struct as_worker *w, struct as_worker_link *l)
{
    struct as_frame_hello h = {.lo = AS_FRAME_VERSION,
                               .hi = AS_FRAME_VERSION,
                               .capabilities = as_worker_is_driver(w) ? DRIVER_CAPS : WORKER_CAPS,
                               .epoch = w->epoch,
                               .max_message = w->conf.max_message,
                               .pid = (uint32_t)getpid(),
                               .token = as_str_of(w->conf.path ? w->conf.token : w->located.token),
                               .replica = as_str_of(w->conf.replica),
                               .deployment = as_str_of(w->conf.deployment),
                               .peer = as_str_of(w->conf.peer)};

    as_frame_put_hello(&l->out, &h);
    as_worker_send_options(w, l);
    as_worker_send_traffic(w, l);
    as_worker_send_router(w, l);
    as_worker_send_services(w, l);
    for (uint32_t i = 0; i < w->n_models; i++) {
        l->registered[i] = false;
        if (as_frame_put_register(&l->out, &w->models[i].reg)) {
            as_worker_set_error(w, AS_STR("a model's signature is too large"));
            return AS_EINVALID;
        }
    }
    l->state = AS_WORKER_GREETING;
    l->n_registered = 0;
    l->refusal = 0;
    return send_with_page(l);
}

void as_worker_go_live(struct as_worker *w, struct as_worker_link *l)
{
    l->max_granted = 0;
    as_worker_send_policy_greeting(w, l); /* a policy process is ready when it can be asked */
    if (!as_worker_is_driver(w))
        as_worker_grant_slots(w, l);
    l->state = AS_WORKER_LIVE;
    as_worker_send_targets(w, l);
    as_worker_send_calls(w, l);
    as_worker_send(w);
    w->recent_clock = 0;
    w->runner_seen = as_clock_now();
    as_worker_arm_guard(w);
}

/* Reads, and completes the greeting if that is possible. AS_EAGAIN: more must come. */
static int read_greeting(struct as_worker *w)
{
    struct as_worker_link *l = w->newest;

    as_worker_read(w);
    if (l->refusal)
        return l->refusal;
    if (l->state != AS_WORKER_GREETING)
        return AS_EUNAVAILABLE;
    if (as_worker_is_greeted(w, l)) {
        as_worker_go_live(w, w->newest);
        return as_transport_is_open(l->transport) ? 0 : AS_EUNAVAILABLE;
    }
    if (l->out.bytes)
        as_worker_send(w);
    return AS_EAGAIN;
}

/* After the last step of connecting; err: its outcome. */
static int finish_connect(struct as_worker *w, int err)
{
    if (err)
        as_worker_close_link(w, w->newest, "connecting failed");
    w->link_lost = !as_transport_is_open(
        w->newest->transport); /* the end of an earlier link need not be reported any more */
    return err;
}

int as_worker_open_link(struct as_worker *w, struct as_worker_link *l)
{
    int err;

    l->wait_pong = l->greeted = false;
    l->top_stream = 0;
    l->last_target = 0;
    if (!l->targets && w->n_models) {
        l->targets = as_xalloc(w->n_models * sizeof(*l->targets));
        l->registered = as_xalloc(w->n_models * sizeof(*l->registered));
    }
    as_page_close(&l->page);
    err = as_worker_is_driver(w) ? 0 : as_page_open(&l->page);
    if (err)
        as_worker_set_error(w, AS_STR("cannot make the status page (memfd)"));
    if (!err)
        err = find_server(w);
    if (!err)
        err = as_worker_socket_open(&l->socket, w->conf.path ? w->conf.path : w->located.path);
    if (!err)
        err = send_hello(w, l);
    return err;
}

int as_worker_connect_begin(struct as_worker *w)
{
    int err;

    pthread_mutex_lock(&w->mu);
    AS_WORKER_LINKS(w, l) as_worker_close_link(w, l, "connecting anew");
    as_worker_expire_calls(w);
    w->error[0] = 0;
    w->models_fixed = true;
    w->runner = pthread_self();
    w->draining = false;
    atomic_store(&w->handover_requested, false);
    err = as_worker_open_link(w, w->newest);
    if (err)
        finish_connect(w, err);
    pthread_mutex_unlock(&w->mu);
    return err;
}

int as_worker_connect_step(struct as_worker *w)
{
    int err;

    pthread_mutex_lock(&w->mu);
    err = read_greeting(w);
    if (err != AS_EAGAIN)
        err = finish_connect(w, err);
    pthread_mutex_unlock(&w->mu);
    return err;
}

void as_worker_connect_abort(struct as_worker *w)
{
    pthread_mutex_lock(&w->mu);
    as_worker_set_error(w, AS_STR("the dispatcher did not answer in time"));
    finish_connect(w, AS_EUNAVAILABLE);
    pthread_mutex_unlock(&w->mu);
}

static void wait_readable(struct as_worker *w, as_ns time)
{
    struct pollfd p = {.events = POLLIN};

    pthread_mutex_lock(&w->mu);
    p.fd = w->newest->transport->fd;
    if (w->newest->out.bytes)
        p.events |= POLLOUT;
    pthread_mutex_unlock(&w->mu);
    (void)poll(&p, 1, (int)AS_MIN(time / AS_MS + 1, (as_ns)60000));
}

int as_worker_connect(struct as_worker *w, as_ns timeout)
{
    as_ns until = as_clock_now() + timeout, now;
    int err = as_worker_connect_begin(w);

    while (!err && (err = as_worker_connect_step(w)) == AS_EAGAIN) {
        now = as_clock_now();
        if (now >= until || atomic_load(&w->stop_requested)) {
            as_worker_connect_abort(w);
            return AS_EUNAVAILABLE;
        }
        wait_readable(w, until - now);
        err = 0;
    }
    return err;
}

const char *as_worker_error(const struct as_worker *w)
{
    return w->error;
}

void as_worker_drain_locked(struct as_worker *w)
{
    AS_WORKER_LINKS(w, l)
    {
        if (l->is_second)
            as_worker_close_link(w, l, "the worker ends");
        if (l->state != AS_WORKER_LIVE || w->draining || as_worker_is_driver(w))
            continue;
        as_frame_put_text(&l->out, AS_FRAME_DRAIN, (struct as_str){0});
        as_frame_put_ping(&l->out, AS_FRAME_PING, 1);
        l->wait_pong = true;
    }
    as_worker_send(w);
    w->draining = true;
    if (!as_worker_connected(w))
        as_worker_fail_unsent(w, "this worker ends");
    as_worker_wake(w);
}

void as_worker_drain(struct as_worker *w)
{
    pthread_mutex_lock(&w->mu);
    as_worker_drain_locked(w);
    pthread_mutex_unlock(&w->mu);
}

/* --- freeing --- */

void as_worker_destroy(struct as_worker *w)
{
    as_worker_forked(w);
    as_worker_reports_free(w);
    as_worker_policy_fini(w);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mu);
    as_arena_fini(&w->arena);
    AS_WORKER_LINKS(w, l)
    {
        free(l->targets);
        free(l->registered);
    }
    free(w->models);
    as_buf_fini(&w->services);
    free(w);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void as_worker_forked(struct as_worker *w)
{
    w->forked = true;
    AS_WORKER_LINKS(w, l)
    {
        if (as_transport_is_open(l->transport))
            l->transport->ops->close(l->transport);
        as_page_forked(&l->page);
    }
    close_fd(&w->wake_fd);
    close_fd(&w->ep_fd);
    close_fd(&w->timer_fd);
    close_fd(&w->guard_fd);
}

void as_worker_free(struct as_worker *w)
{
    if (!w || w->forked)
        return;
    as_worker_guard_stop(w);
    AS_ASSERT(as_list_empty(&w->running));
    AS_WORKER_LINKS(w, l)
    {
        if (l->state == AS_WORKER_LIVE)
            as_frame_put_text(&l->out, AS_FRAME_GOODBYE, AS_STR("the worker ends"));
    }
    as_worker_send(w);
    AS_WORKER_LINKS(w, l) as_worker_close_link(w, l, "freed");
    as_worker_fail_unsent(w, "this worker ends");
    as_worker_free_outs(w);
    AS_WORKER_LINKS(w, l)
    {
        as_worker_table_fini(&l->calls.outs);
        as_worker_table_fini(&l->started);
    }
    AS_LIST_EACH(n, &w->pool)
    {
        free(AS_LIST_ENTRY(n, struct as_worker_req, node));
    }
    AS_WORKER_LINKS(w, l)
    {
        as_worker_rx_fini(l);
        as_outq_fini(&l->out);
        as_page_close(&l->page);
    }
    as_worker_destroy(w);
}
