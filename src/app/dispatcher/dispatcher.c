/* The dispatcher process: sets up and tears down the loops, the fleet, the edges, the status page
 * and the control socket. */
#include "app/dispatcher/dispatcher.h"

#include "app/dispatcher/dispatcher_internal.h"
#include "app/dispatcher/exposure.h"
#include "app/options/conf.h"
#include "ctl/state/runtime_dir.h"
#include "conf/option/exit_code.h"
#include "io/loop/prompt.h"
#include "link/plugin/plugin.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void on_sigterm(uv_signal_t *h, int signum AS_UNUSED)
{
    as_dispatcher_drain(h->data);
}

static void set_driver_token(struct as_dispatcher *d)
{
    char token[AS_RUNTIME_TOKEN_LEN + 1];

    if (as_runtime_read_token_of(as_option_str(d->opts, AS_OPT_RUNTIME_DIR),
                                 (uint16_t)as_option_u64(d->opts, AS_OPT_PORT), AS_RUNTIME_DRIVER,
                                 token))
        as_log_event(&d->log, AS_LOG_WARN, "no_driver_token", "reason=\"no program can call\"");
    else
        as_fleet_set_driver_token(d->fleet, as_str_of(token));
}

static void set_join_token(struct as_dispatcher *d)
{
    char token[AS_RUNTIME_TOKEN_LEN + 1];

    /* without the token only workers that others start cannot join */
    if (as_runtime_read_token(as_option_str(d->opts, AS_OPT_RUNTIME_DIR),
                              (uint16_t)as_option_u64(d->opts, AS_OPT_PORT), token))
        as_log_event(&d->log, AS_LOG_WARN, "no_join_token", "reason=\"only our own workers join\"");
    else
        as_fleet_set_join_token(d->fleet, as_str_of(token));
}

/* Lane 0 uses the dispatch loop, which exists already; with --threads 1 it is the only one. */
static int set_up_lanes(struct as_dispatcher *d)
{
    struct as_edge_conf conf = as_conf_edge(d->opts);
    struct as_shm_conf shm = as_conf_shm(d->opts);

    if (as_option_bool(d->opts, AS_OPT_ALLOW_CLIENT_SHM) && as_shm_new(&d->shm, &shm))
        return AS_EIO;
    conf.shm = d->shm;
    conf.tls = d->reload.tls;
    conf.control = as_option_bool(d->opts, AS_OPT_ALLOW_CLIENT_CONTROL);
    conf.api_keys = as_option_str(d->opts, AS_OPT_API_KEYS)[0] != 0;
    conf.log = conf.control ? &d->log : NULL;
    if (as_option_bool(d->opts, AS_OPT_METRICS_ON_CLIENT_PORT))
        conf.status_page = &d->status_page;

    for (uint32_t i = 0; i < d->n_lanes; i++) {
        struct as_client_lane *l = &d->lanes[i];

        l->d = d;
        l->handover_in = l->handover_out = -1;
        if (i && as_loop_new(&l->loop, i))
            return AS_EIO;
        if (as_edge_new(&l->edge, l->loop, d->fleet, &conf, &d->budgets, &d->log))
            return AS_EIO;
        d->status_page.edges[d->status_page.n_edges++] = l->edge;
    }
    d->status_page.n_loops = d->n_lanes;
    as_dispatcher_keys_open(d);
    return 0;
}

/* The management service has an edge of its own, so that no number of clients keeps workers out. */
static int set_up_management(struct as_dispatcher *d)
{
    struct as_edge_conf conf = as_conf_management(d->opts);
    const char *file = as_option_str(d->opts, AS_OPT_MANAGEMENT_TOKEN_FILE);
    struct as_buf err = {0};

    /* the supervisor has checked the file, but it may have changed since, before this process was
     * started again */
    if (file[0] && as_token_read(file, d->token, &err) < 0)
        as_log_event(&d->log, AS_LOG_ERROR, "no_management_token",
                     "reason=\"%.*s\" action=\"calls over TCP are refused\"",
                     AS_STR_FMT(as_buf_slice(&err)));
    as_buf_fini(&err);
    conf.token = d->token[0] ? d->token : NULL;
    if (as_edge_new(&d->management, d->lanes[0].loop, d->fleet, &conf, &d->budgets, &d->log))
        return AS_EIO;
    d->status_page.edges[d->status_page.n_edges++] = d->management;
    return 0;
}

/* Its requests and connections are not counted: the metrics are those of clients and workers. */
static int set_up_status(struct as_dispatcher *d)
{
    struct as_edge_conf conf = as_conf_status(d->opts);

    conf.tls = d->status_page.tls = d->reload.tls;
    conf.status_page = &d->status_page;
    conf.status_keys = as_option_bool(d->opts, AS_OPT_STATUS_KEYS);
    d->status_budgets = as_conf_status_budgets();
    if (as_edge_new(&d->status, d->lanes[0].loop, NULL, &conf, &d->status_budgets, &d->log))
        return AS_EIO;
    for (uint32_t k = 0; k < d->fds->n_status; k++) {
        if (as_edge_listen(d->status, d->fds->status[k], false))
            return AS_EIO;
    }
    for (uint32_t k = 0; k < d->fds->n_status_tls; k++) {
        if (as_edge_listen(d->status, d->fds->status_tls[k], true))
            return AS_EIO;
    }
    return 0;
}

/* The order matters where a part needs an earlier one; nothing runs before the loops do. A failure
 * ends the process without a teardown. */
static int set_up(struct as_dispatcher *d, const struct as_dispatcher_fds *fds)
{
    struct as_fleet_conf conf = as_conf_fleet(d->opts);
    struct as_loop *loop;

    if (as_loop_new(&d->lanes[0].loop, 0))
        return AS_EIO;
    loop = d->lanes[0].loop;
    as_fleet_new(&d->fleet, loop, &conf, &as_dispatcher_fleet_ops, d, &d->log);
    as_fleet_set_budgets(d->fleet, &d->budgets.requests, &d->budgets.answers);
    as_status_page_init(&d->status_page, d->fleet, &d->budgets, as_loop_now(loop));
    as_timer_init(&d->end_timer, loop, as_dispatcher_on_end_timer);
    as_timer_init(&d->admit_timer, loop, as_dispatcher_on_admit_timeout);
    d->sigterm.data = d;
    if (uv_signal_init(&loop->uv, &d->sigterm) || uv_signal_start(&d->sigterm, on_sigterm, SIGTERM))
        return AS_EIO;
    as_outbox_init(&d->outbox, AS_OUTBOX_LIMIT);
    d->status_page.exposure = as_exposure_of(fds, d->opts);
    set_join_token(d);
    set_driver_token(d);
    if (as_dispatcher_reload_open(d) || set_up_status(d) || set_up_lanes(d) || set_up_management(d))
        return AS_EIO;
    return as_sock_open(&d->control, loop, fds->control, as_dispatcher_on_control);
}

static void *run_lane(void *arg)
{
    pthread_setname_np(pthread_self(), "as-lane"); /* for top -H, and for tests */
    as_loop_run(((struct as_client_lane *)arg)->loop);
    return NULL;
}

/* Lanes come before the fleet, since the fleet's handle of an edge must be closed before the fleet
 * is freed. Closing is asynchronous; as_loop_free runs a loop until all is closed. */
static void tear_down(struct as_dispatcher *d)
{
    for (uint32_t i = 1; i < d->n_lanes; i++) {
        pthread_join(d->lanes[i].thread, NULL);
        as_edge_close(d->lanes[i].edge);
        as_loop_free(d->lanes[i].loop);
        as_edge_free(d->lanes[i].edge);
    }
    as_edge_close(d->lanes[0].edge);
    as_edge_close(d->management);
    as_edge_stop(d->status);
    as_edge_close(d->status);
    as_fleet_free(d->fleet);
    as_outbox_flush(&d->outbox, d->control.fd);
    as_outbox_fini(&d->outbox);
    as_dispatcher_reload_close(d);
    as_dispatcher_keys_close(d);
    as_sock_close(&d->control, NULL);
    as_timer_close(&d->end_timer, NULL);
    as_timer_close(&d->admit_timer, NULL);
    as_timer_close(&d->heartbeat, NULL);
    uv_close((uv_handle_t *)&d->sigterm, NULL);
    as_loop_free(d->lanes[0].loop);
    as_edge_free(d->lanes[0].edge);
    as_edge_free(d->management);
    as_edge_free(d->status);
    as_status_page_fini(&d->status_page);
    as_tls_server_free(d->reload.tls);
    as_shm_free(d->shm);
    free(d->lanes);
}

/* The supervisor has copies of the listeners, so closing these refuses no client. */
static void close_listeners(struct as_dispatcher *d)
{
    const struct as_dispatcher_fds *fds = d->fds;

    if (!d->listeners_closed)
        as_dispatcher_close_listeners(d);
    for (uint32_t i = 0; i < fds->n_status; i++)
        close(fds->status[i]);
    for (uint32_t i = 0; i < fds->n_status_tls; i++)
        close(fds->status_tls[i]);
    for (uint32_t i = 0; i < fds->n_management; i++)
        close(fds->management[i]);
    close(fds->link);
}

int as_dispatcher_main(const struct as_option_set *opts, const struct as_dispatcher_fds *fds)
{
    struct as_dispatcher d = {.fds = fds, .opts = opts, .handover_in = -1, .handover_out = -1};
    char why[1024];

    as_conf_limit_core_dumps(opts);
    d.console = (struct as_console_shared){fds->log, "dispatcher", &d.journal, 0};
    d.log =
        as_console_shared_log(&d.console, (enum as_log_level)as_option_u64(opts, AS_OPT_LOG_LEVEL));
    if (as_journal_open(&d.journal, as_option_str(opts, AS_OPT_RUNTIME_DIR),
                        (uint16_t)as_option_u64(opts, AS_OPT_PORT), d.console.name,
                        as_option_u64(opts, AS_OPT_LOG_KEEP), 0) < 0)
        as_log_event(&d.log, AS_LOG_WARN, "no_journal", "reason=\"%s\"", strerror(errno));
    (void)as_prompt_set_slice(AS_PROMPT_SLICE);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the supervisor, which sends DRAIN */
    if (as_plugin_load_all(as_str_of(as_option_str(opts, AS_OPT_ROUTER_PLUGIN)), why,
                           sizeof(why))) {
        as_log_event(&d.log, AS_LOG_ERROR, "dispatcher_failed", "reason=\"--%s: %s\"",
                     as_option_key(AS_OPT_ROUTER_PLUGIN), why);
        return AS_EXIT_CODE_CONFIG;
    }
    d.n_lanes = (uint32_t)as_option_u64(opts, AS_OPT_THREADS);
    d.lanes = as_xalloc(d.n_lanes * sizeof(*d.lanes));
    d.budgets = as_conf_budgets(opts);
    if (set_up(&d, fds)) {
        as_log_event(&d.log, AS_LOG_ERROR, "dispatcher_failed",
                     "reason=\"cannot set up its loops: %s\"", strerror(errno));
        _exit(AS_EXIT_SYSTEM); /* without a teardown: only some parts exist */
    }
    for (uint32_t i = 1; i < d.n_lanes; i++) {
        if (pthread_create(&d.lanes[i].thread, NULL, run_lane, &d.lanes[i])) {
            as_log_event(&d.log, AS_LOG_ERROR, "dispatcher_failed", "reason=\"no thread\"");
            _exit(AS_EXIT_SYSTEM); /* other lanes may run by now */
        }
    }
    /* before the loop runs: the socket is empty, so the message is sent at once */
    as_dispatcher_send_text(&d, AS_CTL_SERVING, AS_STR(""), AS_STR(""), AS_STR(""));
    as_dispatcher_start_heartbeat(&d);
    as_loop_run(d.lanes[0].loop);
    tear_down(&d);
    close_listeners(&d);
    as_journal_close(&d.journal);
    return d.exit_code;
}
