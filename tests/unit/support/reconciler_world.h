/* tests/unit/support/reconciler_world.h — a reconciler whose supervisor is the test: no process is
 * started. */
#ifndef AS_TESTS_RECONCILER_WORLD_H
#define AS_TESTS_RECONCILER_WORLD_H

#include "ctl/reconcile/reconciler.h"
#include "unit.h"

enum { SLOTS = 11, POLICY = SLOTS - 1 }; /* of echo-0 … echo-9; the last one of echo.policy-0 */

struct world {
    struct as_loop *loop;
    struct as_log log;
    char *app; /* the description of the code: "DEPLOYMENT\tMODEL:VERSION\n" each */
    struct as_reconciler *reconciler;
    struct as_buf messages;                    /* "TYPE replica;" of each message but NOTE */
    char token[SLOTS][64];                     /* the newest */
    char note[SLOTS][256], reason[SLOTS][256]; /* what else the supervisor stores */
    uint32_t starts[SLOTS], number;            /* of the last FATAL, COMPLETE, SIGNAL */
    enum as_ctl_state state[SLOTS];
    char status[256], application[256];
    struct as_buf spawn; /* the last SPAWN's text */
    struct as_buf ask;   /* the last ASK's text … */
    uint64_t ask_id;     /* … and its id */
    uint64_t stable, before, rolled_back, back_to;
    uint64_t scaled_since; /* generation; 0: echo is not scaled */
    int64_t scaled;
    const char *until; /* the loop stops when this was sent */
    struct as_task turn;
};

AS_UNUSED static void on_send(void *ctx, const struct as_ctl_message *m)
{
    struct world *w = ctx;
    bool is_policy = as_str_eq(as_id_name(m->replica), AS_STR("echo.policy-0"));
    size_t i = m->replica.n && !is_policy ? (size_t)(m->replica.p[m->replica.n - 1] - '0') : POLICY;

    if (m->type == AS_CTL_SPAWN) {
        snprintf(w->token[i], sizeof(w->token[i]), "%.*s", AS_STR_FMT(m->token));
        w->starts[i] = m->restarts + 1;
        w->state[i] = AS_CTL_STARTING_STATE;
        as_buf_drop(&w->spawn, w->spawn.n);
        as_buf_add(&w->spawn, m->text.p, m->text.n);
    } else if (m->type == AS_CTL_ASK) {
        w->ask_id = m->id;
        as_buf_set(&w->ask, m->text);
    } else if (m->type == AS_CTL_NOTE) {
        snprintf(w->note[i], sizeof(w->note[i]), "%.*s", AS_STR_FMT(m->text));
        return;
    } else if (m->type == AS_CTL_STATUS) {
        snprintf(m->deployment.n ? w->status : w->application, sizeof(w->status), "%.*s",
                 AS_STR_FMT(m->text));
        return;
    } else if (m->type == AS_CTL_PLACE) {
        snprintf(w->reason[i], sizeof(w->reason[i]), "%.*s", AS_STR_FMT(m->text));
        w->state[i] = m->state;
    } else if (m->number || m->type == AS_CTL_SIGNAL) {
        w->number = m->number;
    }
    if (m->deployment.n && m->replica.n && m->type != AS_CTL_DECLARE) /* a replica's id */
        assert_true(as_str_eq(as_id_application(m->replica), as_id_application(m->deployment)));
    as_buf_printf(&w->messages, "%s %.*s;", as_ctl_type_name(m->type),
                  AS_STR_FMT(as_id_name(m->replica)));
    as_buf_add(&w->messages, "", 1);
    w->messages.n--;
    if (w->until && strstr((char *)w->messages.p, w->until))
        as_loop_stop(w->loop);
}

AS_UNUSED static void on_turn(struct as_task *t)
{
    as_loop_stop(AS_CONTAINER(t, struct world, turn)->loop);
}

/* One turn of the loop, at the end of which the reconciler acts. */
AS_UNUSED static void turn(struct world *w)
{
    as_loop_defer_next_turn(w->loop, &w->turn);
    as_loop_run(w->loop);
}

AS_UNUSED static void run_until(struct world *w, const char *text)
{
    w->until = text;
    if (!w->messages.n || !strstr((char *)w->messages.p, text))
        as_loop_run(w->loop);
    w->until = NULL;
}

AS_UNUSED static const char *messages(struct world *w)
{
    as_buf_add(&w->messages, "", 1);
    w->messages.n--;
    return (char *)w->messages.p;
}

AS_UNUSED static void clear_messages(struct world *w)
{
    as_buf_drop(&w->messages, w->messages.n);
}

static as_ns start_timeout = 60 * AS_SEC, scaling_timeout = AS_SEC;
static const char *owner = "default"; /* the application of `echo` */

static const struct as_spec_limits limits = {
    .bytes = 100000, .depth = 20, .applications = 10, .deployments = 10, .errors = 10};

AS_UNUSED static struct as_spec *spec_of(const char *text)
{
    struct as_spec *s;
    struct as_buf err = {0};

    assert_int_equal(as_spec_parse(&s, &limits, "test", as_str_of(text), &err), 0);
    return s;
}

/* The spec of described code, each deployment with `workers` replicas. */
AS_UNUSED static struct as_spec *described(const char *lines, uint32_t workers)
{
    struct as_spec_object *app;
    struct as_declared code = {0};
    struct as_spec *s;
    struct as_buf err = {0};

    if (!lines)
        return spec_of("applications: []");
    assert_int_equal(as_declared_parse(&code, as_str_of(lines), NULL, NULL, &err), 0);
    assert_int_equal(as_spec_new_from_code(&s, &limits, "default", "app.py", &code, &err), 0);
    as_declared_fini(&code);
    app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0);
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); i++)
        as_spec_set_int(as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i),
                        AS_SPEC_DEPLOYMENT_NUM_REPLICAS, workers);
    return s;
}

AS_UNUSED static int no_load(void *ctx, uint64_t generation, struct as_spec **ret_s)
{
    (void)ctx;
    (void)generation;
    (void)ret_s;
    return AS_ENOTFOUND;
}

/* Valid until the next call. */
AS_UNUSED static struct as_str id_of(const char *name)
{
    static struct as_id id;

    return as_id_make(&id, as_str_of(owner), as_str_of(name));
}

AS_UNUSED static int64_t find_scale(void *ctx, uint64_t generation, struct as_str deployment)
{
    struct world *w = ctx;

    return w->scaled_since && generation >= w->scaled_since && as_str_eq(deployment, id_of("echo"))
               ? w->scaled
               : -1;
}

AS_UNUSED static void on_stable(void *ctx, const struct as_reconciler_outcome *n)
{
    struct world *w = ctx;

    w->stable = n->generation;
    w->before = n->before;
}

AS_UNUSED static void on_rolled_back(void *ctx, const struct as_reconciler_outcome *n)
{
    struct world *w = ctx;

    w->rolled_back = n->before;
    w->back_to = n->generation;
}

AS_UNUSED static void new_reconciler_of(struct world *w, struct as_spec *spec,
                                        uint32_t max_starting)
{
    static const struct as_reconciler_ops ops = {on_send, no_load, find_scale, on_stable,
                                                 on_rolled_back};
    struct as_reconciler_conf conf = {
        .worker_spec = {.python = "/usr/bin/python3",
                        .link = "/run/link.sock",
                        .debug_errors = true,
                        .stream_inputs = 3,
                        .stream_input_bytes = 4000},
        .folder = "/nonexistent",
        .gpus = "0-3",
        .cpus = "0-1",
        .memory = (uint64_t)1 << 30,
        .load_interval = 100 * AS_MS,
        .scaling_timeout = scaling_timeout,
        .scaling_interval = AS_MS,
        .max_starting = max_starting,
        .policy = {.restart = {.base = AS_MS, .max = 4 * AS_MS, .healthy = AS_SEC, .give_up = 2},
                   .start_timeout = start_timeout,
                   .configure_timeout = 60 * AS_SEC,
                   .drain_timeout = 20 * AS_SEC,
                   .drain_interval = AS_SEC,
                   .stop_timeout = 10 * AS_SEC,
                   .roll_percent = 100,
                   .roll_failures = 2,
                   .roll_back = true},
        .seed = 1};

    assert_int_equal(as_reconciler_new(&w->reconciler, w->loop, &conf, &ops, w, &w->log), 0);
    if (spec)
        as_reconciler_set_target(w->reconciler, 1, spec);
}

AS_UNUSED static void new_reconciler(struct world *w, uint32_t workers, uint32_t max_starting)
{
    new_reconciler_of(w, described(w->app, workers), max_starting);
}

AS_UNUSED static struct world *open_world(const char *app, uint32_t workers, uint32_t max_starting)
{
    struct world *w = as_xalloc(sizeof(*w));

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    as_task_init(&w->turn, on_turn);
    if (app)
        w->app = as_str_dup(as_str_of(app));
    new_reconciler(w, workers, max_starting);
    return w;
}

AS_UNUSED static void close_world(struct world *w)
{
    as_reconciler_close(w->reconciler);
    as_loop_free(w->loop);
    as_reconciler_free(w->reconciler);
    free(w->app);
    as_buf_fini(&w->messages);
    as_buf_fini(&w->spawn);
    as_buf_fini(&w->ask);
    free(w);
}

AS_UNUSED static void handle(struct world *w, struct as_ctl_message m)
{
    as_reconciler_handle(w->reconciler, &m);
}

AS_UNUSED static void send_dispatcher(struct world *w, enum as_ctl_state state)
{
    handle(w, (struct as_ctl_message){.type = AS_CTL_DISPATCHER, .state = state});
}

/* The last messages to a controller at its start. */
AS_UNUSED static void send_told(struct world *w, bool complete)
{
    send_dispatcher(w, AS_CTL_READY_STATE);
    handle(w, (struct as_ctl_message){.type = AS_CTL_TOLD, .number = complete});
    turn(w);
}

AS_UNUSED static struct as_ctl_message message_about(struct world *w, enum as_ctl_type type,
                                                     uint32_t i)
{
    static char name[SLOTS][32];

    snprintf(name[i], sizeof(name[i]), "%s#echo-%u", owner, i);
    return (struct as_ctl_message){.type = type,
                                   .state = w->state[i],
                                   .restarts = w->starts[i] ? w->starts[i] - 1 : 0,
                                   .replica = as_str_of(name[i]),
                                   .deployment = id_of("echo"),
                                   .token = as_str_of(w->token[i])};
}

AS_UNUSED static void send_ready(struct world *w, uint32_t i)
{
    w->state[i] = AS_CTL_READY_STATE;
    handle(w, message_about(w, AS_CTL_READY, i));
    turn(w);
}

AS_UNUSED static void send_exited(struct world *w, uint32_t i, int status, enum as_exit_kind kind)
{
    struct as_ctl_message m = message_about(w, AS_CTL_EXITED, i);

    w->state[i] = AS_CTL_WAITING_STATE;
    m.number = (uint32_t)status;
    m.kind = kind;
    m.text = AS_STR("how it ended\nlast words");
    handle(w, m);
}

/* Replaces the controller by a new one, which gets the supervisor's state: processes in their
 * states. */
AS_UNUSED static void new_controller(struct world *w, uint32_t n, uint32_t max_starting,
                                     bool complete)
{
    as_reconciler_close(w->reconciler);
    turn(w);
    as_reconciler_free(w->reconciler);
    new_reconciler(w, n, max_starting);
    clear_messages(w);
    for (uint32_t i = 0; i < n; i++) {
        struct as_ctl_message m = message_about(w, AS_CTL_RUNS, i);

        if (m.state != AS_CTL_WAITING_STATE && m.state != AS_CTL_DOWN_STATE)
            m.pid = 1000 + i;
        m.text = as_str_of(w->note[i]);
        handle(w, m);
    }
    send_told(w, complete);
}

AS_UNUSED static struct world *open_ready(void)
{
    struct world *w = open_world("echo\techo:1\n", 2, 2);

    send_told(w, false);
    send_ready(w, 0);
    send_ready(w, 1);
    clear_messages(w);
    return w;
}

#endif
