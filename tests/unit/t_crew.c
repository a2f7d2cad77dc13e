/* Specification of ctl/crew: what the controller says to what it hears. The test is the supervisor:
 * no process is started. */
#include "ctl/crew.h"

#include "ctl/exit_code.h"
#include "ctl/spawn.h"
#include "unit.h"

#include <signal.h>

struct world {
    struct as_loop *loop;
    struct as_log log;
    char *app; /* what is described: "DEPLOYMENT\tMODEL:VERSION\n" each */
    struct as_crew *crew;
    struct as_buf said;                /* "TYPE replica;" of each message but NOTE */
    char token[5][64];                 /* the newest of echo-0, echo-1 … */
    char note[5][256], reason[5][256]; /* and what else the supervisor keeps of it */
    uint32_t starts[5], number;        /* of the last FATAL, COMPLETE */
    enum as_ctl_state state[5];
    char status[256], application[256];
    struct as_buf spawn; /* the last SPAWN's text */
    uint64_t settled, before, rolled_back, back_to;
    const char *until; /* the loop stops when this was said */
    struct as_task turn;
};

static void say(void *ctx, const struct as_ctl_message *m)
{
    struct world *w = ctx;
    size_t i = m->replica.n ? (size_t)(m->replica.p[m->replica.n - 1] - '0') : 4;

    if (m->type == AS_CTL_SPAWN) {
        snprintf(w->token[i], sizeof(w->token[i]), "%.*s", AS_STR_FMT(m->token));
        w->starts[i] = m->restarts + 1;
        w->state[i] = AS_CTL_STARTING_STATE;
        as_buf_drop(&w->spawn, w->spawn.n);
        as_buf_add(&w->spawn, m->text.p, m->text.n);
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
    } else if (m->number) {
        w->number = m->number;
    }
    as_buf_printf(&w->said, "%s %.*s;", as_ctl_type_name(m->type), AS_STR_FMT(m->replica));
    as_buf_add(&w->said, "", 1);
    w->said.n--;
    if (w->until && strstr((char *)w->said.p, w->until))
        as_loop_stop(w->loop);
}

static void on_turn(struct as_task *t)
{
    as_loop_stop(AS_CONTAINER(t, struct world, turn)->loop);
}

/* One turn of the loop, at the end of which the crew acts. */
static void turn(struct world *w)
{
    as_loop_next(w->loop, &w->turn);
    as_loop_run(w->loop);
}

static void run_until(struct world *w, const char *said)
{
    w->until = said;
    if (!w->said.n || !strstr((char *)w->said.p, said))
        as_loop_run(w->loop);
    w->until = NULL;
}

static const char *said(struct world *w)
{
    as_buf_add(&w->said, "", 1);
    w->said.n--;
    return (char *)w->said.p;
}

static void forget_said(struct world *w)
{
    as_buf_drop(&w->said, w->said.n);
}

static as_ns start_timeout = 60 * AS_SEC;

static const struct as_spec_limits limits = {
    .bytes = 100000, .depth = 20, .applications = 10, .deployments = 10, .errors = 10};

static struct as_spec *spec_of(const char *text)
{
    struct as_spec *s;
    struct as_buf err = {0};

    assert_int_equal(as_spec_parse(&s, &limits, "test", as_str_of(text), &err), 0);
    return s;
}

/* What the code says, each deployment with so many replicas. */
static struct as_spec *described(const char *lines, uint32_t workers)
{
    struct as_spec_object *app;
    struct as_app code = {0};
    struct as_spec *s;
    struct as_buf err = {0};

    if (!lines)
        return spec_of("applications: []");
    assert_int_equal(as_app_parse(&code, as_str_of(lines), NULL, NULL, &err), 0);
    assert_int_equal(as_spec_of_code(&s, &limits, "default", "app.py", &code, &err), 0);
    as_app_fini(&code);
    app = as_spec_object(s->file, AS_SPEC_FILE_APPLICATIONS, 0);
    for (uint32_t i = 0; i < as_spec_count(app, AS_SPEC_APPLICATION_DEPLOYMENTS); i++)
        as_spec_set_int(as_spec_object(app, AS_SPEC_APPLICATION_DEPLOYMENTS, i),
                        AS_SPEC_DEPLOYMENT_NUM_REPLICAS, workers);
    return s;
}

static int no_load(void *ctx, uint64_t generation, struct as_spec **ret_s)
{
    (void)ctx;
    (void)generation;
    (void)ret_s;
    return AS_ENOTFOUND;
}

static void on_settled(void *ctx, const struct as_crew_news *n)
{
    struct world *w = ctx;

    w->settled = n->generation;
    w->before = n->before;
}

static void on_rolled_back(void *ctx, const struct as_crew_news *n)
{
    struct world *w = ctx;

    w->rolled_back = n->before;
    w->back_to = n->generation;
}

static void new_crew_of(struct world *w, struct as_spec *spec, uint32_t max_starting)
{
    static const struct as_crew_ops ops = {say, no_load, on_settled, on_rolled_back};
    struct as_crew_conf conf = {
        .recipe = {.python = "/usr/bin/python3",
                   .link = "/run/link.sock",
                   .debug_errors = true,
                   .stream_inputs = 3,
                   .stream_input_bytes = 4000},
        .folder = "/nonexistent",
        .gpus = "0-3",
        .cpus = "0-1",
        .max_starting = max_starting,
        .policy = {.restart = {.base = AS_MS, .max = 4 * AS_MS, .healthy = AS_SEC, .give_up = 2},
                   .start_timeout = start_timeout,
                   .configure_timeout = 60 * AS_SEC,
                   .drain_timeout = 20 * AS_SEC,
                   .drain_again = AS_SEC,
                   .stop_timeout = 10 * AS_SEC,
                   .roll_percent = 100,
                   .roll_failures = 2,
                   .roll_back = true},
        .seed = 1};

    assert_int_equal(as_crew_new(&w->crew, w->loop, &conf, &ops, w, &w->log), 0);
    if (spec)
        as_crew_want(w->crew, 1, spec);
}

static void new_crew(struct world *w, uint32_t workers, uint32_t max_starting)
{
    new_crew_of(w, described(w->app, workers), max_starting);
}

static struct world *open_world(const char *app, uint32_t workers, uint32_t max_starting)
{
    struct world *w = as_xalloc(sizeof(*w));

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    as_task_init(&w->turn, on_turn);
    if (app)
        w->app = as_str_dup(as_str_of(app));
    new_crew(w, workers, max_starting);
    return w;
}

static void close_world(struct world *w)
{
    as_crew_close(w->crew);
    as_loop_free(w->loop);
    as_crew_free(w->crew);
    free(w->app);
    as_buf_fini(&w->said);
    as_buf_fini(&w->spawn);
    free(w);
}

static void hear(struct world *w, struct as_ctl_message m)
{
    as_crew_hear(w->crew, &m);
}

static void dispatcher(struct world *w, enum as_ctl_state state)
{
    hear(w, (struct as_ctl_message){.type = AS_CTL_DISPATCHER, .state = state});
}

/* The end of what a controller is told at its start. */
static void told(struct world *w, bool complete)
{
    dispatcher(w, AS_CTL_READY_STATE);
    hear(w, (struct as_ctl_message){.type = AS_CTL_TOLD, .number = complete});
    turn(w);
}

static struct as_ctl_message of(struct world *w, enum as_ctl_type type, uint32_t i)
{
    static char name[5][8];

    snprintf(name[i], sizeof(name[i]), "echo-%u", i);
    return (struct as_ctl_message){.type = type,
                                   .state = w->state[i],
                                   .restarts = w->starts[i] ? w->starts[i] - 1 : 0,
                                   .replica = as_str_of(name[i]),
                                   .deployment = AS_STR("echo"),
                                   .token = as_str_of(w->token[i])};
}

static void ready(struct world *w, uint32_t i)
{
    w->state[i] = AS_CTL_READY_STATE;
    hear(w, of(w, AS_CTL_READY, i));
    turn(w);
}

static void exited(struct world *w, uint32_t i, int status, enum as_exit_kind kind)
{
    struct as_ctl_message m = of(w, AS_CTL_EXITED, i);

    w->state[i] = AS_CTL_WAITING_STATE;
    m.number = (uint32_t)status;
    m.kind = kind;
    m.text = AS_STR("how it ended\nlast words");
    hear(w, m);
}

/* The controller is killed, and a new one is told what the supervisor has: processes in those
 * states. */
static void new_controller(struct world *w, uint32_t n, uint32_t max_starting, bool complete)
{
    as_crew_close(w->crew);
    turn(w);
    as_crew_free(w->crew);
    new_crew(w, n, max_starting);
    forget_said(w);
    for (uint32_t i = 0; i < n; i++) {
        struct as_ctl_message m = of(w, AS_CTL_RUNS, i);

        if (m.state != AS_CTL_WAITING_STATE && m.state != AS_CTL_DOWN_STATE)
            m.pid = 1000 + i;
        m.text = as_str_of(w->note[i]);
        hear(w, m);
    }
    told(w, complete);
}

static struct world *open_ready(void)
{
    struct world *w = open_world("echo\techo:1\n", 2, 2);

    told(w, false);
    ready(w, 0);
    ready(w, 1);
    forget_said(w);
    return w;
}

static void a_worker_gets_its_place_token_and_name(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);
    char token[96];
    struct as_spawn s;

    told(w, false);
    assert_int_equal(as_spawn_read(&s, as_buf_slice(&w->spawn)), 0);
    assert_string_equal(s.argv[0], "/usr/bin/python3");
    assert_string_equal(s.argv[1], "-m");
    assert_string_equal(s.argv[2], "anyserve.worker");
    assert_string_equal(s.argv[3], "app.py");
    assert_string_equal(s.argv[4], "--deployment=echo");
    assert_string_equal(s.argv[5], "--stream-inputs=3");
    assert_string_equal(s.argv[6], "--stream-input-bytes=4000");
    assert_string_equal(s.argv[7], "--debug-errors");
    assert_null(s.argv[8]);
    assert_string_equal(s.env[0], "ANYSERVE_LINK=/run/link.sock");
    snprintf(token, sizeof(token), "ANYSERVE_TOKEN=%s", w->token[0]);
    assert_string_equal(s.env[1], token);
    assert_int_equal(strlen(w->token[0]), 32);
    assert_string_equal(s.env[2], "ANYSERVE_REPLICA=echo-0");
    assert_string_equal(s.env[4], "PYTHONUNBUFFERED=1");
    assert_string_equal(s.env[3],
                        "ANYSERVE_CONTEXT={\"replica\":\"echo-0\",\"deployment\":\"echo\","
                        "\"application\":\"default\",\"rank\":0,\"world_size\":1,"
                        "\"local_rank\":0,\"node_rank\":0,\"options\":{}}");
    assert_false(s.batch);
    as_spawn_fini(&s);
    close_world(w);
}

static void it_begins_when_all_was_told_and_tells_once_that_all_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 2, 2);

    turn(w);
    assert_string_equal(said(w), ""); /* it knows nothing yet */
    told(w, false);
    assert_string_equal(said(w), "SPAWN echo-0;SPAWN echo-1;SERVING ;");
    assert_string_not_equal(w->token[0], w->token[1]);
    ready(w, 0);
    assert_null(strstr(said(w), "COMPLETE"));
    ready(w, 1);
    assert_non_null(strstr(said(w), "COMPLETE"));
    assert_int_equal(w->number, 2);
    forget_said(w);
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    ready(w, 0);
    assert_null(strstr(said(w), "COMPLETE"));
    close_world(w);
}

static void a_server_without_workers_is_complete_with_its_dispatcher(void **state AS_UNUSED)
{
    struct world *w = open_world(NULL, 1, 1);

    hear(w, (struct as_ctl_message){.type = AS_CTL_TOLD});
    turn(w);
    assert_string_equal(said(w), "SERVING ;");
    dispatcher(w, AS_CTL_READY_STATE);
    turn(w);
    assert_string_equal(said(w), "SERVING ;COMPLETE ;");
    close_world(w);
}

static void a_killed_worker_comes_back_under_a_new_token(void **state AS_UNUSED)
{
    struct world *w = open_ready();
    char old[64];

    memcpy(old, w->token[0], sizeof(old));
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    assert_string_equal(said(w), "PLACE echo-0;SPAWN echo-0;");
    assert_string_not_equal(w->token[0], old);
    assert_int_equal(w->starts[0], 2);
    /* a late word about the dead one means nothing */
    memcpy(w->token[4], w->token[0], sizeof(old));
    memcpy(w->token[0], old, sizeof(old));
    forget_said(w);
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    turn(w);
    assert_string_equal(said(w), "");
    close_world(w);
}

static void a_start_has_a_deadline_while_there_is_a_dispatcher(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    start_timeout = 20 * AS_MS;
    as_crew_close(w->crew);
    turn(w);
    as_crew_free(w->crew);
    new_crew(w, 1, 1);
    start_timeout = 60 * AS_SEC;
    hear(w, (struct as_ctl_message){.type = AS_CTL_TOLD});
    run_until(w, "SERVING");
    forget_said(w);
    dispatcher(w, AS_CTL_READY_STATE);
    run_until(w, "KILL echo-0;");
    close_world(w);
}

static void an_application_that_cannot_start_is_told(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    told(w, false);
    exited(w, 0, AS_CODE_RAISED << 8, AS_EXIT_CODE);
    assert_non_null(strstr(said(w), "FATAL echo-0"));
    assert_int_equal(w->number, AS_CODE_RAISED);
    close_world(w);
    w = open_world("echo\techo:1\n", 1, 1);
    told(w, false);
    exited(w, 0, 1 << 8, AS_EXIT_CODE);
    assert_null(strstr(said(w), "FATAL"));
    forget_said(w);
    run_until(w, "SPAWN echo-0;");
    exited(w, 0, 1 << 8, AS_EXIT_CODE); /* the second one in a row */
    assert_int_equal(w->number, AS_CODE_FAILED);
    close_world(w);
    w = open_ready(); /* once it has served it stays */
    exited(w, 0, AS_CODE_RAISED << 8, AS_EXIT_CODE);
    assert_null(strstr(said(w), "FATAL"));
    close_world(w);
}

static void what_people_are_told_of_it(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 2, 2);

    told(w, false);
    assert_string_equal(w->status, "UPDATING CONFIG_UPDATE_STARTED ");
    assert_string_equal(w->application, "DEPLOYING  ");
    ready(w, 0);
    ready(w, 1);
    assert_string_equal(w->status, "HEALTHY CONFIG_UPDATE_COMPLETED ");
    assert_string_equal(w->application, "RUNNING  ");
    exited(w, 0, 11, AS_EXIT_CRASH);
    assert_non_null(strstr(w->status, "UNHEALTHY HEALTH_CHECK_FAILED how it ended"));
    assert_string_equal(w->application, "UNHEALTHY  ");
    w->status[0] = 0;
    new_controller(w, 2, 2, true); /* echo-0 is not there yet */
    assert_non_null(strstr(w->status, "UNHEALTHY"));
    ready(w, 0);
    assert_non_null(strstr(w->status, "HEALTHY "));
    close_world(w);
}

static void give_up(struct world *w, uint32_t i)
{
    exited(w, i, 1 << 8, AS_EXIT_CODE);
    while (w->state[i] != AS_CTL_DOWN_STATE) {
        forget_said(w);
        run_until(w, "SPAWN ");
        exited(w, i, 1 << 8, AS_EXIT_CODE);
    }
}

static void a_deployment_without_replicas_is_down_until_one_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    give_up(w, 0);
    assert_null(strstr(said(w), "DOWN"));
    give_up(w, 1);
    assert_non_null(strstr(said(w), "DOWN ;"));
    forget_said(w);
    run_until(w, "SPAWN echo-1;"); /* after its rest */
    assert_null(strstr(said(w), "UP"));
    ready(w, 1);
    assert_non_null(strstr(said(w), "UP ;"));
    close_world(w);
}

static void one_that_rests_is_revived(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    give_up(w, 0);
    forget_said(w);
    hear(w, (struct as_ctl_message){.type = AS_CTL_REVIVE});
    turn(w);
    assert_string_equal(said(w), "SPAWN echo-0;");
    close_world(w);
}

static void only_so_many_start_at_once(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 3, 2);

    told(w, false);
    assert_string_equal(said(w), "SPAWN echo-0;SPAWN echo-1;PLACE echo-2;SERVING ;");
    assert_string_equal(w->reason[2], "others are starting (--max-starting)");
    forget_said(w);
    ready(w, 1);
    assert_string_equal(said(w), "SPAWN echo-2;");
    close_world(w);
    w = open_world("echo\techo:1\n", 2, 1);
    told(w, false);
    forget_said(w);
    exited(w, 0, 1 << 8, AS_EXIT_CODE); /* a death makes room for the next in line */
    run_until(w, "SPAWN echo-1;");
    forget_said(w);
    run_until(w, "PLACE echo-0;"); /* it stands behind it */
    assert_string_equal(w->reason[0], "others are starting (--max-starting)");
    assert_null(strstr(said(w), "SPAWN echo-0;"));
    close_world(w);
}

static void each_deployment_gets_its_first_one_first(void **state AS_UNUSED)
{
    struct world *w = open_world("a\ta:1\nb\tb:1\n", 2, 4);

    told(w, false);
    assert_string_equal(said(w), "SPAWN a-0;SPAWN b-0;SPAWN a-1;SPAWN b-1;SERVING ;");
    close_world(w);
}

static void a_new_controller_starts_nothing_that_runs(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    new_controller(w, 2, 2, true);
    assert_string_equal(said(w), "SERVING ;");
    exited(w, 1, SIGKILL, AS_EXIT_KILLED); /* it had been READY, as the one before had seen */
    run_until(w, "SPAWN echo-1;");
    assert_int_equal(w->starts[1], 2);
    close_world(w);
}

static void a_new_controller_completes_what_was_not(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 3, 2);

    told(w, false);
    ready(w, 0);
    w->state[2] = AS_CTL_WAITING_STATE;
    w->starts[2] = 0;
    new_controller(w, 3, 2, false);
    assert_string_equal(said(w), "REMOVE echo-2;SPAWN echo-2;SERVING ;");
    ready(w, 1);
    ready(w, 2);
    assert_non_null(strstr(said(w), "COMPLETE"));
    close_world(w);
}

/* What the supervisor tells of one without a process; undecided: an EXITED follows. */
static void runs_dead(struct world *w, uint32_t i, bool undecided)
{
    struct as_ctl_message m = of(w, AS_CTL_RUNS, i);

    m.number = undecided;
    m.text = as_str_of(w->note[i]);
    hear(w, m);
}

static void an_end_that_nobody_saw_is_decided_about_now(void **state AS_UNUSED)
{
    struct world *w = open_ready();
    struct as_ctl_message m;

    w->state[0] = AS_CTL_WAITING_STATE;
    as_crew_close(w->crew);
    turn(w);
    as_crew_free(w->crew);
    new_crew(w, 2, 2);
    forget_said(w);
    runs_dead(w, 0, true);
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    m = of(w, AS_CTL_RUNS, 1);
    m.pid = 1001;
    m.text = as_str_of(w->note[1]);
    hear(w, m);
    told(w, true);
    run_until(w, "SPAWN echo-0;");
    assert_null(strstr(said(w), "echo-1"));
    assert_int_equal(w->starts[0], 2); /* the same place: its second process */
    close_world(w);
}

static void
what_was_given_up_is_tried_again_and_stays_down_until_it_is_ready(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);

    told(w, false);
    ready(w, 0);
    give_up(w, 0);
    as_crew_close(w->crew);
    turn(w);
    as_crew_free(w->crew);
    new_crew(w, 1, 1);
    forget_said(w);
    runs_dead(w, 0, false);
    hear(w, (struct as_ctl_message){.type = AS_CTL_STAYS, .deployment = AS_STR("echo")});
    told(w, true);
    assert_string_equal(said(w), "REMOVE echo-0;SPAWN echo-0;SERVING ;");
    ready(w, 0);
    assert_non_null(strstr(said(w), "UP ;"));
    close_world(w);
}

static void ranks_are_those_of_the_processes_that_run(void **state AS_UNUSED)
{
    struct world *w = open_ready();

    /* the note of echo-1 is lost: what it is cannot be known, and it has no place */
    w->note[1][0] = 0;
    new_controller(w, 2, 2, true);
    assert_string_equal(said(w), "KILL echo-1;SPAWN echo-1;SERVING ;");
    assert_non_null(strstr(w->note[0], " rank=0 "));
    assert_non_null(strstr(w->note[1], " rank=1 "));
    close_world(w);
}

static void what_has_no_place_is_ended(void **state AS_UNUSED)
{
    struct world *w = open_world("echo\techo:1\n", 1, 1);
    struct as_ctl_message m = {.type = AS_CTL_RUNS,
                               .state = AS_CTL_READY_STATE,
                               .pid = 7,
                               .replica = AS_STR("other-0"),
                               .token = AS_STR("t")};

    hear(w, m);
    assert_string_equal(said(w), "KILL other-0;");
    m.type = AS_CTL_EXITED;
    hear(w, m);
    assert_string_equal(said(w), "KILL other-0;REMOVE other-0;");
    close_world(w);
}

/* --- generations --- */

#define SHOP(more)                                                                                 \
    "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"          \
    " env: {A: '1'}, deployments: [{name: echo, num_replicas: 2, " more "}]}]"

static struct world *open_spec(const char *text)
{
    struct world *w = as_xalloc(sizeof(*w));

    assert_int_equal(as_loop_new(&w->loop, 0), 0);
    as_task_init(&w->turn, on_turn);
    new_crew_of(w, spec_of(text), 4);
    told(w, false);
    ready(w, 0);
    ready(w, 1);
    assert_string_equal(w->status, "HEALTHY CONFIG_UPDATE_COMPLETED ");
    forget_said(w);
    return w;
}

static void want(struct world *w, uint64_t generation, const char *text)
{
    as_crew_want(w->crew, generation, spec_of(text));
    turn(w);
}

static bool has(const char **list, const char *text)
{
    for (; *list; list++) {
        if (strcmp(*list, text) == 0)
            return true;
    }
    return false;
}

static void a_process_is_what_its_generation_says(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one, memory: 64M"));
    struct as_spawn s;

    assert_int_equal(w->settled, 1);
    assert_int_equal(as_spawn_read(&s, as_buf_slice(&w->spawn)), 0);
    assert_string_equal(s.argv[0], "/bin/echo-worker");
    assert_string_equal(s.argv[1], "--fast");
    assert_null(s.argv[2]);
    assert_string_equal(s.dir, "/srv");
    assert_int_equal(s.memory, 64 << 20);
    assert_true(has(s.env, "A=1"));
    as_spawn_fini(&s);
    want(w, 2, SHOP("version: two, env: {B: '2'}, num_gpus: 2"));
    assert_string_equal(said(w), "SPAWN echo-2;");
    assert_int_equal(as_spawn_read(&s, as_buf_slice(&w->spawn)), 0);
    assert_true(has(s.env, "B=2"));
    assert_true(has(s.env, "CUDA_VISIBLE_DEVICES=0,1"));
    assert_int_equal(s.memory, 0);
    as_spawn_fini(&s);
    /* one of the old ones dies: it is started again as it was */
    forget_said(w);
    exited(w, 0, SIGKILL, AS_EXIT_KILLED);
    run_until(w, "SPAWN echo-0;");
    assert_int_equal(as_spawn_read(&s, as_buf_slice(&w->spawn)), 0);
    assert_false(has(s.env, "B=2"));
    assert_int_equal(s.memory, 64 << 20);
    as_spawn_fini(&s);
    close_world(w);
}

static void what_does_not_differ_goes_on(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    want(w, 2, SHOP("version: one"));
    want(w, 3,
         "applications: [{name: shop, command: [/bin/echo-worker, --fast], working_dir: /srv,"
         " env: {A: '1'}, deployments: [{name: echo, num_replicas: 2, version: one}]},"
         " {name: other, command: [x], deployments: [{name: b, num_replicas: 0}]}]");
    assert_string_equal(said(w), "");
    assert_string_equal(w->application, "RUNNING  ");
    close_world(w);
}

static void an_update_that_fails_is_told_and_stays_taken_back(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));

    want(w, 2, SHOP("version: two"));
    assert_string_equal(said(w), "SPAWN echo-2;");
    exited(w, 2, 1 << 8, AS_EXIT_CODE);
    forget_said(w);
    run_until(w, "SPAWN echo-2;");
    exited(w, 2, 1 << 8, AS_EXIT_CODE);
    turn(w);
    assert_int_equal(w->rolled_back, 2);
    assert_int_equal(w->back_to, 1);
    assert_non_null(strstr(w->status, "DEPLOY_FAILED REPLICA_STARTUP_FAILED how it ended"));
    /* what the owner makes of it: a generation that is as the first one */
    forget_said(w);
    want(w, 3, SHOP("version: one"));
    assert_string_equal(said(w), "");
    assert_non_null(strstr(w->status, "DEPLOY_FAILED"));
    close_world(w);
}

static void what_is_removed_drains_and_is_forgotten(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));
    struct as_buf err = {0};

    want(w, 2, "applications: []");
    assert_string_equal(said(w), "DELETE ;RETIRE echo-1;RETIRE echo-0;");
    assert_string_equal(w->application, "DELETING  ");
    assert_int_equal(as_crew_restart(w->crew, AS_STR("echo"), &err), AS_ENOTFOUND);
    as_buf_fini(&err);
    hear(w, of(w, AS_CTL_RETIRED, 0));
    hear(w, of(w, AS_CTL_RETIRED, 1));
    exited(w, 0, SIGTERM, AS_EXIT_STOPPED);
    forget_said(w);
    exited(w, 1, SIGTERM, AS_EXIT_STOPPED);
    turn(w);
    assert_string_equal(said(w), "REMOVE echo-1;DELETE ;");
    assert_int_equal(w->number, 1);
    assert_string_equal(w->application, "");
    assert_int_equal(as_crew_check(w->crew, AS_STR("shop"), AS_STR("echo"), &err), AS_ENOTFOUND);
    as_buf_fini(&err);
    close_world(w);
}

static void what_a_new_controller_does_not_want_drains(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("version: one"));
    struct as_ctl_message m;

    as_crew_close(w->crew);
    turn(w);
    as_crew_free(w->crew);
    new_crew_of(w, spec_of("applications: []"), 4);
    forget_said(w);
    for (uint32_t i = 0; i < 2; i++) {
        m = of(w, AS_CTL_RUNS, i);
        m.pid = 1000 + i;
        m.text = as_str_of(w->note[i]);
        hear(w, m);
    }
    told(w, true);
    /* once more each, now that their links are known */
    assert_string_equal(said(w), "RETIRE echo-1;RETIRE echo-0;RETIRE echo-1;RETIRE echo-0;"
                                 "DELETE ;SERVING ;");
    close_world(w);
}

static void devices_that_there_are_not_are_a_failed_start(void **state AS_UNUSED)
{
    struct world *w = open_spec(SHOP("num_gpus: 2"));

    assert_non_null(strstr(w->note[0], " gpus=2000/0,1"));
    assert_non_null(strstr(w->note[1], " gpus=2000/2,3"));
    want(w, 2, SHOP("num_gpus: 2, version: two")); /* a third one would have to wait for a first */
    run_until(w, "REMOVE echo-2;");
    assert_non_null(strstr(w->status, "of 4 there are not so many free"));
    assert_int_equal(w->rolled_back, 2);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_gets_its_place_token_and_name),
        cmocka_unit_test(it_begins_when_all_was_told_and_tells_once_that_all_is_ready),
        cmocka_unit_test(a_server_without_workers_is_complete_with_its_dispatcher),
        cmocka_unit_test(a_killed_worker_comes_back_under_a_new_token),
        cmocka_unit_test(a_start_has_a_deadline_while_there_is_a_dispatcher),
        cmocka_unit_test(an_application_that_cannot_start_is_told),
        cmocka_unit_test(a_deployment_without_replicas_is_down_until_one_is_ready),
        cmocka_unit_test(what_people_are_told_of_it),
        cmocka_unit_test(one_that_rests_is_revived),
        cmocka_unit_test(only_so_many_start_at_once),
        cmocka_unit_test(each_deployment_gets_its_first_one_first),
        cmocka_unit_test(a_new_controller_starts_nothing_that_runs),
        cmocka_unit_test(a_new_controller_completes_what_was_not),
        cmocka_unit_test(an_end_that_nobody_saw_is_decided_about_now),
        cmocka_unit_test(what_was_given_up_is_tried_again_and_stays_down_until_it_is_ready),
        cmocka_unit_test(ranks_are_those_of_the_processes_that_run),
        cmocka_unit_test(what_has_no_place_is_ended),
        cmocka_unit_test(a_process_is_what_its_generation_says),
        cmocka_unit_test(what_does_not_differ_goes_on),
        cmocka_unit_test(an_update_that_fails_is_told_and_stays_taken_back),
        cmocka_unit_test(what_is_removed_drains_and_is_forgotten),
        cmocka_unit_test(what_a_new_controller_does_not_want_drains),
        cmocka_unit_test(devices_that_there_are_not_are_a_failed_start),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
